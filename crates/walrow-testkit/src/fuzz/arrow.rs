//! Arbitrary bytes as a stream, and arbitrary cells in columns of every type, into Arrow.

use super::cuts::decode;
use crate::{Stream, binary, text};
use walrow_arrow::{DecoderBuilder, OnUnrepresentable, Profile};
use walrow_wire::ReplicaIdentity;

/// Rows or an error, whatever the bytes: no panic, no hang, no memory by a claimed length.
///
/// The first byte chooses the options. With its high bit set, what follows is a type and a cell;
/// else a stream.
pub fn arrow(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else {
        return;
    };
    if choice < 0x80 {
        decode(options(choice), [rest]);
        return;
    }
    let Some((&[oid, typmod], cell)) = rest.split_first_chunk::<2>() else {
        return;
    };
    let oid = TYPES[usize::from(oid) % TYPES.len()];
    let typmod = MODIFIERS[usize::from(typmod) % MODIFIERS.len()];
    let stream = Stream::new()
        .begin(0x1000, 700)
        .relation(
            16_384,
            "public",
            "t",
            ReplicaIdentity::Full,
            &[("c", oid, typmod, true)],
        )
        .insert(16_384, &[text(cell)])
        .commit()
        .begin(0x2000, 701)
        .update_full(16_384, &[binary(cell)], &[binary(cell)])
        .commit();
    decode(options(choice), [&*stream.bytes()]);
}

/// Options by a byte's low bits.
pub(super) fn options(choice: u8) -> DecoderBuilder {
    let profile = match choice & 3 {
        0 => Profile::Spark,
        1 => Profile::Text,
        _ => Profile::Arrow,
    };
    let policy = if choice & 4 == 0 {
        OnUnrepresentable::Error
    } else {
        OnUnrepresentable::Null
    };
    let rows = if choice & 8 == 0 { 3 } else { 1_000 };
    DecoderBuilder::new()
        .with_profile(profile)
        .with_unrepresentable(policy)
        .with_batch_rows(rows)
}

/// Every type that is read, the arrays of some, and some that are not.
const TYPES: [u32; 34] = [
    16, 17, 18, 19, 20, 21, 23, 25, 26, 28, 114, 700, 701, 869, 1042, 1043, 1082, 1083, 1114, 1184,
    1186, 1266, 1700, 2950, 3802, 5069, 1000, 1001, 1005, 1007, 1009, 1185, 1231, 90_000,
];

/// None, and numeric(12,2), (38,10), (5,-2), (3,7), (40,2).
const MODIFIERS: [i32; 6] = [-1, 786_438, 2_490_382, 329_730, 196_619, 2_621_446];
