"""Makes the golden captures again: `python tests/data/make.py [NAME ...]`.

Each `NAME.sql` beside this file is run on real servers of both major versions, and what
they sent is kept in `MAJOR/NAME.*`; README.md says which file is what. The head of a
scenario is comments of the form `-- key: value`:

    about              one line that says what is to be seen
    majors             the versions it runs on (default: 16 18)
    publication        one name a line (default: golden)
    records            text, binary, v1, physical (default: what fits the rest)
    proto_version, streaming, two_phase, messages, origin
                       the options of the stream; `v1` is the same history without them
    immediate          stream every change at once, whatever its size
    live               read while the workload runs; else afterwards, from slots that were
                       made before it, so that all records hold the same history
    shut down          the server shuts down at the workload's end
    not foldable       why the stream alone does not give the final tables

After the head come the set-up, `-- workload`, and perhaps `-- after`, which cleans up
what belongs to the whole server.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import psycopg
from psycopg import sql as compose

from servers import (
    EmbeddedServer,
    create_slot,
    drop_slot,
    record,
    record_physical,
    run_sql,
)
from servers.recording import PINNED_SETTINGS, Streaming

HERE = Path(__file__).resolve().parent

MAJORS = (16, 18)


@dataclass
class Scenario:
    """One SQL file, read."""

    name: str
    setup: str
    workload: str
    after: str
    head: dict[str, str]
    publications: tuple[str, ...] = field(default=("golden",))

    @classmethod
    def read(cls, path: Path) -> Scenario:
        """Reads a scenario's file."""
        text = path.read_text()
        before, _, rest = text.partition("\n-- workload\n")
        workload, _, after = rest.partition("\n-- after\n")
        pairs = re.findall(r"^-- ([a-z_ ]+): (.*)$", before, re.MULTILINE)
        publications = tuple(value for key, value in pairs if key == "publication")
        return cls(
            name=path.stem,
            setup=before,
            workload=workload,
            after=after,
            head=dict(pairs),
            publications=publications or ("golden",),
        )

    @property
    def majors(self) -> tuple[int, ...]:
        """The versions the scenario is for."""
        words = self.head.get("majors", "16 18").split()
        return tuple(int(word) for word in words)

    @property
    def records(self) -> tuple[str, ...]:
        """The kinds of record, in the order they are made."""
        if "records" in self.head:
            return tuple(self.head["records"].split(", "))
        # Only one record can be made while the workload runs.
        first = ("text",) if "live" in self.head else ("text", "binary")
        return (*first, "v1") if "proto_version" in self.head else first

    def options(self, kind: str) -> dict[str, Any]:
        """The arguments of `record` for one kind of record."""
        head = self.head
        options: dict[str, Any] = {
            "publication": self.publications,
            "proto_version": 1,
            "messages": "messages" in head,
            "origin": head.get("origin"),
            "confirm": "shut down" in head,
        }
        if kind == "binary":
            options["binary"] = True
        if kind != "v1":
            options["proto_version"] = int(head.get("proto_version", "1"))
            options["streaming"] = cast("Streaming", head.get("streaming", "off"))
            options["two_phase"] = "two_phase" in head
            if "immediate" in head:
                options["settings"] = _IMMEDIATE
        return options


def main(names: list[str]) -> None:
    """Makes the captures of all scenarios, or of those named."""
    paths = [HERE / f"{name}.sql" for name in names] or sorted(HERE.glob("*.sql"))
    scenarios = [Scenario.read(path) for path in paths]
    for major in MAJORS:
        began = time.monotonic()
        out = HERE / str(major)
        out.mkdir(exist_ok=True)
        with EmbeddedServer(major, logical_decoding_work_mem="64kB") as server:
            chosen = [s for s in scenarios if major in s.majors]
            for scenario in chosen:
                make(server, scenario, out)
            seconds = time.monotonic() - began
            size = sum(path.stat().st_size for path in out.iterdir())
            print(  # noqa: T201
                f"{server.version}: {len(chosen)} scenarios in {seconds:.1f} s;"
                f" {size / 1000:.0f} kB in {out.name}/"
            )


def make(server: EmbeddedServer, scenario: Scenario, out: Path) -> None:
    """Runs one scenario on one server and writes its files."""
    database = re.sub(r"\W", "_", scenario.name)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        # template0 is never connected to, so copying it waits for nobody.
        connection.execute(
            compose.SQL("CREATE DATABASE {} TEMPLATE template0").format(
                compose.Identifier(database)
            )
        )
    dsn = server.dsn_of(database)
    run_sql(server, scenario.setup, database)
    records = dict(_records(server, scenario, database))
    tables = final_tables(dsn, scenario.publications)
    run_sql(server, scenario.after, database)

    stem = out / scenario.name
    for kind, data in records.items():
        stem.with_name(f"{scenario.name}.{kind}.wire").write_bytes(data)
    stem.with_name(f"{scenario.name}.tables.json").write_text(_tables_text(tables))
    meta = {
        "about": scenario.head["about"],
        "server": server.version,
        "publications": scenario.publications,
        "records": {kind: _shown(scenario, kind) for kind in records},
        "live": "live" in scenario.head,
        "foldable": "not foldable" not in scenario.head,
        "reason": scenario.head.get("not foldable"),
    }
    text = json.dumps(meta, indent=2, ensure_ascii=False) + "\n"
    stem.with_name(f"{scenario.name}.meta.json").write_text(text)


def _records(
    server: EmbeddedServer, scenario: Scenario, database: str
) -> Iterator[tuple[str, bytes]]:
    if scenario.records == ("physical",):
        run = lambda: run_sql(server, scenario.workload, database)  # noqa: E731
        yield "physical", record_physical(server, run)
        return

    def workload() -> None:
        run_sql(server, scenario.workload, database)
        if "shut down" in scenario.head:
            server.restart("fast")

    dsn = server.dsn_of(database)
    options = {kind: scenario.options(kind) for kind in scenario.records}
    for kind, chosen in options.items():
        create_slot(dsn, f"golden_{kind}", two_phase=chosen.get("two_phase", False))
    live = "live" in scenario.head
    if not live:
        workload()
    for number, (kind, chosen) in enumerate(options.items()):
        now = live and number == 0
        yield (
            kind,
            record(
                server,
                workload if now else None,
                database=database,
                slot=f"golden_{kind}",
                live=now,
                **chosen,
            ),
        )
    for kind in options:
        drop_slot(dsn, f"golden_{kind}")


def final_tables(dsn: str, publications: tuple[str, ...]) -> dict[str, Any]:
    """Reads what a subscriber's tables should hold, as the output functions print it."""
    pinned = " ".join(f"-c {k}={v}" for k, v in PINNED_SETTINGS.items())
    with psycopg.connect(dsn, options=pinned, autocommit=True) as connection:
        published = connection.execute(_PUBLISHED, (list(publications),)).fetchall()
        return {
            f"{schema}.{name}": _table(connection, schema, name, columns, row_filter)
            for schema, name, columns, row_filter in published
        }


def _table(
    connection: psycopg.Connection[Any],
    schema: str,
    name: str,
    published: list[str],
    row_filter: str | None,
) -> dict[str, Any]:
    oid, identity = _one(connection, _RELATION, (schema, name))
    keys = {row[0] for row in connection.execute(_KEY_COLUMNS, (oid,))}
    columns = [
        {"name": column, "type": kind, "oid": type_oid, "typmod": typmod}
        for column, kind, type_oid, typmod in connection.execute(_COLUMNS, (oid,))
        if column in published
    ]
    names = [str(column["name"]) for column in columns]
    query = compose.SQL("SELECT {} FROM {} WHERE {}").format(
        compose.SQL(", ").join(map(compose.Identifier, names)),
        compose.Identifier(schema, name),
        compose.SQL(cast("Literal['']", row_filter or "true")),
    )
    # The result as libpq holds it: the output function's text, not Python's values.
    result = connection.execute(query).pgresult
    if result is None:
        raise AssertionError(query)
    rows = [
        [
            None if (cell := result.get_value(row, column)) is None else cell.decode()
            for column in range(len(names))
        ]
        for row in range(result.ntuples)
    ]
    return {
        "schema": schema,
        "name": name,
        "oid": oid,
        "replica_identity": identity,
        "key": names if identity == "f" else [n for n in names if n in keys],
        "columns": columns,
        # NULL first, then by the text's code points: an order that needs no collation.
        "rows": sorted(rows, key=lambda row: [(c is not None, c or "") for c in row]),
    }


def _one(connection: psycopg.Connection[Any], query: str, args: tuple[str, str]) -> Any:
    row = connection.execute(cast("Literal['']", query), args).fetchone()
    if row is None:
        raise LookupError(args)
    return row


def _shown(scenario: Scenario, kind: str) -> dict[str, Any]:
    """The options of a record, without those that say nothing."""
    if kind == "physical":
        return {}
    options = scenario.options(kind)
    hidden = {"publication", "confirm"}
    return {
        key: value
        for key, value in options.items()
        if key not in hidden and value not in (None, False, "off")
    }


def _tables_text(tables: dict[str, Any]) -> str:
    """Writes JSON with one line for each column and each row, so that diffs are small."""
    text = json.dumps(tables, indent=2, ensure_ascii=False)
    inner = re.compile(r"[\[{]\n\s+(?:[^\[\]{}\"]|\"(?:[^\"\\]|\\.)*\")*?[\]}]")
    joined = inner.sub(lambda found: _one_line(found.group()), text)
    return joined + "\n"


def _one_line(text: str) -> str:
    return json.dumps(json.loads(text), ensure_ascii=False)


# A developer setting of the walsender's session.
_IMMEDIATE = {"debug_logical_replication_streaming": "immediate"}

_PUBLISHED = """
SELECT schemaname, tablename, attnames, rowfilter FROM pg_publication_tables
WHERE pubname = ANY(%s) ORDER BY 1, 2
"""
_RELATION = """
SELECT c.oid::int8, c.relreplident::text
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s
"""
_KEY_COLUMNS = """
SELECT a.attname FROM pg_class AS c JOIN pg_index AS i ON i.indrelid = c.oid
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = ANY(i.indkey)
WHERE c.oid = %s AND CASE c.relreplident
    WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END
"""
_COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod), atttypid::int8, atttypmod
FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped
ORDER BY attnum
"""

if __name__ == "__main__":
    main(sys.argv[1:])
