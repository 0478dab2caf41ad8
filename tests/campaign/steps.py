"""Steps: plain values that can be printed, read back and drawn."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, ParamSpec

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from campaign.day import Day

P = ParamSpec("P")


class Fault(AssertionError):  # noqa: N818 - as the table of faults has it
    """A state differs from the server, without a mark or a refusal. Or another broken promise."""


@dataclass(frozen=True)
class Step:
    """One operation of a user's day.

    Attributes:
        kind: Its name in `KINDS`.
        args: Small numbers that choose among what there is: a table, a column, a row.
    """

    kind: str
    args: tuple[int, ...] = ()


class Kind(NamedTuple):
    """The action of a kind of step.

    Attributes:
        run: Does it.
        ranges: For each argument, how many values it has.
        is_harmless: Whether it leaves a table whole: a mark after it is one without need.
    """

    run: Callable[..., None]
    ranges: tuple[int, ...]
    is_harmless: bool


#: All kinds, by name. The modules of the steps fill it.
KINDS: dict[str, Kind] = {}


def step(
    *ranges: int, is_harmless: bool = False
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Registers a function as a kind of step, under its own name.

    Args:
        *ranges: For each argument after the day, how many values it has.
        is_harmless: See `Kind`.
    """

    def register(run: Callable[P, None]) -> Callable[P, None]:
        KINDS[run.__name__] = Kind(run, ranges, is_harmless)
        return run

    return register


def printed(steps: Iterable[Step]) -> str:
    """Writes steps as one line of JSON, to paste into a table or a command."""
    return json.dumps([[it.kind, *it.args] for it in steps])


def parsed(text: str) -> tuple[Step, ...]:
    """Reads what `printed` has written."""
    return tuple(Step(kind, tuple(args)) for kind, *args in json.loads(text))


def run(day: Day, it: Step) -> None:
    """Does one step."""
    KINDS[it.kind].run(day, *it.args)


#: The themes of days: steps that meet often find more than arbitrary steps. A kind that is named
#: twice is drawn twice as often.
THEMES: dict[str, tuple[str, ...]] = {
    "columns": (
        *("look", "look", "insert", "update", "delete", "harmless"),
        *("add_column", "add_with_default", "add_and_drop_default"),
        *("add_identity", "add_and_drop_identity", "add_generated"),
        *("drop_column", "rename_column", "swap_columns", "drop_type"),
        *("change_type", "type_and_back", "same_type_using"),
        *("set_expression", "drop_expression", "replica_identity"),
        *("load", "apply", "apply_to_copy"),
    ),
    "copies": (
        *("apply_to_copy", "apply_to_copy", "apply_to_copy", "insert", "insert"),
        *("look", "update", "add_column", "add_with_default", "rename_column"),
        *("set_expression", "load", "restart", "restore_target"),
    ),
    "lake": (
        *("apply", "apply", "apply", "insert_and_look", "update", "delete", "load"),
        *("restore_target", "lose_target", "truncate", "prune", "retain", "compact"),
        *("add_column", "add_with_default", "drop_column", "unlogged_and_back"),
        *("erase_key", "look_killed", "swap_names"),
    ),
    "tables": (
        *("look", "look", "insert", "update", "harmless"),
        *("swap_names", "rename_table", "replace_table", "create_again"),
        *("unlogged", "logged", "unlogged_and_back", "truncate", "rewrite"),
        *("detach", "attach", "add_partition", "detached_and_back"),
        *("move_to_schema", "load", "apply", "apply_to_copy"),
    ),
    "publications": (
        *("look", "look", "insert", "update", "delete"),
        *("leave_publication", "enter_publication", "out_and_in"),
        *(
            "schema_out_and_in",
            "leave_schema",
            "enter_schema",
            "publish_some",
            "publish_all",
        ),
        *("filter_rows", "choose_columns", "no_filter", "make_publication_again"),
        *("add_column", "add_with_default", "load", "apply", "apply_to_copy"),
    ),
    "server": (
        *("look", "look", "insert", "insert", "update", "up", "down"),
        *(
            "restart",
            "copy_server",
            "set_back",
            "set_back_under_receiver",
            "wal",
            "promote",
        ),
        *("look_killed", "prepare", "commit_prepared", "roll_back_prepared"),
        *("make_slot_again",),
    ),
    # The receiver does not know yet that its server was set back.
    "set back": (
        *("set_back_under_receiver", "set_back_under_receiver", "set_back", "up"),
        *("insert", "insert", "insert", "update", "look", "wal", "restart"),
    ),
    "loads": (
        *("look", "look", "insert", "update", "load", "request_load", "up", "down"),
        *("load_beside_prepared", "cancel_load"),
        *("prepare", "commit_prepared", "roll_back_prepared", "look_killed"),
        *("restart", "add_with_default", "unlogged_and_back", "apply", "apply_to_copy"),
    ),
    "readers": (
        *("insert", *["insert_and_look"] * 6),
        *(
            "follow",
            "take",
            "take",
            "position",
            "position",
            "forget",
            "prune",
            "retain",
            "compact",
        ),
        *("reader_restarts", "reader_restarts", "slow_reader", "update", "apply"),
    ),
    "upkeep": (
        *("insert_and_look", "insert_and_look", "update", "delete", "load", "look"),
        *("retain", "prune", "compact", "verify", "erase_column", "erase_key"),
        *("rename_column", "drop_column", "up", "down", "look_killed", "apply"),
        *("prepare", "commit_prepared"),
    ),
    "files": (
        *("insert_and_look", "insert_and_look", "update", "look", "up", "down"),
        *("lose_newest_segment", "lose_a_segment", "cut_a_segment", "copy_log"),
        *("put_log_back", "lose_prepared", "prepare", "commit_prepared"),
        *("replace_log", "look_killed", "seal_a_capture", "verify"),
    ),
}


@st.composite
def days(
    draw: st.DrawFn, without: Collection[str] = (), themes: Collection[str] = ()
) -> tuple[Step, ...]:
    """Draws the steps of a day.

    Args:
        without: Kinds that are not drawn.
        themes: The names in `THEMES`. Default: all.
    """
    theme = draw(st.sampled_from(sorted(themes or THEMES)))
    allowed = [it for it in THEMES[theme] if it not in without]
    # The user's copy has the rows from before the slot, so the log begins without a load.
    loads = 0 if theme == "copies" else draw(st.integers(0, 3))
    # FOR ALL TABLES leaves little to change.
    publication = draw(st.integers(int(theme == "publications"), 2))
    first = Step("begin", (publication, loads))
    drawn = st.sampled_from(allowed).flatmap(_of_kind)
    if draw(st.integers(0, 5)) == 5:
        drawn |= st.sampled_from(
            [it for it in KINDS if it not in {"begin", *without}]
        ).flatmap(_of_kind)
    return (first, *draw(st.lists(drawn, min_size=4, max_size=16)))


def _of_kind(name: str) -> st.SearchStrategy[Step]:
    ranges = KINDS[name].ranges
    # More often than not, the first one: several steps then meet at one table.
    args = st.tuples(*(st.just(0) | st.integers(0, it - 1) for it in ranges))
    return args.map(lambda found: Step(name, found))
