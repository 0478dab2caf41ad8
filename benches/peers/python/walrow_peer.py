"""Walrow in Python: `walrow_peer.py read` or `messages`."""

from __future__ import annotations

import sys
from typing import Any

import walrow
from serve import Counts, serve


class Read:
    """Batches of typed columns."""

    def run(self, capture: bytes) -> int:
        """Decodes all rows."""
        return sum(len(batch) for batch in walrow.read(capture))

    def count(self, capture: bytes) -> dict[str, Any]:
        """Counts rows by their change. Needs no cells: walrow's Rust harness has them."""
        import pyarrow as pa

        tags = {"insert": "I", "update_postimage": "U", "delete": "D"}
        counts = Counts()
        for batch in walrow.read(capture):
            for change in pa.record_batch(batch)["_change_type"].to_pylist():
                if change in tags:
                    counts.message(tags[change])
        return {"messages": counts.messages}


class Messages:
    """Messages as objects, whose fields are read."""

    def run(self, capture: bytes) -> int:
        """Parses all messages and reads the values of their rows."""
        return sum(bool(message.fields) for message in walrow.messages(capture))

    def count(self, capture: bytes) -> dict[str, Any]:
        """Counts messages and cells."""
        counts = Counts()
        for message in walrow.messages(capture):
            counts.message(message.kind)
            for name in ("key", "old", "new"):
                for value in message.fields.get(name) or ():
                    counts.cell(None if value is walrow.UNCHANGED else value)
        return vars(counts)


if __name__ == "__main__":
    serve(Messages() if sys.argv[1:] == ["messages"] else Read())
