"""The panics that libraries of deltalake print while it writes: the call has an error instead.

If a disk or a store refuses a file, a thread of theirs panics once more at its end. What it prints may
have values of rows, and goes to the descriptor of stderr.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def without_panics() -> Iterator[None]:
    """Leaves panics out of what this process writes to its stderr. Everything else passes."""
    with _LOCK:
        # Without a stderr, nothing is printed.
        with contextlib.suppress(OSError):
            _USED.append(_USED[0] if _USED else _Pipe())
        pipe = _USED[-1] if _USED else None
    try:
        yield
    finally:
        with _LOCK:
            if pipe is not None:
                _USED.remove(pipe)
                if pipe not in _USED:
                    pipe.end()


class _Pipe:
    """A pipe in the place of stderr, and the thread that empties it into stderr."""

    def __init__(self) -> None:
        self._stderr = os.dup(2)
        self._out, into = os.pipe()
        os.dup2(into, 2)
        os.close(into)
        # A child may hold the pipe longer than this process writes.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Gives stderr back."""
        os.dup2(self._stderr, 2)
        self._thread.join(_SECONDS)

    def _run(self) -> None:
        is_panic = False
        while chunk := os.read(self._out, 1 << 16):
            left = _PANIC.sub(b"", chunk)
            is_panic |= left != chunk
            if is_panic:
                left = _TRACE.sub(b"", left)
            with contextlib.suppress(OSError):
                os.write(self._stderr, left)
        os.close(self._out)
        os.close(self._stderr)


_LOCK = threading.Lock()
#: The pipe, once for each call that needs it.
_USED: list[_Pipe] = []
_SECONDS = 1
_PANIC = re.compile(rb"\n?thread '[^\n]* panicked at [^\n]*\n[^\n]*\n?")
_TRACE = re.compile(
    rb"^(?:stack backtrace:|note: (?:run with|Some details) [^\n]*| +(?:\d+:|at) [^\n]*)\n?",
    re.MULTILINE,
)
