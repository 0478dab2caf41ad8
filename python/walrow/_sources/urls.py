"""URLs, which fsspec opens. No message shows the credentials in one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from walrow._secrets import without_credentials
from walrow.errors import OptionError


def is_url(path: str) -> bool:
    """Whether fsspec opens a path."""
    return "://" in path


def fsspec_for(url: str) -> Any:
    """The package fsspec.

    Raises:
        OptionError: It is not installed.
    """
    try:
        import fsspec
    except ImportError:
        text = f"URLs need fsspec: pip install fsspec ({without_credentials(url)})"
        raise OptionError(text) from None
    return fsspec


@contextlib.contextmanager
def private(url: str) -> Iterator[None]:
    """Names the URL in errors, and replaces errors that may show its credentials."""
    try:
        yield
    except Exception as error:
        if not is_url(url):
            raise
        shown = without_credentials(url)
        hidden = shown != url and not isinstance(error, ImportError)
        reason = type(error).__name__ if hidden else str(error)
        text = f"{shown}: {reason}"
        kinds = (FileNotFoundError, PermissionError)
        kind = next((each for each in kinds if isinstance(error, each)), OSError)
        instead: Exception = kind(text)
        if isinstance(error, ValueError | ImportError):
            # The protocol is unknown, or its package is not installed.
            instead = OptionError(text)
        elif shown == url:
            raise
        try:
            raise instead from None
        finally:
            # Loggers may show it.
            instead.__context__ = None
