"""Why a cost is not linear in time, or not constant in memory, by axis and way.

`make curves` marks what has no explanation here.
"""

from __future__ import annotations

TIME: dict[tuple[str, str], str] = {}
MEMORY: dict[tuple[str, str], str] = {}
