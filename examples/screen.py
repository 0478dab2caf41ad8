"""The demo's progress: a spinner on a terminal, otherwise occasional lines."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINE_SECONDS = 2.0


class Screen:
    """Shows progress: a spinner on a terminal, otherwise occasional lines."""

    def __init__(self) -> None:
        """Checks whether the output is a terminal."""
        self.console = Console(highlight=False)
        if not self.console.is_terminal:
            self.console.width = 120

    @contextmanager
    def step(self, text: str) -> Iterator[Step]:
        """Shows progress until the block ends."""
        if self.console.is_terminal:
            with self.console.status(text) as status:
                step = Step(self.console, text, status.update)
                yield step
        else:
            self.console.print(f"... {text}")
            step = Step(self.console, text, None)
            yield step
        if step.result:
            self.console.print(f"[green]ok[/]  {step.result}")


class Step:
    """One step of the demo."""

    def __init__(self, console: Console, text: str, show: Any) -> None:
        """Begins the step."""
        self.result = ""
        self._console, self._text, self._show = console, text, show
        self._shown = time.monotonic()

    def update(self, detail: str) -> None:
        """Shows the current progress."""
        if self._show is not None:
            self._show(f"{self._text}: {detail}")
        elif time.monotonic() - self._shown > _LINE_SECONDS:
            self._shown = time.monotonic()
            self._console.print(f"    {detail}")

    def done(self, result: str) -> None:
        """Sets the result, which is shown when the block ends."""
        self.result = result
