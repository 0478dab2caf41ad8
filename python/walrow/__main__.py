"""The command line: `python -m walrow`."""

from __future__ import annotations

from walrow.cli import main

main()
