"""Walrow's exceptions: one tree, picklable, with attributes instead of text to parse.

```text
Error
├── DecodeError (ValueError)        bytes or values that cannot be read
│   └── UnrepresentableError        a value that the column's Arrow type cannot hold
├── SchemaError (ValueError)        a table, column or type is not what was asked for
├── OptionError (ValueError)        options that contradict each other
├── SettingError (ValueError)       a session's setting that changes the text of values
├── SpoolError                      open transactions found no place on disk
├── LogError                        a log of segments
└── ReplicationError                the server refused, with its SQLSTATE
```

No exception carries a value of a user's data.
"""

from __future__ import annotations

from typing import Any

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
    """Anything that walrow raises about its input."""

    def __init__(self, text: str = "", **attributes: Any) -> None:
        """Keeps the text, and the attributes that the class names."""
        super().__init__(text)
        self.__dict__.update(attributes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles text and attributes."""
        return _rebuild, (type(self), str(self), dict(self.__dict__))


class DecodeError(Error, ValueError):
    """Bytes that are not the protocol, or not a value of their type.

    Attributes:
        offset: Bytes of the source before the fault.
        lsn: The LSN of the change or of its transaction's commit.
        message: The message at fault, by the manual's name.
        field: The field of that message.
        table: The table, as `schema.name`.
        column: The column.
    """

    offset: int | None
    lsn: int | None
    message: str | None
    field: str | None
    table: str | None
    column: str | None

    def __init__(
        self,
        text: str = "",
        *,
        offset: int | None = None,
        lsn: int | None = None,
        message: str | None = None,
        field: str | None = None,
        table: str | None = None,
        column: str | None = None,
        **attributes: Any,
    ) -> None:
        """Keeps where the fault is."""
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
        option: The option that lets it through.
    """

    option: str | None

    def __init__(
        self, text: str = "", *, option: str | None = None, **attributes: Any
    ) -> None:
        """Keeps the way out."""
        super().__init__(text, option=option, **attributes)


class SchemaError(Error, ValueError):
    """A table, its columns or their types are not what was asked for.

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
        """Keeps which table and column."""
        super().__init__(text, table=table, column=column, **attributes)


class OptionError(Error, ValueError):
    """Options that contradict each other or name what there is not."""


class SettingError(Error, ValueError):
    """A session has a setting under which values lose something, or their text varies.

    Attributes:
        setting: The setting's name.
        value: Its value, as SHOW writes it.
        wanted: The value that it should have.
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
        """Keeps the setting and both values."""
        super().__init__(
            text, setting=setting, value=value, wanted=wanted, **attributes
        )


class SpoolError(Error):
    """Open transactions found no place on disk, or could not be read from there.

    What was handed out before stays valid, and `position` says how far that is.

    Attributes:
        errno: The operating system's number for it: `errno.ENOSPC` of a full disk.
    """

    errno: int | None

    def __init__(
        self, text: str = "", *, errno: int | None = None, **attributes: Any
    ) -> None:
        """Keeps the operating system's number."""
        super().__init__(text, errno=errno, **attributes)


class LogError(Error):
    """A log of segments that cannot be read or written on."""


class ReplicationError(Error):
    """The server refused.

    Attributes:
        sqlstate: The server's error code.
    """

    sqlstate: str | None

    def __init__(
        self, text: str = "", *, sqlstate: str | None = None, **attributes: Any
    ) -> None:
        """Keeps the server's error code."""
        super().__init__(text, sqlstate=sqlstate, **attributes)
