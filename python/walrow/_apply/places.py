"""Places of targets: the names of tables in them, and texts that name another directory."""

from __future__ import annotations

import os
import re
from unicodedata import is_normalized

from walrow._apply.engines import is_path
from walrow._apply.targets import NAME_BYTES
from walrow.errors import OptionError


def encoded(name: str) -> str:
    """The name of a schema or table as a part of a place: no other name has the same part.

    Letters, digits, `_`, `-`, and dots and blanks inside the name are unchanged. Any other character becomes
    its bytes in UTF-8, each as `+` and two hexadecimal digits. The result means one directory to
    file systems, URLs, Hadoop and catalogs, and stays inside the directory before it.

    >>> encoded("Order items"), encoded("été"), encoded("a+b/c")
    ('Order items', 'été', 'a+2Bb+2Fc')
    >>> encoded(".."), encoded("%2e%2e"), encoded("x ")
    ('+2E+2E', '+252e+252e', 'x+20')
    """
    # Some file systems compare composed and decomposed letters as equal.
    special = _SPECIAL if is_normalized("NFC", name) else _SPECIAL_OR_NOT_ASCII
    return special.sub(_bytes, name)


def _bytes(found: re.Match[str]) -> str:
    data = found[0].encode("utf-8", "surrogatepass")
    return "".join(f"+{byte:02X}" for byte in data)


def check_target(name: str) -> None:
    """Accepts only the name of a target.

    Raises:
        OptionError: It means none, or another directory than it names.
    """
    kind, _, rest = name.partition(":")
    if kind not in _TARGETS or not rest:
        raise OptionError(
            f"target {name!r} is not one of "
            '"delta:/path", "delta:catalog.schema.table" and "iceberg:catalog.schema.table"'
        )
    check_place(name)


def check_place(target: str) -> None:
    """Refuses a path or URL that a library would take for another directory.

    deltalake decodes `%2e`, and does not find the history of a table with `#` in its path. Spark does
    neither, so one target could be two tables.

    Raises:
        OptionError: It contains such a text, or a name that no file system takes.
    """
    if not is_path(target):
        return
    place = target.partition(":")[2]
    found = (_IN_URLS if _URL.match(place) else _IN_PATHS).search(place)
    if found is not None:
        raise OptionError(
            f"target {target!r}: a library may take {found[0]!r} in it for another directory: choose a "
            "path without it"
        )
    for name in re.split(r"[/\\]", place):
        if len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES:
            raise OptionError(
                f"target {target!r}: the name of a directory has at most {NAME_BYTES} bytes: choose "
                "a shorter one"
            )


#: The kinds of tables that a target may be.
_TARGETS = ("delta", "iceberg")
#: `_delta_log` would make a table of the directory around it.
_SPECIAL = re.compile(r"^[. ]|[. ]\Z|^_(?=delta_log\Z)|[^\w. -]")
_SPECIAL_OR_NOT_ASCII = re.compile(f"{_SPECIAL.pattern}|[^\0-\x7f]")
_URL = re.compile(r"[A-Za-z][\w+.-]+:")
_IN_PATHS = re.compile(
    r"%[0-9A-Fa-f]{2}|[\x00-\x1f\x7f\[\]^|#?]|(?<![^/])_delta_log(?![^/])"
    + (r"|\\" if os.sep == "/" else "")
)
_IN_URLS = re.compile(
    _IN_PATHS.pattern + r"|\\|(?<![^/])\.{1,2}(?![^/])|(?<![^/]) | (?![^/])"
)
