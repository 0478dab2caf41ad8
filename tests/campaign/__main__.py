# ruff: noqa: T201
"""`PYTHONPATH=tests python -m campaign`: a hunt for some time, or a day again."""

from __future__ import annotations

import argparse
import sys
import time

from campaign.faults import FAULTS
from campaign.hunt import Found, campaign_server, hunt, replay
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
        "--known", action="store_true", help="runs the days of known faults"
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
            began = time.monotonic()
            found = hunt(
                server,
                seconds=given.seconds,
                seed=given.seed,
                without=given.without,
                themes=given.theme,
                shrink_seconds=given.shrink,
            )
            if isinstance(found, Found):
                print(f"{time.monotonic() - began:.0f} s, {found.days} days: {found}")
                return 1
            print(f"nothing in {found} days")
    return code


sys.exit(main())
