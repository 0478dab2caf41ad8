"""Rows as the tables and DataFrames of other libraries, which are imported when needed.

The rows are read before the library sees them, so that errors stay walrow's own.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from walrow._by_table import ByTable
from walrow._late import library
from walrow.errors import OptionError, Remedy, SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from walrow._core import Batch, Reader, Rows


def to_pyarrow(source: Reader | Batch) -> Any:
    """Returns a `pyarrow.Table`, or a `ByTable` of them."""
    pa = _library("pyarrow", "to_pyarrow")
    return _each(source, pa.table)


def to_parquet(source: Reader, path: str | os.PathLike[str], one_schema: bool) -> int:  # noqa: FBT001 - Rust calls it
    """Writes the rows to a file. Returns their number."""
    pa = _library("pyarrow", "to_parquet")
    from pyarrow import parquet

    if not one_schema:
        raise OptionError(
            "to_parquet writes one table: choose it with table=, or use envelope=True"
        )
    target = Path(path)
    count = 0
    with NamedTemporaryFile(
        dir=target.parent, prefix=f".{target.name}.", delete=False
    ) as file:
        try:
            # A table without rows has its schema, too.
            with parquet.ParquetWriter(file, pa.schema(source.schema)) as writer:
                for batch in source:
                    count += batch.num_rows
                    writer.write_batch(pa.record_batch(batch))
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(target)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    return count


def to_pandas(
    source: Reader | Batch, dtype_backend: str = "pyarrow", decimals: str = "exact"
) -> Any:
    """Returns a `pandas.DataFrame`, or a `ByTable` of them."""
    if decimals not in {"exact", "float"}:
        raise OptionError(f"decimals must be exact or float, not {decimals!r}")
    if dtype_backend not in {"pyarrow", "numpy"}:
        text = f"dtype_backend must be pyarrow or numpy, not {dtype_backend!r}"
        raise OptionError(text)
    pd = _library("pandas", "to_pandas")
    pa = _library("pyarrow", "to_pandas")

    def frame(rows: Rows) -> Any:
        table = pa.table(rows)
        if decimals == "float":
            table = _floats(pa, table)
        if dtype_backend == "numpy":
            try:
                return table.to_pandas()
            except (pa.ArrowException, ValueError, OverflowError) as error:
                raise _unsupported_by_numpy(rows, table) from error
        # pandas has no types for extension types.
        names = table.column_names
        columns = [_storage(pa, column) for column in table.columns]
        # With equal names, a mapping of types by name would be ambiguous.
        plain = pa.Table.from_arrays(columns, names=names)
        return plain.to_pandas(types_mapper=pd.ArrowDtype)

    return _each(source, frame)


def _floats(pa: Any, table: Any) -> Any:
    """The table with decimals as floats."""
    for place, column in enumerate(table.columns):
        if pa.types.is_decimal(column.type):
            field = table.schema.field(place).with_type(pa.float64())
            table = table.set_column(place, field, column.cast(pa.float64()))
    return table


def _storage(pa: Any, column: Any) -> Any:
    if isinstance(column.type, pa.BaseExtensionType):
        chunks = [chunk.storage for chunk in column.chunks]
        return pa.chunked_array(chunks, column.type.storage_type)
    return column


def to_polars(source: Reader | Batch) -> Any:
    """Returns a `polars.DataFrame`, or a `ByTable` of them."""
    pl = _library("polars", "to_polars")

    def frame(rows: Rows) -> Any:
        # polars does not raise an error, it panics.
        for name, found in zip(rows.schema.names, rows.schema.types, strict=True):
            if _INTERVAL in found:
                reason = f"polars has no type for {found}"
                raise _unsupported(rows, name, reason, _SPARK)
        return pl.DataFrame(rows)

    return _each(source, frame)


_INTERVAL = "month_day_nano_interval"
_SPARK = Remedy("profile", None, "spark")


def to_duckdb(source: Reader | Batch, connection: Any = None) -> Any:
    """Returns a `duckdb.DuckDBPyRelation`, or a `ByTable` of them."""
    duckdb = _library("duckdb", "to_duckdb")
    pa = _library("pyarrow", "to_duckdb")
    where = duckdb if connection is None else connection
    return _each(source, lambda rows: where.from_arrow(pa.table(rows)))


def _each(source: Reader | Batch, frame: Callable[[Rows], Any]) -> Any:
    rows = source._rows()
    if not isinstance(rows, dict):
        return frame(rows)
    made: dict[str, Any] = {}
    errors: dict[str, SchemaError] = {}
    for table, each in rows.items():
        if isinstance(each, SchemaError):
            errors[table] = each
            continue
        try:
            made[table] = frame(each)
        except SchemaError as error:
            errors[table] = error
    return ByTable(made, errors)


def _unsupported(
    rows: Rows, name: str, reason: str, *others: Remedy, **advice: str
) -> SchemaError:
    """The error of a column that a library cannot hold, unless it is a string."""
    metadata = rows.schema.metadata
    table = None
    if "pg.table" in metadata:
        table = f"{metadata.get('pg.schema')}.{metadata['pg.table']}"
    column = f"{table}.{name}" if table else name
    return SchemaError(
        f"{column}: {reason}",
        table=table,
        column=name,
        remedies=(Remedy("types", column, "string"), *others),
        **advice,
    )


def _unsupported_by_numpy(rows: Rows, table: Any) -> SchemaError:
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            column.to_pandas()
        except (ValueError, NotImplementedError, OverflowError):
            reason = (
                f"NumPy cannot hold {column.type}, or one of its values; use "
                'dtype_backend="pyarrow"'
            )
            return _unsupported(rows, name, reason, advice=", or ")
    return SchemaError('NumPy cannot hold the rows; use dtype_backend="pyarrow"')


def _library(name: str, function: str) -> Any:
    return library(name, f"{function} needs {name}: pip install {name}")
