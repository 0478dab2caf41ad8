"""`walrow init`: writes a first file for `walrow run`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from walrow._run.config import json_schema
from walrow._run.drafting import draft
from walrow._run.server import server_of
from walrow.cli.connection import connected, dsn
from walrow.cli.terminal import say
from walrow.errors import Error


@click.command()
@dsn
@click.option(
    "--to",
    "-o",
    default="-",
    metavar="FILE",
    help="The file, which must not exist. Default: - (stdout).",
)
@click.option(
    "--schema", is_flag=True, help="Write the JSON schema of the file, for editors."
)
def init(*, dsn: str, to: str, schema: bool) -> None:
    """Writes a first file for `walrow run`, from the server's own tables.

    Change it to what you want, and try it with `walrow run --check`. It has no password.
    The server stays as it is: stderr names the steps that are still needed there.
    """
    if schema:
        _write(to, json.dumps(json_schema(), indent=2) + "\n")
        return
    with connected(dsn) as conn:
        found = draft(dsn, server_of(conn))
    _write(to, found.text)
    for note in found.notes:
        say(f"walrow init: {note}")


def _write(to: str, text: str) -> None:
    if to == "-":
        click.echo(text, nl=False)
        return
    try:
        with Path(to).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Error(f"{to} exists: give another name, or remove it") from None
