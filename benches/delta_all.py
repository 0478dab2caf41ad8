"""`walrow.delta.apply_all` beside deltalake's bare calls: delta_all.py [DIR] [--rounds N] ...

There are two cases, and in each one, rounds:

    all changed   tables of 1,000 rows; three rows of each table are updated
    few changed   more tables, and three rows of three of them are updated

A round is one call of `apply_all` with the result of the round before it. The bare calls open each
changed table, and merge the same rows, with a record in the commit. They take turns with the
rounds. Ratios are the medians of rounds after the first, of elapsed time and of CPU time. From 100
rounds on, `later` divides the CPU time of the last tenth of the rounds by the time of the second tenth: the
log and the tables have become longer. The bare calls have this ratio, too. `*` marks a missed aim.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import deltalake
import pyarrow as pa
from delta import Times, report, timed

import streams
import walrow.delta
from walrow._core import LogWriter

OID = 20_000
ROWS = 1_000
#: Rows of a table that a round changes.
CHANGED = 3
AIM = 1.3
#: Seconds that a round may take for tables without changes.
REST = 0.05
#: How much slower the last rounds may be, beside the bare calls'.
LATER_AIM = 1.1
SCHEMA = pa.schema([("id", pa.int32()), ("n", pa.int32()), ("note", pa.string())])
COLUMNS = [
    streams.Column("id", 23, is_key=True),
    streams.Column("n", 23),
    streams.Column("note", 25),
]


class Case(NamedTuple):
    """A case.

    Attributes:
        name: Its name.
        tables: The number of tables.
        changed: The number of tables that a round changes.
        rest: Seconds that a round may take beside.
    """

    name: str
    tables: int
    changed: int
    rest: float


CASES = (
    Case("all changed", 100, 100, 0.0),
    Case("few changed", 300, 3, REST),
)


def main() -> None:
    """Prints a line for each case."""
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", nargs="?", type=Path, default=root / "target/bench-data")
    parser.add_argument("--rounds", type=int, default=20)
    names = [case.name for case in CASES]
    parser.add_argument("--cases", nargs="+", choices=names, default=names)
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        if case.name in options.cases:
            # The system's directory for temporary files may be memory.
            with tempfile.TemporaryDirectory(dir=options.dir) as folder:
                Rounds(Path(folder), case).run(options.rounds)


class Rounds:
    """The tables of a case, their log, and as many tables for the bare calls."""

    def __init__(self, folder: Path, case: Case) -> None:
        self.case = case
        self.log = folder / "log"
        self.bare = folder / "bare"
        self.lsn = 0x1000
        self.writer = LogWriter(
            self.log,
            segment_bytes=1 << 20,
            level=1,
            spool_memory=1 << 20,
            framing="message",
            syncs=False,
            system_identifier="7",
            database="written",
            slot="written",
        )
        self.targets = {
            f"public.t{at}": f"delta:{folder}/own/t{at}" for at in range(case.tables)
        }

    def run(self, rounds: int) -> None:
        """Prints the line."""
        case = self.case
        rows = {n: ["0", "as it was"] for n in range(ROWS)}
        self.write(dict.fromkeys(range(case.tables), rows), streams.insert)
        done = walrow.delta.apply_all(self.log, self.targets)
        for at in range(case.changed):
            deltalake.write_deltalake(self.bare / f"t{at}", values(rows))
        pairs: list[tuple[Times, Times]] = []
        for number in range(rounds + 1):
            changes = {
                (number * 7919 + at * 331) % ROWS: [str(number), "changed"]
                for at in range(CHANGED)
            }
            self.write(dict.fromkeys(range(case.changed), changes), streams.update)
            net = values(changes)
            apply = partial(walrow.delta.apply_all, self.log, self.targets)
            done, ours = timed(partial(apply, previous=done))
            pairs.append((ours, timed(partial(self.merge, net, number))[1]))
            for error in (done.failed | done.waiting).values():
                raise error
        self.compare()
        pairs = pairs[1:]
        rest = Times(case.rest, case.rest)
        what = f"{case.name}: {case.changed} of {case.tables} tables, of bare calls"
        if case.rest:
            what += f" and {case.rest * 1000:.0f} ms"
        allowed = [
            (own, Times(*(a + b / AIM for a, b in zip(bare, rest, strict=True))))
            for own, bare in pairs
        ]
        print(report(what, allowed, AIM))
        if rounds >= LEAST_ROUNDS:
            self.print_later(pairs)

    def print_later(self, pairs: list[tuple[Times, Times]]) -> None:
        """Prints how much slower the last rounds are, of CPU time."""
        part = len(pairs) // 10
        own, bare = (
            median(it.cpu for it in each[-part:])
            / median(it.cpu for it in each[part : 2 * part])
            for each in zip(*pairs, strict=True)
        )
        slower = own / bare
        print(
            f"{self.case.name}: later, after {len(pairs)} rounds {own:>6.2f}, bare calls {bare:.2f}:"
            f" {slower:.2f} <= {LATER_AIM}{'*' if slower > LATER_AIM else ''}"
        )

    def write(self, changes: dict[int, dict[int, list[str]]], message: object) -> None:
        """Writes a transaction with rows of tables, and publishes it."""
        self.lsn += 0x100
        self.writer.append(streams.begin(xid=self.lsn, lsn=self.lsn))
        for table, rows in changes.items():
            relation = streams.relation(COLUMNS, oid=OID + table, name=f"t{table}")
            self.writer.append(relation)
            for key, rest in rows.items():
                self.writer.append(message([str(key), *rest], oid=OID + table))
        self.writer.append(streams.commit(lsn=self.lsn))
        self.writer.sync()
        self.writer.publish()

    def merge(self, rows: pa.Table, number: int) -> None:
        """Merges the rows into each changed table."""
        for at in range(self.case.changed):
            record = deltalake.CommitProperties(
                custom_metadata={"userMetadata": str(number)},
                app_transactions=[deltalake.Transaction("bench", number)],
            )
            (
                deltalake.DeltaTable(self.bare / f"t{at}")
                .merge(
                    rows,
                    "t.id = s.id",
                    source_alias="s",
                    target_alias="t",
                    streamed_exec=False,
                    commit_properties=record,
                )
                .when_matched_update({"n": "s.n", "note": "s.note"})
                .when_not_matched_insert({it: f"s.{it}" for it in SCHEMA.names})
                .execute()
            )

    def compare(self) -> None:
        """Compares all rows of the changed tables."""
        for at in range(self.case.changed):
            places = (
                self.targets[f"public.t{at}"].partition(":")[2],
                self.bare / f"t{at}",
            )
            own, bare = (
                pa.table(deltalake.DeltaTable(it).scan()).cast(SCHEMA).sort_by("id")
                for it in places
            )
            if own.combine_chunks() != bare.combine_chunks():
                print(f"THE ROWS OF t{at} DIFFER")


def values(rows: dict[int, list[str]]) -> pa.Table:
    """Rows as columns."""
    columns = [
        list(rows),
        [int(n) for n, _ in rows.values()],
        [t for _, t in rows.values()],
    ]
    return pa.table(columns, schema=SCHEMA)


LEAST_ROUNDS = 100


if __name__ == "__main__":
    main()
