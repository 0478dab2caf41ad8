"""Clones of a caller's session, and what is set in them."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException

from walrow.errors import OptionError
from walrow.spark.sessions import OwnSessions
from walrow.spark.targets.sql import filter_by_keys


class Remote:
    """A session of Spark Connect, its client, and its settings."""

    def __init__(self) -> None:
        self.client = self.conf = self
        self.clones: list[Remote] = []
        self.settings: dict[str, Any] = {}
        self.calls: list[str] = []

    def cloneSession(self) -> Remote:  # noqa: N802
        self.clones.append(Remote())
        return self.clones[-1]

    def release_session(self) -> None:
        self.calls.append("release")
        # The server is not there any more.
        raise PySparkException(errorClass="NO_ACTIVE_SESSION", messageParameters={})

    def close(self) -> None:
        self.calls.append("close")

    def set(self, name: str, value: Any) -> None:
        self.settings[name] = value


def test_clones_have_one_user_at_a_time_and_end() -> None:
    caller = Remote()
    with OwnSessions(caller) as sessions:
        assert not caller.clones
        with sessions.one() as first, sessions.one() as second:
            assert first is not second
        with sessions.one() as again:
            assert again in caller.clones
        with pytest.raises(KeyError), sessions.one() as failed:
            raise KeyError
        assert failed.calls == ["release", "close"]
        with sessions.one() as other, sessions.one() as another:
            assert failed not in (other, another)
        assert len(caller.clones) == 3
        (idle,) = {first, second} - {failed}
        assert idle.calls == []
    assert [clone.calls for clone in caller.clones] == [["release", "close"]] * 3
    assert caller.calls == []


def test_a_spark_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "3.5.6")
    with (
        OwnSessions(Remote()) as sessions,
        pytest.raises(
            OptionError, match=r"Spark 4\.0 or later, and PySpark is 3\.5\.6"
        ),
        sessions.one(),
    ):
        pass


def test_a_bloom_filter_that_would_be_too_large() -> None:
    session = Remote()
    names = [
        f"spark.sql.optimizer.runtime.bloomFilter.{name}"
        for name in ("enabled", "expectedNumItems", "maxNumItems", "maxNumBits")
    ]
    found = []
    # Tables have a session one after the other.
    for rows in (10, 1 << 25, (1 << 25) + 1, 10):
        filter_by_keys(session, rows)
        found.append([session.settings[name] for name in names[:2]])
        largest = [session.settings[name] for name in names[2:]]
        assert largest == [1 << 25, 10 << 25]
    assert found == [["true", 10], ["true", 1 << 25], ["false", 1 << 25], ["true", 10]]
