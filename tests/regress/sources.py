"""The regression suite in PostgreSQL's sources, as Debian has them.

The archive is kept in `~/.cache/walrow` (or below `XDG_CACHE_HOME`), 22 MB. `WALROW_REGRESS_SOURCE` is
another URL or path of the same file: Debian removes a version some time after the next one.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import urllib.request
from pathlib import Path

NAME = "postgresql-18_18.6.orig.tar.bz2"
URL = f"http://deb.debian.org/debian/pool/main/p/postgresql-18/{NAME}"
SHA256 = "555610c24d53e4316da5b7d3fc25c279d96856d5e0e23ee308c328c5fa881d9f"
_FOLDERS = ("src/test/regress/", "src/pl/plpgsql/src/sql/")


def archive() -> Path:
    """The archive. It is downloaded the first time.

    Raises:
        OSError: It cannot be read, or is another file.
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    kept = Path(home) / "walrow" / NAME
    if not kept.exists():
        source = os.environ.get("WALROW_REGRESS_SOURCE", URL)
        if "://" not in source:
            source = Path(source).absolute().as_uri()
        with urllib.request.urlopen(source, timeout=300) as answer:  # noqa: S310
            contents = answer.read()
        if hashlib.sha256(contents).hexdigest() != SHA256:
            text = f"{source} is not {NAME} with the SHA-256 {SHA256}"
            raise OSError(text)
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_name(f"{NAME}.{os.getpid()}")
        part.write_bytes(contents)
        part.replace(kept)
    return kept


def unpack(into: Path) -> Path:
    """Unpacks the suite below a directory. Returns the directory of `src`.

    Raises:
        OSError: The archive cannot be had.
    """
    with tarfile.open(archive()) as file:
        for member in file:
            top, _, name = member.name.partition("/")
            if member.isfile() and name.startswith(_FOLDERS):
                file.extract(member, into, filter="data")
                root = into / top
    return root / "src"
