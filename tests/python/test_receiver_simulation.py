"""The decisions of a receiver, in simulated worlds.

A failure names its seed. `WALROW_SIMULATE_SEED=5 WALROW_SIMULATE_SECONDS=600` plays others, for longer.
"""

from __future__ import annotations

import os
import time
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


@pytest.mark.timeout(0)
def test_worlds() -> None:
    begun = seed = int(os.environ.get("WALROW_SIMULATE_SEED", "0"))
    end = time.monotonic() + float(os.environ.get("WALROW_SIMULATE_SECONDS", "10"))
    seen: set[tuple[str, str]] = set()
    while time.monotonic() < end or seed < begun + 20:
        world = World(seed)
        try:
            world.play()
        except AssertionError as error:
            error.add_note(f"seed {seed}, after {world.now - 1_000:.3f} s of its clock")
            raise
        LoadWorld(seed).play()
        seen |= world.seen | play_receiver(seed)
        seed += 1
    # It has tried something.
    assert len(seen) > 120


def play_receiver(seed: int) -> set[tuple[str, str]]:
    world = ReceiverWorld(seed)
    try:
        world.play()
    except AssertionError as error:
        error.add_note(f"receiver of seed {seed}, after {world.now - 1_000:.3f} s")
        raise
    return world.seen


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_is_found(fault: Fault) -> None:
    disk = with_fault(fault)
    for seed in range(SEEDS):
        try:
            World(seed, disk).play()
        except Exception:
            return
    pytest.fail(f"{SEEDS} worlds do not find it")


@pytest.mark.parametrize("fault", FAULTS_OF_LOADS, ids=lambda fault: fault.name)
def test_each_fault_of_loads_is_found(fault: Fault) -> None:
    module = module_with("load", fault)
    for seed in range(SEEDS):
        try:
            LoadWorld(seed, module).play()
        except Exception:
            return
    pytest.fail(f"{SEEDS} worlds do not find it")


@pytest.mark.parametrize("fault", FAULTS_OF_RECEIVERS, ids=lambda fault: fault.name)
def test_each_fault_of_receivers_is_found(fault: Fault) -> None:
    module: Any = module_with(fault.module, fault)
    core = module.Core if fault.module == "core" else Core
    link = module.Link if fault.module == "link" else Link
    for seed in range(SEEDS):
        try:
            ReceiverWorld(seed, core, link).play()
        except Exception:
            return
    pytest.fail(f"{SEEDS} worlds do not find it")


#: Without a fault, they find nothing.
SEEDS = 1_000
