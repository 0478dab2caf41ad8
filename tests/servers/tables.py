"""The tables of a workload: some for one connection, some for all."""

# ruff: noqa: S608  (the statements have only the test's own parts)

from __future__ import annotations

from typing import TYPE_CHECKING

from servers.workload import SESSIONS

if TYPE_CHECKING:
    from servers.workload import Workload


def setup(workload: Workload) -> list[str]:
    """Returns the statements that come before the slots are made."""
    statements = ["CREATE SCHEMA common", f"CREATE TABLE common.shared {BASE}"]
    for number in range(SESSIONS):
        statements += [
            f"CREATE TABLE own_{number}_a {BASE}",
            f"CREATE TABLE own_{number}_b {BASE}",
            f"ALTER TABLE own_{number}_b REPLICA IDENTITY FULL",
            *_partitioned(f"own_{number}_p"),
            f"SELECT pg_replication_origin_create('walrow-{number}-é') WHERE NOT EXISTS"
            " (SELECT FROM pg_replication_origin"
            f" WHERE roname = 'walrow-{number}-é')",
        ]
    statements += _partitioned("common.shared_p")
    names = ("common.shared", *(f"own_{n}_{x}" for n in range(SESSIONS) for x in "abp"))
    statements += [f"ALTER TABLE {n} ALTER big SET STORAGE EXTERNAL" for n in names]
    via = str(workload.via_root).lower()
    return [
        *statements,
        "CREATE PUBLICATION walrow FOR ALL TABLES"
        f" WITH (publish_via_partition_root = {via})",
    ]


def _partitioned(name: str) -> list[str]:
    return [
        f"CREATE TABLE {name} ({_COLUMNS}, p int NOT NULL, PRIMARY KEY (id, p))"
        " PARTITION BY LIST (p)",
        f"CREATE TABLE {name}0 PARTITION OF {name} FOR VALUES IN (0)",
        f"CREATE TABLE {name}1 PARTITION OF {name} FOR VALUES IN (1)",
        # The same columns in another order.
        f"CREATE TABLE {name}2 (gone int, p int NOT NULL, big text, b text, a int,"
        f" id bigint NOT NULL, PRIMARY KEY (id, p))",
        f"ALTER TABLE {name}2 DROP COLUMN gone",
        f"ALTER TABLE {name} ATTACH PARTITION {name}2 FOR VALUES IN (2)",
    ]


_COLUMNS = "id bigint NOT NULL, a int, b text, big text"
BASE = f"({_COLUMNS}, PRIMARY KEY (id))"
