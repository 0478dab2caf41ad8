"""How a call of `Log.net` becomes a net: the table, its key, the range, and refusals."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from walrow._core import Decoder, LogDirectory, Reader
from walrow._log.items import LogTable, SourceIdentity
from walrow._log.names import NamedTables, owners_at
from walrow._log.net import EVERY_METADATA, METADATA, Checkpoint, Chunks, Net
from walrow._log.net_refusals import Range, allowed, other_source
from walrow._log.published import Published
from walrow._log.tables import begin_of, between, keys_of
from walrow._lsn import Lsn
from walrow._options import NAMES
from walrow._read.schemas import schema
from walrow._secrets import brief
from walrow._sources.logs import OpenedLog
from walrow.errors import ApplyError, LogError, OptionError, SchemaError
from walrow.typing import At, Deletes, NeverSent, TableName, Truncates


class NetRules(NamedTuple):
    """The target's policies, and the codes of problems that the caller accepts."""

    deletes: Deletes
    truncates: Truncates
    never_sent: NeverSent
    allow: Collection[str]

    def check(self) -> frozenset[str]:
        """Refuses wrong words, and returns the codes that the caller accepts."""
        for name, kind in _WORDS.items():
            value = getattr(self, name)
            if value not in get_args(kind):
                words = ", ".join(map(repr, get_args(kind)))
                raise OptionError(f"{name}={brief(value)} is not one of {words}")
        return allowed(self.allow)


def net_of(
    log: OpenedLog,
    location: str,
    tables: NamedTables,
    table: TableName,
    *,
    start: Lsn | int | str | None,
    end: At | None,
    keys: Sequence[str] | None,
    rules: NetRules,
    options: Mapping[str, Any],
) -> Net:
    """The net of a table. See `walrow.Log.net`."""
    accepted = rules.check()
    if keys is not None:
        keys = NAMES.parse(keys, "keys")
    metadata, more = _metadata(options)
    directory = log._log
    # First: what is erased later is noticed before a row comes out.
    erased = directory.erased()
    source = SourceIdentity(*map(directory.source.get, SourceIdentity.__slots__))
    stored = Checkpoint.of(start)
    if stored is not None and stored.source != source:
        raise other_source(location, stored.source, source)
    first, last = _span(directory, start if stored is None else stored.end, end)
    found = tables.at(log, table, last)
    found = found.for_target(rules.truncates, first)
    span = Range(location, found, first, last, directory.end, accepted)
    if not found.versions and first < directory.removed().get(found.oid, (0,))[0]:
        raise span.pruned(directory.start)
    begin = begin_of(log, found, last)
    if begin >= first and rules.deletes == "ignore":
        # This load adds rows to the target's rows.
        begin = begin_of(log, found, first)
    key = keys_of(log, between(log, found, begin, last), keys)
    unchosen = [name for name in _names(found) if not _is_chosen(name, found, options)]
    if lacking := set(key) & set(unchosen):
        text = (
            f"{found.name}: column {min(lacking)} of the key is not among the columns"
        )
        raise SchemaError(text, table=found.name, column=min(lacking))
    span.refuse_incomplete()
    before = stored.oid if stored else _before(log, tables.record, table, found, first)
    at = erased.get(found.oid, Lsn(0))
    missed = next(span.missed(directory.source["slot_start"], at, before), None)

    def check() -> None:
        if directory.erased().get(found.oid, Lsn(0)) != at:
            raise span.erased_meanwhile()

    is_declared = options.get("schema") is not None
    try:
        rows = directory.net(
            found.oid,
            start=first,
            end=last,
            keys=key,
            text_keys=_texts(log, found, begin, key, options),
            deletes=rules.deletes,
            truncates=rules.truncates,
            columns="all" if is_declared else "last",
            more=more,
            # A schema has the columns of all versions, and a version may lack some of them.
            nullable=[*unchosen, *(_partial(found) if is_declared else ())],
            never_sent=rules.never_sent,
            allows_altered=span.allows_altered(),
            spool_memory=options.get("spool_memory"),
            spool_directory=options.get("spool_directory"),
        )
    except LogError as error:
        if error.code != "pruned":
            raise
        raise span.pruned(directory.start) from None
    chunks = Chunks(rows, check)
    if missed is not None and chunks.tally.barrier is None:
        # Only now it is known that its rows are not replaced.
        rows.close()
        raise missed
    if stored is not None and stored.keys != key and not chunks.tally.clears:
        rows.close()
        raise span.other_keys(stored.keys, key)
    reader = Reader(
        chunks,
        table=found.oid,
        metadata=metadata,
        # All its changes may have been removed, after the target took them.
        missing_table="ignore",
        **{**options, "_keys": key},
    )
    prefix = options.get("metadata_prefix", "_")
    others = {*unchosen, *(prefix + name for name in metadata)}
    checkpoint = Checkpoint(source, found.oid, key, last)
    return Net(chunks, reader, span, checkpoint, frozenset(others))


def _metadata(options: Mapping[str, Any]) -> tuple[Sequence[str], list[str]]:
    """The metadata columns, and the table's columns in a schema. A schema chooses both."""
    metadata = METADATA if options.get("schema") is None else EVERY_METADATA
    # Checks the options before anything is read.
    schema = Decoder(table=0, metadata=metadata, **options).schema
    if schema is None:
        return metadata, []
    prefix = options.get("metadata_prefix", "_")
    for name in METADATA:
        if prefix + name not in schema.names:
            text = f"the schema lacks the column {prefix}{name}, which a net needs"
            raise OptionError(text)
    others = {prefix + name for name in metadata}
    return metadata, [name for name in schema.names if name not in others]


def _span(
    log: LogDirectory, start: Lsn | int | str | None, end: At | None
) -> tuple[Lsn, Lsn]:
    """Where the range begins and ends. An ApplyError if the log ends before the start."""
    first = Lsn(0) if start is None else _lsn("start", start)
    log_end = log.end
    last = log_end if end is None else log.lsn_of(end, "end")
    if first > log_end:
        text = (
            f"the target has the changes up to {first}, and the log ends before, at "
            f"{log_end}: it is an older copy, or of a server that was set back"
        )
        raise ApplyError(text, code="older_log", lsn=log_end)
    if last < first:
        raise OptionError(f"end is {last}, before start, {first}")
    return first, last


def _lsn(name: str, value: Lsn | int | str) -> Lsn:
    try:
        return Lsn(value)
    except (TypeError, ValueError):
        raise OptionError(
            f"{name} must be an LSN: a walrow.Lsn, an int, or a text such as "
            '"16/B374D848"'
        ) from None


def _before(
    log: OpenedLog, record: Published, table: TableName, found: LogTable, start: Lsn
) -> int | None:
    """The OID of the table that had the name at the start. None if it is not known."""
    if not start or isinstance(table, int):
        return None
    oids = set().union(*owners_at(log, record, table, start).values()) or {found.oid}
    # If the name may have meant another table, the target may have its rows.
    return found.oid if oids == {found.oid} else min(oids - {found.oid})


def _names(table: LogTable) -> dict[str, None]:
    return {it.name: None for version in table.versions for it in version.columns}


def _partial(table: LogTable) -> list[str]:
    """The columns that some versions lack."""
    versions = [{it.name for it in version.columns} for version in table.versions]
    return [name for name in _names(table) if not all(name in it for it in versions)]


def _is_chosen(column: str, table: LogTable, options: Mapping[str, Any]) -> bool:
    columns = options.get("columns")
    if columns is None:
        return True
    names = {version.name for version in table.versions}
    names |= {name.partition(".")[2] for name in names}
    return column in columns or any(f"{name}.{column}" in columns for name in names)


def _texts(
    log: OpenedLog,
    table: LogTable,
    begin: Lsn,
    keys: Sequence[str],
    options: Mapping[str, Any],
) -> list[str]:
    """The columns of a key that are texts for the target."""
    types = {
        it.type_oid
        for version in table.versions
        for it in version.columns
        if it.name in keys
    }
    if types <= _ONE_TEXT:
        return []
    # The target has the types of a declared schema.
    found = Decoder(table=0, metadata=EVERY_METADATA, **options).schema
    if found is None:
        chosen = {
            name: options[name]
            for name in ("profile", "types", "catalog", "columns", "session")
            if name in options
        }
        chosen |= {"metadata": (), "start": begin, "_keys": keys}
        found = schema(log._log.examples(table.oid, begin), table.oid, **chosen)
    kinds = dict(zip(found.names, found.types, strict=True))
    return [key for key in keys if kinds[key].endswith("string")]


_WORDS = {"deletes": Deletes, "truncates": Truncates, "never_sent": NeverSent}
#: bool, bytea, name, integers, text, oid, varchar, date and uuid: equal values have one text. Equal
#: numerics may have several.
_ONE_TEXT = {16, 17, 19, 20, 21, 23, 25, 26, 1043, 1082, 2950}
