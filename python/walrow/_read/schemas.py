"""The schema of a table, over all of its versions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Unpack

from walrow._core import Catalog, Schema, SchemaUnion
from walrow._read.signatures import with_options
from walrow._read.starts import place_of
from walrow._secrets import without_credentials
from walrow._sources.chunks import Chunks, paths
from walrow._sources.logs import find_log, log_of, start_in
from walrow.errors import Error, OptionError
from walrow.typing import Options, SchemaOptions, Source, TableName


@with_options(SchemaOptions)
def schema(
    source: Catalog | Source | Iterable[Catalog | Source],
    table: TableName | None = None,
    **options: Unpack[SchemaOptions],
) -> Schema:
    """Returns one schema for all versions of a table, for `read(table=..., schema=...)`.

    It has the columns of all versions in all sources, in the order of their first
    appearance, then the metadata columns. A column whose type changes gets a type that
    holds all of its values: see docs/types.md. Its metadata lacks
    `pg.replica_identity`.

    >>> import walrow
    >>> catalog = walrow.Catalog(
    ...     '{"tables": [{"schema": "public", "name": "t", "oid": 16400,'
    ...     ' "columns": [{"name": "id", "type": 23, "key": true}]}]}'
    ... )
    >>> walrow.schema(catalog, "t", metadata=["change_type"])
    <walrow.Schema id: int32, _change_type: string>
    >>> walrow.schema("tests/data/18/rows.text.wire", "public.item", metadata=())
    <walrow.Schema id: int32, label: string, amount: decimal128(12, 2)>

    Args:
        source: A catalog or the path of its file; a capture, as `read` takes it; a
            directory or a pattern of captures; or a list of these. Each file is a
            separate capture. Captures are read to their end, but their rows are
            skipped.
        table: One table, as in `read`: several have no common schema. Optional with
            `envelope`.
        **options: The options in the signature are those of `read`. `catalog` defines the
            types of captures. Default: the first catalog in `source`.

    Raises:
        SchemaError: No source contains the table, several tables have the name, or no
            type holds all values of a column.
        UnfinishedError: A capture is not complete, so it may lack versions.
        OptionError: As in `read`.
    """
    if (start := options.get("start")) is not None:
        options["start"] = start_in(log_of(source), start)
    after = [options.get("start")]
    if after[0] is not None and options.keys() & _NAMING:
        # An option may name a column that has left since.
        after.append(None)
    sources = list(_sources(source, table, after))
    catalogs = [each for _, each in sources if isinstance(each, Catalog)]
    if options.get("catalog") is None and catalogs:
        options["catalog"] = catalogs[0]
    union = SchemaUnion(table=table, **options)
    for name, each in sources:
        if isinstance(each, Catalog):
            union.add_catalog(each)
            continue
        try:
            _add_stream(union, name, each, options)
        except Error as error:
            if len(sources) > 1:
                error.add_note(f"in {name}")
            raise
    return union.schema()


def _add_stream(
    union: SchemaUnion, name: str, source: Any, options: SchemaOptions
) -> None:
    with closing(Chunks(source, unfinished=options.get("unfinished"))) as chunks:
        union.begin_stream(name, chunks.begin())
        for chunk in chunks:
            union.feed(chunk)
    union.finish_stream()


def schema_of_all(source: Any, versions: str, options: Options) -> Schema:
    """The schema of all versions of the chosen table, before its rows are read.

    The range of the rows does not count: the rows of another range have the same columns.

    Raises:
        OptionError: There is not one table, or the source can be read only once.
    """
    if versions != "union":
        raise OptionError(f"versions must be 'one' or 'union', not {versions!r}")
    table = options.get("table")
    if table is None or options.get("schema") is not None:
        raise OptionError('versions="union" needs table=, and no schema=')
    known: SchemaOptions = {key: options[key] for key in _COLUMNS if key in options}  # type: ignore[literal-required,assignment]
    if log_of(source) is not None:
        # It knows its versions without its rows.
        return schema(source, table, **known)
    place = place_of(source, _TWICE)
    # Several files are one stream here.
    union = SchemaUnion(table=table, **known)
    _add_stream(union, "the source", source, known)
    found = union.schema()
    if place is not None:
        source.seek(place)
    return found


_TWICE = (
    'versions="union" reads the source twice, and this one can be read once: pass'
    " schema=walrow.schema(...) of another copy, or of a catalog"
)
_NAMING = {"types", "columns", "unrepresentable"}
#: The options that determine the columns. Rows outside a range may have columns that its rows lack.
_COLUMNS = sorted(set(SchemaOptions.__annotations__) - {"start", "end", "schema"})


def _sources(
    source: Any, table: TableName | None, after: Iterable[Any]
) -> Iterator[tuple[str, Any]]:
    """Each catalog and capture, with its name."""
    if isinstance(source, list | tuple) and any(map(_is_alone, source)):
        for each in source:
            yield from _sources(each, table, after)
    elif not isinstance(source, str | os.PathLike):
        yield "the source", source
    elif (log := find_log(source)) is not None:
        name = without_credentials(os.fsdecode(source))
        if table is None:
            yield name, log.open()
        else:
            yield from ((name, log.examples(table, start)) for start in after)
    else:
        for path, name in paths(source):
            if _is_catalog(path):
                yield name, Catalog.from_file(path)
            else:
                yield name, path


def _is_alone(source: Any) -> bool:
    """Whether an item of a list is a source, and not a chunk of one."""
    return isinstance(source, str | os.PathLike | Catalog) or hasattr(source, "read")


def _is_catalog(path: str) -> bool:
    """Whether the file has JSON. No capture begins with a brace."""
    if "://" in path:
        return False
    with Path(path).open("rb") as file:
        return file.read(64).lstrip().startswith(b"{")
