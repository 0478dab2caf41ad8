"""One history, sent in every way that a server supports, gives the same committed rows.

A seed determines each random workload. It runs once, and every mode of the server is
recorded: protocols 1 to 4, text and binary, streamed, two-phase and parallel, read live and
afterwards. The expected result is protocol 1 in text.

A failure names the seed. `WALROW_SHRINK=SECONDS` makes its workload smaller for this time
and prints the rest; `WALROW_SEED=NUMBER` sets the seed of random workloads.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import pytest

import walrow
from reference import change_rows, frames, history
from reference.reader import Relation, Row
from reference.transactions import Change, History, Transaction
from servers import EmbeddedServer, FetchedServer, modes, record_history, script
from servers.histories import BINARY, PLAIN, Mode
from servers.workload import Operation, Workload, generate, shrink

pa = pytest.importorskip("pyarrow")
from reference.batches import batch_rows, ordered  # noqa: E402

# The first run downloads the server.
pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

#: Together, they contain every form of transaction.
SEEDS = [13, 33]
SLOW_SEEDS = [17, 19]
#: Another one in each run. All processes of a run have the same tests, so the same seed.
_RUN = random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID"))  # noqa: S311
DRAWN = int(os.environ.get("WALROW_SEED") or _RUN.randrange(1 << 32))


@dataclass(frozen=True)
class Recorded:
    """The streams of one workload from one server."""

    server: EmbeddedServer
    workload: Workload
    recordings: dict[Mode, bytes] = field(repr=False)

    @cached_property
    def histories(self) -> dict[Mode, History]:
        return {mode: history(data) for mode, data in self.recordings.items()}

    @property
    def plain(self) -> History:
        return self.histories[PLAIN]

    def check(self, claim: Callable[[Recorded], None]) -> None:
        """Checks a claim. A failure gets notes with everything that repeats it."""
        try:
            claim(self)
        except (AssertionError, ValueError, walrow.Error) as error:
            error.add_note(
                f"seed {self.workload.seed}, server {self.server.version};"
                " WALROW_SHRINK=SECONDS makes the workload smaller"
            )
            seconds = float(os.environ.get("WALROW_SHRINK") or 0)
            if seconds:
                small = smallest(self.server, self.workload, claim, seconds)
                error.add_note(
                    f"smallest workload: {small.to_json()}\n"
                    + script.text(script.steps(small))
                )
            raise


def smallest(
    server: EmbeddedServer,
    workload: Workload,
    claim: Callable[[Recorded], None],
    seconds: float,
) -> Workload:
    deadline = time.monotonic() + seconds

    def fails(candidate: Workload) -> bool:
        if time.monotonic() > deadline:
            return False
        try:
            claim(record(server, candidate))
        except (AssertionError, ValueError, walrow.Error):
            return True
        return False

    return shrink(workload, fails)


def record(server: EmbeddedServer, workload: Workload) -> Recorded:
    wanted = modes(server.major)
    recordings = record_history(server, workload, wanted)
    # Some servers stop with an internal error if they stream every change at once and a
    # subtransaction that created a table rolls back.
    broken = {
        mode
        for mode, data in recordings.items()
        if mode.immediate and any(frame.kind == "E" for frame in frames(data))
    }
    kept = {mode: data for mode, data in recordings.items() if mode not in broken}
    return Recorded(server, workload, kept)


@pytest.fixture(scope="module")
def recorder(server: EmbeddedServer) -> Callable[[int], Recorded]:
    kept: dict[int, Recorded] = {}

    def recorded(seed: int) -> Recorded:
        if seed in kept:
            return kept[seed]
        found = record(server, generate(seed))
        if seed in SEEDS:
            kept[seed] = found
        return found

    return recorded


@pytest.fixture(
    scope="module",
    params=[
        *SEEDS,
        *(pytest.param(s, marks=pytest.mark.slow) for s in [*SLOW_SEEDS, DRAWN]),
    ],
    ids=lambda seed: f"seed-{seed}",
)
def recorded(
    server: EmbeddedServer,
    recorder: Callable[[int], Recorded],
    request: pytest.FixtureRequest,
) -> Recorded:
    if request.param not in SEEDS and not isinstance(server, FetchedServer):
        pytest.skip("shown by the fetched server of this version: make test-all")
    return recorder(request.param)


def test_every_mode_has_the_transactions_of_protocol_1(recorded: Recorded) -> None:
    recorded.check(modes_agree)


def test_messages_are_those_of_protocol_1(recorded: Recorded) -> None:
    recorded.check(messages_agree)


def test_prepared_transactions_come_twice_but_count_once(recorded: Recorded) -> None:
    recorded.check(prepared_agree)


def test_text_rows_are_those_of_the_model(recorded: Recorded) -> None:
    recorded.check(rows_agree)


def test_binary_and_text_give_the_same_arrays(recorded: Recorded) -> None:
    recorded.check(arrays_agree)


def test_workloads_show_what_they_are_for(
    server: EmbeddedServer, recorder: Callable[[int], Recorded]
) -> None:
    """Guards the tests above against workloads that test nothing."""
    found = [each for seed in SEEDS for each in recorder(seed).histories.values()]
    transactions = [
        each for seed in SEEDS for each in recorder(seed).plain.transactions
    ]
    changes = [change for each in transactions for change in each.changes]
    forms = {"plain", "streamed", "discarded", "aborted"}
    if server.major > 14:
        forms |= {"prepared", "streamed and prepared", "rolled back"}
    assert {form for each in found for form in each.forms} == forms
    assert {(change.kind, change.old_kind) for change in changes} == {
        ("insert", None),
        ("update", None),
        ("update", "K"),
        ("update", "O"),
        ("delete", "K"),
        ("delete", "O"),
        ("truncate", None),
    }
    assert any(cell.kind == "u" for change in changes for cell in change.new)
    assert any(each.origin for each in transactions)
    assert any(each.messages for each in transactions)
    definitions = {change.relation for change in changes}
    assert len(definitions) > len({relation.oid for relation in definitions})


def test_definition_from_outside_a_streamed_transaction_outlives_it(
    server: EmbeddedServer,
) -> None:
    """The stream has an older definition, and servers before 16 do not send it again."""
    operations = (
        Operation(1, "begin"),
        Operation(1, "insert", size=600),
        Operation(0, "rename_schema"),
        Operation(2, "insert", size=1),
        Operation(1, "commit"),
        Operation(2, "insert", size=2),
    )
    wanted = [PLAIN, Mode(2, streaming="on")]
    recordings = record_history(server, Workload(operations), wanted)
    for mode, data in recordings.items():
        found = history(data)
        names = {
            len(t.changes): t.changes[0].relation.schema for t in with_changes(found)
        }
        assert list(names) == [1, 600, 2]
        assert names[1] == names[2] != "common"
        assert names[600] == ("common" if mode.streaming == "on" else names[1])
        assert ordered(batch_rows(data)) == ordered(change_rows(found.transactions))


def modes_agree(recorded: Recorded) -> None:
    assert set(recorded.plain.forms) == {"plain"}
    for mode, found in recorded.histories.items():
        expected = transactions(recorded.plain, values=not mode.binary)
        assert transactions(found, values=not mode.binary) == expected, mode
        for first, other in zip(
            with_changes(recorded.plain), with_changes(found), strict=True
        ):
            assert other.gid is not None or origin_may_be(first, other, mode), mode


def origin_may_be(first: Transaction, other: Transaction, mode: Mode) -> bool:
    """A plain transaction has the origin of its commit, or of its COMMIT PREPARED.

    A streamed transaction has the origin of its first change, which may have none.
    """
    if mode.streaming == "off":
        return other.origin == first.origin
    return first.origin is None or other.origin in {first.origin, None}


def messages_agree(recorded: Recorded) -> None:
    expected = {each.commit_lsn: each for each in recorded.plain.transactions}
    for mode, found in recorded.histories.items():
        # A new session may send a message again.
        assert list(dict.fromkeys(found.messages)) == recorded.plain.messages, mode
        there = {each.commit_lsn: each.messages for each in found.transactions}
        for commit_lsn, transaction in expected.items():
            if mode.streaming == "off":
                assert there.get(commit_lsn, ()) == transaction.messages, mode
            else:
                # A stream also contains the messages of subtransactions that roll back.
                rest = iter(there.get(commit_lsn, ()))
                assert all(m in rest for m in transaction.messages), mode


def prepared_agree(recorded: Recorded) -> None:
    open_gids: list[str] = []
    committed_gids = 0
    seen: list[Any] = []
    for step in script.steps(recorded.workload):
        said = re.fullmatch(r"(PREPARE TRANSACTION|\w+ PREPARED) '(.*)'", step.sql)
        if said is not None and said[1] == "PREPARE TRANSACTION":
            open_gids.append(said[2])
        elif said is not None:
            open_gids.remove(said[2])
            committed_gids += said[1] == "COMMIT PREPARED"
    plain = {each.commit_lsn: each for each in recorded.plain.transactions}
    for mode, found in recorded.histories.items():
        gids = [each for each in found.transactions if each.gid is not None]
        if not mode.two_phase:
            assert not gids, mode
            assert not found.undecided, mode
            continue
        # The server does not send a transaction that wrote nothing.
        assert len(gids) <= committed_gids, mode
        assert found.undecided in ([], open_gids), mode
        seen.append([(each.gid, each.commit_lsn) for each in gids if each.changes])
        for each in gids:
            if each.changes:
                assert plain[each.commit_lsn].gid is None
                assert plain[each.commit_lsn].xid == each.xid
    assert all(gids == seen[0] for gids in seen)


def rows_agree(recorded: Recorded) -> None:
    for mode, data in recorded.recordings.items():
        if not mode.binary:
            expected = change_rows(recorded.histories[mode].transactions)
            found = batch_rows(data)
            assert expected
            if recorded.server.major < 16:
                # If two streams define the table, the last definition is not always the newer one.
                for row in (*expected, *found):
                    row["table"] = re.sub(r"^common_\d+", "common", row["table"])
            assert ordered(found) == ordered(expected), mode


def arrays_agree(recorded: Recorded) -> None:
    expected = arrow_rows(recorded.recordings[PLAIN])
    assert expected
    others = [mode for mode in recorded.recordings if mode.binary]
    assert BINARY in others
    for mode in others:
        assert arrow_rows(recorded.recordings[mode]) == expected, mode


def with_changes(found: History) -> list[Transaction]:
    """Transactions with changes. Server 14 also sends others in protocols 1 and 2."""
    return [each for each in found.transactions if each.changes]


def transactions(found: History, *, values: bool) -> list[Any]:
    """The common part of all modes; gid and origin depend on the mode."""
    return [
        (
            each.xid,
            each.commit_lsn,
            each.end_lsn,
            each.commit_time,
            [content(change, values=values) for change in each.changes],
        )
        for each in with_changes(found)
    ]


def content(change: Change, *, values: bool) -> Any:
    rows = (change.old, change.new)
    return (
        change.seq,
        change.kind,
        named(change.relation),
        change.old_kind,
        change.options,
        *(rows if values else map(shape, rows)),
    )


@cache
def named(relation: Relation) -> Relation:
    """The relation, without the effect of a renamed schema.

    Rows from that time may come under the old or the new name, depending on the relations
    that the server sent before. Server 14 never sends the new name.
    """
    renamed = relation.schema.startswith("common")
    return replace(relation, schema="common") if renamed else relation


def shape(row: Row) -> str:
    return "".join("v" if cell.kind in "tb" else cell.kind for cell in row)


def arrow_rows(data: bytes) -> list[Any]:
    rows = []
    for batch in walrow.read(data):
        records = pa.record_batch(batch)
        # The table's name may differ, as above.
        schema = str(records.schema.remove_metadata())
        rows += [
            ((row["_commit_lsn"], row["_seq"], batch.relation_oid), schema, row)
            for row in records.to_pylist()
        ]
    return sorted(rows, key=lambda row: row[0])
