"""`walrow tables`: lists the tables of a capture."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from walrow._read.survey import survey_of
from walrow._read.survey.items import HEADS, NUMBERS, Table, Tables, lines_of
from walrow.cli import grid, source
from walrow.cli.arguments import as_json, library_option
from walrow.cli.terminal import print_json, printable


@click.command()
@source.files
@source.quiet
@library_option(
    "catalog", "A file of `walrow catalog`: the types that the capture does not define."
)
@click.option("--columns", is_flag=True, help="Also list the columns of every version.")
@as_json("Print one JSON object per table.")
def tables(
    *,
    files: tuple[str, ...],
    catalog: Path | None,
    columns: bool,
    as_json: bool,
) -> None:
    """Lists the tables in FILE, a capture, as in decode. - is stdin.

    Each has its versions, its committed changes, and its last commit. Notes are for a
    fold of the changes: they name values that it cannot restore. Values are not
    decoded.

    With --json, each line contains oid, name, replica_identity, inserts, updates, deletes,
    truncates, loads and their rows (loaded), first and last (lsn and time), versions with
    their columns, notes, and ddl (the commands that walrow's event trigger wrote).

    The exit code is 3 if FILE ends inside a frame or a transaction, and 4 if the server
    ended it with an error.
    """
    with source.opened(files, beside=[catalog] if catalog else []) as blocks:
        found = survey_of(blocks, catalog=catalog)
    if as_json:
        for table in found:
            print_json(table.to_dict())
    else:
        _show(found, columns=columns)
    source.check_end(found, blocks.size)


def _show(found: Tables, *, columns: bool) -> None:
    if sys.stdout.isatty():
        # Notes follow in full.
        grid.show_grid(
            HEADS[:-1], (row[:-1] for row in lines_of(found)), numbers=NUMBERS
        )
    else:
        click.echo(repr(found))
    lines = []
    for table in found:
        name = printable(table.name)
        if columns:
            lines += _columns(table)
        for column in table.unresolved:
            oids = ", ".join(map(str, column.unresolved))
            lines.append(
                f"{name}: column {printable(column.name)} contains unknown types, OID {oids}: "
                "text, unless --catalog defines them"
            )
        lines += [
            f"{name}: {printable(ddl.command)} in the transaction at {ddl.commit.lsn}"
            for ddl in table.ddl
        ]
        lines += [
            f"{name}: {note.code}: {printable(note.text)}" for note in table.notes
        ]
    if lines:
        click.echo("\n".join(["", *lines]))


def _columns(table: Table) -> list[str]:
    lines = []
    for number, version in enumerate(table.versions, 1):
        columns = ", ".join(
            f"{printable(column.name)}{'*' if column.key else ''} "
            f"{printable(column.type or f'type {column.type_oid}')}"
            for column in version.columns
        )
        lines.append(f"{printable(version.name)}: version {number}: {columns}")
    return lines
