"""Errors of executors, which Spark hands on as text, as what they were."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from walrow import errors
from walrow._late import pa
from walrow._lsn import Lsn
from walrow.errors import Error, Remedy


def task(
    function: Callable[..., Iterator[pa.RecordBatch]], *given: Any
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`, which gets the batches last. Its errors reach the driver whole."""
    return partial(_reporting, function, given)


def _reporting(
    function: Callable[..., Iterator[pa.RecordBatch]],
    given: tuple[Any, ...],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    try:
        yield from function(*given, batches)
    except Error as error:
        report(error)
        raise


def report(error: Error) -> None:
    """Adds a line for the driver to the text of an error in an executor."""
    parts = {**vars(error), "kind": type(error).__name__}
    error.add_note(_MARK + json.dumps(parts, default=str))


def spark_errors() -> tuple[type[Exception], ...]:
    """What PySpark raises if a job fails: by itself, under Connect, and from the JVM as it is."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ImportError:
        # PySpark for Connect alone has no Py4J.
        return (PySparkException,)
    return PySparkException, Py4JError


def from_executor(error: BaseException) -> Error | None:
    """The error of walrow's that ended a task. None if it was another one.

    Outside of `Reporting`, only its class and its text are known.
    """
    text = str(error)
    for reported in _REPORTED.findall(text):
        # A value of the user's may look like that.
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return _whole(json.loads(reported))
    if raised := _RAISED.findall(text):
        kind, reason = raised[-1]
        return _made(kind, reason=reason.strip())
    return None


def _whole(parts: dict[str, Any]) -> Error | None:
    remedies = (Remedy(*map(_unlisted, it)) for it in parts.pop("remedies"))
    lsns = {"lsn", "position"} & parts.keys()
    parts |= {it: Lsn(parts[it]) for it in lsns if parts[it] is not None}
    return _made(parts.pop("kind"), remedies=tuple(remedies), **parts)


def _unlisted(value: Any) -> Any:
    """JSON has no tuples."""
    return tuple(value) if isinstance(value, list) else value


def _made(name: str, **parts: Any) -> Error | None:
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, Error):
        return kind(**parts)
    return None


_MARK = "for the driver: "
_REPORTED = re.compile(rf"^{_MARK}(\{{.*\}})\s*$", re.MULTILINE)
_RAISED = re.compile(r"^walrow\.errors\.(\w+): (.*)$", re.MULTILINE)
