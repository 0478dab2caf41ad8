"""WalFlux's decode_message."""

from __future__ import annotations

from typing import Any

from walflux import protocol

from serve import Counts, payloads, serve

TAGS = {
    protocol.Begin: "B",
    protocol.Commit: "C",
    protocol.Relation: "R",
    protocol.Insert: "I",
    protocol.Update: "U",
    protocol.Delete: "D",
    protocol.Truncate: "T",
    protocol.Origin: "O",
    protocol.TypeInfo: "Y",
}


class WalFlux:
    """The decoder behind the protocol."""

    def run(self, capture: bytes) -> int:
        """Parses all messages."""
        items = 0
        for message in payloads(capture):
            protocol.decode_message(message)
            items += 1
        return items

    def count(self, capture: bytes) -> dict[str, Any]:
        """Counts messages and cells."""
        counts = Counts()
        for message in map(protocol.decode_message, payloads(capture)):
            counts.message(TAGS[type(message)])
            for name in ("old", "key", "new"):
                for value in getattr(message, name, None) or ():
                    counts.cell(None if value is protocol.UNCHANGED_TOAST else value)
        return vars(counts)


if __name__ == "__main__":
    serve(WalFlux())
