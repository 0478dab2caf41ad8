"""`python -m walrow.cli`."""

from __future__ import annotations

from walrow.cli import main

main()
