"""Values of options of `walrow.read` that are read before the Rust core gets them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from walrow._amounts import size
from walrow._core import Catalog
from walrow._options import FOLDER, in_file_system, listed


def read_values(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as the core takes them. It knows what else is wrong.

    >>> read_values({"spool_memory": "64MiB", "batch_rows": 10})
    {'spool_memory': 67108864, 'batch_rows': 10}

    Args:
        options: Options of `walrow.read` by name. None is the default of each.

    Raises:
        OptionError: A value is not a size, or not a path.
        TypeError: `tables` is not a sequence, or `catalog` not a catalog or a path.
    """
    return {
        name: _PARSERS[name](value, name)
        if name in _PARSERS and value is not None
        else value
        for name, value in options.items()
    }


def catalog_of(value: Any, name: str) -> Any:
    """A catalog, or the path of its file.

    Raises:
        OptionError: It is a path that no file can have.
        TypeError: It is neither.
    """
    if isinstance(value, Catalog):
        return value
    if not isinstance(value, str | os.PathLike):
        text = (
            f"{name} must be a walrow.Catalog or the path of its file, not "
            f"{type(value).__name__}; to read one from a server, use walrow.postgres.catalog"
        )
        raise TypeError(text)
    in_file_system(os.fspath(value), name)
    return value


def _tables(value: Any, name: str) -> Any:
    # The core refuses one name, an empty sequence and wrong items.
    tables = value if isinstance(value, str) else listed(value)
    if tables is not None:
        return tables
    text = f"{name} must be a sequence of tables, not {type(value).__name__}"
    raise TypeError(text)


_PARSERS: dict[str, Callable[[Any, str], Any]] = {
    "batch_bytes": size,
    "catalog": catalog_of,
    "message_limit": size,
    "spool_directory": FOLDER.parse,
    "spool_memory": size,
    "tables": _tables,
}
