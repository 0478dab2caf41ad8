"""The options of the commands that write to a log."""

from __future__ import annotations

import click

log = click.option("--log", required=True, metavar="DIR", help="The log's directory.")

segment_size = click.option(
    "--segment-size",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    metavar="MIB",
    help="The size of the stream after which a segment ends.",
)

level = click.option(
    "--level",
    type=click.IntRange(0, 22),
    default=1,
    show_default=True,
    help="The compression level of zstd. 0 stores the stream as it is.",
)

group_access = click.option(
    "--group-access", is_flag=True, help="Let the owner's group read the log."
)
