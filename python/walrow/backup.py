"""Physical backups of a server.

- `verify_against` compares the tables of a base backup with a log.

```python
found = walrow.backup.verify_against("backups/monday", "log/")
print(found.equal)
```

See docs/backup.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walrow._late import late

if TYPE_CHECKING:
    from walrow._backup.against import verify_against
    from walrow._backup.against_items import (
        AgainstProgress,
        ComparedTable,
        Comparison,
        Difference,
        LeftOut,
    )

__all__ = [
    "AgainstProgress",
    "ComparedTable",
    "Comparison",
    "Difference",
    "LeftOut",
    "verify_against",
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
        },
    )


def __dir__() -> list[str]:
    return __all__
