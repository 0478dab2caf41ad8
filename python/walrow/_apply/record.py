"""The record of a target: whether the target can be continued with log and options."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from walrow._apply.items import COLUMNS, Token
from walrow._apply.modes import beside
from walrow._apply.options import ApplyOptions
from walrow._apply.tables import AppliedTable
from walrow._apply.targets import Found
from walrow._apply.units import Batch, LogContents
from walrow._log.erasures import counts, read_erasures
from walrow._log.items import LogTable
from walrow._lsn import Lsn
from walrow.errors import ApplyError, OptionError, Remedy
from walrow.log import reopened


class Record(NamedTuple):
    """A call, as far as the record of its target has to fit to it."""

    contents: LogContents
    table: LogTable
    rules: ApplyOptions

    @property
    def target(self) -> str:
        """The target, as it was given."""
        return self.rules.target

    def start(
        self, found: Found | None, keys: tuple[str, ...]
    ) -> tuple[Lsn, str | None]:
        """Up to where the target has the changes, and the line of its commits."""
        if found is None:
            return Lsn(0), _FIRST_LINE
        token, problem = found.token, None
        mode = self.rules.mode
        if token is not None and token.mode != mode:
            raise self._other_mode(token)
        if found.refusal is not None:
            problem = ("restored", found.refusal)
        elif token is None:
            if found.is_empty:
                return Lsn(0), _FIRST_LINE
            text = "it has rows, and does not record which changes they have"
            problem = ("no_token", text)
        elif token.source != self.contents.log.source:
            text = (
                f"it has changes of {token.source.words}, and the log those of "
                f"{self.contents.log.source.words}"
            )
            problem = ("other_source", text)
        elif token.keys != keys and not self._is_replaceable:
            problem = ("other_keys", _other_keys(token, keys))
        elif not self._reaches(token.end):
            text = (
                f"it has the changes up to {token.end}, and the log ends before, at "
                f"{self.contents.log.end}: it is an older copy, or of a server that was set back"
            )
            problem = ("older_log", text)
        if problem is None and token is not None:
            is_resumed = (
                self._lacks_erased(token.end) and self.rules.resume_from == token.end
            )
            # A new line is recorded, even if it is the only change.
            return token.end, None if is_resumed else token.line
        if self.rules.resume_from is not None:
            if self.rules.resume_from > self.contents.log.end:
                raise OptionError(
                    f"resume_from={self.rules.resume_from} is after the end of the log, "
                    f"{self.contents.log.end}: try again when the log is that far"
                )
            return self.rules.resume_from, None
        code, text = problem or ("no_token", "")
        raise self.unknown_rows(text, code=code)

    @property
    def _is_replaceable(self) -> bool:
        """Whether a load replaces all rows of the target."""
        return self.rules.mode == "current" and self.rules.deletes == "apply"

    def refuse_other_keys(
        self, found: Found | None, applied: AppliedTable, batch: Batch
    ) -> None:
        """Refuses rows that were found by another key, unless they are replaced anyway."""
        token = found.token if found is not None else None
        if (
            token is None
            or token.keys == applied.keys
            or self.rules.resume_from is not None
        ):
            return
        if batch.barrier is None:
            log = self.contents.log.location
            text = (
                f"{_other_keys(token, applied.keys)}: load the table, which replaces them "
                f"(walrow load {log} {self.table.name})"
            )
            raise self.unknown_rows(text, code="other_keys")

    def _reaches(self, end: Lsn) -> bool:
        """Whether the log is as far. Another driver may have opened it later than this call."""
        log = self.contents.log
        return log.end >= end or reopened(log).end >= end

    def error(self, text: str, *, code: str, **more: Any) -> ApplyError:
        """The error of this call, with its table and target."""
        return ApplyError(
            text, code=code, table=self.table.name, target=self.target, **more
        )

    def unknown_rows(self, text: str, *, code: str = "no_token") -> ApplyError:
        """The error of a target whose record does not say what its rows are."""
        text = (
            f"{self.target}: {text}: use an empty target. Or, if its rows have all changes "
            "up to an LSN, name that once"
        )
        return self.error(
            text,
            code=code,
            advice=" with ",
            remedies=(Remedy("resume_from", code="LSN"),),
        )

    def _other_mode(self, token: Token) -> ApplyError:
        text = (
            f'{self.target}: it is a target with mode="{token.mode}", and this call is for '
            f'mode="{self.rules.mode}": use another target'
        )
        return self.error(
            text,
            code="other_mode",
            advice=", or go on with ",
            remedies=(Remedy("mode", None, token.mode),),
        )

    def has_gap(self, start: Lsn) -> bool:
        """Whether transactions may be missing between a target's rows and the log."""
        begin = self.contents.log.slot_start
        return begin is not None and 0 < start < begin

    def lacks_erasure(self, token: Token) -> bool:
        """Whether rows or columns were erased from the log that a target may still have.

        A current table has taken the deletes of the rows.
        """
        mode, source = self.rules.mode, self.contents.log.source
        if mode == "current" or token.mode != mode:
            return False
        if (token.source, token.oid) != (source, self.table.oid):
            # The changes of these rows are elsewhere.
            return False
        count = self.contents.erasures.get(self.table.oid, 0)
        # A log without any may have been begun after the target followed another log's.
        return count > 0 and token.erasures != count

    def refuse_gap(self, start: Lsn, batch: Batch) -> None:
        """Refuses a log that begins after the target's rows, unless they are replaced anyway."""
        begin = self.contents.log.slot_start
        if not self.has_gap(start) or batch.barrier is not None:
            return
        log = self.contents.log.location
        remedy = f"Load the table: walrow load {log} {self.table.name}"
        if self.rules.mode == "changes":
            # A load gives the rows, and not the changes.
            remedy = "Use another target"
        text = (
            f"{self.target}: it has the changes up to {start}, and the log those from "
            f"{begin} on, where its slot was when the log was begun: what was committed "
            f"between may be missing. {remedy}"
        )
        raise self.error(text, code="not_received")

    def refuse_erased(self, start: Lsn, batch: Batch) -> None:
        """Refuses a target that lacks changes which were erased, unless its rows are replaced.

        A delete may be among them. The caller has removed the rows if it says where to go on.
        """
        if (
            not self._lacks_erased(start)
            or batch.barrier is not None
            or self.rules.resume_from == start
            or self.rules.mode != "current"
        ):
            # A target that is no current table loses what the log no longer has.
            return
        raise ApplyError(
            f"{self.target}: it has the changes up to {start}, and later ones, up to "
            f"{self.contents.erased[self.table.oid]}, were erased from the log: it may keep "
            f"rows that were deleted. Load the table: walrow load "
            f"{self.contents.log.location} {self.table.name}. Or delete the erased rows in "
            "the target, too, and go on once",
            code="erased",
            table=self.table.name,
            target=self.target,
            advice=" with ",
            remedies=(Remedy("resume_from", None, str(start)),),
        )

    def refuse_erased_meanwhile(self) -> None:
        """Refuses changes if some were erased while they were read."""
        oid, log = self.table.oid, self.contents.log
        now = counts(read_erasures(log.read_object))
        if log._log.erased().get(oid) == self.contents.erased.get(oid) and (
            self.rules.mode == "current"
            or now.get(oid) == self.contents.erasures.get(oid)
        ):
            return
        text = (
            f"{self.target}: changes of {self.table.name} were erased from the log while "
            "they were read: call it again"
        )
        raise self.error(text, code="conflict")

    def _lacks_erased(self, start: Lsn) -> bool:
        return 0 < start < self.contents.erased.get(self.table.oid, 0)

    def refuse_another(self, found: Found | None, batch: Batch) -> None:
        """Refuses a table that was created again, unless its rows are replaced anyway."""
        token = found.token if found is not None else None
        if (
            token is None
            or token.oid == self.table.oid
            or self.rules.resume_from is not None
        ):
            return
        name = self.table.name
        if token.table != name:
            text = (
                f"{self.target}: it has the rows of {token.table}, and not of {name}: "
                "use another target"
            )
        else:
            text = (
                f"{self.target}: it has rows of the table with the OID {token.oid}, and the name "
                f"{name} now means another table, with the OID {self.table.oid}. "
            )
            if self.rules.mode != "current":
                text += "Use another target"
            elif batch.barrier is None:
                text += f"Load it: walrow load {self.contents.log.location} {name}"
            else:
                return
        raise self.error(text, code="other_table")

    def refuse_other_rows(
        self, found: Found | None, applied: AppliedTable, batch: Batch
    ) -> None:
        """Refuses options that would need other rows in the target."""
        token = found.token if found is not None else None
        if token is None or (
            batch.barrier is not None and self.rules.deletes == "apply"
        ):
            # They are replaced.
            return
        text, column = "", None
        if token.deleted_column not in {None, self.rules.deleted_column} or (
            token.deleted_column is not None and self.rules.deletes != "soft"
        ):
            column = token.deleted_column
            text = f"column {column} marks the rows that were deleted so far: keep that. Or"
        elif token.columns is not None and batch.barrier is None:
            added = [it for it in applied.columns if it not in token.columns]
            earlier = (
                self.contents.columns_until(self.table.oid, token.end) if added else ()
            )
            column = next((name for name in added if name in earlier), None)
            text = (
                f"column {column} was left out so far, and its values are not known. Or"
            )
        if column is not None:
            raise self._other_rows(text, column)

    def refuse_other_kind(self, known: Collection[str], found: Found) -> None:
        """Refuses rows that are no versions or changes: they would be among those for good.

        The `known` columns are in lower case.
        """
        mode = self.rules.mode
        lacking = (it for it in beside(mode).names if it.lower() not in known)
        column = next(lacking, None)
        if column is None or found.is_empty:
            return
        text = (
            f'{self.target}: it has rows, and lacks column {column} of a target with mode="{mode}": '
            "use another target"
        )
        raise self.error(text, code="other_mode", column=column)

    def refuse_dropped(
        self,
        known: Collection[str],
        token: Token | None,
        applied: AppliedTable,
        batch: Batch,
    ) -> None:
        """Refuses a target that lacks a column although its rows had values for it.

        The `known` columns are in lower case.
        """
        if batch.barrier is not None:
            # The values come from there.
            return
        # A column that the server has dropped has no values that could be missed.
        current = {it.name for it in self.table.versions[-1].columns}
        lacking = [it for it in applied.columns if it.lower() not in known]
        lacking = [name for name in lacking if name in current]
        earlier: set[str] = set()
        if lacking:
            earlier |= self.contents.columns_until(self.table.oid, batch.start)
        marker = token.deleted_column if token is not None else None
        if marker is not None and marker.lower() not in known:
            lacking.append(marker)
            earlier.add(marker)
        column = next((name for name in lacking if name in earlier), None)
        if column is None:
            return
        text = (
            f"it lacks column {column}, which was dropped there, and the values of its "
            "rows are not known:"
        )
        if column == marker:
            raise self._other_rows(text, column)
        raise self._other_rows(
            text, column, advice="; or leave it out with ", remedies=(COLUMNS,)
        )

    def _other_rows(self, text: str, column: str, **advice: Any) -> ApplyError:
        """The error of a target whose rows lack what a column would need."""
        text = f"{self.target}: {text} use a new target"
        if self.rules.mode == "current":
            # A load replaces the rows of no other target.
            log = self.contents.log.location
            text += f", or load the table: walrow load {log} {self.table.name}"
        return self.error(
            text,
            code="other_options",
            column=column,
            **advice,
        )


def _other_keys(token: Token, keys: tuple[str, ...]) -> str:
    return (
        f"its rows were found by ({', '.join(token.keys)}) so far, not by "
        f"({', '.join(keys)})"
    )


#: All drivers that find an empty target write the same line, so that one of them is first.
_FIRST_LINE = "0"
