"""Wrong calls. `CAP` is a capture, `LOG` the path of a log, `log` the log, `NEW` a new path."""

from __future__ import annotations

from probes import SECRET, Call

_DELTA = "walrow.delta.apply_changes(LOG, table="
_RECEIVE = "walrow.receive('dbname=x', log=NEW, slot='s', publications='p', "

CALLS = [
    # Types of values: of a source, an option, an entry of a list, a key, an object, a function.
    Call("walrow.read(7)", "TypeError", ("source", "int")),
    Call("walrow.read(CAP, profile=7)", "TypeError", ("profile", "string", "int")),
    Call("walrow.read(CAP, table=1.5)", "TypeError", ("table", "OID", "float")),
    Call("walrow.read(CAP, tables='item')", "TypeError", ("tables", "table")),
    Call("walrow.read(CAP, columns=[7])", "TypeError", ("columns", "names", "int")),
    Call("walrow.read(CAP, types={7: 'x'})", "TypeError", ("types", "string", "int")),
    Call(
        "walrow.read(CAP, table='item', schema='x')", "TypeError", ("pa.schema", "str")
    ),
    Call("walrow.postgres.slots(7)", "OptionError", ("conn", "int", "psycopg.connect")),
    Call(f"{_RECEIVE}stop=7)", "OptionError", ("stop", "threading.Event", "int")),
    Call("walrow.delta.apply_all(LOG, 7)", "TypeError", ("targets", "mapping", "int")),
    # Python's own errors name the function, not the class of its options.
    Call("walrow.seal(CAP)", "TypeError", ("seal()", "log")),
    # Ranges, choices and forms.
    Call("walrow.read(CAP, batch_rows=0)", "OptionError", ("batch_rows", "2147483647")),
    Call(f"{_RECEIVE}jobs=0)", "OptionError", ("jobs", "0", "1", "64")),
    Call(
        "walrow.read(CAP, tables=[])", "OptionError", ("tables",), {"remedy": "tables"}
    ),
    Call(
        "walrow.read(CAP, missing_table='x')",
        "OptionError",
        ("missing_table", "ignore"),
    ),
    Call(
        f"{_DELTA}'item', target=TARGET, mode='x')", "OptionError", ("mode", "history")
    ),
    Call("walrow.frames(CAP, unfinished='x')", "OptionError", ("unfinished", "ignore")),
    Call("walrow.read(CAP, tables=[-1])", "OptionError", ("tables", "OID", "32 bits")),
    Call(
        "walrow.read(CAP, types={'id': 'x'})", "OptionError", ("types", "id", "int64")
    ),
    Call(
        "walrow.read(CAP, spool_memory='x')", "OptionError", ("spool_memory", "64MiB")
    ),
    Call("log.compact(segment_size='x')", "OptionError", ("segment_size", "64MiB")),
    Call("log.follow(poll_interval='x')", "OptionError", ("poll_interval", "12h")),
    Call("walrow.read(CAP, start='x')", "OptionError", ("start", "16/B374D848", "-1h")),
    Call("walrow.read(CAP, end=NAIVE)", "OptionError", ("end", "datetime", "UTC")),
    Call("walrow.Lsn('1/2/3')", "ValueError", ("LSN", "16/B374D848")),
    Call("log.register('x' * 300)", "LogError", ("64",), {"code": "reader_name"}),
    Call(f"{_DELTA}'item', target='/x')", "OptionError", ("/x", "delta:/path")),
    # Options that need or contradict each other.
    Call(
        "walrow.read(CAP, table='item', tables=['item'])",
        *("OptionError", ("table", "tables"), {"remedy": "tables"}),
    ),
    Call("walrow.read(CAP, versions='union')", "OptionError", ("versions", "table=")),
    Call("walrow.schema(CAP)", "OptionError", (), {"remedy": "table"}),
    Call(
        "walrow.postgres.changes('dbname=x')",
        "OptionError",
        ("table=", "publications="),
    ),
    Call(
        "walrow.postgres.changes('', table='t', peek=True)", "OptionError", ("slot=",)
    ),
    # What is not there, or is something else: files, logs, tables, columns, targets.
    Call("walrow.read('no.wire')", "FileNotFoundError", ("no.wire",), {"errno": 2}),
    Call("list(walrow.read(b'hello'))", "DecodeError", ("pgoutput",), {"offset": 0}),
    Call("walrow.read(CAP, catalog=CAP)", "OptionError", ("rows.text.wire", "catalog")),
    Call("walrow.Log(CAP)", "NotADirectoryError", ("rows.text.wire",), {"errno": 20}),
    Call(
        "walrow.load('a.t', log='docs')", "LogError", ("docs",), {"code": "not_a_log"}
    ),
    Call("walrow.seal(CAP, log=CAP)", "OptionError", ("log", "rows.text.wire")),
    Call(
        "log.register('c').advance(2**62)",
        *("LogError", ("40000000/0",), {"code": "past_end"}),
    ),
    Call("list(walrow.read(CAP, table='itme'))", "SchemaError", ("itme", "item?")),
    Call("list(walrow.read(CAP, columns=['x']))", "SchemaError", ("columns", "x")),
    Call(
        "list(walrow.read(CAP, types={'label': 'int64'}))",
        *("SchemaError", ("int64", "string")),
        {"table": "public.item", "column": "label"},
    ),
    Call("log.state('itme')", "SchemaError", ("public.item",), {"table": "itme"}),
    Call(
        f"{_DELTA}'item', target=TARGET, keys=['x'])",
        *("SchemaError", ("x", "label"), {"table": "public.item"}),
    ),
    Call("walrow.delta.maintain(TARGET)", "OptionError", (":/", "apply_changes")),
    # Connection strings, which may have a password.
    Call(
        f"walrow.read('dbname=x password={SECRET}')",
        *("OptionError", ("source", "pg_recvlogical")),
    ),
    Call(
        f"walrow.postgres.slots('dbname=x password={SECRET}')",
        *("OptionError", ("conn", "psycopg.connect")),
    ),
    Call(
        f"walrow.postgres.changes('dbnme=x password={SECRET}', table='t')",
        *("OptionError", ("'host=db dbname=shop'",)),
    ),
]
