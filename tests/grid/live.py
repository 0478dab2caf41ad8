"""The grid on one server: tables of every type, and their streams.

All tables are filled once and sent twice, as text and as binary. Each table has separate
transactions, so its stream can be cut out of the whole stream.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import pq

import walrow
import walrow.postgres
from servers import create_slot, drop_slot, record
from servers.recording import PINNED_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grid.kinds import Beyond, Kind
    from servers import EmbeddedServer

FORMATS = ("text", "binary")
_SLOTS = {form: f"grid_{form}" for form in FORMATS}


@dataclass(frozen=True)
class Table:
    """A table with the columns `id` and `v`.

    Attributes:
        name: Its name, in schema public.
        kind: The type of `v`.
        beyond: Why the value of each row does not fit, if it does not.
        has_binary: Whether it has a binary stream.
    """

    name: str
    kind: Kind
    beyond: tuple[Beyond, ...] = ()
    has_binary: bool = True


class Live:
    """The tables on one server, their texts and their streams.

    Attributes:
        tables: By name: `t_` and a kind; `b_` and a kind for values that Arrow cannot hold;
            `n_` and a kind for arrays of several dimensions.
        streams: The stream of each table in each format, by table and format.
    """

    def __init__(self, server: EmbeddedServer, kinds: list[Kind], rows: int) -> None:
        """Makes the tables, fills each with `rows` random values, and records them."""
        self._server = server
        self._random = Random(f"{rows} rows")  # noqa: S311
        self.tables: dict[str, Table] = {}
        settings = " ".join(f"-c {k}={v}" for k, v in PINNED_SETTINGS.items())
        self._connection = psycopg.connect(
            server.dsn, autocommit=True, options=settings, client_encoding="UTF8"
        )
        self._define(kinds)
        self.catalog = walrow.postgres.catalog(self._connection)
        for slot in _SLOTS.values():
            create_slot(server.dsn, slot)
        for kind in kinds:
            self._fill(kind, rows)
        whole = {
            form: record(
                server,
                None,
                publication=f"grid_{form}",
                slot=slot,
                binary=form == "binary",
            )
            for form, slot in _SLOTS.items()
        }
        for slot in _SLOTS.values():
            drop_slot(server.dsn, slot)
        self.streams = {
            (table, form): data
            for form in FORMATS
            for table, data in cut(whole[form]).items()
        }

    def close(self) -> None:
        self._connection.close()

    def printed(self, table: str, expression: str = "v") -> dict[int, str | None]:
        """A column as the type's output function writes it, by id."""
        # Not a cast to text, which removes the blanks of char(n).
        query = f'SELECT id, {expression} FROM "{table}" ORDER BY id'  # noqa: S608
        result = self._connection.pgconn.exec_(query.encode())
        assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
        found: dict[int, str | None] = {}
        for row in range(result.ntuples):
            number, value = result.get_value(row, 0), result.get_value(row, 1)
            assert number is not None
            found[int(number)] = None if value is None else value.decode()
        return found

    @cached_property
    def texts(self) -> dict[str, dict[int, str | None]]:
        """The server's texts, by table and id."""
        return {name: self.printed(name) for name in self.tables}

    def _define(self, kinds: list[Kind]) -> None:
        wanted = {kind.extension for kind in kinds if kind.extension is not None}
        for name in sorted(wanted - {"xml"}):
            self._run(f'CREATE EXTENSION IF NOT EXISTS "{name}" CASCADE')
        # All types come first, because later definitions make the server send relations again.
        for kind in kinds:
            for statement in kind.setup:
                self._run(statement)
        for kind in kinds:
            self._make(Table(f"t_{kind.name}", kind))
            beyond = beyond_of(kind, self._server.major)
            if beyond:
                self._make(Table(f"b_{kind.name}", kind, beyond))
            if kind.of is not None:
                self._make(Table(f"n_{kind.name}", kind))
        for form in FORMATS:
            names = [
                t.name for t in self.tables.values() if form == "text" or t.has_binary
            ]
            self._run(
                f"CREATE PUBLICATION grid_{form} FOR TABLE "
                + ", ".join(f'"{name}"' for name in names)
            )

    def _make(self, table: Table) -> None:
        self._run(
            f'CREATE TABLE "{table.name}" (id int PRIMARY KEY, v {table.kind.sql})'
        )
        sendable = self._connection.execute(_SENDABLE, [table.name]).fetchone()
        assert sendable is not None
        self.tables[table.name] = Table(
            table.name, table.kind, table.beyond, has_binary=sendable[0]
        )

    def _fill(self, kind: Kind, rows: int) -> None:
        main = f"t_{kind.name}"
        if kind.fill is not None:
            self._run(
                f'INSERT INTO "{main}" SELECT row_number() OVER (), v'  # noqa: S608
                f" FROM ({kind.fill}) AS filled (v)"
            )
        else:
            draw = kind.draw
            drawn = () if draw is None else (draw(self._random) for _ in range(rows))
            self._copy(main, (*kind.odd, None, *drawn))
        beyond = self.tables.get(f"b_{kind.name}")
        if kind.of is not None:
            source = f"t_{kind.of.name}"
            self._run(_SEVERAL_DIMENSIONS.format(kind=kind.name, source=source))
            if beyond is not None:
                self._run(
                    f'INSERT INTO "{beyond.name}"'  # noqa: S608
                    f' SELECT id, ARRAY[NULL, v] FROM "b_{kind.of.name}"'
                )
        elif beyond is not None:
            self._copy(beyond.name, (each.literal for each in beyond.beyond))

    def _copy(self, table: str, values: Iterable[str | None]) -> None:
        """Inserts values as text, with ids from 1."""
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f'COPY "{table}" FROM STDIN') as copy,
        ):
            for number, value in enumerate(values, 1):
                copy.write_row((number, value))

    def _run(self, statement: str) -> None:
        self._connection.execute(statement.encode())


def beyond_of(kind: Kind, major: int) -> tuple[Beyond, ...]:
    """The values of a type on this server that do not fit; for arrays, those of the items."""
    of = kind if kind.of is None else kind.of
    return tuple(each for each in of.beyond if each.since <= major)


def cut(stream: bytes) -> dict[str, bytes]:
    """Cuts a stream of transactions that write one table each; by the table's name."""
    head = b""
    tables: dict[str, list[bytes]] = {}
    names: dict[int, str] = {}
    open_frames: list[bytes] = []
    name = ""
    for frame in _frames(stream):
        payload = frame[5:]
        if frame[:1] == b"W":
            head = frame
        if frame[:1] != b"d" or payload[:1] != b"w":
            assert frame[:1] != b"E", payload
            continue
        message = payload[25:]
        open_frames.append(frame)
        if message[:1] == b"R":
            relation, text = int.from_bytes(message[1:5], "big"), message[5:]
            names[relation] = text.split(b"\0")[1].decode()
        if message[:1] in {b"R", b"I"}:
            name = names[int.from_bytes(message[1:5], "big")]
        if message[:1] == b"C":
            tables.setdefault(name, [head]).append(b"".join(open_frames))
            open_frames = []
    return {table: b"".join(parts) for table, parts in tables.items()}


def one_row(stream: bytes, wanted: int) -> bytes:
    """Keeps one row of a table's stream, counted from 0."""
    kept = []
    seen = -1
    for frame in _frames(stream):
        is_insert = frame[:1] == b"d" and frame[30:31] == b"I"
        seen += is_insert
        if not is_insert or seen == wanted:
            kept.append(frame)
    return b"".join(kept)


def _frames(stream: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(stream):
        (size,) = struct.unpack_from("!I", stream, at + 1)
        yield stream[at : at + 1 + size]
        at += 1 + size


def decode(live: Live, stream: bytes, **options: Any) -> list[walrow.Batch]:
    """Decodes with the server's catalog, into one batch if possible."""
    options.setdefault("catalog", live.catalog)
    decoder = walrow.Decoder(
        metadata=[],
        batch_rows=1 << 20,
        batch_bytes=1 << 29,
        batch_memory=1 << 30,
        **options,
    )
    return [*decoder.feed(stream), *decoder.finish()]


#: Whether all types in a column have a send function. The server sends a type without one as
#: text, but an array of such a type ends the stream.
_SENDABLE = """
WITH RECURSIVE held (type, nested) AS (
    SELECT atttypid, false FROM pg_attribute
    WHERE attrelid = to_regclass(quote_ident(%s)) AND attname = 'v'
    UNION
    SELECT held_type, true FROM held JOIN pg_type t ON t.oid = type
    CROSS JOIN LATERAL (
        SELECT typelem WHERE typelem <> 0
        UNION ALL SELECT typbasetype WHERE typbasetype <> 0
        UNION ALL SELECT atttypid FROM pg_attribute
            WHERE attrelid = typrelid AND typrelid <> 0 AND attnum > 0
        UNION ALL SELECT rngsubtype FROM pg_range WHERE t.oid IN (rngtypid, rngmultitypid)
    ) AS inside (held_type)
)
SELECT coalesce(bool_and(typsend <> 0 OR NOT nested), true)
FROM held JOIN pg_type t ON t.oid = type
"""

_SEVERAL_DIMENSIONS = """
INSERT INTO "n_{kind}"
WITH a AS (SELECT v FROM "{source}" WHERE id = 1),
     b AS (SELECT v FROM "{source}" WHERE id = 2)
SELECT 1, ARRAY[ARRAY[(TABLE a), NULL], ARRAY[NULL, (TABLE b)]]
UNION ALL SELECT 2, array_fill((TABLE a), ARRAY[2, 1, 2])
UNION ALL SELECT 3, array_fill((TABLE a), ARRAY[1, 3], ARRAY[-1, 5])
"""
