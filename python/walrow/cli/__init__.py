"""The command line, `walrow`.

Exit codes: 0 all is well, 1 the data or a file is at fault, 2 the call is, 130 and 143
when interrupted or terminated. Errors are one line on stderr.
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
