"""The file of `walrow run`: refusals before anything starts, its tables, and the plan."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import normpath
from typing import Any
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walrow._run.config import Loaded

pytest.importorskip("psycopg")

from click.testing import CliRunner

from secret_texts import CANARY
from walrow._amounts import duration, size
from walrow._apply.places import check_target
from walrow._log.retention import Retention
from walrow._lsn import Lsn
from walrow._receive.options import ReceiveOptions
from walrow._run.config import json_schema
from walrow._run.drafting import draft
from walrow._run.matching import Table, claims, unmatched
from walrow._run.plan import Facts, doubtful, plan
from walrow._run.reading import parse, read
from walrow._run.records import Recorded
from walrow._run.server import Publication, Server
from walrow.cli import configured
from walrow.cli.app import cli
from walrow.errors import OptionError
from walrow.log import Received

GOOD = """\
[source]
dsn = "dbname=shop"
slot = "shop"
publications = ["shop"]

[log]
path = "log"
retain_age = "7d"
segment_size = "64MiB"

[spark]
"spark.jars.packages" = "a:b:c"

[[target]]
tables = ["sales.*"]
exclude = ["sales.tmp_*"]
to = "delta:lake/{schema}/{table}"
every = "1m"

[[target]]
tables = ["public.orders"]
to = "iceberg:lake.shop.{table}"
types = {total = "float64"}
load = "ask"
"""
FILE = Path("/etc/shop.toml")


def parsed(text: str = GOOD, *, is_private: bool = True) -> Loaded:
    return parse(text, FILE, is_private=is_private)


def test_a_file_is_typed() -> None:
    loaded = parsed()
    file = loaded.file
    source = file.source
    assert (source.dsn, source.slot) == ("dbname=shop", "shop")
    assert (source.publications, source.jobs) == (("shop",), 4)
    assert (file.log.retain_age, file.log.segment_size) == (604_800.0, 64 << 20)
    assert file.spark == {"spark.jars.packages": "a:b:c"}
    first, second = file.target
    assert (first.every, first.engine, first.load) == (60.0, "auto", "auto")
    assert (second.types, second.load) == ({"total": "float64"}, "ask")
    # Relative paths begin at the file, names of catalogs are no paths.
    assert loaded.log == Path("/etc/log")
    assert first.to == "delta:/etc/lake/{schema}/{table}"
    assert second.to == "iceberg:lake.shop.{table}"
    assert loaded.names(1) == "target 2 (line 20)"


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        # Each names the file, the line, the key, and what to do.
        ('slot = "shop"', 'slott = "shop"', "line 3: source.slott: there is no such key: did you mean slot?"),
        ('slot = "shop"', "", "line 1: source.slot: it is missing: add slot = …"),
        ('slot = "shop"', "slot = 5", "line 3: source.slot: it must be a text in quotes, not a number"),
        ('slot = "shop"', 'slot = ""', "line 3: source.slot: it is empty"),
        ('["shop"]', '"shop"', 'line 4: source.publications: it must be a list of texts: ["…"], not a text'),
        ('["shop"]', "[]", "line 4: source.publications: name at least one"),
        ('["shop"]', '["shop"]\njobs = true', "line 5: source.jobs: it must be a whole number, not true or false"),
        ('["shop"]', '["shop"]\njobs = 0', "line 5: source.jobs: it is 0: it must be from 1 to 64"),
        ('["shop"]', '["shop"]\nsnapshot = true', "line 5: source.snapshot: the log begins with rows only if the slot is created: add create = true"),
        ('["shop"]', '["shop"]\norigin = "all"', 'line 5: source.origin: it must be one of "any", "none"'),
        ('"7d"', '"7 days"', "line 8: log.retain_age: it must be a duration"),
        ('"7d"', '"inf"', "line 8: log.retain_age: it is inf: it must be up to 1000000000000"),
        ('"7d"', "-1", "line 8: log.retain_age: it must be a duration"),
        ('"64MiB"', '"64 miles"', "line 9: log.segment_size: it must be a size"),
        ('"64MiB"', "1.5", "line 9: log.segment_size: it must be a size"),
        ('"64MiB"', '"64MiB"\npublish_after = 0', "line 10: log.publish_after: it is 0.0: it must be from 0.01 to 1000000000"),
        ('path = "log"', 'path = "s3://bucket/log"', "line 7: log.path: a log is written into a local directory"),
        ('"spark.jars.packages" = "a:b:c"', "spark.jars = 1", 'line 12: spark.spark: names with a dot need quotes: "spark.…" = "…"'),
        ('"spark.jars.packages" = "a:b:c"', '"spark.x" = 1', "line 12: spark.spark.x: it must be a text in quotes, not a number"),
        ('["sales.*"]', "[]", 'line 15: target 1.tables: name a pattern, such as "public.*"'),
        ('["sales.*"]', '["orders"]', 'line 15: target 1.tables: "orders" has no schema: write "public.orders"'),
        ('["sales.tmp_*"]', '["sales."]', 'line 16: target 1.exclude: "sales." lacks a name'),
        ("delta:lake/{schema}/{table}", "lake/{table}", 'line 17: target 1.to: it must be "delta:PATH"'),
        ("delta:lake/{schema}/{table}", "delta:{table}", "line 17: target 1.to: a path has a slash"),
        ("delta:lake/{schema}/{table}", "delta:lake/{name}", "line 17: target 1.to: only {schema} and {table}"),
        ("delta:lake/{schema}/{table}", "delta:lake/{table", "line 17: target 1.to: a brace is alone"),
        ("delta:lake/{schema}/{table}", "delta:lake/{table!r}", "line 17: target 1.to: only {schema} and {table}"),
        ('"1m"', "0", "line 18: target 1.every: it must be more than 0 seconds"),
        ('"1m"', '"1m"\ncluster_by = ["a"]', 'line 19: target 1.cluster_by: only Spark has it: add engine = "spark"'),
        ('"1m"', '"1m"\nmemory = "1MiB"', "line 19: target 1.memory: it is 1048576: it must be from 67108864 on"),
        ('"1m"', '"1m"\nengine = "detla"', 'line 19: target 1.engine: it must be one of "auto", "delta", "spark"'),
        ('load = "ask"', 'load = "ask"\nengine = "delta"', 'line 25: target 2.engine: deltalake writes delta:PATH only: engine = "spark"'),
        ('load = "ask"', 'load = "ask"\nmemory = "1GiB"', "line 25: target 2.memory: only deltalake has it: leave it out"),
        ("[[target]]", "[target]", "it is not TOML: "),
        ('load = "ask"', 'load = "ask"\nload = "ask"', "it is not TOML: Cannot overwrite a value"),
    ],
)  # fmt: skip
def test_what_is_refused(line: str, instead: str, said: str) -> None:
    assert line in GOOD
    at = GOOD.rindex(line) if line.startswith(("load", "[[")) else GOOD.index(line)
    text = GOOD[:at] + instead + GOOD[at + len(line) :]
    with pytest.raises(OptionError) as caught:
        parsed(text)
    assert str(caught.value).startswith(str(FILE))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "/etc/shop.toml: source: it is missing: add [source] with its keys"),
        ("source = 1", "line 1: source: it must be a table: write [source] above its keys"),
        ("[source]\nslot = 's'\npublications = ['p']\n[log]\npath = 'l'", "target: it is missing: add [[target]] with its keys"),
        ("target = []\n[source]\nslot = 's'\npublications = ['p']\n[log]\npath = 'l'", "line 1: target: it must be an array of tables: write [[target]]"),
        ("[sorce]\n", "line 1: sorce: there is no such key: did you mean source?"),
    ],
)  # fmt: skip
def test_parts_that_are_missing(text: str, said: str) -> None:
    with pytest.raises(OptionError, match=re.escape(said)):
        parsed(text)


def test_text_that_looks_like_a_key_has_no_line() -> None:
    text = GOOD.replace('dsn = "dbname=shop"', 'dsn = """\\\nslot = 1"""')
    with pytest.raises(OptionError, match=r"source\.dsn: this is not a connection"):
        parsed(text)
    text = GOOD.replace('dsn = "dbname=shop"', "dsn = '''dbname=shop\n'''\n[source.x]")
    with pytest.raises(OptionError, match=r"line 4: source.x: there is no such key"):
        parsed(text)


def test_the_keys_are_options_of_receive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[ReceiveOptions] = []

    def receive(*conninfo: str, **options: Any) -> Received:
        given.append(ReceiveOptions(*conninfo, **options))
        return Received(position=Lsn(0), transactions=0, rows=0, bytes=0, segments=0)

    monkeypatch.setattr(configured, "receive_into_log", receive)
    path = tmp_path / "shop.toml"
    path.write_text(
        GOOD.replace('["shop"]', '["a", "b"]\njobs = 2').replace(
            'path = "log"', 'path = "log"\ncompact = true\npublish_after = "1m"'
        )
    )
    done = CliRunner().invoke(cli, ["receive", "--config", str(path)])
    assert done.exit_code == 0, done.output
    (options,) = given
    assert (options.conninfo, options.log) == ("dbname=shop", tmp_path / "log")
    assert (options.slot, options.publications) == ("shop", ("a", "b"))
    assert (options.jobs, options.compact, options.publish_after) == (2, True, 60.0)
    assert options.segment_size == 64 << 20
    assert options.retain == Retention(age="7d")
    assert (options.binary, options.streaming, options.until) == (False, None, None)


def test_a_history() -> None:
    pytest.importorskip("pyarrow")
    text = GOOD.replace('every = "1m"', 'mode = "history"')
    assert parsed(text).file.target[0].mode == "history"


@pytest.mark.parametrize("key", ["password", "sslpassword"])
def test_a_password_in_a_file_that_others_may_read(tmp_path: Path, key: str) -> None:
    path = tmp_path / "shop.toml"
    path.write_text(GOOD.replace("dbname=shop", f"dbname=shop {key}={CANARY}"))
    for mode in (0o644, 0o640, 0o604):
        path.chmod(mode)
        with pytest.raises(OptionError) as caught:
            read(path)
        assert f"line 2: source.dsn: it has {key}, and others may read the file" in str(
            caught.value
        )
        assert f"chmod 600 {path}" in str(caught.value)
        assert CANARY not in str(caught.value)
    path.chmod(0o600)
    assert CANARY in read(path).file.source.dsn
    # Without a password, everybody may read it.
    path.write_text(GOOD)
    path.chmod(0o644)
    read(path)


def test_a_secret_of_an_object_store(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    for key, is_secret in (("AWS_REGION", False), ("aws_secret_access_key", True)):
        option = f'every = "1m"\nstorage_options = {{{key} = "{CANARY}"}}'
        path.write_text(GOOD.replace('every = "1m"', option))
        path.chmod(0o644)
        if not is_secret:
            assert read(path).file.target[0].storage_options == {key: CANARY}
            continue
        with pytest.raises(OptionError) as caught:
            read(path)
        assert f"line 19: target 1.storage_options.{key}: it may be secret" in str(
            caught.value
        )
        assert CANARY not in str(caught.value)
        path.chmod(0o600)
        read(path)


@pytest.mark.parametrize(
    ("key", "is_secret"),
    [
        ("spark.hadoop.fs.s3a.secret.key", True),
        ("spark.hadoop.fs.s3a.access.key", True),
        ("spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net", True),
        ("spark.hadoop.javax.jdo.option.ConnectionPassword", True),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", False),
        ("spark.sql.catalog.lake.type", False),
    ],
)
def test_a_secret_of_spark(tmp_path: Path, key: str, *, is_secret: bool) -> None:
    path = tmp_path / "shop.toml"
    path.write_text(
        GOOD.replace('"spark.jars.packages" = "a:b:c"', f'"{key}" = "{CANARY}"')
    )
    path.chmod(0o644)
    if is_secret:
        with pytest.raises(OptionError) as caught:
            read(path)
        assert f"line 12: spark.{key}: it may be secret, and others" in str(
            caught.value
        )
        assert CANARY not in str(caught.value)
        path.chmod(0o600)
    assert read(path).file.spark == {key: CANARY}


def test_no_message_has_a_part_of_the_connection_string() -> None:
    for dsn in (f"host=db pasword={CANARY}", f"postgresql://me:{CANARY}@[", CANARY):
        with pytest.raises(OptionError) as caught:
            parsed(GOOD.replace("dbname=shop", dsn))
        assert CANARY not in str(caught.value)


# ---------------------------------------------------------------------- the tables

ORDERS = Table(1, "public", "orders")
ITEMS = Table(2, "sales", "items")
TMP = Table(3, "sales", "tmp_1")
TABLES = (ORDERS, ITEMS, TMP)


def test_patterns_choose_tables() -> None:
    found = claims(parsed(), TABLES)
    assert [(it.table, it.at, it.place, it.problem) for it in found] == [
        (ORDERS, 1, "iceberg:lake.shop.orders", None),
        (ITEMS, 0, "delta:/etc/lake/sales/items", None),
    ]
    assert unmatched(parsed(), TABLES) == []
    (said,) = unmatched(parsed(), (ORDERS, ITEMS))
    assert said == (
        'target 1 (line 14), exclude: "sales.tmp_*" matches no published table: mend it, or '
        "remove it"
    )


def test_two_targets_that_claim_one_table() -> None:
    loaded = parsed(GOOD.replace('"public.orders"', '"*.items"'))
    (found,) = claims(loaded, TABLES)
    assert found.problem == (
        "target 1 (line 14) and target 2 (line 20) both claim it: exclude it in one of them"
    )
    # Others go on.
    made = plan(loaded, Facts(tables=(*TABLES, Table(4, "sales", "b")), changed=(2, 4)))
    assert [it.table.table for it in made.apply] == ["b"]
    assert [it.claim.table for it in made.refused] == [ITEMS]


@pytest.mark.parametrize(
    ("to", "one", "other", "is_same"),
    [
        ("delta:lake/{table}", Table(1, "a", "t"), Table(2, "b", "t"), True),
        ("delta:lake/{schema}/{table}", Table(1, "a", "t"), Table(2, "b", "t"), False),
        # Names in catalogs differ by more than case, paths do not need to.
        ("iceberg:a.{table}", Table(1, "a", "t"), Table(2, "a", "T"), True),
        ("delta:lake/{table}", Table(1, "a", "t"), Table(2, "a", "T"), False),
    ],
)
def test_two_tables_with_one_place(
    to: str, one: Table, other: Table, *, is_same: bool
) -> None:
    text = GOOD.replace("delta:lake/{schema}/{table}", to).replace("sales.*", "*.*")
    text = text[: text.rindex("[[target]]")]
    found = claims(parsed(text), [one, other])
    assert [it.problem is not None for it in found] == [is_same, is_same]
    if is_same:
        assert f"is the place of {other.name}, too" in (found[0].problem or "") or (
            f"is the place of {one.name}, too" in (found[0].problem or "")
        )


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("delta:log/{table}", "the log /etc/log are one in the other"),
        ("delta:./lake/../log", "the log /etc/log are one in the other"),
        ("delta:/etc/", "the log /etc/log are one in the other"),
        ("delta:lake/sales/items/{table}", "the place of sales.items are one in the"),
        ("delta:./lake/../lake/sales/items/", "is the place of sales.items, too"),
        ("delta:logs/{table}", None),
        ("delta:lake/sales/items2", None),
    ],
)
def test_no_place_lies_in_the_log_or_in_another_place(
    to: str, said: str | None
) -> None:
    text = GOOD.replace("iceberg:lake.shop.{table}", to)
    found = {it.table: it.problem for it in claims(parsed(text), TABLES)}
    assert found[ORDERS] is None if said is None else said in (found[ORDERS] or "")


#: Characters that lead to another place in a path, a URL, Hadoop or a shell, and others.
NAMES = st.text(
    st.sampled_from(".%2eEfF/\\#?+ _aAéÅ\u0301\u212b\t\n[]{}*|~`\"'$:\ud800") | st.characters(),
    min_size=1,
    max_size=8,
) | st.sampled_from(["..", ".", "%2e%2e", "%2e%2e%2F", "_delta_log", "é" * 31, " ", "a\0b"])  # fmt: skip


@pytest.mark.parametrize(
    "to",
    [
        "delta:/lake/{schema}/{table}",
        "delta:s3://bucket/100%/{schema}/{table}",
        "iceberg:shop.{schema}.{table}",
    ],
)
def test_no_name_chooses_a_place(to: str) -> None:
    text = GOOD.replace("delta:lake/{schema}/{table}", to).replace("sales.*", "*.*")
    text = text[: text.rindex("[[target]]")].replace('["sales.tmp_*"]', "[]")
    loaded = parsed(text)

    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=4, unique=True))
    def each(names: list[tuple[str, str]]) -> None:
        tables = [Table(at, *it) for at, it in enumerate(names)]
        for claim in claims(loaded, tables):
            # Names in catalogs may not differ by case alone.
            alike = [it for it in names if is_alike(it, claim.table[1:])]
            is_catalog = to.startswith("iceberg")
            assert (claim.problem is None) or (is_catalog and len(alike) > 1)
            place = claim.place.partition(":")[2]
            if is_catalog:
                schema, table = re.findall("`[^`]*`|[^`.]+", place)[1:]
                assert place == f"shop.{schema}.{table}"
            else:
                around, schema, table = place.rsplit("/", 2)
                assert f"delta:{around}/{{schema}}/{{table}}" == to
                check_target(claim.place)
                # A library that decodes the path or URL gets the same text.
                assert unquote(urlsplit(f"file://{place}").path) in f"{place}"
                assert normpath(f"/{schema}/{table}") == f"/{schema}/{table}"
            # No other name has this place, even if a file system composes letters.
            composed = (normalize("NFC", it.strip("`")) for it in (schema, table))
            assert tuple(map(decoded, composed)) == claim.table[1:]

    each()


def is_alike(one: tuple[str, str], other: tuple[Any, ...]) -> bool:
    return [it.casefold() for it in one] == [it.casefold() for it in other]


def decoded(part: str) -> str:
    """The name that a part of a place was made of, as docs/running.md describes it."""
    data = re.sub(
        rb"\+([0-9A-F]{2})", lambda it: bytes([int(it[1], 16)]), part.encode()
    )
    return data.decode(errors="surrogatepass")


@pytest.mark.parametrize(
    ("to", "said"),
    [
        # deltalake makes the directory /lake/sales/x, and /lake.
        ("delta:lake/%2e%2e/{table}", "a library may take '%2e' in it for another dir"),
        ("delta:s3://bucket/x#{table}", "a library may take '#' in it for another dir"),
        ("delta:s3://bucket/../{table}", "a library may take '..' in it for another dir"),
        ("delta:lake/{schema}/_delta_log", "a library may take '_delta_log' in it for"),
        ("delta:lake/{schema}{schema}{table}{table}", "at most 255 bytes: choose a shorter"),
    ],
)  # fmt: skip
def test_a_place_that_means_another_is_refused(to: str, said: str) -> None:
    text = GOOD.replace("delta:lake/{schema}/{table}", to)
    (found,) = claims(parsed(text), [Table(1, "sales", "'" * 63)])
    assert "target 1 (line 14): " in (found.problem or "")
    assert said in (found.problem or "")


def test_a_file_system_that_ignores_case(tmp_path: Path) -> None:
    lake = tmp_path / "Lake"
    lake.mkdir()
    file = tmp_path / "shop.toml"
    file.write_text(
        GOOD.replace("delta:lake/{schema}/{table}", f"delta:{lake}/{{table}}")
    )
    file.chmod(0o600)
    tables = [Table(1, "sales", "t"), Table(2, "sales", "T"), Table(3, "sales", "u")]
    assert [it.problem for it in claims(read(file), tables)] == [None] * 3
    # Such a file system finds the directory under both names.
    (tmp_path / "lAKE").symlink_to(lake)
    problems = {it.table.table: it.problem for it in claims(read(file), tables)}
    assert "is the place of sales.T, too" in (problems["t"] or "")
    assert "is the place of sales.t, too" in (problems["T"] or "")
    assert problems["u"] is None


def test_braces_in_the_directory_of_the_file_are_no_template() -> None:
    loaded = parse(GOOD, Path("/etc/{x}/shop.toml"), is_private=True)
    (found, _) = sorted(claims(loaded, TABLES), key=lambda it: it.at)
    assert found.place == "delta:/etc/{x}/lake/sales/items"


# ---------------------------------------------------------------------- the plan


def facts(**given: Any) -> Facts:
    return Facts(**({"tables": TABLES, "changed": (1, 2, 3)} | given))


def test_tables_that_need_a_load() -> None:
    needs = {1: "it is new", 2: "it is new"}
    made = plan(parsed(), facts(needs=needs))
    # One is loaded by itself, the other one is named.
    assert [it.table for it in made.load] == [ITEMS]
    assert [(it.claim.table, it.is_asked) for it in made.waiting] == [
        (ORDERS, True),
        (ITEMS, False),
    ]
    # A person decides about a load that may not be needed.
    made = plan(parsed(), facts(needs=needs, unsure={2}))
    assert (made.load, [it.is_asked for it in made.waiting]) == ((), [True, True])
    for requested in (None, {"sales.items"}):
        assert not plan(parsed(), facts(needs=needs, requested=requested)).load
    # A table without a change in the log has nothing to apply.
    assert not plan(parsed(), facts(changed=())).apply


def recorded(**given: Any) -> Recorded:
    place = "delta:/etc/lake/sales/items"
    values: dict[str, Any] = {
        "oid": 2,
        "table": "sales.items",
        "place": place,
        "engine": "delta",
        "mode": "current",
        "keys": ("id",),
    }
    return Recorded(**(values | given))


def test_a_table_that_was_created_again_is_loaded() -> None:
    before = recorded(oid=9, end=Lsn(100))

    def load(text: str = GOOD, **given: Any) -> list[Table]:
        made = plan(
            parsed(text), facts(recorded=(before,)) if not given else facts(**given)
        )
        return [it.table for it in made.load]

    assert load() == [ITEMS]
    # Also if it is empty, so that the earlier rows go.
    assert load(recorded=(before,), changed=()) == [ITEMS]
    # The load is there, or on its way.
    assert not load(recorded=(before,), loaded={2: Lsn(101)})
    assert load(recorded=(before,), loaded={2: Lsn(99)}) == [ITEMS]
    assert not load(recorded=(before,), requested={"sales.items"})
    # Somebody must ask for it, or it would not help.
    assert not load(GOOD.replace('every = "1m"', 'load = "ask"'))
    assert not load(GOOD.replace('every = "1m"', 'mode = "history"'))
    # The target of another table is an error, and an empty one has no rows.
    assert not load(recorded=(recorded(oid=9, end=Lsn(100), table="sales.other"),))
    assert not load(recorded=(recorded(oid=9),))


@pytest.mark.parametrize(
    ("before", "keys", "said"),
    [
        ({}, (), None),
        ({"mode": "history"}, (), 'mode was "history" so far for sales.items'),
        ({}, ("id",), None),
        ({}, ("n",), "the key of sales.items was (id) so far, not (n)"),
        ({"keys": ()}, ("n",), None),
        ({"place": "delta:/a"}, (), "the target of sales.items was delta:/a so far"),
        # A target that was removed before is no earlier place.
        ({"place": "delta:/a", "in_file": False}, (), None),
    ],
)
def test_a_change_that_only_a_new_target_takes(
    before: dict[str, Any], keys: tuple[str, ...], said: str | None
) -> None:
    words = ", ".join(f'"{it}"' for it in keys)
    loaded = parsed(GOOD.replace('every = "1m"', f"keys = [{words}]"))
    known = facts(recorded=(recorded(**before),), identities={2: ("id",)})
    place = "delta:/etc/lake/sales/items"
    assert doubtful(loaded, known) == ({place} if said else set())
    made = plan(loaded, known, {place: "exists"} if said else {})
    texts = [it.text for it in made.refused]
    assert len(texts) == (said is not None)
    if said is not None:
        assert texts[0].startswith(f"target 1 (line 14): {said}, and {place} exists")
    # A new target takes each change.
    assert not plan(loaded, known).refused


def existing(loaded: Loaded, known: Facts) -> dict[str, str]:
    return dict.fromkeys(doubtful(loaded, known), "exists")


def test_a_key_of_the_table_that_has_changed() -> None:
    known = facts(recorded=(recorded(),), identities={2: ("a", "b")})
    # A load replaces its rows.
    assert not plan(parsed(), known, existing(parsed(), known)).refused
    loaded = parsed(GOOD.replace('every = "1m"', 'deletes = "soft"'))
    (refused,) = plan(loaded, known, existing(loaded, known)).refused
    assert "the key of sales.items was (id) so far, not (a, b)" in refused.text


def test_a_target_that_was_removed_from_the_file() -> None:
    gone = recorded(oid=9, table="old.t", place="delta:/lake/old")
    assert plan(parsed(), facts(recorded=(recorded(), gone))).removed == (gone,)


# ---------------------------------------------------------------------- for editors


def test_the_schema_says_what_the_reader_takes() -> None:
    schema = json_schema()
    properties = schema["properties"]
    assert schema["required"] == ["source", "log", "target"]
    target = properties["target"]["items"]
    assert target["additionalProperties"] is False
    assert target["required"] == ["tables", "to"]
    assert target["properties"]["engine"]["enum"] == ["auto", "delta", "spark"]
    assert properties["source"]["properties"]["jobs"] == {
        "description": "The number of connections that copy tables for a load, up to 64.",
        "type": "integer",
        "default": 4,
    }
    # An editor takes the texts that the reader takes.
    for key, taken, words in (
        ("every", duration, ["1m", "1.5 h", "2W", "10", "inf", "m", "1 month", "-1s"]),
        (
            "memory",
            size,
            ["1GiB", "50 gb", "7B", "64m", "0", "10", "1 GiBs", "i", "-1B"],
        ),
    ):
        pattern = target["properties"][key]["anyOf"][1]["pattern"]
        for word in words:
            try:
                taken(word, "")
                is_taken = True
            except OptionError:
                is_taken = False
            assert bool(re.search(pattern, word)) == is_taken, (key, word)


# ---------------------------------------------------------------------- a first file


def drafted(dsn: str, server: Server) -> tuple[Loaded, list[str], str]:
    found = draft(dsn, server)
    return parse(found.text, FILE, is_private=False), found.notes, found.text


def test_a_first_file_of_a_publication() -> None:
    keyless = Table(7, "sales", "no[key]*")
    published = [ITEMS, keyless]
    server = Server(
        "Shop 1",
        [Publication("empty", []), Publication("mine", published)],
        [ORDERS, *published],
        {7},
        set(),
    )
    loaded, notes, text = drafted(f"host=db password={CANARY} user='a b'", server)
    assert CANARY not in text
    assert loaded.file.source.dsn in {"user='a b' host=db", "host=db user='a b'"}
    assert loaded.file.source.publications == ("mine",)
    assert loaded.file.source.slot == "shop_1"
    assert [(it.tables, it.exclude, it.mode) for it in loaded.file.target] == [
        (("sales.*",), ("sales.no[[]key][*]",), "current"),
        (("sales.no[[]key][*]",), (), "changes"),
    ]
    assert [(it.table, it.at) for it in claims(loaded, server.tables)] == [
        (ITEMS, 0),
        (keyless, 1),
    ]
    assert unmatched(loaded, server.tables) == []
    assert notes == [
        "password is not in the file: use PGPASSFILE, a service or PGPASSWORD",
        "these have no key, so their targets have all changes: sales.no[key]*. Give them a "
        'primary key, or REPLICA IDENTITY FULL and keys = […] for mode = "current"',
    ]


def test_a_first_file_without_a_publication() -> None:
    odd, keyless = Table(8, 'a"b', "T"), Table(9, "public", "keyless")
    server = Server("shop", [], [ORDERS, odd, keyless], {9}, {8})
    loaded, notes, _ = drafted("", server)
    assert loaded.file.source.publications == ("shop",)
    # The server refuses updates and deletes of a published table without a key.
    assert notes == [
        "create the publication first: CREATE PUBLICATION shop FOR TABLE public.orders, "
        '"a""b"."T" WITH (publish_via_partition_root = true);',
        "these have no key, and are left out: public.keyless. Give them a primary key, or "
        "REPLICA IDENTITY FULL and keys = […]. If they are published without one, the server "
        "refuses their updates and deletes",
    ]
    published = [ORDERS, odd]
    assert [it.table for it in claims(loaded, published)] == [odd, ORDERS]
    assert unmatched(loaded, published) == []
    # With REPLICA IDENTITY FULL, it does not.
    found = drafted("", Server("shop", [], [keyless], {9}, set(), {9}))
    assert [(it.tables, it.mode) for it in found[0].file.target] == [
        (("public.keyless",), "changes")
    ]
    assert found[1][0].endswith("CREATE PUBLICATION shop FOR TABLE public.keyless;")
    assert "so their targets have all changes: public.keyless. " in found[1][1]
    # Its children by inheritance, which may have no key, would be published with a parent.
    parents = Server("shop", [], [ORDERS], set(), set(), parents={ORDERS.oid})
    assert drafted("", parents)[1][0].endswith("FOR TABLE ONLY public.orders;")
    _, notes, _ = drafted("", Server("shop", [], [ORDERS], set(), set()))
    assert notes == [
        "create the publication first: CREATE PUBLICATION shop FOR TABLE public.orders;"
    ]


def test_patterns_of_a_first_file_mean_the_tables_that_it_saw() -> None:
    # A dot in a schema's name, in both, and names that look like the others.
    tables = [
        Table(1, "a.b", "t"),
        Table(2, "a.b", "c.d"),
        Table(3, "a", "b.t"),
        Table(4, "[.]", "[.]"),
        Table(5, ".", "."),
        Table(6, "a.b", "log.x"),
    ]
    keyless = {6}
    server = Server("shop", [Publication("p", tables)], tables, keyless, set())
    loaded, _, _ = drafted("", server)
    found = claims(loaded, tables)
    assert sorted(it.table for it in found) == tables
    assert [it.problem for it in found] == [None] * 6
    modes = {it.table.oid: loaded.file.target[it.at].mode for it in found}
    assert modes == {
        1: "current",
        2: "current",
        3: "current",
        4: "current",
        5: "current",
        6: "changes",
    }
    others = [Table(9, "axb", "t"), Table(10, "a", "t"), Table(11, "a.bc", "t")]
    assert [it.table.oid for it in claims(loaded, others)] == [10]
