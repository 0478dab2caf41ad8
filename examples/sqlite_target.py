"""Keeps a table of SQLite as a table of a log is: docs/net.md.

    python examples/sqlite_target.py LOG TABLE DATABASE

The database gets the rows, and up to where it has them, in one transaction. So the program may be
killed at any time, and its next run goes on. All values are PostgreSQL's texts.
"""

# ruff: noqa: S608  (statements are put together here, from names that are quoted)

from __future__ import annotations

import sqlite3
import sys

import walrow


def apply(log: walrow.Log, table: str, db: sqlite3.Connection) -> walrow.Lsn:
    """Applies what the database lacks, in one transaction. Returns up to where it is then."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        db.execute("CREATE TABLE IF NOT EXISTS applied (name PRIMARY KEY, checkpoint)")
        query = "SELECT max(checkpoint) FROM applied WHERE name = ?"
        [[checkpoint]] = db.execute(query, [table])
        # Refuses another log, another table, and another key.
        net = log.net(table, start=checkpoint, profile="text")
        if not net.versions:
            # The log has no changes left, and the database has them all.
            return net.end
        to, keys, columns = quoted(table), quoted(*net.keys), quoted(*net.columns)
        if net.clears:
            # The table may have another key now.
            db.execute(f"DROP TABLE IF EXISTS {to}")
        db.execute(f"CREATE TABLE IF NOT EXISTS {to} ({columns}, PRIMARY KEY ({keys}))")
        present = [row[1] for row in db.execute(f"PRAGMA table_info({to})")]
        for name in net.columns:
            if name not in present:
                db.execute(f"ALTER TABLE {to} ADD COLUMN {quoted(name)}")
        # Nothing is written before all old values were read.
        db.execute(f"CREATE TEMP TABLE removed AS SELECT {keys} FROM {to} LIMIT 0")
        db.execute(f"CREATE TEMP TABLE written AS SELECT {columns} FROM {to} LIMIT 0")
        head = None
        for row in (row for batch in net for row in batch.to_pyarrow().to_pylist()):
            kind, unsent = row["_change_type"], row["_unsent"] or ()
            key = [row[name] for name in net.keys]
            values = [row[name] for name in net.columns]
            if kind == "update_preimage":
                head = key
            elif kind == "delete":
                db.execute(f"INSERT INTO removed VALUES ({places(key)})", key)
            elif kind != "truncate":
                if kind == "update_postimage" and unsent:
                    query = (
                        f"SELECT {columns} FROM {to} WHERE ({keys}) = ({places(key)})"
                    )
                    [old] = db.execute(query, head or key)
                    pairs = zip(net.columns, old, values, strict=True)
                    values = [was if name in unsent else it for name, was, it in pairs]
                db.execute(f"INSERT INTO written VALUES ({places(values)})", values)
                head = None
        db.execute(f"DELETE FROM {to} WHERE ({keys}) IN (SELECT {keys} FROM removed)")
        db.execute(f"REPLACE INTO {to} ({columns}) SELECT {columns} FROM written")
        db.execute("REPLACE INTO applied VALUES (?, ?)", [table, net.checkpoint])
        db.execute("DROP TABLE removed")
        db.execute("DROP TABLE written")
    return net.end


def quoted(*names: str) -> str:
    """Names in SQL."""
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


def places(values: list[str]) -> str:
    """Places for values in SQL."""
    return ", ".join("?" * len(values))


def main() -> None:
    """Applies new changes."""
    path, table, database = sys.argv[1:]
    db = sqlite3.connect(database, isolation_level=None)
    print("up to", apply(walrow.Log(path), table, db))
    db.close()


if __name__ == "__main__":
    main()
