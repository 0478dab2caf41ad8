"""The decisions of a receiver, in simulated worlds.

A failure names its seed. `WALROW_SIMULATE_SEED=5 WALROW_SIMULATE_SECONDS=600` plays others, for longer.
"""

from __future__ import annotations

import os
import time

import pytest

from simulation.faults import (
    FAULTS,
    FAULTS_OF_LOADS,
    Fault,
    module_with,
    with_fault,
)
from simulation.loads import LoadWorld
from simulation.world import World


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
        seen |= world.seen
        seed += 1
    # It has tried something.
    assert len(seen) > 40


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


#: Without a fault, they find nothing.
SEEDS = 1_000
