"""Makes the captures for the benchmarks, with the examples' server and client.

Run as `PYTHONPATH=examples python benches/captures.py DIRECTORY`.

Each is a real server's stream, recorded once and kept; a file that is there is not made
again. LSNs and times differ from one making to the next, sizes and counts do not.

    narrow    pgbench_history: 200,000 rows of 4 integers, a timestamp and a NULL,
              1,000 rows a transaction
    wide      20 text columns of 5 to 40 bytes, 20,000 rows
    mixed     20 columns of the usual types, a few of them NULL now and then, 20,000 rows
"""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from pathlib import Path

import psycopg

from capture import capture
from server import running_server


def make_captures(directory: Path) -> dict[str, Path]:
    """Makes the captures that a directory lacks and returns all, by name.

    Args:
        directory: Where they are kept; it is made if it is not there.

    Returns:
        The files, by `narrow.text`, `narrow.binary` and so on.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files = {
        f"{table}.{form}": directory / f"{table}{_SUFFIX[form]}"
        for table, (_, _, forms) in _TABLES.items()
        for form in forms
    }
    missing = [name for name, path in files.items() if not path.exists()]
    if missing:
        with running_server() as server:
            for table in dict.fromkeys(name.split(".")[0] for name in missing):
                wanted = [n for n in missing if n.startswith(f"{table}.")]
                _make(server.dsn, table, {n: files[n] for n in wanted})
    return files


def _make(dsn: str, table: str, files: dict[str, Path]) -> None:
    setup, workload, _ = _TABLES[table]
    slots = {name: name.replace(".", "_") for name in files}
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(setup.encode())
        connection.execute(f"CREATE PUBLICATION {table} FOR TABLE {_NAMES[table]}")
        for slot in slots.values():
            connection.execute(_CREATE_SLOT, (slot,))
        connection.execute(workload.encode())
        (end,) = connection.execute(_END).fetchone() or (0,)
        # A server says how far it has read at the end of a record: this is one more.
        connection.execute("CHECKPOINT")
        for name, path in files.items():
            # A capture that was cut off must not be taken for a whole one.
            partial = path.with_suffix(".partial")
            began = time.monotonic()
            is_binary = name.endswith(".binary")
            with (
                partial.open("wb") as sink,
                closing(
                    capture(dsn, slots[name], table, sink, binary=is_binary)
                ) as progress,
            ):
                captured = next(each for each in progress if each.position >= end)
            partial.rename(path)
            print(
                f"{path.name}: {captured.bytes / 1e6:.1f} MB"
                f" in {time.monotonic() - began:.1f} s"
            )


_CREATE_SLOT = "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')"
_END = "SELECT (pg_current_wal_insert_lsn() - '0/0')::int8"


def _workload(table: str, values: str, rows: int, rows_a_transaction: int) -> str:
    """Writes a block that inserts rows in many transactions."""
    return f"""
DO $$
BEGIN
    FOR part IN 0 .. {rows // rows_a_transaction - 1} LOOP
        INSERT INTO {table} SELECT {values}
        FROM generate_series(part * {rows_a_transaction} + 1,
            (part + 1) * {rows_a_transaction}) AS n;
        COMMIT;
    END LOOP;
END $$;
"""  # noqa: S608


# No random(): the same rows each time. Multiplying by a prime scatters them.
_HISTORY = """
n % 10 + 1, n % 3 + 1, (n * 7919::int8) % 1000000 + 1, (n * 104729::int8) % 10001 - 5000,
timestamp '2024-01-01' + n * interval '1.234567 s', NULL
"""
_TEXTS = ", ".join(
    f"left(repeat(md5((n * {31 + i})::text), 2), 5 + ((n * {7919 + 2 * i}) % 36)::int)"
    for i in range(20)
)
_MIXED = {
    "id": ("int8", "n"),
    "region": ("int4", "(n * 7919) % 1000"),
    "priority": ("int2", "n % 7"),
    "customer": (
        "int4",
        "CASE WHEN n % 5 > 0 THEN (n * 104729::int8 % 100000)::int4 END",
    ),
    "price": ("numeric(12,2)", "(n * 7919::int8 % 10000000) / 100.0"),
    "tax": ("numeric(12,2)", "CASE WHEN n % 4 > 0 THEN (n * 31 % 100000) / 100.0 END"),
    "quantity": ("numeric(38,10)", "n / 7.0::numeric"),
    "placed": ("timestamptz", "timestamptz '2024-01-01+00' + n * interval '1.23456 s'"),
    "shipped": ("timestamptz", "timestamptz '2024-01-02+00' + n * interval '7 min'"),
    "local": ("timestamp", "timestamp '2023-06-01' + n * interval '1 min'"),
    "due": ("date", "date '2024-01-01' + n % 1000"),
    "at": ("time", "time '00:00' + n * interval '1.5 s'"),
    "token": ("uuid", "md5(n::text)::uuid"),
    "paid": ("bool", "n % 3 = 0"),
    "gift": ("bool", "CASE WHEN n % 5 > 0 THEN n % 2 = 0 END"),
    "status": ("varchar(20)", "(ARRAY['new', 'open', 'sent', 'returned'])[n % 4 + 1]"),
    "note": ("text", "CASE WHEN n % 5 > 0 THEN left(md5(n::text), 5 + n % 28) END"),
    "weight": ("float8", "n / 3.0::float8"),
    "score": ("float4", "(n % 1000)::float4 / 8"),
    "extra": ("jsonb", "jsonb_build_object('n', n, 'tags', ARRAY['a', 'b'])"),
}

_NAMES = {"narrow": "pgbench_history", "wide": "wide", "mixed": "mixed"}
_TABLES = {
    "narrow": (
        "CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int,"
        " mtime timestamp, filler char(22))",
        _workload("pgbench_history", _HISTORY, 200_000, 1_000),
        ("text", "binary"),
    ),
    "wide": (
        f"CREATE TABLE wide ({', '.join(f'c{i} text' for i in range(20))})",
        _workload("wide", _TEXTS, 20_000, 1_000),
        ("text",),
    ),
    "mixed": (
        f"CREATE TABLE mixed ({', '.join(f'{n} {t}' for n, (t, _) in _MIXED.items())},"
        " PRIMARY KEY (id))",
        _workload("mixed", ", ".join(v for _, v in _MIXED.values()), 20_000, 1_000),
        ("text", "binary"),
    ),
}
_SUFFIX = {"text": ".wire", "binary": ".binary.wire"}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Makes captures for benchmarks.")
    parser.add_argument("directory", type=Path, help="where the captures are kept")
    began = time.monotonic()
    make_captures(parser.parse_args().directory)
    print(f"done in {time.monotonic() - began:.1f} s")
