"""The command line, `walrow`.

Each error is one line on stderr. Exit codes:

- 0: success, and the capture is complete
- 1: an error in the data or a file
- 2: a usage error
- 3: the capture ends inside a frame or a transaction; all complete transactions were shown
  or written
- 4: the server ended the capture with an error; all complete transactions were shown or
  written
- 129: the terminal was closed
- 130: interrupted
- 141: the reader of the output closed it
- 143: terminated
"""

from __future__ import annotations

import os
import sys
import threading
from typing import NoReturn

from walrow.cli.terminal import say

__all__ = ["main"]


def main() -> NoReturn:
    """Runs the command line and exits."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError as error:
        say(f"walrow: the command line needs {error.name}: pip install 'walrow[cli]'")
        raise SystemExit(2) from None
    from walrow.cli import app

    code = app.run()
    if any(it.name.startswith("walrow-") for it in threading.enumerate()):
        # It waits for a disk or a server that stalls, and must not go on while Python ends, which
        # takes long on a busy machine.
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)
