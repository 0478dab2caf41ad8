"""Looks into the WAL of a recovery for what would leave the scratch directory.

A record that creates a tablespace names a directory of the server's. A recovery uses it, wherever it
runs: beside a live server, it would write into that server's tablespace.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

from walrow._backup.programs import run_program
from walrow._backup.wal_names import PARTIAL, is_segment
from walrow.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from walrow._backup.base_manifest import WalRange
    from walrow._backup.programs import Programs

__all__ = ["created_tablespaces", "refuse_new_tablespaces"]


def refuse_new_tablespaces(
    programs: Programs,
    ranges: Sequence[WalRange],
    places: Sequence[Path],
    scratch: Path,
) -> None:
    """Refuses WAL that creates a tablespace. Without pg_waldump, it cannot be looked into.

    Args:
        programs: The programs.
        ranges: The WAL that is replayed.
        places: The directories of its segments.
        scratch: A directory for links to them.

    Raises:
        BackupError: A tablespace is created.
        OSError: A directory cannot be read.
    """
    joined = scratch / "wal"
    joined.mkdir(mode=0o700)
    for place in places:
        for path in place.iterdir():
            link = joined / path.name.removesuffix(PARTIAL)
            if is_segment(link.name) and not link.is_symlink():
                link.symlink_to(path)
    for each in ranges:
        command: list[str | Path] = [
            *(programs.directory / "pg_waldump", "--rmgr=Tablespace", "--path", joined),
            *("--timeline", str(each.timeline)),
            *("--start", str(each.start), "--end", str(each.end)),
        ]
        try:
            output = run_program(command, None)
        except subprocess.CalledProcessError as failed:
            # It fails where the WAL ends. Then a recovery would end, too.
            output = str(failed.stdout)
        except OSError:
            return
        if places_ := created_tablespaces(output):
            text = (
                "a tablespace was created while the backup was taken, in "
                f"{', '.join(places_)}: a recovery would write there; take another backup"
            )
            raise BackupError(text, code="recovery", problems=tuple(places_))


def created_tablespaces(text: str) -> list[str]:
    r"""The directories of new tablespaces in the output of pg_waldump, except in-place ones.

    >>> created_tablespaces(
    ...     'rmgr: Tablespace … desc: CREATE 16400 "/x"\n… desc: CREATE 16401 ""\n'
    ... )
    ['/x']
    """
    return [
        it for it in re.findall(r'desc: CREATE \d+ "(.*)"$', text, re.MULTILINE) if it
    ]
