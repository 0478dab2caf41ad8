"""`walrow run`: keeps many tables current by one file."""

from __future__ import annotations

import json

import click

from walrow._results import counted
from walrow._run.applier import engine_of
from walrow._run.checking import Checked
from walrow._run.checking import check as check_file
from walrow._run.config import Loaded
from walrow._run.parent import Parent
from walrow._run.reading import read
from walrow._run.records import RunFolder
from walrow._run.supervisor import Restarts
from walrow.cli import grid
from walrow.cli.arguments import as_json
from walrow.cli.source import is_quiet, note, quiet
from walrow.cli.terminal import print_json, say
from walrow.errors import Error, OptionError


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--check",
    is_flag=True,
    help="Compare the file with the server and the log, show what it means, and start nothing.",
)
@click.option(
    "--once",
    is_flag=True,
    help="End when all that is committed by now is in the targets.",
)
@as_json("Print JSON, line by line.")
@quiet
def run(*, file: str, check: bool, once: bool, as_json: bool) -> None:
    """Receives a server's changes into a log, and keeps a target for each table.

    FILE says all of it: `walrow init` writes a first one. The receiver and the applier are
    processes of their own, and are started again when they end. Ctrl-C and SIGTERM end
    them in order. Start the command again after a crash: each change is applied once.

    Exit codes: 0, 1 for an error, 2 if the file is wrong. With --once: 0 if all tables are
    current, and 1 if some are not, which are named.
    """
    if check and once:
        raise click.UsageError("--check starts nothing: give it without --once")
    loaded = read(file)
    if check:
        _check(loaded, as_json=as_json)
        return
    folder = RunFolder(loaded.log)
    # Before the server is asked, which may take long.
    folder.refuse_used()
    checked = check_file(loaded)
    if checked.problems:
        _refuse(checked)
    if checked.unasked is not None:
        note(f"walrow run: the server was not asked for its tables: {checked.unasked}")
    loaded.log.mkdir(
        mode=0o750 if loaded.file.log.group_access else 0o700,
        parents=True,
        exist_ok=True,
    )
    words = [*(["--json"] if as_json else []), *(["--quiet"] if is_quiet() else [])]
    with folder.locked():
        parent = Parent(
            loaded,
            words=words,
            say=lambda it: _say(it, as_json=as_json),
        )
        code = parent.run(once=once)
    raise click.exceptions.Exit(code)


def _say(restart: Restarts | str, *, as_json: bool) -> None:
    if isinstance(restart, str):
        say(f"walrow run: {restart}")
        return
    if as_json:
        record = {
            "part": "run",
            "ended": restart.part.value,
            "code": restart.code,
            "times": restart.ended,
            "pause": restart.pause,
        }
        print_json(record)
        return
    how = f"signal {-restart.code}" if restart.code < 0 else f"code {restart.code}"
    say(
        f"walrow run: {restart.part.value} has ended with {how}, "
        f"{counted(restart.ended, 'time')} in a row. It starts again in {restart.pause:g} seconds"
    )


def _check(loaded: Loaded, *, as_json: bool) -> None:
    checked = check_file(loaded)
    rows = _rows(loaded, checked)
    checked.problems.extend(
        f"{it.claim.table.name}: {it.text}" for it in checked.plan.unaccepted
    )
    checked.problems.extend(checked.let_through)
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
        for problem in checked.problems:
            print_json({"problem": problem})
        for each in checked.plan.removed:
            print_json({"removed": each.place, "table": each.table})
    else:
        if rows:
            grid.show(
                ["table", "target", "engine", "mode", "needs a load, because"],
                [list(row.values()) for row in rows],
            )
        for each in checked.plan.removed:
            note(f"walrow: {each.place} of {each.table} is not in the file any more")
    if checked.problems:
        _refuse(checked)
    if checked.unasked is not None:
        raise Error(f"the server was not asked for its tables: {checked.unasked}")
    if not as_json:
        note(f"walrow: {loaded.path.name} is right: {counted(len(rows), 'table')}")


def _rows(loaded: Loaded, checked: Checked) -> list[dict[str, str]]:
    """The target of each table. An engine that is missing is a problem."""
    engines: dict[int, str] = {}
    for at, target in enumerate(loaded.file.target):
        try:
            engines[at] = engine_of(target)
        except OptionError as error:
            checked.problems.append(f"{loaded.path}: {loaded.names(at)}: {error}")
    needs = {it.claim.table.oid: it.reason for it in checked.plan.waiting}
    return [
        {
            "table": claim.table.name,
            "target": claim.place,
            "engine": engines.get(claim.at, ""),
            "mode": loaded.file.target[claim.at].mode,
            "load": needs.get(claim.table.oid, ""),
        }
        for claim in checked.plan.claims
        if claim.problem is None
    ]


def _refuse(checked: Checked) -> None:
    """Raises the first problem, after the others were printed."""
    for problem in checked.problems[1:]:
        say(f"walrow: {problem}")
    raise OptionError(checked.problems[0])
