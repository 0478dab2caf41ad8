"""From a commit to `Log.follow`: receive_latency.py [DIR] [--seconds N] [--rate N].

A client commits rows one by one, a receiver publishes them as soon as it may and merges the segments, and another
process follows the log. Each latency is the time from the server's time of the commit to the
Arrow batch that has the row. The first seconds do not count. The program prints measured/limit of each target;
`*` marks what misses its limit. The results are in target/bench/receive_latency.json. Needs Linux.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from receiver.loads import loaded_server
from receiver.machine import machine
from receiver.processes import peak_of

import walrow

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Milliseconds, by the part of all rows that were not later.
LIMITS = {0.5: 50.0, 0.99: 150.0}
#: The least time that `publish_after` takes, in seconds.
PUBLISH_AFTER = 0.01
#: From this part number on, a segment is merged from others.
MERGED = 1_000_000
#: Rows of the first seconds do not count: the processes begin.
WARM_SECONDS = 5.0


def main() -> None:
    """Prints the percentiles, and writes the results."""
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", nargs="?", help="as other benchmarks take it: unused")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=100.0, help="commits a second")
    given = parser.parse_args()
    with (
        loaded_server() as server,
        tempfile.TemporaryDirectory() as folder,
        psycopg.connect(server.dsn, autocommit=True) as connection,
    ):
        connection.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        found = measured(
            server.dsn, connection, Path(folder), given.seconds, given.rate
        )
    results = {"at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds")} | machine()
    path = root / "target" / "bench" / "receive_latency.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results | found, indent=2) + "\n")
    print(f"written to {path.relative_to(root)}")


def measured(
    dsn: str,
    connection: psycopg.Connection[Any],
    folder: Path,
    seconds: float,
    rate: float,
) -> dict[str, Any]:
    """Commits rows for so long while they are received and followed. Returns the results."""
    log, lines = folder / "log", folder / "latencies"
    # fmt: off
    receive = [
        sys.executable, "-m", "walrow", "receive", "--dsn", dsn, "--slot", "s",
        "--publication", "p", "--log", str(log), "--publish-after", str(PUBLISH_AFTER),
        "--compact",
    ]
    # fmt: on
    follow = [sys.executable, str(Path(__file__).parent / "receiver" / "follow.py")]
    with (
        (folder / "receiver").open("w") as said,
        subprocess.Popen(receive, stdout=said, stderr=said) as receiver,  # noqa: S603
        lines.open("w") as out,
        subprocess.Popen(  # noqa: S603
            [*follow, str(log), str(seconds)], stdout=out
        ) as follower,
    ):
        late = commit(connection, follower, rate)
        peak, cpu = peak_of(receiver.pid), cpu_of(receiver.pid)
        receiver.send_signal(signal.SIGTERM)
    latencies = [float(line) for line in lines.read_text().split()]
    counted = sorted(latencies[int(rate * WARM_SECONDS) :])
    segments = walrow.Log(log).segments()
    merged = sum(it.part >= MERGED for it in segments)
    print(
        f"{len(counted):,} rows, {late:,} of them committed late; receiver {cpu / seconds:.0%} of a core,"
        f" {peak / 2**20:.0f} MiB; {len(segments):,} segments, {merged:,} of them merged;"
        f" load of the machine {os.getloadavg()[0]:.1f}"
    )
    targets = {}
    for part, limit in LIMITS.items():
        value = percentile(counted, part)
        print(f"  {part:.0%}: {value:.0f}/{limit:g} ms{'*' if value > limit else ''}")
        targets[str(part)] = {
            "measured": value,
            "limit": limit,
            "reached": value <= limit,
        }
    return {
        "seconds": seconds,
        "rows": len(counted),
        "commits_a_second": rate,
        "milliseconds": {
            str(part): percentile(counted, part) for part in (0.5, 0.9, 0.99, 0.999, 1)
        },
        "targets": targets,
        "receiver": {"cpu_of_core": cpu / seconds, "peak_mib": peak / 2**20},
        "segments": {"all": len(segments), "merged": merged},
    }


def commit(
    connection: psycopg.Connection[Any], follower: subprocess.Popen[bytes], rate: float
) -> int:
    """Commits rows at random times until the follower ends. Returns how many were committed late."""
    draw = random.Random(1)  # noqa: S311
    due, late = time.monotonic(), 0
    while follower.poll() is None:
        due += draw.expovariate(rate)
        wait = due - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        late += wait < -LATE_SECONDS
        connection.execute("INSERT INTO narrow (n, at) VALUES (1, now())")
    return late


def percentile(values: Sequence[float], part: float) -> float:
    """The value that so large a part of all values does not exceed."""
    return values[min(len(values) - 1, int(len(values) * part))]


def cpu_of(pid: int) -> float:
    """The CPU seconds of a running process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


LATE_SECONDS = 0.05


if __name__ == "__main__":
    main()
