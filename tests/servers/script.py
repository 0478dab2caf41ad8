"""Turns a workload's operations into the statements of its connections.

All statements exist before the first one runs, and none waits for another connection: each
connection writes rows with its own ids, changes only its own tables, and does not touch
rows or tables of a prepared transaction before its end.
"""

# ruff: noqa: S608  (the statements have only the test's own parts)

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from servers.tables import BASE
from servers.workload import SESSIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from servers.workload import Operation, Workload


@dataclass(frozen=True)
class Step:
    """One statement.

    Attributes:
        session: Its connection.
        sql: The statement.
        large: Whether it writes much.
        fails: Whether it should fail.
    """

    session: int
    sql: str
    large: bool = False
    fails: bool = False


def steps(workload: Workload) -> list[Step]:
    """Returns the statements; at the end at most one prepared transaction is open."""
    names = _Names()
    sessions = [_Session(number, names) for number in range(SESSIONS)]
    for operation in workload.operations:
        sessions[operation.session % SESSIONS].do(operation)
    for session in sessions:
        session.end()
    return names.steps


def text(steps: Iterable[Step]) -> str:
    """Writes statements as a script for `servers.run_sql`."""
    lines = []
    for step in steps:
        comment = "  -- fails" if step.fails else ""
        lines += [f"-- session: {step.session}", f"{step.sql};{comment}"]
    return "\n".join(lines) + "\n"


@dataclass
class _Names:
    """The shared state of all connections: the script so far, and numbers for new names."""

    steps: list[Step] = field(default_factory=list)
    number: int = 0
    schema: str = "common"

    def __deepcopy__(self, _: dict[int, object]) -> _Names:
        return self

    def new(self) -> int:
        self.number += 1
        return self.number


@dataclass
class _Table:
    """A table as one connection sees it.

    Attributes:
        label: Its name.
        common: Knows the schema of a table that all connections write to.
        partitioned: Whether rows have a partition, in `p`.
        extra: The type of each column that came with ALTER TABLE.
        rows: The ids of the connection's rows.
    """

    label: str
    common: _Names | None = None
    partitioned: bool = False
    full: bool = False
    extra: dict[str, str] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)

    @property
    def own(self) -> bool:
        """Whether the connection may change its definition."""
        return self.common is None

    @property
    def name(self) -> str:
        """Its name, with the schema if that is not `public`."""
        return f"{self.common.schema}.{self.label}" if self.common else self.label


@dataclass
class _Prepared:
    gid: str
    before: dict[int, _Table]
    after: dict[int, _Table]
    touched: set[int]


class _Session:
    def __init__(self, number: int, names: _Names) -> None:
        self.number = number
        self.names = names
        self.tables = {
            0: _Table("shared", names),
            1: _Table("shared_p", names, partitioned=True),
            2: _Table(f"own_{number}_a"),
            3: _Table(f"own_{number}_b", full=True),
            4: _Table(f"own_{number}_p", partitioned=True),
        }
        self.next_id = (number + 1) * 10_000_000
        self.next_table = 5
        # The tables as they were at BEGIN and at each savepoint, with its name.
        self.marks: list[tuple[str, dict[int, _Table]]] = []
        self.touched: set[int] = set()
        self.prepared: list[_Prepared] = []
        self.origin = False

    def do(self, op: Operation) -> None:
        getattr(self, f"_{op.kind}")(op)

    def end(self) -> None:
        """Ends all open transactions, except the first connection's last prepared one."""
        if self.marks:
            self._say("COMMIT")
            self._left()
        for number, prepared in enumerate(self.prepared):
            if number or self.number:
                verb = "ROLLBACK" if number % 2 else "COMMIT"
                self._say(f"{verb} PREPARED '{prepared.gid}'")

    def _say(self, sql: str, *, large: bool = False, fails: bool = False) -> None:
        self.names.steps.append(Step(self.number, sql, large, fails))

    # Transactions

    def _begin(self, _: Operation) -> None:
        if not self.marks:
            self._say("BEGIN")
            self.marks.append(("", copy.deepcopy(self.tables)))

    def _left(self) -> None:
        self.marks.clear()
        self.touched.clear()

    def _commit(self, _: Operation) -> None:
        if self.marks:
            self._say("COMMIT")
            self._left()

    def _rollback(self, _: Operation) -> None:
        if self.marks:
            self._say("ROLLBACK")
            self.tables = self.marks[0][1]
            self._left()

    def _prepare(self, _: Operation) -> None:
        if not self.marks or len(self.prepared) == _MOST_PREPARED:
            return
        used = {prepared.gid for prepared in self.prepared}
        gids = (f"walrow {self.number} é {n}" for n in range(_MOST_PREPARED))
        gid = next(gid for gid in gids if gid not in used)
        self._say(f"PREPARE TRANSACTION '{gid}'")
        before = self.marks[0][1]
        self.prepared.append(_Prepared(gid, before, self.tables, set(self.touched)))
        self.tables = {
            key: copy.deepcopy(before[key] if key in self.touched else table)
            for key, table in self.tables.items()
            if key in before
        }
        for key in self.touched & set(self.tables):
            # It locks these rows, so they are not chosen again.
            self.tables[key].rows.clear()
        for key in set(before) - set(self.tables):
            self.tables[key] = before[key]
        self._left()

    def _decide(self, op: Operation, verb: str) -> None:
        if not self.prepared:
            return
        prepared = self.prepared.pop(op.pick % len(self.prepared))
        # Anyone may decide, but not within a transaction.
        decides = self.number + SESSIONS if self.marks else self.number
        self.names.steps.append(Step(decides, f"{verb} PREPARED '{prepared.gid}'"))
        then = prepared.after if verb == "COMMIT" else prepared.before
        for tables in (self.tables, *(tables for _, tables in self.marks)):
            for key in prepared.touched:
                if key in tables and not tables[key].own:
                    continue
                tables.pop(key, None)
                if key in then:
                    tables[key] = copy.deepcopy(then[key])

    def _commit_prepared(self, op: Operation) -> None:
        self._decide(op, "COMMIT")

    def _rollback_prepared(self, op: Operation) -> None:
        self._decide(op, "ROLLBACK")

    def _savepoint(self, _: Operation) -> None:
        if 0 < len(self.marks) < _MOST_SAVEPOINTS:
            name = f"s{self.names.new()}"
            self._say(f"SAVEPOINT {name}")
            self.marks.append((name, copy.deepcopy(self.tables)))

    def _rollback_to(self, op: Operation) -> None:
        if len(self.marks) > 1:
            at = 1 + op.pick % (len(self.marks) - 1)
            name, tables = self.marks[at]
            self._say(f"ROLLBACK TO SAVEPOINT {name}")
            self.tables = copy.deepcopy(tables)
            del self.marks[at + 1 :]

    def _release(self, op: Operation) -> None:
        if len(self.marks) > 1:
            at = 1 + op.pick % (len(self.marks) - 1)
            self._say(f"RELEASE SAVEPOINT {self.marks[at][0]}")
            del self.marks[at:]

    # Rows

    def _table(self, op: Operation, *, own: bool = False) -> _Table | None:
        """Chooses a table that no prepared transaction holds."""
        held = set().union(*(p.touched for p in self.prepared))
        keys = [
            key
            for key, table in sorted(self.tables.items())
            if (table.own or not own) and not (table.own and key in held)
        ]
        if not keys:
            return None
        key = keys[op.table % len(keys)]
        if self.marks:
            self.touched.add(key)
        return self.tables[key]

    def _new_ids(self, count: int) -> tuple[int, int]:
        first = self.next_id
        self.next_id += count
        return first, self.next_id - 1

    def _insert(self, op: Operation, *, wide: bool = False) -> None:
        table = self._table(op)
        if table is None:
            return
        size = min(op.size, 30) if wide else op.size
        first, last = self._new_ids(size)
        names = ["id", "a", "b", "big"]
        values = [
            "g",
            "nullif(g % 7, 0)",
            "'é ' || g",
            _of(_WIDE, "g") if wide else "NULL",
        ]
        if table.partitioned:
            names.append("p")
            values.append(f"(g + {op.pick}) % 3")
        for name, kind in table.extra.items():
            names.append(name)
            values.append(f"CASE WHEN g % 5 > 0 THEN {_of(_VALUES[kind], 'g')} END")
        self._say(
            f"INSERT INTO {table.name} ({', '.join(names)})"
            f" SELECT {', '.join(values)} FROM generate_series({first}, {last}) AS g",
            large=size * (40 if wide else 1) > _LARGE,
        )
        table.rows += range(first, last + 1)

    def _insert_wide(self, op: Operation) -> None:
        self._insert(op, wide=True)

    def _upsert(self, op: Operation) -> None:
        table = self._table(op)
        if table is None or table.partitioned or not table.rows:
            return
        known = table.rows[op.pick % len(table.rows)]
        new, _ = self._new_ids(1)
        action = ("DO NOTHING", "(id) DO UPDATE SET b = excluded.b")[op.pick % 2]
        self._say(
            f"INSERT INTO {table.name} (id, b) VALUES ({known}, 'again'), ({new}, 'new')"
            f" ON CONFLICT {action}"
        )
        table.rows.append(new)

    def _some(self, table: _Table, op: Operation) -> tuple[str, list[int]]:
        """Chooses rows that follow one another, and the condition for them."""
        start = op.pick % len(table.rows)
        rows = sorted(table.rows)[start : start + op.size]
        return f"id BETWEEN {rows[0]} AND {rows[-1]}", rows

    def _update(self, op: Operation) -> None:
        table = self._table(op)
        if table is None or not table.rows:
            return
        where, rows = self._some(table, op)
        name, kind = [*table.extra.items(), ("a", "int")][
            op.pick % (len(table.extra) + 1)
        ]
        value = "coalesce(a, 0) + 1" if name == "a" else _of(_VALUES[kind], "(id + 1)")
        self._say(
            f"UPDATE {table.name} SET {name} = {value} WHERE {where}",
            large=len(rows) > _LARGE,
        )

    def _update_wide(self, op: Operation) -> None:
        table = self._table(op)
        if table is None or not table.rows:
            return
        where, _ = self._some(table, _smaller(op, 20))
        value = ("NULL", _of(_WIDE, "(id + 1)"), "big || 'x'")[op.pick % 3]
        self._say(f"UPDATE {table.name} SET big = {value} WHERE {where}", large=True)

    def _update_key(self, op: Operation) -> None:
        table = self._table(op)
        if table is None or not table.rows:
            return
        old = table.rows.pop(op.pick % len(table.rows))
        new, _ = self._new_ids(1)
        self._say(f"UPDATE {table.name} SET id = {new} WHERE id = {old}")
        table.rows.append(new)

    def _move(self, op: Operation) -> None:
        table = self._table(op)
        if table is None or not table.partitioned or not table.rows:
            return
        where, _ = self._some(table, _smaller(op, 60))
        self._say(f"UPDATE {table.name} SET p = (p + 1) % 3 WHERE {where}")

    def _delete(self, op: Operation) -> None:
        table = self._table(op)
        if table is None or not table.rows:
            return
        where, rows = self._some(table, op)
        self._say(f"DELETE FROM {table.name} WHERE {where}", large=len(rows) > _LARGE)
        table.rows = [each for each in table.rows if each not in set(rows)]

    def _fail(self, op: Operation) -> None:
        """Writes rows until one exists already, and rolls back to a savepoint."""
        table = self._table(op)
        if table is None or not self.marks or table.partitioned or not table.rows:
            return
        name = f"s{self.names.new()}"
        known = table.rows[op.pick % len(table.rows)]
        first, last = self._new_ids(op.size)
        self._say(f"SAVEPOINT {name}")
        self._say(
            f"INSERT INTO {table.name} (id) SELECT g FROM generate_series({first},"
            f" {last}) AS g UNION ALL SELECT {known}",
            large=op.size > _LARGE,
            fails=True,
        )
        self._say(f"ROLLBACK TO SAVEPOINT {name}")

    def _truncate(self, op: Operation) -> None:
        count = 1 + op.pick % 3
        found = [
            self._table(_other_table(op, op.table + n), own=True) for n in range(count)
        ]
        tables = list({table.name: table for table in found if table}.values())
        if not tables:
            return
        options = ("", " CASCADE", " RESTART IDENTITY", " RESTART IDENTITY CASCADE")
        names = ", ".join(table.name for table in tables)
        self._say(f"TRUNCATE {names}{options[op.pick % 4]}")
        for table in tables:
            table.rows.clear()

    # Definitions

    def _add_column(self, op: Operation) -> None:
        table = self._table(op, own=True)
        if table is None or len(table.extra) == _MOST_COLUMNS:
            return
        name, kind = f"c{self.names.new()}", list(_VALUES)[op.pick % len(_VALUES)]
        default = (
            " DEFAULT 5" if kind in {"int", "numeric(20,3)"} and op.pick % 2 else ""
        )
        self._say(f"ALTER TABLE {table.name} ADD COLUMN {name} {kind}{default}")
        table.extra[name] = kind

    def _drop_column(self, op: Operation) -> None:
        table = self._table(op, own=True)
        if table is None or not table.extra:
            return
        name = list(table.extra)[op.pick % len(table.extra)]
        self._say(f"ALTER TABLE {table.name} DROP COLUMN {name}")
        del table.extra[name]

    def _rename_column(self, op: Operation) -> None:
        table = self._table(op, own=True)
        if table is None or not table.extra:
            return
        old = list(table.extra)[op.pick % len(table.extra)]
        new = f"c{self.names.new()}"
        self._say(f"ALTER TABLE {table.name} RENAME COLUMN {old} TO {new}")
        table.extra = {new if n == old else n: k for n, k in table.extra.items()}

    def _alter_type(self, op: Operation) -> None:
        table = self._table(op, own=True)
        names = [n for n, k in table.extra.items() if k != "text"] if table else []
        if table is None or not names:
            return
        name = names[op.pick % len(names)]
        self._say(f"ALTER TABLE {table.name} ALTER COLUMN {name} TYPE text")
        table.extra[name] = "text"

    def _rename_table(self, op: Operation) -> None:
        table = self._table(op, own=True)
        # Where partitions are published as their root, servers tell of a root's new name
        # only in streams: what they keep of a partition does not notice it.
        if table is None or table.partitioned:
            return
        new = f"own_{self.number}_{self.names.new()}"
        self._say(f"ALTER TABLE {table.name} RENAME TO {new}")
        table.label = new

    def _create_table(self, _: Operation) -> None:
        if len(self.tables) == _MOST_TABLES:
            return
        name = f"own_{self.number}_{self.names.new()}"
        self._say(f"CREATE TABLE {name} {BASE}")
        self.tables[self.next_table] = _Table(name)
        if self.marks:
            self.touched.add(self.next_table)
        self.next_table += 1

    def _drop_table(self, op: Operation) -> None:
        table = self._table(op, own=True)
        if table is None or table.partitioned or len(self.tables) < _FEWEST_TABLES:
            return
        self._say(f"DROP TABLE {table.name}")
        self.tables = {k: t for k, t in self.tables.items() if t is not table}

    def _identity(self, op: Operation) -> None:
        table = self._table(op, own=True)
        # A partition does not follow its root.
        if table is None or table.partitioned:
            return
        table.full = not table.full
        word = "FULL" if table.full else "DEFAULT"
        self._say(f"ALTER TABLE {table.name} REPLICA IDENTITY {word}")

    def _refresh(self, op: Operation) -> None:
        """Makes the server send a common table's definition again, without a change."""
        table = self.tables[op.table % 2]
        if self.number or any(op.table % 2 in p.touched for p in self.prepared):
            return
        if self.marks:
            self.touched.add(op.table % 2)
        verbs = ("ANALYZE", "GRANT SELECT ON", "REVOKE SELECT ON")
        role = ("", " TO PUBLIC", " FROM PUBLIC")
        self._say(f"{verbs[op.pick % 3]} {table.name}{role[op.pick % 3]}")

    def _rename_schema(self, _: Operation) -> None:
        """Renames common tables. This waits for no connection that writes to them."""
        if self.number == 0 and not self.marks:
            old, self.names.schema = self.names.schema, f"common_{self.names.new()}"
            self._say(f"ALTER SCHEMA {old} RENAME TO {self.names.schema}")

    # The rest

    def _message(self, op: Operation) -> None:
        inside = str(op.pick % 3 > 0).lower()
        content = f"repeat('m', {op.size * 10})"
        self._say(f"SELECT pg_logical_emit_message({inside}, 'p{op.pick}', {content})")

    def _origin(self, _: Operation) -> None:
        if self.marks:
            return
        self.origin = not self.origin
        call = f"setup('walrow-{self.number}-é')" if self.origin else "reset()"
        self._say(f"SELECT pg_replication_origin_session_{call}")

    def _origin_at(self, op: Operation) -> None:
        if self.marks and self.origin:
            self._say(
                "SELECT pg_replication_origin_xact_setup("
                f"'0/{0x1000 + op.pick:X}', '2026-01-01 00:00:00+00')"
            )


def _of(expression: str, value: str) -> str:
    return expression.replace("$", value)


def _smaller(op: Operation, most: int) -> Operation:
    return type(op)(op.session, op.kind, op.table, min(op.size, most), op.pick)


def _other_table(op: Operation, table: int) -> Operation:
    return type(op)(op.session, op.kind, table, op.size, op.pick)


# Too long to be stored in line; EXTERNAL prevents compression.
_WIDE = "repeat(chr((65 + $ % 26)::int), (2500 + $ % 977)::int)"
_VALUES = {
    "int": "($ % 1000)::int",
    "text": "'x' || $ % 1000",
    "numeric(20,3)": "$ / 8.0",
    "timestamptz": "'2000-01-01 00:00+00'::timestamptz + $ % 9999 * '1s'::interval",
    "bool": "$ % 2 = 0",
    "float8": "($ % 1000)::float8 / 7",
}
_LARGE = 300
_MOST_PREPARED = 3
_MOST_SAVEPOINTS = 6
_MOST_COLUMNS = 6
_MOST_TABLES = 9
_FEWEST_TABLES = 7
