"""Connection strings and URLs: they may contain a password, which no message may show."""

from __future__ import annotations

import datetime as dt
import os
import re
from glob import has_magic, iglob


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
    return found is None or is_secret(found[1])


def shown(text: str) -> str:
    """A text for a message: without a connection string, or the credentials of a URL.

    >>> (
    ...     shown("https://me:secret@host/a.wire"),
    ...     shown("postgresql://me:secret@host/shop"),
    ... )
    ('https://host/a.wire', '(a connection string)')
    """
    if is_conninfo(text, or_url=True):
        return "(a connection string)"
    return without_credentials(text)


def brief(value: object) -> str:
    """A wrong value for a message: short, and without what may be a secret.

    >>> brief("soon"), brief(-1), brief({"password": "hidden"})
    ("'soon'", '-1', 'a value of type dict')
    >>> brief("postgresql://me:secret@host/shop"), brief(10**9999)
    ("'(a connection string)'", 'a number of 33,216 bits')
    """
    if isinstance(value, str):
        text = repr(shown(value))
    elif isinstance(value, int) and value.bit_length() > _SHORT_BITS:
        text = f"a number of {value.bit_length():,} bits"
    elif value is None or isinstance(value, int | float | dt.timedelta):
        text = str(value)
    else:
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}..."


def _exists(path: str) -> bool:
    """Whether a path, or a file of a pattern, exists."""
    if os.path.lexists(path):
        return True
    return has_magic(path) and next(iglob(path, recursive=True), None) is not None  # noqa: PTH207


def is_secret(keyword: str) -> bool:
    """Whether libpq does not show a parameter. So is every one if psycopg is not installed.

    >>> is_secret("sslpassword"), is_secret("dbname"), is_secret("dt")
    (True, False, False)
    """
    try:
        from psycopg.pq import Conninfo
    except ImportError:
        return True
    # `*` is a password, and `D` is for debugging: keys are among these.
    return any(
        it.keyword == keyword.encode() and it.dispchar for it in Conninfo.get_defaults()
    )


def reason_of(error: OSError) -> str:
    """The text of the system's error, or of the error of an object store's library.

    >>> reason_of(OSError("no answer from https://me:secret@host/a?sig=secret"))
    'no answer from https://host/a'
    """
    lines = str(error).splitlines() or [type(error).__name__]
    words = (error.strerror or lines[0]).split(" ")
    return " ".join(map(without_credentials, words))


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
#: A parameter, also of a URL that became a path, or the end of a URL's user and password.
_LIKE_PARAMETER = re.compile(r"(?:^|[\s?&])\w+\s*=|:[^/\s]*@")
#: How many letters of a text, and bits of a number, a message shows.
_SHORT = 60
_SHORT_BITS = 128
_LIKE_PARTITION = re.compile(r"(\w+)=[^\s@:?]*(?:/[^\s@:?]*|\.\w+)")
