"""Registered readers of a log: how far each of them is."""

from __future__ import annotations

import datetime as dt
from typing import Any, Self

from walrow._core import LogDirectory
from walrow._lsn import Lsn


class LogReader:
    """A registered reader: nothing after its position is removed from the log.

    `walrow.Log.register` returns one. As a context manager, it is marked as used at the
    end, and stays registered.

    >>> import tempfile, walrow
    >>> folder = tempfile.TemporaryDirectory()
    >>> sealed = walrow.seal("tests/data/18/rows.text.wire", log=folder.name)
    >>> log = walrow.Log(folder.name)
    >>> with log.register("nightly") as reader:
    ...     rows = sum(batch.num_rows for batch in log.read(start=reader.position))
    ...     reader.advance(log.end)
    >>> rows, reader.position == log.end
    (17, True)
    >>> reader.unregister()
    >>> folder.cleanup()
    """

    def __init__(self, log: LogDirectory, name: str, position: Lsn, used: int) -> None:
        self._log = log
        self._name = name
        self._position = position
        self._used = used

    def __repr__(self) -> str:
        return f"<walrow.log.LogReader {self._name!r} at {self._position}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def position(self) -> Lsn:
        """Up to where it has taken everything, as this process knows."""
        return self._position

    @property
    def used(self) -> dt.datetime:
        """When it was last used, as this process knows."""
        return _EPOCH + dt.timedelta(microseconds=self._used)

    def advance(self, position: Lsn | int | str) -> None:
        """Records that everything up to a position was taken. It survives a crash.

        Args:
            position: The LSN, such as `Reader.position` or `Log.end`. At its own position,
                it only counts as used.

        Raises:
            LogError: It is past this position already (`backwards`), the log does not reach
                it (`past_end`), or nobody is registered under the name (`no_reader`).
        """
        self._take(self._log.advance(self._name, position, rewind=False))

    def rewind(self, position: Lsn | int | str) -> None:
        """Moves it to any position. It reads transactions again, or skips some.

        Args:
            position: The LSN.

        Raises:
            LogError: What comes after it was removed (`pruned`), the log does not reach it
                (`past_end`), or nobody is registered under the name (`no_reader`).
        """
        self._take(self._log.advance(self._name, position, rewind=True))

    def unregister(self) -> None:
        """Forgets it: it holds nothing back any more.

        Raises:
            LogError: Nobody is registered under the name (`no_reader`).
        """
        self._log.forget(self._name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, exception: object, *_rest: object) -> None:
        if exception is None:
            self.advance(self._position)

    def _take(self, found: tuple[str, Lsn, int | None]) -> None:
        _, self._position, used = found
        self._used = used or 0


def reader_name(name: Any) -> str:
    """The name of a reader. The log checks its length and its characters."""
    if not isinstance(name, str):
        text = f"the name of a reader is a text, such as 'nightly', not {type(name).__name__}"
        raise TypeError(text)
    return name


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
