"""A process that `walrow run` has started: it gets the file from its parent, and ends after it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import IO

from walrow._run.config import Loaded
from walrow._run.reading import parse
from walrow._workers import in_background
from walrow.errors import OptionError


def from_parent(path: Path) -> Loaded:
    """The file, as the parent has read it. When the parent is gone, this process ends.

    Args:
        path: The file's path.

    Raises:
        OptionError: The parent did not send it.
    """
    pipe = sys.stdin.buffer
    head = pipe.readline(_HEAD_BYTES)
    try:
        size = int(json.loads(head)["bytes"])
    except (ValueError, KeyError, TypeError):
        text = "--supervised is for `walrow run` only: leave it out"
        raise OptionError(text) from None
    text = pipe.read(size).decode()
    in_background("walrow-parent", lambda: _end_with(pipe))
    # The parent has checked who may read it.
    return parse(text, path, is_private=True)


def _end_with(pipe: IO[bytes]) -> None:
    """Ends the process when the parent is gone. At once, because the next parent may be there already.

    Nothing is lost: it is as after a crash.
    """
    while pipe.read(1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


_HEAD_BYTES = 1000
