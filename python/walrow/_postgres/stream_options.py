"""The options of START_REPLICATION, as far as a server's version has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from walrow.errors import OptionError


def stream_options(
    version: int,
    publications: Sequence[str],
    *,
    protocol_version: int | None = None,
    streaming: bool | Literal["on", "parallel"] | None = None,
    binary: bool = False,
    messages: bool = False,
    two_phase: bool = False,
    origin: str | None = None,
) -> dict[str, int | bool | str | list[str]]:
    """Returns the options by name. `ReplicationStream.start` describes them.

    >>> stream_options(15, ["shop"], messages=True)
    {'proto_version': 3, 'publication_names': ['shop'], 'messages': True}

    By default, streaming is on, unless there are `messages` or it is protocol 1. With protocol 4,
    that is `"parallel"`: aborts have an LSN and a time then.
    """
    highest = _PROTOCOLS.get(version, max(_PROTOCOLS.values()))
    protocol = highest if protocol_version is None else protocol_version
    refusals = {
        "walrow needs a server of version 14 or later": version < min(_PROTOCOLS),
        "publications: at least one is needed": not publications,
        f"protocol_version must be from 1 to {highest} on version {version}": (
            not 1 <= protocol <= highest
        ),
        "streaming needs protocol_version 2 or more": (
            bool(streaming) and protocol < _STREAMING
        ),
        'streaming must be a bool, "on" or "parallel"': (
            isinstance(streaming, str) and streaming not in {"on", "parallel"}
        ),
        'streaming="parallel" needs protocol_version 4, and a server of version 16 or'
        " later": streaming == "parallel" and protocol < _PARALLEL,
        "two_phase needs protocol_version 3 or more, and a server of version 15 or"
        " later": two_phase and protocol < _TWO_PHASE,
        "origin needs a server of version 16 or later": (
            origin is not None and version < _ORIGIN
        ),
        'origin must be "any" or "none"': origin not in {None, "any", "none"},
    }
    for text, is_refused in refusals.items():
        if is_refused:
            raise OptionError(text)
    options: dict[str, int | bool | str | list[str]] = {
        "proto_version": protocol,
        "publication_names": [*publications],
    }
    if is_streamed(streaming=streaming, messages=messages) and protocol >= _STREAMING:
        usual = "parallel" if protocol >= _PARALLEL else "on"
        options["streaming"] = streaming if isinstance(streaming, str) else usual
    flags = {"binary": binary, "messages": messages, "two_phase": two_phase}
    options.update({name: is_on for name, is_on in flags.items() if is_on})
    if origin is not None:
        options["origin"] = origin
    return options


def is_streamed(
    *, streaming: bool | Literal["on", "parallel"] | None, messages: bool
) -> bool:
    """Whether large transactions come before their commit. Default: yes, but not with messages."""
    return not messages if streaming is None else bool(streaming)


#: The highest protocol version of each server. Later servers have at least the last one.
_PROTOCOLS = {14: 2, 15: 3, 16: 4}
_STREAMING = 2
_TWO_PHASE = 3
_PARALLEL = 4
_ORIGIN = 16
