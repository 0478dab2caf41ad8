"""The states of a receiver, of a log or of WAL: as JSON, or only the changes."""

from __future__ import annotations

import sys

from walrow._backup.wal.options import WalStatus
from walrow._receive.status import Status
from walrow.cli.terminal import print_json, printable, say


def print_state(status: Status | WalStatus) -> None:
    """Prints a state as one JSON object."""
    print_json(status.to_dict())
    sys.stdout.flush()


class Notes:
    """Prints a problem once, and its end."""

    def __init__(self) -> None:
        self._note: str | None = None

    def __call__(self, status: Status | WalStatus) -> None:
        """Is called with each state."""
        if self.has_news(status):
            words = "" if status.note is None else f": {printable(status.note)}"
            say(f"walrow: {status.state}{words}")

    def has_news(self, status: Status | WalStatus) -> bool:
        """Whether a state has another note, or ends a problem."""
        # Without a note, another attempt may have the same problem.
        if status.note == self._note or (
            status.note is None and status.state != "streaming"
        ):
            return False
        self._note = status.note
        return True
