"""The applier of `walrow run` on logs whose transactions are written out, and `walrow status` of them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import shutil
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest

from walrow._run.config import Loaded

pytest.importorskip("pyarrow")
pytest.importorskip("psycopg")
pytest.importorskip("deltalake", reason="needs deltalake: pip install deltalake")

import deltalake
import pyarrow as pa

import walrow
from targets.written_tables import WrittenTables
from walrow._log.left import Absence, Left
from walrow._log.marks import Why
from walrow._log.needs import write_published
from walrow._log.published import Published
from walrow._log.requests import cancel_load, complete, pending, request
from walrow._log.status_record import (
    FOLDER,
    Part,
    Phase,
    PhaseName,
    StatusFile,
    TargetFacts,
)
from walrow._lsn import Lsn
from walrow._run import applier as applier_module
from walrow._run import status as run_status
from walrow._run.applier import Applier, Report
from walrow._run.checking import _other_source, check
from walrow._run.engines import Tables, _refuse_gone
from walrow._run.reading import parse
from walrow._run.records import (
    READER,
    TARGETS,
    Recorded,
    RunFolder,
    forget_target,
    read_targets,
)
from walrow._run.status import Status
from walrow.delta.snapshots import Place

HEAD = """\
[source]
slot = "s"
publications = ["p"]
[log]
path = "log"
[[target]]
every = 0.001
"""
TARGET = 'tables = ["sales.*"]\nto = "delta:lake/{table}"\n'


@pytest.fixture
def log(tmp_path: Path) -> WrittenTables:
    return WrittenTables(tmp_path / "log")


def loaded_from(folder: Path, target: str = TARGET) -> Loaded:
    return parse(HEAD + target, folder / "shop.toml", is_private=True)


def no_spark() -> Tables:
    text = "no table needs Spark"
    raise AssertionError(text)


def applier_of(
    log: WrittenTables, target: str = TARGET
) -> tuple[Applier, list[Report]]:
    said: list[Report] = []
    made = Applier(
        loaded_from(log.path.parent, target),
        stop=threading.Event(),
        spark=no_spark,
        listener=said.append,
        status=WrittenStatus(log.path, Part.APPLY),
    )
    return made, said


class WrittenStatus(StatusFile):
    """A status record that is written at once. The last one for a log takes its place."""

    of: ClassVar[dict[Path, WrittenStatus]] = {}

    def __init__(self, log: Path, part: Part) -> None:
        if (before := self.of.get(log)) is not None:
            before._let_go()
        super().__init__(log, part)
        self.of[log] = self

    def _wake_writer(self) -> None:
        self._write(self._opened())


def status_of(path: Path, *, is_running: bool = False) -> Status:
    """The status of a log without a receiver, while its applier runs or after its end."""
    applier = WrittenStatus.of.get(path)
    if applier is None and is_running:
        applier = WrittenStatus(path, Part.APPLY)
    if applier is not None:
        targets = () if applier.record is None else applier.record.targets
        applier.post(
            Phase(PhaseName.IDLE) if is_running else Phase(PhaseName.STOPPED),
            1,
            targets=targets,
        )
        if not is_running:
            applier._let_go()
    return run_status.status_of(path, allow_stopped=True)


def round_of(made: Applier) -> dict[str, str | None]:
    """The problems of all tables after a round."""
    time.sleep(0.002)
    return {it.table: it.problem for it in made.round().reports}


def rows(log: WrittenTables, table: int) -> list[dict[str, Any]]:
    path = log.path.parent / "lake" / f"t{table}"
    found: list[dict[str, Any]] = pa.table(
        deltalake.DeltaTable(path).scan()
    ).to_pylist()
    return sorted(found, key=lambda it: it["id"])


def foreign(log: WrittenTables, table: int) -> Path:
    """A target with rows that walrow did not write."""
    path = log.path.parent / "lake" / f"t{table}"
    deltalake.write_deltalake(path, pa.table({"id": [9], "n": [9]}))
    return path


class _KilledError(BaseException):
    """Instead of kill -9."""


def _killed(*_: Any) -> None:
    raise _KilledError


def recorded_in(log: WrittenTables) -> list[Recorded]:
    return read_targets(walrow.Log(log.path).read_object)


def test_tables_are_applied_and_recorded(log: WrittenTables) -> None:
    log.insert(1, 2)
    made, said = applier_of(log)
    assert round_of(made) == {"sales.t1": None, "sales.t2": None}
    assert [it.table for it in said] == ["sales.t1", "sales.t2"]
    assert rows(log, 1) == [{"id": 1, "n": 1}]
    log.insert(2, row=("2", "2"))
    assert round_of(made) == {"sales.t1": None, "sales.t2": None}
    assert [it.table for it in said[2:]] == ["sales.t2"]
    assert len(rows(log, 2)) == 2
    end = walrow.Log(log.path).end
    for it in read_targets(walrow.Log(log.path).read_object):
        assert (it.engine, it.mode, it.keys, it.in_file) == (
            "delta",
            "current",
            ("id",),
            True,
        )
    # A new process goes on where the targets are.
    again, said = applier_of(log)
    assert round_of(again) == {"sales.t1": None, "sales.t2": None}
    assert said == []
    found = status_of(log.path)
    assert [(it.table, it.end, it.has_all) for it in found.targets] == [
        ("sales.t1", end, True),
        ("sales.t2", end, True),
    ]
    assert found.reasons == ()


def test_an_error_of_one_table_stops_no_other_and_is_tried_again(
    log: WrittenTables,
) -> None:
    log.insert(1, 2, 3)
    place = foreign(log, 2)
    made, said = applier_of(log)
    first = round_of(made)
    assert [name for name, problem in first.items() if problem] == ["sales.t2"]
    assert len(rows(log, 1)) == len(rows(log, 3)) == 1
    # It is said once, and kept for others.
    assert [it.table for it in said if it.problem] == ["sales.t2"]
    round_of(made)
    assert len([it for it in said if it.problem]) == 1
    found = status_of(log.path)
    (reason,) = found.reasons
    assert reason.startswith("sales.t2: ")
    assert "it has rows, and does not record which changes they have" in reason
    (failed,) = [it for it in found.targets if it.error is not None]
    assert (failed.table, failed.target, failed.is_current) == (
        "sales.t2",
        f"delta:{place}",
        False,
    )
    # Nothing that it needs is removed meanwhile.
    (reader,) = walrow.Log(log.path).readers()
    assert (reader.name, int(reader.position)) == (READER, 0)
    shutil.rmtree(place)
    assert round_of(made)["sales.t2"] is None
    assert rows(log, 2) == [{"id": 1, "n": 1}]
    assert status_of(log.path).reasons == ()
    time.sleep(1.1)
    log.insert(1, row=("2", "2"))
    round_of(made)
    opened = walrow.Log(log.path)
    assert opened.readers()[0].position == opened.end


def test_an_error_of_an_earlier_process_is_over_when_its_table_is_right(
    log: WrittenTables,
) -> None:
    log.insert(1)
    place = f"delta:{log.path.parent}/lake/t1"
    failed = TargetFacts(
        20001,
        "sales.t1",
        place,
        problem="the disk is full",
        since=dt.datetime.now(dt.UTC),
    )
    WrittenStatus(log.path, Part.APPLY).post(
        Phase(PhaseName.IDLE), 1, targets=(failed,)
    )
    (reason,) = status_of(log.path).reasons
    assert reason.startswith("sales.t1: the disk is full")
    made, _ = applier_of(log)
    round_of(made)
    assert status_of(log.path).reasons == ()


def test_an_error_of_a_library_is_without_its_text(
    log: WrittenTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.insert(1)

    def fails(*_arguments: Any, **_options: Any) -> None:
        text = "a value of a row"
        raise RuntimeError(text)

    monkeypatch.setattr("walrow.delta.applying.Call.run", fails)
    made, _ = applier_of(log)
    problem = round_of(made)["sales.t1"]
    assert problem == (
        "RuntimeError: its text is left out, as it may have values of rows"
    )


def test_an_engine_that_is_not_there_is_an_error_of_its_tables(
    log: WrittenTables,
) -> None:
    log.insert(1, 2)
    more = TARGET.replace("sales.*", "sales.t1") + (
        '[[target]]\ntables = ["sales.t2"]\nto = "delta:other/{table}"\nengine = "spark"\nevery = 0.001\n'
    )
    made, _ = applier_of(log, more)
    found = round_of(made)
    assert found["sales.t1"] is None
    assert (found["sales.t2"] or "").startswith("AssertionError")
    # Java that was killed ends the process, after the others were applied.
    log.insert(1, row=("2", "2"))

    class NoJava:
        def __getattr__(self, name: str) -> Any:
            raise ConnectionRefusedError

    def gone(*_arguments: Any, **_options: Any) -> None:
        _refuse_gone(type("S", (), {"_jvm": NoJava()})())

    made._engines["spark"] = Tables(gone, stop=threading.Event())
    time.sleep(0.002)
    with pytest.raises(walrow.Error, match="its Java process is gone"):
        made.round()
    assert len(rows(log, 1)) == 2
    assert len(status_of(log.path).reasons) == 1


def test_only_targets_with_news_are_looked_at(
    log: WrittenTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.insert(*range(1, 31))
    made, said = applier_of(log)
    round_of(made)
    looked: set[str] = set()
    look = Place.look

    def counted(self: Place) -> Any:
        looked.add(self.target.rpartition("/")[2])
        return look(self)

    monkeypatch.setattr(Place, "look", counted)
    log.insert(4, 5, 6, row=("2", "2"))
    assert set(round_of(made).values()) == {None}
    assert looked == {"t4", "t5", "t6"}
    assert [it.table for it in said[30:]] == ["sales.t4", "sales.t5", "sales.t6"]
    looked.clear()
    round_of(made)
    assert looked == set()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_three_of_three_hundred_cost_three(log: WrittenTables) -> None:
    log.insert(*range(1, 301))
    made, _ = applier_of(log)
    assert set(round_of(made).values()) == {None}
    times = []
    for number in range(2, 12):
        log.insert(4, 5, 6, row=(str(number), "2"))
        before = time.process_time()
        round_of(made)
        times.append(time.process_time() - before)
    # 50 ms of CPU time for each of the three, and what all targets share.
    assert min(times) < 3 * 0.05 + 0.1


def test_a_target_that_is_not_in_the_file_any_more(log: WrittenTables) -> None:
    log.insert(1, 2)
    made, _ = applier_of(log)
    round_of(made)
    made, _ = applier_of(log, TARGET + 'exclude = ["sales.t2"]\n')
    log.insert(1, 2, row=("2", "2"))
    assert list(round_of(made)) == ["sales.t1"]
    # It is left as it is.
    assert (len(rows(log, 1)), len(rows(log, 2))) == (2, 1)
    found = {it.table: it for it in status_of(log.path).targets}
    assert (found["sales.t1"].in_file, found["sales.t2"].in_file) == (True, False)
    assert not found["sales.t2"].is_current
    assert status_of(log.path).reasons == ()
    place = found["sales.t2"].target
    assert forget_target(log.path, place)
    assert not forget_target(log.path, place)
    assert [it.table for it in status_of(log.path).targets] == ["sales.t1"]


def test_a_changed_place_or_key_is_an_error_of_its_tables(log: WrittenTables) -> None:
    log.insert(1)
    made, _ = applier_of(log)
    round_of(made)
    elsewhere = TARGET.replace("lake/{table}", "other/{table}")
    # A place that is new is taken.
    made, _ = applier_of(log, elsewhere)
    assert round_of(made) == {"sales.t1": None}
    assert (log.path.parent / "other" / "t1").exists()
    # The first one exists, and is behind.
    forget_target(log.path, f"delta:{log.path.parent}/lake/t1")
    made, _ = applier_of(log)
    problem = round_of(made)["sales.t1"]
    assert problem is not None
    assert f"the target of sales.t1 was delta:{log.path.parent}/other/t1 so far" in (
        problem
    )
    made, _ = applier_of(log, elsewhere + 'keys = ["n"]\n')
    problem = round_of(made)["sales.t1"]
    assert problem is not None
    assert "the key of sales.t1 was (id) so far, not (n)" in problem
    # A new target is asked for nothing. This log lacks the key.
    shutil.rmtree(log.path.parent / "other")
    problem = round_of(made)["sales.t1"]
    assert problem is not None
    assert "old images lack the key (n)" in problem


def test_a_new_place_survives_a_kill_before_it_is_recorded(
    log: WrittenTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.insert(1)
    made, _ = applier_of(log)
    round_of(made)
    for other in (
        TARGET + 'mode = "changes"\n',
        TARGET.replace("lake/{table}", "other/{table}"),
    ):
        shutil.rmtree(log.path.parent / "lake", ignore_errors=True)
        made, _ = applier_of(log, other)
        with monkeypatch.context() as patch:
            patch.setattr(Applier, "_record", _killed)
            with pytest.raises(_KilledError):
                made.round()
        log.insert(1, row=("2", "2"))
        made, _ = applier_of(log, other)
        assert round_of(made) == {"sales.t1": None}
    assert {(it.place, it.mode, it.in_file) for it in recorded_in(log)} == {
        (f"delta:{log.path.parent}/lake/t1", "changes", False),
        (f"delta:{log.path.parent}/other/t1", "current", True),
    }


def test_an_error_is_over_when_the_file_does_not_mean_its_table(
    log: WrittenTables,
) -> None:
    log.insert(1, 2)
    foreign(log, 2)
    made, _ = applier_of(log)
    round_of(made)
    assert len(status_of(log.path).reasons) == 1
    made, _ = applier_of(log, TARGET + 'exclude = ["sales.t2"]\n')
    round_of(made)
    found = status_of(log.path)
    assert found.reasons == ()
    assert [(it.table, it.in_file, it.error) for it in found.targets] == [
        ("sales.t1", True, None),
        ("sales.t2", False, None),
    ]


def test_a_table_that_is_refused_keeps_what_it_needs(log: WrittenTables) -> None:
    log.insert(1)
    made, _ = applier_of(log)
    round_of(made)
    (kept,) = walrow.Log(log.path).readers()
    log.insert(1, 2, row=("2", "2"))
    twice = 'tables = ["sales.t1"]\nto = "delta:other/{table}"\n'
    made, _ = applier_of(log, f"{TARGET}[[target]]\n{twice}")
    problems = round_of(made)
    assert "both claim it" in (problems["sales.t1"] or "")
    assert problems["sales.t2"] is None
    (reader,) = walrow.Log(log.path).readers()
    assert (reader.name, reader.position) == (READER, kept.position)
    # It is over.
    made, _ = applier_of(log)
    assert round_of(made) == {"sales.t1": None, "sales.t2": None}
    (reader,) = walrow.Log(log.path).readers()
    assert reader.position == walrow.Log(log.path).end
    assert len(rows(log, 1)) == 2


def test_a_server_that_is_away_makes_no_pattern_wrong(log: WrittenTables) -> None:
    log.insert(1)
    target = TARGET.replace('["sales.*"]', '["sales.*", "new.*"]')
    text = (HEAD + target).replace(
        'slot = "s"', 'slot = "written"\ndsn = "host=/nowhere"'
    )
    checked = check(parse(text, log.path.parent / "shop.toml", is_private=True))
    assert checked.problems == []
    assert "/nowhere" in (checked.unasked or "")
    assert [it.table.name for it in checked.plan.claims] == ["sales.t1"]


def test_a_moved_target_is_to_be_forgotten_and_not_removed(log: WrittenTables) -> None:
    log.insert(1)
    made, _ = applier_of(log)
    round_of(made)
    folder = log.path.parent
    (folder / "lake").rename(folder / "moved")
    moved = TARGET.replace("lake/", "moved/")
    made, _ = applier_of(log, moved)
    problem = round_of(made)["sales.t1"] or ""
    old = f"delta:{folder}/lake/t1"
    assert problem.endswith(
        f"the target of sales.t1 was {old} so far, and delta:{folder}/moved/t1 exists: if it was "
        f"moved there, or its directory was: walrow log forget {log.path} {old}. Otherwise choose "
        "a place that is new"
    )
    assert forget_target(log.path, old)
    made, _ = applier_of(log, moved)
    assert round_of(made) == {"sales.t1": None}
    # Only Spark knows a name in a catalog. It may not exist.
    made, _ = applier_of(log, 'tables = ["sales.*"]\nto = "iceberg:lake.{table}"\n')
    problem = round_of(made)["sales.t1"] or ""
    assert (
        "iceberg:lake.t1 may exist, which only Spark knows: if it was moved" in problem
    )


@pytest.mark.parametrize(
    ("slot", "server", "words"),
    [
        ("s", ("7", "d"), None),
        ("s", None, None),
        ("s", ("8", "d"), "from another server: its system identifier is 7, and this server has 8"),
        ("s", ("7", "e"), "the log comes from database d, and dsn leads to e: give the log of"),
        ("t", ("7", "d"), "the log comes from slot s, and the file has t: give the log of this"),
    ],
)  # fmt: skip
def test_the_log_of_another_server(
    tmp_path: Path, slot: str, server: tuple[str, str] | None, words: str | None
) -> None:
    made = WrittenTables(tmp_path / "log", system="7")
    made.insert(1)
    opened = walrow.Log(made.path)
    source = dataclasses.replace(
        opened.source, system_identifier="7", database="d", slot="s"
    )
    found = list(_other_source(source, opened.path, slot, server))
    assert [(words or "") in it for it in found] == [True] * bool(words)


def test_tables_that_need_a_load(
    log: WrittenTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.insert(1, 2)
    log.mark(2)
    # A table that joined the publication, and has no change yet.
    log.mark(3)
    made, said = applier_of(log)
    monkeypatch.setattr(applier_module, "_FIRST_PAUSE", 1000.0)
    outcome = made.round()
    assert outcome.has_requested
    assert [it.table for it in outcome.behind] == ["sales.t2", "sales.t3"]
    assert all(it.needs_load for it in outcome.behind)
    assert [it.tables for it in pending(log.path)] == [["sales.t2", "sales.t3"]]
    assert len(rows(log, 1)) == 1
    found = status_of(log.path)
    assert [(it.table, it.is_requested) for it in found.needs_load] == [
        ("sales.t2", True),
        ("sales.t3", True),
    ]
    assert found.reasons == ()
    # Not again, and not at once if the receiver gave it up.
    assert round_of(made)["sales.t2"]
    assert cancel_load(log=log.path) == 1
    round_of(made)
    assert not pending(log.path)
    (first, second) = status_of(log.path).reasons
    assert first == (
        f"sales.t2 needs a load, because it is new: walrow load {log.path} sales.t2"
    )
    assert second.startswith("sales.t3 needs a load")
    assert [it.table for it in said if it.problem] == ["sales.t2"]


def test_a_load_that_somebody_must_ask_for(log: WrittenTables) -> None:
    log.insert(1)
    log.mark(1)
    made, _ = applier_of(log, TARGET + 'load = "ask"\n')
    outcome = made.round()
    assert not outcome.has_requested
    assert not pending(log.path)
    assert [it.table for it in outcome.behind] == ["sales.t1"]
    assert status_of(log.path).needs_load[0].codes == ("new_in_publication",)


def test_a_load_that_may_not_be_needed_needs_a_person(log: WrittenTables) -> None:
    log.insert(1)
    log.mark(1)
    log.mark(2, Why.PUBLISHES)
    made, _ = applier_of(log)
    made.round()
    assert [it.tables for it in pending(log.path)] == [["sales.t1"]]
    (reason,) = status_of(log.path, is_running=True).reasons
    assert reason.startswith("sales.t2 needs a load")


def test_what_walrow_run_asks_for_needs_nobody(log: WrittenTables) -> None:
    log.insert(1)
    log.mark(1)
    log.mark(2)
    # The log is new: what the applier will ask for is not known yet.
    assert status_of(log.path, is_running=True).reasons == ()
    assert len(status_of(log.path).reasons) == 2
    made, _ = applier_of(log)
    made.round()
    assert cancel_load(log=log.path) == 1
    assert status_of(log.path, is_running=True).reasons == ()
    # A load that was given up does.
    complete(log.path, request(log.path, ["sales.t2"]), "it was given up")
    (reason,) = status_of(log.path, is_running=True).reasons
    assert reason == (
        "sales.t2 needs a load, because it is new; it was given up. Then: walrow load "
        f"{log.path} sales.t2"
    )
    # The file may change.
    made, _ = applier_of(log, TARGET + 'load = "ask"\n')
    made.round()
    assert len(status_of(log.path, is_running=True).reasons) == 2


def test_the_first_rows_do_not_wait_for_the_whole_pause(
    log: WrittenTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "HEAD", HEAD.replace("0.001", '"1m"'))
    made, _ = applier_of(log)

    def pause() -> float:
        return min(made._due.values()) - time.monotonic()

    # No table, or one that waits for its load: after 1 s, 2 s and so on.
    made.round()
    assert 0 < pause() <= 1
    made._due.clear()
    made.round()
    assert 1 < pause() <= 2
    log.mark(1)
    made._due.clear()
    assert made.round().has_requested
    assert 0 < pause() <= 1
    log.insert(2)
    made._due.clear()
    made.round()
    assert 1 < pause() <= 2
    for _ in range(10):
        made._due.clear()
        made.round()
    assert 59 < pause() <= 60


def test_what_may_be_removed_at_any_time(log: WrittenTables) -> None:
    log.insert(1, 2)
    foreign(log, 2)
    made, _ = applier_of(log)
    round_of(made)
    with RunFolder(log.path).locked():
        pass
    shutil.rmtree(log.path / FOLDER)
    log.insert(1, row=("2", "2"))
    assert round_of(made)["sales.t1"] is None
    assert len(rows(log, 1)) == 2
    # Not a new error: it is kept again when it changes, or by the next process.
    made, _ = applier_of(log)
    round_of(made)
    assert len(status_of(log.path).reasons) == 1


def test_the_record_of_targets_may_be_lost(log: WrittenTables) -> None:
    log.insert(1)
    made, _ = applier_of(log)
    round_of(made)
    (log.path / TARGETS).write_text("{")
    with pytest.raises(walrow.errors.LogError, match="remove the file"):
        made.round()
    (log.path / TARGETS).unlink()
    log.insert(1, row=("2", "2"))
    assert round_of(made) == {"sales.t1": None}
    assert len(rows(log, 1)) == 2


def test_one_at_a_time(log: WrittenTables) -> None:
    folder = RunFolder(log.path)
    with folder.locked():
        before = time.monotonic()
        with (
            pytest.raises(walrow.errors.LogError, match="stop it first") as caught,
            RunFolder(log.path).locked(),
        ):
            pass
        assert caught.value.code == "locked"
        assert time.monotonic() - before < 1
        with pytest.raises(walrow.errors.LogError, match="stop it first"):
            forget_target(log.path, "delta:/x")
    mode = (log.path / FOLDER).stat().st_mode & 0o777
    assert mode == log.path.stat().st_mode & 0o777 & 0o770


def test_status_says_what_ended_a_part(log: WrittenTables) -> None:
    log.insert(1)
    receiver = StatusFile(log.path, Part.RECEIVE)
    receiver.post(Phase(PhaseName.WAITING_FOR_PERSON, text="refused"), 1)
    receiver.close()
    (reason,) = status_of(log.path).reasons
    assert reason.startswith("receive has ended: refused (at 20")
    # A log without targets needs neither.
    receiver = StatusFile(log.path, Part.RECEIVE)
    receiver.post(Phase(PhaseName.STOPPED), 1)
    receiver.close()
    assert run_status.status_of(log.path).reasons == ()


def test_another_log_in_the_same_place(log: WrittenTables) -> None:
    log.insert(1)
    made, _ = applier_of(log)
    round_of(made)
    log.writer.close()
    shutil.rmtree(log.path)
    other = WrittenTables(log.path, system="8")
    other.insert(1, row=("5", "5"))
    problem = round_of(made)["sales.t1"]
    assert problem is not None
    assert "it has changes of" in problem
    assert len(rows(log, 1)) == 1


@pytest.mark.parametrize("as_json", [False, True])
def test_the_commands(
    log: WrittenTables, as_json: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("click")
    pytest.importorskip("rich")
    from click.testing import CliRunner

    from walrow.cli.app import cli

    log.insert(1, 2)
    foreign(log, 2)
    file = log.path.parent / "shop.toml"
    file.write_text(HEAD + TARGET)
    monkeypatch.chdir(log.path.parent)
    option = ["--json"] if as_json else []

    def call(*words: str) -> tuple[int, list[str]]:
        done = CliRunner().invoke(cli, [*words, *option])
        assert done.exception is None or isinstance(done.exception, SystemExit)
        return done.exit_code, done.output.splitlines()

    code, said = call("apply", "--config", "shop.toml", "--once")
    assert code == 1
    if as_json:
        found = json.loads(said[-1])
        assert (found["part"], found["is_current"]) == ("run", False)
        assert [it["problem"] is None for it in found["tables"]] == [True, False]
    else:
        assert said[-1] == "walrow: tables that are current: 1 of 2"
        assert said[-2].startswith("walrow: sales.t2 is not current: ")
    code, said = call("status", str(log.path), "--allow-stopped")
    assert code == 1
    if as_json:
        assert len(json.loads("".join(said))["reasons"]) == 1
    else:
        assert said[0] == "receiver: does not run"
        assert said[-1].startswith("to do: sales.t2: ")
    shutil.rmtree(log.path.parent / "lake" / "t2")
    assert call("apply", "--config", "shop.toml", "--once")[0] == 0
    assert call("status", str(log.path), "--allow-stopped")[0] == 0
    # Its targets are configured, and nothing keeps them current.
    code, said = call("status", str(log.path))
    assert code == 1
    if not as_json:
        assert said[-2] == "to do: no receiver runs, and a target is configured"
        assert said[-1].startswith(
            "to do: no applier runs, and a target is configured: "
        )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["apply"], "Missing argument 'LOG'"),
        (["apply", "--once"], "No such option '--once'"),
        (["apply", "--config", "f", "--table", "t"], "with --config, the file has --table: leave"),
        (["apply", "--config"], "Option '--config' requires an argument"),
        (["receive", "--log", "l", "--slot", "s"], "Missing option '--publication'"),
        (["receive", "--config=f", "--slot", "s"], "with --config, the file has --slot: leave"),
        (["receive", "--config=f", "--slto", "s"], "No such option '--slto'"),
        (["run", "f", "--check", "--once"], "--check starts nothing"),
    ],
)  # fmt: skip
def test_wrong_words(words: list[str], said: str) -> None:
    pytest.importorskip("click")
    from click.testing import CliRunner

    from walrow.cli.app import cli

    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2
    assert said in done.output


def test_one_process_applies_and_the_next_one_waits(tmp_path: Path) -> None:
    stop, waits = threading.Event(), threading.Event()
    times = []

    def second() -> None:
        with RunFolder(tmp_path).applying(stop, waits.set):
            times.append(time.monotonic())

    thread = threading.Thread(target=second)
    with RunFolder(tmp_path).applying(stop, waits.set):
        assert not waits.is_set()
        thread.start()
        assert waits.wait(10)
        time.sleep(0.2)
        left = time.monotonic()
    thread.join(10)
    assert times[0] >= left
    # A process that is stopped meanwhile applies nothing.
    with RunFolder(tmp_path).applying(stop, waits.set):
        stop.set()
        with (
            pytest.raises(walrow.Error, match="it was stopped while it waited"),
            RunFolder(tmp_path).applying(stop, waits.set),
        ):
            pytest.fail("two apply")


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("click")
    from click.testing import CliRunner

    from walrow.cli.app import cli

    file = tmp_path / "shop.toml"
    file.write_text(HEAD + TARGET)
    done = CliRunner().invoke(cli, ["apply", "--config", str(file), "--once"])
    assert "there is no log in" in str(done.exception)
    # As `walrow run` leaves it until the receiver has begun.
    (tmp_path / "log").mkdir()
    done = CliRunner().invoke(cli, ["apply", "--config", str(file), "--once"])
    assert "there is no log in" in str(done.exception)


@pytest.mark.parametrize("mode", ["history", "changes"])
def test_all_changes_of_a_table_are_erased(log: WrittenTables, mode: str) -> None:
    """Its target follows that, also if the table was dropped."""
    log.insert(1, 2, 3)
    made, _ = applier_of(log, f'{TARGET}mode = "{mode}"\n')
    round_of(made)
    end = walrow.Log(log.path).end
    left = {20_002: Left("sales", "sales.t2", Absence.DROPPED, Lsn(8))}
    tables = {oid: {"name": f"sales.t{oid - 20_000}"} for oid in (20_001, 20_003)}
    record = Published(tables, end, None, {}, {}, {}, left=left)
    write_published(log.path, record)
    log.writer.close()
    for number in (1, 2):
        walrow.Log(log.path).erase(f"sales.t{number}", keys=[{"id": 1}])
    for _ in range(2):
        assert set(round_of(made).values()) == {None}
        assert [len(rows(log, number)) for number in (1, 2, 3)] == [0, 0, 1]


def test_targets_get_what_tables_had_before_they_left(log: WrittenTables) -> None:
    log.insert(1, 2, 3)
    made, said = applier_of(log)
    round_of(made)
    log.insert(1, 2, 3, row=("2", "2"))
    end = walrow.Log(log.path).end
    oids = {it.name: it.oid for it in walrow.Log(log.path).tables()}
    left = {
        oids[f"sales.t{number}"]: Left("sales", f"sales.t{number}", why, Lsn(8))
        for number, why in ((2, Absence.DROPPED), (3, Absence.UNLOGGED))
    }
    pictures = {oids["sales.t1"]: {"name": "sales.t1"}}
    record = Published(pictures, end, None, {}, {}, {}, left=left)
    write_published(log.path, record)
    said.clear()
    for _ in range(2):
        problems = round_of(made)
    assert {name: bool(it) for name, it in problems.items()} == {
        "sales.t1": False,
        "sales.t2": False,
        "sales.t3": True,
    }
    assert [it.left for it in said if it.left] == [
        "it was dropped (since 0/8)",
        "it became unlogged, so that no change of it is sent (since 0/8)",
    ]
    # The rest comes once, and the file has not lost them.
    assert [len(rows(log, number)) for number in (2, 3)] == [2, 2]
    applied = [it.table for it in said if it.applied and it.left is None]
    assert applied == ["sales.t1", "sales.t2", "sales.t3"]
    assert all(it.in_file for it in recorded_in(log))
    found = status_of(log.path)
    assert [it.has_left for it in found.targets] == [False, True, True]
    (reason,) = found.reasons
    assert "walrow log forget" in reason
    log.insert(1, row=("3", "3"))
    made._released = 0.0
    round_of(made)
    (reader,) = walrow.Log(log.path).readers()
    assert reader.position == walrow.Log(log.path).end
    walrow.Log(log.path).forget("sales.t3")
    assert status_of(log.path).reasons == ()
    assert set(round_of(made)) == {"sales.t1", "sales.t2"}
