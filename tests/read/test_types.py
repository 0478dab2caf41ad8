"""Every type on every server, value by value.

The exceptions from the first claims are in one table: `EXCEPTIONS`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache
from typing import Any, TypeVar

import pytest

import walrow
from grid.kinds import Kind
from servers import EmbeddedServer, FetchedServer
from servers.fetched import VERSIONS

pa = pytest.importorskip("pyarrow")
from grid import every, rendering  # noqa: E402
from grid.comparing import same  # noqa: E402
from grid.exceptions import EXCEPTIONS, Seen  # noqa: E402
from grid.live import Live, Table, beyond_of, decode, one_row  # noqa: E402

# The first run downloads the server.
pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

SLOW = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("WALROW_SLOW"), reason="takes minutes: make test-all"
    ),
]
Server = tuple[type[EmbeddedServer], int, frozenset[str], int]
#: The class, the version, the extensions, and the number of random values per type.
SERVERS: tuple[Server, ...] = (
    (EmbeddedServer, 16, every.PGVECTOR, 60),
    (EmbeddedServer, 18, every.PGVECTOR, 60),
    *((FetchedServer, major, every.CONTRIB, 2000) for major in VERSIONS),
)
PROFILES = ("arrow", "spark")


def about(is_about: Callable[[Kind, int], object]) -> Callable[[Claim], Claim]:
    """Chooses the types that a claim is about, by type and server version. Default: all."""

    def mark(claim: Claim) -> Claim:
        _ABOUT[claim] = is_about
        return claim

    return mark


Claim = TypeVar("Claim", bound="Callable[..., None]")
_ABOUT: dict[Any, Callable[[Kind, int], object]] = {}
_SEVERAL = "an array with another number of dimensions than its column"


def kinds_on(server: Server) -> list[Kind]:
    return every.on(server[1], server[2])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs each claim on every server, for each of the server's types that it is about."""
    if "live" not in metafunc.fixturenames:
        return
    of_kinds = "name" in metafunc.fixturenames
    wanted = _ABOUT.get(metafunc.function)
    values = []
    # Each process collects all tests. So tests on fetched servers are made only if they run.
    are_slow_run = bool(os.environ.get("WALROW_SLOW"))
    for server in (it for it in SERVERS if are_slow_run or it[0] is EmbeddedServer):
        name = f"{server[0].__name__.removesuffix('Server').lower()}-{server[1]}"
        marks = () if server[0] is EmbeddedServer else SLOW
        if not of_kinds:
            values.append(pytest.param(server, marks=marks, id=name))
            continue
        values += [
            pytest.param(server, kind.name, marks=marks, id=f"{name}-{kind.name}")
            for kind in kinds_on(server)
            if wanted is None or wanted(kind, server[1])
        ]
    names = ("live", "name") if of_kinds else ("live",)
    metafunc.parametrize(names, values, indirect=["live"])


@pytest.fixture(scope="module")
def servers() -> Iterator[Callable[[Server], Live]]:
    """Starts each server once, when a test first needs it."""
    with ExitStack() as stack:

        @cache
        def start(server: Server) -> Live:
            make, major, extra, rows = server
            running = stack.enter_context(make(major))
            return stack.enter_context(
                closing(Live(running, every.on(major, extra), rows))
            )

        yield start


@pytest.fixture
def live(request: pytest.FixtureRequest, servers: Callable[[Server], Live]) -> Live:
    return servers(request.param)


def decoded(live: Live, table: str, form: str, **options: Any) -> tuple[Any, Any]:
    """The column of a table, and the batch that contains it."""
    options.setdefault("unrepresentable", "null")
    (batch,) = decode(live, live.streams[table, form], **options)
    records = pa.record_batch(batch)
    numbers = records.column("id").to_pylist()
    assert [int(number) for number in numbers] == list(live.texts[table])
    return records.column("v"), batch


def forms_of(table: Table) -> tuple[str, ...]:
    return ("text", "binary") if table.has_binary else ("text",)


def expected(live: Live, table: str, form: str) -> list[str | None]:
    """The server's text; for regs in binary, the number."""
    kind = live.tables[table].kind
    if form == "binary" and kind.binary == "number":
        cast = "v::oid" if kind.of is None else "v::oid[]"
        return list(live.printed(table, cast).values())
    return list(live.texts[table].values())


def differences(found: list[Any], wanted: list[Any]) -> list[Any]:
    assert len(found) == len(wanted)
    pairs = enumerate(zip(found, wanted, strict=True), 1)
    return [(n, f, w) for n, (f, w) in pairs if f != w][:5]


def without_bounds(text: str | None) -> str | None:
    return None if text is None else re.sub(r"^(\[[-\d]+:[-\d]+\])+=", "", text)


def is_list(kind: Kind, profile: str) -> bool:
    return kind.of is not None and pa.types.is_list(kind.form(profile).type)


def test_text_profile_is_what_the_server_prints(live: Live, name: str) -> None:
    table = live.tables[f"t_{name}"]
    for form in forms_of(table):
        if form == "binary" and table.kind.binary == "refused":
            continue
        found, batch = decoded(live, table.name, form, profile="text")
        assert found.type == pa.string()
        wanted = expected(live, table.name, form)
        assert not differences(found.to_pylist(), wanted), form
        assert batch.nulled == {}
        assert batch.dropped_lower_bounds == {}


@pytest.mark.parametrize("profile", PROFILES)
def test_values_written_again_are_what_the_server_prints(
    live: Live, name: str, profile: str
) -> None:
    table = live.tables[f"t_{name}"]
    wanted_form = table.kind.form(profile)
    for form in forms_of(table):
        if form == "binary" and table.kind.binary == "refused":
            continue
        found, batch = decoded(live, table.name, form, profile=profile)
        assert found.type == wanted_form.type
        printed = expected(live, table.name, form)
        dropped = 0
        if is_list(table.kind, profile):
            wanted = [without_bounds(text) for text in printed]
            dropped = sum(
                one != other for one, other in zip(printed, wanted, strict=True)
            )
        else:
            wanted = printed
        # If binary gives the same arrays, as the next claim checks, text alone is enough.
        if form == "text" or table.kind.binary == "number":
            assert not differences(wanted_form.render(found), wanted), form
        assert batch.nulled == {}
        assert batch.dropped_lower_bounds == ({"v": dropped} if dropped else {})


@about(lambda kind, _: kind.binary == "read")
@pytest.mark.parametrize("profile", [*PROFILES, "text"])
def test_text_and_binary_give_the_same_arrays(
    live: Live, name: str, profile: str
) -> None:
    table = live.tables[f"t_{name}"]
    if not table.has_binary:
        pytest.skip("the server has no binary form of it")
    one, other = (
        decoded(live, table.name, form, profile=profile)[0] for form in forms_of(table)
    )
    assert same(one, other)


@about(lambda kind, _: kind.binary != "read")
@pytest.mark.parametrize("profile", [*PROFILES, "text"])
def test_types_that_differ_in_binary_have_the_same_schema(
    live: Live, name: str, profile: str
) -> None:
    table = live.tables[f"t_{name}"]
    (text, _), (binary, batch) = (
        decoded(live, table.name, form, profile=profile) for form in forms_of(table)
    )
    assert text.type == binary.type == table.kind.form(profile).type
    exception = EXCEPTIONS[table.kind.binary, table.kind.of is not None]
    exception.check(Seen(live, table, profile, text, binary, batch))


@about(lambda kind, _: kind.of)
@pytest.mark.parametrize("profile", [*PROFILES, "text"])
def test_arrays_of_several_dimensions_are_no_lists(
    live: Live, name: str, profile: str
) -> None:
    table = live.tables[f"n_{name}"]
    for form in forms_of(table):
        if form == "binary" and table.kind.binary == "refused":
            continue
        found, batch = decoded(live, table.name, form, profile=profile)
        if not is_list(table.kind, profile):
            texts = table.kind.form(profile).render(found)
            assert not differences(texts, expected(live, table.name, form))
            continue
        assert found.to_pylist() == [None] * 3
        assert batch.nulled == {"v": 3}
        for row in range(3):
            refused(live, table, row, _SEVERAL, form=form, profile=profile)


@about(lambda kind, _: kind.of and not kind.is_opaque and kind.binary == "read")
@pytest.mark.parametrize("profile", PROFILES)
def test_arrays_of_several_dimensions_are_lists_as_deep_if_asked_for(
    live: Live, name: str, profile: str
) -> None:
    table = live.tables[f"n_{name}"]
    of = table.kind.of
    assert of is not None
    for form in forms_of(table):
        for row, depth in enumerate((2, 3, 2)):
            asked = table.kind.form(profile).type
            for _ in range(depth - 1):
                asked = pa.list_(asked)
            stream = one_row(live.streams[table.name, form], row)
            (batch,) = decode(live, stream, profile=profile, types={"v": asked})
            found = pa.record_batch(batch).column("v")
            assert found.type == asked
            render = rendering.nested(of.form(profile).render, depth, of.delimiter)
            printed = live.texts[table.name][row + 1]
            assert render(found) == [without_bounds(printed)]
            has_bounds = printed != without_bounds(printed)
            assert batch.dropped_lower_bounds == ({"v": 1} if has_bounds else {})


@about(beyond_of)
@pytest.mark.parametrize("profile", PROFILES)
def test_values_beyond_the_arrow_type_follow_the_policy(
    live: Live, name: str, profile: str
) -> None:
    table = live.tables[f"b_{name}"]
    kind = table.kind
    outside = [profile in each.profiles for each in table.beyond]
    for form in forms_of(table):
        found, batch = decoded(live, table.name, form, profile=profile)
        texts = kind.form(profile).render(found)
        lost = None if kind.of is None else "{NULL,NULL}"
        printed = list(live.texts[table.name].values())
        wanted = [lost if out else p for out, p in zip(outside, printed, strict=True)]
        assert not differences(texts, wanted), form
        assert batch.nulled == ({"v": sum(outside)} if any(outside) else {})
        for row, each in enumerate(table.beyond):
            if profile not in each.profiles:
                continue
            refused(live, table, row, each.because, form=form, profile=profile)
            if each.sentinel is not None and profile == "arrow":
                held = sentinel(live, table, form, profile, row)
                assert held == each.sentinel, each


def refused(
    live: Live, table: Table, row: int, because: str, *, form: str, profile: str
) -> None:
    """The error names the column and a remedy that works, and never contains the value."""
    stream = one_row(live.streams[table.name, form], row)
    with pytest.raises(walrow.errors.UnrepresentableError) as caught:
        decode(live, stream, profile=profile)
    text = str(caught.value)
    assert text.startswith(
        f"public.{table.name}.v: the column's type cannot hold {because};"
    )
    assert re.search(r"\(byte \d+ of the stream, lsn [\dA-F]+/[\dA-F]+\)$", text)
    printed = expected(live, table.name, form)[row]
    assert printed is not None
    said = text.replace(because, "").replace(f"public.{table.name}", "")
    assert printed not in said
    assert caught.value.remedies
    for remedy in caught.value.remedies:
        assert str(remedy) in text
        (batch,) = decode(live, stream, profile=profile, **remedy.options())
        (held,) = pa.record_batch(batch).column("v").to_pylist()
        if remedy.option == "types":
            assert held == printed
            assert batch.nulled == {}
        else:
            assert batch.nulled == {"v": 1}


def sentinel(live: Live, table: Table, form: str, profile: str, row: int) -> int:
    stream = one_row(live.streams[table.name, form], row)
    (batch,) = decode(live, stream, profile=profile, unrepresentable="sentinel")
    column = pa.record_batch(batch).column("v")
    assert column.null_count == 0
    assert batch.nulled == {}
    if table.kind.of is not None:
        assert column.value_lengths().to_pylist() == [2]
        column = column.flatten()[1:]
    bits = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
    (value,) = column.view(bits).to_pylist()
    return int(value)


def test_money_of_a_given_scale_is_the_same_decimal_in_both_forms(live: Live) -> None:
    columns = [
        decoded(live, "t_money", form, types={"v": pa.decimal128(19, 2)})[0]
        for form in ("text", "binary")
    ]
    assert same(*columns)
    printed = live.texts["t_money"].values()
    wanted = [text and re.sub("[$,]", "", text) for text in printed]
    assert not differences(rendering.decimal(columns[0]), wanted)


def test_text_is_the_same_without_a_catalog(live: Live) -> None:
    for table in live.tables.values():
        found, batch = decoded(
            live, table.name, "text", profile="text", catalog=walrow.Catalog()
        )
        assert found.to_pylist() == list(live.texts[table.name].values()), table.name
        assert batch.nulled == {}


def test_every_kind_has_values(live: Live) -> None:
    """Guards the claims above against tables that test nothing."""
    for table in live.tables.values():
        texts = list(live.texts[table.name].values())
        some = [text for text in texts if text is not None]
        assert some, table.name
        if table.name.startswith("t_"):
            assert None in texts or table.kind.fill is not None, table.name


def test_every_kind_is_on_some_server() -> None:
    there = {kind.name for server in SERVERS for kind in kinds_on(server)}
    assert there == set(every.BY_NAME)
