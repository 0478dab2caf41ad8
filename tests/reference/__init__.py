"""A slow and simple reader of replication streams, to compare the fast one with."""

from reference.fold import Table, fold
from reference.reader import counts, frames, messages

__all__ = ["Table", "counts", "fold", "frames", "messages"]
