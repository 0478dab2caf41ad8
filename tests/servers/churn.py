"""Random transactions on tables whose rows are found in different ways."""

# ruff: noqa: S608  (the statements have only the test's own parts)

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping

import psycopg

from servers.live_log import History

#: Tables: their key, and their replica identity.
TABLES = {
    "key": ("id int PRIMARY KEY", "DEFAULT"),
    "pair": ("id int, k numeric, t timestamptz, PRIMARY KEY (k, id, t)", "DEFAULT"),
    "chosen": ("id int PRIMARY KEY, c text NOT NULL", "USING INDEX chosen_c"),
    # Two rows may have one key until the end of a transaction.
    "late": ("id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED", "FULL"),
}
#: And tables whose rows nothing identifies: equal rows, and rows that are never changed.
KEYLESS = {"whole": ("id int", "FULL"), "adds": ("id int", "NOTHING")}
KEYS = {"key": ["id"], "pair": ["id", "k", "t"], "chosen": ["c"], "late": ["id"]}
#: Values of the columns, which repeat: rows without a key may be equal.
VALUES = {
    "a": "floor(random() * 3)::int",
    "b": "(ARRAY['x', 'y', NULL, E'\\\\n\\'\"'])[floor(random() * 4) + 1]",
    "f": "(ARRAY[0.1, '-0', 'NaN', NULL])[floor(random() * 4) + 1]::float8",
    # Too large for its row, and not compressed: it is only sent if it changes.
    "big": "repeat((ARRAY['p', 'q', NULL])[floor(random() * 3) + 1], 2500)",
    "big2": "repeat((ARRAY['r', 's', NULL])[floor(random() * 3) + 1], 2500)",
}
COLUMNS = {"a": "int", "b": "text", "f": "float8", "big": "text", "big2": "text"}
#: Those that Spark has no types for.
MORE_VALUES = {
    "n": "(ARRAY[1.0, 1.00, -7, NULL, 'NaN'])[floor(random() * 5) + 1]",
    "w": "(ARRAY['2024-02-29 12:00+00', 'infinity', NULL])[floor(random() * 3) + 1]::timestamptz",
    "d": "(ARRAY['\\x00ff', '', NULL])[floor(random() * 3) + 1]::bytea",
}
MORE_COLUMNS = {"n": "numeric", "w": "timestamptz", "d": "bytea"}


class Churn:
    """Changes tables at random, as a seed says."""

    def __init__(self, source: History, seed: int, *, for_spark: bool = True) -> None:
        self.source = source
        self.random = random.Random(seed)  # noqa: S311
        self.next_id = 0
        self.tables: Mapping[str, tuple[str, str]] = TABLES
        self.values, self.columns = VALUES, COLUMNS
        if not for_spark:
            self.tables = TABLES | KEYLESS
            self.values, self.columns = VALUES | MORE_VALUES, COLUMNS | MORE_COLUMNS
        self.added: dict[str, list[str]] = {}
        #: The present names of tables that got another name, by the first name.
        self.names: dict[str, str] = {}
        source.sql(f"SELECT setseed({self.random.random()})")
        for name in self.tables:
            self.create(name)

    def create(self, name: str) -> None:
        more, identity = self.tables[name]
        columns = ", ".join(f"{it} {kind}" for it, kind in self.columns.items())
        self.source.sql(
            f"CREATE TABLE {name} ({more}, {columns})",
            f"ALTER TABLE {name} ALTER big SET STORAGE EXTERNAL",
            f"ALTER TABLE {name} ALTER big2 SET STORAGE EXTERNAL",
        )
        if name == "chosen":
            self.source.sql("CREATE UNIQUE INDEX chosen_c ON chosen (c)")
        self.source.sql(f"ALTER TABLE {name} REPLICA IDENTITY {identity}")
        self.added[name] = []

    def run(self, transactions: int, *, alters: bool = True) -> None:
        for _ in range(transactions):
            self.transaction()
            if alters and self.random.random() < 0.08:
                self.add_column()

    def transaction(self) -> None:
        self.source.sql("BEGIN")
        for _ in range(self.random.randint(1, 8)):
            name = self.random.choice(list(self.tables))
            if self.random.random() < 0.85:
                self.change(name)
                continue
            self.source.sql("SAVEPOINT one")
            self.change(name)
            is_kept = self.random.random() < 0.4
            self.source.sql("RELEASE one" if is_kept else "ROLLBACK TO one")
        self.source.sql("COMMIT" if self.random.random() < 0.9 else "ROLLBACK")

    def change(self, name: str) -> None:
        if name == "adds":
            self.random.choice([self.insert, self.insert, self.truncate])(name)
            return
        kinds = {
            self.insert: 30,
            self.update: 30,
            self.change_key: 15,
            self.delete: 10,
            self.put_again: 5,
            self.truncate: 1,
        }
        (kind,) = self.random.choices(list(kinds), list(kinds.values()))
        kind(name)

    def insert(self, name: str) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.next_id += 1
            self._insert(name, 1 if name == "whole" else self.next_id)

    def _insert(self, name: str, number: int) -> None:
        added = self.added[name]
        columns = [*self.values, "id", *added]
        values = [*self.values.values(), str(number), *["'new'"] * len(added)]
        keys = {
            "pair": {"k": f"{number % 7}.50", "t": "'2024-01-01'::timestamptz"},
            "chosen": {"c": f"'c{number}'"},
        }.get(name, {})
        self.source.sql(
            f"INSERT INTO {self._table(name)} ({', '.join([*columns, *keys])}) VALUES "
            f"({', '.join([*values, *keys.values()])})"
        )

    def some(self, name: str, count: int | None = None) -> str:
        return (
            f"ctid IN (SELECT ctid FROM {self._table(name)} ORDER BY random() "
            f"LIMIT {count or self.random.randint(1, 3)})"
        )

    def update(self, name: str) -> None:
        columns = self.random.sample(list(self.values), self.random.randint(1, 3))
        sets = ", ".join(f"{column} = {self.values[column]}" for column in columns)
        self.source.sql(
            f"UPDATE {self._table(name)} SET {sets} WHERE {self.some(name)}"
        )

    def change_key(self, name: str) -> None:
        """Moves one key, swaps two, or moves all by one."""
        self.next_id += 1
        free = 1_000_000 + self.next_id
        table = self._table(name)
        if name == "late":
            self.source.sql(f"UPDATE {table} SET id = id + 1")
        elif name == "chosen":
            self.source.sql(
                f"UPDATE {table} SET c = c || '+' WHERE length(c) < 40 AND "
                + self.some(name)
            )
        elif name == "key" and self.random.random() < 0.5:
            found = self.source.conn.execute(
                f"SELECT min(id), max(id) FROM {table}".encode()
            ).fetchone()
            least, most = found or (None, None)
            if least != most:
                self.source.sql(
                    f"UPDATE {table} SET id = -{free} WHERE id = {least}",
                    f"UPDATE {table} SET id = {least} WHERE id = {most}",
                    f"UPDATE {table} SET id = {most} WHERE id = -{free}",
                )
        elif name == "pair":
            # The same number with other digits is another key to replication.
            self.source.sql(
                f"UPDATE {table} SET k = k + 0.000, t = t + '1 s' WHERE {self.some(name)}"
            )
        else:
            self.source.sql(
                f"UPDATE {table} SET id = {free} WHERE {self.some(name, 1)}"
            )

    def delete(self, name: str) -> None:
        self.source.sql(f"DELETE FROM {self._table(name)} WHERE {self.some(name)}")

    def put_again(self, name: str) -> None:
        """Deletes a row, and inserts another one with its key."""
        if name not in {"key", "late"}:
            return
        table = self._table(name)
        found = self.source.conn.execute(
            f"SELECT id FROM {table} ORDER BY random() LIMIT 1".encode()
        ).fetchone()
        if found is None:
            return
        if name == "late" and self.random.random() < 0.5:
            # The new row comes first, as a deferred constraint allows.
            self._insert(name, found[0])
            self.source.sql(
                f"DELETE FROM {table} WHERE ctid = "
                f"(SELECT min(ctid) FROM {table} WHERE id = {found[0]})"
            )
            return
        self.source.sql(f"DELETE FROM {table} WHERE id = {found[0]}")
        self._insert(name, found[0])

    def truncate(self, name: str) -> None:
        # The server refuses it while a deferred constraint is still to be checked.
        with (
            contextlib.suppress(psycopg.errors.ObjectInUse),
            self.source.conn.transaction(),
        ):
            self.source.sql(f"TRUNCATE {self._table(name)}")

    def add_column(self) -> None:
        name = self.random.choice(list(self.tables))
        self.source.transaction(self._added(name))
        self.insert(name)

    def alter(self) -> None:
        """Changes a definition. A row after it tells the stream."""
        name = self.random.choice([each for each in self.tables if each != "adds"])
        kind = self.random.choice(["add", "add", "drop", "identity", "recreate"])
        self.source.sql("BEGIN")
        if kind == "add":
            self.source.sql(self._added(name))
        elif kind == "drop" and self.added[name]:
            self.source.sql(f"ALTER TABLE {name} DROP COLUMN {self.added[name].pop(0)}")
        elif kind == "identity" and name in {"key", "pair", "chosen"}:
            other = self.random.choice(["FULL", self.tables[name][1]])
            self.source.sql(f"ALTER TABLE {name} REPLICA IDENTITY {other}")
        elif kind == "recreate":
            self.source.sql(f"DROP TABLE {name}")
            self.create(name)
        self.insert(name)
        self.source.sql("COMMIT")

    def _added(self, name: str) -> str:
        self.next_id += 1
        self.added[name].append(f"x{self.next_id}")
        return f"ALTER TABLE {self._table(name)} ADD COLUMN {self.added[name][-1]} text"

    def alter_column(self, name: str) -> str:
        """Changes a definition of a table that stays. A row after it tells the stream.

        Returns:
            The kind of change. A column that was renamed has its old values after a load only.
        """
        table, added = self._table(name), self.added[name]
        self.next_id += 1
        kinds = ["drop", "widen", "shorten", "table", "identity", "rename and loaded"]
        kind = self.random.choice(kinds)
        self.source.sql("BEGIN")
        if kind == "drop" and added:
            self.source.sql(f"ALTER TABLE {table} DROP COLUMN {added.pop(0)}")
        elif kind == "widen":
            self.source.sql(f"ALTER TABLE {table} ALTER COLUMN a TYPE bigint")
        elif kind == "shorten":
            self.source.sql(f"ALTER TABLE {table} ALTER COLUMN b TYPE varchar(50)")
        elif kind == "table":
            self.names[name] = f"{name}_{self.next_id}"
            self.source.sql(f"ALTER TABLE {table} RENAME TO {self.names[name]}")
        elif kind == "identity" and name != "late":
            other = self.random.choice(["FULL", self.tables[name][1]])
            self.source.sql(f"ALTER TABLE {table} REPLICA IDENTITY {other}")
        elif kind == "rename and loaded" and added:
            column = f"y{self.next_id}"
            self.source.sql(f"ALTER TABLE {table} RENAME COLUMN {added[0]} TO {column}")
            added[0] = column
        self.insert(name)
        self.source.sql("COMMIT")
        return kind

    def _table(self, name: str) -> str:
        """The present name of a table."""
        return self.names.get(name, name)
