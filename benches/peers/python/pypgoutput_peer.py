"""Pypgoutput's decoders, by the first byte of a message as its reader does."""

from __future__ import annotations

from typing import Any

from pypgoutput import decoders

from serve import Counts, payloads, serve

# Its classes for O and Y are empty: a message of these is left out, as in its reader.
DECODERS = {
    b"B": decoders.Begin,
    b"C": decoders.Commit,
    b"R": decoders.Relation,
    b"I": decoders.Insert,
    b"U": decoders.Update,
    b"D": decoders.Delete,
    b"T": decoders.Truncate,
}


class Pypgoutput:
    """The decoders behind the protocol."""

    def run(self, capture: bytes) -> int:
        """Parses all messages."""
        items = 0
        for message in payloads(capture):
            decoder = DECODERS.get(message[:1])
            if decoder is not None:
                decoder(message)
                items += 1
        return items

    def count(self, capture: bytes) -> dict[str, Any]:
        """Counts messages and cells."""
        counts = Counts()
        for message in payloads(capture):
            decoder = DECODERS.get(message[:1])
            if decoder is None:
                continue
            decoded = decoder(message)
            counts.message(decoded.byte1)
            for name in ("old_tuple", "new_tuple"):
                row = getattr(decoded, name, None)
                for cell in row.column_data if row else ():
                    counts.cell(cell.col_data)
        return vars(counts)


if __name__ == "__main__":
    serve(Pypgoutput())
