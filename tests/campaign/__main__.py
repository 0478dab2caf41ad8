# ruff: noqa: T201
"""`PYTHONPATH=tests python -m campaign`: a hunt for some time, or a day again."""

from __future__ import annotations

import argparse
import sys
import time

from campaign.faults import FAULTS, kinds_of, not_drawn
from campaign.hunt import campaign_server, hunt, replay
from campaign.steps import parsed


def main() -> int:
    """Runs it. The exit code is 1 if there is a fault."""
    parser = argparse.ArgumentParser(prog="campaign", description=__doc__)
    parser.add_argument("--replay", help="the steps of a day, as a failure prints them")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--theme", action="append", default=[])
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--shrink", type=float, default=60)
    parser.add_argument(
        "--all", action="store_true", help="draws what has known faults, too"
    )
    parser.add_argument(
        "--known", action="store_true", help="runs the days of known faults"
    )
    parser.add_argument(
        "--put-back", metavar="NAME", help="draws what has this known fault, too"
    )
    given = parser.parse_args()
    code = 0
    with campaign_server() as server:
        if given.replay:
            replay(server, parsed(given.replay))
        elif given.known:
            for fault in FAULTS:
                began = time.monotonic()
                try:
                    replay(server, parsed(fault.steps))
                    said = "ok"
                except Exception as error:
                    said, code = f"{type(error).__name__}: {str(error)[:200]}", 1
                print(f"{fault.name} ({time.monotonic() - began:.1f} s): {said}")
        else:
            print(f"seed {given.seed}")
            without = given.without
            if not given.all:
                without = [*without, *not_drawn(given.put_back)]
            wanted = kinds_of(given.put_back) if given.put_back else frozenset()
            began, seed, count = time.monotonic(), given.seed, 0
            while (left := given.seconds + began - time.monotonic()) > 0:
                found = hunt(
                    server,
                    seconds=left,
                    seed=seed,
                    without=without,
                    themes=given.theme,
                    shrink_seconds=given.shrink,
                )
                if found is None:
                    break
                count += found.days
                print(f"{time.monotonic() - began:.0f} s, {count} days: {found}")
                if not wanted or wanted & {it.kind for it in found.steps}:
                    return 1
                # Another fault.
                seed = found.seed + 1
            print("nothing")
    return code


sys.exit(main())
