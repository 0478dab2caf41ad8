"""Reads texts in results of a SQL_ASCII session, whose bytes have no known encoding."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from walrow._postgres.session import BYTES


class TextLoader(Loader):
    """Returns a text as of other sessions. psycopg itself returns bytes."""

    def load(self, data: Buffer) -> str:
        """Decodes it."""
        return bytes(data).decode("utf-8", BYTES)


def read_texts(conn: psycopg.Connection[Any]) -> None:
    """Lets a connection read all texts by `TextLoader`."""
    for name in ("text", "name", "varchar", "bpchar", 0):
        conn.adapters.register_loader(name, TextLoader)
