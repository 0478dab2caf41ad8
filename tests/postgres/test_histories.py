"""Histories are the tables of a server as of every time when the server was asked.

The seed of a random workload is in the name of the test; `WALROW_SEED=NUMBER` sets one.
"""

# ruff: noqa: S608  (the statements have only the test's own parts)

from __future__ import annotations

import datetime as dt
import os
import random
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("deltalake", reason="needs deltalake: pip install deltalake")

import deltalake
import pyarrow as pa

import walrow
import walrow.delta
from servers.churn import KEYS, Churn
from servers.live_log import history

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from servers import EmbeddedServer

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

_RUN = random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID"))  # noqa: S311
SEED = int(os.environ.get("WALROW_SEED") or _RUN.randrange(1 << 32))
Rows = Counter[tuple[Any, ...]]


@pytest.mark.parametrize(
    "seed",
    [SEED, *(pytest.param(SEED + at, marks=pytest.mark.slow) for at in range(1, 9))],
)
def test_histories_are_the_tables_of_the_server(
    server: EmbeddedServer, tmp_path: Path, seed: int
) -> None:
    with history(server, tmp_path / "log") as source:
        churn = Churn(source, seed)
        points: list[tuple[dt.datetime, dict[str, tuple[list[str], Rows]]]] = []
        since: dict[str, dt.datetime] = {}

        def look() -> None:
            """Reads all tables. No transaction is open, so these are the rows at this time."""
            found = {}
            for name in churn.tables:
                cursor = source.conn.execute(f"SELECT * FROM {name}")
                columns = [it.name for it in cursor.description or ()]
                rows = Counter(tuple(map(plain, row)) for row in cursor.fetchall())
                found[name] = (columns, rows)
            (now,) = source.conn.execute("SELECT clock_timestamp()").fetchone() or ()
            points.append((now, found))

        def apply(name: str) -> None:
            done = walrow.delta.apply_changes(
                tmp_path / "log",
                table=f"public.{name}",
                target=f"delta:{tmp_path}/{name}",
                keys=KEYS[name],
                mode="history",
            )
            assert done.since is not None
            since[name] = done.since

        for at in range(60):
            churn.transaction()
            look()
            if at % 9 == 0:
                churn.add_column()
            if at in (20, 40):
                source.load(*churn.random.sample(list(churn.tables), 2))
                look()
            if at % 12 == 11:
                source.take(binary=at % 24 == 11)
                for name in known(tmp_path / "log", churn.tables):
                    if churn.random.random() < 0.7:
                        apply(name)
        source.take()
        names = known(tmp_path / "log", churn.tables)
        for name in names:
            apply(name)
        compared = 0
        for name in names:
            rows = pa.table(
                deltalake.DeltaTable(str(tmp_path / name)).scan()
            ).to_pylist()
            for time, tables in points:
                if time < since[name]:
                    continue
                columns, wanted = tables[name]
                assert as_of(rows, columns, time) == wanted, (name, time)
                compared += sum(wanted.values())
            # The log has the same state, at another time.
            time = churn.random.choice([row["_valid_from"] for row in rows])
            try:
                state = walrow.Log(tmp_path / "log").state(
                    f"public.{name}", as_of=time, profile="spark"
                )
            except walrow.errors.LogError as error:
                # The target has begun before the first load.
                assert error.code == "too_early"  # noqa: PT017
                continue
            table = pa.table(state)
            found = Counter(
                tuple(map(plain, row.values())) for row in table.to_pylist()
            )
            assert as_of(rows, table.column_names, time) == found
        assert compared > 1000


def known(log: Path, names: Iterable[str]) -> list[str]:
    """The tables that have changes in a log."""
    tables = {it.name for it in walrow.Log(log).tables() if it.versions}
    return [name for name in names if f"public.{name}" in tables]


def as_of(rows: list[dict[str, Any]], columns: list[str], time: dt.datetime) -> Rows:
    """The predicate of a history, in Python."""
    return Counter(
        tuple(plain(row[name]) for name in columns)
        for row in rows
        if row["_valid_from"] <= time
        and (row["_valid_to"] is None or row["_valid_to"] > time)
    )


def plain(value: Any) -> Any:
    """A value that can be compared: digits count, and NaN equals NaN."""
    if isinstance(value, float | Decimal):
        return str(value)
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC)
    return value
