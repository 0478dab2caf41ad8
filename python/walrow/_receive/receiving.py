"""Receives the changes of a live server into a log."""

from __future__ import annotations

from walrow._options import takes
from walrow._postgres.connecting import psycopg_or_refuse
from walrow._receive.options import ReceiveOptions
from walrow._receive.status import Received


@takes(ReceiveOptions)
def receive(options: ReceiveOptions) -> Received:
    """Receives committed transactions into a log, and confirms durable transactions.

    Nothing is lost and nothing comes twice, whenever it, the machine or the server stops:
    start it again. It connects again by itself if the connection is lost, and ends with an
    error if somebody must fix something.

    ```python
    walrow.receive("dbname=shop", log="log/", slot="shop", publications="shop")
    ```

    Args:
        options: As in the signature.

    Returns:
        Counts of the received changes. Only with `until` or `stop`.

    Raises:
        OptionError: The options are invalid or contradict each other.
        ReplicationError: The server refused something that another attempt does not fix.
        LogError: The log belongs to another source, another process writes to it, or it
            cannot be written.
        SettingError: Something overrides a setting of the session, such as PGTZ.
    """
    psycopg_or_refuse()
    from walrow._receive.driver import Driver

    return Driver(options).run()
