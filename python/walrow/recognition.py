"""Recognises the framing of a stream from its first bytes, and formats that are no stream.

The first byte of a frame and of a pgoutput message is a letter, and some letters are
both. What follows decides: a frame has a plausible length and content, and
pg_recvlogical writes a newline after each message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walrow._core import Frames
from walrow.errors import DecodeError

if TYPE_CHECKING:
    from walrow.typing import Framing

__all__ = ["HEAD_BYTES", "framing_of_bytes", "framing_of_chunk"]

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
    if len(head) < _DECISIVE and not ended:
        return None
    if _is_frame(head):
        _refuse_other_plugin(_first_data(head), name)
        return "wire"
    if found := _other_format(head, ended=ended):
        what, remedy = found
        text = f"{name}: the bytes look like {what}, not like a capture: {remedy}"
        raise DecodeError(text, offset=0)
    if head[:1] in _COPY_DATA and _is_payload(head):
        text = (
            f"{name}: the bytes look like one CopyData payload, which cannot be decoded "
            f'by itself: {_IN_ORDER} with framing="copydata"'
        )
        raise DecodeError(text, offset=0)
    if head[:1] in _MESSAGES:
        return _framing_of_messages(head, ended=ended, name=name)
    if not (ended or len(head) >= _ENOUGH):
        return None
    if head[:1] not in _FRAMES:
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
    if chunk[:1] in _COPY_DATA and _is_payload(chunk):
        if chunk[:1] == b"w":
            _refuse_other_plugin((_XLOG_DATA, chunk[_XLOG_DATA:]), "the source")
        return "copydata"
    # No stream begins with a Stream Stop.
    if chunk[:1] in _MESSAGES and chunk != b"E" and _is_message(chunk):
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
            f'decoded by itself: {_IN_ORDER} with framing="message"'
        )
        raise DecodeError(text, offset=0)
    # A file that begins inside of a streamed transaction, or a truncated one.
    return "recvlogical"


def _first_data(head: bytes) -> tuple[int, bytes]:
    """The data of the first complete XLogData, and its offset. Empty without one."""
    at = 0
    while len(head) > at + _HEADER:
        end = at + 1 + int.from_bytes(head[at + 1 : at + _HEADER], "big")
        if end < at + _HEADER or end > len(head):
            break
        if head[at : at + 1] == b"d" and head[at + _HEADER : at + _HEADER + 1] == b"w":
            data = at + _HEADER + _XLOG_DATA
            return data, head[data:end]
        at = end
    return 0, b""


def _refuse_other_plugin(found: tuple[int, bytes], name: str) -> None:
    """Refuses text. Other unknown messages are errors of the decoder, which knows WAL."""
    offset, data = found
    for start, what, remedy in _PLUGINS:
        if data.startswith(start) and not _is_message(data):
            text = f"{name}: the messages are {what}, not those of pgoutput: {remedy}"
            raise DecodeError(text, offset=offset)


def _is_frame(head: bytes) -> bool:
    """Whether it begins with a frame of a connection."""
    kind, length, body = head[:1], int.from_bytes(head[1:5], "big"), head[5:]
    if len(head) < _HEADER:
        # A truncated file. No message begins with these.
        return kind in {b"d", b"W"}
    size = length - _LENGTH
    if not 0 <= size <= _LONGEST:
        return False
    return _begins(kind, body, size)


def _begins(kind: bytes, body: bytes, size: int) -> bool:
    """Whether a frame's body begins as it should."""
    first = body[:1]
    match kind:
        case b"d" if first:
            return size > 0 and first in {b"w", b"k", b"r", b"h", b"p"}
        case b"d" | b"W":
            return True
        case b"N" | b"E" | b"C" | b"S" | b"Z":
            # A text. A Stream Start has 0 or 1 here, a Commit a part of an LSN, and a
            # Stream Stop a newline instead of a length.
            return size < _LONG and _is_name(first)
        case b"A":
            # After the server's process, the channel's name. A Stream Abort ends here,
            # or has a part of an LSN.
            return size < _LONG and _is_name(body[4:5])
        case b"D" | b"T":
            return _is_row(body, size, names=kind == b"T")
    return kind == b"c" and size == 0


def _is_name(first: bytes) -> bool:
    return first.isalpha() or first == b"_"


def _is_row(body: bytes, size: int, *, names: bool) -> bool:
    """Whether it is a row or its description, of exactly this size, as far as it is there.

    A Delete or a Truncate has other bytes at the place of the number of columns.
    """
    at = 2
    for _ in range(int.from_bytes(body[:at], "big")):
        if at >= len(body):
            break
        if names:
            at = body.find(b"\0", at, at + _NAME) + 1
            if at == 0:
                return False
            at += _DESCRIPTION
        else:
            value = int.from_bytes(body[at : at + _LENGTH], "big", signed=True)
            at += _LENGTH + max(value, 0)
    return at == size or len(body) <= at < size


def _is_payload(head: bytes) -> bool:
    if head[:1] == b"k":
        return len(head) == _KEEPALIVE
    return len(head) > _XLOG_DATA and not _is_text(head)


def _is_message(data: bytes) -> bool:
    try:
        frame = next(Frames([data], "message"))
    except DecodeError:
        return False
    return frame.message is not None


_COPY_DATA = {b"w", b"k"}
_FRAMES = {bytes([kind]) for kind in b"dWNSEcCZTDA"}
_MESSAGES = {bytes([kind]) for kind in b"BCORYIUDTMSEcAbPKrp"}
# A frame's header, and one byte of what it contains.
_HEADER = 5
_DECISIVE = 6
# As many as the longest magic number needs.
_ENOUGH = 262
# Of a column in a RowDescription: bytes of a name and its end, and after them.
_NAME = 64
_DESCRIPTION = 18
_LENGTH = 4
# PostgreSQL's own limit, and one for messages that are text.
_LONGEST = 1 << 30
_LONG = 1 << 20
_KEEPALIVE = 18
_XLOG_DATA = 25
_NEWLINES = 64
_IN_ORDER = "pass an iterable of all payloads or messages of a connection, in order,"


def _other_format(head: bytes, *, ended: bool) -> tuple[str, str] | None:
    """What other bytes look like, and what to do."""
    for magic, what, remedy in _MAGIC:
        if head.startswith(magic):
            return what, remedy
    if head[257:262] == b"ustar":
        return "a tar archive", _EXTRACT
    if _is_wal(head):
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
    # Those of old versions look like the XID after a message's kind.
    return (
        version in {b"\xd0", b"\xd1"}
        and flags <= _WAL_FLAGS
        and head[:1] not in _MESSAGES
    )


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
