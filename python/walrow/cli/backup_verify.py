"""`walrow backup verify`: a base backup beside its manifest, or beside a log."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from walrow import _options
from walrow import backup as of_python
from walrow._results import counted
from walrow.cli import grid, log_options
from walrow.cli.arguments import TEXT, Value
from walrow.cli.source import is_quiet, quiet
from walrow.cli.terminal import print_json, printable, say
from walrow.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from walrow.backup import AgainstProgress, ComparedTable, Comparison

_DIRECTORY = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--no-wal",
    is_flag=True,
    help="Without --against: the WAL is elsewhere, and is not looked for.",
)
@click.option(
    "--against",
    type=TEXT,
    metavar="LOG",
    help="Recover a copy, and compare its tables with the states of this log.",
)
@click.option(
    "--bin-dir",
    type=_DIRECTORY,
    metavar="DIR",
    help="The directory of PostgreSQL's programs, of the backup's major version. Default: that "
    "of postgres in PATH, or as pg_config says.",
)
@click.option(
    "--wal",
    type=_DIRECTORY,
    metavar="DIR",
    help="A directory with the WAL that the backup does not have itself.",
)
@click.option(
    "--table",
    "tables",
    type=TEXT,
    multiple=True,
    metavar="TABLE",
    help="Compare only this table: orders, public.orders. Repeatable.",
)
@click.option(
    "--end-lsn",
    type=Value(_options.LSN),
    metavar="LSN",
    help="Recover up to this LSN. Default: to the end of the backup.",
)
@click.option(
    "--scratch",
    type=_DIRECTORY,
    metavar="DIR",
    help="The directory for the copy. Default: beside the backup.",
)
@click.option(
    "--run-as",
    type=TEXT,
    metavar="USER",
    help="The user as whom the server runs, if you are root.",
)
@click.option(
    "--user",
    type=TEXT,
    default="postgres",
    show_default=True,
    metavar="ROLE",
    help="The name of a superuser in the backup.",
)
@click.option(
    "--database", type=TEXT, metavar="NAME", help="Default: the database of the log."
)
@click.option(
    "--timeout",
    type=log_options.DURATION,
    default="1h",
    show_default=True,
    metavar="DURATION",
    help="How long the recovery may take.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@quiet
def verify(
    *,
    directory: Path,
    no_wal: bool,
    against: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Checks the base backup in DIR: that it is what its manifest says, or with --against, its rows.

    With --against, a server recovers a copy of the backup to its end, and each table of LOG is
    compared with it, as of this LSN. Keys of rows that differ are printed, and no values. The
    backup is only read, and the copy is removed at the end.

    The exit code is 1 if the backup is not what its manifest says, or if rows or tables differ, or
    if no table could be compared.

    With --json, the object contains path, format, files, bytes, without_checksum and wal. With
    --against, it contains equal, backup, log, database, server_version, system_identifier,
    timeline, lsn, tables, not_in_log, not_in_backup and dropped. Each table has name, oid,
    result, reason, key, backup_rows, log_rows, differences, has_more and left_out.
    """
    if against is None:
        _refuse_others(options)
        _verify_manifest(directory, wal=not no_wal, as_json=as_json)
        return
    if no_wal:
        text = "--no-wal and --against exclude each other"
        raise click.UsageError(text)
    options["tables"] = [
        int(it) if it.isdecimal() else it for it in options["tables"]
    ] or None
    with _shown() as progress:
        found = of_python.verify_against(
            directory, against, progress=progress, **options
        )
    if as_json:
        print_json(found.to_dict())
    else:
        _show(found)
    if not found.equal:
        if not found.compared:
            say("walrow: no table could be compared")
        click.get_current_context().exit(1)


def _refuse_others(options: dict[str, Any]) -> None:
    context = click.get_current_context()
    for name in options:
        source = context.get_parameter_source(name)
        if source is click.core.ParameterSource.COMMANDLINE:
            flag = f"--{'table' if name == 'tables' else name.replace('_', '-')}"
            text = f"{flag} needs --against"
            raise click.UsageError(text)


def _verify_manifest(directory: Path, *, wal: bool, as_json: bool) -> None:
    try:
        found = of_python.verify_manifest(directory, wal=wal)
    except BackupError as error:
        for problem in error.problems:
            say(f"walrow: {printable(problem)}")
        raise
    if as_json:
        print_json(found.to_dict())
    elif not is_quiet():
        say(f"walrow: {found.path} is complete: {counted(found.files, 'file')}")


def _show(found: Comparison) -> None:
    grid.show(_HEADS, map(_row, found.tables), numbers=_NUMBERS)
    differing = [
        (table, difference)
        for table in found.tables
        for difference in table.differences
    ]
    if differing:
        click.echo()
        rows = [
            [table.name, _key(it.key), it.kind, str(it.rows)] for table, it in differing
        ]
        grid.show(["table", "key", "the backup's row is", "rows"], rows, numbers={3})
    lines = [
        ("only in the log", found.not_in_backup),
        ("dropped", found.dropped),
        ("only in the backup", found.not_in_log),
    ]
    for words, names in lines:
        if names:
            click.echo(f"{words}: {printable(', '.join(names))}")
    if not is_quiet():
        word = "equal" if found.equal else "not equal"
        say(f"walrow: the backup and the log are {word} as of {found.lsn}")


def _row(table: ComparedTable) -> list[str]:
    notes = [table.reason] if table.reason else []
    notes += [f"without {it.column}: {it.reason}" for it in table.left_out]
    if table.has_more:
        notes.append("there are more differences")
    return [
        table.name,
        table.result,
        "" if table.backup_rows is None else str(table.backup_rows),
        "" if table.log_rows is None else str(table.log_rows),
        "; ".join(notes),
    ]


def _key(key: dict[str, str | None] | None) -> str:
    if key is None:
        return "(no key)"
    return ", ".join(f"{name}={value}" for name, value in key.items())


@contextlib.contextmanager
def _shown() -> Iterator[Callable[[AgainstProgress], None] | None]:
    """A bar on a terminal."""
    if is_quiet() or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("begins", total=None)

        def show(state: AgainstProgress) -> None:
            words = f"{_STEPS[state.step]} {printable(state.table or '')}".rstrip()
            # Seconds have no end that is known.
            done = 0 if state.total is None else state.done
            bar.update(task, description=words, completed=done, total=state.total)

        yield show


_HEADS = ["table", "result", "rows in the backup", "rows in the log", "notes"]
_NUMBERS = {2, 3}
_STEPS = {
    "copy": "copies the backup",
    "recovery": "recovers the copy",
    "compare": "compares",
}
