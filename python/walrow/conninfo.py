"""Connection strings and URLs: they may contain a password, which no message may show."""

from __future__ import annotations

import os
import re
from glob import has_magic, iglob
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from psycopg.pq import ConninfoOption

__all__ = ["is_conninfo", "without_credentials"]


def is_conninfo(text: str, *, or_url: bool = False) -> bool:
    """Whether a text, where a path is expected, may contain a password.

    It is a connection string of PostgreSQL, or looks like one that libpq cannot parse, or
    that nobody can because psycopg is not installed; or it is a URL with credentials. A path
    that exists is a path. So is `./run=5`.

    >>> is_conninfo("postgresql://admin@db/shop"), is_conninfo("dbname=shop user=me")
    (True, True)
    >>> is_conninfo("password=secret.wire"), is_conninfo("pasword=secret host=db")
    (True, True)
    >>> is_conninfo("s3://bucket/shop.wire"), is_conninfo("dbname=shop.wire")
    (False, False)
    >>> url = "https://me:secret@host/a.wire"
    >>> is_conninfo(url), is_conninfo(url, or_url=True)
    (True, False)

    Args:
        text: The text.
        or_url: Whether the URL of a file is expected, too.
    """
    if _SCHEME.match(text):
        return True
    if _URL.match(text):
        return not or_url and without_credentials(text) != text
    if not _LIKE_PARAMETER.search(text) or _exists(text):
        return False
    # It may be a file, or a directory of a partitioned table: `dt=1/shop.wire`.
    found = _LIKE_PARTITION.fullmatch(text)
    secrets = _secret_keywords() if found else None
    return found is None or secrets is None or found[1] in secrets


def _exists(path: str) -> bool:
    """Whether a path, or a file of a pattern, exists."""
    if os.path.lexists(path):
        return True
    return has_magic(path) and next(iglob(path, recursive=True), None) is not None


def _secret_keywords() -> set[str] | None:
    """The parameters that libpq does not show. None if psycopg is not installed."""
    try:
        from psycopg.pq import Conninfo
    except ImportError:
        return None
    known: list[ConninfoOption] = Conninfo.get_defaults()
    # `*` is a password, and `D` is for debugging: keys are among these.
    return {it.keyword.decode() for it in known if it.dispchar}


def without_credentials(url: str) -> str:
    """Removes user, password and query, which may contain a signature, from a URL.

    >>> without_credentials("https://me:secret@host/a.wire?signature=secret")
    'https://host/a.wire'
    >>> without_credentials("captures/a.wire")
    'captures/a.wire'
    """
    return "::".join(_plain(link) for link in _CHAIN.split(url))


def _plain(link: str) -> str:
    """Without urlsplit, which refuses some URLs, and takes a part of some passwords for a path."""
    scheme, separator, rest = link.partition("://")
    if not separator:
        return link
    if scheme == "file":
        # A path may contain @.
        host, slash, path = rest.partition("/")
        rest = host.rpartition("@")[2] + slash + path
    else:
        rest = rest.rpartition("@")[2]
    return scheme + separator + rest.partition("?")[0]


# fsspec's: `zip://a.wire::https://host/b.zip`.
_CHAIN = re.compile(r"::(?=[A-Za-z][\w+.-]*(?:://|::))")
# SQLAlchemy adds a driver, JDBC a prefix.
_SCHEME = re.compile(r"\s*(jdbc:)?postgres(ql)?(\+\w+)?:", re.IGNORECASE)
# fsspec chains protocols.
_URL = re.compile(r"[A-Za-z][\w+.-]*(?:://|::)")
#: A parameter, or the end of user and password in a URL without its beginning.
_LIKE_PARAMETER = re.compile(r"(?:^|\s)\w+\s*=|:[^/\s]*@")
_LIKE_PARTITION = re.compile(r"(\w+)=[^\s@]*(?:/[^\s@]*|\.\w+)")
