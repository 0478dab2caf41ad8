"""The programs of a server of one major version, and what `pg_controldata` says of a data directory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from walrow.errors import BackupError, OptionError, Remedy

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ENVIRONMENT",
    "Account",
    "Control",
    "Programs",
    "account_of",
    "find_programs",
    "parse_control",
    "parse_version",
    "read_control",
]

#: Nothing of the caller's, such as PGDATA, reaches a program, and messages are in English.
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


class Account(NamedTuple):
    """The user as whom a server runs.

    Attributes:
        name: Its name.
        user: Its ID.
        group: The ID of its group.
    """

    name: str
    user: int
    group: int


class Programs(NamedTuple):
    """The programs of a server.

    Attributes:
        directory: Their directory.
        version: Their version, such as `18.4`.
    """

    directory: Path
    version: str


class Control(NamedTuple):
    """Facts about a data directory, from its global/pg_control.

    Attributes:
        system_identifier: The server's.
        timeline: The timeline of the last checkpoint.
        settings: Settings that a standby must not have a lower value of.
    """

    system_identifier: str
    timeline: int
    settings: dict[str, int]


def account_of(run_as: str | None) -> Account | None:
    """The user as whom the server runs. None if it is the caller.

    Raises:
        BackupError: The caller is root, as whom PostgreSQL does not run.
        OptionError: There is no such user, or the caller may not run programs as it.
    """
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    if run_as is None:
        if not is_root:
            return None
        text = "PostgreSQL does not run as root"
        raise BackupError(
            text,
            code="user",
            advice="; name a user without privileges with ",
            remedies=(Remedy("run_as", value="postgres"),),
        )
    import pwd

    try:
        found = pwd.getpwnam(run_as)
    except KeyError:
        text = f"there is no user {run_as}"
        raise OptionError(text) from None
    if found.pw_uid == 0:
        text = "PostgreSQL does not run as root: run_as must be another user"
        raise OptionError(text)
    if not is_root:
        if found.pw_uid == os.geteuid():
            return None
        text = f"only root can run a server as {run_as}"
        raise OptionError(text)
    return Account(run_as, found.pw_uid, found.pw_gid)


def find_programs(
    major: str, bin_dir: str | os.PathLike[str] | None, account: Account | None
) -> Programs:
    """Finds the programs of a major version.

    Args:
        major: The major version, as in PG_VERSION.
        bin_dir: Their directory. Default: where postgres is in PATH, or as pg_config says.
        account: The user who must be able to run them.

    Raises:
        BackupError: They are missing or of other versions, or the user cannot run them.
    """
    places = [Path(bin_dir)] if bin_dir is not None else list(_places())
    others = []
    for place in places:
        version = _version_of(place / "postgres", account)
        if version is None:
            continue
        if version.partition(".")[0] == major:
            return Programs(place, version)
        others.append(f"{version} in {place}")
    user = "" if account is None else f" that {account.name} can run"
    where = f"in {bin_dir}" if bin_dir is not None else "in PATH, or where pg_config is"
    found = f"only {', '.join(others)}" if others else f"no server {where}{user}"
    text = f"the backup is of PostgreSQL {major}, and there is {found}"
    raise BackupError(
        text,
        code="programs",
        advice="; name the directory of its programs with ",
        remedies=(Remedy("bin_dir", code=f'"/usr/lib/postgresql/{major}/bin"'),),
    )


def _places() -> Iterable[Path]:
    if postgres := shutil.which("postgres"):
        yield Path(postgres).resolve().parent
    if pg_config := shutil.which("pg_config"):
        command = [pg_config, "--bindir"]
        done = subprocess.run(command, capture_output=True, check=False, text=True)  # noqa: S603
        if done.returncode == 0:
            yield Path(done.stdout.strip())


def _version_of(postgres: Path, account: Account | None) -> str | None:
    """The version of a program. None if it cannot be run."""
    try:
        return parse_version(run_program([postgres, "--version"], account))
    except (OSError, subprocess.SubprocessError):
        return None


def parse_version(text: str) -> str | None:
    """The version in the output of `postgres --version`.

    >>> parse_version("postgres (PostgreSQL) 18.4 (Debian 18.4-1)"), parse_version("?")
    ('18.4', None)
    >>> parse_version("postgres (PostgreSQL) 19beta1")
    '19beta1'
    """
    found = re.search(r"\(PostgreSQL\) (\d[\w.]*)", text)
    return None if found is None else found[1]


def run_program(command: list[str | Path], account: Account | None) -> str:
    """The output of a program that succeeds.

    Raises:
        OSError: It cannot be run.
        subprocess.CalledProcessError: It failed.
    """
    done = subprocess.run(  # noqa: S603
        command,
        capture_output=True,
        check=True,
        cwd="/",
        env=ENVIRONMENT,
        text=True,
        errors="replace",
        **identity(account),  # type: ignore[call-overload]
    )
    return str(done.stdout)


def identity(account: Account | None) -> dict[str, object]:
    """The arguments of subprocess that run a program as a user."""
    if account is None:
        return {}
    return {"user": account.user, "group": account.group, "extra_groups": []}


def read_control(programs: Programs, data: Path) -> Control:
    """Reads pg_control.

    Raises:
        BackupError: pg_controldata is missing, or cannot read it.
    """
    try:
        text = run_program([programs.directory / "pg_controldata", data], None)
        return parse_control(text)
    except (OSError, subprocess.SubprocessError, ValueError):
        text = (
            f"pg_controldata of {programs.directory} cannot read the copy of the backup: "
            "global/pg_control is damaged, or the program is missing"
        )
        raise BackupError(text, code="damaged", path=str(data)) from None


def parse_control(text: str) -> Control:
    """Reads the output of pg_controldata.

    Raises:
        ValueError: Something is missing in it.
    """
    lines = [line.partition(":") for line in text.splitlines()]
    values = {name.strip(): value.strip() for name, _, value in lines}
    try:
        return Control(
            str(int(values["Database system identifier"])),
            int(values["Latest checkpoint's TimeLineID"]),
            {setting: int(values[name]) for setting, name in _SETTINGS.items()},
        )
    except KeyError as error:
        text = f"pg_controldata does not say {error}"
        raise ValueError(text) from None


_SETTINGS = {
    "max_connections": "max_connections setting",
    "max_worker_processes": "max_worker_processes setting",
    "max_wal_senders": "max_wal_senders setting",
    "max_prepared_transactions": "max_prepared_xacts setting",
    "max_locks_per_transaction": "max_locks_per_xact setting",
}
