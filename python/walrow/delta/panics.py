"""The panics that libraries of deltalake print while it writes: the call has an error instead.

If a disk or a store refuses a file, a thread of theirs panics at its end. Its message may have values.
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
        # The process may have no stderr.
        with contextlib.suppress(OSError):
            _USED.append(_USED[0] if _USED else _Pipe())
        used = _USED[-1:]
    try:
        yield
    finally:
        with _LOCK:
            for pipe in used:
                _USED.remove(pipe)
                if not _USED:
                    os.dup2(pipe.stderr, 2)
                    pipe.join(_SECONDS)


class _Pipe(threading.Thread):
    """A pipe in the place of stderr, and the thread that empties it into stderr."""

    def __init__(self) -> None:
        # A child may hold the pipe longer than this process writes.
        super().__init__(daemon=True)
        self.stderr = os.dup(2)
        self._out, into = os.pipe()
        os.dup2(into, 2)
        os.close(into)
        self.start()

    def run(self) -> None:
        """Ends with the last writer."""
        is_panic = False
        while chunk := os.read(self._out, 1 << 16):
            left = _PANIC.sub(b"", chunk)
            is_panic |= left != chunk
            with contextlib.suppress(OSError):
                os.write(self.stderr, _TRACE.sub(b"", left) if is_panic else left)
        os.close(self._out)
        os.close(self.stderr)


_LOCK = threading.Lock()
#: The pipe, once for each call that needs it.
_USED: list[_Pipe] = []
_SECONDS = 1
_PANIC = re.compile(rb"\n?thread '[^\n]* panicked at [^\n]*\n[^\n]*\n?")
_TRACE = re.compile(
    rb"(?m)^(?:stack backtrace:|note: (?:run with|Some details) [^\n]*| +(?:\d+:|at) [^\n]*)\n?"
)
