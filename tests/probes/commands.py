"""Wrong commands. CAP is a capture, LOG is a log, and NEW is the path of a new file."""

from __future__ import annotations

from probes import SECRET, Command

COMMANDS = [
    # Words: commands, arguments, options and their values.
    Command("decod CAP", 2, ("decod", "'decode'")),
    Command("decode", 2, ("FILE", "walrow decode --help")),
    Command("state LOG", 2, ("--table", "walrow state --help")),
    Command("init more", 2, ("more", "walrow init --help")),
    Command("decode CAP --metadata-prefix", 2, ("--metadata-prefix",)),
    Command("decode CAP --profile arow", 2, ("--profile", "'arrow'")),
    Command("inspect CAP --limit x", 2, ("--limit", "0")),
    Command("decode CAP --type amount", 2, ("--type", "NAME=VALUE")),
    Command("decode CAP --start x", 2, ("--start", "LSN", "time")),
    Command("seal CAP --log NEW --segment-size x", 2, ("--segment-size", "64MiB")),
    Command("log rewrite LOG --table item --delete-key x", 2, ("--delete-key", "JSON")),
    Command("decode CAP --session client_encoding=x", 2, ("client_encoding", "UTF8")),
    # Options that need or contradict each other.
    Command("decode - --start -1h", 2, ("standard input", "--start")),
    Command("decode CAP --to NEW.parquet", 2, ("public.item", "--table")),
    Command("decode CAP --to x.csv", 2, ("x.csv", "--format")),
    Command("inspect CAP --count --limit 1", 2, ("--limit",)),
    Command("decode CAP --format parquet", 2, ("--to",)),
    Command("log retain LOG", 2, ("--retain",)),
    Command(
        "receive --log NEW --slot s --publication p --snapshot",
        *(2, ("--create",)),
    ),
    # What is not there, or is something else.
    Command("run no.toml", 1, ("no.toml",)),
    Command("run CAP", 2, ("rows.text.wire", "UTF-8")),
    Command("init -o CAP --schema", 1, ("rows.text.wire",)),
    Command("log list no", 1, ("no:", "walrow receive", "walrow seal")),
    Command("log compact CAP", 1, ("rows.text.wire", "directory")),
    Command("decode CAP --table itme", 1, ("itme", "item?")),
    Command("apply LOG --table item --target x", 2, ("'x'", "delta:")),
    # Connection strings, which may have a password.
    Command(f"seal CAP --log 'dbname=x password={SECRET}'", 2, ("directory",)),
    Command(
        f"preflight --dsn 'dbnme=x password={SECRET}'",
        *(2, ("'host=db dbname=shop'",)),
    ),
    Command(
        f"catalog --dsn 'host=/nothing dbname=x password={SECRET}'",
        *(1, ("/nothing/", "Is the server")),
    ),
]
