"""The table of built-in types, against servers' own."""

from __future__ import annotations

import pytest

from servers import EmbeddedServer
from servers.built_in import TABLE, BuiltIn, of_rust, of_server, of_servers, to_rust

CHECKED_IN = TABLE.read_text()


@pytest.mark.timeout(300)
def test_table_has_every_built_in_type(server: EmbeddedServer) -> None:
    found = of_server(server)
    # A guard against a query that finds little.
    assert BuiltIn(603, 1020, "box", ";", 0) in found
    assert BuiltIn(4536, 6157, "int8multirange", ",", 20) in found
    assert len(found) > 80
    assert found <= of_rust(CHECKED_IN)


def test_table_is_as_it_was_generated() -> None:
    assert to_rust(sorted(of_rust(CHECKED_IN))) == CHECKED_IN


def test_servers_that_disagree_are_an_error() -> None:
    box = BuiltIn(603, 1020, "box", ";", 0)
    assert of_servers([{box}, {box}]) == [box]
    with pytest.raises(ValueError, match="versions disagree"):
        of_servers([{box}, {box._replace(delimiter=",")}])
