"""The result of `verify_against`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from walrow._results import Result, result

if TYPE_CHECKING:
    from walrow._lsn import Lsn

__all__ = [
    "AgainstProgress",
    "ComparedTable",
    "Comparison",
    "Difference",
    "LeftOut",
    "TableResult",
]

#: `not comparable` says nothing about the backup, `unreadable` says that it is damaged.
TableResult: TypeAlias = Literal["equal", "different", "not comparable", "unreadable"]


@result
class AgainstProgress(Result):
    """How far a comparison is.

    Attributes:
        step: `copy`, `recovery` or `compare`.
        done: Bytes of the backup, seconds of the recovery, or tables.
        total: How many there are. None if that is not known.
        table: The table that is compared.
    """

    step: Literal["copy", "recovery", "compare"]
    done: float
    total: float | None
    table: str | None = None


@result
class Difference(Result):
    """A row that the backup and the log do not both have.

    Attributes:
        kind: `missing` if only the log has it, `extra` if only the backup has it, or
            `different` if its values differ.
        key: The texts of its key, by column. None if the table has no key.
        rows: The number of rows: 1, except without a key.
    """

    kind: Literal["missing", "extra", "different"]
    key: dict[str, str | None] | None
    rows: int


@result
class LeftOut(Result):
    """A column that was not compared.

    Attributes:
        column: The column.
        reason: Why.
    """

    column: str
    reason: str


@result
class ComparedTable(Result):
    """A table of the log, and of the backup.

    Attributes:
        name: Its name in the backup, as `schema.name`.
        oid: Its OID.
        result: `equal`, `different`, `not comparable` or `unreadable` (in the backup).
        reason: Why it is not comparable or unreadable.
        key: The columns of its key. Empty without one: then rows are counted.
        backup_rows: The number of rows in the backup. None if they were not read.
        log_rows: The number of rows in the log. None if they were not read.
        differences: The rows that differ, at most 100.
        has_more: Whether there are more.
        left_out: The columns that were not compared.
    """

    name: str
    oid: int
    result: TableResult
    reason: str | None = None
    key: tuple[str, ...] = ()
    backup_rows: int | None = None
    log_rows: int | None = None
    differences: tuple[Difference, ...] = ()
    has_more: bool = False
    left_out: tuple[LeftOut, ...] = ()


@result
class Comparison(Result):
    """The tables of a backup beside the states of a log: the result of `verify_against`.

    Attributes:
        backup: The backup's directory.
        log: The log's path or URL.
        database: The database.
        server_version: The version of the programs that recovered the backup.
        system_identifier: The server's.
        timeline: The timeline of the backup's end.
        lsn: The LSN of the comparison: up to where the backup was recovered.
        tables: The tables of the log.
        not_in_log: Tables of the backup that the log does not have.
        not_in_backup: Tables of the log that the backup should have, and has not.
        dropped: Tables of the log that the backup has not, and that are not published any
            more, or whose name another table has: they were dropped.
    """

    backup: str
    log: str
    database: str
    server_version: str
    system_identifier: str
    timeline: int
    lsn: Lsn
    tables: tuple[ComparedTable, ...]
    not_in_log: tuple[str, ...]
    not_in_backup: tuple[str, ...]
    dropped: tuple[str, ...]

    @property
    def compared(self) -> int:
        """The number of tables whose rows were compared."""
        return sum(table.result in ("equal", "different") for table in self.tables)

    @property
    def equal(self) -> bool:
        """Whether a table was compared, and no table differs, is unreadable or is missing."""
        results = {table.result for table in self.tables}
        is_whole = not self.not_in_backup and not results & {"different", "unreadable"}
        return is_whole and "equal" in results

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON has it."""
        return {"equal": self.equal} | Result.to_dict(self)
