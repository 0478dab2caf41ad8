"""Names and packages that are imported when they are used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any


class _Package:
    """A package that is imported when one of its names is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark import sql
    from pyspark.sql import functions as f
    from pyspark.sql import types
else:
    pa, pc = _Package("pyarrow"), _Package("pyarrow.compute")
    sql, f = _Package("pyspark.sql"), _Package("pyspark.sql.functions")
    types = _Package("pyspark.sql.types")

__all__ = ["f", "pa", "pc", "sql", "types"]


def late(
    module: str, places: Mapping[str, Sequence[str]], modules: Sequence[str] = ()
) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose names are in other modules.

    Args:
        module: The module.
        places: Names, by the module that has them.
        modules: Modules below it.
    """

    def get(name: str) -> Any:
        if name in modules:
            return import_module(f"{module}.{name}")
        for place, names in places.items():
            if name in names:
                found = getattr(_import(place), name)
                setattr(import_module(module), name, found)
                return found
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return get


def listed(names: Sequence[str]) -> Callable[[], list[str]]:
    """The `__dir__` of a public module: only its public names."""
    return lambda: sorted(names)


def _import(place: str) -> ModuleType:
    """Imports a module of walrow, which may import psycopg."""
    try:
        return import_module(place)
    except ModuleNotFoundError as error:
        raise explained(error) from None


def explained(error: ImportError) -> ImportError:
    """The error. If psycopg is missing, its text has the command that installs it."""
    if (error.name or "").partition(".")[0] != "psycopg":
        return error
    text = "this needs psycopg: pip install 'walrow[postgres]'"
    return ModuleNotFoundError(text, name="psycopg")


def is_there(package: str) -> bool:
    """Whether a package can be imported."""
    from importlib.util import find_spec

    try:
        return find_spec(package) is not None
    except ValueError:
        return False


def require(*packages: str, part: str) -> None:
    """Imports the packages that `walrow.spark` or another part needs.

    Raises:
        ModuleNotFoundError: One is not installed. The text says how to install it.
    """
    for name in packages:
        library(name, f"walrow.{part} needs {name}: pip install 'walrow[{part}]'")


def library(name: str, text: str) -> ModuleType:
    """Imports a package. `text` is the error if it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ModuleNotFoundError(text, name=name) from None
