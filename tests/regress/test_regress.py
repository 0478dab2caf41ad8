"""PostgreSQL's regression suite while two receivers follow it: no row is wrong, and few marks are needless.

`WALROW_SLOW=1 pytest tests/regress` runs it.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from regress.comparing import Verdict, compare
from regress.sources import archive
from regress.suite import SETTINGS, Suite, prepare
from servers import EmbeddedServer
from servers.receiving import ReceiverProcess

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(1800)]

#: How the tables are received, by the publication: all tables, and through partitioned ones.
PUBLICATIONS = {
    "leaves": "",
    "roots": "WITH (publish_via_partition_root, publish_generated_columns = stored)",
}


@pytest.mark.parametrize(
    ("drops", "tables", "needless"), [(True, 700, 9), (False, 2000, 16)]
)
def test_the_regression_suite(
    tmp_path: Path, *, drops: bool, tables: int, needless: int
) -> None:
    try:
        archive()
    except OSError as error:
        pytest.skip(f"WALROW_REGRESS_SOURCE names PostgreSQL's sources: {error}")
    with EmbeddedServer(
        18, logical_decoding_work_mem="64kB", settings=SETTINGS
    ) as server:
        dsn = prepare(server)
        suite = Suite(server, drops=drops)
        with psycopg.connect(dsn, autocommit=True) as conn:
            for name, options in PUBLICATIONS.items():
                sql = f"CREATE PUBLICATION {name} FOR ALL TABLES {options}"
                conn.execute(sql.encode())
        with contextlib.ExitStack() as stack:
            receivers = [
                stack.enter_context(
                    ReceiverProcess(
                        *(dsn, tmp_path / name, "--create"),
                        slot=name,
                        publication=name,
                    )
                )
                for name in PUBLICATIONS
            ]
            for receiver in receivers:
                receiver.until_streaming()
            suite.run()
            for receiver in receivers:
                receiver.stop()
        for name in PUBLICATIONS:
            rest = ("--until", "now")
            with ReceiverProcess(
                dsn, tmp_path / name, *rest, slot=name, publication=name
            ) as receiver:
                receiver.ended()
            found = compare(dsn, tmp_path / name, root=name == "roots")
            print(name, Counter(it.verdict.value for it in found))  # noqa: T201
            for it in found:
                if it.verdict is not Verdict.EQUAL:
                    print(f"  {it.verdict.value}: {it.name}: {it.why}")  # noqa: T201
