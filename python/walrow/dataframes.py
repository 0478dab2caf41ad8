"""Rows as the tables and DataFrames of other libraries, which are imported when needed.

The rows are read before the library sees them, so that errors stay walrow's own.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from walrow._core import rows_of
from walrow.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from walrow._core import Batch, Reader, Rows

__all__ = ["to_duckdb", "to_pandas", "to_polars", "to_pyarrow"]


def to_pyarrow(source: Reader | Batch) -> Any:
    """Returns a `pyarrow.Table`, or a dictionary of them by table."""
    pa = _library("pyarrow", "to_pyarrow")
    return _each(source, pa.table)


def to_pandas(source: Reader | Batch, dtype_backend: str = "pyarrow") -> Any:
    """Returns a `pandas.DataFrame`, or a dictionary of them by table."""
    if dtype_backend not in {"pyarrow", "numpy"}:
        text = f"dtype_backend must be pyarrow or numpy, not {dtype_backend!r}"
        raise OptionError(text)
    pd = _library("pandas", "to_pandas")
    pa = _library("pyarrow", "to_pandas")

    def frame(rows: Rows) -> Any:
        table = pa.table(rows)
        if dtype_backend == "numpy":
            return table.to_pandas()
        # pandas has no types for extension types.
        names = table.column_names
        columns = [_storage(pa, column) for column in table.columns]
        # With equal names, a mapping of types by name would be ambiguous.
        plain = pa.Table.from_arrays(columns, names=names)
        return plain.to_pandas(types_mapper=pd.ArrowDtype)

    return _each(source, frame)


def _storage(pa: Any, column: Any) -> Any:
    if isinstance(column.type, pa.BaseExtensionType):
        chunks = [chunk.storage for chunk in column.chunks]
        return pa.chunked_array(chunks, column.type.storage_type)
    return column


def to_polars(source: Reader | Batch) -> Any:
    """Returns a `polars.DataFrame`, or a dictionary of them by table."""
    pl = _library("polars", "to_polars")
    return _each(source, pl.DataFrame)


def to_duckdb(source: Reader | Batch, connection: Any = None) -> Any:
    """Returns a `duckdb.DuckDBPyRelation`, or a dictionary of them by table."""
    duckdb = _library("duckdb", "to_duckdb")
    pa = _library("pyarrow", "to_duckdb")
    where = duckdb if connection is None else connection
    return _each(source, lambda rows: where.from_arrow(pa.table(rows)))


def _each(source: Reader | Batch, frame: Callable[[Rows], Any]) -> Any:
    rows = rows_of(source)
    if isinstance(rows, dict):
        return {table: frame(each) for table, each in rows.items()}
    return frame(rows)


def _library(name: str, function: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        text = f"{function} needs {name}: pip install {name}"
        raise ModuleNotFoundError(text, name=name) from None
