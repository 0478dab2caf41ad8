"""The golden captures, for tests to choose from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import walrow

DATA = Path(__file__).resolve().parent / "data"


@dataclass(frozen=True)
class Capture:
    """The stream of one history from one server, recorded in one way.

    Attributes:
        major: The server's version.
        name: The scenario.
        record: `text`, `binary`, `v1` or `physical`.
    """

    major: int
    name: str
    record: str

    def __str__(self) -> str:
        return f"{self.major}-{self.name}-{self.record}"

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.{self.record}.wire"

    @property
    def folder(self) -> Path:
        return DATA / str(self.major)

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()

    @property
    def meta(self) -> dict[str, Any]:
        return _json(self.folder / f"{self.name}.meta.json")

    @property
    def tables(self) -> dict[str, Any]:
        return _json(self.folder / f"{self.name}.tables.json")

    def beside(self, record: str) -> Capture:
        """The same history, recorded in another way."""
        return Capture(self.major, self.name, record)


@cache
def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def capture(name: str, record: str = "text", major: int = 18) -> Capture:
    """One capture by its name."""
    return Capture(major, name, record)


def captures(*records: str) -> list[Capture]:
    """All captures of these records, of every record if none is named."""
    found = []
    for path in sorted(DATA.glob("*/*.wire")):
        name, record, _ = path.name.split(".")
        if not records or record in records:
            found.append(Capture(int(path.parent.name), name, record))
    if not found:
        msg = f"no captures in {DATA}"
        raise LookupError(msg)
    return found


def with_sides(source: Any, *sides: str) -> list[int | str]:
    """The OIDs of all tables of a source, and side tables."""
    tables = [it.oid for it in walrow.tables(source)]
    return [*tables, *(f"walrow.{side}" for side in sides)]


def cut(data: bytes, size: int) -> list[bytes]:
    """The data in pieces of this size."""
    return [data[at : at + size] for at in range(0, len(data), size)]
