"""A base backup in directories, which have other names until it is done."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn

from walrow._backup.base.disk import (
    make_directory,
    remove_trees,
    sync,
    sync_tree,
    write_file,
)
from walrow._backup.base.manifest import MANIFEST
from walrow._backup.base.options import BackupOptions
from walrow._backup.base.stream import begin
from walrow._options import takes
from walrow._postgres.connecting import closed_after_error, connect, parameters_of
from walrow._postgres.running import run
from walrow._results import Result, result
from walrow.errors import BackupError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    import psycopg

    from walrow._backup.base.archive import Archive
    from walrow._backup.base.stream import BackupStream
    from walrow._lsn import Lsn


@result
class BaseBackup(Result):
    """A base backup that is done: the result of `base_backup`.

    Attributes:
        path: Its directory.
        format: `tar` or `plain`.
        system_identifier: The server's.
        start_lsn: The LSN where recovery begins.
        start_timeline: The timeline of that.
        end_lsn: From here on, the backup is consistent.
        end_timeline: The timeline of that.
        files: The number of files.
        bytes: Their size.
        tablespaces: The archive or the directory of each tablespace, by its directory on the
            server.
        wal: `complete` if all WAL from the start to the end is in the backup. `missing` if
            it was left out: the backup cannot be recovered without it.
        parent: The manifest of the backup that an incremental one needs, or its directory.
    """

    path: Path
    format: Literal["tar", "plain"]
    system_identifier: str
    start_lsn: Lsn
    start_timeline: int
    end_lsn: Lsn
    end_timeline: int
    files: int
    bytes: int
    tablespaces: dict[str, Path]
    wal: Literal["complete", "missing"]
    parent: Path | None


class Place(NamedTuple):
    """A tablespace in format plain.

    Attributes:
        oid: Its OID.
        path: Its directory here.
    """

    oid: int
    path: Path


@takes(BackupOptions)
def base_backup(options: BackupOptions) -> BaseBackup:
    """Takes a base backup of a server into a directory.

    Until it is done, its directory is called `DIR.partial`. Then it has all files of its
    manifest, with their checksums, and the WAL that it needs, and is durable.

    ```python
    done = walrow.backup.base_backup("dbname=shop", to="backups/monday")
    print(done.start_lsn, done.end_lsn)
    ```

    Args:
        options: As in the signature.

    Raises:
        ReplicationError: The server refused it, or the connection broke.
        BackupError: It is not complete, or cannot be written.
        OptionError: Options contradict each other, or a directory is not empty.
    """
    _check_places([options.to])
    conn = connect(parameters_of(options.conninfo))
    with closed_after_error(conn, "the base backup cannot begin"):
        places: list[Place] = []
        if options.format == "plain":
            places = places_of(_locations(conn), options.tablespaces)
            _check_places(each.path for each in places)
        is_tar = options.format == "tar"
        with (
            _named_at_end([*(it.path for it in places), options.to]),
            begin(conn, options, tablespace_map=is_tar) as stream,
        ):
            return _write(stream, options, places)


def _write(
    stream: BackupStream, options: BackupOptions, places: Sequence[Place]
) -> BaseBackup:
    directory = _partial(options.to)
    roots = {f"pg_tblspc/{it.oid}/": it.path for it in places}
    own = {
        f"pg_tblspc/{it.oid}/": os.fsdecode(it.location or b"")
        for it in stream.tablespaces
        if it.oid is not None
    }
    if options.format == "plain" and roots.keys() != own.keys():
        text = "a tablespace was created or dropped meanwhile; start the backup again"
        raise BackupError(text, code="protocol")
    for archive in stream.archives():
        if options.format == "tar":
            write_file(directory / archive.name, archive.blocks())
        else:
            root = roots[archive.below] if archive.below else options.to
            _unpack(archive, _partial(root), roots)
    write_file(directory / MANIFEST, stream.manifest())
    if stream.end_lsn is None or stream.end_timeline is None:
        text = "the end of a backup is known after its manifest"
        raise RuntimeError(text)
    suffix = ".tar.gz" if options.compress else ".tar"
    return BaseBackup(
        path=options.to,
        format=options.format,
        system_identifier=stream.system_identifier,
        start_lsn=stream.start_lsn,
        start_timeline=stream.start_timeline,
        end_lsn=stream.end_lsn,
        end_timeline=stream.end_timeline,
        files=stream.contents.files,
        bytes=stream.contents.bytes,
        tablespaces={
            location: roots.get(below, options.to / f"{Path(below).name}{suffix}")
            for below, location in own.items()
        },
        wal="missing" if options.wal == "none" else "complete",
        parent=options.incremental,
    )


def _unpack(archive: Archive, root: Path, roots: Mapping[str, Path]) -> None:
    for member in archive.members():
        path = root / member.name
        if member.is_file:
            write_file(path, member.blocks())
        elif member.link is not None:
            path.symlink_to(roots[f"{member.path}/"])
        elif not path.is_dir():
            # Some directories come again, for their contents.
            make_directory(path)


@contextlib.contextmanager
def _named_at_end(paths: Sequence[Path]) -> Iterator[None]:
    """Makes directories with other names, gives them theirs, or removes them after an error.

    The tablespaces are named first: their names alone are no backup.
    """
    made: list[Path] = []
    try:
        for path in map(_partial, paths):
            make_directory(path)
            made.append(path)
        yield
        for path in made:
            sync_tree(path)
        for at, path in enumerate(paths):
            # An empty directory is replaced.
            made[at].rename(path)
            made[at] = path
            sync(str(path.parent))
    except BaseException as error:
        left = remove_trees(made)
        if left:
            names = ", ".join(map(str, left))
            error.add_note(f"remove what is left of the backup: {names}")
        if isinstance(error, OSError) and error.errno is not None:
            _fail(paths[-1], error)
        raise


def places_of(
    locations: Mapping[int, str], tablespaces: Mapping[str, str]
) -> list[Place]:
    """Where the tablespaces of a server come in format plain.

    Args:
        locations: Their directories on the server, by OID.
        tablespaces: The directories here, by the directory on the server.

    Raises:
        OptionError: A tablespace has no directory here, or there is no such tablespace.
    """
    inside = sorted(it for it in locations.values() if not Path(it).is_absolute())
    if inside:
        _refuse(
            f"the tablespaces {', '.join(inside)} are inside the data directory, as"
            " allow_in_place_tablespaces makes them: take the backup in format tar"
        )
    mapped = {os.path.normpath(old): new for old, new in tablespaces.items()}
    lacking = [it for it in locations.values() if os.path.normpath(it) not in mapped]
    if lacking:
        named = " ".join(f"--tablespace {it}=NEW" for it in lacking)
        _refuse(
            f"the server has tablespaces, and in format plain each needs a directory: {named}"
            " (tablespaces={old: new} in Python)"
        )
    unknown = mapped.keys() - {os.path.normpath(it) for it in locations.values()}
    if unknown:
        _refuse(f"the server has no tablespace at {', '.join(sorted(unknown))}")
    return [
        Place(oid, Path(os.path.normpath(mapped[os.path.normpath(location)])))
        for oid, location in locations.items()
    ]


def _locations(conn: psycopg.Connection[Any]) -> dict[int, str]:
    result = run(conn, _LOCATIONS, "cannot list the tablespaces")
    found = {}
    for row in range(result.ntuples):
        oid, location = result.get_value(row, 0), result.get_value(row, 1)
        if oid is not None and location is not None:
            found[int(oid)] = os.fsdecode(location)
    return found


def _check_places(paths: Iterable[Path]) -> None:
    """Refuses directories that are not empty, or that another backup writes."""
    for path in paths:
        if os.path.ismount(path):
            _refuse(
                f"{path} is a mount point, which cannot be replaced: name one below it"
            )
        if path.is_symlink():
            _refuse(f"{path} is a link: name the directory that it leads to")
        try:
            if any(path.iterdir()):
                _refuse(
                    f"{path} is not empty: a backup needs a new or an empty directory"
                )
        except FileNotFoundError:
            pass
        except NotADirectoryError:
            _refuse(f"{path} is not a directory")
        partial = _partial(path)
        if os.path.lexists(partial):
            text = (
                f"{partial} is of a backup that has not ended: if none is running, remove it"
                " and start again"
            )
            raise BackupError(text, code="store", path=str(partial))


def _partial(path: Path) -> Path:
    """The name of a directory until the backup is done."""
    return path.with_name(f"{path.name}.partial")


def _refuse(reason: str) -> NoReturn:
    raise OptionError(reason)


def _fail(path: Path, error: OSError) -> NoReturn:
    text = (
        f"{error.filename or path}: {error.strerror}; make room or fix it, and start the"
        " backup again"
    )
    failure = BackupError(text, code="store", path=str(path), errno=error.errno)
    for note in getattr(error, "__notes__", ()):
        failure.add_note(note)
    raise failure from error


_LOCATIONS = """
SELECT oid, pg_catalog.pg_tablespace_location(oid)
FROM pg_catalog.pg_tablespace
WHERE spcname NOT IN ('pg_default', 'pg_global')
"""
