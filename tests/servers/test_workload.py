"""Workloads: the seed determines them, every part is valid, and failing ones are made smaller."""

import random
from dataclasses import replace

import pytest

from server_fixtures import FETCHED
from servers import EmbeddedServer, ServerError, record_history, script
from servers.fetched import VERSIONS, fetched_programs
from servers.histories import PLAIN, modes
from servers.workload import (
    KINDS,
    Operation,
    Workload,
    generate,
    shrink,
)


def test_a_seed_always_gives_the_same_workload() -> None:
    first = generate(5)
    assert generate(5) == first
    assert generate(6).operations != first.operations
    assert script.steps(first) == script.steps(first)
    assert Workload.from_json(first.to_json()) == first


def test_every_kind_of_operation_becomes_a_statement() -> None:
    for kind in KINDS:
        assert any(
            script.steps(workload) != script.steps(without(workload, kind))
            for workload in map(generate, range(20))
        ), kind


def without(workload: Workload, kind: str) -> Workload:
    rest = tuple(each for each in workload.operations if each.kind != kind)
    return replace(workload, operations=rest)


def test_shrinking_leaves_what_the_failure_needs() -> None:
    def fails(workload: Workload) -> bool:
        kinds = [each.kind for each in workload.operations]
        return "truncate" in kinds and "prepare" in kinds[kinds.index("truncate") :]

    workload = next(w for w in map(generate, range(100)) if fails(w))
    small = shrink(workload, fails)
    assert [each.kind for each in small.operations] == ["truncate", "prepare"]
    assert all(each.size == 1 for each in small.operations)


def test_shrinking_stops_after_its_tries() -> None:
    asked = []

    def fails(workload: Workload) -> bool:
        asked.append(workload)
        return len(workload.operations) > 50

    assert len(shrink(generate(1), fails, tries=3).operations) == 80
    assert len(asked) == 3


def test_undecided_transactions_are_left_by_one_connection_only() -> None:
    operations = [
        Operation(session, kind)
        for session in range(4)
        for kind in ("begin", "insert", "prepare")
    ]
    said = [step.sql for step in script.steps(Workload(tuple(operations)))]
    assert sum(sql.startswith("PREPARE") for sql in said) == 4
    assert sum(sql.startswith("COMMIT PREPARED") for sql in said) == 3


@pytest.mark.live
def test_every_part_of_a_workload_runs() -> None:
    source = random.Random(8)  # noqa: S311
    with EmbeddedServer(18) as server:
        for seed in range(3):
            whole = generate(seed)
            part = tuple(o for o in whole.operations if source.random() < 0.6)
            data = record_history(server, replace(whole, operations=part), [PLAIN])
            assert data[PLAIN][:1] == b"W"


def test_modes_are_what_a_version_knows() -> None:
    names = {major: [str(mode) for mode in modes(major)] for major in (14, 15, 16)}
    assert names[14] == [
        "v1",
        "v1 binary",
        "v2 streaming",
        "v2 streaming live",
        "v2 binary streaming",
        "v2 streaming resumed",
    ]
    assert "v3 streaming two_phase live" in names[15]
    assert "v4 parallel two_phase live" in names[16]
    assert "v4 streaming two_phase immediate live" in names[16]
    assert "v3 streaming two_phase resumed" in names[16]
    assert set(names[15]) < set(names[16])


def test_unknown_version_is_refused_when_it_is_fetched() -> None:
    with pytest.raises(ServerError, match="no server of version 9"):
        fetched_programs(9)
    assert VERSIONS == FETCHED
