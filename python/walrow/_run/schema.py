"""The JSON schema of the file, for editors: made from the classes of `config`."""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from walrow._run.config import Amount, Options, RunFile

__all__ = ["json_schema"]


def json_schema() -> dict[str, Any]:
    """The JSON schema of the file.

    >>> json_schema()["properties"]["source"]["required"]
    ['slot', 'publications']
    """
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "The file of `walrow run`",
        **_table(RunFile),
    }


def descriptions(kind: type) -> dict[str, str]:
    """The descriptions of attributes in the docstring of a class."""
    text = inspect.getdoc(kind) or ""
    _, _, lines = text.partition("Attributes:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", lines, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", said) for name, said in found}


def _table(kind: Any) -> dict[str, Any]:
    hints, said = get_type_hints(kind, include_extras=True), descriptions(kind)
    properties, required = {}, []
    for field in dataclasses.fields(kind):
        found = {"description": said[field.name], **_value(hints[field.name])}
        if field.default is dataclasses.MISSING:
            if field.default_factory is dataclasses.MISSING:
                required.append(field.name)
        elif field.default not in (None, ()):
            found["default"] = field.default
        properties[field.name] = found
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _value(hint: Any) -> dict[str, Any]:  # noqa: PLR0911
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (hint,) = (it for it in parts if it is not type(None))
        return _value(hint)
    if origin is Annotated:
        number, unit = (
            ("number", _DURATION) if parts[1] is Amount.DURATION else ("integer", _SIZE)
        )
        return {
            "anyOf": [
                {"type": number, "minimum": 0},
                {"type": "string", "pattern": unit},
            ]
        }
    if origin is Literal:
        return {"enum": list(parts)}
    if origin is tuple:
        return {"type": "array", "items": _value(parts[0])}
    if hint == Options:
        return {"type": "object", "additionalProperties": {"type": "string"}}
    if dataclasses.is_dataclass(hint):
        return _table(hint)
    return {"type": {str: "string", bool: "boolean", int: "integer"}[hint]}


_DURATION = r"^(\d+(\.\d+)? ?[sSmMhHdDwW]?|inf)$"
_SIZE = r"^(\d+(\.\d+)? ?([kKmMgGtT]([iI]?[bB])?|[bB])|0)$"
