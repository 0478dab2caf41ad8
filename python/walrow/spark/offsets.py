"""The offsets of a streaming query: which log, and how far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from walrow._log.items import SourceIdentity
from walrow._lsn import Lsn
from walrow.errors import LogError
from walrow.spark.projection import named


def offset(source: SourceIdentity, lsn: Lsn) -> dict[str, Any]:
    """The offset at an LSN, as Spark stores it in the checkpoint."""
    return {"source": source.to_dict(), "lsn": str(lsn)}


def lsn_of(found: Mapping[str, Any], source: SourceIdentity) -> Lsn:
    """The LSN of an offset.

    Raises:
        LogError: It is the offset of another log or data source.
    """
    try:
        stored, lsn = SourceIdentity(**found["source"]), Lsn(found["lsn"])
    except (KeyError, TypeError, ValueError):
        text = (
            "the checkpoint is not one of the data source walrow; use another "
            "checkpointLocation"
        )
        raise LogError(text) from None
    if stored != source:
        text = (
            f"the checkpoint is that of another log: it has an offset in changes of "
            f"{named(stored)}, but the log has those of {named(source)}; use the path of "
            "that log, or another checkpointLocation"
        )
        raise LogError(text)
    return lsn
