"""The JSON schema of the file, for editors: made from the classes of `config`."""

from __future__ import annotations

from typing import Any

from walrow._options import (
    COLUMNS,
    DURATION,
    FLAG,
    MAPPING,
    NAMES,
    NUMBER,
    SIZE,
    TEXT,
    Kind,
    Option,
    declared,
)
from walrow._run.config import LogPart, Source, Target


def json_schema() -> dict[str, Any]:
    """The JSON schema of the file.

    >>> json_schema()["properties"]["source"]["required"]
    ['slot', 'publications']
    """
    spark = 'Settings of Spark\'s session, such as "spark.jars.packages". Names are in quotes.'
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "The file of `walrow run`",
        "type": "object",
        "properties": {
            "source": {"description": "The server.", **_table(Source)},
            "log": {"description": "The log.", **_table(LogPart)},
            "target": {
                "description": "The targets.",
                "type": "array",
                "items": _table(Target),
            },
            "spark": {"description": spark, **_TEXTS},
        },
        "required": ["source", "log", "target"],
        "additionalProperties": False,
    }


def _table(part: Any) -> dict[str, Any]:
    known = declared(part)
    return {
        "type": "object",
        "properties": {name: _key(each) for name, each in known.items()},
        "required": [name for name, each in known.items() if each.is_required],
        "additionalProperties": False,
    }


def _key(option: Option[Any, Any]) -> dict[str, Any]:
    kind = option.kind
    values = {"enum": list(kind.choices)} if kind.choices else _VALUES[kind]
    found = {"description": option.text, **values}
    if not option.is_required and option.default not in (None, ()):
        found["default"] = option.default
    return found


def _amount(type_: str, pattern: str) -> dict[str, Any]:
    return {
        "anyOf": [
            {"type": type_, "minimum": 0},
            {"type": "string", "pattern": pattern},
        ]
    }


_NAMES = {"type": "array", "items": {"type": "string"}}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_VALUES: dict[Kind, dict[str, Any]] = {
    TEXT: {"type": "string"},
    FLAG: {"type": "boolean"},
    NUMBER: {"type": "integer"},
    NAMES: _NAMES,
    COLUMNS: _NAMES,
    MAPPING: _TEXTS,
    DURATION: _amount("number", r"^(\d+(\.\d+)? ?[sSmMhHdDwW]?|inf)$"),
    SIZE: _amount("integer", r"^(\d+(\.\d+)? ?([kKmMgGtT]([iI]?[bB])?|[bB])|0)$"),
}
