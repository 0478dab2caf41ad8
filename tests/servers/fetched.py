"""Servers of every major version: released ones from Maven Central, another from Debian's packages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from servers import debian, maven
from servers.embedded import EmbeddedServer

VERSIONS = (*maven.VERSIONS, *debian.VERSIONS)


class FetchedServer(EmbeddedServer):
    """A server like `EmbeddedServer`, of any major version in `VERSIONS`, with contrib."""

    def __init__(
        self,
        major: int,
        *,
        logical_decoding_work_mem: str = "64MB",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Fetches the version if it is not there yet, makes a cluster and starts it.

        Raises:
            ServerError: There is no such version, or it cannot be fetched.
        """
        super().__init__(
            major,
            logical_decoding_work_mem=logical_decoding_work_mem,
            settings=settings,
            programs=fetched_programs(major),
        )


def fetched_programs(major: int) -> Path:
    """Returns the directory of one major version's programs; fetches it the first time.

    Raises:
        ServerError: There is no such version, or it cannot be fetched.
    """
    if major in debian.VERSIONS:
        return debian.debian_programs(major)
    return maven.maven_programs(major)
