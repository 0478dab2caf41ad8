"""Draws days: lists of steps about a theme."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from campaign.grammar import ARRIVALS, BIRTHS, PRODUCTIONS, RETURNS
from campaign.steps import KINDS, Step

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

#: Themes of days: steps that meet often find more than arbitrary steps. A kind that is named twice
#: is drawn twice as often.
_THEMES = """
copies: apply_to_copy apply_to_copy apply_to_copy insert insert look update add_column add_with_default rename_column set_expression load restart restore_target
lake: apply apply apply insert_and_look update delete load restore_target lose_target truncate prune retain compact add_column add_with_default drop_column unlogged erase_key look_killed swap_names
server: look look insert insert update up down restart copy_server set_back set_back_under_receiver wal promote look_killed prepare commit_prepared roll_back_prepared make_slot_again
set back: set_back_under_receiver set_back_under_receiver set_back up insert insert insert update look wal restart
loads: look look insert update load request_load up down load_beside_prepared cancel_load prepare commit_prepared roll_back_prepared look_killed restart add_with_default unlogged apply apply_to_copy
readers: insert insert_and_look insert_and_look insert_and_look insert_and_look insert_and_look insert_and_look follow take take position position forget prune retain compact reader_restarts reader_restarts slow_reader update apply
upkeep: insert_and_look insert_and_look update delete load look retain prune compact verify erase_column erase_key rename_column drop_column up down look_killed apply prepare commit_prepared
files: insert_and_look insert_and_look update look up down lose_newest_segment lose_a_segment cut_a_segment copy_log put_log_back lose_prepared prepare commit_prepared replace_log look_killed seal_a_capture verify
"""
#: Themes of days of the grammar: the statements that are drawn more often.
_GRAMMARS = """
ddl:
columns: create create_as create_like add_column add_with_default add_with_function add_identity add_generated add_and_fill drop_column rename_column swap_columns change_type same_type_using set_expression drop_expression rename_label replica_identity add_mood add_name drop_key move_key drop_type
tables: create create_like create_partition create_root create_child drop attach detach inherit inherit_no_more move rename_table swap_names logged unlogged vacuum_full cluster replica_identity grant grant_system owner freeze add_column rename_column swap_columns
names: add_name add_name add_name swap_names rename_table rename_table swap_names rename_schema move create drop create_like_with_rows
partitions: root_identity root_identity root_identity partition_identity partition_identity create_partition attach detach create_sub_root logged unlogged publish_via drop_key
identities: root_identity root_identity root_identity root_identity partition_identity replica_identity replica_identity drop_key add_key create_partition
keys: fresh_key fresh_key fresh_key fresh_key create_as create_as create_as insert_again insert_again insert_null follow_lake follow_lake follow_table drop_key drop_key move_key add_key replica_identity replica_identity create
publications: leave_publication enter_publication leave_schema enter_schema move publish_some publish_all publish_via filter_rows choose_columns no_filter make_publication_again add_with_default create attach
"""

#: Steps around the statements.
_AROUND = """
rows: insert insert insert insert_again update update update_key delete truncate insert_many insert_null
looks: look look look look apply apply_to_copy load up follow_table follow_table follow_lake
"""


def _read(text: str) -> dict[str, list[str]]:
    lines = (line.split(":") for line in text.strip().splitlines())
    return {name: kinds.split() for name, kinds in lines}


THEMES = _read(_THEMES)
GRAMMARS = _read(_GRAMMARS)
_ROWS, _LOOKS = _read(_AROUND).values()
ALWAYS = [
    *(*_ROWS, *_LOOKS, *PRODUCTIONS, "back", "together", "apart", "trigger", "down"),
    *(
        "turn",
        "rows_everywhere",
        "update_unseen",
        "fresh",
        "wal",
        "wal_and_look",
        "look_back",
    ),
]


def day_of(
    seed: int, without: Collection[str] = (), themes: Collection[str] = ()
) -> tuple[Step, ...]:
    """Draws the steps of a day.

    Args:
        seed: The day's seed.
        without: Kinds that are not drawn.
        themes: Names in `THEMES`, or in `GRAMMARS`. Default: all.
    """
    draw = _Draw(random.Random(seed), without)  # noqa: S311 - it is to be repeated
    theme = draw.chance.choice(sorted(themes or [*THEMES, *GRAMMARS]))
    if theme in GRAMMARS:
        return draw.statements(theme)
    # The user's copy has the rows that precede the slot, so the log begins without a load.
    first = Step(
        "begin",
        (
            draw.chance.randrange(3),
            0 if theme == "copies" else draw.chance.randrange(4),
        ),
    )
    allowed = THEMES[theme]
    if not draw.chance.randrange(5):
        allowed = [*allowed, *(it for it in KINDS if it != "begin")]
    return (first, *(draw.one(allowed)[0] for _ in range(draw.chance.randint(4, 16))))


class _Draw:
    """Draws steps."""

    def __init__(self, chance: random.Random, without: Collection[str]) -> None:
        self.chance = chance
        self.without = without

    def one(self, kinds: Sequence[str]) -> list[Step]:
        """A step of one of the kinds."""
        kind = self.chance.choice([it for it in kinds if it not in self.without])
        # More often than not, the first one: several steps then meet at one table.
        args = (
            0 if self.chance.random() < _FIRST_ONE else self.chance.randrange(it)
            for it in KINDS[kind].ranges
        )
        return [Step(kind, tuple(args))]

    def some(self, kinds: Sequence[str], most: int) -> list[Step]:
        """No step, or some."""
        return [
            it for _ in range(self.chance.randint(0, most)) for it in self.one(kinds)
        ]

    def any(self, kind: str) -> list[Step]:
        """A step of a kind, with any numbers."""
        return [
            Step(kind, tuple(self.chance.randrange(it) for it in KINDS[kind].ranges))
        ]

    def is_so(self, chance: float) -> bool:
        """Whether something is so that has this chance."""
        return self.chance.random() < chance

    def statements(self, theme: str) -> tuple[Step, ...]:
        """A day of statements, alone and together, and their return, around rows and looks."""
        often = GRAMMARS[theme] or list(PRODUCTIONS)
        # Of 0 to 5: 3 and later publish leaves instead of roots.
        kinds = {"publications": (1, 2, 4, 5), "identities": (0, 1, 2, 2, 5)}
        kind = self.chance.choice(kinds.get(theme, tuple(range(6))))
        steps = [Step("begin", (kind, self.chance.choice((1, 1, 2, 2, 3, 4))))]
        if self.is_so(_WITH_TRIGGER) and "trigger" not in self.without:
            steps.append(Step("trigger"))
        was_quiet = False
        for _ in range(self.chance.randint(2, 3)):
            is_quiet = self.is_so(_QUIET)
            if is_quiet and not was_quiet:
                steps += self.any("wal_and_look")
            steps += self._quiet(often) if is_quiet else self._busy(often)
            was_quiet = is_quiet
            steps += [Step("look")] if is_quiet else self.one(_LOOKS)
        return (*steps[:-1], Step("look_back"))

    def _quiet(self, often: Sequence[str]) -> list[Step]:
        """Draws scenes that write no change into the log: its end stays before them."""
        steps = []
        for _ in range(self.chance.randint(1, 3)):
            steps += self.any("turn")
            shape = self.chance.randrange(5)
            if shape == 0:
                steps += self.one(often)
            elif shape < 3:
                steps += self.one(_SILENT)
            else:
                steps += [*self.one(_HIDING), *self.any("update_unseen"), Step("back")]
        return [*steps, *(self.any("wal") if self.is_so(0.3) else ())]

    def _busy(self, often: Sequence[str]) -> list[Step]:
        """Draws scenes of several tables, as a look costs more than statements."""
        steps = []
        if self.is_so(0.2):
            steps.append(Step("back"))
        if self.is_so(0.7):
            steps += self.any("rows_everywhere")
        for _ in range(self.chance.randint(2, 6)):
            steps += self.any("turn")
            if self.is_so(0.3):
                steps += [*self.any("together"), *self._act(often), *self._act(often)]
                steps.append(Step("apart"))
            else:
                steps += self._act(often)
        if self.is_so(0.5):
            steps += self.any("rows_everywhere")
        for _ in range(self.chance.randint(0, 3)):
            steps += self.any("fresh")
        return steps

    def _act(self, every: Sequence[str]) -> list[Step]:
        returns = [it for it in every if it in RETURNS]
        births = [it for it in every if it in BIRTHS]
        arrivals = [it for it in every if it in ARRIVALS]
        shape = self.chance.randrange(7 if births else 5)
        if shape == 0:
            return self.some(_ROWS, 2)
        if shape < 3:
            return [*self.one(every), *self.some(_ROWS, 1)]
        if shape < 5:
            # Something changes, and changes back.
            inner = self.some(_ROWS, 2) + self.some(every, 1) + self.one(_ROWS)
            return [*self.one(returns), *inner, Step("back"), *self.some(_ROWS, 1)]
        # A table comes with rows.
        inner = self.one(_ROWS[:4]) + self.some(every, 1) + self.some(_ROWS, 1)
        return [
            *self.one(births),
            *inner,
            *self.one(arrivals or every),
            *self.some(_ROWS, 2),
        ]


#: Statements that change rows without a change in the log, and statements that hide changes.
_SILENT = ("same_type_using", "add_with_default", "add_with_function", "set_expression")
_HIDING = (
    "unlogged",
    "unlogged",
    "detach",
    "move",
    "leave_publication",
    "leave_schema",
)
_FIRST_ONE = 0.7
_WITH_TRIGGER = 0.3
_QUIET = 0.3
