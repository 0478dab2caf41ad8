"""Tables that `apply_changes` keeps current: Delta's and Iceberg's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from walrow._apply.places import check_target
from walrow.spark.targets.delta import DeltaTarget
from walrow.spark.targets.iceberg import IcebergTarget
from walrow.spark.targets.sql import Target


def target_of(session: Any, name: str, caller: Any) -> Target:
    """The target that a name such as `"delta:/path"` means in the caller's session.

    Raises:
        OptionError: The name means none.
    """
    check_target(name)
    kind, _, rest = name.partition(":")
    return _KINDS[kind](session, name, rest, caller)


_KINDS: dict[str, Callable[[Any, str, str, Any], Target]] = {
    "delta": DeltaTarget,
    "iceberg": IcebergTarget,
}
