"""The directory of servers that were fetched, and whether they run here."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path


def cache_of_servers() -> Path:
    """The directory of all servers that were fetched."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(home) / "walrow" / "servers"
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def fits() -> bool:
    """Whether packages of programs can run here."""
    return sys.platform == "linux" and platform.machine() == "x86_64"
