"""The change rows of committed transactions, as text: the expected rows of walrow's batches.

One row per image: an update with an old row has two. A truncate has one row per relation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reference.reader import Cell, Relation, Row
    from reference.transactions import Change, Transaction


def change_rows(transactions: Iterable[Transaction]) -> list[dict[str, Any]]:
    """Returns all rows in the order of commits, then of changes.

    Each has the relation's `oid` and `table`, the `values` by column name, and the
    metadata columns without their prefix. A time is in microseconds since 2000.
    """
    return [
        {
            "table": f"{change.relation.schema}.{change.relation.name}",
            "oid": change.relation.oid,
            "commit_lsn": transaction.commit_lsn,
            "seq": change.seq,
            "commit_timestamp": transaction.commit_time,
            "xid": transaction.xid,
            **image,
        }
        for transaction in transactions
        for change in transaction.changes
        for image in _images(change)
    ]


def _images(change: Change) -> list[dict[str, Any]]:
    relation = change.relation
    if change.kind == "truncate":
        nothing = dict.fromkeys((c.name for c in relation.columns), None)
        return [_image("truncate", nothing)]
    images = []
    if change.old_kind is not None:
        kind = "delete" if change.kind == "delete" else "update_preimage"
        only_key = change.old_kind == "K"
        images.append(_image(kind, _old(relation, change.old), key_only=only_key))
    if change.kind != "delete":
        kind = "insert" if change.kind == "insert" else "update_postimage"
        known = _filled(change)
        unsent = [
            column.name
            for column, cell in zip(relation.columns, known, strict=True)
            if cell.kind == "u"
        ]
        values = {
            column.name: _text(cell)
            for column, cell in zip(relation.columns, known, strict=True)
        }
        images.append(_image(kind, values, unsent=unsent or None))
    return images


def _image(
    change_type: str,
    values: dict[str, str | None],
    *,
    key_only: bool = False,
    unsent: list[str] | None = None,
) -> dict[str, Any]:
    return {
        "change_type": change_type,
        "values": values,
        "key_only": key_only,
        "unsent": unsent,
    }


def _old(relation: Relation, row: Row) -> dict[str, str | None]:
    return {
        column.name: _text(cell)
        for column, cell in zip(relation.columns, row, strict=True)
    }


def _filled(change: Change) -> Row:
    """The new row. Its unchanged values come from the old row, if that has them."""
    if change.old_kind is None:
        return change.new
    key = change.old_kind == "K"
    return tuple(
        old if new.kind == "u" and (column.key or not key) else new
        for column, old, new in zip(
            change.relation.columns, change.old, change.new, strict=True
        )
    )


def _text(cell: Cell) -> str | None:
    if cell.kind == "b":
        msg = "only text has change rows here"
        raise ValueError(msg)
    return cell.data.decode() if cell.kind == "t" else None
