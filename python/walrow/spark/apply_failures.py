"""Errors of executors, which Spark hands on as text, as what they were."""

from __future__ import annotations

import re

from walrow import errors
from walrow.errors import ApplyError, Error

__all__ = ["from_executor", "spark_errors"]


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

    Its text and its class are those of the executor; of its attributes, only `code`.
    """
    found = list(_RAISED.finditer(str(error)))
    if not found:
        return None
    name, text = found[-1].groups()
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Error)):
        return None
    text = text.strip()
    if kind is ApplyError:
        codes = (code for words, code in _CODES.items() if words in text)
        return ApplyError(text, code=next(codes, None))
    return kind(text)


_RAISED = re.compile(r"^walrow\.errors\.(\w+): (.*)$", re.MULTILINE)
_CODES = {
    "is NULL in a change": "null_key",
    "several rows have one key": "duplicate_key",
}
