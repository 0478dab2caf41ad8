"""Delta tables that follow the tables of a log, without Spark.

`apply_changes` keeps a Delta table at a path or URL as a table of a log is on the server,
exactly once, `apply_all` does so for many tables, and `maintain` joins files. They use deltalake: `pip install 'walrow[delta]'`.

```python
import walrow.delta

walrow.delta.apply_changes("log/", table="public.orders", target="delta:/lake/orders")
```

`walrow.spark.apply_changes` may write the same table, before and after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walrow._late import late, listed

if TYPE_CHECKING:
    from walrow._apply.items import Applied
    from walrow._apply.many import AllApplied
    from walrow.delta.maintaining import Maintained, maintain
    from walrow.delta.modes import apply_all, apply_changes

__all__ = [
    "AllApplied",
    "Applied",
    "Maintained",
    "apply_all",
    "apply_changes",
    "maintain",
]

# Type checkers see the imports above, so they know which names there are.
if not TYPE_CHECKING:
    __getattr__ = late(
        __name__,
        {
            "walrow._apply.items": ("Applied",),
            "walrow._apply.many": ("AllApplied",),
            "walrow.delta.modes": ("apply_all", "apply_changes"),
            "walrow.delta.maintaining": ("Maintained", "maintain"),
        },
    )

__dir__ = listed(__all__)
