"""A registered reader of a log, which must have every change once."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import walrow
from campaign.looking import order
from campaign.steps import Fault, step

if TYPE_CHECKING:
    from campaign.day import Day


class Following:
    """The reader `r`, and the changes that it has taken.

    Attributes:
        is_registered: False once somebody has forgotten it.
        taken: How many changes of the archive it has taken.
        used: When it asked for a batch last.
    """

    def __init__(self, day: Day) -> None:
        """Registers it at the log's start."""
        log = walrow.Log(day.log)
        self.log = log
        self.first = sum(lsn <= log.start for lsn, _ in day.archive)
        self.taken = 0
        self.is_registered = True
        self.used = time.monotonic()
        self._follower = log.follow(reader="r", batch_rows=1, poll_interval=0.05)

    def close(self) -> None:
        """Ends it. Somebody may have forgotten it, or damaged the log."""
        with contextlib.suppress(walrow.Error):
            self._follower.close()

    @property
    def position(self) -> walrow.Lsn:
        """The position that it says."""
        return self._follower.position

    def take(self, day: Day, count: int) -> bool:
        """Takes changes that are there. False if it is refused, as somebody forgot it.

        Raises:
            Fault: One is missing, or another, or it was refused without need.
        """
        for _ in range(count):
            at = self.first + self.taken
            if at >= len(day.archive):
                break
            self.used = time.monotonic()
            try:
                (found,) = order([next(self._follower)])
            except walrow.Error as error:
                if self.is_registered:
                    text = f"a registered reader is refused: {error}"
                    raise Fault(text) from error
                day.follower = None
                return False
            if found != day.archive[at]:
                text = f"a reader has a gap: {found} comes, and not {day.archive[at]}"
                raise Fault(text)
            self.taken += 1
        return True

    def check_position(self, day: Day) -> None:
        """Its position must move with the segments."""
        if not self.taken:
            return
        last, _ = day.archive[self.first + self.taken - 1]
        ends = [it.end for it in walrow.Log(day.log).segments() if it.end <= last]
        if len(ends) > _MAY_BE_BEHIND and self.position < ends[-1 - _MAY_BE_BEHIND]:
            text = f"a reader has taken {walrow.Lsn(last)}, and its position is {self.position}"
            raise Fault(text)


@step()
def follow(day: Day) -> None:
    """A reader is registered, and follows."""
    if day.follower is None and not day.loses_changes:
        try:
            day.follower = Following(day)
        except walrow.Error:
            day.follower = None


@step(6)
def take(day: Day, count: int) -> None:
    """The reader takes some changes."""
    if day.follower is None:
        follow(day)
    if day.follower is not None:
        day.follower.take(day, 6 - count)


@step(6)
def position(day: Day, count: int) -> None:
    """The reader takes some changes. Then its position is not far behind."""
    take(day, count)
    if day.follower is not None:
        day.follower.check_position(day)


@step()
def forget(day: Day) -> None:
    """Somebody forgets the reader."""
    try:
        walrow.Log(day.log).forget("r")
    except walrow.Error:
        return
    if day.follower is not None:
        day.follower.is_registered = False


@step()
def slow_reader(day: Day) -> None:
    """The reader takes a change each second. Then readers that were not used lately are forgotten."""
    if day.follower is None:
        follow(day)
    if day.follower is None:
        return
    following = day.follower
    for _ in range(_SLOW_CHANGES):
        if not following.take(day, 1):
            return
        time.sleep(_FORGET_SECONDS / _SLOW_CHANGES + 0.1)
    try:
        done = walrow.Log(day.log).retain(age=0, forget_after=_FORGET_SECONDS)
    except walrow.Error:
        return
    used = time.monotonic() - following.used
    if "r" in done.forgotten:
        if used < _FORGET_SECONDS / 2 and following.is_registered:
            text = f"a reader that was used {used:.1f} s ago is forgotten after {_FORGET_SECONDS} s"
            raise Fault(text)
        following.is_registered = False


@step(2)
def reader_restarts(day: Day, is_known: int) -> None:
    """The reader's process ends, and a new one begins at its position, perhaps too late."""
    if day.follower is None:
        return
    if not is_known:
        forget(day)
        with contextlib.suppress(walrow.Error):
            log = walrow.Log(day.log)
            log.prune(log.end, force=True)
    following, day.follower = day.follower, None
    start, taken = following.position, following.taken
    try:
        rest = order(walrow.Log(day.log).read(start=start, batch_rows=1))
    except walrow.Error:
        rest = None
    if following.is_registered:
        following.close()
    missing = day.archive[following.first + taken :]
    if taken and rest is not None and not set(missing) <= set(rest):
        text = (
            f"a reader that begins again at {start} lacks "
            f"{len(set(missing) - set(rest))} of {len(missing)} changes"
        )
        raise Fault(text)
    if rest is None and following.is_registered:
        text = f"a registered reader cannot begin again at {start}"
        raise Fault(text)


#: The segments that a position may be behind the last change that was taken.
_MAY_BE_BEHIND = 2
_FORGET_SECONDS = 3.0
_SLOW_CHANGES = 3
