"""Wrong commands. CAP is a capture, LOG is a log, and NEW is the path of a new file."""

from __future__ import annotations

from probes import Probe

__all__ = ["COMMANDS"]

_AT = "or a time, such as"
_COLUMNS = "its columns are id, label, amount"
_NO_SERVER = "host=/nothing dbname=x"
_CONNINFO = "write it as 'host=db dbname=shop'"
_DURATION = "such as 30s, 12h or 7d"
_SIZE = "such as 64MiB or 50GB"

COMMANDS = [
    Probe(*each)
    for each in (
        ("decod CAP", "No such command", "'decod'", "Did you mean 'decode'?"),
        ("nothing", "No such command", "'nothing'", "See walrow --help"),
        # decode
        ("decode", "Missing argument", "FILE", "See walrow decode --help"),
        ("decode no.wire", "does not exist", "no.wire", "See walrow decode --help"),
        ("decode CAP --tabel x", "No such option", "'--tabel'", "'--table'"),
        ("decode CAP --table itme", "no table", "itme", "did you mean item?"),
        ("decode CAP --column nope", "no column", "nope", "did you mean note?"),
        ("decode CAP --to x.csv", "neither .parquet", "x.csv", "use --format"),
        (
            "decode CAP --to NEW.parquet",
            "takes one table",
            "public.item",
            "with --table",
        ),
        ("decode CAP --profile arow", "not one of", "'--profile'", "'arrow', 'spark'"),
        ("decode CAP --start x", "x is not an LSN", "'--start'", _AT),
        ("decode - --start -1h", "standard input", "--start", "name a file"),
        ("decode CAP --end x", "x is not an LSN", "'--end'", _AT),
        ("decode CAP --type amount", "expected", "--type amount", "NAME=VALUE"),
        ("decode CAP --type id=x", "not an Arrow type", '"id"', "int64"),
        (
            "decode CAP --unrepresentable x",
            "expected",
            "--unrepresentable x",
            "sentinel",
        ),
        ("decode CAP --format csv", "not one of", "'--format'", "'parquet', 'arrow'"),
        (
            "decode CAP --catalog no.json",
            "does not exist",
            "'--catalog'",
            "decode --help",
        ),
        ("decode CAP --session x", "expected", "--session x", "NAME=VALUE"),
        (
            "decode CAP --metadata-prefix",
            "requires",
            "--metadata-prefix",
            "an argument",
        ),
        ("decode CAP --to pg://u:p@h/d", "a URL", "--to", "only local files"),
        ("decode CAP --versions al", "not one of", "'--versions'", "'one', 'union'"),
        # tables and inspect
        ("tables", "Missing argument", "FILE", "See walrow tables --help"),
        ("tables no.wire", "does not exist", "no.wire", "See walrow tables --help"),
        ("tables CAP --colums", "No such option", "'--colums'", "'--columns'"),
        ("tables CAP --framing x", "not one of", "'--framing'", "'wire', 'copydata'"),
        ("inspect", "Missing argument", "FILE", "See walrow inspect --help"),
        ("inspect no.wire", "does not exist", "no.wire", "See walrow inspect --help"),
        ("inspect CAP --limit x", "x is not a number", "'--limit'", "from 0"),
        ("inspect CAP --limit -1", "not in the range", "'--limit'", "x>=0"),
        ("inspect CAP --xid x", "x is not a XID", "'--xid'", "up to 4294967295"),
        ("inspect CAP --start x", "x is not an LSN", "'--start'", _AT),
        ("inspect CAP --table itme", "no table", "itme", "did you mean item?"),
        (
            "inspect CAP --count --limit 1",
            "cannot be used",
            "--limit",
            "counts all frames",
        ),
        ("inspect CAP --jsno", "No such option", "'--jsno'", "'--json'"),
        # state, follow
        ("state", "Missing argument", "LOG", "See walrow state --help"),
        ("state LOG", "Missing option", "'--table'", "See walrow state --help"),
        (
            "state LOG --table itme",
            "does not have",
            "itme",
            "public.item, public.stock",
        ),
        (
            "state no --table item",
            "No such file",
            "no:",
            "walrow receive and walrow seal",
        ),
        ("state LOG --table item --as-of x", "x is not an LSN", "'--as-of'", _AT),
        ("state LOG --table item --to x.csv", "neither", "x.csv", "use --format"),
        (
            "state LOG --table item --colums x",
            "No such option",
            "--colums",
            "--column",
        ),
        ("follow", "give", "a LOG", "a server with --dsn"),
        ("follow no", "No such file", "no:", "walrow receive and walrow seal"),
        ("follow LOG --start x", "x is not an LSN", "'--start'", _AT),
        ("follow LOG --where id=1", "one table", "--where", "with --table"),
        ("follow LOG --tabel x", "No such option", "'--tabel'", "'--table'"),
        ("follow --dsn dbname=x", "choose tables", "with --dsn", "--publication"),
        # log
        ("log nothing", "No such command", "'nothing'", "See walrow log --help"),
        ("log compct LOG", "No such command", "'compct'", "Did you mean 'compact'?"),
        ("log list", "Missing argument", "LOG", "See walrow log list --help"),
        *(
            (f"log {each} no", "No such file", "no:", "walrow receive and walrow seal")
            for each in (
                "list",
                "verify",
                "check",
                "readers",
                "marks",
                "resume",
                "compact",
            )
        ),
        ("log prune LOG", "Missing option", "'--end'", "log prune --help"),
        ("log prune LOG --end x", "x is not an LSN", "'--end'", _AT),
        ("log retain LOG", "nothing to remove", "add --retain", "--retain 7d"),
        ("log retain LOG --retain x", "not a duration", "'--retain'", "such as 7d"),
        (
            "log retain LOG --forget-after x",
            "is not a duration",
            "'--forget-after'",
            _DURATION,
        ),
        ("log rewrite LOG", "Missing option", "'--table'", "log rewrite --help"),
        (
            "log rewrite LOG --table item",
            "name a column",
            "a key",
            "at least one column",
        ),
        (
            "log rewrite LOG --table itme --drop-column x",
            *("no table", "itme", "public.item, public.stock"),
        ),
        (
            "log rewrite LOG --table item --drop-column x",
            *("no column", "'x' of item", "amount, id, label"),
        ),
        (
            "log rewrite LOG --table item --delete-key x",
            *("not a JSON object", "'--delete-key'", "of columns and values"),
        ),
        (
            "log compact LOG --segment-size x",
            "is not a size",
            "'--segment-size'",
            _SIZE,
        ),
        ("log accept LOG item", "Missing option", "'--reason'", "log accept --help"),
        (
            "log accept LOG itme --reason x",
            "no table",
            "itme",
            "public.item, public.stock",
        ),
        (
            "log accept LOG item --reason x",
            "no open mark",
            "public.item",
            "open are: none; see walrow log marks LOG",
        ),
        ("log forget LOG", "Missing argument", "NAME", "log forget --help"),
        ("log forget LOG x", "no reader", "x", "is registered"),
        # load and seal
        ("load", "Missing argument", "LOG", "See walrow load --help"),
        ("load LOG", "name tables", "or", "pass --all"),
        ("load LOG item --all", "name tables", "or", "pass --all"),
        ("load no item", "No such file", "no:", "directory"),
        ("load LOG item --timeout x", "is not a duration", "'--timeout'", _DURATION),
        ("load LOG x --timeout 1 --no-wait", "exclude", "--timeout", "--no-wait"),
        ("load LOG a.b --cancel", "no load was requested", "of a.b", "--help"),
        (
            "load LOG a.b --timeout 0",
            "not loaded yet",
            "tables",
            "walrow receive",
        ),
        ("seal CAP", "Missing option", "'--log'", "See walrow seal --help"),
        ("seal --log NEW", "Missing argument", "FILE", "See walrow seal --help"),
        ("seal no.wire --log NEW", "No such file", "no.wire", "below /"),
        (
            "seal CAP --log NEW --segment-size x",
            "is not a size",
            "'--segment-size'",
            _SIZE,
        ),
        (
            "seal CAP --log NEW --compression-level x",
            "not a number",
            "'--compression-level'",
            "up to 22",
        ),
        (
            "seal CAP --log NEW --compresion-level 1",
            "No such",
            "--compresion",
            "'--compression-level'",
        ),
        ("seal CAP --log dbname=x", "a connection string", "the log", "its directory"),
        # servers
        *(
            (f"{words} dbnme=x", "not a", "connection string", _CONNINFO)
            for words in (
                "catalog --dsn",
                "preflight --dsn",
                "identify --dsn",
                "timeline 1 --dsn",
                "show wal_level --dsn",
                "slot list --dsn",
                "slot drop s --dsn",
                "slot show s --dsn",
                "slot create s --dsn",
                "slot alter s --failover --dsn",
                "backup base --to NEW --dsn",
                "backup wal --to NEW --dsn",
                "receive --log NEW --slot s --publication p --dsn",
                "follow --table t --dsn",
            )
        ),
        *(
            (f"{words} '{_NO_SERVER}'", "cannot connect", "/nothing/", "Is the server")
            for words in (
                "catalog --dsn",
                "preflight --dsn",
                "identify --dsn",
                "slot list --dsn",
            )
        ),
        ("catalog --dsn dbname=x -o", "requires", "-o", "an argument"),
        ("preflight x", "unexpected extra argument", "(x)", "preflight --help"),
        ("preflight --slto x", "No such option", "'--slto'", "'--slot'"),
        ("timeline x", "x is not a number", "NUMBER", "from 1 up to"),
        ("show", "Missing argument", "SETTING", "See walrow show --help"),
        ("slot nothing", "No such command", "'nothing'", "See walrow slot --help"),
        ("slot creat s", "No such command", "'creat'", "Did you mean 'create'?"),
        ("slot create", "Missing argument", "NAME", "slot create --help"),
        ("slot create s --pugin x", "No such option", "'--pugin'", "'--plugin'"),
        ("slot drop", "Missing argument", "NAME", "slot drop --help"),
        ("slot alter s", "nothing to change", "--failover", "add --failover or"),
        # receive
        (
            "receive --slot s --publication p",
            "Missing option",
            "'--log'",
            "See walrow receive --help",
        ),
        (
            "receive --log NEW",
            "Missing option",
            "'--slot'",
            "See walrow receive --help",
        ),
        (
            "receive --log NEW --slot s",
            "Missing option",
            "'--publication'",
            "receive --help",
        ),
        ("receive --snapshto", "No such option", "'--snapshto'", "'--snapshot'"),
        *(
            (
                f"receive --log NEW --slot s --publication p {words}",
                wrong,
                where,
                remedy,
            )
            for words, wrong, where, remedy in (
                (
                    "--publish-after x",
                    "is not a duration",
                    "'--publish-after'",
                    _DURATION,
                ),
                ("--segment-size x", "is not a size", "'--segment-size'", _SIZE),
                ("--jobs x", "not a number", "'--jobs'", "from 1"),
                ("--retain x", "not a duration", "'--retain'", "such as 7d"),
                ("--snapshot", "a slot that is created", "the first load", "--create"),
            )
        ),
        # apply
        ("apply", "Missing argument", "LOG", "See walrow apply --help"),
        *(
            (f"apply LOG {words}", wrong, where, remedy)
            for words, wrong, where, remedy in (
                ("--table item", "Missing option", "'--target'", "apply --help"),
                ("--table item --target x", "'x'", "target", "delta:"),
                ("--table itme --target delta:NEW", "no table", "itme", "public.stock"),
                ("--engine dlta", "not one of", "'--engine'", "'delta', 'spark'"),
                ("--deletes hard", "not one of", "'--deletes'", "'apply', 'soft'"),
                ("--end soon", "is not an LSN", "'--end'", _AT),
                ("--memory x", "is not a size", "'--memory'", _SIZE),
                ("--tpye x", "No such option", "'--tpye'", "'--type'"),
            )
        ),
        # run, status
        ("run", "Missing argument", "FILE", "See walrow run --help"),
        ("run no.toml", "No such file", "no.toml", "directory"),
        ("run no.toml --chek", "No such option", "'--chek'", "'--check'"),
        ("status", "Missing argument", "LOG", "See walrow status --help"),
        ("status no", "No such file", "no:", "walrow receive and walrow seal"),
        ("init --dsn dbnme=x", "not a", "connection string", _CONNINFO),
        ("init --shcema", "No such option", "'--shcema'", "'--schema'"),
        # backup
        ("backup nothing", "No such command", "'nothing'", "See walrow backup --help"),
        ("backup base", "Missing option", "'--to'", "backup base --help"),
        (
            "backup base --to NEW --format x",
            "not one of",
            "'--format'",
            "'tar', 'plain'",
        ),
        ("backup base --to NEW --wal x", "not one of", "'--wal'", "'fetch', 'none'"),
        ("backup wal", "Missing option", "'--to'", "backup wal --help"),
        ("backup wal --to NEW --until x", "'x'", "until", "'now' or an LSN"),
        ("ddl-trigger x", "unexpected extra argument", "(x)", "ddl-trigger --help"),
        ("ddl-trigger --dorp", "No such option", "'--dorp'", "'--drop'"),
        # run, init, receive and apply by a file
        (
            "run docs",
            "Is a directory",
            "docs",
            "name the file, which walrow init writes",
        ),
        ("run CAP", "not UTF-8", "rows.text.wire, line 1", "save it as UTF-8"),
        ("run no.toml more", "extra argument", "more", "See walrow run --help"),
        ("run no.toml --check --once", "starts nothing", "--check", "without --once"),
        ("init more", "extra argument", "more", "See walrow init --help"),
        ("init -o CAP --schema", "exists", "rows.text.wire", "give another name"),
        ("receive --config no.toml", "No such file", "no.toml", "walrow init writes"),
        ("receive --config docs", "Is a directory", "docs", "walrow init writes"),
        ("receive --config f --until later", "'later'", "'--until'", "is not 'now'"),
        (
            "apply --config no.toml --once",
            "No such file",
            "no.toml",
            "walrow init writes",
        ),
        ("apply --config docs", "Is a directory", "docs", "walrow init writes"),
        # status, follow and others of a place that is no log
        ("status CAP", "is a file", "rows.text.wire", "name the log's"),
        ("status docs", "there is no log", "docs", "walrow seal write logs"),
        ("status LOG more", "extra argument", "more", "See walrow status --help"),
        ("status LOG --jsno", "No such option", "'--jsno'", "'--json'"),
        ("status dbname=x", "a connection string", "the log", "give its directory"),
        ("follow CAP", "is a file", "rows.text.wire", "name the log's"),
        ("follow docs", "there is no log", "docs", "walrow seal write logs"),
        (
            "follow LOG --start 16/B374D84Z",
            "16/B374D84Z is not an LSN",
            "'--start'",
            _AT,
        ),
        (
            "follow --table t --dsn dbname=x --start -1h",
            "needs a LOG",
            "--start",
            "from now on",
        ),
        ("state CAP --table item", "is a file", "rows.text.wire", "name the log's"),
        ("state LOG --table a.b.c", "does not have", "a.b.c", "public.item"),
        ("log list docs", "there is no log", "docs", "walrow seal write logs"),
        ("log verify CAP", "is a file", "rows.text.wire", "name the log's"),
        ("log forget no x", "No such file", "no:", "walrow seal write logs"),
        (
            "log accept no item --reason x",
            "No such file",
            "no:",
            "walrow seal write logs",
        ),
        ("log retain LOG --retain -1d", "not a duration", "'--retain'", "such as 7d"),
        (
            "log prune LOG --end 16/B374D84Z",
            "16/B374D84Z is not an LSN",
            "'--end'",
            _AT,
        ),
        ("log compact CAP", "is a file", "rows.text.wire", "name the log's"),
        ("load CAP a.b --no-wait", "is a file", "rows.text.wire", "name the log's"),
        ("load docs a.b --no-wait", "there is no log", "docs", "walrow receive"),
        ("load LOG nope --no-wait", "needs its schema", "nope", "as schema.name"),
        ("load LOG --cancel", "name tables", "load", "pass --all"),
        ("load LOG a.b --timeout -1", "is not a duration", "'--timeout'", _DURATION),
        ("seal CAP --log CAP", "is a file", "rows.text.wire", "name another"),
        ("seal CAP --log docs", "no log", "docs", "an empty or new directory"),
        (
            "seal CAP --log s3://x/y/",
            "only be read",
            "a log at a URL",
            "local directory",
        ),
        # receive, apply and backups
        (
            "receive --log CAP --slot s --publication p",
            *("is a file", "rows.text.wire", "name another"),
        ),
        (
            "receive --log NEW --slot '' --publication p",
            *("is empty", "slot", "name the slot"),
        ),
        (
            "receive --log NEW --slot s --publication p --max-hold -1",
            *("is not a size", "'--max-hold'", _SIZE),
        ),
        (
            "receive --log NEW --slot s --publication p --retain 7",
            *("not a duration", "'--retain'", "such as 7d"),
        ),
        (
            "receive --log NEW --slot s --publication p --until later",
            *("'later'", "'--until'", "is not 'now'"),
        ),
        (
            "apply docs --table item --target delta:NEW",
            *("there is no log", "docs", "walrow seal write logs"),
        ),
        (
            "apply LOG --table item --target delta:CAP",
            *("is a file", "rows.text.wire", "name another"),
        ),
        (
            "apply LOG --table item --target delta:NEW --keys id",
            *("No such option", "'--keys'", "'--key'"),
        ),
        (
            "apply LOG --table item --target delta:NEW --key nope",
            *("the table lacks", "nope", _COLUMNS),
        ),
        (
            "apply LOG --table item --target delta:NEW --partition-by nope",
            *("no such column", "partition_by", _COLUMNS),
        ),
        (
            "apply LOG --table item --target delta:NEW --mode histry",
            *("'histry'", "'--mode'", "'history'"),
        ),
        (
            "apply LOG --table item --target delta:NEW --every x",
            *("is not a duration", "'--every'", _DURATION),
        ),
        ("timeline 0 --dsn dbname=x", "not in the range", "NUMBER", "1<=x"),
        ("slot list s", "extra argument", "(s)", "See walrow slot list --help"),
        (
            "identify --dsn postgres://u@/x?sslmod=1",
            "not a connection string",
            "this",
            "write it as",
        ),
    )
]
