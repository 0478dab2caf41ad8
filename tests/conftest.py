"""Settings for all tests, and an object store for some."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers.s3 import S3

pytest_plugins = ["server_fixtures"]

# A shell starts processes in the background with these signals ignored, and their children
# inherit that. The tests send them.
for ignored in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        is_interrupt = ignored is signal.SIGINT
        signal.signal(
            ignored, signal.default_int_handler if is_interrupt else signal.SIG_DFL
        )

# A slow machine must not fail a test.
hypothesis.settings.register_profile("walrow", deadline=None, derandomize=True)
hypothesis.settings.load_profile("walrow")


#: What the tests of a folder import. Without it, the folder is skipped.
NEEDED = {
    "apply": ("pyarrow",),
    "delta": ("pyarrow", "deltalake"),
    "spark": ("pyarrow", "pyspark", "psycopg"),
}


def pytest_pycollect_makemodule(module_path: Path) -> None:
    for name in NEEDED.get(module_path.parent.name, ()):
        pytest.importorskip(name, reason=f"needs {name}: pip install {name}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("slow") and not os.environ.get("WALROW_SLOW"):
        pytest.skip("takes long: make test-all")


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    from servers.s3 import S3

    with S3() as server:
        yield server
