"""Physical backups of a server: base backups, and its WAL as files.

- `base_backup` takes a base backup, whole or incremental, into a directory.
- `stream_base_backup` hands one out as it arrives, for a pipe or for your own files.
- `receive_wal` receives WAL as it is written, and follows promotions.

```python
done = walrow.backup.base_backup("dbname=shop", to="backups/monday")
walrow.backup.receive_wal("dbname=shop", to="wal/", slot="backup", until="now")
```

See docs/backup.md. psycopg is not imported before a connection is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walrow._late import late, listed

if TYPE_CHECKING:
    from walrow._backup.base.archive import Archive, Member
    from walrow._backup.base.stream import BackupStream, stream_base_backup
    from walrow._backup.base.taking import BaseBackup, base_backup
    from walrow._backup.wal.options import WalStatus
    from walrow._backup.wal.receiver import receive_wal

__all__ = [
    "Archive",
    "BackupStream",
    "BaseBackup",
    "Member",
    "WalStatus",
    "base_backup",
    "receive_wal",
    "stream_base_backup",
]

# Type checkers see the imports above, so they know which names there are.
if not TYPE_CHECKING:
    __getattr__ = late(
        __name__,
        {
            "walrow._backup.base.archive": ("Archive", "Member"),
            "walrow._backup.base.stream": ("BackupStream", "stream_base_backup"),
            "walrow._backup.base.taking": ("BaseBackup", "base_backup"),
            "walrow._backup.wal.options": ("WalStatus",),
            "walrow._backup.wal.receiver": ("receive_wal",),
        },
    )

__dir__ = listed(__all__)
