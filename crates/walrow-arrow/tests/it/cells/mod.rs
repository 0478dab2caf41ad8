//! Streams of one column, and the Arrow column that they become.
#![expect(clippy::indexing_slicing, reason = "a panic is how a test fails")]

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use std::sync::Arc;
use walrow_arrow::{Batch, DecoderBuilder, Error, Profile};
use walrow_testkit::{OwnedCell, Stream, binary, null, text};
use walrow_wire::ReplicaIdentity;

pub(crate) const T: u32 = 16_384;
pub(crate) const PROFILES: [Profile; 3] = [Profile::Arrow, Profile::Spark, Profile::Text];

pub(crate) fn stream(oid: u32, typmod: i32, cells: &[OwnedCell]) -> Vec<u8> {
    let mut stream = Stream::new().session().begin(0x1000, 700).relation(
        T,
        "public",
        "t",
        ReplicaIdentity::Default,
        &[("x", oid, typmod, false)],
    );
    for cell in cells {
        stream = stream.insert(T, std::slice::from_ref(cell));
    }
    stream.commit().bytes()
}

pub(crate) fn run(builder: DecoderBuilder, bytes: &[u8]) -> Result<Vec<Batch>, Error> {
    let mut decoder = builder.with_metadata([]).build()?;
    let mut batches = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let consumed = decoder.decode(rest)?;
        rest = &rest[consumed..];
        batches.extend(std::iter::from_fn(|| decoder.next_batch().ok().flatten()));
    }
    decoder.finish()?;
    batches.extend(std::iter::from_fn(|| decoder.next_batch().ok().flatten()));
    Ok(batches)
}

pub(crate) fn decode(
    builder: DecoderBuilder,
    (oid, typmod): (u32, i32),
    cells: &[OwnedCell],
) -> Result<RecordBatch, Error> {
    let batches = run(builder, &stream(oid, typmod, cells))?;
    assert_eq!(batches.len(), 1);
    Ok(batches[0].record_batch().clone())
}

pub(crate) fn profile(profile: Profile) -> DecoderBuilder {
    DecoderBuilder::new().with_profile(profile)
}

pub(crate) fn column(
    builder: DecoderBuilder,
    of: (u32, i32),
    cells: &[OwnedCell],
) -> Result<ArrayRef, Error> {
    Ok(Arc::clone(decode(builder, of, cells)?.column(0)))
}

pub(crate) fn name(data_type: &DataType) -> String {
    data_type.to_string()
}

/// Both forms of each value, then null.
pub(crate) fn cells(values: &[(String, Vec<u8>)]) -> [Vec<OwnedCell>; 2] {
    let texts = values.iter().map(|(value, _)| text(value));
    let binaries = values.iter().map(|(_, value)| binary(value));
    [
        texts.chain([null()]).collect(),
        binaries.chain([null()]).collect(),
    ]
}

/// A column of an extension's type, in both forms.
pub(crate) fn extended(
    builder: DecoderBuilder,
    of: (&str, i32),
    cells: &[OwnedCell],
) -> Result<ArrayRef, Error> {
    let stream = Stream::new().session().begin(0x1000, 700);
    let columns = [("x", 20_001, of.1, false)];
    let mut stream = stream.user_type(20_001, "public", of.0).relation(
        T,
        "public",
        "t",
        ReplicaIdentity::Default,
        &columns,
    );
    for cell in cells {
        stream = stream.insert(T, std::slice::from_ref(cell));
    }
    let batches = run(builder, &stream.commit().bytes())?;
    Ok(Arc::clone(batches[0].record_batch().column(0)))
}
