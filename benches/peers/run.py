"""Measures walrow beside other parsers: run.py FOLDER [--all] [--rounds N] [--only NAME].

Builds the harnesses, compares their counts of each capture of `CAPTURES` in the folder, or with
`--all` of each `*.wire`, and then has them parse it in turns. Writes target/bench/peers.json; peer_page.py makes
docs/speed/peers.md of it. Ends with 1 if two parsers count differently.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import sys
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import peer_table
import walrow
from peer_harness import Harness, HarnessError
from peer_rounds import CountsDifferError, Measured, compare_counts, measure
from peer_table import CAPTURES, COUNTED, PEERS, REFERENCE, ROOT, Feature, Peer

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = ROOT / "target" / "bench" / "peers.json"
#: Kinds of changes: the rows of a capture.
CHANGES = ("I", "U", "D")


def main() -> None:
    """Builds, counts, measures and writes the results."""
    given = arguments()
    captures = sorted(
        path
        for path in given.folder.glob("*.wire")
        if given.all or path.name.removesuffix(".wire") in CAPTURES
    )
    if not captures:
        sys.exit(f"no captures in {given.folder}: benches/captures.py makes them")
    chosen = [
        peer
        for peer in PEERS
        if peer.name in {REFERENCE, COUNTED}
        or not given.only
        or any(part in peer.name for part in given.only)
    ]
    failed = peer_table.build(peer.family for peer in chosen)
    for name in ("walrow", "python"):
        if name in failed:
            sys.exit(f"{name}: {failed[name]}")
    skipped = [
        {"peer": peer.name, "reason": failed[peer.family]}
        for peer in chosen
        if peer.family in failed
    ]
    for skip in skipped:
        print(f"skipped: {skip['peer']}: {skip['reason']}")
    peers = [peer for peer in chosen if peer.family not in failed]
    results = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "rounds": given.rounds,
        "passes": given.passes,
        "peers": [
            {"name": it.name, "language": it.language, "makes": it.makes}
            for it in chosen
        ],
        "absent": peer_table.ABSENT,
        "skipped": skipped,
        "captures": {},
    }
    with server_for(peers):
        for path in captures:
            try:
                found = of_capture(path, peers, given.rounds, given.passes)
            except CountsDifferError as error:
                sys.exit(f"parsers count differently: {error}")
            except HarnessError as error:
                sys.exit(f"{path.name}: {error}")
            results["captures"][path.name.removesuffix(".wire")] = found
            RESULTS.parent.mkdir(parents=True, exist_ok=True)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(f"wrote {RESULTS.relative_to(ROOT)}")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measures walrow beside its peers.")
    parser.add_argument("folder", type=Path, help="a folder with captures *.wire")
    parser.add_argument(
        "--all", action="store_true", help="all captures, not the usual"
    )
    parser.add_argument("--rounds", type=int, default=5, help="turns of each parser")
    parser.add_argument("--passes", type=int, default=2, help="passes in a turn")
    parser.add_argument(
        "--only", nargs="*", default=[], help="parsers with this in their name"
    )
    return parser.parse_args()


@contextmanager
def server_for(peers: list[Peer]) -> Iterator[None]:
    """Runs a server for Debezium, which reads types from a catalog: at PEERS_PORT."""
    if not any(peer.family == "java" for peer in peers):
        yield
        return
    from servers import EmbeddedServer

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    settings = {"listen_addresses": "127.0.0.1", "port": port}
    with EmbeddedServer(settings=settings):
        os.environ["PEERS_PORT"] = port
        yield


def of_capture(
    path: Path, peers: list[Peer], rounds: int, passes: int
) -> dict[str, Any]:
    """Measures one capture.

    Raises:
        CountsDifferError: Two parsers do not find the same.
    """
    print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB", flush=True)
    with ExitStack() as stack:
        running = {}
        unread = {}
        found = contents(path)
        for peer in peers:
            if lacking := found - peer.reads:
                unread[peer.name] = f"reads no {' and no '.join(sorted(lacking))} rows"
                continue
            try:
                harness = Harness(peer.name, peer_table.command(peer))
            except HarnessError as error:
                unread[peer.name] = str(error)
            else:
                running[peer.name] = stack.enter_context(harness)
        counts, failed = compare_counts(path, running, COUNTED)
        unread |= failed
        measured = measure([running[name] for name in counts], rounds, passes)
    messages = counts[COUNTED]["messages"]
    rows = sum(messages.get(kind, 0) for kind in CHANGES)
    for name, reason in unread.items():
        print(f"  skipped: {name}: {reason}")
    return {
        "bytes": path.stat().st_size,
        "rows": rows,
        "transactions": messages.get("C", 0) + messages.get("c", 0),
        "counts": counts[COUNTED],
        "skipped": unread,
        "load": os.getloadavg()[0],
        "times": {
            name: times(each, measured[REFERENCE], rows)
            for name, each in measured.items()
        },
    }


def times(own: Measured, reference: Measured, rows: int) -> dict[str, float]:
    """Nanoseconds a row, and the ratios to walrow's whole decode."""
    return {
        "min_ns": round(own.minimum / rows, 2),
        "median_ns": round(own.median / rows, 2),
        "ratio_min": round(own.ratio_of_minima(reference), 3),
        "ratio_median": round(own.median_ratio(reference), 3),
    }


def contents(path: Path) -> set[Feature]:
    """The features of a capture that not every parser reads."""
    found: set[Feature] = set()
    for message in walrow.messages(path):
        if message.kind == "S":
            found.add("streamed")
        elif message.kind in CHANGES:
            row = message.fields.get("new") or ()
            # A text is no bytes.
            if any(isinstance(value, bytes) for value in row):
                found.add("binary")
    return found


def machine() -> dict[str, Any]:
    """The kind of the machine, without its name."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        named = [it for it in lines if it.startswith("model name")]
        model = named[0].partition(":")[2].strip() if named else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    main()
