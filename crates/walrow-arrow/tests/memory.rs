//! Memory does not grow with the number of tables. One test, in a process of its own: an allocator
//! that belongs to the process counts the bytes in use.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use std::sync::Arc;
use walrow_arrow::{Decoder, DecoderBuilder};
use walrow_stream::{Attribute, Catalog, CatalogType, TypeKind};
use walrow_testkit::allocation::{Counting, peak};
use walrow_testkit::{OwnedCell, Stream, binary, null, text};
use walrow_wire::ReplicaIdentity;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const INT4: u32 = 23;
const TEXT: u32 = 25;
const MIB: usize = 1 << 20;
/// The most columns of a table.
const COLUMNS: usize = 1600;

/// Takes all batches and returns the number of rows.
fn feed(decoder: &mut Decoder, bytes: &[u8]) -> usize {
    let mut rows = 0;
    let mut rest = bytes;
    loop {
        let consumed = decoder.decode(rest).unwrap();
        rest = &rest[consumed..];
        let any = decoder.has_batch();
        rows += take(decoder);
        if rest.is_empty() && !any {
            return rows;
        }
    }
}

fn take(decoder: &mut Decoder) -> usize {
    std::iter::from_fn(|| decoder.next_batch().ok().flatten())
        .map(|batch| batch.record_batch().num_rows())
        .sum()
}

/// Asserts the number of rows that `read` returns, and that less than so many MiB are in use
/// meanwhile.
fn assert_below(limit: usize, what: &str, expected: usize, read: impl FnOnce() -> usize) {
    let (bytes, rows) = peak(read);
    assert_eq!(rows, expected, "{what}");
    let took = bytes.unwrap() / MIB;
    assert!(took < limit, "{took} MiB for {what}");
}

/// Tables of a hundred columns that alternate, with few rows each.
fn rows_of_many_tables(tables: u32, columns: usize) -> usize {
    let names: Vec<String> = (0..columns).map(|n| format!("column_number_{n}")).collect();
    let columns: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(n, name)| (&**name, if n % 4 == 0 { TEXT } else { INT4 }, -1, n == 0))
        .collect();
    let row: Vec<OwnedCell> = (0..columns.len()).map(|n| text(n.to_string())).collect();
    let mut decoder = DecoderBuilder::new().build().unwrap();
    let mut rows = 0;
    for round in 0..2 {
        for table in 0..tables {
            let oid = 20_000 + table;
            let lsn = 0x1000 * u64::from(1 + round * tables + table);
            let mut stream = Stream::new().begin(lsn, 700);
            if round == 0 {
                let name = format!("part_{table}");
                stream = stream.relation(oid, "public", &name, ReplicaIdentity::Default, &columns);
            }
            rows += feed(&mut decoder, &stream.insert(oid, &row).commit().bytes());
        }
    }
    decoder.finish().unwrap();
    rows + take(&mut decoder)
}

/// Rows of NULLs in the most columns, with short definitions.
fn rows_of_wide_tables(tables: u32) -> usize {
    let columns = vec![("", INT4, -1, false); COLUMNS];
    let row = vec![null(); columns.len()];
    let mut decoder = DecoderBuilder::new().build().unwrap();
    let mut rows = 0;
    for oid in 1..=tables {
        let name = format!("t{oid}");
        let stream = Stream::new()
            .begin(0x1000 * u64::from(oid), 700)
            .relation(oid, "public", &name, ReplicaIdentity::Default, &columns)
            .insert(oid, &row);
        rows += feed(&mut decoder, &stream.commit().bytes());
    }
    decoder.finish().unwrap();
    rows + take(&mut decoder)
}

/// Columns of a type with the longest name, which each field repeats.
fn rows_of_long_type_names(tables: u32) -> usize {
    let long = "n".repeat(256);
    let columns = vec![("c", 70_000, -1, false); COLUMNS];
    let row = vec![null(); columns.len()];
    let mut stream = Stream::new()
        .session()
        .user_type(70_000, &long, &long)
        .begin(0x1000, 700);
    for oid in 1..=tables {
        let name = format!("t{oid}");
        stream = stream
            .relation(oid, "public", &name, ReplicaIdentity::Default, &columns)
            .insert(oid, &row);
    }
    let names = (1..=tables).map(|oid| format!("t{oid}"));
    let builder = DecoderBuilder::new().with_tables(names.chain(["walrow.relations".to_owned()]));
    let mut decoder = builder.build().unwrap();
    let rows = feed(&mut decoder, &stream.commit().bytes());
    decoder.finish().unwrap();
    rows + take(&mut decoder)
}

/// Binary numerics of ten bytes, whose text has 131,072 digits.
fn rows_of_long_numbers() -> usize {
    const NUMERIC: u32 = 1700;
    let names: Vec<String> = (0..COLUMNS).map(|place| format!("c{place}")).collect();
    let columns: Vec<_> = names.iter().map(|it| (&**it, NUMERIC, -1, true)).collect();
    let number = binary([0, 1, 0x7f, 0xff, 0, 0, 0, 0, 0, 1]);
    let row = vec![number; COLUMNS];
    let stream = Stream::new().session().begin(0x1000, 700).relation(
        1,
        "public",
        "t",
        ReplicaIdentity::Full,
        &columns,
    );
    let stream = stream.insert(1, &row).update_full(1, &row, &row);
    let mut decoder = DecoderBuilder::new().build().unwrap();
    let rows = feed(&mut decoder, &stream.commit().bytes());
    decoder.finish().unwrap();
    rows + take(&mut decoder)
}

/// Rows of NULLs in a column of a composite type with the most attributes.
fn rows_of_deep_tables(tables: u32) -> usize {
    let attribute = |place| Attribute::new(format!("a{place}"), INT4, -1);
    let kind = TypeKind::Composite {
        attributes: (0..65_535).map(attribute).collect(),
    };
    let composite = CatalogType::new(20_000, "public", "deep", kind);
    let catalog = Catalog::new(vec![composite], Vec::new());
    let builder = DecoderBuilder::new().with_catalog(Arc::new(catalog));
    let mut decoder = builder.build().unwrap();
    let mut rows = 0;
    for oid in 1..=tables {
        let stream = Stream::new()
            .begin(0x1000 * u64::from(oid), 700)
            .relation(
                oid,
                "public",
                &format!("t{oid}"),
                ReplicaIdentity::Default,
                &[("x", 20_000, -1, false)],
            )
            .insert(oid, &[null()]);
        rows += feed(&mut decoder, &stream.commit().bytes());
    }
    decoder.finish().unwrap();
    rows + take(&mut decoder)
}

/// Rows of arrays of NULLs. Each NULL takes the 64,000 bytes of a vector.
fn rows_of_missing_vectors(rows: usize) -> usize {
    let mut stream = Stream::new()
        .session()
        .user_type(20_001, "public", "_vector")
        .relation(
            1,
            "public",
            "t",
            ReplicaIdentity::Default,
            &[("x", 20_001, 16_000, false)],
        )
        .begin(0x1000, 700);
    for _ in 0..rows {
        stream = stream.insert(1, &[text("{NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL}")]);
    }
    let builder = DecoderBuilder::new().with_batch_bytes(4 * MIB);
    let mut decoder = builder.build().unwrap();
    let read = feed(&mut decoder, &stream.commit().bytes());
    decoder.finish().unwrap();
    read + take(&mut decoder)
}

/// The limit is 128 MiB of rows, the definitions of the tables, and little more.
#[test]
fn memory_does_not_grow_with_tables_and_columns() {
    let many = || rows_of_many_tables(5_000, 100);
    assert_below(160, "many tables", 10_000, many);
    let wide = || rows_of_wide_tables(300);
    assert_below(160, "wide tables", 300, wide);
    let deep = || rows_of_deep_tables(24);
    assert_below(220, "tables of deep types", 24, deep);
    let missing = || rows_of_missing_vectors(1_000);
    assert_below(32, "vectors that are missing", 1_000, missing);
    // Each table has a row, and a row in the side table.
    let long = || rows_of_long_type_names(100);
    assert_below(160, "long names of types", 200, long);
    assert_below(512, "long numbers", 3, rows_of_long_numbers);
}
