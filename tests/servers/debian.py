"""Programs from Debian's packages: PostgreSQL 19rc1, until Maven Central has version 19, and PgBouncer.

The packages are fetched from the mirror that apt is set to, compared with the SHA-256 of its index,
and unpacked with the C library that they need: no root, nothing installed. They stay in
`~/.cache/walrow/servers` (or below `XDG_CACHE_HOME`), about 110 MB.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from servers.cache import cache_of_servers, fits
from servers.embedded import ServerError

VERSIONS = {19: "experimental"}
"""The suite of each major version's packages."""


def debian_programs(major: int) -> Path:
    """Returns the directory of one major version's programs; fetches it the first time.

    Raises:
        ServerError: The version does not exist, or cannot be fetched.
    """
    if major not in VERSIONS:
        msg = (
            f"no server of version {major} in Debian's packages, only: {list(VERSIONS)}"
        )
        raise ServerError(msg)
    wanted = {VERSIONS[major]: _SERVER.format(major), "sid": _LIBRARIES}
    programs = Path("usr/lib/postgresql", str(major), "bin")

    def make_scripts(root: Path) -> None:
        _make_scripts(root, root / programs)

    return unpacked(f"debian-{major}", wanted, make_scripts) / programs


def unpacked(
    name: str,
    wanted: Mapping[str, str],
    change: Callable[[Path], object] = lambda _: None,
) -> Path:
    """Returns the directory of packages, by their suite; unpacks them the first time.

    Raises:
        ServerError: They cannot be fetched.
    """
    if not fits() or shutil.which("dpkg-deb") is None:
        msg = "Debian's packages are unpacked on Linux on x86-64 only, with dpkg-deb"
        raise ServerError(msg)
    cache = cache_of_servers()
    target = cache / name
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=cache) as place:
            root = Path(place, "root")
            try:
                _unpack(wanted, root)
            except (OSError, subprocess.SubprocessError, KeyError) as error:
                msg = f"{name} cannot be fetched from Debian's mirror: {error}"
                raise ServerError(msg) from error
            change(root)
            try:
                root.rename(target)
            except OSError:
                # Another process was faster.
                if not target.exists():
                    raise
    return target


def _unpack(wanted: Mapping[str, str], root: Path) -> None:
    root.mkdir()
    mirror = _mirror()
    for suite, names in wanted.items():
        index = _index(mirror, suite)
        for name in names.split():
            package = index[name]
            found = _read(f"{mirror}/{package['Filename']}")
            if hashlib.sha256(found).hexdigest() != package["SHA256"]:
                msg = f"{name} is not what the index of {suite} says"
                raise OSError(msg)
            with tempfile.NamedTemporaryFile(suffix=".deb") as file:
                file.write(found)
                file.flush()
                subprocess.run(["dpkg-deb", "-x", file.name, root], check=True)  # noqa: S603, S607


def _mirror() -> str:
    """The first mirror of apt that has more than security updates."""
    for path in sorted(Path("/etc/apt").rglob("*.sources")):
        for line in path.read_text().splitlines():
            key, _, value = line.partition(":")
            if key == "URIs" and "security" not in value:
                return value.split()[0].rstrip("/")
    return "http://deb.debian.org/debian"


def _index(mirror: str, suite: str) -> dict[str, dict[str, str]]:
    found = _read(f"{mirror}/dists/{suite}/main/binary-amd64/Packages.xz")
    entries = lzma.decompress(found).decode().split("\n\n")
    fields = [dict(re.findall(_FIELD, entry, re.MULTILINE)) for entry in entries]
    return {each["Package"]: each for each in fields if each}


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=_FETCH_SECONDS) as answer:  # noqa: S310
        return bytes(answer.read())


def _make_scripts(root: Path, programs: Path) -> None:
    """Replaces the programs by scripts that start them with the packages' own C library.

    A server finds its files relative to its program, so the directories keep their names.
    """
    real = programs.rename(programs.with_name("real"))
    programs.mkdir()
    loader = next(root.rglob("ld-linux-x86-64.so.2")).relative_to(root)
    for program in real.iterdir():
        script = programs / program.name
        script.write_text(_SCRIPT.format(loader=loader, name=program.name))
        script.chmod(0o755)


_SCRIPT = """\
#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
root=${{here%/usr/lib/postgresql/*}}
exec "$root/{loader}" --library-path "$root/usr/lib/x86_64-linux-gnu" --argv0 "$here/{name}" \\
    "$here/../real/{name}" "$@"
"""
_SERVER = "postgresql-{0} postgresql-client-{0} libpq5"
_LIBRARIES = """
libc6 libssl3t64 libicu78 liblz4-1 libnuma1 libpam0g libldap2 liburing2 libxml2-16 libzstd1 zlib1g
libgssapi-krb5-2 libkrb5-3 libk5crypto3 libcom-err2 libkrb5support0 libkeyutils1 libsystemd0
libaudit1 libcap-ng0 libsasl2-2 libstdc++6 libgcc-s1 libxxhash0 libselinux1 libpcre2-8-0 libuuid1
libreadline8t64 libtinfo6 libxslt1.1 tzdata
"""
_FIELD = r"^(Package|Filename|SHA256): (.*)$"
_FETCH_SECONDS = 120
