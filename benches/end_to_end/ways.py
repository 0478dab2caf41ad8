"""The ways from a server to a Delta table: how each one is prepared and started."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psycopg

import walrow

if TYPE_CHECKING:
    from collections.abc import Sequence

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parent.parent
#: Here maven puts the program and its jars.
JARS = _ROOT / "target/bench/debezium"


class Server(NamedTuple):
    """Where the server is, and its programs."""

    port: int
    bin: Path

    @property
    def dsn(self) -> str:
        """The connection string."""
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"


class Way:
    """A way. It has a slot, a directory, and a table there, which all phases share.

    Attributes:
        name: Its name.
        plugin: The output plugin of its slot.
    """

    name: str
    plugin = "pgoutput"

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.table = folder / "table"
        self.slot = self.name.replace(" ", "_").replace(",", "").lower()
        folder.mkdir()

    @classmethod
    def missing(cls, server_bin: Path) -> str | None:
        """Names a program that is not installed. None if all are there."""
        del server_bin

    def prepare(self) -> None:
        """Makes the slot, before there are rows."""
        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            self._allow_plugin(connection)
            connection.execute(
                "SELECT pg_create_logical_replication_slot(%s, %s)",
                [self.slot, self.plugin],
            )

    def _allow_plugin(self, connection: psycopg.Connection) -> None:
        """Names the plugin in the settings of servers whose users need that."""
        query = "SELECT setting FROM pg_settings WHERE name = 'output_plugin_libraries'"

        def named() -> list[str] | None:
            found = connection.execute(query).fetchone()
            return None if found is None else [it.strip() for it in found[0].split(",")]

        names = named()
        if names is None or self.plugin in names:
            return
        names = [*filter(None, names), self.plugin]
        connection.execute(
            f"ALTER SYSTEM SET output_plugin_libraries = {', '.join(names)}"
        )
        connection.execute("SELECT pg_reload_conf()")
        # The server reads its settings some time after the call.
        while self.plugin not in (named() or []):
            time.sleep(0.05)

    def commands(self) -> Sequence[Sequence[str]]:
        """Programs in a row: each reads the output of the program before it."""
        raise NotImplementedError


class WalrowRun(Way):
    """The ordinary way: one command keeps all tables current."""

    name = "walrow run"

    def prepare(self) -> None:
        """Writes the file, and makes the log with its slot."""
        (self.folder / "run.toml").write_text(f"""
[source]
dsn = "{self.server.dsn}"
slot = "{self.slot}"
publications = ["orders"]
create = true

[log]
path = "log"
publish_after = "0.5s"

[[target]]
tables = ["public.orders"]
to = "delta:./table"
every = "1s"
""")
        walrow.receive(
            self.server.dsn,
            log=self.folder / "log",
            slot=self.slot,
            publications="orders",
            create=True,
            until="now",
        )

    def commands(self) -> Sequence[Sequence[str]]:
        """One program, which starts two."""
        return [[sys.executable, "-m", "walrow", "run", str(self.folder / "run.toml")]]


class WalrowOnce(WalrowRun):
    """All there is, once: a receiver that ends, and then a call of `walrow apply`."""

    name = "walrow receive, apply"

    def commands(self) -> Sequence[Sequence[str]]:
        """Two programs, one after the other."""
        walrow_ = f'"{sys.executable}" -m walrow'
        script = (
            f'{walrow_} receive --dsn "$1" --slot "$2" --publication orders --log "$3"'
            f' --until now -q && {walrow_} apply "$3" --table public.orders --target "$4"'
        )
        log, target = str(self.folder / "log"), f"delta:{self.table}"
        return [
            ["/bin/sh", "-c", script, "sh", self.server.dsn, self.slot, log, target]
        ]


class Debezium(Way):
    """Debezium's embedded engine, whose JSON a script merges with delta-rs."""

    name = "Debezium"

    @classmethod
    def missing(cls, server_bin: Path) -> str | None:
        """Java and what maven makes."""
        del server_bin
        if shutil.which("java") is None:
            return "java"
        if not (JARS / "lines.jar").exists():
            return f"{JARS}/lines.jar: mvn package dependency:copy-dependencies"
        return None

    def prepare(self) -> None:
        """Makes the slot, and writes the engine's properties."""
        super().prepare()
        properties = {
            "name": "orders",
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": "127.0.0.1",
            "database.port": self.server.port,
            "database.user": "postgres",
            "database.password": "postgres",
            "database.dbname": "postgres",
            "topic.prefix": "bench",
            "plugin.name": "pgoutput",
            "slot.name": self.slot,
            "publication.name": "orders",
            "publication.autocreate.mode": "disabled",
            "table.include.list": "public.orders",
            "snapshot.mode": "no_data",
            "tombstones.on.delete": "false",
            "decimal.handling.mode": "string",
            "converter.schemas.enable": "false",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": self.folder / "offsets",
            "offset.flush.interval.ms": 1000,
            "max.batch.size": 16384,
            "max.queue.size": 65536,
        }
        lines = (f"{name}={value}\n" for name, value in properties.items())
        (self.folder / "engine.properties").write_text("".join(lines))

    def commands(self) -> Sequence[Sequence[str]]:
        """The engine, and the script."""
        options = ["-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        jars = f"{JARS}/lines.jar:{JARS}/lib/*"
        engine = ["java", *options, "-cp", jars, "Lines"]
        return [
            [*engine, str(self.folder / "engine.properties")],
            _script("debezium_to_delta.py", self.table),
        ]


class Wal2json(Way):
    """pg_recvlogical with wal2json, whose JSON a script merges with delta-rs."""

    name = "wal2json"
    plugin = "wal2json"

    @classmethod
    def missing(cls, server_bin: Path) -> str | None:
        """The plugin, beside the server."""
        if not (server_bin.parent / "lib/wal2json.so").exists():
            return "wal2json: apt install postgresql-15-wal2json"
        return None

    def commands(self) -> Sequence[Sequence[str]]:
        """The receiver, and the script."""
        options = {
            "format-version": 2,
            "include-transaction": "false",
            "include-types": "false",
            "add-tables": "public.orders",
        }
        receiver = [str(self.server.bin / "pg_recvlogical"), "--start", "--file=-"]
        receiver += [f"--dbname={self.server.dsn}", f"--slot={self.slot}"]
        receiver += ["--fsync-interval=1", "--status-interval=1"]
        receiver += [f"--option={name}={value}" for name, value in options.items()]
        return [receiver, _script("wal2json_to_delta.py", self.table)]


def _script(name: str, table: Path) -> list[str]:
    return [sys.executable, str(_HERE / name), str(table)]


WAYS = (WalrowRun, WalrowOnce, Debezium, Wal2json)
