"""Types of command-line arguments."""

from __future__ import annotations

from typing import Any

import click


class Text(click.types.StringParamType):
    """Text in UTF-8. Unlike file names, it must not contain other bytes."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Refuses text that is not UTF-8."""
        text: str = super().convert(value, param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail(f"{text} is not UTF-8", param, ctx)
        return text


TEXT = Text()
