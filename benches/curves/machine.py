"""The kind of machine, without its name."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path


def describe() -> dict[str, str | int | float]:
    """The date, the processor, its cores, the system, and how busy it is."""
    found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    release = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": found.group(1) if found else platform.machine(),
        "cores": os.cpu_count() or 1,
        "system": release,
        "load": round(os.getloadavg()[0], 1),
    }
