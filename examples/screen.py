"""The demo's progress: a spinner on a terminal, otherwise a line for each step."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterator


class Screen:
    """Shows progress: a spinner on a terminal, otherwise a line for each step."""

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
                step = Step(text, status.update)
                yield step
        else:
            self.console.print(f"... {text}")
            step = Step(text, None)
            yield step
        if step.result:
            self.console.print(f"[green]ok[/]  {step.result}")


class Step:
    """One step of the demo."""

    def __init__(self, text: str, show: Any) -> None:
        """Begins the step."""
        self.result = ""
        self._text, self._show = text, show

    @property
    def is_shown(self) -> bool:
        """Whether progress is shown."""
        return self._show is not None

    def update(self, detail: str) -> None:
        """Shows the current progress."""
        if self.is_shown:
            self._show(f"{self._text}: {detail}")

    def done(self, result: str) -> None:
        """Sets the result, which is shown when the block ends."""
        self.result = result
