"""A table in PostgreSQL, followed into Delta with nothing lost: `make demo`.

The demo starts a server whose tables have rows, and asks what a receiver needs. A receiver loads
the tables into a log, and follows a workload. A streaming query of Spark keeps Delta tables
current from that log. In the middle, both are killed with `kill -9` and started again. At the end,
every row of the Delta tables is compared with PostgreSQL, and so is every table that is folded from
the log in Python.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from psycopg.conninfo import make_conninfo
from psycopg.types.string import TextLoader
from rich.table import Table as Grid

import stream_to_delta
import walrow
import walrow.postgres
from fold import fold
from screen import Screen
from server import running_server
from small_spark import JAVA, SMALL, with_fetched_jars
from workload import make_tables, workload

if TYPE_CHECKING:
    from rich.console import Console

    from screen import Step
    from server import Server

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "demo-output"
LOG, LAKE, EMBEDDED = OUTPUT / "log", OUTPUT / "delta", OUTPUT / "deltalake"
SECONDS = float(os.environ.get("DEMO_SECONDS", "3"))
#: Those that become Delta tables.
FOLLOWED = ("public.documents", "public.orders")


@dataclass
class Outcome:
    """The results for one table."""

    rows: int = 0
    changes: int = 0
    unsent: int = 0
    in_delta: int | None = None
    differences: list[str] = field(default_factory=list)


@dataclass
class Times:
    """Figures for the last lines, in seconds."""

    began: float = field(default_factory=time.monotonic)
    received: float = 0
    decoded: float = 0


def main() -> int:
    """Runs the demo and returns the exit code."""
    # SIGTERM cleans up like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    shutil.rmtree(OUTPUT, ignore_errors=True)
    LAKE.mkdir(parents=True)
    screen, times = Screen(), Times()
    try:
        with ExitStack() as running:
            scratch = Path(running.enter_context(tempfile.TemporaryDirectory()))
            with screen.step("PostgreSQL: starting a separate server") as step:
                server = running.enter_context(running_server())
                with psycopg.connect(server.dsn) as connection:
                    version = connection.info.server_version
                step.done(
                    f"PostgreSQL {version // 10000}.{version % 10000} is running,"
                    " wal_level = logical"
                )
            _preflight(server, screen)
            followed = running.enter_context(_OwnQuery(scratch))
            _follow(server, scratch, followed, screen, times)
            with screen.step(
                "PostgreSQL: reading its tables for the comparison"
            ) as step:
                truth = _server_tables(server)
                total = sum(sum(rows.values()) for _, rows in truth.values())
                step.done(f"PostgreSQL has {total:,} rows in {len(truth)} tables")
            outcomes = {table: Outcome() for table in sorted(truth)}
            _apply_without_spark(screen)
            followed.finish(screen)
            _decode(outcomes, screen, times)
            _fold_and_compare(truth, outcomes, screen)
            _compare_delta(server, followed.spark, outcomes, screen)
    except KeyboardInterrupt:
        screen.console.print("stopped; the server and its files were removed")
        return 130
    return 0 if _last_screen(screen.console, outcomes, times) else 1


def _preflight(server: Server, screen: Screen) -> None:
    """Asks what a receiver needs, and creates the publication."""
    with (
        screen.step("preflight: what does a receiver need?") as step,
        psycopg.connect(server.dsn, autocommit=True) as connection,
    ):
        before = walrow.postgres.preflight(connection, publications="demo")
        missing = [finding for finding in before.errors if finding.sql]
        connection.execute("CREATE PUBLICATION demo FOR ALL TABLES")
        make_tables(server)
        after = walrow.postgres.preflight(connection, publications="demo")
        if after.errors:
            raise RuntimeError(str(after))
        step.done(
            f"preflight: {missing[0].text if missing else 'nothing was missing'};"
            " created it, and the server is ready"
        )


def _follow(
    server: Server, scratch: Path, again: _OwnQuery, screen: Screen, times: Times
) -> None:
    """Receives a workload and streams it into Delta, with a kill -9 of both in the middle.

    The second query runs in this process, and goes on.
    """
    began, stop = time.monotonic(), threading.Event()
    with ExitStack() as running:
        pool = running.enter_context(ThreadPoolExecutor(1))
        running.callback(stop.set)
        with screen.step("loading the tables, and following them into Delta") as step:
            receiver = running.enter_context(_Receiver(server))
            _wait(lambda: any(LOG.glob("*.wire.zst")), receiver)
            query = running.enter_context(_Query(scratch))
            _wait(lambda: query.reached is not None, receiver, query, step=step)
            load = pool.submit(workload, server, stop)
            # The kill comes while the next micro-batch is applied.
            time.sleep(SECONDS)
            step.done(f"the Delta tables are current up to {query.reached}")
        with screen.step("kill -9 of the receiver and of Spark; both again") as step:
            receiver.kill()
            query.kill()
            killed_at, had = walrow.Log(LOG).end, query.reached
            # What is committed now waits at the server.
            receiver = running.enter_context(_Receiver(server))
            again.start()
            _wait(lambda: again.reached is not None, receiver, again, load, step=step)
            stop.set()
            load.result()
            receiver.stop()
            walrow.receive(
                server.dsn, log=LOG, slot="demo", publications="demo", until="now"
            )
            found = walrow.Log(LOG)
            times.received = time.monotonic() - began
            transactions = sum(segment.transactions for segment in found.segments())
            size = sum(segment.stream_bytes for segment in found.segments())
            step.done(
                f"received {transactions:,} transactions, {size / 1e6:.1f} MB; killed when"
                f" the log ended at {killed_at} and the tables at {had}, started again"
            )


class _Process:
    """A program of the demo, which does not outlive it."""

    def __init__(self, *words: str, **environment: str) -> None:
        self.said = OUTPUT / f"{type(self).__name__.strip('_').lower()}.log"
        with self.said.open("ab") as errors:
            self.running = subprocess.Popen(  # noqa: S603
                [sys.executable, *words],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **environment},
                # Spark's Java and its workers are killed with it.
                start_new_session=True,
            )

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kills it and all its processes, as a lack of power would."""
        with suppress(ProcessLookupError):
            os.killpg(self.running.pid, signal.SIGKILL)
        self.running.wait()

    def stop(self) -> None:
        """Lets it end its work."""
        self.running.terminate()
        self.running.wait()

    def check(self) -> None:
        """Raises what it said if it has ended."""
        if self.running.poll() is not None:
            raise RuntimeError(self.said.read_text("utf-8")[-2000:])


class _Receiver(_Process):
    """`walrow receive`, with a load of the tables."""

    def __init__(self, server: Server) -> None:
        words = ["receive", "--dsn", server.dsn, "--log", str(LOG), "--slot", "demo"]
        words += [
            "--publication",
            "demo",
            "--create",
            "--snapshot",
            "--publish-after",
            "0.5",
        ]
        super().__init__("-m", "walrow", *words)


class _Query(_Process):
    """The streaming query of stream_to_delta.py."""

    #: Up to where its tables are.
    reached: walrow.Lsn | None = None

    def __init__(self, scratch: Path) -> None:
        script = str(ROOT / "examples" / "stream_to_delta.py")
        super().__init__(
            script, str(LOG), str(LAKE), *FOLLOWED, **_environment(scratch)
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self.running.stdout or ():
            if line.startswith("up to "):
                self.reached = walrow.Lsn(line.removeprefix("up to ").strip())


class _OwnQuery:
    """The same query in this process, which compares with its session afterwards."""

    #: Up to where its tables are.
    reached: walrow.Lsn | None = None

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def start(self) -> None:
        """Starts a session, and the query."""
        self.spark = _session(self._scratch)
        self._ends.callback(self.spark.stop)
        self._query = stream_to_delta.follow(
            self.spark, LOG, LAKE, FOLLOWED, self._listen
        )
        self._ends.callback(self._query.stop)

    def _listen(self, done: walrow.spark.AllApplied) -> None:
        self.reached = stream_to_delta.up_to(done)
        with (OUTPUT / "spark.log").open("a", encoding="utf-8") as log:
            for table, error in (done.failed | done.waiting).items():
                print(f"{table}: {error}", file=log)

    def finish(self, screen: Screen) -> None:
        """Waits until its tables have the whole log."""
        with screen.step("Spark: following the log to its end") as step:
            end = walrow.Log(LOG).end
            _wait(lambda: (self.reached or 0) >= end, self, step=step)
            self._query.stop()
            step.done(f"Spark: the Delta tables are current up to {self.reached}")

    def check(self) -> None:
        """Raises the error that ended the query."""
        if (error := self._query.exception()) is not None:
            raise error


def _wait(
    is_done: Any,
    *running: _Process | _OwnQuery | Future[None],
    step: Step | None = None,
) -> None:
    """Waits, as long as all of these run."""
    deadline = time.monotonic() + 300
    while not is_done():
        for each in running:
            if isinstance(each, Future):
                if each.done():
                    each.result()
            else:
                each.check()
        if time.monotonic() > deadline:
            msg = f"nothing happened for 300 s; see {OUTPUT.name}/*.log"
            raise TimeoutError(msg)
        if step is not None and step.is_shown and LOG.exists():
            step.update(f"{walrow.Log(LOG)}")
        time.sleep(0.2)


Truth = dict[str, tuple[list[str], "Counter[tuple[str | None, ...]]"]]


def _server_tables(server: Server) -> Truth:
    """Reads all tables as text: columns, and rows with their counts."""
    info = make_conninfo(server.dsn, options=walrow.postgres.options())
    tables: Truth = {}
    with psycopg.connect(info) as connection:
        names = connection.execute(
            "SELECT format('%s.%s', schemaname, tablename),"
            " format('%I.%I', schemaname, tablename) FROM pg_publication_tables"
        ).fetchall()
        for name, quoted in names:
            result = connection.pgconn.exec_(f"SELECT * FROM {quoted}".encode())  # noqa: S608
            columns = [(result.fname(i) or b"").decode() for i in range(result.nfields)]
            rows = Counter(
                tuple(
                    None if value is None else bytes(value).decode()
                    for value in (result.get_value(r, c) for c in range(result.nfields))
                )
                for r in range(result.ntuples)
            )
            tables[name] = columns, rows
    return tables


def _decode(outcomes: dict[str, Outcome], screen: Screen, times: Times) -> None:
    """Decodes the log in Python, to one Parquet file per table."""
    with screen.step("Python: walrow.read, one Parquet file per table") as step:
        began = time.perf_counter()
        rows = sum(batch.num_rows for batch in walrow.read(LOG))
        times.decoded = time.perf_counter() - began
        directory = OUTPUT / "python"
        directory.mkdir()
        writers: dict[str, pq.ParquetWriter] = {}
        try:
            for batch in walrow.read(LOG):
                records = pa.record_batch(batch)
                if batch.table not in writers:
                    file = directory / f"{batch.table}.parquet"
                    writers[batch.table] = pq.ParquetWriter(file, records.schema)
                writers[batch.table].write_batch(
                    records.cast(writers[batch.table].schema)
                )
                unsent = records.column("_unsent")
                outcomes[batch.table].unsent += len(unsent) - unsent.null_count
                outcomes[batch.table].changes += batch.num_rows
        finally:
            for writer in writers.values():
                writer.close()
        size = sum(segment.stream_bytes for segment in walrow.Log(LOG).segments())
        step.done(
            f"Python: {rows:,} rows to Arrow in {times.decoded:.2f} s"
            f" ({size / 1e6 / times.decoded:,.0f} MB/s,"
            f" {rows / times.decoded / 1e6:.1f} M rows/s)"
        )


def _fold_and_compare(
    truth: Truth, outcomes: dict[str, Outcome], screen: Screen
) -> None:
    """Folds the changes and compares the result with the server's text."""
    with screen.step("folding the changes, comparing with PostgreSQL") as step:
        tables = fold(LOG, profile="text")
        for name, (columns, rows) in truth.items():
            outcome = outcomes[name]
            table = tables.get(name)
            if table is None:
                if rows:
                    outcome.differences.append("is not in the stream")
                continue
            held = table.to_pyarrow()
            outcome.rows = held.num_rows
            if held.column_names != columns:
                outcome.differences.append("has different columns")
                continue
            ours = Counter(tuple(row.values()) for row in held.to_pylist())
            if ours != rows:
                missing, extra = (rows - ours).total(), (ours - rows).total()
                outcome.differences.append(
                    f"{missing} rows missing, {extra} rows too many"
                )
        for name in tables.keys() - truth.keys():
            outcomes[name] = Outcome(differences=["is not in PostgreSQL"])
        folded = sum(outcome.changes for outcome in outcomes.values())
        step.done(f"{folded:,} changes folded and compared, every row and column")


def _apply_without_spark(screen: Screen) -> None:
    """Makes the same Delta tables from the log, by deltalake."""
    began = time.monotonic()
    with screen.step("the same Delta tables without Spark, by deltalake") as step:
        for table in FOLLOWED:
            walrow.delta.apply_changes(
                LOG, table=table, target=f"delta:{EMBEDDED / table}"
            )
        seconds = time.monotonic() - began
        step.done(
            f"walrow.delta: {len(FOLLOWED)} Delta tables from the log in {seconds:.1f} s"
        )


def _compare_delta(
    server: Server, spark: Any, outcomes: dict[str, Outcome], screen: Screen
) -> None:
    """Compares every row and column of the Delta tables with the server's."""
    with (
        screen.step("comparing the Delta tables with PostgreSQL") as step,
        psycopg.connect(server.dsn) as connection,
    ):
        connection.execute("SET timezone = 'UTC'")
        for name in ("jsonb", "uuid"):
            # They are text in Spark.
            connection.adapters.register_loader(name, TextLoader)
        for table in FOLLOWED:
            rows = connection.execute(f"SELECT * FROM {table} ORDER BY id")  # noqa: S608
            columns = [column.name for column in rows.description or ()]
            expected = rows.fetchall()
            outcome = outcomes[table]
            frame = spark.read.format("delta").load(str(LAKE / table))
            for lake, found in (
                (LAKE, frame.toArrow()),
                (EMBEDDED, DeltaTable(EMBEDDED / table).to_pyarrow_table()),
            ):
                ours = found.select(columns).sort_by("id").to_pylist()
                outcome.in_delta = len(ours)
                if [tuple(row.values()) for row in ours] != expected:
                    text = f"{lake.name}/ has other rows"
                    outcome.differences.append(text)
        total = sum(outcome.in_delta or 0 for outcome in outcomes.values())
        step.done(f"Delta: {total:,} rows compared, every row and column")


def _environment(scratch: Path) -> dict[str, str]:
    """What a session on this machine needs: all its files are in directories of the demo."""
    home = scratch / "spark"
    home.mkdir(exist_ok=True)
    java = f"{JAVA} -XX:-UsePerfData -Djava.io.tmpdir={scratch} -Dderby.system.home={scratch}"
    settings = {
        **with_fetched_jars({**stream_to_delta.DELTA, **SMALL}),
        "spark.driver.extraJavaOptions": java,
        "spark.sql.session.timeZone": "UTC",
        # Plans of two tasks are not worth a second look between their stages.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
    }
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    (home / "spark-defaults.conf").write_text(text, "utf-8")
    packages = f"--conf spark.jars.packages={settings['spark.jars.packages']}"
    return {
        "PYSPARK_PYTHON": sys.executable,
        # They come after the example's own.
        "PYSPARK_SUBMIT_ARGS": f"{packages} pyspark-shell",
        "SPARK_CONF_DIR": str(home),
        "SPARK_LAUNCHER_OPTS": f"{JAVA} -XX:-UsePerfData",
        "SPARK_LOCAL_DIRS": str(scratch),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def _session(scratch: Path) -> Any:
    """Starts a session with Delta, whose messages go to a file."""
    os.environ.update(_environment(scratch))
    with (OUTPUT / "spark.log").open("ab") as log:
        saved = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            return stream_to_delta.session()
        finally:
            os.dup2(saved, 2)
            os.close(saved)


def _last_screen(console: Console, outcomes: dict[str, Outcome], times: Times) -> bool:
    grid = Grid(title="PostgreSQL's tables, rebuilt from the stream alone")
    grid.add_column("table", no_wrap=True)
    for heading in ("rows", "changes", "with unsent", "in Delta"):
        grid.add_column(heading, justify="right")
    grid.add_column("equal")
    for name, outcome in outcomes.items():
        verdict = "; ".join(outcome.differences)
        numbers = outcome.rows, outcome.changes, outcome.unsent
        grid.add_row(
            name,
            *(f"{number:,}" for number in numbers),
            "" if outcome.in_delta is None else f"{outcome.in_delta:,}",
            f"[red]no: {verdict}[/]" if verdict else "[green]yes[/]",
        )
    console.print()
    console.print(grid)
    equal = not any(outcome.differences for outcome in outcomes.values())
    console.print(
        "[bold green]Equal: every row and column.[/]"
        if equal
        else "[bold red]Not equal: this is a bug, please report it.[/]"
    )
    log = walrow.Log(LOG)
    size = sum(segment.stream_bytes for segment in log.segments())
    console.print(
        f"decoded at {size / 1e6 / times.decoded:,.0f} MB/s in Python; followed"
        f" {len(log.segments())} segments for {times.received:.0f} s;"
        f" total {time.monotonic() - times.began:.0f} s"
    )
    console.print(
        f"Files: {OUTPUT.name}/python/*.parquet, {OUTPUT.name}/{LAKE.name}/ (Spark),"
        f" {OUTPUT.name}/{EMBEDDED.name}/ (deltalake), {OUTPUT.name}/log/"
    )
    console.print(
        "Next: .venv/bin/walrow tables demo-output/log; examples/fold.py; README.md",
    )
    return equal


if __name__ == "__main__":
    sys.exit(main())
