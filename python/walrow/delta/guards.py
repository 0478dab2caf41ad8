"""The tables that deltalake would write or read wrongly, in silence. Each guard is a pure function.

It returns why a target is refused, or None. The facts that guards look at are in `State`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from walrow._apply.engines import only_spark
from walrow._late import pa


class State(NamedTuple):
    """A target, as a snapshot of it says.

    Attributes:
        features: The features of its protocol.
        versions: The versions for readers and for writers.
        properties: Its properties.
        schema: Its columns.
        partition_by: Those whose values become parts of paths.
        identities: Columns that are numbered by the table.
    """

    features: frozenset[str]
    versions: tuple[int, int]
    properties: Mapping[str, str]
    schema: pa.Schema
    partition_by: Sequence[str]
    identities: Sequence[str] = ()

    @property
    def is_mapped(self) -> bool:
        """Whether its columns have other names in files."""
        return self.properties.get(_MAPPING, "none").lower() != "none"

    @property
    def constraints(self) -> list[str]:
        """The constraints that a row can violate."""
        checks = [
            f"{name.removeprefix(_CHECK)} ({condition})"
            for name, condition in self.properties.items()
            if name.startswith(_CHECK)
        ]
        return checks + [f"{it.name} NOT NULL" for it in self.schema if not it.nullable]


def refusal(
    state: State, paths: Iterable[str], recorded: Sequence[str] = ()
) -> str | None:
    """Why the target cannot be written. Spark alone writes the features that its record names."""
    unknown = only_spark(state.features)
    known = ", and its record says that it is Spark's" if recorded else ""
    reader, writer = state.versions
    appends = state.properties.get("delta.appendOnly", "false").lower() == "true"
    reasons = {
        f"deltalake does not know the table's features {', '.join(unknown)}{known}": unknown,
        f"deltalake does not know the table's protocol ({reader}, {writer})": (
            reader > _READER or writer > _WRITER
        ),
        f"the table numbers column {', '.join(state.identities)} itself": state.identities,
        "the table takes no updates (delta.appendOnly), which Spark says, too": appends,
        "paths of its files are not ASCII, and deltalake would not find them again, so that "
        "rows would be there twice": any(not path.isascii() for path in paths),
    }
    found = next((reason for reason, holds in reasons.items() if holds), None)
    return found or bad_partitions(state.schema, state.partition_by)


def bad_partitions(schema: pa.Schema, names: Iterable[str]) -> str | None:
    """Why deltalake cannot partition a table by these columns."""
    chosen = {name.lower() for name in names}
    reasons = {
        "decimals below 0 would be no numbers": pa.types.is_decimal,
        "times with a zone would be others in another zone": _is_zoned,
        "bytes would be other bytes": lambda it: (
            pa.types.is_binary(it) or pa.types.is_large_binary(it)
        ),
        "large ones have paths that are too long": pa.types.is_floating,
    }
    for field in schema:
        if field.name.lower() not in chosen:
            continue
        for reason, fits in reasons.items():
            if fits(field.type):
                return f"it is partitioned by column {field.name}, and {reason}"
    return None


def bad_storage(
    target: str, options: Mapping[str, str], environment: Mapping[str, str]
) -> str | None:
    """Why two writers of an object store would not see each other."""
    if not target.partition(":")[2].lower().startswith(("s3:", "s3a:")):
        return None
    # deltalake takes these names in any case, and options before the environment.
    given = {name.lower(): value for name, value in environment.items()}
    given |= {name.lower(): value for name, value in options.items()}
    locks = [value for name, value in given.items() if name.endswith(_LOCKS)]
    if any(value.lower() == "dynamodb" for value in locks):
        return (
            "other writers take locks in DynamoDB, and deltalake commits without them: all "
            "writers must use conditional puts"
        )
    for name, value in given.items():
        if name.endswith(_UNSAFE) and value.lower() in ("true", "1", "yes", "on"):
            return "AWS_S3_ALLOW_UNSAFE_RENAME lets two writers commit the same version"
    return None


def has_zones(kind: pa.DataType) -> bool:
    """Whether a type has times with a zone."""
    return _is_zoned(kind) or any(
        has_zones(kind.field(at).type) for at in range(kind.num_fields)
    )


def _is_zoned(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def doubtful_files(
    schema: pa.Schema, files: Iterable[Mapping[str, Any]]
) -> Iterable[str]:
    """The paths of files whose statistics do not exclude times that INT96 may hold wrongly.

    Args:
        schema: The columns of the table.
        files: Its files, with their statistics: `path`, `num_records`, `null_count.c`,
            `min.c` and `max.c`, in microseconds since 1970.
    """
    zoned = [it for it in schema if has_zones(it.type)]
    for file in files:
        count = file.get("num_records")
        for it in zoned:
            if count is not None and file.get(f"null_count.{it.name}") == count:
                continue
            least, most = file.get(f"min.{it.name}"), file.get(f"max.{it.name}")
            if least is None or most is None or least < -_SPAN or most > _SPAN:
                yield str(file["path"])
                break


_READER, _WRITER = 3, 7
_MAPPING, _CHECK = "delta.columnMapping.mode", "delta.constraints."
_LOCKS, _UNSAFE = "s3_locking_provider", "allow_unsafe_rename"
#: The microseconds on both sides of 1970 that fit into 64 bits of nanoseconds.
_SPAN = (1 << 63) // 1000 - 1_000_000
