"""The kind of a machine, for the results of a benchmark."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

__all__ = ["machine"]


def machine() -> dict[str, Any]:
    """Its processor, cores, operating system and load. Not its name."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "os": f"{platform.system()} {platform.release()}",
        "load_average": os.getloadavg()[0],
    }
