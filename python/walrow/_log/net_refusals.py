"""The reasons to refuse the changes of a range to a target that is at its start."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from walrow._log.items import LogTable, SourceIdentity
from walrow._log.left import Absence
from walrow._log.marks import Why
from walrow._log.tables import KEYS
from walrow._lsn import Lsn
from walrow._options import listed
from walrow._secrets import brief
from walrow.errors import ApplyError, LogError, OptionError, Remedy


def problems(
    location: str, table: LogTable, start: Lsn, end: Lsn, log_end: Lsn
) -> Iterator[tuple[ApplyError, str]]:
    """The errors, with their reasons, of a table whose rows the log does not give at an LSN.

    A target that begins at `start`, after 0/0, has the rows that precede the log.
    """
    name = table.name
    if (left := table.left) is not None and left.holds_at(end, log_end):
        text = f"{name}: {left}: {left.remedy(location)}"
        yield ApplyError(text, code="left", table=name, lsn=left.since), left.why
    for mark in table.marks:
        if mark.holds_at(end, log_end) and not (start and mark.code == Why.HAD_ROWS):
            text = (
                f"{name} is not whole since {mark.since}, because {mark.reason}: "
                f"{mark.remedy(location, name)}"
            )
            error = ApplyError(text, code="incomplete", table=name, lsn=mark.since)
            yield error, mark.code


class Range(NamedTuple):
    """The changes up to `end` for a target that has all up to `start`. `allow` has the accepted codes."""

    location: str
    table: LogTable
    start: Lsn
    end: Lsn
    log_end: Lsn
    allow: frozenset[str]

    def refuse_incomplete(self) -> None:
        """Refuses a table that only a load makes whole."""
        for error, reason in problems(
            self.location, self.table, self.start, self.end, self.log_end
        ):
            if reason not in self.allow:
                raise self._refusal(error.reason, error.code, reason, error.lsn)

    def allows_altered(self) -> bool:
        """Whether the caller, or a user for all, has accepted that columns were altered."""
        accepted = {mark.code for mark in self.table.marks if mark.accepted is not None}
        return not _ALTERED.isdisjoint(self.allow | accepted)

    def missed(
        self, slot_start: Lsn | None, erased: Lsn, before: int | None
    ) -> Iterator[ApplyError]:
        """The changes that the target has missed. They do not matter if its rows are replaced.

        The log began at `slot_start`. `erased` is the end of the last transaction with erased rows,
        and `before` the OID of the table that had the name at the start.
        """
        if not self.start:
            # It is empty.
            return
        name = self.table.name
        if before not in (None, self.table.oid) and "other_table" not in self.allow:
            text = (
                f"{name} was a table with the OID {before} at {self.start}, and is one with "
                f"the OID {self.table.oid} now: empty the target, and begin at 0/0"
            )
            yield self._refusal(text, "other_table", "other_table")
        if slot_start is not None and self.start < slot_start:
            text = (
                f"the target has the changes of {name} up to {self.start}, and the log those "
                f"from {slot_start} on, where its slot was when the log was begun: what was "
                f"committed between may be missing. {self._load().capitalize()}"
            )
            if "not_received" not in self.allow:
                yield self._refusal(text, "not_received", "not_received")
        if self.start < erased and "erased" not in self.allow:
            text = (
                f"the target has the changes of {name} up to {self.start}, and later ones, up "
                f"to {erased}, were erased from the log: it may keep rows that were deleted. "
                f"Load the table: {self._load()}. Or delete the erased rows in the target, too"
            )
            yield self._refusal(text, "erased", "erased")

    def pruned(self, begin: Lsn) -> LogError:
        """The error if changes were removed that the target needs: the log begins later."""
        text = (
            f"changes of {self.table.name} after {self.start} were removed from the log, which "
            f"begins at {begin}: {self._load()}"
        )
        return LogError(text, code="pruned", table=self.table.name, lsn=begin)

    def other_keys(self, before: Sequence[str], keys: Sequence[str]) -> ApplyError:
        """The error if the target has found its rows by another key."""
        text = (
            f"the target has found the rows of {self.table.name} by ({', '.join(before)}) so far, "
            f"not by ({', '.join(keys)}): {self._load()}, which replaces them; or empty the "
            "target, and begin at 0/0"
        )
        return ApplyError(text, code="other_keys", table=self.table.name)

    def erased_meanwhile(self) -> ApplyError:
        """The error if changes were erased while they were read."""
        text = (
            f"changes of {self.table.name} were erased from the log while they were read: "
            "call it again"
        )
        return ApplyError(text, code="conflict", table=self.table.name)

    def _load(self) -> str:
        return f"walrow load {self.location} {self.table.name}"

    def _refusal(
        self, text: str, code: str | None, name: str, lsn: Lsn | None = None
    ) -> ApplyError:
        return ApplyError(
            text,
            code=code,
            table=self.table.name,
            lsn=lsn,
            advice="; or take the changes as they are with ",
            remedies=(Remedy("allow", None, (*sorted(self.allow), name)),),
        )


def other_source(
    location: str, before: SourceIdentity, now: SourceIdentity
) -> ApplyError:
    """The error of a target that has another log's changes."""
    text = (
        f"the target has changes of {before.words}, and {location} those of {now.words}: use the "
        "right log; or empty the target, and begin at 0/0"
    )
    return ApplyError(text, code="other_source")


_ALTERED = {Why.RENAMED, Why.RETYPED, Why.RETURNED}


def allowed(names: Collection[str]) -> frozenset[str]:
    """The codes of problems that a caller accepts. Other names are an error."""
    codes = listed(names)
    if codes is None:
        text = f"allow is a list of names, such as ['erased'], not {brief(names)}"
        raise OptionError(text)
    for code in codes:
        if code not in _ALLOWED:
            text = f"allow has {brief(code)}; it takes {', '.join(_ALLOWED)}"
            raise OptionError(text)
    return frozenset(codes)


def as_refusal(error: LogError) -> ApplyError | None:
    """The refusal if changes do not give a net. None for another error of the log."""
    if error.code not in _GAPS:
        return None
    attributes = {
        name: value
        for name, value in error.__dict__.items()
        if name not in ("file", "errno", "reason", *_GAPS[error.code])
    }
    return ApplyError(error.reason, **attributes, **_GAPS[error.code])


#: The errors of a fold, with better advice.
_GAPS: dict[str | None, dict[str, Any]] = {
    "incomplete": {},
    "never_sent": {
        "advice": ": load the table again, or take NULL with ",
        "remedies": (Remedy("never_sent", None, "null"),),
    },
    "null_key": {
        "advice": "; choose columns that are never NULL with ",
        "remedies": (KEYS,),
    },
    "duplicate_key": {
        "advice": "; choose columns that are unique with ",
        "remedies": (KEYS,),
    },
}
_ALLOWED = (
    *("erased", "not_received", "other_table"),
    *(code.value for code in (*Why, *Absence)),
)
