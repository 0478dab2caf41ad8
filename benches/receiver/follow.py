"""Follows a log, and writes the latency of each row in milliseconds, a line each: follow.py LOG SECONDS."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pyarrow as pa

import walrow


def main() -> None:
    """Follows the log for this time, and begins when it has rows."""
    log, seconds = Path(sys.argv[1]), float(sys.argv[2])
    until = time.monotonic() + seconds
    while time.monotonic() < until and not list(log.glob("*.wire.zst")):
        time.sleep(0.1)
    follower = walrow.Log(log).follow(poll_interval=POLL_SECONDS, table="narrow")
    for batch in follower:
        now = time.time()
        times = pa.record_batch(batch).column("_commit_timestamp")
        for time_of in times.cast(pa.int64()).to_pylist():
            print(round(now * 1e3 - time_of / 1e3, 3))
        if time.monotonic() >= until:
            break
    follower.close()


#: The time between two looks for new segments.
POLL_SECONDS = 0.005


if __name__ == "__main__":
    main()
