"""Physical backups of a server: base backups, and its WAL as files.

- `base_backup` takes a base backup, whole or incremental, and checks it.
- `verify_manifest` checks one later.
- `verify_against` compares the tables of one with a log.
- `receive_wal` receives WAL as it is written, and follows promotions.

```python
done = walrow.backup.base_backup("dbname=shop", to="backups/monday")
walrow.backup.verify_manifest(done.path)
walrow.backup.receive_wal("dbname=shop", to="wal/", slot="backup", until="now")
```

See docs/backup.md. psycopg is not imported before a connection is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walrow._late import late, listed

if TYPE_CHECKING:
    from walrow._backup.against import verify_against
    from walrow._backup.against_items import (
        AgainstProgress,
        ComparedTable,
        Comparison,
        Difference,
        LeftOut,
    )
    from walrow._backup.base import base_backup
    from walrow._backup.base_result import (
        BackedUpTablespace,
        BackupProgress,
        BaseBackup,
    )
    from walrow._backup.base_verify import VerifiedBackup, verify_manifest
    from walrow._backup.wal_receiving import receive_wal
    from walrow._backup.wal_status import ReceivedWal, WalStatus

__all__ = [
    "AgainstProgress",
    "BackedUpTablespace",
    "BackupProgress",
    "BaseBackup",
    "ComparedTable",
    "Comparison",
    "Difference",
    "LeftOut",
    "ReceivedWal",
    "VerifiedBackup",
    "WalStatus",
    "base_backup",
    "receive_wal",
    "verify_against",
    "verify_manifest",
]

# Type checkers see the imports above, so they know which names there are.
if not TYPE_CHECKING:
    __getattr__ = late(
        __name__,
        {
            "walrow._backup.against": ("verify_against",),
            "walrow._backup.against_items": (
                "AgainstProgress",
                "ComparedTable",
                "Comparison",
                "Difference",
                "LeftOut",
            ),
            "walrow._backup.base": ("base_backup",),
            "walrow._backup.base_result": (
                "BackedUpTablespace",
                "BackupProgress",
                "BaseBackup",
            ),
            "walrow._backup.base_verify": ("VerifiedBackup", "verify_manifest"),
            "walrow._backup.wal_receiving": ("receive_wal",),
            "walrow._backup.wal_status": ("ReceivedWal", "WalStatus"),
        },
    )

__dir__ = listed(__all__)
