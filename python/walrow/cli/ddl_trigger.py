"""`walrow ddl-trigger`: prints an event trigger that makes DDL visible in the stream."""

from __future__ import annotations

import click

from walrow._postgres.ddl_trigger import ddl_trigger as sql


@click.command(name="ddl-trigger")
@click.option("--drop", is_flag=True, help="Print the SQL that removes it.")
def ddl_trigger(*, drop: bool) -> None:
    """Prints an event trigger for CREATE TABLE, ALTER TABLE and DROP TABLE.

    It writes a logical message with the table's columns into the transaction. A receiver
    with --messages gets it at its place. For example:

        walrow ddl-trigger | psql shop
    """
    click.echo(sql(drop=drop), nl=False)
