"""Live PostgreSQL changes as typed columns, with proof that nothing is lost: `make demo`.

The demo starts a server whose tables have rows, asks what a receiver needs, loads the tables
into a log, and receives a workload after that. In the middle, it kills the receiver and starts
it again. walrow decodes the log in Python and in
Spark. The demo then folds the changes into tables and compares every row and every column
with PostgreSQL.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from psycopg.conninfo import make_conninfo
from rich.console import Console
from rich.table import Table as Grid

import walrow
import walrow.postgres
import walrow.spark
from fold import fold
from server import running_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server import Server

OUTPUT = Path(__file__).resolve().parent.parent / "demo-output"
SECONDS = float(os.environ.get("DEMO_SECONDS", "5"))


@dataclass
class Outcome:
    """The results for one table."""

    rows: int = 0
    changes: int = 0
    unsent: int = 0
    spark_changes: int = 0
    differences: list[str] = field(default_factory=list)


def main() -> int:
    """Runs the demo and returns the exit code."""
    # SIGTERM cleans up like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    log = OUTPUT / "log"
    screen = Screen()
    try:
        with ExitStack() as running:
            with screen.step("PostgreSQL: starting a separate server") as step:
                server = running.enter_context(running_server())
                with psycopg.connect(server.dsn) as connection:
                    version = connection.info.server_version
                step.done(
                    f"PostgreSQL {version // 10000}.{version % 10000} is running,"
                    " wal_level = logical"
                )
            began_receiving = time.monotonic()
            _preflight(server, screen)
            received = _receive(server, log, screen)
            receive_seconds = time.monotonic() - began_receiving
            with screen.step(
                "PostgreSQL: reading its tables for the comparison"
            ) as step:
                truth = _server_tables(server)
                total = sum(sum(rows.values()) for _, rows in truth.values())
                step.done(f"PostgreSQL has {total:,} rows in {len(truth)} tables")
        outcomes = {table: Outcome() for table in sorted(truth)}
        speed = _decode(log, outcomes, screen)
        _fold_and_compare(log, truth, outcomes, screen)
        spark_seconds = _spark(log, outcomes, screen)
    except KeyboardInterrupt:
        screen.console.print("stopped; the server and its files were removed")
        return 130
    equal = _last_screen(
        screen.console,
        outcomes,
        received,
        receive_seconds,
        speed,
        spark_seconds,
        began,
    )
    return 0 if equal else 1


def _preflight(server: Server, screen: Screen) -> None:
    """Asks what a receiver needs, and creates the publication."""
    with (
        screen.step("preflight: what does a receiver need?") as step,
        psycopg.connect(server.dsn, autocommit=True) as connection,
    ):
        before = walrow.postgres.preflight(connection, publications="demo")
        missing = [finding for finding in before.errors if finding.sql]
        connection.execute("CREATE PUBLICATION demo FOR ALL TABLES")
        connection.execute(_TABLES)
        after = walrow.postgres.preflight(connection, publications="demo")
        if after.errors:
            raise RuntimeError(str(after))
        step.done(
            f"preflight: {missing[0].text if missing else 'nothing was missing'};"
            " created it, and the server is ready"
        )


def _receive(server: Server, log: Path, screen: Screen) -> walrow.Log:
    """Receives a workload, with a kill -9 in the middle."""
    stop = threading.Event()
    killed_at = None
    with (
        screen.step("receiving a workload; kill -9 in the middle") as step,
        ExitStack() as running,
        ThreadPoolExecutor(1) as pool,
    ):
        loaded = _make_rows(server)
        receiver = _start_receiver(server, log)
        running.callback(receiver.kill)
        _begin_when_the_slot_exists(server, receiver)
        workload = pool.submit(_workload, server, stop)
        try:
            began = time.monotonic()
            while not workload.done():
                time.sleep(0.1)
                is_half = time.monotonic() - began > SECONDS / 2
                if killed_at is None and is_half and _segments(log):
                    receiver.kill()
                    receiver.wait()
                    killed_at = walrow.Log(log).end
                    receiver = _start_receiver(server, log)
                    running.callback(receiver.kill)
                elif _segments(log):
                    step.update(f"{walrow.Log(log)}")
            workload.result()
            receiver.terminate()
            receiver.wait()
            walrow.receive(
                server.dsn, log=log, slot="demo", publications="demo", until="now"
            )
        finally:
            stop.set()
        found = walrow.Log(log)
        transactions = sum(segment.transactions for segment in found.segments())
        size = sum(segment.stream_bytes for segment in found.segments())
        step.done(
            f"loaded {loaded:,} rows, and received {transactions:,} transactions,"
            f" {size / 1e6:.1f} MB; killed when the log ended at {killed_at}, started again"
        )
    return found


def _start_receiver(server: Server, log: Path) -> subprocess.Popen[str]:
    words = ["receive", "--dsn", server.dsn, "--log", str(log), "--slot", "demo"]
    words += ["--publication", "demo", "--create", "--snapshot", "--age", "0.5"]
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "walrow", *words], stderr=subprocess.PIPE, text=True
    )


def _make_rows(server: Server) -> int:
    """Fills the tables of pgbench. Returns how many rows all tables have."""
    pgbench = server.bin / "pgbench"
    if pgbench.exists():
        make = [str(pgbench), "-i", "-q", server.dsn]
        subprocess.run(make, check=True, capture_output=True)  # noqa: S603
    tables = _server_tables(server)
    return sum(rows.total() for _, rows in tables.values())


def _begin_when_the_slot_exists(
    server: Server, receiver: subprocess.Popen[str]
) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        while not connection.execute(
            "SELECT 1 FROM pg_replication_slots WHERE active"
        ).fetchone():
            if receiver.poll() is not None:
                raise RuntimeError(receiver.communicate()[1])
            time.sleep(0.05)


def _segments(log: Path) -> bool:
    return any(log.glob("*.wire.zst"))


def _workload(server: Server, stop: threading.Event) -> None:
    """Runs typical statements of applications, and some unusual ones."""
    pgbench = server.bin / "pgbench"
    ours: subprocess.Popen[bytes] | None = None
    if pgbench.exists():
        run = [
            str(pgbench),
            "-n",
            "-c",
            "2",
            "-T",
            str(max(1, round(SECONDS))),
            server.dsn,
        ]
        ours = subprocess.Popen(  # noqa: S603
            run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    try:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            deadline = time.monotonic() + SECONDS
            number = 0
            while time.monotonic() < deadline and not stop.is_set():
                number += 1
                for kind, statements in _ROUND.items():
                    if kind == "sometimes" and number % 10:
                        continue
                    with connection.transaction() as transaction:
                        for statement in statements:
                            connection.execute(statement, {"n": number})
                        if kind == "never":
                            raise psycopg.Rollback(transaction)
        if ours is not None and ours.wait() != 0 and not stop.is_set():
            msg = f"pgbench failed with {ours.returncode}"
            raise RuntimeError(msg)
    finally:
        if ours is not None and ours.poll() is None:
            ours.kill()
            ours.wait()


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


def _decode(log: Path, outcomes: dict[str, Outcome], screen: Screen) -> float:
    """Decodes in Python to one Parquet file per table. Returns the decoding MB/s."""
    with screen.step("Python: walrow.read, one Parquet file per table") as step:
        began = time.perf_counter()
        rows = sum(batch.num_rows for batch in walrow.read(log))
        seconds = time.perf_counter() - began
        directory = OUTPUT / "python"
        directory.mkdir()
        writers: dict[str, pq.ParquetWriter] = {}
        try:
            for batch in walrow.read(log):
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
        size = sum(segment.stream_bytes for segment in walrow.Log(log).segments())
        speed = size / 1e6 / seconds
        step.done(
            f"Python: {rows:,} rows to Arrow in {seconds:.2f} s"
            f" ({speed:,.0f} MB/s, {rows / seconds / 1e6:.1f} M rows/s)"
        )
    return speed


def _fold_and_compare(
    log: Path, truth: Truth, outcomes: dict[str, Outcome], screen: Screen
) -> None:
    """Folds the changes and compares the result with the server's text."""
    with screen.step("folding the changes, comparing with PostgreSQL") as step:
        tables = fold(log, profile="text")
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


def _spark(log: Path, outcomes: dict[str, Outcome], screen: Screen) -> float:
    """Decodes in Spark to one Parquet directory per table. Returns the seconds."""
    with (
        screen.step("Spark: starting a local session") as step,
        tempfile.TemporaryDirectory(prefix="walrow-demo-") as scratch,
        _stderr_to(OUTPUT / "spark.log"),
    ):
        spark = _session(scratch)
        try:
            began = time.perf_counter()
            changed = [name for name, o in outcomes.items() if o.changes]

            def decode(name: str) -> tuple[str, int, bool]:
                space, _, own = name.partition(".")
                table = (space, own)
                schema = walrow.spark.schema(log, table)
                function = walrow.spark.decode(table=table, schema=schema)
                paths = spark.createDataFrame([(str(log),)], "path string")
                changes = paths.coalesce(1).mapInArrow(function, schema)
                changes.write.parquet(str(OUTPUT / "spark" / name))
                written = pq.read_table(OUTPUT / "spark" / name)
                expected = pa.table(walrow.read(log, table=table, profile="spark"))
                return name, written.num_rows, _same(expected, written)

            # Two at a time: one decodes while Spark plans the other.
            with ThreadPoolExecutor(2) as pool:
                for name, count, same in pool.map(decode, changed):
                    step.update(f"mapInArrow: {name}")
                    outcomes[name].spark_changes = count
                    if not same:
                        outcomes[name].differences.append("Spark has different changes")
            seconds = time.perf_counter() - began
        finally:
            spark.stop()
        step.done(f"Spark {spark.version}: every table by mapInArrow, {seconds:.1f} s")
    return seconds


def _session(scratch: str) -> Any:
    """Starts a session that stores all its files in one directory."""
    java = f"-XX:-UsePerfData -Djava.io.tmpdir={scratch} -Dderby.system.home={scratch}"
    os.environ.update(
        PYSPARK_PYTHON=sys.executable,
        SPARK_LAUNCHER_OPTS="-XX:-UsePerfData",
        SPARK_LOCAL_DIRS=scratch,
        SPARK_LOCAL_IP="127.0.0.1",
        SPARK_SUBMIT_OPTS=java,
    )
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[2]")
        .appName("walrow demo")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.warehouse.dir", f"{scratch}/warehouse")
        .getOrCreate()
    )


def _same(expected: pa.Table, written: pa.Table) -> bool:
    """Compares values. Ignores Parquet's changes to metadata and nullability."""
    if expected.column_names != written.column_names:
        return False
    # As text, NaN equals itself.
    target = pa.schema(
        pa.field(f.name, pa.string() if pa.types.is_floating(f.type) else f.type)
        for f in expected.schema
    )
    return bool(expected.cast(target).equals(written.cast(target)))


def _last_screen(  # noqa: PLR0917
    console: Console,
    outcomes: dict[str, Outcome],
    received: walrow.Log,
    receive_seconds: float,
    speed: float,
    spark_seconds: float,
    began: float,
) -> bool:
    grid = Grid(title="PostgreSQL's tables, rebuilt from the stream alone")
    grid.add_column("table", no_wrap=True)
    for heading in ("rows", "changes", "with unsent", "in Spark"):
        grid.add_column(heading, justify="right")
    grid.add_column("equal")
    for name, outcome in outcomes.items():
        if outcome.spark_changes != outcome.changes:
            outcome.differences.append("Spark has a different number of changes")
        verdict = "; ".join(outcome.differences)
        numbers = outcome.rows, outcome.changes, outcome.unsent, outcome.spark_changes
        grid.add_row(
            name,
            *(f"{number:,}" for number in numbers),
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
    console.print(
        f"decoded at {speed:,.0f} MB/s in Python; received {len(received.segments())}"
        f" segments in {receive_seconds:.1f} s; Spark {spark_seconds:.1f} s;"
        f" total {time.monotonic() - began:.0f} s"
    )
    console.print(
        f"Files: {OUTPUT.name}/python/*.parquet, {OUTPUT.name}/spark/*/,"
        f" {OUTPUT.name}/log/"
    )
    console.print(
        "Next: .venv/bin/walrow tables demo-output/log; examples/fold.py; README.md",
    )
    return equal


class Screen:
    """Shows progress: a spinner on a terminal, otherwise occasional lines."""

    def __init__(self) -> None:
        """Checks whether the output is a terminal."""
        self.console = Console(highlight=False)
        if not self.console.is_terminal:
            self.console.width = 120

    @contextmanager
    def step(self, text: str) -> Iterator[Step]:
        """Shows progress until the block ends."""
        if self.console.is_terminal:
            with self.console.status(text) as status:
                step = Step(self.console, text, status.update)
                yield step
        else:
            self.console.print(f"... {text}")
            step = Step(self.console, text, None)
            yield step
        if step.result:
            self.console.print(f"[green]ok[/]  {step.result}")


class Step:
    """One step of the demo."""

    def __init__(self, console: Console, text: str, show: Any) -> None:
        """Begins the step."""
        self.result = ""
        self._console, self._text, self._show = console, text, show
        self._shown = time.monotonic()

    def update(self, detail: str) -> None:
        """Shows the current progress."""
        if self._show is not None:
            self._show(f"{self._text}: {detail}")
        elif time.monotonic() - self._shown > _LINE_SECONDS:
            self._shown = time.monotonic()
            self._console.print(f"    {detail}")

    def done(self, result: str) -> None:
        """Sets the result, which is shown when the block ends."""
        self.result = result


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Redirects the JVM's messages to a file."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with path.open("wb") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)


_LINE_SECONDS = 2.0

_TABLES = """
CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, email varchar(80),
    joined date, active bool, balance numeric(12,2), address jsonb);
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer int,
    total numeric(12,2), placed timestamptz, token uuid, details jsonb, tags text[],
    status varchar(20));
CREATE TABLE events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamp,
    payload bytea, reading float8, day date, level int2, clock time, ratio real);
-- Bodies are stored out of line: an update of the title does not send them.
CREATE TABLE documents (id int PRIMARY KEY, title text, revision int, body text);
ALTER TABLE documents ALTER COLUMN body SET STORAGE EXTERNAL;
-- No key, and equal rows: the server sends complete old rows.
CREATE TABLE stock (shelf text, product text, quantity int, note text);
ALTER TABLE stock REPLICA IDENTITY FULL;
ALTER TABLE stock ALTER COLUMN note SET STORAGE EXTERNAL;
INSERT INTO customers SELECT n, 'Customer ' || n || ' Ünïcode ☃',
    CASE WHEN n % 4 > 0 THEN 'c' || n || '@example.org' END, date '2020-01-01' + n,
    n % 3 = 0, n * 1.25, jsonb_build_object('city', 'No. ' || n, 'zip', n)
    FROM generate_series(1, 200) AS n;
INSERT INTO documents SELECT n, 'Title ' || n, 1, repeat(md5(n::text), 200)
    FROM generate_series(1, 100) AS n;
INSERT INTO stock SELECT 'shelf ' || n % 20, 'product ' || n % 50, n % 7,
    CASE WHEN n % 5 = 0 THEN repeat(md5(n::text), 100) END
    FROM generate_series(1, 300) AS n;
"""

# Each list is one transaction.
_ROUND: dict[str, list[str]] = {
    "orders": [
        """
        INSERT INTO orders (customer, total, placed, token, details, tags, status)
        SELECT 1 + (random() * 199)::int, (random() * 10000)::numeric(12,2),
            clock_timestamp(), gen_random_uuid(),
            jsonb_build_object('items', n, 'gift', n %% 2 = 0, 'price', 0.1::numeric),
            CASE n %% 4 WHEN 0 THEN NULL WHEN 1 THEN '{}'::text[]
                ELSE ARRAY['new', NULL, 'a "quoted" \\ one', 'NULL', 'ü'] END,
            'open'
        FROM generate_series(1, 40) AS n, (SELECT %(n)s) AS once
        """,
        "UPDATE orders SET status = 'sent' WHERE id > %(n)s * 40 - 80 AND id %% 3 = 0",
        "DELETE FROM orders WHERE id > %(n)s * 40 - 400 AND id %% 17 = %(n)s %% 17",
        "UPDATE customers SET balance = balance - 1.01 WHERE id %% 50 = %(n)s %% 50",
    ],
    "documents": [
        "UPDATE documents SET title = 'Title ' || %(n)s::int, revision = revision + 1"
        " WHERE id %% 10 = %(n)s %% 10",
        "UPDATE documents SET body = repeat(md5(title), 150) WHERE id = %(n)s %% 100",
    ],
    "stock": [
        "UPDATE stock SET quantity = quantity + 1 WHERE shelf = 'shelf ' || %(n)s %% 20",
        "DELETE FROM stock WHERE ctid IN"
        " (SELECT ctid FROM stock WHERE product = 'product ' || %(n)s %% 50 LIMIT 1)",
        "INSERT INTO stock SELECT 'shelf 1', 'product ' || %(n)s %% 50, 1, NULL"
        " FROM generate_series(1, 2)",
    ],
    "events": [
        """
        INSERT INTO events (at, payload, reading, day, level, clock, ratio)
        SELECT clock_timestamp() AT TIME ZONE 'UTC', decode(md5(n::text), 'hex'),
            CASE n %% 9 WHEN 0 THEN 'NaN' WHEN 1 THEN '-Infinity' WHEN 2 THEN NULL
                ELSE random() END,
            date '0044-03-15 BC' + n * 9999, n, time '00:00' + n * interval '1.000001 s',
            n / 3.0
        FROM generate_series(1, 20) AS n, (SELECT %(n)s) AS once
        """
    ],
    "never": ["DELETE FROM customers", "UPDATE orders SET total = %(n)s"],
    "sometimes": [
        "TRUNCATE events",
        # Changes the key.
        "UPDATE customers SET id = id + 1000 WHERE id = %(n)s",
        "UPDATE customers SET id = id - 1000 WHERE id = 1000 + %(n)s / 2",
    ],
}

if __name__ == "__main__":
    sys.exit(main())
