"""The decisions of a receiver, in simulated worlds.

They begin at a new seed. A failure names its seed: `WALROW_SIMULATE_SEED=5 WALROW_SIMULATE_SECONDS=600` plays
from there on, for longer. With `WALROW_SLOW=1`, they play for an hour.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from simulation.faults import (
    FAULTS,
    FAULTS_OF_LOADS,
    FAULTS_OF_RECEIVERS,
    Fault,
    module_with,
    with_fault,
)
from simulation.loads import LoadWorld
from simulation.receiver import ReceiverWorld
from simulation.world import World
from walrow._receive.core import Core
from walrow._receive.link import Link

IS_SLOW = bool(os.environ.get("WALROW_SLOW"))
SECONDS = float(os.environ.get("WALROW_SIMULATE_SECONDS", "3600" if IS_SLOW else "20"))
SEED = int(os.environ.get("WALROW_SIMULATE_SEED", f"{time.time():.0f}000"))


# One test in one process: its time is chosen.
@pytest.mark.timeout(0)
def test_worlds() -> None:
    print(f"WALROW_SIMULATE_SEED={SEED}")  # noqa: T201
    seed, end = SEED, time.monotonic() + SECONDS
    seen: set[tuple[str, str]] = set()
    while time.monotonic() < end or seed < SEED + 20:
        seen |= play(seed)
        seed += 1
    print(f"{seed - SEED} receivers in {SECONDS:.0f} s")  # noqa: T201
    # It has tried something.
    assert len(seen) > 120


def play(seed: int) -> set[tuple[str, str]]:
    world, receiver = World(seed), ReceiverWorld(seed)
    try:
        world.play()
        LoadWorld(seed).play()
        receiver.play()
    except BaseException as error:
        seconds = f"{world.now - 1_000:.3f} and {receiver.now - 1_000:.3f} s"
        error.add_note(f"WALROW_SIMULATE_SEED={seed}, after {seconds} of its clocks")
        raise
    return world.seen | receiver.seen


#: A publication that a full disk had refused did not wait for definitions.
FAILED = [20261130469]


@pytest.mark.parametrize("seed", FAILED)
def test_worlds_that_failed(seed: int) -> None:
    play(seed)


#: Without a fault, they find nothing.
SEEDS = 1_000
#: Worlds that find a fault. The others follow, as a change of the worlds may need them.
FIRST = {
    "a last look that has failed is taken as done": 173,
    "a load that waits for its place is tried once only": 209,
    "a load that was given up gets its place": 460,
    "a log whose first load broke goes on": 300,
    "a server that the log has refused is asked again and again": 69,
    "an answer of an earlier connection counts": 69,
    "the log is opened while an earlier attempt writes to it": 119,
}


def seeds(fault: Fault) -> Iterator[int]:
    first = FIRST.get(fault.name, 0)
    yield from range(first, SEEDS)
    yield from range(first)


def check_found(fault: Fault, play: Callable[[int], object]) -> None:
    for seed in seeds(fault):
        try:
            play(seed)
        except Exception:
            return
    pytest.fail(f"{SEEDS} worlds do not find it")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_is_found(fault: Fault) -> None:
    disk = with_fault(fault)
    check_found(fault, lambda seed: World(seed, disk).play())


@pytest.mark.parametrize("fault", FAULTS_OF_LOADS, ids=lambda fault: fault.name)
def test_each_fault_of_loads_is_found(fault: Fault) -> None:
    module = module_with("load", fault)
    check_found(fault, lambda seed: LoadWorld(seed, module).play())


@pytest.mark.parametrize("fault", FAULTS_OF_RECEIVERS, ids=lambda fault: fault.name)
def test_each_fault_of_receivers_is_found(fault: Fault) -> None:
    module: Any = module_with(fault.module, fault)
    core = module.Core if fault.module == "core" else Core
    link = module.Link if fault.module == "link" else Link
    check_found(fault, lambda seed: ReceiverWorld(seed, core, link).play())
