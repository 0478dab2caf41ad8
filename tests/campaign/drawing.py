"""Draws days: lists of steps about a theme."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from campaign.grammar import ARRIVALS, BIRTHS, PRODUCTIONS, RETURNS
from campaign.steps import KINDS, Step

if TYPE_CHECKING:
    from collections.abc import Collection

#: The themes of days: steps that meet often find more than arbitrary steps. A kind that is named
#: twice is drawn twice as often.
THEMES: dict[str, tuple[str, ...]] = {
    "copies": (
        *("apply_to_copy", "apply_to_copy", "apply_to_copy", "insert", "insert"),
        *("look", "update", "add_column", "add_with_default", "rename_column"),
        *("set_expression", "load", "restart", "restore_target"),
    ),
    "lake": (
        *("apply", "apply", "apply", "insert_and_look", "update", "delete", "load"),
        *("restore_target", "lose_target", "truncate", "prune", "retain", "compact"),
        *("add_column", "add_with_default", "drop_column", "unlogged"),
        *("erase_key", "look_killed", "swap_names"),
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
        *("restart", "add_with_default", "unlogged", "apply", "apply_to_copy"),
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


#: Steps around statements of the grammar.
_ROWS = (
    "insert",
    "insert",
    "update",
    "update_key",
    "delete",
    "truncate",
    "insert_many",
)
_LOOKS = (
    "look",
    "apply",
    "apply",
    "apply_to_copy",
    "load",
    "up",
    "down",
    "follow_table",
    "follow_table",
)


@st.composite
def days(
    draw: st.DrawFn, without: Collection[str] = (), themes: Collection[str] = ()
) -> tuple[Step, ...]:
    """Draws the steps of a day.

    Args:
        without: Kinds that are not drawn.
        themes: Names in `THEMES`, or in `GRAMMARS`. Default: all.
    """
    theme = draw(st.sampled_from(sorted(themes or [*THEMES, *GRAMMARS])))
    if theme in GRAMMARS:
        return draw(_grammar_days(theme, without))
    allowed = [it for it in THEMES[theme] if it not in without]
    # The user's copy has the rows from before the slot, so the log begins without a load.
    first = Step(
        "begin",
        (draw(st.integers(0, 2)), 0 if theme == "copies" else draw(st.integers(0, 3))),
    )
    drawn = st.sampled_from(allowed).flatmap(_of_kind)
    if draw(st.integers(0, 5)) == 5:
        drawn |= st.sampled_from(
            [it for it in KINDS if it not in {"begin", *without}]
        ).flatmap(_of_kind)
    return (first, *draw(st.lists(drawn, min_size=4, max_size=16)))


ALWAYS = (_ROWS, _LOOKS, tuple(PRODUCTIONS), ("back", "together", "apart", "trigger"))

#: The productions of the days of the grammar: those that are drawn more often.
GRAMMARS: dict[str, tuple[str, ...]] = {
    "ddl": (),
    "columns": (
        *("add_column", "add_with_default", "add_with_function", "add_identity"),
        *(
            "add_generated",
            "add_and_fill",
            "drop_column",
            "rename_column",
            "swap_columns",
        ),
        *(
            "change_type",
            "same_type_using",
            "set_expression",
            "drop_expression",
            "rename_label",
        ),
        *(
            "replica_identity",
            "add_mood",
            "add_name",
            "drop_key",
            "move_key",
            "drop_type",
        ),
    ),
    "tables": (
        *(
            "create",
            "create_like",
            "create_partition",
            "create_root",
            "create_child",
            "drop",
        ),
        *(
            "attach",
            "detach",
            "inherit",
            "inherit_no_more",
            "move",
            "rename_table",
            "swap_names",
        ),
        *("logged", "unlogged", "vacuum_full", "cluster", "replica_identity"),
    ),
    "publications": (
        *(
            "leave_publication",
            "enter_publication",
            "leave_schema",
            "enter_schema",
            "move",
        ),
        *(
            "publish_some",
            "publish_all",
            "publish_via",
            "filter_rows",
            "choose_columns",
        ),
        *(
            "no_filter",
            "make_publication_again",
            "add_with_default",
            "create",
            "attach",
        ),
    ),
}


@st.composite
def _grammar_days(
    draw: st.DrawFn, theme: str, without: Collection[str]
) -> tuple[Step, ...]:
    """Draws a day of statements, alone and together, and their return, around rows and looks."""

    def among(*names: str) -> st.SearchStrategy[tuple[Step, ...]]:
        allowed = [it for it in names if it not in without]
        return st.sampled_from(allowed).flatmap(_of_kind).map(lambda it: (it,))

    def chain(
        *parts: st.SearchStrategy[tuple[Step, ...]],
    ) -> st.SearchStrategy[tuple[Step, ...]]:
        return st.tuples(*parts).map(
            lambda found: tuple(it for part in found for it in part)
        )

    rows = among(*_ROWS)
    some = st.lists(rows, max_size=2).map(
        lambda found: tuple(it for part in found for it in part)
    )
    statement = among(*PRODUCTIONS, *(GRAMMARS[theme] * 2))
    back = st.just((Step("back"),))
    returns = among(*[it for it in (*GRAMMARS[theme], *PRODUCTIONS) if it in RETURNS])
    around = chain(returns, some, st.just(()) | statement, rows, back)
    arrival = chain(
        among(*BIRTHS), some, st.just(()) | returns, rows, among(*ARRIVALS), some
    )
    acts = statement | rows | around | arrival
    together = st.tuples(st.integers(0, 7), st.lists(acts, min_size=1, max_size=3)).map(
        lambda it: (
            Step("together", (it[0],)),
            *(step for part in it[1] for step in part),
            Step("apart"),
        )
    )
    first = Step("begin", (draw(st.integers(0, 5)), draw(st.integers(1, 4))))
    before = (Step("trigger"),) if draw(st.integers(0, 2)) == 2 else ()
    found = draw(
        st.lists(acts | acts | together | among(*_LOOKS) | rows, min_size=2, max_size=7)
    )
    return (first, *before, *(it for part in found for it in part))


def _of_kind(name: str) -> st.SearchStrategy[Step]:
    ranges = KINDS[name].ranges
    # More often than not, the first one: several steps then meet at one table.
    args = st.tuples(*(st.just(0) | st.integers(0, it - 1) for it in ranges))
    return args.map(lambda found: Step(name, found))
