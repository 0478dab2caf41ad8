"""Physical backups of a server: its WAL as files.

- `receive_wal` receives WAL as it is written, and follows promotions.

```python
walrow.backup.receive_wal("dbname=shop", to="wal/", slot="backup", until="now")
```

Connections need psycopg (version 3), which is not imported before they are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walrow._late import late

if TYPE_CHECKING:
    from walrow._backup.wal_receiving import receive_wal
    from walrow._backup.wal_status import ReceivedWal, WalStatus

__all__ = ["ReceivedWal", "WalStatus", "receive_wal"]

# They need psycopg. Type checkers see the imports above, so they know which names there are.
if not TYPE_CHECKING:
    __getattr__ = late(
        __name__,
        {
            "walrow._backup.wal_receiving": ("receive_wal",),
            "walrow._backup.wal_status": ("ReceivedWal", "WalStatus"),
        },
    )


def __dir__() -> list[str]:
    return __all__
