"""Random transactions on tables whose rows are found in different ways."""

# ruff: noqa: S608  (statements are put together here, from parts of its own)

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from spark.histories import History

#: Tables: their key, and their replica identity.
TABLES = {
    "key": ("id int PRIMARY KEY", "DEFAULT"),
    "pair": ("id int, k numeric, t timestamptz, PRIMARY KEY (k, id, t)", "DEFAULT"),
    "chosen": ("id int PRIMARY KEY, c text NOT NULL", "USING INDEX chosen_c"),
    # Two rows may have one key until the end of a transaction.
    "late": ("id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED", "FULL"),
}
KEYS = {"key": ["id"], "pair": ["id", "k", "t"], "chosen": ["c"], "late": ["id"]}
VALUES = {
    "a": "floor(random() * 3)::int",
    "b": "(ARRAY['x', 'y', NULL, E'\\\\n\\'\"'])[floor(random() * 4) + 1]",
    "f": "(ARRAY[0.1, '-0', 'NaN', NULL])[floor(random() * 4) + 1]::float8",
    # Too large for its row, and not compressed: it is only sent if it changes.
    "big": "repeat((ARRAY['p', 'q', NULL])[floor(random() * 3) + 1], 2500)",
    "big2": "repeat((ARRAY['r', 's', NULL])[floor(random() * 3) + 1], 2500)",
}


class Churn:
    """Changes tables at random, as a seed says."""

    def __init__(self, source: History, seed: int) -> None:
        self.source = source
        self.random = random.Random(seed)  # noqa: S311
        self.next_id = 0
        self.added: dict[str, list[str]] = {name: [] for name in TABLES}
        source.sql(f"SELECT setseed({self.random.random()})")
        for name, (more, identity) in TABLES.items():
            columns = "a int, b text, f float8, big text, big2 text"
            source.sql(
                f"CREATE TABLE {name} ({more}, {columns})",
                f"ALTER TABLE {name} ALTER big SET STORAGE EXTERNAL",
                f"ALTER TABLE {name} ALTER big2 SET STORAGE EXTERNAL",
            )
            if name == "chosen":
                source.sql("CREATE UNIQUE INDEX chosen_c ON chosen (c)")
            source.sql(f"ALTER TABLE {name} REPLICA IDENTITY {identity}")

    def run(self, transactions: int, *, alters: bool = True) -> None:
        for _ in range(transactions):
            self.source.sql("BEGIN")
            for _ in range(self.random.randint(1, 8)):
                self.change(self.random.choice(list(TABLES)))
            self.source.sql("COMMIT" if self.random.random() < 0.9 else "ROLLBACK")
            if alters and self.random.random() < 0.08:
                self.add_column()

    def change(self, name: str) -> None:
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
            self._insert(name, self.next_id)

    def _insert(self, name: str, number: int) -> None:
        columns = [*VALUES, "id", *self.added[name]]
        values = [*VALUES.values(), str(number), *["'new'"] * len(self.added[name])]
        keys = {
            "pair": {"k": f"{number % 7}.50", "t": "'2024-01-01'::timestamptz"},
            "chosen": {"c": f"'c{number}'"},
        }.get(name, {})
        self.source.sql(
            f"INSERT INTO {name} ({', '.join([*columns, *keys])}) VALUES "
            f"({', '.join([*values, *keys.values()])})"
        )

    def some(self, name: str, count: int | None = None) -> str:
        return (
            f"ctid IN (SELECT ctid FROM {name} ORDER BY random() "
            f"LIMIT {count or self.random.randint(1, 3)})"
        )

    def update(self, name: str) -> None:
        columns = self.random.sample(list(VALUES), self.random.randint(1, 3))
        sets = ", ".join(f"{column} = {VALUES[column]}" for column in columns)
        self.source.sql(f"UPDATE {name} SET {sets} WHERE {self.some(name)}")

    def change_key(self, name: str) -> None:
        """Moves one key, swaps two, or moves all by one."""
        self.next_id += 1
        free = 1_000_000 + self.next_id
        if name == "late":
            self.source.sql("UPDATE late SET id = id + 1")
        elif name == "chosen":
            self.source.sql(
                "UPDATE chosen SET c = c || '+' WHERE length(c) < 40 AND "
                + self.some(name)
            )
        elif name == "key" and self.random.random() < 0.5:
            found = self.source.conn.execute(
                "SELECT min(id), max(id) FROM key"
            ).fetchone()
            least, most = found or (None, None)
            if least != most:
                self.source.sql(
                    f"UPDATE key SET id = -{free} WHERE id = {least}",
                    f"UPDATE key SET id = {least} WHERE id = {most}",
                    f"UPDATE key SET id = {most} WHERE id = -{free}",
                )
        elif name == "pair":
            # The same number with other digits is another key to replication.
            self.source.sql(
                f"UPDATE pair SET k = k + 0.000, t = t + '1 s' WHERE {self.some(name)}"
            )
        else:
            self.source.sql(f"UPDATE {name} SET id = {free} WHERE {self.some(name, 1)}")

    def delete(self, name: str) -> None:
        self.source.sql(f"DELETE FROM {name} WHERE {self.some(name)}")

    def put_again(self, name: str) -> None:
        """Deletes a row, and inserts another one with its key."""
        if name not in {"key", "late"}:
            return
        found = self.source.conn.execute(
            f"SELECT id FROM {name} ORDER BY random() LIMIT 1".encode()
        ).fetchone()
        if found is None:
            return
        if name == "late" and self.random.random() < 0.5:
            # The new row comes first, as a deferred constraint allows.
            self._insert(name, found[0])
            self.source.sql(
                f"DELETE FROM late WHERE ctid = (SELECT min(ctid) FROM late WHERE id = {found[0]})"
            )
            return
        self.source.sql(f"DELETE FROM {name} WHERE id = {found[0]}")
        self._insert(name, found[0])

    def truncate(self, name: str) -> None:
        # The server refuses it while a deferred constraint is still to be checked.
        with (
            contextlib.suppress(psycopg.errors.ObjectInUse),
            self.source.conn.transaction(),
        ):
            self.source.sql(f"TRUNCATE {name}")

    def add_column(self) -> None:
        name = self.random.choice(list(TABLES))
        self.next_id += 1
        self.added[name].append(f"x{self.next_id}")
        self.source.transaction(
            f"ALTER TABLE {name} ADD COLUMN {self.added[name][-1]} text"
        )
        self.insert(name)
