//! Decodes arbitrary bytes as a stream, and arbitrary cells in columns of every type, into Arrow.

use super::decoding::{decode, options};
use crate::{Stream, binary, text};
use arrow_array::cast::AsArray;
use std::sync::{Arc, LazyLock};
use walrow_arrow::{DecoderBuilder, OnUnrepresentable, Profile};
use walrow_stream::Catalog;
use walrow_wire::ReplicaIdentity;

/// Any bytes give rows or an error: no panic, no hang, no memory for a claimed length.
///
/// The first byte chooses the options. If its high bit is set, a type and a cell follow: the binary
/// cell gives the same array as its text. Otherwise a stream follows.
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
    let options = options(choice).with_catalog(catalog());
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
    decode(options.clone(), [&*stream.bytes()]);
    forms_agree(&options, (oid, typmod), cell);
}

/// A binary cell gives the same array as its text does.
fn forms_agree(options: &DecoderBuilder, of: (u32, i32), cell: &[u8]) {
    let options = &options
        .clone()
        .with_unrepresentable(OnUnrepresentable::Null)
        .with_metadata([]);
    let read = |options: &DecoderBuilder, cell| {
        let columns = [("c", of.0, of.1, true)];
        let stream = Stream::new()
            .begin(0x1000, 700)
            .relation(16_384, "public", "t", ReplicaIdentity::Full, &columns)
            .insert(16_384, &[cell])
            .commit();
        let (batches, end) = decode(options.clone(), [&*stream.bytes()]);
        match (batches.as_slice(), end) {
            ([batch], None) => Some(batch.record_batch().clone()),
            _ => None,
        }
    };
    let as_text = options.clone().with_profile(Profile::Text);
    // A typed column checks more than text, so it may reject a cell that text accepts.
    let (Some(expected), Some(rendered)) =
        (read(options, binary(cell)), read(&as_text, binary(cell)))
    else {
        return;
    };
    let rendered = rendered.column(0).as_string::<i32>();
    // Text does not distinguish NaNs.
    let Some(rendered) = rendered.iter().flatten().find(|it| !it.contains("NaN")) else {
        return;
    };
    let from_text = read(options, text(rendered));
    assert_eq!(from_text, Some(expected), "{of:?} of {rendered:?}");
}

fn catalog() -> Arc<Catalog> {
    static PARSED: LazyLock<Arc<Catalog>> =
        LazyLock::new(|| Arc::new(Catalog::from_json(CATALOG).expect("it is written here")));
    Arc::clone(&PARSED)
}

/// Every built-in type and its array, the types of the catalog, and an unknown type. Seeds refer to
/// the first ones by their index.
const TYPES: [u32; 172] = [
    16, 17, 18, 19, 20, 21, 23, 25, 26, 28, 114, 700, 701, 869, 1042, 1043, 1082, 1083, 1114, 1184,
    1186, 1266, 1700, 2950, 3802, 5069, 1000, 1001, 1005, 1007, 1009, 1185, 1231, 90_000, 22, 24,
    27, 29, 30, 142, 143, 194, 199, 271, 600, 601, 602, 603, 604, 628, 629, 650, 651, 718, 719,
    774, 775, 790, 791, 829, 1002, 1003, 1006, 1008, 1010, 1011, 1012, 1013, 1014, 1015, 1016,
    1017, 1018, 1019, 1020, 1021, 1022, 1027, 1028, 1033, 1034, 1040, 1041, 1115, 1182, 1183, 1187,
    1270, 1560, 1561, 1562, 1563, 1790, 2201, 2202, 2203, 2204, 2205, 2206, 2207, 2208, 2209, 2210,
    2211, 2949, 2951, 2970, 3220, 3221, 3614, 3615, 3642, 3643, 3644, 3645, 3734, 3735, 3769, 3770,
    3807, 3904, 3905, 3906, 3907, 3908, 3909, 3910, 3911, 3912, 3913, 3926, 3927, 4072, 4073, 4089,
    4090, 4096, 4097, 4191, 4192, 4451, 4532, 4533, 4534, 4535, 4536, 5038, 5039, 6150, 6151, 6152,
    6153, 6155, 6157, 20_000, 20_001, 20_002, 20_003, 20_004, 20_005, 20_006, 20_007, 20_008,
    20_009, 20_010, 20_011, 20_012, 20_013, 20_014, 20_015, 20_016, 20_017,
];

/// Types that are not built in, of every kind.
const CATALOG: &str = r#"{"types": [
    {"oid": 20000, "schema": "public", "name": "mood", "kind": "enum", "labels": ["sad", "ok"]},
    {"oid": 20001, "schema": "public", "name": "_mood", "kind": "array", "element": 20000},
    {"oid": 20002, "schema": "public", "name": "price", "kind": "domain", "base": 1700, "type_modifier": 655366},
    {"oid": 20003, "schema": "public", "name": "_price", "kind": "array", "element": 20002},
    {"oid": 20004, "schema": "public", "name": "pair", "kind": "composite", "attributes": [
        {"name": "a", "type": 23}, {"name": "b", "type": 25}, {"name": "c", "type": 1007}]},
    {"oid": 20005, "schema": "public", "name": "_pair", "kind": "array", "element": 20004},
    {"oid": 20006, "schema": "public", "name": "floatrange", "kind": "range", "subtype": 701},
    {"oid": 20007, "schema": "public", "name": "floatmultirange", "kind": "multirange", "range": 20006},
    {"oid": 20008, "schema": "public", "name": "hstore", "kind": "base"},
    {"oid": 20009, "schema": "public", "name": "_hstore", "kind": "array", "element": 20008},
    {"oid": 20010, "schema": "public", "name": "vector", "kind": "base"},
    {"oid": 20011, "schema": "public", "name": "halfvec", "kind": "base"},
    {"oid": 20012, "schema": "public", "name": "sparsevec", "kind": "base"},
    {"oid": 20013, "schema": "public", "name": "geometry", "kind": "base"},
    {"oid": 20014, "schema": "public", "name": "cube", "kind": "base"},
    {"oid": 20015, "schema": "public", "name": "citext", "kind": "base"},
    {"oid": 20016, "schema": "public", "name": "ltree", "kind": "base"},
    {"oid": 20017, "schema": "public", "name": "loop", "kind": "range", "subtype": 20017}
]}"#;

/// No modifier, then numeric(12,2), (38,10), (5,-2), (3,7), (40,2), then one bit or a vector of
/// one.
const MODIFIERS: [i32; 7] = [-1, 786_438, 2_490_382, 329_730, 196_619, 2_621_446, 1];
