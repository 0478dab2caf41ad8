"""`walrow preflight`: how its findings are printed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from walrow import postgres
from walrow.cli import preflight
from walrow.cli.app import cli
from walrow.postgres import Finding, Preflight

TABLES = [f"public.t{number}" for number in range(300)]
FOUND = Preflight(
    [
        *(
            Finding("partition-identity", "error", f"{name} has FULL", f"ALTER {name};")
            for name in TABLES
        ),
        Finding(
            "no-replica-identity",
            "warning",
            "without a replica identity: public.t0 and 299 more",
            "\n".join(f"ALTER {name};" for name in TABLES),
        ),
    ]
)


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Any:
    @contextlib.contextmanager
    def connected(_dsn: str) -> Iterator[None]:
        yield

    monkeypatch.setattr(preflight, "connected", connected)
    monkeypatch.setattr(postgres, "preflight", lambda *_, **__: FOUND)

    def output(*words: str) -> list[str]:
        result = CliRunner().invoke(cli, ["preflight", *words])
        assert result.exit_code == 1
        return result.stdout.splitlines()

    return output


def test_many_findings_are_few_lines(output: Any) -> None:
    assert output() == [
        "error: public.t0 has FULL [partition-identity]",
        "    ALTER public.t0;",
        "error: 299 more of this kind [partition-identity]: --all shows them",
        "warning: without a replica identity: public.t0 and 299 more [no-replica-identity]",
        "    ALTER public.t0;",
        "    -- and 299 more statements: --all shows them",
        "300 errors",
    ]


def test_all_of_them_are_there_if_asked_for(output: Any) -> None:
    assert len(output("--all")) == 300 * 2 + 1 + 300 + 1
    assert len(output("--json")) == 301
    assert json.loads(output("--json")[-1])["sql"].count("\n") == 299
