"""`walrow decode`: writes a capture's changes as Parquet, Arrow IPC or JSON lines."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Unpack

import click

from walrow._core import Batch, Reader
from walrow._late import library, pa
from walrow._read.schemas import schema_of_all
from walrow._read.starts import start_in_capture
from walrow._results import counted
from walrow._secrets import is_conninfo
from walrow._sources.logs import find_log, part_of
from walrow.cli import source
from walrow.cli.arguments import LSN_OR_TIME, library_option
from walrow.cli.jsonlines import has_sentinels
from walrow.cli.output import (
    FORMATS,
    GROUP_ROWS,
    Files,
    Json,
    Writer,
    allow_open_files,
    file_name,
    is_file_name,
    unbuffered,
)
from walrow.cli.places import resolved, say_time
from walrow.cli.terminal import say
from walrow.errors import (
    Error,
    ReplicationError,
    SchemaError,
    UnfinishedError,
)
from walrow.typing import Options, StateOptions, UnresolvedType

F = TypeVar("F", bound="Callable[..., Any]")

# The command's names for options of `walrow.read`, by their names.
INSTEAD = {"schema": "--to DIR/, without --table"}


def to_output(function: F) -> F:
    """Adds the options of the output."""
    function = click.option(
        "--format",
        "form",
        type=click.Choice(("parquet", "arrow", "json")),
        help="The output format. Default: from the extension of OUT; parquet for DIR/.",
    )(function)
    return click.option(
        "--to",
        "-o",
        default="-",
        metavar="OUT",
        help="FILE.parquet, FILE.arrow, FILE.jsonl, DIR/ or - (JSON lines). Default: -.",
    )(function)


@click.command()
@source.files
@library_option(
    "tables",
    "Only this table: orders, public.orders. Repeatable. Or, alone, walrow.transactions, "
    "walrow.messages, walrow.relations, walrow.truncates.",
)
@click.option(
    "--versions",
    type=click.Choice(("one", "union")),
    default="one",
    show_default=True,
    help="With one --table whose columns change: an error, or the columns of all versions.",
)
@library_option(
    "columns",
    "Only this column, besides the metadata columns: total, orders.total. Repeatable.",
)
@library_option(
    "envelope", "All tables under one schema, with columns as maps of names to text."
)
@click.option(
    "--start",
    type=LSN_OR_TIME,
    metavar="LSN|TIME",
    help="Skip transactions that end at or before this LSN: 0/1A2B. Or those before the first one "
    "that was committed after this time: -1h, today.",
)
@click.option(
    "--end",
    type=LSN_OR_TIME,
    metavar="LSN|TIME",
    help="Stop after the last transaction that ends at or before this LSN, or before the "
    "first one that was committed after this time.",
)
@library_option(
    "late_start",
    "Skip transactions whose beginning is not in the capture; otherwise an error.",
)
@library_option(
    "unfinished",
    "If the capture ends inside a frame or a transaction, or with an error of the server: "
    "exit code 3 or 4 after its complete transactions are written, or 0.",
)
@library_option(
    "missing_table", "If the capture does not contain a --table: an error, or no rows."
)
@library_option(
    "gaps", "If changes are missing in a log: an error, or continue behind them."
)
@library_option("profile")
@to_output
@source.quiet
@library_option("types")
@library_option("unrepresentable")
@library_option(
    "catalog", "User-defined types, from `walrow catalog` or walrow.Catalog.to_json."
)
@library_option(
    "session",
    "The encoding of a capture that does not report it: client_encoding=LATIN1.",
)
@library_option("metadata_prefix")
def decode(
    *,
    files: tuple[str, ...],
    to: str,
    form: str | None,
    versions: Literal["one", "union"],
    **options: Unpack[Options],
) -> None:
    r"""Writes the committed changes in FILE, a capture. - is stdin.

    A FILE may also be a URL, a directory, a pattern ('2026-*.wire.gz'), a file of
    pg_recvlogical, and compressed with gzip or zstd. Several are one stream.

    A Parquet or Arrow file contains one table: one --table, or the only table with
    changes in the capture. DIR/ contains one file per table, SCHEMA.TABLE.parquet. When
    the columns of a table change, its next rows go to SCHEMA.TABLE.2.parquet, and so on,
    except with one --table: then it is an error, or see --versions. JSON lines contain all tables: each row
    has its table's name under _table. Numbers that JSON cannot hold are strings. Bytes
    are strings of \x and hexadecimal digits.

    Files get their names when all are complete. An error leaves no new files, and existing
    files do not change; if only some files got their names, the error lists them. OUT must
    not be an input file. DIR/ must not contain files of an earlier run. Pipes and devices are written immediately.

    Exit codes: 0 if the capture is complete; 1 for an error; 2 for a usage error; 3 if
    the capture ends inside a frame or a transaction, and 4 if the server ended it with an
    error: all complete transactions are then written. 129, 130 and 143 after a signal.
    """
    if "://" in to or is_conninfo(to):
        # It may contain a password.
        text = "--to is a URL or a connection string, but takes only local files"
        raise click.UsageError(text)
    form = prepared(to, form, options)
    _choose_tables(options, to, form)
    _resolve_times(files, options)
    catalog = options["catalog"]
    shows_rows = to == "-" and sys.stdout.isatty()
    with source.opened(
        files,
        unfinished=options["unfinished"],
        show=not shows_rows,
        outputs=_outputs(to),
        beside=[catalog] if isinstance(catalog, Path) else [],
        part=part_of(options),
    ) as blocks:
        if versions != "one":
            if "-" in files:
                text = "--versions union reads the capture twice, which stdin cannot: save it in a file"
                raise click.UsageError(text)
            options["schema"] = schema_of_all(
                files[0] if len(files) == 1 else list(files), versions, options
            )
        reader = Reader(blocks, **options)
        batches = Counted(reader)
        one_schema = options["envelope"] or "table" in options
        write(to, form, batches, one_schema=one_schema)
        if not source.is_quiet():
            _warn(reader, options, truncated=blocks.truncated)
        if batches.ended is not None:
            batches.ended.add_note(batches.written_rows("of complete transactions"))
            raise batches.ended


def _resolve_times(files: Sequence[str], options: Options) -> None:
    """Replaces times by the LSNs that the source has for them. Standard input is read only once."""
    start, end = options["start"], options["end"]
    log = find_log(files[0]) if len(files) == 1 and files[0] != "-" else None
    if log is not None:
        options["start"] = resolved(log, "--start", start)
        options["end"] = resolved(log, "--end", end)
        return
    if isinstance(start, dt.datetime):
        if "-" in files:
            raise click.UsageError(
                "--start is a time, which reads a capture twice, and standard input is read once: name "
                "a file, or pass the LSN"
            )
        options["start"] = found = start_in_capture([*files], start, options)
        say_time("--start", start, f", in the capture {found}")
    say_time("--end", end)


def _choose_tables(options: Options, to: str, form: str) -> None:
    """Chooses the table of one `--table`, or the tables of several."""
    tables = options["tables"] or ()
    if len(tables) == 1:
        options["table"] = tables[0]
        del options["tables"]
    elif tables and not (options["envelope"] or form == "json" or _is_directory(to)):
        raise click.UsageError(
            f"{Path(to).name} takes one table, but --table chooses {len(tables)}: write "
            "them with --to DIR/, as JSON lines or with --envelope"
        )


def prepared(to: str, form: str | None, options: Options | StateOptions) -> str:
    """Prepares the options for an output. Returns its format."""
    require_pyarrow()
    policies = options["unrepresentable"]
    has_sentinels.set(isinstance(policies, dict) and "sentinel" in policies.values())
    options["batch_rows"] = GROUP_ROWS
    return _format_of(to, form)


def write(to: str, form: str, batches: Counted, *, one_schema: bool) -> None:
    """Writes batches to one of the outputs. An error names the files on disk."""
    try:
        _write(to, form, batches, one_schema=one_schema)
    except BrokenPipeError:
        raise
    except (Error, OSError) as error:
        batches.explain(error)
        raise


def _write(to: str, form: str, batches: Counted, *, one_schema: bool) -> None:
    if to == "-":
        writer = Json(unbuffered(sys.stdout.buffer))
        batches.written = writer.written
        for batch in batches:
            writer.write(batch)
        writer.close()
        return
    with Files() as files:
        batches.written = files.written
        if _is_directory(to):
            _all_tables(Path(to), form, batches, files)
        elif form == "json":
            lines = files.create(Path(to), form, None)
            for batch in batches:
                lines.write(batch)
        else:
            _one_table(Path(to), form, batches, files, one_schema=one_schema)
        files.commit()


def _one_table(
    path: Path, form: str, batches: Counted, files: Files, *, one_schema: bool
) -> None:
    if one_schema:
        only = files.create(path, form, pa.schema(batches.reader.schema))
        for batch in batches:
            only.write(batch)
        return
    name, schema = ("", ""), pa.schema([])
    writer: Writer | None = None
    for batch in batches:
        found = pa.schema(batch.schema)
        if writer is None:
            name, schema = (batch.schema_name, batch.table_name), found
            writer = files.create(path, form, schema)
        elif (batch.schema_name, batch.table_name) != name:
            raise click.UsageError(
                f"the capture has changes of {'.'.join(name)}, {batch.table} and maybe others, but "
                f"{path.name} takes one table: choose it with --table, or write all with "
                f"--to DIR/"
            )
        elif not found.equals(schema):
            text = (
                f"{batch.table}: the table's columns change within the capture; write all "
                "versions with --to DIR/"
            )
            raise SchemaError(text, table=batch.table)
        writer.write(batch)
    if writer is None:
        if batches.ended is not None:
            raise batches.ended
        text = f"the capture has no changes of any table; {path.name} was not written"
        raise SchemaError(text)


def _all_tables(path: Path, form: str, batches: Counted, files: Files) -> None:
    files.directory(path)
    # A reader of the whole directory would mix up two runs.
    if held := sorted(file.name for file in path.iterdir() if is_file_name(file.name)):
        more = f" and {len(held) - 1} more" if len(held) > 1 else ""
        raise click.UsageError(
            f"{path} contains files of an earlier run, {held[0]}{more}: remove them, or "
            "choose another directory"
        )
    allow_open_files()
    current: dict[str, tuple[int, pa.Schema, Writer]] = {}
    # batch.table joins names without quotes, so two tables may have the same one.
    for batch in batches:
        key = file_name(batch, 1, form)
        schema = pa.schema(batch.schema)
        version, known, writer = current.get(key, (0, None, None))
        if writer is None or not schema.equals(known):
            if writer is not None:
                files.finish(writer)
            version += 1
            writer = files.create(path / file_name(batch, version, form), form, schema)
            current[key] = (version, schema, writer)
        writer.write(batch)


class Counted:
    """A reader's batches, and the number of their rows.

    Attributes:
        ended: The error of a capture that is not complete. The batches end before it.
        written: Says what an output holds although it is incomplete. None if nothing.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.rows = 0
        self.ended: Error | None = None
        self.written: Callable[[], str | None] = lambda: None

    def __iter__(self) -> Iterator[Batch]:
        try:
            for batch in self.reader:
                self.rows += batch.num_rows
                yield batch
        except (UnfinishedError, ReplicationError) as error:
            self.ended = error

    def written_rows(self, which: str) -> str:
        """Says that all rows were written."""
        were = "was" if self.rows == 1 else "were"
        return f"{counted(self.rows, 'row')} {which} {were} written"

    def explain(self, error: Exception) -> None:
        """Adds the files that stay on disk to an error."""
        note = self.written()
        if note is None:
            note = f"{counted(self.rows, 'row')} decoded, nothing written"
        if isinstance(error, OSError) and error.strerror:
            error.strerror = f"{error.strerror}; {note}"
        else:
            error.add_note(note)


def _warn(reader: Reader, options: Options, *, truncated: bool) -> None:
    warnings = []
    if options["unfinished"] == "ignore" and reader.server_error is not None:
        warnings.append(
            f"the server ended the capture with an error (SQLSTATE {reader.server_error})"
        )
    if truncated:
        warnings.append("the compressed data is truncated; its rest is missing")
    if options["unfinished"] == "ignore" and reader.unfinished:
        warnings.append(
            "the capture ends inside a frame or a transaction; the incomplete part was skipped"
        )
    if open_transactions := reader.open_transactions:
        warnings.append(_open(open_transactions))
    if number := reader.unprepared_commits:
        warnings.append(
            f"{number} COMMIT PREPARED came without a prepared transaction: it changed nothing, or "
            "was prepared before the capture begins; use --start to make the latter an error"
        )
    if number := reader.repeated_transactions:
        warnings.append(
            f"{counted(number, 'transaction')} came again after pg_recvlogical reconnected, and "
            f"{'was' if number == 1 else 'were'} skipped"
        )
    if reader.unresolved_types and options["profile"] != "text":
        warnings.append(
            "types of these columns are unknown and were read as text: "
            f"{_unresolved(reader.unresolved_types)}; use --catalog to define them"
        )
    warnings.extend(
        f"{column}: {counted(number, 'value')} became null because the column's type cannot hold "
        f"{'it' if number == 1 else 'them'}"
        for column, number in reader.nulled.items()
    )
    warnings.extend(
        f"{column}: {counted(number, 'array')} lost subscripts that do not start at 1; "
        "--profile text keeps them"
        for column, number in reader.dropped_lower_bounds.items()
    )
    for warning in warnings:
        say(f"walrow: warning: {warning}")


def _open(transactions: Sequence[Mapping[str, Any]]) -> str:
    """Names the transactions that the capture leaves open."""
    shown = [
        f"{each['xid']}" if each["gid"] is None else f"{each['xid']} ({each['gid']})"
        for each in transactions
    ]
    return (
        f"{counted(len(transactions), 'transaction')} of the capture neither committed nor "
        f"rolled back: {_first(shown)}"
    )


def _unresolved(types: Sequence[UnresolvedType]) -> str:
    """Names the columns that have unknown types."""
    return _first([f"{it.table}.{it.column} (type {it.type_oid})" for it in types])


def _first(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join([*names[:_MOST_NAMES], *([f"{more:,} more"] if more > 0 else [])])


_MOST_NAMES = 5


def require_pyarrow() -> None:
    """Refuses to run without pyarrow."""
    library("pyarrow", "decode needs pyarrow: pip install 'walrow[cli]'")


def _is_directory(to: str) -> bool:
    return to.endswith("/") or Path(to).is_dir()


def _outputs(to: str) -> list[str | Path]:
    """Files that may be overwritten. For a directory, files named like tables."""
    if to == "-" or not _is_directory(to):
        return [to]
    path = Path(to)
    files = path.iterdir() if path.is_dir() else ()
    return [file for file in files if is_file_name(file.name)]


def _format_of(to: str, form: str | None) -> str:
    """The format of an output, from the option or the file's extension."""
    if to == "-":
        if form not in {None, "json"}:
            raise click.UsageError(
                f"stdout takes only JSON lines; --format {form} needs a file: --to OUT"
            )
        return "json"
    if form is not None:
        return form
    if _is_directory(to):
        return "parquet"
    found = FORMATS.get(Path(to).suffix.lower())
    if found is None:
        text = f"{to}: neither .parquet, .arrow, .jsonl nor DIR/; use --format"
        raise click.UsageError(text)
    return found
