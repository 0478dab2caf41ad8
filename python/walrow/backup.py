"""Base backups of a server.

- `base_backup` takes one, whole or incremental, and checks it.
- `verify_manifest` checks one later.

```python
done = walrow.backup.base_backup("dbname=shop", to="backups/monday")
walrow.backup.verify_manifest(done.path)
```

See docs/backup.md. psycopg is not imported before `base_backup` is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walrow._late import late

if TYPE_CHECKING:
    from walrow._backup.base import base_backup
    from walrow._backup.base_result import (
        BackedUpTablespace,
        BackupProgress,
        BaseBackup,
    )
    from walrow._backup.base_verify import VerifiedBackup, verify_manifest

__all__ = [
    "BackedUpTablespace",
    "BackupProgress",
    "BaseBackup",
    "VerifiedBackup",
    "base_backup",
    "verify_manifest",
]

# Type checkers see the imports above, so they know which names there are.
if not TYPE_CHECKING:
    __getattr__ = late(
        __name__,
        {
            "walrow._backup.base": ("base_backup",),
            "walrow._backup.base_result": (
                "BackedUpTablespace",
                "BackupProgress",
                "BaseBackup",
            ),
            "walrow._backup.base_verify": ("VerifiedBackup", "verify_manifest"),
        },
    )


def __dir__() -> list[str]:
    return __all__
