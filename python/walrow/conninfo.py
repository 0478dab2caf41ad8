"""Connection strings and URLs: they may contain a password, which no message may show."""

from __future__ import annotations

import re

__all__ = ["is_conninfo", "without_credentials"]


def is_conninfo(text: str) -> bool:
    """Whether a text is a connection string of PostgreSQL, not a path or a URL of a file.

    >>> is_conninfo("postgresql://admin@db/shop"), is_conninfo("dbname=shop user=me")
    (True, True)
    >>> is_conninfo("s3://bucket/shop.wire"), is_conninfo("dbname=shop.wire")
    (False, False)
    """
    if _SCHEME.match(text):
        return True
    words = _PARAMETER.findall(text)
    if not words or not {word.lower() for word in words} <= _KEYWORDS:
        return False
    # `dbname=shop.wire` may be a file, or a directory of a partitioned table.
    return len(words) > 1 or not _FILE.search(text)


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
_PARAMETER = re.compile(r"(?:^|\s)(\w+)\s*=")
_FILE = re.compile(r"/|\.\w+$")
_KEYWORDS = {
    "application_name",
    "client_encoding",
    "connect_timeout",
    "dbname",
    "gssencmode",
    "host",
    "hostaddr",
    "options",
    "passfile",
    "password",
    "port",
    "replication",
    "require_auth",
    "service",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "target_session_attrs",
    "user",
}
