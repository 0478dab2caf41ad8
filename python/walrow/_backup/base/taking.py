"""A base backup in directories, which have other names until it is done."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from walrow._backup.base.archive import Archive
from walrow._backup.base.manifest import MANIFEST
from walrow._backup.base.options import BackupOptions, refuse
from walrow._backup.base.stream import BackupStream
from walrow._backup.store import DIRECTORY_MODE, named, sync, write_file
from walrow._lsn import Lsn
from walrow._options import takes
from walrow._postgres.connecting import connect, parameters_of
from walrow._results import Result, result
from walrow.errors import BackupError


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
        notices: The server's notices and warnings.
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
    notices: tuple[str, ...] = ()


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
    is_tar = options.format == "tar"
    with BackupStream(conn, options, with_links=not is_tar) as stream:
        locations = {
            it.oid: os.fsdecode(it.location or b"")
            for it in stream.tablespaces
            if it.oid is not None
        }
        places = {} if is_tar else places_of(locations, options.tablespaces)
        _check_places(places.values())
        with _named_at_end([*places.values(), options.to]):
            directory = _partial(options.to)
            roots = {f"pg_tblspc/{oid}/": path for oid, path in places.items()}
            for archive in stream.archives():
                if is_tar:
                    write_file(directory / archive.name, archive.blocks())
                else:
                    root = roots[archive.below] if archive.below else options.to
                    _unpack(archive, _partial(root), roots)
            write_file(directory / MANIFEST, stream.manifest())
    if stream.end_lsn is None or stream.end_timeline is None:
        raise RuntimeError("the end of a backup is known after its manifest")
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
            location: places.get(oid, options.to / f"{oid}{suffix}")
            for oid, location in locations.items()
        },
        wal="missing" if options.wal == "none" else "complete",
        parent=options.incremental,
        notices=tuple(stream.notices),
    )


def _unpack(archive: Archive, root: Path, roots: Mapping[str, Path]) -> None:
    for member in archive.members():
        path = root / member.name
        if member.is_file:
            write_file(path, member.blocks())
        elif member.link is not None:
            path.symlink_to(roots[f"{member.path}/"])
        elif not path.is_dir():
            # The server repeats some directories before their contents.
            path.mkdir(mode=DIRECTORY_MODE)


@contextlib.contextmanager
def _named_at_end(paths: Sequence[Path]) -> Iterator[None]:
    """Makes directories under temporary names. Renames them at the end, or removes them on error.

    Tablespaces are renamed first, because they are not a backup without the data directory.
    """
    made: list[Path] = []
    try:
        with named(paths[-1], "make room or fix it, and start the backup again"):
            for path in map(_partial, paths):
                path.mkdir(mode=DIRECTORY_MODE)
                made.append(path)
            yield
            for path in made:
                _sync_tree(path)
            for at, path in enumerate(paths):
                # An empty directory is replaced.
                made[at].rename(path)
                made[at] = path
                sync(path.parent)
    except BaseException as error:
        for path in made:
            with contextlib.suppress(OSError):
                shutil.rmtree(path)
        if left := ", ".join(str(it) for it in made if os.path.lexists(it)):
            error.add_note(f"remove what is left of the backup: {left}")
        raise


def places_of(
    locations: Mapping[int, str], tablespaces: Mapping[str, str]
) -> dict[int, Path]:
    """The new directories of tablespaces by OID, from those on the server, and the option."""
    own = {oid: os.path.normpath(it) for oid, it in locations.items()}
    inside = sorted(it for it in own.values() if not Path(it).is_absolute())
    if inside:
        refuse(
            f"the tablespaces {', '.join(inside)} are inside the data directory, as"
            " allow_in_place_tablespaces makes them: take the backup in format tar"
        )
    mapped = {
        os.path.normpath(old): Path(os.path.normpath(new))
        for old, new in tablespaces.items()
    }
    lacking = [it for it in own.values() if it not in mapped]
    if lacking:
        named = " ".join(f"--tablespace {it}=NEW" for it in lacking)
        refuse(
            f"the server has tablespaces, and in format plain each needs a directory: {named}"
            " (tablespaces={old: new} in Python)"
        )
    unknown = mapped.keys() - set(own.values())
    if unknown:
        refuse(f"the server has no tablespace at {', '.join(sorted(unknown))}")
    return {oid: mapped[location] for oid, location in own.items()}


def _check_places(paths: Iterable[Path]) -> None:
    """Refuses directories that are not empty, or that another backup writes."""
    for path in paths:
        if os.path.ismount(path):
            refuse(
                f"{path} is a mount point, which cannot be replaced: name one below it"
            )
        if path.is_symlink():
            refuse(f"{path} is a link: name the directory that it leads to")
        if path.exists() and not path.is_dir():
            refuse(f"{path} is not a directory")
        if path.exists() and any(path.iterdir()):
            refuse(f"{path} is not empty: a backup needs a new or an empty directory")
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


def _sync_tree(path: Path) -> None:
    """Syncs all files below a directory, and then all names.

    A file that was written long ago costs little. Several threads at once cost the file
    system fewer commits: for a thousand new files 0.3 seconds instead of 2.
    """
    with ThreadPoolExecutor(_THREADS) as executor:
        for place, _, names in os.walk(path, topdown=False, onerror=_raise):
            files = [it for it in map(Path(place).joinpath, names) if it.is_file()]
            # An error of a thread is raised here.
            for _ in executor.map(sync, files):
                pass
            sync(place)


def _raise(error: OSError) -> None:
    raise error


_THREADS = 16
