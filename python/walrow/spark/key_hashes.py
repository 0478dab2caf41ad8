"""In executors: hashes of keys, the same ones in every process. Equal keys have equal hashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["hashes_of", "is_same", "partition_labels"]


def hashes_of(columns: list[pa.Array]) -> Any:
    """The hash of each row of some columns, as unsigned integers of 64 bits."""
    import numpy as np

    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        for part in _parts(column):
            mixed = _mixed(mixed * _FACTOR + part)
    return mixed


def is_same(left: Any, right: Any) -> Any:
    """Whether values are equal, as keys: NaN is equal to itself, and no key is NULL."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    same = pc.equal(left, right)
    if pa.types.is_floating(left.type):
        same = pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return np.asarray(same.fill_null(False))


def partition_labels(count: int) -> Any:
    """For each of Spark's partitions, an integer that `repartition` puts there.

    Spark takes the Murmur hash of a value, so consecutive numbers would leave some partitions
    empty. If it took another one, nothing but the balance of the tasks would change.
    """
    import numpy as np

    labels = np.full(count, -1, np.int64)
    start = 0
    while (labels < 0).any():
        numbers = np.arange(start, start + 16 * count, dtype=np.int64)
        places, first = np.unique(_murmur(numbers) % count, return_index=True)
        is_new = labels[places] < 0
        labels[places[is_new]] = numbers[first[is_new]]
        start += len(numbers)
    return labels.astype(np.int32)


def _parts(column: pa.Array) -> list[Any]:
    """A column as integers of 64 bits, one or two for each row."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_boolean(kind):
        return [np.asarray(column.cast(pa.uint8())).astype(np.uint64)]
    if pa.types.is_floating(kind):
        values = np.asarray(pc.fill_null(column.cast(pa.float64()), 0.0))
        # Both zeros are equal, and so are all NaN.
        values = np.where(np.isnan(values), np.nan, values + 0.0)
        return [values.view(np.uint64)]
    if pa.types.is_decimal(kind):
        column = column.cast(pa.decimal128(38, kind.scale))
        words = np.frombuffer(column.buffers()[1], np.uint64)
        words = words[2 * column.offset : 2 * (column.offset + len(column))]
        return [words[::2], words[1::2]]
    if pa.types.is_primitive(kind):
        width = kind.bit_width // 8
        values = np.frombuffer(column.buffers()[1], f"i{width}")
        values = values[column.offset : column.offset + len(column)]
        return [values.astype(np.int64).view(np.uint64)]
    texts = column.cast(pa.large_binary())
    blocks = range(0, len(texts), _BLOCK)
    return [np.concatenate([_of_texts(texts.slice(at, _BLOCK)) for at in blocks])]


def _of_texts(texts: pa.Array) -> Any:
    """Polynomials in a fixed number, whose coefficients are the bytes."""
    import numpy as np

    _, places, data = texts.buffers()
    offsets = np.frombuffer(places, np.int64)
    offsets = offsets[texts.offset : texts.offset + len(texts) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    offsets = offsets - first
    sums = np.zeros(last - first + 1, np.uint64)
    if last > first:
        values = np.frombuffer(data, np.uint8)[first:last].astype(np.uint64)
        values += np.uint64(1)
        np.cumsum(values * _powers(_FACTOR, last - first), out=sums[1:])
    # All are sums from the beginning of the block, so each is shifted back.
    inverse = np.uint64(pow(_FACTOR, -1, 1 << 64))
    found = sums[offsets[1:]] - sums[offsets[:-1]]
    found *= _powers(inverse, last - first + 1)[offsets[:-1]]
    return found


def _powers(base: Any, count: int) -> Any:
    import numpy as np

    powers = np.full(count, base, np.uint64)
    powers[:1] = 1
    return np.multiply.accumulate(powers)


def _mixed(values: Any) -> Any:
    """Lets each bit depend on all others: the last steps of SplitMix64."""
    import numpy as np

    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _murmur(numbers: Any) -> Any:
    """Spark's hash of integers of 32 bits, with its seed."""
    import numpy as np

    mask = np.int64(0xFFFFFFFF)

    def times(values: Any, factor: int) -> Any:
        product = values.astype(np.uint64) * np.uint64(factor)
        return product.astype(np.int64) & mask

    def rotated(values: Any, by: int) -> Any:
        return ((values << by) | (values >> (32 - by))) & mask

    found = 42 ^ times(rotated(times(numbers, 0xCC9E2D51), 15), 0x1B873593)
    found = (rotated(found, 13) * 5 + 0xE6546B64) & mask
    found ^= 4
    for by, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        found = times(found ^ (found >> by), factor)
    found ^= found >> 16
    return found.astype(np.uint32).view(np.int32).astype(np.int64)


# An odd number, so that it has an inverse.
_FACTOR = 0x9E3779B97F4A7C15
#: Rows whose texts are hashed at once, which takes 24 bytes for each of theirs.
_BLOCK = 8192
