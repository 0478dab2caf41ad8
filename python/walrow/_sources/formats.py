"""Recognises the framing of a stream from its first bytes, and formats that are no stream.

`walrow._core` knows what frames, payloads and messages begin with. pg_recvlogical writes a
newline after each message.
"""

from __future__ import annotations

from walrow._core import Frames, beginning, first_data
from walrow.errors import DecodeError
from walrow.typing import Framing

#: The number of bytes that are always enough to decide.
HEAD_BYTES = 64 << 10


def framing_of_bytes(head: bytes, *, ended: bool, name: str) -> Framing | None:
    r"""Returns the framing of a file, or None if more of its bytes are needed.

    >>> framing_of_bytes(b"d\0\0\0\x16k", ended=False, name="a.wire")
    'wire'

    Args:
        head: The first bytes, all of them if `ended`.
        ended: Whether the file has no more bytes.
        name: The file's name, for errors.

    Raises:
        DecodeError: The bytes are of another format or another plugin, or are a single
            message.
    """
    ended = ended or len(head) >= HEAD_BYTES
    found = beginning(head, ended=ended)
    if found is None:
        return None
    if found == "frame":
        _refuse_other_plugin(head, name)
        return "wire"
    is_message = found == "message"
    if other := _other_format(head, is_message=is_message, ended=ended):
        what, remedy = other
        text = f"{name}: the bytes look like {what}, not like a capture: {remedy}"
        raise DecodeError(text, offset=0)
    if found == "copydata" and not _is_text(head):
        text = (
            f"{name}: the bytes look like one CopyData payload, which cannot be decoded "
            f'by itself: {_IN_ORDER} walrow.Decoder(framing="copydata")'
        )
        raise DecodeError(text, offset=0)
    if is_message:
        return _framing_of_messages(head, ended=ended, name=name)
    if not (ended or len(head) >= _ENOUGH):
        return None
    if found != "invalid frame":
        text = f"{name}: the bytes have no known format (type byte 0x{head[0]:02X}): {_PGOUTPUT}"
        raise DecodeError(text, offset=0, message="frame", field="type byte")
    # A frame with a wrong length. The decoder's error shows it.
    return "wire"


def framing_of_chunk(chunk: bytes) -> Framing | None:
    r"""Returns the framing of chunks if the first one is a payload or a message.

    None means that it may be a part of a longer stream of bytes.

    >>> framing_of_chunk(b"k" + bytes(17)), framing_of_chunk(b"Y\0\0\x40\0s\0t\0")
    ('copydata', 'message')

    Raises:
        DecodeError: It is a payload of another plugin.
    """
    if beginning(chunk, ended=True) == "copydata" and not _is_text(chunk):
        _refuse_other_plugin(chunk, "the source")
        return "copydata"
    # No stream begins with a Stream Stop.
    if chunk != b"E" and _is_message(chunk):
        return "message"
    return None


def _framing_of_messages(head: bytes, *, ended: bool, name: str) -> Framing | None:
    at = -1
    for _ in range(_NEWLINES):
        at = head.find(b"\n", at + 1)
        if at < 0:
            break
        if _is_message(head[:at]):
            return "recvlogical"
    if not ended:
        return None
    if _is_message(head):
        text = (
            f"{name}: the bytes look like a single pgoutput message, which cannot be "
            f'decoded by itself: {_IN_ORDER} walrow.Decoder(framing="message")'
        )
        raise DecodeError(text, offset=0)
    # A file that begins inside of a streamed transaction, or a truncated one.
    return "recvlogical"


def _refuse_other_plugin(head: bytes, name: str) -> None:
    """Refuses text. Other unknown messages are errors of the decoder, which knows WAL."""
    offset, data = first_data(head) or (0, b"")
    for start, what, remedy in _PLUGINS:
        if data.startswith(start) and not _is_message(data):
            text = f"{name}: the messages are {what}, not those of pgoutput: {remedy}"
            raise DecodeError(text, offset=offset)


def _is_message(data: bytes) -> bool:
    try:
        frame = next(Frames([data], "message"))
    except DecodeError:
        return False
    return frame.message is not None


# As many as the longest magic number needs.
_ENOUGH = 262
_NEWLINES = 64
_IN_ORDER = "pass an iterable of all payloads or messages of a connection, in order, or feed them to"


def _other_format(
    head: bytes, *, is_message: bool, ended: bool
) -> tuple[str, str] | None:
    """The likely format of other bytes, and the remedy."""
    for magic, what, remedy in _MAGIC:
        if head.startswith(magic):
            return what, remedy
    if head[257:262] == b"ustar":
        return "a tar archive", _EXTRACT
    # WAL of old versions looks like a message's kind, and the XID after it.
    if not is_message and _is_wal(head):
        return "a WAL segment", _PGOUTPUT
    if not _is_text(head):
        return None
    text = head.lstrip()
    for start, what, remedy in _TEXT:
        if text.startswith(start):
            return what, remedy
    return ("text", _PGOUTPUT) if ended or len(head) >= _TEXT_BYTES else None


def _is_wal(head: bytes) -> bool:
    """Whether it begins with the header of a page of WAL: a magic number, then flags."""
    version, flags = head[1:2], int.from_bytes(head[2:4], "little")
    return version in {b"\xd0", b"\xd1"} and flags <= _WAL_FLAGS


def _is_text(head: bytes) -> bool:
    start = head[:_TEXT_BYTES]
    if len(start) < _TEXT_LEAST or _BINARY.intersection(start):
        return False
    return 2 * sum(byte < _ASCII for byte in start) > len(start)


_TEXT_BYTES = 128
# Shorter ones may be the beginning of a message, whose numbers may look like text.
_TEXT_LEAST = 12
_ASCII = 0x80
_BINARY = {*range(32), 127} - set(b"\t\n\r\f\x1b")

_WAL_FLAGS = 0xF

_READ = "walrow reads a capture, and the format is its output"
_PGOUTPUT = (
    "walrow reads logical replication with the plugin pgoutput, as pg_recvlogical or a "
    "replication connection receives it"
)
_SNAPSHOT = (
    "it contains rows, not their changes; capture the stream of a replication slot"
)
_DECOMPRESS = "decompress it first, or use gzip or zstd"
_EXTRACT = "extract it first"
_PACKETS = (
    "extract the bytes that the server sent, without the packets around them, for "
    "example with tcpflow"
)
_MAGIC = (
    (b"PAR1", "Parquet", _READ),
    (b"ARROW1", "an Arrow IPC file", _READ),
    (b"\xff\xff\xff\xff", "an Arrow IPC stream", _READ),
    (b"ORC", "an ORC file", _READ),
    (b"Obj\x01", "an Avro file", _READ),
    (b"PGDMP", "an archive of pg_dump", _SNAPSHOT),
    (b"PGCOPY\n", "the output of COPY in binary format", _SNAPSHOT),
    (b"SQLite format 3\0", "a SQLite database", _SNAPSHOT),
    (b"PK\x03\x04", "a zip archive", _EXTRACT),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _EXTRACT),
    (b"BZh", "bzip2", _DECOMPRESS),
    (b"\xfd7zXZ\0", "xz", _DECOMPRESS),
    (b"\x04\x22\x4d\x18", "lz4", _DECOMPRESS),
    (b"\xff\x06\0\0sNaPpY", "snappy", _DECOMPRESS),
    (b"\x1f\x9d", "compress", _DECOMPRESS),
    (b"\xd4\xc3\xb2\xa1", "a packet capture (pcap)", _PACKETS),
    (b"\xa1\xb2\xc3\xd4", "a packet capture (pcap)", _PACKETS),
    (b"\x4d\x3c\xb2\xa1", "a packet capture (pcap)", _PACKETS),
    (b"\xa1\xb2\x3c\x4d", "a packet capture (pcap)", _PACKETS),
    (b"\x0a\x0d\x0d\x0a", "a packet capture (pcapng)", _PACKETS),
)
_PLUGINS = (
    (b"{", "JSON, as wal2json and Debezium write it", _PGOUTPUT),
    (b"[", "JSON, as wal2json and Debezium write it", _PGOUTPUT),
    (b"BEGIN", "text, as test_decoding writes it", _PGOUTPUT),
    (b"COMMIT", "text, as test_decoding writes it", _PGOUTPUT),
    (b"table ", "text, as test_decoding writes it", _PGOUTPUT),
)
_TEXT = (
    *_PLUGINS,
    (b"--\n-- PostgreSQL database", "a dump of pg_dump", _SNAPSHOT),
    (b"\\x", "the text of bytea, as psql writes it", _PGOUTPUT),
    (b"<", "HTML or XML, such as the error page of a web server", _PGOUTPUT),
)
