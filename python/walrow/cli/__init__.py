"""The command line, `walrow`.

Exit codes: 0 for success, 1 for errors in the data or a file, 2 for usage errors, 130
if interrupted and 143 if terminated. Each error is one line on stderr.
"""

from __future__ import annotations

from walrow.cli.terminal import say

__all__ = ["main"]


def main() -> None:
    """Runs the command line and exits."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError as error:
        say(f"walrow: the command line needs {error.name}: pip install 'walrow[cli]'")
        raise SystemExit(2) from None
    from walrow.cli import app

    raise SystemExit(app.run())
