//! The floor reads what walrow reads: otherwise, their ratio would say nothing.
#![expect(clippy::arithmetic_side_effects, reason = "counts of small captures")]

use crate::captures::small_captures;
use crate::{decode, walk};
use std::collections::BTreeMap;
use std::fmt::Display;
use walrow::DecoderBuilder;
use walrow::arrow_array::cast::AsArray;
use walrow::arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, Time64MicrosecondType, TimestampMicrosecondType, UInt32Type, UInt64Type,
};
use walrow::arrow_array::{Array, RecordBatch};
use walrow::arrow_schema::{DataType, TimeUnit};
use walrow_floor::{Change, Column, Table, Values, Visited, rows};

/// The values of a table by column, as text.
type Texts = BTreeMap<u32, Vec<Vec<Option<String>>>>;

/// Microseconds from 1970 to 2000.
const EPOCH: i64 = 946_684_800_000_000;

#[test]
fn floor_and_walrow_visit_the_same_cells() {
    for capture in small_captures().unwrap() {
        let visited = walrow_floor::walk(&capture.bytes);
        let mut messages = BTreeMap::<u8, Visited>::new();
        let own = walk::messages(&capture.bytes, |kind, found| {
            *messages.entry(kind).or_default() += found;
        });
        assert_eq!(Ok(visited), own, "{}", capture.name());
        let mut cells = BTreeMap::<u8, Visited>::new();
        let own = walk::cells(&capture.bytes, |kind, found| {
            *cells.entry(kind).or_default() += found;
        });
        assert_eq!(Ok(visited), own, "{}", capture.name());
        assert_eq!(messages, cells, "{}", capture.name());
        assert!(visited.cells > 5_000, "{}: {visited:?}", capture.name());
    }
}

/// Both walks end at the same error, and tell `each` the same messages before it.
#[test]
fn both_walks_refuse_the_same_bytes() {
    const BEGIN: &[u8] = b"B\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x03";
    const INSERT: &[u8] = b"I\0\0\0\x07N\0\x03nut\0\0\0\x02ab";
    let update = [b"U\0\0\0\x07O", &INSERT[6..], &INSERT[5..]].concat();
    let mut cases = vec![b"".to_vec(), b"?".to_vec(), b"?\0\0\0\x07".to_vec()];
    for message in [BEGIN, INSERT, &update] {
        cases.extend((1..message.len()).map(|size| message[..size].to_vec()));
        cases.push([message, b"n"].concat());
        for at in 5..message.len() {
            let mut changed = message.to_vec();
            changed[at] ^= 0x7f;
            cases.push(changed);
        }
    }
    let mut refused = 0;
    for case in cases {
        let bytes = [BEGIN, INSERT, &case].map(framed).concat();
        let (mut messages, mut cells) = (Vec::new(), Vec::new());
        let made = walk::messages(&bytes, |kind, found| messages.push((kind, found)));
        let visited = walk::cells(&bytes, |kind, found| cells.push((kind, found)));
        assert_eq!((&made, &messages), (&visited, &cells), "{case:?}");
        assert_eq!(messages.len(), 2 + usize::from(made.is_ok()), "{case:?}");
        refused += usize::from(made.is_err());
    }
    assert!(refused > 60, "{refused}");
}

fn framed(message: &[u8]) -> Vec<u8> {
    let size = u32::try_from(29 + message.len()).unwrap();
    [b"d", &size.to_be_bytes()[..], b"w", &[0; 24], message].concat()
}

#[test]
fn floor_and_walrow_read_the_same_values() {
    for capture in small_captures().unwrap() {
        let mut floor = Texts::new();
        let count = rows(&capture.bytes, |table| of_floor(&table, &mut floor));
        let mut own = Texts::new();
        let mut own_count = 0;
        decode::batches(DecoderBuilder::new(), [&*capture.bytes], |batch| {
            own_count += batch.record_batch().num_rows();
            of_walrow(batch.relation().oid, batch.record_batch(), &mut own);
        })
        .unwrap();
        assert_eq!(count, own_count, "{}", capture.name());
        assert!(floor.keys().eq(own.keys()), "{}", capture.name());
        for (oid, columns) in &floor {
            // Not the columns themselves: a failure would print megabytes.
            for (at, (floor, own)) in columns.iter().zip(&own[oid]).enumerate() {
                assert_eq!(floor.len(), own.len(), "{}, column {at}", capture.name());
                let differs = floor.iter().zip(own).find(|(floor, own)| floor != own);
                assert_eq!(differs, None, "{}, column {at}", capture.name());
            }
            assert_eq!(columns.len(), own[oid].len(), "{}", capture.name());
        }
    }
}

/// The workloads have what their names say.
#[test]
fn the_captures_have_what_the_floor_must_read() {
    let mut found = BTreeMap::new();
    for capture in small_captures().unwrap() {
        let (mut preimages, mut unsent, mut tables, mut columns) = (0, 0, 0, 0);
        let mut transactions = 0;
        rows(&capture.bytes, |table| {
            let images = table.change.iter();
            preimages += images.filter(|it| **it == Change::Preimage).count();
            unsent += table
                .columns
                .iter()
                .map(|it| it.unsent().len())
                .sum::<usize>();
            columns = columns.max(table.columns.len());
            transactions += table.runs.len();
            tables += 1;
        });
        found.insert(
            capture.name(),
            [preimages, unsent, tables, columns, transactions],
        );
    }
    for form in ["", ".binary"] {
        let of = |name: &str| found[&format!("{name}{form}")];
        assert_eq!(of("narrow"), [0, 0, 1, 6, 5]);
        assert_eq!(of("tiny"), [0, 0, 1, 6, 2_000]);
        assert_eq!(of("updates"), [3_000, 0, 1, 6, 3]);
        // One in sixteen gets another key, and one in sixteen another body.
        assert_eq!(of("toast"), [125, 1_875, 1, 6, 2]);
        assert_eq!(of("toast-full"), [500, 0, 1, 6, 1]);
        assert_eq!(of("streamed"), [0, 0, 1, 5, 4]);
        assert_eq!(of("columns"), [0, 0, 1, 800, 1]);
        assert_eq!(of("tables"), [0, 0, 1_000, 6, 5_000]);
    }
}

fn of_floor(table: &Table, texts: &mut Texts) {
    let mut runs = table.runs.iter().peekable();
    let mut run = None;
    let mut metadata = vec![Vec::new(); 6];
    for (row, change) in table.change.iter().enumerate() {
        if runs.peek().is_some_and(|next| next.first_row == row) {
            run = runs.next();
        }
        let run = run.unwrap();
        let change = match change {
            Change::Insert => "insert",
            Change::Preimage => "update_preimage",
            Change::Postimage => "update_postimage",
            Change::Delete => "delete",
            Change::Truncate => "truncate",
        };
        let unsent = table.columns.iter();
        let unsent = unsent.filter(|it| it.unsent().binary_search(&row).is_ok());
        let values = [
            change.to_owned(),
            table.seq[row].to_string(),
            run.commit_lsn.to_string(),
            (run.commit_time + EPOCH).to_string(),
            run.xid.to_string(),
            unsent.count().to_string(),
        ];
        for (column, value) in metadata.iter_mut().zip(values) {
            column.push(Some(value));
        }
    }
    let columns = table.columns.iter().map(of_column);
    extend(texts, table.oid, columns.chain(metadata));
}

fn of_column(column: &Column) -> Vec<Option<String>> {
    fn texts<T: Display>(column: &Column, values: &[T]) -> Vec<Option<String>> {
        assert_eq!(values.len(), column.len());
        let values = values.iter().enumerate();
        values
            .map(|(row, value)| column.is_valid(row).then(|| value.to_string()))
            .collect()
    }
    match column.values() {
        Values::Bool(values) => texts(column, values),
        Values::I16(values) => texts(column, values),
        Values::I32(values) | Values::Date(values) => texts(column, values),
        Values::I64(values) | Values::Time(values) | Values::Micros(values) => {
            texts(column, values)
        }
        Values::F32(values) => texts(column, values),
        Values::F64(values) => texts(column, values),
        Values::Decimal(values) => texts(column, values),
        Values::Uuid(values) => texts(column, values),
        Values::Text(bytes, ends) | Values::Jsonb(bytes, ends) => {
            let ends: Vec<_> = ends
                .iter()
                .map(|end| usize::try_from(*end).unwrap())
                .collect();
            let values = ends.windows(2).map(|it| &bytes[it[0]..it[1]]);
            let values: Vec<_> = values.map(String::from_utf8_lossy).collect();
            texts(column, &values)
        }
    }
}

fn of_walrow(oid: u32, rows: &RecordBatch, texts: &mut Texts) {
    let schema = rows.schema();
    let metadata = |name| of_array(rows.column_by_name(name).unwrap());
    let own = schema.fields().iter().zip(rows.columns());
    let own = own.filter(|(field, _)| !field.name().starts_with('_'));
    let unsent = rows.column_by_name("_unsent").unwrap().as_list::<i32>();
    let unsent = (0..unsent.len()).map(|row| {
        let is_null = unsent.is_null(row);
        Some(if is_null { 0 } else { unsent.value_length(row) }.to_string())
    });
    let columns = own.map(|(_, array)| of_array(array)).chain([
        metadata("_change_type"),
        metadata("_seq"),
        metadata("_commit_lsn"),
        metadata("_commit_timestamp"),
        metadata("_xid"),
        unsent.collect(),
    ]);
    extend(texts, oid, columns);
}

fn of_array(array: &dyn Array) -> Vec<Option<String>> {
    fn texts<T: ArrowPrimitiveType<Native: Display>>(array: &dyn Array) -> Vec<Option<String>> {
        let values = array.as_primitive::<T>().iter();
        values.map(|value| value.map(|it| it.to_string())).collect()
    }
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean().iter();
            values
                .map(|value| value.map(|it| u8::from(it).to_string()))
                .collect()
        }
        DataType::Int16 => texts::<Int16Type>(array),
        DataType::Int32 => texts::<Int32Type>(array),
        DataType::Int64 => texts::<Int64Type>(array),
        DataType::UInt32 => texts::<UInt32Type>(array),
        DataType::UInt64 => texts::<UInt64Type>(array),
        DataType::Float32 => texts::<Float32Type>(array),
        DataType::Float64 => texts::<Float64Type>(array),
        DataType::Date32 => texts::<Date32Type>(array),
        DataType::Time64(TimeUnit::Microsecond) => texts::<Time64MicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => texts::<TimestampMicrosecondType>(array),
        DataType::Decimal128(..) => texts::<Decimal128Type>(array),
        DataType::Utf8 => {
            let values = array.as_string::<i32>().iter();
            values.map(|value| value.map(str::to_owned)).collect()
        }
        DataType::FixedSizeBinary(16) => {
            let values = array.as_fixed_size_binary().iter();
            let number = |bytes: &[u8]| u128::from_be_bytes(bytes.try_into().unwrap()).to_string();
            values.map(|value| value.map(number)).collect()
        }
        other => panic!("no floor for {other}"),
    }
}

fn extend(texts: &mut Texts, oid: u32, columns: impl Iterator<Item = Vec<Option<String>>>) {
    let all = texts.entry(oid).or_default();
    for (at, column) in columns.enumerate() {
        if all.len() == at {
            all.push(Vec::new());
        }
        all[at].extend(column);
    }
}
