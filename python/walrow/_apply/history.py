"""The record of a Delta table, in the metadata of its commits, whichever engine wrote them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from walrow._apply.items import Token

#: So many commits are looked at before all of them.
FEW = 20


class Entry(NamedTuple):
    """A commit: its version, the operation that made it, and the writer's text about it."""

    version: int
    operation: str
    metadata: str | None


def token_of(entry: Entry) -> Token | None:
    """The token of a commit. A commit that sets a table back has an earlier token."""
    return None if entry.operation in _BREAKS else Token.from_json(entry.metadata)


def recorded(
    history: Callable[[int | None], Sequence[Entry]],
    limits: Sequence[int] = (FEW,),
) -> tuple[Token | None, int, str | None]:
    """Reads the last token, and looks at the operations after it.

    Args:
        history: Returns so many commits, or all, the newest first.
        limits: So many are asked for before all are.

    Returns:
        The last token, the newest version, and why the token does not say what the table's rows are.
    """
    for limit in (*limits, None):
        entries = history(limit)
        found = ((it, token) for it in entries if (token := token_of(it)) is not None)
        last, token = next(found, (entries[-1], None))
        # The operations after the version that the last batch read, but before its commit.
        since = int((token and token.version) or last.version)
        has_all = token is not None and since >= entries[-1].version
        if has_all or limit is None or len(entries) < limit:
            break
    refusal = None
    later = (it for it in entries if it.version > since)
    broken = next((it for it in later if it.operation in _BREAKS), None)
    if token is not None and broken is not None:
        when = "while" if broken.version < last.version else "after"
        refusal = (
            f"{broken.operation} at version {broken.version} came {when} the last "
            f"batch was written, which ended at {token.end}"
        )
    return token, entries[0].version, refusal


#: Operations that change the rows of the last token.
_BREAKS = {
    "RESTORE",
    "CLONE",
    "CREATE OR REPLACE TABLE",
    "CREATE OR REPLACE TABLE AS SELECT",
    "REPLACE TABLE",
    "REPLACE TABLE AS SELECT",
}
