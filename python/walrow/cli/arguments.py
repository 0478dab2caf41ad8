"""What commands are told on the command line."""

from __future__ import annotations

from typing import Any

import click


class Text(click.types.StringParamType):
    """Text. A file's name may hold bytes that are not UTF-8, but this may not."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Refuses what is not UTF-8."""
        text: str = super().convert(value, param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail(f"{text} is not UTF-8", param, ctx)
        return text


TEXT = Text()
