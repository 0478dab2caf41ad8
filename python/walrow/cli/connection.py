"""Connections to a server. No message shows a password."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from walrow._postgres.connecting import connect, parameters_of, psycopg_or_refuse
from walrow._postgres.hints import Command
from walrow._postgres.server_errors import replication_error
from walrow.cli.arguments import TEXT

if TYPE_CHECKING:
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
def connected(
    conninfo: str, replication: str | None = None
) -> Iterator[psycopg.Connection[Any]]:
    """Connects in autocommit mode. Errors of psycopg become walrow's."""
    with connect(parameters_of(conninfo), replication=replication) as conn:
        try:
            yield conn
        except psycopg_or_refuse().Error as error:
            failed = "the server refused a query"
            raise replication_error(error, failed, Command.QUERY) from error
