"""Histories beside a live server, for as long as you like, with changed definitions and kills.

```sh
PYTHONPATH=tests:examples python -m targets.live_rounds --major 14 --seconds 3600
```

A round is some tables with random transactions. The server is asked for all rows after each transaction.
In between, columns are added, dropped, renamed and get other types, tables get other names, and are
loaded. Histories follow by several calls. Some of these processes are killed with SIGKILL at any time, and with
`--engine both`, Spark and deltalake apply by turns. At the end, each history is compared with what the
server said at each time, and with `Log.state` as of some times. The seed of each round is printed:
`--seed` repeats it.
"""

# ruff: noqa: S608, T201  (the statements have only the program's own parts; it prints its results)

from __future__ import annotations

import argparse
import datetime as dt
import tempfile
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import walrow
from servers import EmbeddedServer, FetchedServer
from servers.churn import KEYS, Churn
from servers.fetched import VERSIONS
from servers.live_log import history
from targets.modelled_rounds import LOCAL, Engines, kill, with_spark

Rows = Counter[tuple[Any, ...]]
#: Columns that may get a wider type have it from the beginning.
TYPES = {"a": "int64"}


class Looked(NamedTuple):
    """The answers of the server.

    Attributes:
        time: When.
        tables: By the first name of each table, its columns and its rows.
    """

    time: dt.datetime
    tables: dict[str, tuple[list[str], Rows]]


class LiveRound:
    """Tables of a server, their log, and their histories.

    Attributes:
        kills: The number of processes that were killed.
        compared: The number of rows that were compared.
    """

    def __init__(
        self,
        server: EmbeddedServer,
        folder: Path,
        seed: int,
        *,
        engines: Engines = LOCAL,
        kill_share: float = 0.0,
        alters: bool = False,
    ) -> None:
        """Plays a round.

        Args:
            server: The server.
            folder: A new folder.
            seed: It determines everything but the times of kills.
            engines: The engines that apply.
            kill_share: How often a process is killed before a call.
            alters: Whether definitions change, beside new columns.
        """
        self.folder, self.engines, self.kill_share = folder, engines, kill_share
        self.points: list[Looked] = []
        self.since: dict[str, dt.datetime] = {}
        self.kills = self.compared = 0
        with history(server, folder / "log") as source:
            self.source = source
            self.churn = Churn(source, seed)
            self.random = self.churn.random
            self.oids = {it: self._oid(it) for it in self.churn.tables}
            for at in range(60):
                self._step(at, alters=alters)
            source.take()
            for name in self._known():
                self._apply(name)
        for name in self._known():
            self._compare(name)

    def _step(self, at: int, *, alters: bool) -> None:
        self.churn.transaction()
        self._look()
        if at % 9 == 0:
            self.churn.add_column()
        if alters and self.random.random() < 0.25:
            self._alter()
        if at in (20, 40):
            names = self.random.sample(list(self.churn.tables), 2)
            self.source.load(*map(self._name, names))
            self._look()
        if at % 12 == 11:
            self.source.take(binary=at % 24 == 11)
            for name in self._known():
                if self.random.random() < 0.7:
                    self._apply(name)

    def _alter(self) -> None:
        """Changes a definition. A renamed column has its old values after a load."""
        name = self.random.choice(list(self.churn.tables))
        if "loaded" in self.churn.alter_column(name):
            self.source.load(self._name(name))
        self._look()

    def _look(self) -> None:
        """Reads all tables. No transaction is open, so these are the rows at this time."""
        found = {}
        for name in self.churn.tables:
            cursor = self.source.conn.execute(f"SELECT * FROM {self._name(name)}")
            columns = [it.name for it in cursor.description or ()]
            rows = Counter(tuple(map(plain, row)) for row in cursor.fetchall())
            found[name] = (columns, rows)
        (now,) = self.source.conn.execute("SELECT clock_timestamp()").fetchone() or ()
        self.points.append(Looked(now, found))

    def _name(self, name: str) -> str:
        return self.churn.names.get(name, name)

    def _oid(self, name: str) -> int:
        found = self.source.conn.execute(f"SELECT '{name}'::regclass::oid").fetchone()
        return int(found[0]) if found else 0

    def _known(self) -> list[str]:
        """The tables that have changes in the log."""
        tables = {it.oid for it in walrow.Log(self._log).tables() if it.versions}
        return [name for name, oid in self.oids.items() if oid in tables]

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def _apply(self, name: str) -> None:
        given: dict[str, Any] = {
            "table": self.oids[name],
            "target": f"delta:{self.folder / name}",
            "keys": KEYS[name],
            "types": TYPES,
            "mode": "history",
        }
        if self.random.random() < self.kill_share:
            kill(str(self._log), given, self.random.uniform(0, 1))
            self.kills += 1
        apply, _ = self.engines[self.random.choice(list(self.engines))]
        done = apply(str(self._log), **given)
        assert done.since is not None
        self.since[name] = done.since

    def _compare(self, name: str) -> None:
        for reader, (_, read) in self.engines.items():
            rows = read(str(self.folder / name))
            for time_, tables in self.points:
                if time_ < self.since[name]:
                    continue
                columns, wanted = tables[name]
                found = as_of(rows, columns, time_)
                assert found == wanted, (
                    name,
                    reader,
                    time_,
                    found - wanted,
                    wanted - found,
                )
                self.compared += sum(wanted.values())
            self._compare_state(name, rows)

    def _compare_state(self, name: str, rows: list[dict[str, Any]]) -> None:
        """The log has the same state, at another time."""
        at = self.random.choice([row["_valid_from"] for row in rows])
        try:
            state = walrow.Log(self._log).state(
                self.oids[name],
                as_of=at.astimezone(dt.UTC),
                profile="spark",
                types=TYPES,
            )
            table = pa.table(state)
        except walrow.errors.LogError as error:
            # The target has begun before the first load. Or a type has changed since the last load.
            assert error.code in ("too_early", "incomplete"), error  # noqa: PT017
            return
        wanted = Counter(tuple(map(plain, row.values())) for row in table.to_pylist())
        assert as_of(rows, table.column_names, at) == wanted, (name, at)


def as_of(rows: list[dict[str, Any]], columns: list[str], time: dt.datetime) -> Rows:
    """The predicate of a history, in Python."""
    return Counter(
        tuple(plain(row[name]) for name in columns)
        for row in rows
        if zoned(row["_valid_from"]) <= zoned(time)
        and (row["_valid_to"] is None or zoned(row["_valid_to"]) > zoned(time))
    )


def zoned(time: dt.datetime) -> dt.datetime:
    """A time with its zone: times of Spark's rows are local."""
    return time.astimezone(dt.UTC)


def plain(value: Any) -> Any:
    """A value that can be compared: digits count, and NaN equals NaN."""
    if isinstance(value, float | Decimal):
        return str(value)
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC)
    return value


def main() -> None:
    """Plays rounds, and says how many there were."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--major", type=int, action="append", default=[])
    parser.add_argument("--engine", choices=("delta", "both"), default="delta")
    parser.add_argument("--kills", type=float, default=0.3, help="before a call")
    options = parser.parse_args()
    engines = LOCAL
    if options.engine == "both":
        from spark.modelled_batches import session

        engines = with_spark(session(Path(tempfile.mkdtemp()), "local[2]"))
    seed, killed, compared = options.seed, 0, 0
    majors = options.major or VERSIONS
    for major in majors:
        began = time.monotonic()
        with FetchedServer(major, logical_decoding_work_mem="64kB") as server:
            while time.monotonic() - began < options.seconds / len(majors):
                print(f"--major {major} --seed {seed}", flush=True)
                with tempfile.TemporaryDirectory() as folder:
                    made = LiveRound(
                        server,
                        Path(folder),
                        seed,
                        engines=engines,
                        kill_share=options.kills,
                        alters=True,
                    )
                seed += 1
                killed, compared = killed + made.kills, compared + made.compared
    print(
        f"{seed - options.seed} rounds: {compared} rows agree, and {killed} kills changed nothing"
    )


if __name__ == "__main__":
    main()
