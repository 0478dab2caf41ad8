r"""Batches of modelled tables, applied by Spark, with kills between: python -m spark.modelled_batches.

    cd tests && PYTHONPATH=../python:.:../examples \
      python -m spark.modelled_batches --batches 3200 --kills 200

Tables of all shapes change by chance, and each batch is applied to Delta and Iceberg in one of several
ways: alone or with others, in one task or many. After each batch, every target is compared with the
model. Then drivers, executors and Python workers are killed at any time, with SIGKILL, and the
batch is applied again until it is done. The seed of each round is printed: `--seed` repeats it.
"""

# ruff: noqa: T201  (the program prints its results)

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import walrow
from spark.modelled import SHAPES, TYPES, Expected, Model, ModelLog

#: The column that soft deletes set.
MARK = "_is_deleted"
MODES = ("apply", "apply", "apply", "soft", "ignore")
KINDS = ("delta", "iceberg")
#: The program ends if one batch fails so many times.
ATTEMPTS = 5


class Round:
    """Some tables in one log, each with a target."""

    def __init__(self, folder: Path, seed: int, tables: int = 4) -> None:
        """Draws the tables."""
        self.seed = seed
        self.random = random.Random(seed)  # noqa: S311
        self.folder = folder
        self.log = ModelLog(folder / "log")
        names = self.random.choices(list(SHAPES), k=tables)
        self.models = {
            f"t{at}": Model(
                self.random,
                SHAPES[name],
                16_400 + at,
                f"t{at}",
                keys=self.random.choice((8, 40)),
            )
            for at, name in enumerate(names)
        }
        self.targets: dict[str, tuple[str, str]] = {}
        self.expected: dict[str, Expected] = {}
        for at, (name, model) in enumerate(self.models.items()):
            kind = KINDS[(at + seed) % 2]
            place = f"{folder}/{name}"
            table = f"ice.db.r{seed}_{name}"
            self.targets[name] = (
                (f"delta:{place}", f"delta.`{place}`")
                if kind == "delta"
                else (f"iceberg:{table}", table)
            )
            self.expected[name] = Expected(model, self.random.choice(MODES))

    def change(self) -> None:
        """Another batch for all tables."""
        models = list(self.models.values())
        for model in models:
            model.is_binary = self.random.random() < 0.3
        self.log.take(*models, transactions=self.random.randint(1, 12))
        if self.random.random() < 0.15:
            self.log.load(self.random.choice(models))
            if self.random.random() < 0.7:
                self.log.take(*models, transactions=self.random.randint(1, 6))
        for expected in self.expected.values():
            expected.take()

    def names(self) -> list[str]:
        """The tables that the log has. By chance, a table has no change yet."""
        known = {table.name for table in walrow.Log(self.log.path).tables()}
        return [name for name in self.models if f"public.{name}" in known]

    def given(self, name: str) -> dict[str, Any]:
        """The options of `apply_changes` for a table."""
        return {
            "table": f"public.{name}",
            "target": self.targets[name][0],
            "keys": list(self.models[name].shape.keys),
            "deletes": self.expected[name].deletes,
            "types": TYPES if "n" in self.models[name].columns else {},
        }

    def compare(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Compares the rows of a target.

        Raises:
            AssertionError: They differ.
        """
        problem = self.expected[name].problem(rows, MARK)
        shape = self.models[name].shape
        assert problem is None, (
            f"--seed {self.seed}: {name} {shape} {self.expected[name].deletes} "
            f"{self.targets[name][0]}: {problem}"
        )


def batches(spark: Any, count: int, seed: int, *, seconds: float = 1e9) -> int:
    """Applies so many batches in this session, one of one table each. Returns their number."""
    import walrow.spark
    from walrow.spark import apply_net

    partition_bytes = apply_net._PARTITION_BYTES
    done, began = 0, time.monotonic()
    while done < count and time.monotonic() - began < seconds:
        with tempfile.TemporaryDirectory() as folder:
            run = Round(Path(folder), seed)
            for _ in range(run.random.randint(4, 10)):
                run.change()
                names = run.names()
                # Small partitions have their tasks, as large ones do.
                apply_net._PARTITION_BYTES = run.random.choice(
                    (partition_bytes, 500, 2000)
                )
                unit_size = run.random.choice((1, 2000, 64 << 20))
                if run.random.random() < 0.3:
                    given = {f"public.{name}": run.given(name) for name in names}
                    targets = {it: each.pop("target") for it, each in given.items()}
                    for each in given.values():
                        del each["table"]
                    result = walrow.spark.apply_all(
                        spark, run.log.path, targets, options=given
                    )
                    assert not result.failed, (seed, result.failed)
                else:
                    for name in names:
                        walrow.spark.apply_changes(
                            spark,
                            run.log.path,
                            unit_size=unit_size,
                            **run.given(name),
                        )
                for name in names:
                    run.compare(name, rows_of(spark, run.targets[name][1]))
                done += len(names)
                print(f"--seed {seed}: {done} batches agree", flush=True)
                if done >= count or time.monotonic() - began >= seconds:
                    break
            run.log.close()
            for target, table in run.targets.values():
                if target.startswith("iceberg:"):
                    spark.sql(f"DROP TABLE IF EXISTS {table}")
        seed += 1
    apply_net._PARTITION_BYTES = partition_bytes
    return done


def rows_of(spark: Any, table: str) -> list[dict[str, Any]]:
    """The rows of a target, as other drivers have left them."""
    if table.startswith("ice."):
        spark.catalog.refreshTable(table)
    return [row.asDict() for row in spark.table(table).collect()]


# ----------------------------------------------------------------------- kills


def kills(count: int, seed: int, *, seconds: float = 1e9) -> int:
    """Kills drivers, executors and workers so often. Returns how many."""
    done, began = 0, time.monotonic()
    driver = None
    while done < count and time.monotonic() - began < seconds:
        with tempfile.TemporaryDirectory() as folder:
            run = Round(Path(folder), seed, tables=2)
            driver = Driver(Path(folder) / "warehouse")
            for _ in range(8):
                run.change()
                for name in run.names():
                    given = run.given(name) | {"unit_size": 1}
                    is_killed = run.random.random() < 0.9 and done < count
                    kind = run.random.choice(("driver", "executor", "worker", "worker"))
                    errors: list[str] = []
                    while True:
                        # Errors of a kill come once or twice, others again and again.
                        assert len(errors) < ATTEMPTS, (run.seed, name, errors[-1])
                        driver.send(
                            {
                                "log": str(run.log.path),
                                "given": given,
                                "rows": run.targets[name][1],
                            }
                        )
                        if is_killed:
                            # Calls take some seconds. The first one of a session takes longer.
                            time.sleep(run.random.uniform(0, 4))
                            if driver.kill(kind, run.random):
                                done += 1
                                is_killed = False
                        answer = driver.receive()
                        if answer is not None and "error" not in answer:
                            break
                        if answer is None:
                            driver = Driver(Path(folder) / "warehouse")
                        else:
                            errors.append(answer["error"])
                    run.compare(name, answer["rows"])
                print(f"--seed {seed}: {done} kills changed nothing", flush=True)
                if done >= count or time.monotonic() - began >= seconds:
                    break
            run.log.close()
            driver.close()
        seed += 1
    return done


class Driver:
    """A driver in its own process, with executors in other processes."""

    def __init__(self, warehouse: Path) -> None:
        """Starts it."""
        self.process = subprocess.Popen(  # noqa: S603
            [
                sys.executable,
                "-m",
                "spark.modelled_batches",
                "--driver",
                str(warehouse),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )
        assert self.receive() == {"ready": True}

    def send(self, request: dict[str, Any]) -> None:
        """Sends a request."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()

    def receive(self) -> dict[str, Any] | None:
        """The answer. None if the driver is dead."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        self.close()
        return None

    def kill(self, kind: str, source: random.Random) -> bool:
        """Kills the driver with all of its processes, or one of them. Returns whether one was there."""
        found = dict(descendants(self.process.pid))
        if kind == "driver":
            self._kill([self.process.pid, *found])
            return True
        word = {"executor": b"CoarseGrainedExecutorBackend", "worker": b"daemon"}[kind]
        victims = [pid for pid, command in found.items() if word in command]
        if not victims:
            return False
        self._kill([source.choice(victims)])
        return True

    def close(self) -> None:
        """Ends it."""
        self._kill([self.process.pid, *dict(descendants(self.process.pid))])
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _kill(self, pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def descendants(root: int) -> Iterator[tuple[int, bytes]]:
    """The processes that descend from one, with their commands."""
    parents: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = place.read_text().rpartition(")")[2].split()
            parents[int(place.parent.name)] = int(fields[1])
    own = {root}
    while more := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= more
    for pid in own - {root}:
        with contextlib.suppress(OSError):
            yield pid, Path(f"/proc/{pid}/cmdline").read_bytes()


def drive(warehouse: Path) -> None:
    """Answers the requests on the standard input."""
    import walrow.spark

    spark = session(warehouse, "local-cluster[2,1,1024]")
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any] = {}
        try:
            walrow.spark.apply_changes(spark, request["log"], **request["given"])
            rows = rows_of(spark, request["rows"])
            answer["rows"] = json.loads(json.dumps(rows, default=str))
        except Exception as error:
            answer["error"] = str(error)
        print(json.dumps(answer), flush=True)


def session(warehouse: Path, master: str) -> Any:
    """A session with both formats."""
    from pyspark.sql import SparkSession

    from small_spark import JAVA
    from table_formats import table_formats

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("walrow")
    for name, value in {
        **table_formats(warehouse),
        "spark.sql.warehouse.dir": str(warehouse / "spark"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": JAVA,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
    }.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


def main() -> None:
    """Runs batches and kills, and says how many there were."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=3200)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1e9, help="of each of both")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--driver", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.driver is not None:
        drive(options.driver)
        return
    found = 0
    if options.batches:
        with tempfile.TemporaryDirectory() as folder:
            spark = session(Path(folder), "local[2]")
            found = batches(
                spark, options.batches, options.seed, seconds=options.seconds
            )
            spark.stop()
    killed = kills(options.kills, options.seed, seconds=options.seconds)
    print(f"{found} batches agree, and {killed} kills changed nothing")


if __name__ == "__main__":
    main()
