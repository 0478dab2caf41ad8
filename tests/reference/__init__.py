"""A slow and simple reader of replication streams, to compare the fast one with."""

from reference.fold import Table, fold
from reference.reader import counts, frames, messages
from reference.rows import change_rows
from reference.transactions import committed, history

__all__ = [
    "Table",
    "change_rows",
    "committed",
    "counts",
    "fold",
    "frames",
    "history",
    "messages",
]
