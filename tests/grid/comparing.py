"""Whether two Arrow arrays are the same, NaN and the sign of zero included."""

from __future__ import annotations

import pyarrow as pa

_BITS = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def same(one: pa.Array, other: pa.Array) -> bool:
    """Compares types, nulls, and values bit by bit."""
    if one.type != other.type or not one.is_valid().equals(other.is_valid()):
        return False
    if isinstance(one, pa.ExtensionArray):
        one, other = one.storage, other.storage
    if one.type in _BITS:
        bits = _BITS[one.type]
        return bool(one.view(bits).equals(other.view(bits)))
    if pa.types.is_struct(one.type):
        children = zip(one.flatten(), other.flatten(), strict=True)
        return all(same(*pair) for pair in children)
    if pa.types.is_list(one.type) or pa.types.is_fixed_size_list(one.type):
        lengths = one.value_lengths().equals(other.value_lengths())
        return lengths and same(one.flatten(), other.flatten())
    return bool(one.equals(other))
