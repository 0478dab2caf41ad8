"""PostgreSQL's regression suite while two receivers follow it: no row is wrong, and few marks are needless.

`WALROW_SLOW=1 pytest tests/regress -s` runs it.
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
from walrow.postgres import ddl_trigger

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(3600)]

#: How the tables are received, by the publication: as they are, and through partitioned ones.
PUBLICATIONS = {
    "leaves": "",
    "roots": "WITH (publish_via_partition_root, publish_generated_columns = stored)",
}
#: Marks that no look can leave out, although these tables have lost nothing: a part of each reason.
REASONS = (
    # USING may change each value, and here it does not.
    "has another type",
    "a type of its columns was altered",
    # Without TOAST, these look like SET UNLOGGED and SET LOGGED: a generated column, and VACUUM FULL and
    # CLUSTER of a table that is new or has no old row.
    "it was rewritten",
    # Each column was altered, so that it may have been a partition for a while, or it was one.
    "it is new in the publication",
    "partitions were attached or detached",
    "a partition may have been attached for a while",
    # An object has another name now, and no value has it.
    "an object was renamed",
    # The next old rows will lack values.
    "lack values of its replica identity",
    # The rows that were there have been changed or removed since.
    "was added with a value",
    "was dropped and added again",
    "may have been dropped and added again",
    "disappeared and",
    "was renamed to",
)


@pytest.mark.parametrize("has_trigger", [False, True], ids=["plain", "trigger"])
@pytest.mark.parametrize(
    ("drops", "least", "needless"),
    [
        (True, {"leaves": 600, "roots": 480}, {"leaves": 15, "roots": 26}),
        (False, {"leaves": 2000, "roots": 1500}, {"leaves": 45, "roots": 82}),
    ],
    ids=["as it is", "without drops"],
)
def test_the_regression_suite(
    tmp_path: Path,
    *,
    drops: bool,
    least: dict[str, int],
    needless: dict[str, int],
    has_trigger: bool,
) -> None:
    try:
        archive()
    except OSError as error:
        pytest.skip(f"{error}: WALROW_REGRESS_SOURCE is the URL or path of the archive")
    with EmbeddedServer(
        18, logical_decoding_work_mem="64kB", settings=SETTINGS
    ) as server:
        dsn = prepare(server)
        suite = Suite(server, drops=drops)
        with psycopg.connect(dsn, autocommit=True) as conn:
            if has_trigger:
                conn.execute(ddl_trigger().encode())
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
                receiver.process.wait(600)
                receiver.ended()
            found = compare(dsn, tmp_path / name, root=name == "roots")
            print(name, Counter(it.verdict.value for it in found))  # noqa: T201
            for it in found:
                if it.verdict not in {Verdict.EQUAL, Verdict.NEEDED}:
                    print(f"  {it.verdict.value}: {it.name}: {it.why}")  # noqa: T201
            assert len(found) >= least[name]
            assert [it for it in found if it.verdict is Verdict.WRONG] == []
            marked = [it for it in found if it.verdict is Verdict.NEEDLESS]
            assert len(marked) <= needless[name]
            assert not [it for it in marked if not any(r in it.why for r in REASONS)]
