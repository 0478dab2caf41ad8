"""walrow's rows of the golden captures equal the model's, for every protocol version."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from reference import change_rows, committed
from reference.batches import batch_rows, ordered

TESTS = Path(__file__).resolve().parent.parent

DATA = TESTS / "data"
TEXT = [
    path
    for path in sorted(DATA.glob("[0-9]*/*.wire"))
    if path.name.split(".")[1] in {"text", "v1"}
]


def test_there_are_captures() -> None:
    assert len(TEXT) > 100


@pytest.mark.parametrize(
    "path", TEXT, ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_rows_are_those_of_the_model(path: Path) -> None:
    data = path.read_bytes()
    assert ordered(batch_rows(data)) == ordered(change_rows(committed(data)))
