"""Signatures of the functions that take options, from the one list of options, and their values.

The types of options are in `walrow.typing`, their order and defaults in the Rust core.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from walrow import typing as options
from walrow._core import DECODER_OPTIONS, OPTIONS, Decoder, Reader
from walrow._options import CATALOG, FOLDER, SIZE, Option, listed

F = TypeVar("F", bound="Callable[..., Any]")

#: The options of `walrow.read`. The core checks what it is given.
READ: dict[str, Option[Any, Any]] = {
    # A TypedDict wraps the source text of its annotations.
    name: Option.of(
        name, options.Options.__annotations__[name].__forward_arg__, default
    )
    for name, default in OPTIONS.items()
}


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
                raise TypeError(
                    f"{function.__name__}() got an unexpected keyword argument {name!r}"
                )
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
    own = [
        each for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    own += [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=option.default,
            annotation=option.written,
        )
        for name, option in READ.items()
        if name in keys.__annotations__
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


def _tables(value: Any, name: str) -> Any:
    # The core refuses one name, an empty sequence and wrong items.
    tables = value if isinstance(value, str) else listed(value)
    if tables is not None:
        return tables
    raise TypeError(f"{name} must be a sequence of tables, not {type(value).__name__}")


_PARSERS: dict[str, Callable[[Any, str], Any]] = {
    name: option.kind.parse
    for name, option in READ.items()
    if option.kind in (CATALOG, FOLDER, SIZE)
} | {"tables": _tables}
