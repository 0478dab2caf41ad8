"""Errors of deltalake as walrow's own: their texts may have rows, paths and URLs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence

from walrow._apply.targets import Conflict, never_sent_error
from walrow.delta.threads import Stopped
from walrow.errors import ApplyError, Error, OptionError

#: The other engine.
BY_SPARK = "walrow.spark.apply_changes, or walrow apply --engine spark"


def by_spark(target: str, text: str, *, table: str | None = None) -> ApplyError:
    """The error of what deltalake would not keep right, and Spark does."""
    text = f"{target}: {text}: use {BY_SPARK}"
    return ApplyError(text, code="engine", table=table, target=target)


def too_large(target: str, table: str, rows: str) -> ApplyError:
    """The error of changes that cannot be divided, and do not fit into the memory."""
    text = (
        f"{target}: {rows} of {table} do not fit into the memory: allow more with memory=, "
        f"or use {BY_SPARK}"
    )
    return ApplyError(text, code="too_large", table=table, target=target)


def violates(
    target: str, table: str | None, names: Sequence[str], column: str | None = None
) -> ApplyError:
    """The error of a row that violates one of these constraints."""
    which = ("", f", {''.join(names)}", f", one of {', '.join(names)}")[
        min(len(names), 2)
    ]
    text = (
        f"{target}: a row of {table} violates a constraint of the target{which}: change the "
        "row, or drop the constraint"
    )
    return ApplyError(
        text, code="constraint", table=table, column=column, target=target
    )


@contextlib.contextmanager
def wrapped(
    target: str,
    table: str | None = None,
    columns: Sequence[str] = (),
    constraints: Sequence[str] = (),
) -> Iterator[None]:
    """Raises errors of deltalake as walrow's own, with the names of columns by their numbers."""
    try:
        yield
    except (Error, Conflict, Stopped):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
            raise
        found = _own(error, target, table, columns, constraints)
        # The original error has values of rows.
        raise found from None


def _own(
    error: BaseException,
    target: str,
    table: str | None,
    columns: Sequence[str],
    constraints: Sequence[str],
) -> Exception:
    kind, text = type(error).__name__, str(error)
    lost = never_sent_error(error, table or "", columns)
    if lost is not None:
        return lost
    if kind == "CommitFailedError":
        return Conflict()
    if _INVALID.search(text):
        return violates(target, table, constraints)
    if short := _TOO_SHORT.search(text):
        least = f"{short[1]}h"
        text = f"{target}: vacuum= is less than the table's own retention, of {least}: use at least that"
        return OptionError(text)
    if _EXHAUSTED.search(text):
        return too_large(target, table or "the table", "the changes")
    return Error(f"{target}: deltalake: {_said(kind, text)}")


def _said(kind: str, text: str) -> str:
    """The part of an error that may be said."""
    for pattern, reason in _REASONS.items():
        if re.search(pattern, text, re.IGNORECASE):
            return reason
    return f"{kind}; its text is left out, as it may have values of rows"


#: Of Rust. It is not an `Exception`, but it is not anything else either.
_PANIC = "PanicException"
_INVALID = re.compile(r"failed validation check|violate|invariant", re.IGNORECASE)
_EXHAUSTED = re.compile(r"resources exhausted", re.IGNORECASE)
_TOO_SHORT = re.compile(r"minimum retention for vacuum .* (\d+) hours, got")
#: The words that may be said of other errors.
_REASONS = {
    r"unknown scheme": "it does not know URLs of this kind",
    r"could not create local directory": "the directory cannot be made",
    r"no space left|os error 28|StorageFull": "no space is left",
    r"file too large|os error 27\b": "a file would be larger than the process or the file system "
    "allows",
    r"file name too long|os error 36\b": "a name is too long for the file system",
    r"quota|os error 122\b": "the disk quota is used up",
    r"read-only file system|os error 30": "the file system is read-only",
    r"permission denied|os error 13|PermissionDenied": "permission denied",
    r"access ?denied|forbidden|403": "the object store denies the access",
    r"unauthenticated|invalid ?access ?key|signature|credential|401": "the object store does "
    "not take the credentials",
    r"nosuchbucket|bucket does not exist": "there is no such bucket",
    r"connect|dns|timed? ?out|error sending request": "the object store does not answer",
    r"not found|os error 2\b": "a file is missing: see VACUUM and the retention of the table",
}
