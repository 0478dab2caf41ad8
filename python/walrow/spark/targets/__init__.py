"""Tables that `apply_changes` keeps current: Delta's and Iceberg's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walrow.errors import OptionError
from walrow.spark.targets.delta import DeltaTarget
from walrow.spark.targets.iceberg import IcebergTarget

if TYPE_CHECKING:
    from walrow.spark.targets.sql import Target

__all__ = ["target_of"]


def target_of(session: Any, name: str) -> Target:
    """The target that a name such as `"delta:/path"` means.

    Raises:
        OptionError: The name means none.
    """
    kind, colon, rest = name.partition(":")
    if colon and rest and kind == "delta":
        return DeltaTarget(session, name, rest)
    if colon and rest and kind == "iceberg":
        return IcebergTarget(session, name, rest)
    text = (
        f"target {name!r} is not one of "
        '"delta:/path", "delta:catalog.schema.table" and "iceberg:catalog.schema.table"'
    )
    raise OptionError(text)
