"""Sessions with a caller's settings, and with settings that the caller lacks.

Names and texts in SQL have one meaning in them, whatever the caller's settings are: `quoted` and
`literal` of `targets/sql.py` rely on that.
"""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Iterator
from typing import Any, Self

from walrow.errors import OptionError


class OwnSessions:
    """Clones of a session. Each has one user at a time, and at the end all are released.

    A clone costs requests to the server under Spark Connect, and to a catalog that it is the
    first to use. So there are as many as threads, and not as many as targets.
    """

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._free: list[Any] = []
        self._ends = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._ends.enter_context(_kept_active(self._spark))
        return self

    def __exit__(self, *_: object) -> None:
        while self._free:
            _release(self._free.pop())
        self._ends.close()

    @contextlib.contextmanager
    def one(self) -> Iterator[Any]:
        """A session that only this thread uses meanwhile."""
        try:
            session = self._free.pop()
        except IndexError:
            session = _clone(self._spark)
        try:
            with _active(session):
                yield session
        except BaseException:
            # A call that failed may have left settings.
            _release(session)
            raise
        self._free.append(session)


@contextlib.contextmanager
def own_session(spark: Any) -> Iterator[Any]:
    """A clone of a session, until the end of the block."""
    session = _clone(spark)
    try:
        with _kept_active(spark), _active(session):
            yield session
    finally:
        _release(session)


def parallelism(session: Any) -> int:
    """How many tasks run at once, as far as it is known."""
    try:
        return int(session.sparkContext.defaultParallelism)
    except Exception:
        return _TASKS


def computed_once(session: Any, frame: Any) -> Any:
    """Computes a DataFrame at its first use only. Delta's MERGE refuses cached ones."""
    found = frame.localCheckpoint(eager=False)
    if hasattr(found, "_plan"):
        # Under Connect, PySpark assumes that the active session has it.
        found._session = found._plan._spark_session = session
    return found


def check_session(spark: Any) -> None:
    """Accepts only a session, of Spark 4.0 or later.

    Raises:
        OptionError: It is something else.
    """
    import pyspark

    if int(pyspark.__version__.partition(".")[0]) < _OLDEST:
        text = f"this needs Spark 4.0 or later, and PySpark is {pyspark.__version__}"
        raise OptionError(text)
    if not (hasattr(spark, "newSession") or hasattr(spark, "cloneSession")):
        raise OptionError(f"spark must be a SparkSession, not {type(spark).__name__}")


def _clone(spark: Any) -> Any:
    check_session(spark)
    if _is_remote(spark):
        if not hasattr(spark, "cloneSession"):
            raise OptionError("under Spark Connect, this needs Spark 4.1 or later")
        session = spark.cloneSession()
    else:
        clone = spark._jsparkSession.cloneSession()
        session = type(spark)(spark.sparkContext, clone)
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    return session


@contextlib.contextmanager
def _active(session: Any) -> Iterator[None]:
    """Makes a session the active one of this thread.

    Functions that take the name of a table, such as `session.table`, parse it with the settings of the
    active session. A server of Spark Connect makes each session the active one itself.
    """
    if _is_remote(session):
        yield
        return
    sessions = session._get_j_spark_session_class(session._jvm)
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        # After an interruption, Java may be gone.
        with contextlib.suppress(Exception):
            if before.isDefined():
                sessions.setActiveSession(before.get())
            else:
                sessions.clearActiveSession()


@contextlib.contextmanager
def _kept_active(spark: Any) -> Iterator[None]:
    """Lets PySpark forget a clone that has made a DataFrame, which it takes for the active one."""
    if _is_remote(spark):
        yield
        return
    kind = type(spark)
    before = kind._activeSession
    try:
        yield
    finally:
        kind._activeSession = before


def _release(session: Any) -> None:
    """Ends a clone on a server of Spark Connect. One in this process is garbage.

    `session.stop()` would end a server in this process, too.
    """
    if not _is_remote(session):
        return
    from pyspark.errors import PySparkException

    client = session.client
    # The work is done, whether or not the server can still be reached.
    with contextlib.suppress(PySparkException):
        client.release_session()
    client.close()
    # PySpark would keep the client until this process ends.
    with contextlib.suppress(AttributeError):
        atexit.unregister(client._cleanup_ml_cache)


def _is_remote(session: Any) -> bool:
    """Whether it is one of Spark Connect."""
    return not hasattr(session, "_jsparkSession")


_TASKS = 8
_OLDEST = 4
#: Settings on which the meaning of SQL depends, as they are in a clone.
_SETTINGS = {
    # By default, Spark writes a type that deltalake reads wrongly before 1677 and after 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.variable.substitute": "false",
}
