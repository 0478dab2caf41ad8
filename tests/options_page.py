"""The tables of options in docs/, filled in from the lists. As a script, it fills them in again.

A table begins after a comment that names its list: `<!-- options: ReceiveOptions -->`. The keys of a
table of the file of `walrow run` have `<!-- keys: Source -->`, and known bugs of servers
`<!-- bugs: BUGS -->`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from walrow._apply.options import ApplyOptions, DeltaApplyOptions, SparkApplyOptions
from walrow._backup.base.options import BackupOptions
from walrow._backup.wal.options import WalOptions
from walrow._log.sealing import SealOptions
from walrow._options import Option, declared
from walrow._postgres.known_bugs import BUGS
from walrow._receive.options import ReceiveOptions
from walrow._run.config import LogPart, Source, Target

DOCS = Path(__file__).parents[1] / "docs"
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
KEYS: dict[str, Any] = {it.__name__: it for it in (Source, LogPart, Target)}
PAGES = (
    "backup.md",
    "from-a-server.md",
    "receiving.md",
    "applying.md",
    "log.md",
    "running.md",
)
_TABLE = re.compile(
    r"(<!-- (?:options|keys|bugs): (\w+) -->\n\n).*?(?=\n\n|\Z)", re.DOTALL
)


def table(name: str) -> str:
    """The table of a list."""
    if name in KEYS:
        rows = [_key(each) for each in declared(KEYS[name]).values()]
        return "\n".join(["| key | default | meaning |", "|---|---|---|", *rows])
    if name == "BUGS":
        rows = [f"| {it.versions} | {it.text} |" for it in BUGS]
        return "\n".join(["| version (fixed in) | bug |", "|---|---|", *rows])
    cls, _, others = LISTS[name]
    known = {} if others is None else declared(others)
    rows = [
        _row(each) for key, each in declared(cls).items() if known.get(key) is not each
    ]
    return "\n".join(["| option | type | default | |", "|---|---|---|---|", *rows])


def _row(option: Option[Any, Any]) -> str:
    default = "" if option.is_required else f"`{option.default!r}`"
    text = f"{option.text} {option.more}".rstrip()
    choices = ", ".join(map(repr, option.kind.choices))
    kind = f"Literal[{choices}]" if choices else option.written.removesuffix(" | None")
    cells = [f"`{option.name}`", f"`{kind}`", default, text]
    return "| " + " | ".join(it.replace("|", "\\|") for it in cells) + " |"


def _key(option: Option[Any, Any]) -> str:
    has_default = not option.is_required and option.default not in (None, ())
    default = f"`{json.dumps(option.default)}`" if has_default else ""
    return f"| `{option.name}` | {default} | {option.text} |"


def renewed(text: str) -> str:
    """A page with its tables filled in."""
    return _TABLE.sub(lambda it: it[1] + table(it[2]), text)


if __name__ == "__main__":
    for page in PAGES:
        path = DOCS / page
        path.write_text(renewed(path.read_text("utf-8")), "utf-8")
