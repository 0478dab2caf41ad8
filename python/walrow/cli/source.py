"""Input of commands: files, URLs or stdin, with progress on a terminal.

An output that is also an input is refused before anything is written.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import click

from walrow._core import Counts, Frames
from walrow._read.survey.items import Tables
from walrow._secrets import without_credentials
from walrow._sources.chunks import Chunks
from walrow.cli.terminal import printable, say
from walrow.errors import Error, ReplicationError, UnfinishedError

#: Paths, URLs, or `-` for stdin.
files = click.argument("files", nargs=-1, required=True, metavar="FILE...")

_QUIET = "walrow.quiet"


def _set_quiet(
    context: click.Context,
    _parameter: click.Parameter,
    value: bool,  # noqa: FBT001
) -> None:
    context.meta[_QUIET] = value


def is_quiet() -> bool:
    """Whether the current command has the option `--quiet`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_QUIET))


def note(text: str) -> None:
    """Writes a line to stderr that `--quiet` leaves out."""
    if not is_quiet():
        say(text)


quiet = click.option(
    "--quiet",
    "-q",
    is_flag=True,
    expose_value=False,
    callback=_set_quiet,
    help="No progress and no warnings. Errors are still printed.",
)


@contextlib.contextmanager
def opened(
    names: Sequence[str],
    *,
    unfinished: Literal["error", "ignore"] | None = None,
    show: bool = True,
    outputs: Iterable[str | Path] = ("-",),
    beside: Iterable[Path] = (),
    part: Mapping[str, Any] | None = None,
) -> Iterator[Blocks]:
    """Opens sources and yields their chunks for `walrow.Reader` and `Frames`.

    Args:
        names: Paths, directories, patterns, URLs or `-`. Together, they are one stream.
        unfinished: As in `walrow._sources.chunks.Chunks`.
        show: Whether to show progress, if stderr is a terminal.
        outputs: The outputs of the command: paths, or `-` for stdout.
        beside: Other files that the command reads.
        part: As in `walrow._sources.chunks.Chunks`.

    Raises:
        click.UsageError: An output is also an input, or an input does not exist.
    """
    # Unbuffered, so that available data is shown without delay.
    stdin: Any = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
    sources = [stdin if name == "-" else name for name in names]
    bar = _Bar()
    with contextlib.ExitStack() as stack:
        try:
            chunks = Blocks(
                sources,
                unfinished=unfinished,
                progress=bar.advance,
                part=part,
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            text = f"{error.filename} does not exist" if error.filename else str(error)
            raise click.UsageError(text) from None
        stack.callback(chunks.close)
        inputs: dict[str, Any] = {"stdin": stdin} if "-" in names else {}
        inputs |= _local_parts(chunks.files)
        _refuse_inputs(outputs, inputs | {str(path): path for path in beside})
        if show and not is_quiet() and sys.stderr.isatty():
            stack.enter_context(bar.shown(names, chunks))
        try:
            yield chunks
        except Error as error:
            if chunks.place is not None:
                error.add_note(chunks.place)
            raise


def _local_parts(files: Iterable[str]) -> dict[str, str]:
    """Paths, and paths that URLs may lead to, by the name that an error shows.

    Each link of a chain may be a path: `zip://a.wire::file:///b.zip`.
    """
    parts: dict[str, str] = {}
    for file in files:
        *links, last = file.split("::") if "://" in file else [file]
        parts |= {link: link.rpartition("://")[2] for link in links}
        parts[without_credentials(file)] = last.rpartition("://")[2]
    return parts


def _refuse_inputs(outputs: Iterable[str | Path], inputs: Mapping[str, Any]) -> None:
    """Compares inodes, because links and other spellings mean the same file."""
    read = {name: _regular(file) for name, file in inputs.items()}
    for output in outputs:
        written = _regular(sys.stdout if output == "-" else output)
        for name, found in read.items():
            if found and written and os.path.samestat(found, written):
                to = "stdout" if output == "-" else output
                raise click.UsageError(
                    f"{to} is the file {name}, which is also an input: write to another"
                )


def _regular(file: Any) -> os.stat_result | None:
    """The status of a regular file. None for pipes, devices and URLs."""
    try:
        found = os.stat(file if isinstance(file, str | Path) else file.fileno())  # noqa: PTH116
    except (OSError, AttributeError):
        # It does not exist yet, or has no descriptor.
        return None
    return found if stat.S_ISREG(found.st_mode) else None


class Blocks(Chunks):
    """The contents of the input in blocks.

    Attributes:
        size: The number of bytes so far, after decompression.
    """

    size = 0

    def __iter__(self) -> Iterator[Any]:
        for block in super().__iter__():
            self.size += len(block)
            yield block


class _Bar:
    """Progress in bytes, before decompression."""

    def __init__(self) -> None:
        self._tell: Callable[[int], None] | None = None

    def advance(self, count: int) -> None:
        """Adds the size of a block."""
        if self._tell is not None:
            self._tell(count)

    @contextlib.contextmanager
    def shown(self, names: Sequence[str], chunks: Chunks) -> Iterator[None]:
        """Shows the progress."""
        files, total = chunks.files, chunks.bytes_total
        label = " ".join(map(without_credentials, files if len(files) == 1 else names))
        with byte_progress() as progress:
            task = progress.add_task(printable(Path(label).name), total=total)
            self._tell = lambda count: progress.advance(task, count)
            yield


def byte_progress() -> Any:
    """A bar of bytes on stderr."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def check_end(seen: Counts | Frames | Tables, size: int) -> None:
    """Raises the error of a capture that is not complete."""
    if seen.server_error is not None:
        text = (
            f"the server ended the capture with an error, SQLSTATE {seen.server_error}"
        )
        raise ReplicationError(text, sqlstate=seen.server_error, offset=size)
    if seen.unfinished:
        text = "the capture ends inside a frame or a transaction"
        raise UnfinishedError(text, offset=size)
