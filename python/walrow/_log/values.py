"""Named tuples and their fields are read from JSON, by their types."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints


def value_of(kind: Any, found: Any) -> Any:  # noqa: PLR0911 -- a line for each kind
    """The value of a type that `json.dumps` has written."""
    arguments = get_args(kind)
    origin = get_origin(kind) or kind
    if kind in (Any, dict[str, Any]) or (found is None and NoneType in arguments):
        return found
    if NoneType in arguments:
        return value_of(arguments[0], found)
    if kind is dt.datetime:
        return dt.datetime.fromisoformat(found)
    if origin in (dict, Mapping):
        pairs = found.items() if isinstance(found, dict) else found
        return {
            value_of(arguments[0], k): value_of(arguments[1], it) for k, it in pairs
        }
    if origin in (list, Sequence) and not isinstance(found, str):
        return [value_of(arguments[0], it) for it in found]
    if origin is tuple and Ellipsis in arguments:
        return tuple(value_of(arguments[0], it) for it in found)
    if origin is tuple:
        return tuple(value_of(*it) for it in zip(arguments, found, strict=True))
    return kind(**values_of(kind, found)) if _fields(kind) else kind(found)


def values_of(kind: type, found: Any) -> dict[str, Any]:
    """The fields of a named tuple from a list or an object, which may lack the last ones."""
    fields = _fields(kind)
    known = found if isinstance(found, dict) else dict(zip(fields, found, strict=False))
    return {name: value_of(fields[name], known[name]) for name in fields.keys() & known}


@cache
def _fields(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
