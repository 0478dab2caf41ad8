"""Steps that wait for a server, and a stop that does not wait for them."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from walrow._workers import in_background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Left", "Step"]

T = TypeVar("T")


class Step(Generic[T]):
    """Runs a function in another thread, which can be left behind.

    libpq connects and waits for a result without an end that another thread can set.
    """

    def __init__(
        self,
        do: Callable[[Step[T]], T],
        undo: Callable[[T], None],
        wake: Callable[[], None],
    ) -> None:
        """Starts the thread.

        Args:
            do: The function.
            undo: Is called with the result if nobody waits for it any more.
            wake: Is called at the end.
        """
        self._do = do
        self._undo = undo
        self._wake = wake
        self._lock = threading.Lock()
        self._is_left = False
        self._leaving = threading.Event()
        self._is_done = False
        self._results: list[T] = []
        self._error: BaseException | None = None
        in_background("walrow-connect", self._run)

    @property
    def is_done(self) -> bool:
        """Whether the function has returned, or raised."""
        return self._is_done

    def result(self) -> T:
        """The result of the function, or its error."""
        if self._error is not None:
            raise self._error
        return self._results[0]

    def leave(self) -> None:
        """Waits no longer. From now on, `unless_left` raises."""
        with self._lock:
            self._is_left = True
            results, self._results = self._results, []
        self._leaving.set()
        for each in results:
            self._undo(each)

    @contextlib.contextmanager
    def unless_left(self) -> Iterator[None]:
        """Does something that must not be done after `leave`.

        It must be short, because `leave` waits for it. So do what may take long before it, store the
        result in it, and undo that if it raises.

        Raises:
            Left: Nobody waits any more.
        """
        with self._lock:
            if self._is_left:
                raise Left
            yield

    def check(self) -> None:
        """Goes on only if somebody still waits.

        Raises:
            Left: Nobody waits any more.
        """
        with self.unless_left():
            pass

    def pause(self, seconds: float) -> None:
        """Waits, but only as long as somebody waits for the step.

        Raises:
            Left: Nobody waits any more.
        """
        self._leaving.wait(seconds)
        self.check()

    def _run(self) -> None:
        try:
            result = self._do(self)
        except BaseException as error:
            self._error = error
        else:
            with self._lock:
                is_left = self._is_left
                if not is_left:
                    self._results.append(result)
            if is_left:
                self._undo(result)
        self._is_done = True
        self._wake()


class Left(Exception):  # noqa: N818
    """Nobody waits for a step any more."""
