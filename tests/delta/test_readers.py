"""Targets of `walrow.delta`, read by polars and duckdb, and compared with the log.

`live_rounds` compares histories that they read with a server.
"""

from __future__ import annotations

import json
import os
import subprocess
import venv
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streams
import walrow
from targets.written_log import WrittenLog

duckdb = pytest.importorskip("duckdb")
polars = pytest.importorskip("polars")


UNSENT = streams.UNSENT
#: Columns, and the values of three rows. The key is first.
COLUMNS = {
    "id": ("int", "1", "2", "3"),
    "b": ("bool", "t", "f", None),
    "f": ("float", "NaN", "-0", "Infinity"),
    "n": ("numeric(38,18)", "0.123456789012345678", "-99999999999999999999", None),
    "t": ("text", "it's \u00fc", "", None),
    "y": ("bytea", "\\x00ff", "\\x", None),
    "d": ("date", "0001-01-01", "9999-12-31", None),
    "s": ("timestamp", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", None),
    "z": ("timestamptz", "1969-12-31 23:59:59.9+00", "2262-04-12 00:00:00+00", None),
    "l": ("int[]", "{1,NULL}", "{}", None),
}
#: Filters that find one row each, by the statistics of its file.
FILTERS = {
    "f = 'NaN'::float8": 1,
    "f = 0": 2,
    "f > 1e300 AND f < 'NaN'::float8": 3,
    "n = 0.123456789012345678": 1,
    "n < -1e19": 2,
    "t = 'it''s \u00fc'": 1,
    "z > '2262-01-01'": 2,
    "d = '9999-12-31'": 2,
}


@pytest.fixture
def log(tmp_path: Path) -> WrittenLog:
    """A table with two files. A MERGE has changed one row, and removed another row."""
    log = WrittenLog(tmp_path, **{name: it[0] for name, it in COLUMNS.items()})
    for some in ((1, 3), (2,)):
        log.insert(*([it[at] for it in COLUMNS.values()] for at in some))
        log.apply()
    rest = [UNSENT] * (len(COLUMNS) - 1)
    log.update(["2", *rest])
    log.insert(["4", *[None] * len(rest)])
    log.apply()
    log.delete("4")
    log.apply()
    return log


def state_of(log: WrittenLog) -> pa.Table:
    state = walrow.Log(log.path).state("public.t", profile="spark").to_pyarrow()
    return state.sort_by("id")


def rows(table: pa.Table, like: pa.Schema) -> str:
    """The rows, whatever large or view types a reader has."""
    found = table.select(like.names).cast(like).sort_by("id")
    return repr(found.to_pylist())


def test_polars(log: WrittenLog) -> None:
    state = state_of(log)
    scan = polars.scan_delta(log.target.partition(":")[2])
    assert rows(scan.collect().to_arrow(), state.schema) == rows(state, state.schema)
    pushed = {
        1: polars.col("f").is_nan(),
        2: polars.col("f") == 0,
        3: polars.col("t").is_null(),
    }
    for key, chosen in pushed.items():
        assert scan.filter(chosen).collect()["id"].to_list() == [key]


def test_duckdb_over_a_scan(log: WrittenLog) -> None:
    state = state_of(log)
    table = deltalake.DeltaTable(log.target.partition(":")[2])
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for text, key in FILTERS.items():
            connection.register("scanned", table.scan())
            found = connection.sql(f"SELECT id FROM scanned WHERE {text}").fetchall()  # noqa: S608
            assert found == [(key,)], text
        connection.register("whole", table.scan())
        whole = connection.sql("FROM whole").to_arrow_table()
    assert rows(whole, state.schema) == rows(state, state.schema)


# --------------------------------------------------------------- kinds and shapes

#: Tables: their columns, and values of two rows. The first column is the key.
SHAPES: dict[str, dict[str, Any]] = {
    "wide": {"id": ("int", "1", "2")}
    | {f"c{at}": ("text" if at % 2 else "int", str(at), None) for at in range(300)},
    "narrow": {"id": ("text", "\u00fc", "")},
    "keyless": {"id": ("int", "1", "1"), "v": ("numeric(20,2)", "-0.05", None)},
}
KINDS = [
    (mode, shape)
    for mode in ("current", "history", "changes")
    for shape in SHAPES
    if mode == "changes" or shape != "keyless"
]


class Kept:
    """A target of one kind, and the rows that it must have."""

    def __init__(self, folder: Path, mode: str, shape: str) -> None:
        columns = SHAPES[shape]
        kinds = {name: it[0] for name, it in columns.items()}
        identity = "n" if shape == "keyless" else "d"
        self.log = WrittenLog(folder, identity, **kinds)
        self.mode = mode
        first, second = ([it[at] for it in columns.values()] for at in (1, 2))
        self.log.load(first)
        self.log.apply(mode=mode)
        # The commit times differ, so that each change is a version.
        self.log.time += 1_000_000
        self.log.insert(second)
        self.log.apply(mode=mode)
        self.log.time += 1_000_000
        if shape == "keyless":
            self.log.truncate()
        else:
            rest = [UNSENT] * (len(columns) - 1)
            self.log.update([second[0], *rest])
            self.log.time += 1_000_000
            self.log.delete(str(first[0]))
        self.log.insert(first)
        self.log.apply(mode=mode)
        self.place = self.log.target.partition(":")[2]

    def problem(self, found: pa.Table) -> str | None:
        """How the rows that a reader found differ."""
        wanted, rows = self._wanted(), self._chosen(found)
        names = wanted.schema.names
        same = (
            sorted(map(repr, it.select(names).cast(wanted.schema).to_pylist()))
            for it in (wanted, rows)
        )
        one, other = same
        return None if one == other else f"{other} and not {one}"

    def _wanted(self) -> pa.Table:
        log = walrow.Log(self.log.path)
        if self.mode != "changes":
            return log.state("public.t", profile="spark").to_pyarrow()
        names = [
            "change_type",
            "commit_lsn",
            "seq",
            "commit_timestamp",
            "xid",
            "key_only",
        ]
        names += ["unsent", "loaded"]
        read = log.read(table="public.t", profile="spark", metadata=names)
        return pa.table(read)

    def _chosen(self, found: pa.Table) -> pa.Table:
        """The rows that are true now, if they are versions."""
        if self.mode != "history":
            return found
        current = found.filter(found["_is_current"])
        assert current.num_rows == found["_valid_to"].null_count < found.num_rows
        return current


@pytest.mark.parametrize(("mode", "shape"), KINDS)
def test_kinds_of_targets(tmp_path: Path, mode: str, shape: str) -> None:
    kept = Kept(tmp_path, mode, shape)
    scan = polars.scan_delta(kept.place)
    assert kept.problem(scan.collect().to_arrow()) is None
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("target", deltalake.DeltaTable(kept.place).scan())
        assert kept.problem(connection.sql("FROM target").to_arrow_table()) is None


#: Another DuckDB, as the extension's package is for this one.
EXTENSION = ("duckdb==1.4.4", "duckdb-ext-delta==1.4.4.20260205")
SCRIPT = """
import json, sys, sysconfig
from pathlib import Path
import duckdb

place, out, filters = sys.argv[1:]
packages = Path(sysconfig.get_path("purelib"))
(extension,) = packages.glob("duckdb_ext/extensions/*/*/delta.duckdb_extension")
connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false")
connection.execute("SET autoinstall_known_extensions = false")
connection.execute("SET TimeZone = 'UTC'")
connection.execute(f"LOAD '{extension}'")
table = f"delta_scan('{place}')"
connection.execute(f"COPY (FROM {table}) TO '{out}'")
found = {it: connection.sql(f"SELECT id FROM {table} WHERE {it}").fetchall() for it in json.loads(filters)}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def other_duckdb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with another DuckDB, and the extension."""
    folder = tmp_path_factory.mktemp("duckdb")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", *EXTENSION], check=True)  # noqa: S603
    return python


def delta_scan(python: Path, place: str, out: Path, filters: list[str]) -> Any:
    """Writes the rows into a file. Returns the rows that filters find."""
    done = subprocess.run(  # noqa: S603
        [python, "-c", SCRIPT, place, out, json.dumps(filters)],
        capture_output=True,
        check=False,
        env={it: value for it, value in os.environ.items() if it != "PYTHONPATH"},
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_duckdb_and_its_extension(
    log: WrittenLog, tmp_path: Path, other_duckdb: Path
) -> None:
    state = state_of(log)
    place, out = log.target.partition(":")[2], tmp_path / "out.parquet"
    found = delta_scan(other_duckdb, place, out, list(FILTERS))
    assert found == {text: [[key]] for text, key in FILTERS.items()}
    assert rows(pq.read_table(out), state.schema) == rows(state, state.schema)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("mode", "shape"), KINDS)
def test_kinds_of_targets_and_the_extension(
    tmp_path: Path, other_duckdb: Path, mode: str, shape: str
) -> None:
    kept, out = Kept(tmp_path, mode, shape), tmp_path / "out.parquet"
    delta_scan(other_duckdb, kept.place, out, [])
    assert kept.problem(pq.read_table(out)) is None
