"""Input of commands: a file, a URL or stdin, with progress on a terminal.

An output that is also an input is refused before anything is written.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from walrow.cli.arguments import library_option
from walrow.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from walrow.typing import Framing

BLOCK = 8 << 20


def _readable(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """Refuses unreadable input before any work is done."""
    if value != "-" and "://" not in value:
        path = Path(value)
        if path.is_dir():
            text = f"{value} is a directory"
            raise click.BadParameter(text)
        if not path.exists():
            text = f"{value} does not exist"
            raise click.BadParameter(text)
    return value


#: A file's path, a URL, or `-` for stdin.
file = click.argument("file", callback=_readable)
framing = library_option(
    "framing",
    "wire: the bytes of the connection. copydata: FILE is one CopyData payload. "
    "message: FILE is one pgoutput message. recvlogical: FILE is from pg_recvlogical.",
)


@contextlib.contextmanager
def opened(
    name: str,
    framing: Framing = "wire",
    *,
    show: bool = True,
    outputs: Iterable[str | Path] = ("-",),
    beside: Iterable[Path] = (),
) -> Iterator[Blocks]:
    """Opens a source and yields its chunks for `walrow.read` and `walrow.messages`.

    Args:
        name: The path, URL or `-`.
        framing: With `copydata` and `message`, the file is one chunk.
        show: Whether to show progress, if stderr is a terminal.
        outputs: The outputs of the command: paths, or `-` for stdout.
        beside: Other files that the command reads.

    Raises:
        click.UsageError: An output is also an input.
    """
    with contextlib.ExitStack() as stack:
        if name == "-":
            # Unbuffered, so that available data is shown without delay.
            stream: Any = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
            size = None
        elif "://" in name:
            stream = stack.enter_context(_url(name))
            size = None
        else:
            stream = stack.enter_context(Path(name).open("rb", buffering=0))
            size = Path(name).stat().st_size
        inputs = {"stdin" if name == "-" else name: stream}
        inputs |= {path: path for path in _local_parts(name)}
        _refuse_inputs(outputs, inputs | {str(path): path for path in beside})
        tell = None
        if show and sys.stderr.isatty():
            tell = stack.enter_context(_progress(name, size))
        yield Blocks(stream, -1 if framing in {"copydata", "message"} else BLOCK, tell)


def _local_parts(name: str) -> list[str]:
    """The paths that a URL may lead to, each link of a chain: `zip://a.wire::file:///b.zip`."""
    if "://" not in name:
        return []
    return [link.rpartition("://")[2] for link in name.split("::")]


def _refuse_inputs(outputs: Iterable[str | Path], inputs: Mapping[str, Any]) -> None:
    """Compares inodes, because links and other spellings mean the same file."""
    read = {name: _regular(file) for name, file in inputs.items()}
    for output in outputs:
        written = _regular(sys.stdout if output == "-" else output)
        for name, found in read.items():
            if found and written and os.path.samestat(found, written):
                to = "stdout" if output == "-" else output
                text = (
                    f"{to} is the file {name}, which is also an input: write to another"
                )
                raise click.UsageError(text)


def _regular(file: Any) -> os.stat_result | None:
    """The status of a regular file. None for pipes, devices and URLs."""
    try:
        found = os.stat(file if isinstance(file, str | Path) else file.fileno())  # noqa: PTH116
    except (OSError, AttributeError):
        # It does not exist yet, or has no descriptor.
        return None
    return found if stat.S_ISREG(found.st_mode) else None


class Blocks:
    """The contents of a file in blocks.

    Attributes:
        size: The number of bytes read so far.
    """

    def __init__(
        self, file: Any, block: int, tell: Callable[[int], None] | None
    ) -> None:
        self.size = 0
        self._file = file
        self._block = block
        self._tell = tell

    def __iter__(self) -> Iterator[bytes]:
        """Reads the blocks. With a block size of -1, the whole file is one block."""
        while block := self._file.read(self._block):
            self.size += len(block)
            if self._tell is not None:
                self._tell(len(block))
            yield block


def _url(name: str) -> Any:
    try:
        import fsspec
    except ImportError:
        text = f"{name}: URLs need fsspec: pip install fsspec"
        raise click.UsageError(text) from None
    try:
        return fsspec.open(name, "rb")
    except (ValueError, ImportError) as error:
        # The protocol is unknown, or its package is not installed.
        text = f"{name}: {error}"
        raise click.UsageError(text) from error


@contextlib.contextmanager
def _progress(name: str, size: int | None) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task(printable(Path(name).name), total=size)
        yield lambda count: progress.advance(task, count)
