"""Known faults, each with the shortest day that shows it."""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """A fault that was found, and mended: its day must pass.

    Attributes:
        name: The user's actions, in a few words.
        steps: The day, as `printed` writes it.
    """

    name: str
    steps: str


FAULTS: tuple[Known, ...] = (
    Known(
        "a column with a default, and a lake's table that began with a copy",
        '[["begin", 0, 0], ["insert", 0], ["apply_to_copy", 0], '
        '["add_with_default", 0], ["insert", 0], ["apply_to_copy", 0]]',
    ),
    Known(
        "a server that is set back, and writes on",
        '[["begin", 0, 1], ["set_back", 0], ["insert", 0]]',
    ),
    Known(
        "a server that is set back under a receiver",
        '[["begin", 0, 1], ["set_back_under_receiver", 0], ["insert", 1], ["look"]]',
    ),
    Known(
        "a reader that takes a change each second",
        '[["begin", 0, 1], ["insert_and_look", 0], ["insert_and_look", 0], ["slow_reader"]]',
    ),
    Known(
        "a reader's position after some of many segments",
        '[["begin", 0, 0], ["insert_and_look", 0], ["insert_and_look", 0], '
        '["insert_and_look", 0], ["insert_and_look", 0], ["position", 0]]',
    ),
    Known(
        "a reader that was forgotten begins again",
        '[["begin", 0, 1], ["insert_and_look", 0], ["take", 5], '
        '["insert_and_look", 0], ["reader_restarts", 0]]',
    ),
    Known(
        "a schema that leaves the publication and comes back",
        '[["begin", 2, 1], ["leave_schema"], ["update", 0, 1], ["back"]]',
    ),
    Known(
        "a table that is not logged for a while",
        '[["begin", 0, 1], ["unlogged"], ["update", 0, 1], ["back"]]',
    ),
    Known(
        "a partition that is detached for a while",
        '[["begin", 0, 1], ["detach"], ["update", 0, 1], ["back"]]',
    ),
    Known(
        "a published generated column gets another expression",
        '[["begin", 0, 1], ["set_expression", 1]]',
    ),
    Known(
        "two tables swap their names",
        '[["begin", 0, 1], ["swap_names"], ["update", 0, 0]]',
    ),
    Known(
        "a column that gets other values and keeps its type",
        '[["begin", 0, 1], ["same_type_using", 0, 0]]',
    ),
    Known(
        "a column that is added, and no change since",
        '[["begin", 0, 1], ["add_column", 0]]',
    ),
    Known(
        "a column with a default, which is dropped, before the first change",
        '[["begin", 0, 3], ["add_with_default", 2], ["back"]]',
    ),
    Known(
        "a publication without updates for a while",
        '[["begin", 0, 1], ["publish_some", 0], ["update", 0, 0], ["publish_all"]]',
    ),
    Known(
        "a partition gets the name of a table that was dropped",
        '[["begin", 0, 1], ["create"], ["insert"], ["drop"], ["create_partition"]]',
    ),
    Known(
        "a publication sends rows as those of a root, for one transaction",
        '[["begin", 5, 4], ["together", 5], ["publish_via"], ["insert"], ["back"], ["apart"], '
        '["create"], ["insert", 3]]',
    ),
    Known(
        "a new table with names of objects, one of which is renamed",
        '[["begin", 0, 1], ["create"], ["add_name"], ["insert", 0], ["rename_table"], ["look"]]',
    ),
    Known(
        "a table that is a partition for a while",
        '[["begin", 1, 4], ["attach"], ["insert", 0], ["back"], ["insert", 0], ["look"]]',
    ),
    Known(
        "a partition that is published under its own name for a while",
        '[["begin", 1, 4], ["create", 0, 0, 0], ["enter_schema", 0, 0, 1], ["insert", 3], '
        '["detach", 0, 0, 0], ["insert", 0], ["back"], ["insert", 0], ["look"]]',
    ),
    Known(
        "a table that is in the publication for one TRUNCATE",
        '[["begin", 1, 2], ["create"], ["enter_publication"], ["truncate"], ["back"], '
        '["insert"], ["look"]]',
    ),
    Known(
        "a table that is not logged, and no change in the log is later",
        '[["begin", 0, 1], ["wal_and_look"], ["unlogged"], ["update", 0, 1], ["back"], ["look"]]',
    ),
    Known(
        "values that name an object which is renamed",
        '[["begin", 0, 1], ["add_name"], ["insert"], ["look"], ["rename_table"], ["look"]]',
    ),
    Known(
        "an earlier state of a name that got another table",
        '[["begin", 0, 1], ["insert"], ["look"], ["swap_names"], ["insert"], ["look"], ["insert"], ["look_back"]]',
    ),
    Known(
        "partitions that send less of old rows than their root's identity",
        '[["begin", 0, 1], ["root_identity"], ["look"], ["update", 0], ["delete"], ["look"]]',
    ),
    Known(
        "keys that are equal as another type",
        '[["begin", 0, 1], ["fresh_key", 0], ["follow_table", 0, 0]]',
    ),
    Known(
        "keys that would be NULL",
        '[["begin", 0, 1], ["fresh_key", 1], ["follow_table", 0, 0]]',
    ),
    Known(
        "the file of the newest segment is lost",
        '[["begin", 2, 3], ["lose_newest_segment"], ["insert_and_look", 0]]',
    ),
    Known(
        "a load beside a prepared transaction",
        '[["begin", 0, 1], ["load_beside_prepared", 0]]',
    ),
)
