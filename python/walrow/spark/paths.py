"""Paths as Spark writes them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from walrow.errors import Error


def local(path: str) -> str:
    """Removes `file:`, which Spark's sources write before a path.

    It has a single slash both in paths of `binaryFile`, such as `file:/tmp/a b`, which
    are not escaped, and in URLs of `input_file_name()` and `_metadata.file_path`, such
    as `file:/tmp/a%20b`.
    """
    if not path.startswith("file:"):
        return path
    plain = path.removeprefix("file:")
    if plain.startswith("//"):
        _, slash, rest = plain.removeprefix("//").partition("/")
        return unquote(slash + rest)
    decoded = unquote(plain)
    if decoded == plain or not Path(decoded).exists():
        return plain
    if Path(plain).exists():
        raise Error(
            "the path can mean two files that both exist, one with % in its name and one "
            "without; remove file: from the path"
        )
    return decoded
