"""Connections to a server. No message shows a password."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import click

from walrow._postgres.connecting import options_with_jit_off, parameters_of
from walrow._postgres.server_errors import replication_error
from walrow.cli.arguments import TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

_HELP = (
    "A connection string, as in psql: 'dbname=shop' or postgresql://... "
    "Environment variables, such as PGHOST, supply missing parameters."
)
#: The option of the commands that have other arguments.
dsn = click.option("--dsn", default="", type=TEXT, metavar="DSN", help=_HELP)
#: The option of a command that may read something else. None without it.
optional_dsn = click.option("--dsn", type=TEXT, metavar="DSN", help=_HELP)


@contextlib.contextmanager
def connected_for_replication(conninfo: str) -> Iterator[psycopg.Connection[Any]]:
    """Connects for replication: to the database if one is named, else to the server."""
    named = parameters_of(conninfo).get("dbname") or os.environ.get("PGDATABASE")
    word = "database" if named else "true"
    with connected(conninfo, replication=word) as conn:
        yield conn


@contextlib.contextmanager
def connected(conninfo: str, **parameters: Any) -> Iterator[psycopg.Connection[Any]]:
    """Connects in autocommit mode. Errors of psycopg become walrow's."""
    given = parameters_of(conninfo, **parameters)
    import psycopg

    given = {"fallback_application_name": "walrow", **given}
    given["options"] = options_with_jit_off(given)
    try:
        conn = psycopg.connect(**given, autocommit=True)
    except psycopg.Error as error:
        raise replication_error(error, "cannot connect") from error
    with conn:
        try:
            yield conn
        except psycopg.Error as error:
            raise replication_error(error, "the server refused a query") from error
