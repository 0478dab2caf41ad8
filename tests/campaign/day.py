"""A day: one database with its log, on which steps act."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from unittest import mock

import psycopg

import walrow
from campaign.grammar import watch
from campaign.steps import Fault, wrapped
from servers.receiving import drop_if_there

if TYPE_CHECKING:
    from campaign.delta import DeltaTarget
    from campaign.followers import Follower
    from campaign.oracle import Past
    from campaign.readers import Following
    from campaign.target import Target
    from servers import EmbeddedServer


class Looked(NamedTuple):
    """The result of a look of the receiver.

    Attributes:
        refusal: Why it was refused. None if everything was received.
    """

    refusal: walrow.Error | None


class Day:
    """One database, with its publication `p`, its slot and its log.

    Attributes:
        server: The server, which other days use later.
        log: The log's directory.
        publication: `named`, `all` or `schema`.
        whole: The OIDs of tables that were the server's at the last look.
        is_risky: Whether something has happened since that may need a load.
        risky: The OIDs of tables that an event since may have left in need of a load.
        renamed: The OIDs of tables whose columns got other names: older changes have the names of then.
        partitions: Each partition with its parent: at the last look, and now.
        blind: The OIDs of tables that had a partition between two looks only. Looks do not show that.
        is_told: Whether the event trigger shows everything.
        born: The OIDs of tables that were published when they were created, since that look.
        focus: The table that the last statement was about.
        undo: Statements that undo the last ones, the table and the values of its slots.
        script: All steps, as SQL and comments.
        erased: For each OID, the columns and the values of `id` that were erased.
        past: The tables that were the server's at each look.
        archive: The order of all changes that the log ever had: LSN and seq.
        follower: The registered reader `r`.
        targets: Tables in a lake that follow, by their name here.
        followers: Targets of the public functions, by the table's name and the mode.
        spark: The session for Delta tables. None: targets are in memory.
    """

    def __init__(self, server: EmbeddedServer, spark: Any = None) -> None:
        """Makes the database."""
        self.server = server
        self.spark = spark
        self._stack = contextlib.ExitStack()
        root = self._stack.enter_context(
            tempfile.TemporaryDirectory(prefix="walrow-day-")
        )
        self.directory = Path(root)
        self.log = self.directory / "log"
        self.slot = f"s_{uuid.uuid4().hex[:12]}"
        self._connection: psycopg.Connection[Any] | None = None
        self._receiver: _Running | None = None
        self.publication = "all"
        self.counter = 10
        self.whole: set[int] = set()
        self.is_risky = False
        self.risky: set[int] = set()
        self.partitions: tuple[set[tuple[int, int]], set[tuple[int, int]]] = (
            set(),
            set(),
        )
        self.blind: set[int] = set()
        self.is_told = False
        self.born: set[int] = set()
        self.renamed: set[int] = set()
        self.focus = 0
        self.undo: list[tuple[str, int, dict[str, str]]] = []
        self.script: list[str] = []
        self._together: tuple[int, list[str]] | None = None
        self.erased: dict[int, tuple[set[str], set[str]]] = {}
        self.past: list[Past] = []
        self.archive: list[tuple[int, int]] = []
        self.archived = walrow.Lsn(0)
        self.follower: Following | None = None
        self.targets: dict[str, Target | DeltaTarget] = {}
        self.followers: dict[tuple[str, int], Follower] = {}
        self.prepared: list[str] = []
        self.loses_changes = False
        self._copies = 0
        self.database = self._stack.enter_context(server.database("day"))
        self._stack.callback(self._clean)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stack.close()

    @property
    def dsn(self) -> str:
        """The database."""
        return self.server.dsn_of(self.database)

    def _clean(self) -> None:
        self.down()
        if self.follower is not None:
            self.follower.close()
        for name in self.prepared:
            self.attempt(f"ROLLBACK PREPARED '{name}'")
        self.disconnect()
        drop_if_there(self.server.dsn, self.slot)

    def disconnect(self) -> None:
        """Closes the day's own connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._together = None

    def sql(self, *statements: str) -> list[Any]:
        """Runs statements. Returns the rows of the last one."""
        connection = self._connection
        if connection is None or connection.closed:
            connection = self._connection = psycopg.connect(
                self.dsn,
                autocommit=True,
                options=f"{walrow.postgres.options()} -c lock_timeout=300ms -c search_path=public",
            )
            connection.add_notice_handler(lambda _: None)
        for statement in statements:
            cursor = connection.execute(statement.encode(), prepare=False)
            if self._together is None and not is_query(statement):
                self.script.append(f"{_shortened(statement)};")
        return cursor.fetchall() if cursor.description else []

    def attempt(self, *statements: str) -> bool:
        """Runs statements until the server refuses one. False if it does."""
        try:
            for statement in statements:
                self._one(statement)
        except psycopg.Error:
            return False
        return True

    def ask(self, query: str) -> list[Any]:
        """The rows of a query. None if the server refuses it."""
        try:
            return self._one(query)
        except psycopg.Error:
            return []

    def _one(self, statement: str) -> list[Any]:
        if self._together is None:
            return self.sql(statement)
        self.sql("SAVEPOINT one")
        try:
            found = self.sql(statement)
        except psycopg.Error:
            self.sql("ROLLBACK TO one")
            raise
        self.sql("RELEASE one")
        if not is_query(statement):
            self._together[1].append(statement)
        return found

    def begin_together(self, how: int) -> None:
        """The statements from here on are tried, to be run together."""
        self.end_together()
        self.sql("SELECT")
        self._together = (how, [])
        self.sql("BEGIN")

    @property
    def is_together(self) -> bool:
        """Whether statements are tried, to be run together."""
        return self._together is not None

    def end_together(self) -> None:
        """The statements that the server has accepted are run together."""
        if self._together is not None:
            how, statements = self._together
            self.sql("ROLLBACK")
            self._together = None
            # The trial's partitions are no longer there.
            self.partitions = (self.partitions[0], self.partitions[0])
            if statements and not self.attempt(
                *wrapped(how, statements, f"{self.slot}_{self.number()}")
            ):
                self.attempt("ROLLBACK")
            watch(self)

    @property
    def is_partial(self) -> bool:
        """Whether the publication leaves out some kinds of changes."""
        return bool(
            self.sql(
                "SELECT 1 FROM pg_publication WHERE pubname = 'p' AND NOT "
                "(pubinsert AND pubupdate AND pubdelete AND pubtruncate)"
            )
        )

    def number(self) -> int:
        """A new number."""
        self.counter += 1
        return self.counter

    # Receiving.

    def receive(self, **options: Any) -> Looked:
        """Receives everything that is committed now, in this process."""
        end = threading.Event()
        found: list[BaseException | None] = []

        def work() -> None:
            try:
                walrow.receive(
                    self.dsn,
                    log=self.log,
                    slot=self.slot,
                    publications="p",
                    until="now",
                    stop=end,
                    **options,
                )
                found.append(None)
            except BaseException as error:
                found.append(error)

        thread = threading.Thread(target=work, daemon=True)
        # A slot that stays in use is an error before the time is over.
        with mock.patch("walrow._receive.attempts.BUSY_SECONDS", 5.0):
            thread.start()
            thread.join(LOOK_SECONDS)
        if thread.is_alive():
            end.set()
            thread.join(10)
            text = f"receive(until='now') has no end within {LOOK_SECONDS} s"
            raise Fault(text)
        (error,) = found
        if error is not None and not isinstance(error, walrow.Error):
            raise error
        return Looked(error)

    def up(self) -> None:
        """Starts a receiver that runs on, unless one does."""
        if self._receiver is None:
            self._receiver = _Running(self)

    def down(self) -> None:
        """Stops it."""
        if self._receiver is not None:
            self._receiver.stop()
            self._receiver = None

    @property
    def is_up(self) -> bool:
        """Whether a receiver was started, and not stopped."""
        return self._receiver is not None

    def wait_for_receiver(self) -> None:
        """Waits until the running receiver has confirmed all commits, or has ended."""
        if self._receiver is not None:
            self._receiver.wait()

    # The server's files.

    def copy_server(self) -> None:
        """Stops the server, copies its files, and starts it again."""
        self.disconnect()
        self.server.shut_down("fast")
        self._remove_copy()
        _copy(self.server.data_directory, self._copy)
        self.server.start()
        self._copies += 1
        if self._copies == 1:
            self._stack.callback(self._remove_copy)

    def set_back(self) -> None:
        """Puts the server's files back as they were at the last copy."""
        self.disconnect()
        self.server.shut_down("immediate")
        shutil.rmtree(self.server.data_directory)
        _copy(self._copy, self.server.data_directory)
        self.server.start()

    @property
    def has_copy(self) -> bool:
        """Whether there is a copy."""
        return self._copies > 0

    @property
    def _copy(self) -> Path:
        return self.directory / "server"

    def _remove_copy(self) -> None:
        shutil.rmtree(self._copy, ignore_errors=True)


class _Running:
    """A receiver in a thread."""

    def __init__(self, day: Day) -> None:
        self._day = day
        self._stop = threading.Event()
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.wait()

    def _run(self) -> None:
        try:
            walrow.receive(
                self._day.dsn,
                log=self._day.log,
                slot=self._day.slot,
                publications="p",
                publish_after=0.1,
                stop=self._stop,
            )
        except BaseException as error:
            self.error = error

    def wait(self) -> None:
        """Until all is confirmed, or it has ended, or for some seconds."""
        deadline = time.monotonic() + _CONFIRM_SECONDS
        try:
            ((end,),) = self._day.sql("SELECT pg_current_wal_flush_lsn()::text")
            while self._thread.is_alive() and time.monotonic() < deadline:
                if self._day.sql(
                    "SELECT 1 FROM pg_replication_slots WHERE slot_name = "  # noqa: S608
                    f"'{self._day.slot}' AND active AND confirmed_flush_lsn >= '{end}'"
                ):
                    return
                time.sleep(0.02)
        except psycopg.Error:
            return

    def stop(self) -> None:
        """Stops it, and waits."""
        self._stop.set()
        self._thread.join(20)
        if self._thread.is_alive():
            text = "a receiver that was stopped has no end within 20 s"
            raise Fault(text)
        if self.error is not None and not isinstance(self.error, walrow.Error):
            raise self.error


def is_query(statement: str) -> bool:
    """Whether it changes nothing."""
    return statement.lstrip().startswith(("SELECT", "WITH", "SET "))


def _shortened(statement: str) -> str:
    return statement if len(statement) < 400 else f"{statement[:396]} ..."


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["/bin/cp", "-a", source, target], check=True)  # noqa: S603


#: Many times what a look takes on a machine that does much else.
LOOK_SECONDS = 60.0
_CONFIRM_SECONDS = 3.0
