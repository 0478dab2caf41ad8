"""Messages of the event trigger show states between looks. Forged messages change nothing."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import walrow
from servers import EmbeddedServer
from walrow._log.marks import Why
from walrow._log.needs import accept, read_published, write_published
from walrow._log.published import Published
from walrow._log.told import (
    PREFIX,
    Before,
    ColumnTold,
    Message,
    PublicationTold,
    Rewritten,
    TableTold,
    Told,
    TypeTold,
    told_by,
)
from walrow._lsn import Lsn
from walrow._postgres.published import (
    Membership,
    PublishedColumn,
    PublishedTable,
    TablePart,
)
from walrow._receive.looks import Look
from walrow._receive.marks import after_load, after_look, at_beginning
from walrow._receive.status import Status
from walrow._receive.told import Heard, after_messages
from walrow.postgres import ddl_trigger

PUBLICATION = 16384
TABLE = PublishedTable(
    oid=20,
    name="public.t",
    identity="d",
    columns=[PublishedColumn(1, "id", 23, -1, True, None, False, 1)],
    filters=[],
    parts=[TablePart(20, "public.t", 20, 24, "p", "", "", 0, False)],
    memberships=[Membership(f"{PUBLICATION} all", "700 {}", "iudt")],
    schema="",
    first_schema="",
    created=1,
    last_column=1,
    altered=[],
    dropped=[],
    definitions={},
    has_altered_types=False,
    stamp="1",
)
ALTERED = TABLE._replace(stamp="2")
RENAMED = TableTold(20, False, [ColumnTold(1, "x", 23, -1)], [], [], [PUBLICATION])
#: The publication's row after three commands with the same options.
AGAIN = TABLE._replace(memberships=[Membership(f"{PUBLICATION} all", "703 {}", "iudt")])


def looked(*tables: PublishedTable, trigger: str | None = "stamp") -> Published:
    """The record after looks at a table, while the log has everything."""
    record = at_beginning([tables[0]], (), ["p"], Lsn(8))
    for number, table in enumerate((tables[0], *tables[1:]), 1):
        at = Lsn(8 + 8 * number)
        look = Look([table], ["p"], at, at, last_oid=100, trigger=trigger)
        record = after_look(record, look)
    return record


def told(*contents: Told, is_certain: bool = True) -> list[Message]:
    """Messages between the last two looks of `looked`."""
    return [Message(Lsn(20), 701, is_certain, it) for it in contents]


def codes(
    record: Published, messages: list[Message], **options: Any
) -> tuple[list[str], list[int]]:
    """The reasons for marks once messages were read, and the tables without a message."""
    after, silent = after_messages(record, Heard(messages, Lsn(24), **options))
    again, _ = after_messages(after, Heard(messages, Lsn(24), **options))
    assert again.marks == after.marks
    return [mark.code.value for mark in after.marks.get(20, ())], silent


def test_a_message_counts_only_if_its_table_has_moved() -> None:
    renamed = [Why.RENAMED.value]
    assert codes(looked(TABLE, TABLE), told(RENAMED)) == ([], [])
    assert codes(looked(TABLE, ALTERED), told(RENAMED)) == (renamed, [])
    # More of it changes nothing, and what may be rolled back is believed.
    assert codes(looked(TABLE, ALTERED), told(*[RENAMED] * 3)) == (renamed, [])
    assert codes(looked(TABLE, ALTERED), told(RENAMED, is_certain=False))[0] == renamed
    # A look has seen this state.
    as_seen = RENAMED._replace(columns=[ColumnTold(1, "id", 23, -1)])
    assert codes(looked(TABLE, ALTERED), told(as_seen)) == ([], [])
    # A load has the rows as they were after it.
    loaded = after_load(looked(TABLE, ALTERED), [ALTERED], Lsn(22))
    assert codes(loaded, told(RENAMED))[0] == []


def test_an_older_record_lacks_what_messages_have_said() -> None:
    """Its version has not read them."""
    tree = TableTold(20, True, [], [], [30], [PUBLICATION])
    before = looked(TABLE)._replace(told=None)
    record = after_look(before, Look([TABLE], ["p"], Lsn(24), Lsn(24), last_oid=100))
    assert codes(record, told(tree)) == ([Why.PARTITIONS.value], [])
    # Its last look has seen what was before.
    assert codes(record, [Message(Lsn(15), 701, True, tree)]) == ([], [])
    record = after_look(before, Look([ALTERED], ["p"], Lsn(24), Lsn(24), last_oid=100))
    assert codes(record, told(RENAMED)) == ([Why.RENAMED.value], [])


def test_an_exception_leaves_no_trace_but_a_message() -> None:
    left = [Why.LEFT.value]
    excepted = RENAMED._replace(columns=[], publications=[])
    root = excepted._replace(oid=19, is_partitioned=True, parts=[20])
    for message in (excepted, root):
        assert codes(looked(TABLE, TABLE), told(message)) == ([], [])
        found = codes(looked(TABLE, TABLE), told(message), has_exceptions=True)
        assert found == (left, [])
    assert codes(looked(TABLE, TABLE), told(RENAMED), has_exceptions=True) == ([], [])


@pytest.mark.parametrize(
    ("file", "changed", "commits", "expected"),
    [
        (30, 2, [], ["rewritten"]),
        (30, 2, [20], ["rewritten"]),
        (30, 2, [21], []),
        (20, 2, [], []),
        (30, 1, [], []),
    ],
)
def test_a_rewrite_counts_unless_a_truncate_follows(
    file: int, changed: int, commits: list[int], expected: list[str]
) -> None:
    now = ALTERED._replace(
        parts=[TABLE.parts[0]._replace(file=file)],
        columns=[TABLE.columns[0]._replace(changed=changed)],
    )
    message = told_by(b'{"rewritten": 20, "roots": [], "reason": 4}')
    assert message == Rewritten(20, [], 4)
    found = [(1, Lsn(commit)) for commit in commits]
    options = {"truncates": lambda _oid: found}
    assert codes(looked(TABLE, now), told(message), **options)[0] == expected
    # SET LOGGED and another access method keep the values.
    kept = message._replace(reason=9)
    assert codes(looked(TABLE, now), told(kept), **options)[0] == []


def test_a_change_without_a_message_is_said() -> None:
    wider = ALTERED._replace(
        columns=[*TABLE.columns, PublishedColumn(2, "v", 25, -1, False, None, False, 2)]
    )
    assert codes(looked(TABLE, wider), []) == ([], [20])
    assert codes(looked(TABLE, wider), told(RENAMED._replace(columns=[])))[1] == []
    assert codes(looked(TABLE, wider, trigger=None), []) == ([], [])
    # A GRANT moves it, too.
    assert codes(looked(TABLE, ALTERED), []) == ([], [])


FULL = PublicationTold(PUBLICATION, "p", "701", "{}")
CHAIN: list[tuple[int, Told]] = [
    (701, Before({PUBLICATION: "700"})),
    (701, FULL),
    (702, Before({PUBLICATION: "701"})),
    (702, FULL._replace(xmin="702")),
    (703, Before({PUBLICATION: "702"})),
    (703, FULL._replace(xmin="703")),
]


@pytest.mark.parametrize(
    ("messages", "is_exact"),
    [
        (CHAIN, True),
        ([CHAIN[0], CHAIN[0], *(it for it in CHAIN for _ in range(2))], False),
        (CHAIN[2:], False),
        (CHAIN[:4], False),
        ([*CHAIN[:2], *CHAIN[4:]], False),
        ([it for it in CHAIN if isinstance(it[1], PublicationTold)], False),
        ([*CHAIN[:5], (704, CHAIN[5][1])], False),
        ([CHAIN[0], (704, FULL._replace(xmin="703"))], False),
        (
            [*CHAIN[:3], (702, FULL._replace(xmin="702", options="less")), *CHAIN[4:]],
            False,
        ),
        ([*CHAIN[:3], (702, FULL._replace(xmin="702", name="q")), *CHAIN[4:]], False),
        ([], False),
    ],
    ids=[
        "whole",
        "doubled",
        "no first",
        "no last",
        "a gap",
        "no before",
        "forged",
        "skipped",
        "less",
        "another name",
        "none",
    ],
)
def test_a_publication_is_exact_only_with_each_of_its_messages(
    messages: list[tuple[int, Told]],
    is_exact: bool,  # noqa: FBT001
) -> None:
    sent = [Message(Lsn(20), xid, True, it) for xid, it in messages]
    record = looked(TABLE, AGAIN)
    assert record.marks == {}
    expected = [] if is_exact else [Why.PUBLISHES.value]
    assert codes(record, sent)[0] == expected
    # Without a trigger that worked all the time, and if a message may be rolled back.
    less = [Why.PUBLISHES.value]
    assert codes(looked(TABLE, AGAIN, trigger=None), sent)[0] == less
    doubtful = [it._replace(is_certain=False) for it in sent]
    assert codes(record, doubtful)[0] == less
    # No look follows that could find the rest.
    heard = Heard(sent, Lsn(12), is_last=True)
    assert after_messages(record, heard)[0].marks


@pytest.mark.parametrize("number", range(len(CHAIN)))
def test_a_chain_with_a_doubtful_message_is_not_exact(number: int) -> None:
    """Each of them may be one of a savepoint that was rolled back."""
    sent = [
        Message(Lsn(20), xid, place != number, it)
        for place, (xid, it) in enumerate(CHAIN)
    ]
    assert codes(looked(TABLE, AGAIN), sent)[0] == [Why.PUBLISHES.value]


def test_a_publication_that_had_other_options_is_not_exact() -> None:
    """The last message alone has them: the look after it may be older."""
    other = (703, FULL._replace(xmin="703", options="less"))
    sent = [Message(Lsn(20), xid, True, it) for xid, it in [*CHAIN[:5], other]]
    assert Why.PUBLISHES.value in codes(looked(TABLE, AGAIN), sent)[0]


@pytest.mark.parametrize(
    ("lsn", "expected"), [(15, []), (16, [True]), (23, [True]), (24, []), (25, [])]
)
def test_the_bounds_of_the_messages_of_a_look(lsn: int, expected: list[bool]) -> None:
    """The looks were made while the log ended at 16 and at 24."""
    record = looked(TABLE, ALTERED)
    assert record.told is not None
    sent = [Message(Lsn(lsn), 701, True, RENAMED)]
    after, _ = after_messages(record, Heard(sent, Lsn(40)))
    assert [mark.is_open for mark in after.marks.get(20, ())] == expected


def test_the_bounds_of_a_message_after_the_last_look() -> None:
    """At the end, the log has waited for the last look: a later message is read, too."""
    record = looked(TABLE, ALTERED)
    excepted = RENAMED._replace(columns=[], publications=[])
    for lsn, is_last, expected in [
        (24, True, 1),
        (39, True, 1),
        (40, True, 0),
        (24, False, 0),
    ]:
        sent = [Message(Lsn(lsn), 701, True, excepted)]
        heard = Heard(sent, Lsn(40), is_last=is_last, has_exceptions=True)
        after, _ = after_messages(record, heard)
        assert len(after.marks.get(20, ())) == expected, lsn


def test_the_look_at_the_end_has_seen_what_came_before_it() -> None:
    record = looked(TABLE, ALTERED)
    for lsn, expected in [(23, 1), (24, 0)]:
        heard = Heard([Message(Lsn(lsn), 701, True, RENAMED)], Lsn(40), is_last=True)
        assert len(after_messages(record, heard)[0].marks.get(20, ())) == expected


def test_messages_are_read_from_a_place_on() -> None:
    record = looked(TABLE, TABLE)
    assert record.told is not None
    excepted = RENAMED._replace(columns=[], publications=[])
    for lsn, expected in [(record.told.place - 1, 0), (record.told.place, 1)]:
        sent = [Message(Lsn(lsn), 701, True, excepted)]
        heard = Heard(sent, Lsn(40), has_exceptions=True)
        assert len(after_messages(record, heard)[0].marks.get(20, ())) == expected


def test_what_is_not_read_yet_waits_for_the_log() -> None:
    """A change without a message is told once the log has passed the look, also at the end."""
    wider = ALTERED._replace(
        columns=[*TABLE.columns, PublishedColumn(2, "v", 25, -1, False, None, False, 2)]
    )
    record = looked(TABLE, wider)
    for end, is_last, is_over in [
        (23, False, False),
        (23, True, False),
        (24, False, True),
    ]:
        after, silent = after_messages(record, Heard([], Lsn(end), is_last=is_last))
        assert silent == [20] * is_over
        assert after.told is not None
        assert bool(after.told.moved) is not is_over
    # The publication's messages may be behind: it is not known at the end.
    after, silent = after_messages(
        looked(TABLE, AGAIN), Heard([], Lsn(12), is_last=True)
    )
    assert (len(after.marks[20]), silent) == (1, [])


def test_a_message_of_a_load_itself_counts() -> None:
    """Messages from the place of a load on are later than its rows."""
    loaded = after_load(looked(TABLE, ALTERED), [ALTERED], Lsn(20))
    assert codes(loaded, told(RENAMED))[0] == [Why.RENAMED.value]
    loaded = after_load(looked(TABLE, ALTERED), [ALTERED], Lsn(21))
    assert codes(loaded, told(RENAMED))[0] == []


def with_options(*options: str) -> Published:
    """The record after looks at a table whose publication had these options."""
    return looked(
        *(
            TABLE._replace(
                stamp=str(number),
                memberships=[
                    Membership(f"{PUBLICATION} all", f"70{number} {it}", "iudt")
                ],
            )
            for number, it in enumerate(options)
        )
    )


@pytest.mark.parametrize(
    ("option", "expected"),
    [("a", []), ("b", []), ("c", [Why.PUBLISHES.value])],
)
def test_options_between_looks(option: str, expected: list[str]) -> None:
    """Both looks know theirs."""
    message = PublicationTold(PUBLICATION, "p", "9", option)
    record = with_options("a", "b")._replace(marks={})
    assert codes(record, told(message))[0] == expected


@pytest.mark.parametrize(
    ("definition", "expected"),
    [("x", []), ("y", []), ("z", [Why.TYPE.value]), (None, [Why.TYPE.value])],
)
def test_definitions_between_looks(definition: str | None, expected: list[str]) -> None:
    """A new one, which the look before did not have, may have changed, too."""
    then = TABLE._replace(definitions={"attribute 1.1": "x"})
    later = ALTERED._replace(definitions={"attribute 1.1": "y", "attribute 1.2": "n"})
    record = looked(then, later)
    record = record._replace(marks={})
    given = (
        {"attribute 1.2": "m"} if definition is None else {"attribute 1.1": definition}
    )
    assert codes(record, told(TypeTold(given)))[0] == expected


@pytest.mark.parametrize(
    ("name", "type_", "expected"),
    [
        ("id", 23, []),
        ("it", 20, []),
        ("x", 23, [Why.RENAMED.value]),
        ("id", 25, [Why.RETYPED.value]),
    ],
)
def test_columns_between_looks(name: str, type_: int, expected: list[str]) -> None:
    """Both looks know theirs. A column that one of them lacks is compared by the look."""
    later = ALTERED._replace(
        columns=[TABLE.columns[0]._replace(quoted="it", type_oid=20)]
    )
    record = looked(TABLE, later)._replace(marks={})
    columns = [ColumnTold(1, name, type_, -1), ColumnTold(2, "z", 16, -1)]
    assert codes(record, told(RENAMED._replace(columns=columns)))[0] == expected


def test_a_column_that_one_look_lacks_is_not_compared() -> None:
    second = PublishedColumn(2, "v", 25, -1, False, None, False, 2)
    wider = TABLE._replace(columns=[*TABLE.columns, second])
    columns = [ColumnTold(1, "id", 23, -1), ColumnTold(2, "other", 25, -1)]
    message = RENAMED._replace(columns=columns)
    for both in [(TABLE, wider._replace(stamp="2")), (wider, ALTERED)]:
        assert codes(looked(*both)._replace(marks={}), told(message))[0] == []


#: The table has no file of its own, and had one partition.
ROOT = TABLE._replace(parts=[TABLE.parts[0]._replace(oid=21)])


def seen_up_to(oid: int) -> Published:
    """The record after looks that have seen tables with OIDs up to this one."""
    record = looked(ROOT, ROOT)
    assert record.told is not None
    return record._replace(told=record.told._replace(oids=[oid, 100]))


@pytest.mark.parametrize(
    ("part", "expected"), [(21, []), (50, []), (51, [Why.PARTITIONS.value])]
)
def test_a_partition_that_came_after_a_look(part: int, expected: list[str]) -> None:
    """Its OID is greater than all at the look: 50 was the greatest."""
    record = seen_up_to(50)
    root = TableTold(20, True, [], [], [21, part], [PUBLICATION])
    leaf = TableTold(part, False, [], [20], [], [])
    for message in (root, leaf):
        assert codes(record, told(message)) == (expected, [])
    # It has rows of its own tables only if it is partitioned, and is one only if it is not.
    children = root._replace(is_partitioned=False)
    assert codes(record, told(children)) == ([], [])
    between = leaf._replace(is_partitioned=True)
    assert codes(record, told(between)) == ([], [])


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("moved", [None, [50], [51]])
def test_an_unpublished_table_that_moved_may_have_been_a_partition(
    moved: list[int] | None, others: int
) -> None:
    """A new process knows only the sum of their stamps."""
    record = seen_up_to(100)
    at = Lsn(32)
    look = Look(
        [ROOT], ["p"], at, at, moved, last_oid=100, trigger="stamp", others=others
    )
    after = after_look(record, look)
    message = Message(Lsn(26), 701, True, TableTold(50, False, [], [20], [], []))
    found, _ = after_messages(after, Heard([message], at))
    is_seen = moved == [50] or (moved is None and others == 1)
    assert bool(found.marks) is is_seen


def test_the_record_keeps_what_it_waits_for(tmp_path: Path) -> None:
    record = looked(TABLE, AGAIN)
    write_published(tmp_path, record)
    found = read_published(lambda name: (tmp_path / name).read_bytes())
    assert found.told is not None
    assert found == record


KEYS = st.sampled_from(
    [
        "oid",
        "columns",
        "roots",
        "parts",
        "publications",
        "publication",
        "xmin",
        "options",
        "before",
        "rewritten",
        "reason",
        "definitions",
        "is_partitioned",
        "number",
        "name",
        "type",
        "type_modifier",
        "7",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda it: st.lists(it, max_size=2) | st.dictionaries(KEYS, it, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(KEYS, VALUES) | VALUES)
def test_what_others_write_is_no_error(value: Any) -> None:
    content = json.dumps(value).encode()
    found = told_by(content)
    if found is not None:
        codes(looked(TABLE, ALTERED), told(found))
    assert told_by(b"[" * 100_000) is None
    assert told_by(b"\xff\x00") is None


#: Tables: their SQL, the statements between two looks, and the codes of the marks.
CASES: dict[str, tuple[str, list[str], list[str]]] = {
    "named": (
        "CREATE TABLE named (id int PRIMARY KEY, a text)",
        [
            "ALTER TABLE named RENAME a TO b",
            "INSERT INTO named VALUES (2, 'b')",
            "ALTER TABLE named RENAME b TO a",
        ],
        ["column_renamed"],
    ),
    "labels": (
        "CREATE TYPE kind AS ENUM ('x', 'y'); CREATE TABLE labels (id int PRIMARY KEY, k kind)",
        [
            "ALTER TYPE kind RENAME VALUE 'x' TO 'z'",
            "INSERT INTO labels VALUES (2, 'z')",
            "ALTER TYPE kind RENAME VALUE 'z' TO 'x'",
        ],
        ["type_altered"],
    ),
    "new_label": (
        "CREATE TYPE other_kind AS ENUM ('x'); CREATE TABLE new_label (id int PRIMARY KEY, k other_kind)",
        [
            "ALTER TYPE other_kind ADD VALUE 'y'",
            "INSERT INTO new_label VALUES (2, 'y')",
            "ALTER TYPE other_kind RENAME VALUE 'y' TO 'z'",
        ],
        ["type_altered"],
    ),
    "came": (
        "CREATE TABLE came (id int PRIMARY KEY) PARTITION BY RANGE (id);"
        " CREATE TABLE came_0 PARTITION OF came FOR VALUES FROM (0) TO (9)",
        [
            "CREATE TABLE came_1 PARTITION OF came FOR VALUES FROM (9) TO (19)",
            "INSERT INTO came VALUES (12)",
            "DROP TABLE came_1",
        ],
        ["partitions"],
    ),
    "attached": (
        "CREATE TABLE attached (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);"
        " CREATE TABLE attached_0 PARTITION OF attached FOR VALUES FROM (0) TO (9);"
        " CREATE TABLE other (id int PRIMARY KEY, v int); INSERT INTO other VALUES (9, 9)",
        [
            "ALTER TABLE attached ATTACH PARTITION other FOR VALUES FROM (9) TO (19)",
            "UPDATE attached SET v = 1 WHERE id = 9",
            "ALTER TABLE attached DETACH PARTITION other",
        ],
        ["partitions"],
    ),
    "grown": (
        "CREATE TABLE grown (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        [
            "CREATE TABLE grown_1 PARTITION OF grown FOR VALUES FROM (0) TO (9)"
            " PARTITION BY RANGE (id)",
            "CREATE TABLE grown_2 PARTITION OF grown_1 FOR VALUES FROM (0) TO (9)",
        ],
        [],
    ),
    "lost": (
        "CREATE TABLE lost (id int PRIMARY KEY)",
        [
            "ALTER PUBLICATION told DROP TABLE lost",
            "INSERT INTO lost VALUES (2)",
            "ALTER PUBLICATION told ADD TABLE lost",
        ],
        ["left_publication"],
    ),
    "same": (
        "CREATE TABLE same (id int PRIMARY KEY); CREATE PUBLICATION told_same FOR TABLE same",
        [
            "ALTER PUBLICATION told_same SET (publish = 'insert, update, delete, truncate')",
        ],
        [],
    ),
    "less": (
        "CREATE TABLE less (id int PRIMARY KEY); CREATE PUBLICATION told_less FOR TABLE less",
        [
            "ALTER PUBLICATION told_less SET (publish = 'insert')",
            "UPDATE less SET id = 3",
            "ALTER PUBLICATION told_less SET (publish = 'insert, update, delete, truncate')",
        ],
        ["publication_changed"],
    ),
    "replica": (
        "CREATE TABLE replica (id int PRIMARY KEY, a text)",
        [
            "SET session_replication_role = replica",
            "ALTER TABLE replica RENAME a TO b",
            "ALTER TABLE replica RENAME b TO a",
            "RESET session_replication_role",
        ],
        ["column_renamed"],
    ),
    "undone": (
        "CREATE TABLE undone (id int PRIMARY KEY, a text)",
        [
            "BEGIN; SAVEPOINT s; ALTER TABLE undone RENAME a TO b; ROLLBACK TO s;"
            " INSERT INTO undone VALUES (2, 'a'); COMMIT"
        ],
        [],
    ),
    "plain": (
        "CREATE TABLE plain (id int PRIMARY KEY, a text)",
        [
            "GRANT SELECT ON plain TO PUBLIC",
            "CREATE INDEX ON plain (a)",
            "ALTER TABLE plain ADD COLUMN b int",
            "ALTER TABLE plain DROP COLUMN b",
            "VACUUM plain",
        ],
        [],
    ),
}


class Database:
    """A database with the event trigger, and a log that is received from it."""

    def __init__(self, server: EmbeddedServer, name: str, log: Path) -> None:
        self.dsn = server.dsn_of(name)
        self.slot, self.log = name, log
        self.notes: list[str] = []
        self.conn = psycopg.connect(self.dsn, autocommit=True)

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.conn.execute(statement.encode())

    def receive(self, **options: Any) -> None:
        def status(it: Status) -> None:
            if it.note:
                self.notes.append(it.note)

        publications = ["told", "told_same", "told_less"]
        walrow.receive(
            self.dsn,
            slot=self.slot,
            log=self.log,
            publications=publications,
            create=True,
            until="now",
            progress=status,
            **options,
        )

    def accept(self) -> None:
        """Closes all marks."""
        for table in walrow.Log(self.log).tables():
            for mark in table.marks:
                accept(self.log, table.oid, mark.code, dt.datetime.now(dt.UTC))

    def marks(self) -> dict[str, list[str]]:
        """The codes of open marks."""
        tables = walrow.Log(self.log).tables()
        return {
            it.name.removeprefix("public."): [
                mark.code.value for mark in it.marks if mark.is_open
            ]
            for it in tables
            if it.needs_load is not None
        }

    def is_doubted(self) -> bool:
        found = any(
            "event trigger of walrow is not reliable" in it for it in self.notes
        )
        self.notes.clear()
        return found


@pytest.fixture
def database(server: EmbeddedServer, tmp_path: Path) -> Iterator[Database]:
    with server.database("told") as name:
        found = Database(server, name, tmp_path / "log")
        try:
            found.run(ddl_trigger(), *(setup for setup, *_ in CASES.values()))
            published = [it for it in CASES if it not in {"same", "less"}]
            found.run(
                f"CREATE PUBLICATION told FOR TABLE {', '.join(published)}"
                " WITH (publish_via_partition_root)"
            )
            yield found
            found.run(DROP_SLOTS)
        finally:
            found.conn.close()


@pytest.mark.live
@pytest.mark.timeout(180)
def test_what_no_look_sees(database: Database) -> None:
    database.receive()
    database.run(*(it for _, statements, _ in CASES.values() for it in statements))
    database.receive()
    expected = {name: marks for name, (_, _, marks) in CASES.items() if marks}
    assert database.marks() == expected
    assert not database.is_doubted()
    # Another role writes the messages again: no table has moved since. Open marks would hide more.
    database.accept()
    batches = walrow.read(database.log, table="walrow.messages")
    rows = [row for it in batches for row in _rows(it)]
    assert {row["prefix"] for row in rows} == {PREFIX}
    database.run("DROP ROLE IF EXISTS forger", "CREATE ROLE forger LOGIN")
    with psycopg.connect(database.dsn, user="forger", autocommit=True) as conn:
        emit = "SELECT pg_logical_emit_message(%s, %s, %s::bytea)"
        for row in rows:
            conn.execute(emit, [True, PREFIX, row["content"]])
            conn.execute(emit, [False, PREFIX, row["content"]])
        conn.execute(emit, [True, PREFIX, b"{" * 17_000_000])
        conn.execute(emit, [True, "another", b"x"])
    database.receive()
    assert database.marks() == {}
    assert not database.is_doubted()
    database.run("DROP ROLE forger")


def _rows(batch: Any) -> list[dict[str, Any]]:
    import pyarrow as pa

    rows: list[dict[str, Any]] = pa.record_batch(batch).to_pylist()
    return rows


#: Statements that make the trigger blind, and statements that undo this.
BLIND = {
    "disabled": (
        "ALTER EVENT TRIGGER walrow_ddl DISABLE",
        "ALTER EVENT TRIGGER walrow_ddl ENABLE ALWAYS",
    ),
    "replaced": (
        "CREATE OR REPLACE FUNCTION walrow.emit_ddl() RETURNS event_trigger"
        " LANGUAGE plpgsql AS 'begin end'",
        ddl_trigger(),
    ),
    "failing": (
        "CREATE OR REPLACE FUNCTION walrow.described(command text, oid oid) RETURNS text"
        " LANGUAGE plpgsql AS 'begin return 1 / 0; end'",
        ddl_trigger(),
    ),
    "dropped": (ddl_trigger(drop=True), ddl_trigger()),
    "another's": (
        "CREATE ROLE chief SUPERUSER; ALTER EVENT TRIGGER walrow_ddl OWNER TO chief;"
        " ALTER EVENT TRIGGER walrow_ddl DISABLE",
        "ALTER EVENT TRIGGER walrow_ddl ENABLE ALWAYS;"
        " ALTER EVENT TRIGGER walrow_ddl OWNER TO postgres; DROP ROLE chief",
    ),
    "off": ("SET event_triggers = off", "RESET event_triggers"),
}
DROP_SLOTS = """
SELECT pg_drop_replication_slot(slot_name)
FROM pg_replication_slots
WHERE database = current_database()
"""
LESS = "ALTER PUBLICATION told_same SET (publish = 'insert')"
MORE = "ALTER PUBLICATION told_same SET (publish = 'insert, update, delete, truncate')"


@pytest.mark.live
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", BLIND)
def test_a_trigger_that_was_blind_explains_nothing(
    database: Database, name: str
) -> None:
    before, after = BLIND[name]
    if name == "off" and database.conn.info.server_version < 170_000:
        pytest.skip("event_triggers is from version 17 on")
    database.receive()
    # Empty tables are whole after a load that copies nothing.
    database.run("INSERT INTO same VALUES (1)")
    database.run(before, LESS, after, MORE)
    database.receive()
    assert database.marks() == {"same": ["publication_changed"]}
    # A change that nothing says.
    database.run(before, "ALTER TABLE plain ADD COLUMN c int")
    database.receive()
    assert database.is_doubted() == (name != "dropped")
    database.run(after)


@pytest.mark.live
@pytest.mark.timeout(180)
def test_a_streamed_transaction_comes_before_its_commit(database: Database) -> None:
    """The receiver asks for messages, and large transactions still do not wait."""
    database.receive()
    many = (
        "INSERT INTO named SELECT g, repeat('x', 100) FROM generate_series(10, 20000) g"
    )
    database.run("SET logical_decoding_work_mem = '64kB'", many)
    more = [many.replace("10, 20000", it) for it in ("20001, 40000", "40001, 60000")]
    database.run(
        "BEGIN",
        *(more[0], "INSERT INTO same VALUES (1)", MORE),
        *("SAVEPOINT s", "ALTER TABLE undone RENAME a TO b", more[1], "ROLLBACK TO s"),
        "COMMIT",
    )
    database.receive()
    assert database.marks() == {"same": ["publication_changed"]}
    batches = walrow.read(database.log, table="walrow.messages")
    rows = [row for it in batches for row in _rows(it)]
    assert any(row["undecidable"] for row in rows)


def test_an_earlier_truncate_does_not_end_a_mark_of_a_message() -> None:
    record = looked(TABLE, ALTERED)._replace(noticed={20: Lsn(9)})
    after, _ = after_messages(record, Heard(told(RENAMED), Lsn(24)))
    assert [mark.since for mark in after.marks[20]] == [Lsn(20)]
    # One that was open at the message was committed before the look.
    assert after.noticed[20] == record.seen == Lsn(24)
