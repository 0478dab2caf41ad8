"""Walrow's exceptions: one class tree, picklable, with attributes for all details.

```text
Error
├── DecodeError (ValueError)        bytes or values cannot be read
│   └── UnrepresentableError        the column's Arrow type cannot hold a value
├── SchemaError (ValueError)        a table, column or type does not match the request
├── OptionError (ValueError)        options are invalid or contradict each other
├── SettingError (ValueError)       a session's setting changes the text of values
├── SpoolError                      open transactions cannot be stored on disk or read
├── LogError                        a segment log cannot be read or written
└── ReplicationError                the server reported an error, with its SQLSTATE
```

No exception contains a user's data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from walrow.lsn import Lsn

__all__ = [
    "DecodeError",
    "Error",
    "LogError",
    "OptionError",
    "ReplicationError",
    "SchemaError",
    "SettingError",
    "SpoolError",
    "UnrepresentableError",
]


def _rebuild(kind: type[Error], text: str, attributes: dict[str, Any]) -> Error:
    return kind(text, **attributes)


class Error(Exception):
    """Base class of walrow's own errors."""

    def __init__(self, text: str = "", **attributes: Any) -> None:
        """Stores the text and the attributes of the class."""
        super().__init__(text)
        self.__dict__.update(attributes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles text and attributes."""
        return _rebuild, (type(self), str(self), dict(self.__dict__))


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

    offset: int | None
    lsn: Lsn | None
    message: str | None
    field: str | None
    table: str | None
    column: str | None

    def __init__(
        self,
        text: str = "",
        *,
        offset: int | None = None,
        lsn: Lsn | None = None,
        message: str | None = None,
        field: str | None = None,
        table: str | None = None,
        column: str | None = None,
        **attributes: Any,
    ) -> None:
        """Stores the position of the error."""
        super().__init__(
            text,
            offset=offset,
            lsn=lsn,
            message=message,
            field=field,
            table=table,
            column=column,
            **attributes,
        )


class UnrepresentableError(DecodeError):
    """A value that the column's Arrow type cannot hold.

    Attributes:
        option: The option that lets the value through.
    """

    option: str | None

    def __init__(
        self, text: str = "", *, option: str | None = None, **attributes: Any
    ) -> None:
        """Stores the option."""
        super().__init__(text, option=option, **attributes)


class SchemaError(Error, ValueError):
    """A table, its columns or their types do not match the request.

    Attributes:
        table: The table, as `schema.name`.
        column: The column.
    """

    table: str | None
    column: str | None

    def __init__(
        self,
        text: str = "",
        *,
        table: str | None = None,
        column: str | None = None,
        **attributes: Any,
    ) -> None:
        """Stores the table and the column."""
        super().__init__(text, table=table, column=column, **attributes)


class OptionError(Error, ValueError):
    """Options that are invalid or contradict each other."""


class SettingError(Error, ValueError):
    """A setting of a session changes the text of values or loses a part of them.

    Attributes:
        setting: The setting's name.
        value: Its value, as SHOW writes it.
        wanted: The required value.
    """

    setting: str | None
    value: str | None
    wanted: str | None

    def __init__(
        self,
        text: str = "",
        *,
        setting: str | None = None,
        value: str | None = None,
        wanted: str | None = None,
        **attributes: Any,
    ) -> None:
        """Stores the setting and both values."""
        super().__init__(
            text, setting=setting, value=value, wanted=wanted, **attributes
        )


class SpoolError(Error):
    """Open transactions cannot be written to disk or read from it.

    Batches returned before the error stay valid, and `position` shows how far they go.

    Attributes:
        errno: The operating system's error number, such as `errno.ENOSPC` for a full
            disk.
    """

    errno: int | None

    def __init__(
        self, text: str = "", *, errno: int | None = None, **attributes: Any
    ) -> None:
        """Stores the operating system's error number."""
        super().__init__(text, errno=errno, **attributes)


class LogError(Error):
    """A segment log cannot be read or written."""


class ReplicationError(Error):
    """The server reported an error.

    Attributes:
        sqlstate: The server's error code.
    """

    sqlstate: str | None

    def __init__(
        self, text: str = "", *, sqlstate: str | None = None, **attributes: Any
    ) -> None:
        """Stores the server's error code."""
        super().__init__(text, sqlstate=sqlstate, **attributes)
