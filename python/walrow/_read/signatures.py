"""Signatures of the functions that take options, from the one list of options, and their values.

The types of options are in `walrow.typing`, their order and defaults in the Rust core.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from walrow import typing as options
from walrow._amounts import size
from walrow._core import DECODER_OPTIONS, OPTIONS, Catalog, Decoder, Reader
from walrow._options import FOLDER, in_file_system, listed

F = TypeVar("F", bound="Callable[..., Any]")


def with_options(
    keys: type[Any], *, elsewhere: Collection[str] = ()
) -> Callable[[F], F]:
    """Lists the options in the signature of a function with `**options: Unpack[keys]`.

    A call with another name is a `TypeError`, unless it is one of `elsewhere`, or `_keys`. With
    `_keys`, walrow itself names the key columns of one table, whose values must stay different. The function gets sizes
    as numbers of bytes: see `read_values`.

    >>> @with_options(options.SchemaOptions)
    ... def example(source, **options): ...
    >>> list(inspect.signature(example).parameters)[:3]
    ['source', 'schema', 'columns']
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        _sign(function, [*signature.parameters.values()], keys, signature)
        known = {*inspect.signature(function).parameters, *elsewhere, "_keys"}

        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            for name in given.keys() - known:
                text = (
                    f"{function.__name__}() got an unexpected keyword argument {name!r}"
                )
                raise TypeError(text)
            return function(*args, **read_values(given))

        # It has the type of the function.
        return call  # type: ignore[return-value]

    return decorate


def _sign(
    target: Any,
    parameters: list[inspect.Parameter],
    keys: type[Any],
    signature: inspect.Signature,
) -> None:
    types = inspect.get_annotations(keys)
    own = [
        each for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    own += [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            # The source text: a TypedDict wraps it.
            annotation=types[name].__forward_arg__,
        )
        for name, default in OPTIONS.items()
        if name in types
    ]
    target.__signature__ = signature.replace(parameters=own)


_of_decoders = [
    inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation={
            "framing": "Framing",
            "batch_memory": "int",
            "trim_bpchar": "bool",
        }[name],
    )
    for name, default in DECODER_OPTIONS.items()
]
for _class, _leading in (
    (Reader, [inspect.Parameter("chunks", inspect.Parameter.POSITIONAL_ONLY)]),
    (Decoder, _of_decoders),
):
    _sign(_class, _leading, options.Options, inspect.Signature())


def read_values(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as the core takes them. It knows what else is wrong.

    >>> read_values({"spool_memory": "64MiB", "batch_rows": 10})
    {'spool_memory': 67108864, 'batch_rows': 10}

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
