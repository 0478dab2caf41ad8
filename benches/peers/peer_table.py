"""The parsers that are compared, and how each is built and started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "benches" / "peers"
BUILT = ROOT / "target" / "peers"

#: A parser makes Arrow columns, messages with values of the language's own types, messages
#: with texts, or visits messages and keeps no results.
Makes = Literal["columns", "values", "texts", "visits"]

#: Not every parser reads binary cells, and transactions that are streamed before their
#: commit (protocol 2).
Feature = Literal["binary", "streamed"]


class BuildError(Exception):
    """A toolchain is missing, or a build failed."""


@dataclass(frozen=True)
class Peer:
    """A parser.

    Args:
        name: As in the results.
        language: The language of its users.
        makes: The form of its results.
        family: The build it comes from, a key of BUILDS.
        arguments: Its program and arguments, as the family starts them.
        reads: The features that it reads beyond text and protocol 1.
    """

    name: str
    language: str
    makes: Makes
    family: str
    arguments: tuple[str, ...]
    reads: frozenset[Feature] = field(default_factory=frozenset)


class Family(NamedTuple):
    """Parsers that are built together.

    Args:
        tools: The programs that the build and the run need.
        build: Makes the programs below BUILT.
        command: The start of their command lines.
    """

    tools: tuple[str, ...]
    build: Callable[[], None]
    command: tuple[str, ...]


_BINARY: frozenset[Feature] = frozenset({"binary"})
_ALL: frozenset[Feature] = frozenset({"binary", "streamed"})

#: Everything is compared with this one, in counts and in time.
REFERENCE = "walrow, RecordBatches"
#: All counts are compared with this one, which gives all of them.
COUNTED = "walrow, messages"
#: The cells of rows as the decoder visits them, without messages.
CELLS = "walrow, cells"
#: The measure without checks.
FLOOR = "floor, rows"

#: The captures that are compared by default: texts of each shape, binary cells, and transactions
#: that are streamed before their commit.
CAPTURES = ("narrow", "narrow.binary", "wide", "mixed", "pgbench", "tiny", "streamed")

PEERS = (
    Peer(REFERENCE, "Rust", "columns", "walrow", ("decode",), _ALL),
    Peer(
        "walrow, without metadata columns",
        "Rust",
        "columns",
        "walrow",
        ("own-columns",),
        _ALL,
    ),
    Peer(COUNTED, "Rust", "visits", "walrow", ("messages",), _ALL),
    Peer(CELLS, "Rust", "visits", "walrow", ("cells",), _ALL),
    Peer(FLOOR, "Rust", "columns", "walrow", ("floor",), _ALL),
    Peer("floor, walk", "Rust", "visits", "walrow", ("floor-walk",), _ALL),
    Peer(
        "walrow.read", "Python", "columns", "python", ("walrow_peer.py", "read"), _ALL
    ),
    Peer(
        "walrow.messages",
        "Python",
        "texts",
        "python",
        ("walrow_peer.py", "messages"),
        _ALL,
    ),
    Peer("elefant-client 0.1.0", "Rust", "texts", "elefant", (), _BINARY),
    Peer("faucet-source-postgres-cdc 1.6.1", "Rust", "texts", "faucet", ()),
    Peer(
        "pg_walstream 0.10.0, messages",
        "Rust",
        "texts",
        "pg_walstream",
        ("messages",),
        _ALL,
    ),
    Peer(
        "pg_walstream 0.10.0, events",
        "Rust",
        "texts",
        "pg_walstream",
        ("events",),
        _ALL,
    ),
    Peer("pgoutput 0.0.7", "Rust", "texts", "pgoutput", ()),
    Peer("pgoutput-decoder 0.1.0", "Rust", "texts", "pgoutput_decoder", ()),
    Peer("pgsync-postgres 0.1.1", "Rust", "texts", "pgsync", (), _BINARY),
    Peer("rivven-cdc 0.0.22", "Rust", "texts", "rivven", ()),
    Peer("pglogrepl e37c414, Parse", "Go", "texts", "go", ("parse",), _BINARY),
    Peer("pglogrepl e37c414, ParseV2", "Go", "texts", "go", ("parse-v2",), _ALL),
    Peer("Debezium 3.7.0.Final, messages", "Java", "texts", "java", ("messages",)),
    Peer("Debezium 3.7.0.Final, values", "Java", "values", "java", ("values",)),
    Peer("pg-logical-replication 2.5.0", "JavaScript", "values", "node", (), _BINARY),
    Peer("struct, by hand", "Python", "texts", "python", ("by_hand_peer.py",)),
    Peer("walflux 0.1.0", "Python", "texts", "pypi", ("walflux_peer.py",)),
    Peer("pypgoutput 0.0.3", "Python", "texts", "pypi", ("pypgoutput_peer.py",)),
)

#: Parsers that are known and not here.
ABSENT = {
    "postgres-replication (Materialize's fork of rust-postgres)": "in no registry",
    "supabase/etl": "in no registry, and its parser is that fork",
    "pgwire-replication 0.5.0": "hands pgoutput messages on without parsing them",
}


def build(families: Iterable[str]) -> dict[str, str]:
    """Builds families and returns why others could not be built, by family."""
    failed = {}
    for name in dict.fromkeys(families):
        family = FAMILIES[name]
        missing = [tool for tool in family.tools if shutil.which(tool) is None]
        if missing:
            failed[name] = f"no {' and no '.join(missing)}"
            continue
        print(f"building {name}", flush=True)
        try:
            family.build()
        except BuildError as error:
            failed[name] = str(error)
    return failed


def command(peer: Peer) -> list[str]:
    """The command line of a parser."""
    start = FAMILIES[peer.family].command
    if peer.family in {"python", "pypi"}:
        script, *arguments = peer.arguments
        return [*start, str(HERE / "python" / script), *arguments]
    return [*start, *peer.arguments]


def _run(*words: object, cwd: Path = HERE, env: dict[str, str] | None = None) -> None:
    """Runs a build; its output goes to a log, and is named if it fails."""
    BUILT.mkdir(parents=True, exist_ok=True)
    log = BUILT / "build.log"
    with log.open("a") as out:
        ended = subprocess.run(  # noqa: S603
            [str(word) for word in words],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if ended.returncode != 0:
        message = f"`{words[0]} {words[1]}` failed: see {log.relative_to(ROOT)}"
        raise BuildError(message)


def _build_walrow() -> None:
    _run(
        *("cargo", "build", "--release", "--locked", "-p", "walrow-benches"),
        *("--bin", "peer"),
        cwd=ROOT,
        env={"CARGO_TARGET_DIR": str(BUILT / "walrow")},
    )


def _build_rust(feature: str) -> Callable[[], None]:
    """A crate by itself. Some name a newer compiler than they need."""

    def build() -> None:
        _run(
            *("cargo", "build", "--release", "--locked", "--ignore-rust-version"),
            *("--features", feature),
            cwd=HERE / "rust",
            env={
                "CARGO_TARGET_DIR": str(BUILT / "rust"),
                "PGOUTPUT_DECODER": str(_DECODER),
            },
        )

    return build


def _build_pgoutput_decoder() -> None:
    if not _DECODER.exists():
        package = _DECODER.name.replace("-", "==", 1)
        _run(
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
            *("--no-binary", ":all:", "--dest", BUILT, package),
        )
        with tarfile.open(BUILT / f"{_DECODER.name}.tar.gz") as archive:
            archive.extractall(BUILT, filter="data")
    _build_rust("pgoutput-decoder")()


def _build_go() -> None:
    _run("go", "build", "-o", BUILT / "go" / "peer", ".", cwd=HERE / "go")


def _build_node() -> None:
    for name in ("package.json", "package-lock.json", "peer.js"):
        target = BUILT / "node" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(HERE / "node" / name, target)
    _run("npm", "ci", "--ignore-scripts", "--no-audit", cwd=BUILT / "node")


def _build_java() -> None:
    _run(
        *("mvn", "--batch-mode", "--quiet", f"-Dpeers.built={BUILT / 'java'}"),
        # Spark's Ivy would take what lies in the user's own repository for complete.
        f"-Dmaven.repo.local={BUILT / 'maven'}",
        *("package", "-f", HERE / "java" / "pom.xml"),
    )


def _build_pypi() -> None:
    python = BUILT / "python" / "bin" / "python"
    if not python.exists():
        _run(sys.executable, "-m", "venv", BUILT / "python")
    requirements = HERE / "python" / "requirements.txt"
    _run(python, "-m", "pip", "install", "--quiet", "-r", requirements)


def _rust(program: str, feature: str | None = None) -> Family:
    build = _build_rust(feature or program)
    return Family(("cargo",), build, (str(BUILT / "rust" / "release" / program),))


_DECODER = BUILT / "pgoutput_decoder-0.1.0"

FAMILIES = {
    "walrow": Family(
        ("cargo",), _build_walrow, (str(BUILT / "walrow" / "release" / "peer"),)
    ),
    "python": Family((), lambda: None, (sys.executable,)),
    "elefant": _rust("elefant"),
    "faucet": _rust("faucet"),
    "pg_walstream": _rust("pg_walstream", "pg-walstream"),
    "pgoutput": _rust("pgoutput"),
    "pgoutput_decoder": _rust("pgoutput_decoder")._replace(
        build=_build_pgoutput_decoder
    ),
    "pgsync": _rust("pgsync"),
    "rivven": _rust("rivven"),
    "go": Family(("go",), _build_go, (str(BUILT / "go" / "peer"),)),
    "java": Family(
        ("java", "mvn"),
        _build_java,
        (
            "java",
            "-cp",
            f"{BUILT / 'java' / 'classes'}:{BUILT / 'java' / 'lib'}/*",
            "io.debezium.connector.postgresql.Peer",
        ),
    ),
    "node": Family(("node", "npm"), _build_node, ("node", str(BUILT / "node/peer.js"))),
    "pypi": Family((), _build_pypi, (str(BUILT / "python" / "bin" / "python"),)),
}
