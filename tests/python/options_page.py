"""The tables of options in docs/, filled in from the lists. As a script, it fills them in again.

A table begins after a comment that names its list: `<!-- options: ReceiveOptions -->`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from walrow._apply.options import ApplyOptions, DeltaApplyOptions, SparkApplyOptions
from walrow._backup.base_options import BackupOptions
from walrow._backup.wal_receiving import WalOptions
from walrow._log.sealing import SealOptions
from walrow._options import Option, declared
from walrow._receive.options import ReceiveOptions

DOCS = Path(__file__).parents[2] / "docs"
#: Each list, its command, and the list whose table has the shared options.
LISTS: dict[str, tuple[Any, str, Any]] = {
    "BackupOptions": (BackupOptions, "backup base", None),
    "WalOptions": (WalOptions, "backup wal", None),
    "ReceiveOptions": (ReceiveOptions, "receive", None),
    "SealOptions": (SealOptions, "seal", ReceiveOptions),
    "ApplyOptions": (ApplyOptions, "apply", None),
    "SparkApplyOptions": (SparkApplyOptions, "apply", ApplyOptions),
    "DeltaApplyOptions": (DeltaApplyOptions, "apply", ApplyOptions),
}
PAGES = ("backup.md", "receiving.md", "applying.md", "log.md")
_TABLE = re.compile(r"(<!-- options: (\w+) -->\n\n).*?(?=\n\n|\Z)", re.DOTALL)


def table(name: str) -> str:
    """The table of a list."""
    cls, _, others = LISTS[name]
    known = {} if others is None else declared(others)
    rows = [
        _row(each) for key, each in declared(cls).items() if known.get(key) is not each
    ]
    return "\n".join(["| option | type | default | |", "|---|---|---|---|", *rows])


def _row(option: Option[Any, Any]) -> str:
    default = "" if option.is_required else f"`{option.default!r}`"
    text = f"{option.text} {option.more}".rstrip()
    cells = [f"`{option.name}`", f"`{option.kind.name}`", default, text]
    return "| " + " | ".join(it.replace("|", "\\|") for it in cells) + " |"


def renewed(text: str) -> str:
    """A page with its tables filled in."""
    return _TABLE.sub(lambda it: it[1] + table(it[2]), text)


if __name__ == "__main__":
    for page in PAGES:
        path = DOCS / page
        path.write_text(renewed(path.read_text("utf-8")), "utf-8")
