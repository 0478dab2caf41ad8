"""Versions of a table that a streaming query was not planned for, and new names of it."""

from __future__ import annotations

from typing import Any

from walrow._lsn import Lsn
from walrow.errors import SchemaError
from walrow.spark.log_plan import Chain, LogPlan
from walrow.spark.projection import Projection, log_schema


class NewVersions:
    """Notices columns that a query lacks, before a micro-batch has rows with them."""

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        # Versions whose rows the query can read, as places in the log's list.
        self._known: set[int] = set()

    def cut(self, plan: LogPlan, start: Lsn, end: Lsn) -> Lsn:
        """Where a micro-batch ends, so that the query has all of its columns.

        Raises:
            SchemaError: Already the first segment has others.
        """
        for chain in plan.chains(start, end):
            new = chain.versions - self._known
            error = self._renaming(plan, chain, start)
            if new and error is None:
                found = self._differences(plan, new)
                if found:
                    error = _error(plan.versions[min(new)], found, start)
                else:
                    self._known |= new
            if error is None:
                continue
            if chain.start > start:
                return chain.start
            raise error
        return end

    def _renaming(self, plan: LogPlan, chain: Chain, start: Lsn) -> SchemaError | None:
        """The remedy for a table that has another name from here on."""
        for place in sorted(chain.renamed):
            oid, schema, name, *_ = plan.versions[place]
            chosen = plan.chosen_name(oid, chain)
            if chosen is not None:
                text = (
                    f"{chosen} is {schema}.{name} in a part of what comes after {start}: it "
                    "was renamed. Everything before is done. Start the query again with "
                    f"the same checkpoint, and choose the table by its OID, {oid}: then "
                    "all of its names are read"
                )
                return SchemaError(text, table=chosen)
        return None

    def _differences(self, plan: LogPlan, new: frozenset[int]) -> list[str]:
        """The columns that the query lacks. Nothing for a side table or an envelope."""
        query = self._projection
        if "schema" not in query.read:
            return []
        columns = {
            name: (oid, typmod)
            for place in sorted(new)
            for name, oid, typmod, _ in plan.versions[place][3]
        }
        declared = query.read["schema"]
        if query.has_all and (
            lacking := [it for it in columns if it not in declared.names]
        ):
            return [f"column {name} is new" for name in lacking]
        unlike = {
            name
            for name in columns
            if name in declared.names
            and not _is_alike(declared.field(name), *columns[name])
        }
        if not unlike:
            return []
        own: Any = log_schema(query.options)
        changed = [
            field.name
            for field in own
            if field.name in unlike and field.type != declared.field(field.name).type
        ]
        return [f"the type of column {name} has changed" for name in changed]


def _is_alike(field: Any, oid: int, typmod: int) -> bool:
    """Whether a column has the type that the field was made for."""
    metadata = field.metadata or {}
    return (metadata.get(b"pg.oid"), metadata.get(b"pg.typmod")) == (
        str(oid).encode(),
        str(typmod).encode(),
    )


def _error(
    version: tuple[int, str, str, Any, str], found: list[str], start: Lsn
) -> SchemaError:
    _, schema, name, *_ = version
    text = (
        f"{schema}.{name}: {', '.join(found)} in what comes after {start}, and the query "
        "was planned without it. Everything before is done. Start the query again, with a "
        "new load() and the same checkpoint: it then reads all columns. Or choose the "
        "columns that it reads with .schema(...) or the option columns"
    )
    return SchemaError(text, table=f"{schema}.{name}")
