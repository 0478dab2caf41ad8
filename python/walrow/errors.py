"""Walrow's exceptions: one class tree, picklable, with attributes for all details.

```text
Error
├── DecodeError (ValueError)        bytes or values cannot be read
│   └── UnrepresentableError        the column's Arrow type cannot hold a value
├── UnfinishedError                 the stream ends inside a frame or a transaction
├── SchemaError (ValueError)        a table, column or type does not match the request
├── OptionError (ValueError)        options are invalid or contradict each other
├── SettingError (ValueError)       a session's setting changes the text of values
├── SpoolError                      open transactions cannot be stored on disk or read
├── LogError                        a segment log cannot be read or written
├── ApplyError                      changes cannot be applied to a table
├── TimeoutError (TimeoutError)     something did not happen in the time that was given
├── BackupError                     a backup cannot be written, is not complete, or was changed
└── ReplicationError                the server reported an error, or ended the stream with one
    └── ConnectionLostError         the connection ended, or the server does not answer
```

No exception contains a user's data. If other options avoid the error, `remedies` has them.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, dataclass_transform

from walrow._late import listed
from walrow._lsn import Lsn

__all__ = [
    "ApplyError",
    "BackupError",
    "ConnectionLostError",
    "DecodeError",
    "Error",
    "LogError",
    "OptionError",
    "Remedy",
    "ReplicationError",
    "SchemaError",
    "SettingError",
    "SpoolError",
    "TimeoutError",
    "UnfinishedError",
    "UnrepresentableError",
]

__dir__ = listed(__all__)


class Remedy(NamedTuple):
    """An option of the called function, or a step, that avoids an error.

    An option prints as a keyword argument. Errors of logs and streams also have steps, which
    print as words: `forget` with a reader as key, or `restore`.

    Attributes:
        option: The name of the option or step.
        key: The entry of the option, if it is a mapping: a column or a setting. The
            reader, table or LSN that a step is for.
        value: The value. None if you must choose another value yourself.
        code: The function that makes the value, if it is an object that only you can
            make.
    """

    option: str
    key: str | None = None
    value: str | int | tuple[str, ...] | None = None
    code: str | None = None

    def options(self) -> dict[str, Any]:
        """Returns the remedy as keyword arguments. Empty without a value."""
        if self.value is None:
            return {}
        return {self.option: self.value if self.key is None else {self.key: self.value}}

    @property
    def is_step(self) -> bool:
        """Whether it is a step, and not an option."""
        return self.option in _STEPS

    def __str__(self) -> str:
        """Writes the keyword argument, or the step in words."""
        if self.is_step:
            key = _literal(self.key or "")
            return _STEPS[self.option].format(name=key[1:-1], literal=key)
        if self.value is None and self.code is None:
            return f"another {self.option}"
        value = _literal(self.value) if self.value is not None else self.code
        if self.option == "table" and isinstance(self.value, tuple):
            value = f"({', '.join(map(_literal, self.value))})"
        if self.key is None:
            return f"{self.option}={value}"
        return f"{self.option}={{{_literal(self.key)}: {value}}}"


# The steps in words. Rust has them as `walrow_log::Remedy` and `walrow_stream::Remedy`.
_STEPS = {
    "empty_directory": "choose an empty or new directory",
    "remove_file": "remove it from the log's directory",
    "later_version": "read it with that version",
    "receive_anew": "receive the log anew",
    "restore": "restore the file from a copy",
    "read_from": "read from {name} on, and load again what depends on earlier changes",
    "advance": "advance the reader {name}",
    "forget": "forget it with log.forget({literal})",
    "rewind": "rewind it to read changes again",
    "register": "register it first with log.register({literal})",
    "load": "load the table again",
    "marks": "see LogTable.marks",
    "one_table": "choose one of them",
    "erase_earlier_name": "erase the columns that the earlier version has instead of "
    "it, too",
    "decide": "commit it or roll it back, receive that, and try again",
    "where_it_is_written": "change it where its receiver writes it",
    "retry": "try again later",
    "stop_writer": "stop it first",
    "other_log": "use another log",
    "open_again": "open the log again",
    "put_back": "put back what was there, and start again",
    "older_first": "seal the captures into another log, the oldest first",
    "client_encoding": "set the walsender's client_encoding to UTF8; in a SQL_ASCII "
    "database, change the name",
    "DateStyle": "set the walsender's DateStyle to ISO",
    "IntervalStyle": "set the walsender's IntervalStyle to postgres",
    "earlier_start": "read from where its session begins",
    "new_session": "announce where the new session begins",
    "restore_prepared": "restore the prepared transactions of the session before",
}


def _literal(value: str | int | tuple[str, ...]) -> str:
    """Writes a value in printable Python, with double quotes around text."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if not isinstance(value, str):
        return repr(value)
    characters = [
        character
        if character.isprintable() and character not in '"\\'
        else '\\"'
        if character == '"'
        else character.encode("unicode_escape").decode()
        for character in value
    ]
    return f'"{"".join(characters)}"'


def _first(*, default: Any, kw_only: bool) -> Any:  # noqa: ARG001 - for type checkers
    return default


@dataclass_transform(kw_only_default=True, field_specifiers=(_first,))
class _Declared(Exception):  # noqa: N818 - not an error itself
    """An exception whose class attributes are the keyword arguments of its class."""


class Error(_Declared):
    """Base class of all errors of walrow.

    The text is the reason, then the remedies behind the advice, then the place.

    Attributes:
        reason: The problem, the table and the column.
        remedies: Options and steps that avoid the error, each by itself.
        advice: The words that lead from the reason to the remedies.
        place: The place in the stream, in words.
    """

    reason: str = _first(default="", kw_only=False)
    remedies: tuple[Remedy, ...] = ()
    advice: str = "; choose "
    place: str | None = None

    def __init__(self, reason: str = "", **attributes: Any) -> None:
        self.reason = reason
        self.__dict__.update(attributes)
        super().__init__(self.spelled(str))

    def spelled(self, spell: Callable[[Remedy], str | None]) -> str:
        """Returns the text with remedies in other words. None leaves one out."""
        spelled = [(each, found) for each in self.remedies if (found := spell(each))]
        steps = [found for each, found in spelled if each.is_step]
        options = [found for each, found in spelled if not each.is_step]
        if len(steps) > 1 and not options:
            steps[-1] = f"or {steps[-1]}"
        text = "; ".join([self.reason, *filter(None, [", ".join(steps)])])
        advice = f"{self.advice}{' or '.join(options)}" if options else ""
        place = f" ({self.place})" if self.place else ""
        return f"{text}{advice}{place}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the parts of the text and the attributes."""
        attributes = dict(self.__dict__)
        reason = attributes.pop("reason")
        return partial(type(self), **attributes), (reason,)


class DecodeError(Error, ValueError):
    """Bytes that do not follow the protocol, or are not a valid value of their type.

    Attributes:
        offset: The offset of the error in the source, in bytes.
        lsn: The LSN of the change or of its transaction's commit, as a `walrow.Lsn`.
        message: The name of the invalid message in PostgreSQL's manual.
        field: The field of that message.
        table: The table, as `schema.name`.
        column: The column.
    """

    offset: int | None = None
    lsn: Lsn | None = None
    message: str | None = None
    field: str | None = None
    table: str | None = None
    column: str | None = None


class UnrepresentableError(DecodeError):
    """A value that the column's Arrow type cannot hold. Remedies let it through."""


class UnfinishedError(Error):
    """The stream, or a session in it, ends inside a frame or a transaction.

    Or its compressed data is truncated. It is raised after the batches of all complete
    transactions. The option `unfinished="ignore"` takes these alone. `frames` and
    `messages` raise it only for a cut frame, after all complete frames.

    Attributes:
        offset: The end of the last complete frame, in bytes.
        position: The end LSN of the last complete transaction, as a `walrow.Lsn`.
    """

    offset: int | None = None
    position: Lsn | None = None


class SchemaError(Error, ValueError):
    """A table, its columns or their types do not match the request.

    Attributes:
        table: The table, as `schema.name`.
        column: The column.
    """

    table: str | None = None
    column: str | None = None


class OptionError(Error, ValueError):
    """Options that are invalid or contradict each other."""


class SettingError(Error, ValueError):
    """A setting of a session changes the text of values or loses a part of them.

    Attributes:
        setting: The setting's name.
        value: Its value, as SHOW writes it.
        wanted: The required value.
    """

    setting: str | None = None
    value: str | None = None
    wanted: str | None = None


class SpoolError(Error):
    """Open transactions cannot be written to disk or read from it.

    Batches returned before the error stay valid, and `position` shows how far they go.

    Attributes:
        errno: The operating system's error number, such as `errno.ENOSPC` for a full
            disk.
    """

    errno: int | None = None


class TimeoutError(Error, builtins.TimeoutError):  # noqa: A001 - it is one
    """Something did not happen in the time that was given, such as a load."""


class LogError(Error):
    """A log cannot be read or written.

    Attributes:
        code: The kind of error: `"not_a_log"`, `"foreign"` (a file that does not belong
            there), `"version"` (a later version of walrow wrote it), `"damaged"`,
            `"missing"` (a segment), `"pruned"` (changes were removed), `"gap"` (the server
            did not send changes),
            `"not_received"` (a query continues before the log begins), `"held"` (a reader
            or a load needs changes that would be removed or erased), `"no_reader"`,
            `"reader_name"`, `"backwards"` (a reader is past a position), `"past_end"` (the
            log does not reach a position), `"busy"` (another process changes segments or
            readers), `"read_only"` (the log is at a URL, or its file system is read only),
            `"locked"` (by another writer),
            `"published"` (another writer's segment), `"other_source"`, `"other_server"`,
            `"key_column"` (it cannot be erased), `"earlier_name"` (a column that would be
            erased may have had another name), `"prepared"` (a
            transaction is, so rows cannot be erased), `"load"` (a load is not possible
            there), `"copy"` (the rows of a load), `"store"` (the file system),
            `"not_synced"` (the contents of the disk are not known), or, of the rows of a
            table, `"no_table"`, `"ambiguous"` (two tables have the name), `"too_early"`
            (they are known only later), `"incomplete"` (the changes do not give them)
            or `"left"` (the table is not published any more).
        file: The name of the file in the log's directory.
        errno: The operating system's error number, such as `errno.ENOSPC` for a full
            disk.
        table: The table whose rows are not known, as `schema.name`.
        lsn: With `"too_early"`, from where on its rows are known. With `"gap"`, where it ends. With `"incomplete"`, the
            commit LSN of the transaction that does not give them, or where the receiver
            has noticed that the table needs a load.
    """

    code: str | None = None
    file: str | None = None
    errno: int | None = None
    table: str | None = None
    lsn: Lsn | None = None


class ApplyError(Error):
    """Changes cannot be applied to a target: see docs/applying.md and docs/net.md.

    Attributes:
        code: The problem: `"no_token"` (the target has rows, and does not record which
            changes they have), `"other_source"`, `"other_table"` (a table that was dropped
            and created again), `"other_mode"` (the target is of another kind), `"other_keys"`,
            `"other_options"` (they need other rows),
            `"older_log"` (it ends before the record), `"not_received"` (it begins after it),
            `"erased"` (changes after the record were erased from the log),
            `"restored"` (the target was set back), `"incomplete"` (the table needs a load),
            `"left"` (it is not published any more),
            `"never_sent"` (a value), `"null_key"`, `"duplicate_key"`, `"constraint"` (of the target),
            `"widening"` (a column needs a wider type, which Spark gives it if it is asked to),
            `"partition"` (a text that Delta's partitions cannot have), `"engine"` (only Spark keeps
            the target right), `"too_large"` (for the memory) or `"conflict"` (other writers were
            always first).
        table: The table, as `schema.name`.
        column: The column.
        target: The target, as it was given.
        lsn: The LSN in the log.
    """

    code: str | None = None
    table: str | None = None
    column: str | None = None
    target: str | None = None
    lsn: Lsn | None = None


class BackupError(Error):
    """A backup cannot be written, or is not as it should be: see docs/backup.md.

    Attributes:
        code: The problem: `"manifest"` (it cannot be used), `"damaged"` (files differ from
            the manifest), `"wal"` (WAL is missing, and without it the backup cannot be
            recovered), `"protocol"` (the server sent something else than a backup) or
            `"store"` (the file system). For a directory of WAL: `"gap"` (a segment is
            missing), `"size"` (a file is not as large as the server's segments),
            `"foreign"` (a file that does not belong there), `"other_server"`,
            `"diverged"` (a promoted server lacks WAL that is durable here) or `"locked"`
            (by another receiver).
        path: The file or directory.
        errno: The operating system's error number, such as `errno.ENOSPC` for a full
            disk.
    """

    code: str | None = None
    path: str | None = None
    errno: int | None = None


class ReplicationError(Error):
    """The server reported an error, or ended the stream with one.

    The latter is raised after the batches of all complete transactions. The option
    `unfinished="ignore"` takes these alone.

    Attributes:
        sqlstate: The server's error code. None if there was no connection.
        slot: The replication slot of the refused command.
        publication: The publication of the refused command.
        hint: The remedy.
        offset: The end of the last frame, in bytes, if the error ended a stream.
        position: The end LSN of the last complete transaction in it, as a `walrow.Lsn`.
    """

    sqlstate: str | None = None
    slot: str | None = None
    publication: str | None = None
    hint: str | None = None
    offset: int | None = None
    position: Lsn | None = None


class ConnectionLostError(ReplicationError):
    """The connection ended without an error of the server, or the server does not answer.

    Everything that arrived before was returned. Connect again: the server sends
    unconfirmed changes again.
    """
