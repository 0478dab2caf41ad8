//! A table's rows follow from its changes: compared with a slow model, in memory and in a file.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use proptest::prelude::*;
use std::sync::Arc;
use walrow_log::FileSpool;
use walrow_stream::{
    Assembler, Catalog, CatalogColumn, CellText, Column, Event, Gap, Net, NetError, RowChange,
};
use walrow_testkit::strategy::arbitrary;
use walrow_testkit::{OwnedCell, Stream, TableModel, TableStep, binary, null, text, unchanged};
use walrow_wire::{Cell, ReplicaIdentity};

const OID: u32 = TableModel::OID;

type Row = Vec<Option<String>>;

/// The text of the model's binary cells.
#[expect(clippy::unnecessary_wraps, reason = "the type of such functions")]
fn cell_text(column: &Column, _: &Catalog) -> Option<CellText> {
    let is_number = column.type_oid == 23;
    Some(Arc::new(move |cell, out| {
        match cell.try_into() {
            Ok(bytes) if is_number => {
                out.extend_from_slice(i32::from_be_bytes(bytes).to_string().as_bytes());
            }
            _ => out.extend_from_slice(cell),
        }
        true
    }))
}

fn fold() -> Net {
    Net::state(OID).with_cell_text(cell_text)
}

/// Applies a stream.
fn applied(mut fold: Net, bytes: &[u8]) -> Result<Net, NetError> {
    let (mut assembler, mut input) = (Assembler::default(), bytes);
    while let Some(event) = assembler.next_with(&mut input, |row| fold.row(&row))? {
        match event {
            Event::Change(error) => return Err(error),
            Event::Begin(transaction) => fold.begin(transaction)?,
            Event::Relation { relation, .. } => fold.relation(relation)?,
            Event::Truncate(truncate) => fold.truncate(&truncate)?,
            Event::Fact(fact) => fold.fact(&fact),
            _ => {}
        }
    }
    Ok(fold)
}

/// The columns and the sorted rows of the result.
fn rows(fold: Net) -> (Vec<String>, Vec<Row>) {
    let mut folded = fold.into_rows().unwrap();
    let (mut columns, mut rows, mut chunk) = (Vec::new(), Vec::new(), Vec::new());
    let mut assembler = Assembler::default();
    let mut seqs = 0..;
    while folded.read(&mut chunk).unwrap() {
        let mut input = &*chunk;
        while let Some(event) = assembler.next(&mut input).unwrap() {
            match event {
                Event::Relation { relation, .. } => {
                    let names = relation.columns.iter().map(|it| it.name.to_string());
                    columns = names.collect();
                }
                Event::Change(change) => {
                    assert_eq!(Some(change.seq), seqs.next());
                    let RowChange::Insert { new } = change.row else {
                        panic!("only inserts");
                    };
                    let values = new.cells().enumerate().map(|(place, cell)| match cell {
                        Cell::Null => None,
                        Cell::Binary(bytes) if place == 0 => {
                            Some(i32::from_be_bytes(bytes.try_into().unwrap()).to_string())
                        }
                        Cell::Text(bytes) | Cell::Binary(bytes) => {
                            Some(String::from_utf8(bytes.to_vec()).unwrap())
                        }
                        Cell::Unchanged => panic!("a row has all of its values"),
                    });
                    rows.push(values.collect());
                }
                _ => {}
            }
        }
    }
    assert!(!assembler.is_mid_transaction());
    rows.sort();
    (columns, rows)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_those_of_the_model(steps in prop::collection::vec(arbitrary::<TableStep>(16), 0..160)) {
        let mut model = TableModel::new();
        for (number, step) in steps.iter().enumerate() {
            model.apply(*step);
            if number % 40 != 39 && number + 1 != steps.len() {
                continue;
            }
            model.commit();
            let bytes = model.stream.bytes();
            let small = fold().with_memory(300).with_spool(Arc::new(FileSpool::default()));
            for fold in [fold(), small] {
                let (columns, rows) = rows(applied(fold, &bytes).unwrap());
                // The stream does not show a new column before it has a row.
                prop_assert!(model.columns.starts_with(&columns));
                let mut expected = model.rows.clone();
                for row in &mut expected {
                    row.truncate(columns.len());
                }
                expected.sort();
                prop_assert_eq!(rows, expected);
            }
        }
    }
}

// ------------------------------------------------------------------ gaps

fn stream(identity: ReplicaIdentity, names: &[&str]) -> Stream {
    let columns: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(place, name)| {
            let is_key = place == 0 || identity == ReplicaIdentity::Full;
            (
                *name,
                25,
                -1,
                is_key && identity != ReplicaIdentity::Nothing,
            )
        })
        .collect();
    Stream::new().relation(OID, "public", "t", identity, &columns)
}

/// A table of `id` and `v`, with one row, in the open transaction.
fn begun(identity: ReplicaIdentity) -> Stream {
    let relation = stream(identity, &["id", "v"]).bytes();
    let begin = Stream::new().session().begin(0x1000, 700);
    begin.raw(&relation).insert(OID, &[text("1"), text("a")])
}

fn gap(stream: Stream) -> Option<Gap> {
    match applied(fold(), &stream.commit().bytes()) {
        Ok(_) => None,
        Err(NetError::Incomplete {
            table, lsn, gap, ..
        }) => {
            assert_eq!((&*table, lsn.0), ("public.t", 0x1000));
            Some(gap)
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn gaps_are_errors() {
    use ReplicaIdentity::{Default, Full, Nothing};
    let row = |id: &str| [text(id), text("b")];
    let key = |id: &str| [text(id), null()];
    let value = || {
        Some(Gap::Value {
            column: "v".to_owned(),
        })
    };
    let unsent = |id: &str| [text(id), unchanged()];
    assert_eq!(gap(begun(Default).update(OID, &row("2"))), Some(Gap::Row));
    assert_eq!(
        gap(begun(Default).delete_key(OID, &key("2"))),
        Some(Gap::Row)
    );
    assert_eq!(
        gap(begun(Default).insert(OID, &row("1"))),
        Some(Gap::Removal)
    );
    let twice = begun(Default).insert(OID, &row("2"));
    assert_eq!(
        gap(twice.update_key(OID, &key("2"), &row("1"))),
        Some(Gap::Removal)
    );
    assert_eq!(gap(begun(Default).insert(OID, &unsent("2"))), value());
    assert_eq!(gap(begun(Default).update(OID, &unsent("1"))), None);
    assert_eq!(
        gap(begun(Full).update_full(OID, &row("1"), &row("1"))),
        Some(Gap::Row)
    );
    assert_eq!(gap(begun(Full).delete_full(OID, &row("1"))), Some(Gap::Row));
    assert_eq!(gap(begun(Full).update(OID, &row("1"))), Some(Gap::Identity));
    assert_eq!(
        gap(begun(Full).delete_key(OID, &key("1"))),
        Some(Gap::Identity)
    );
    assert_eq!(
        gap(begun(Nothing).delete_key(OID, &key("1"))),
        Some(Gap::Identity)
    );
    assert_eq!(gap(begun(Nothing).insert(OID, &row("1"))), None);
}

#[test]
fn renamed_and_retyped_columns_are_errors() {
    let renamed = stream(ReplicaIdentity::Default, &["id", "w"]).bytes();
    let (went, came) = ("v".to_owned(), "w".to_owned());
    let add = |stream: Stream| stream.insert(OID, &[text("2"), text("b")]);
    let begun = || begun(ReplicaIdentity::Default);
    assert_eq!(
        gap(add(begun().raw(&renamed))),
        Some(Gap::Columns { went, came })
    );
    // If there are no rows, no value is lost.
    let emptied = begun().truncate(0, &[OID]);
    assert_eq!(gap(add(emptied.raw(&renamed))), None);
    let columns = [("id", 25, -1, true), ("v", 23, -1, false)];
    let retyped = Stream::new().relation(OID, "public", "t", ReplicaIdentity::Default, &columns);
    let column = "v".to_owned();
    let found = gap(begun()
        .raw(&retyped.bytes())
        .insert(OID, &[text("2"), text("7")]));
    assert_eq!(found, Some(Gap::Type { column }));
}

#[test]
fn a_type_that_keeps_its_values_is_no_error() {
    let numeric = |precision: i32, scale: i32| (1700, (precision << 16 | scale) + 4);
    let (texts, int4, int8) = ((25, -1), (23, -1), (20, -1));
    let (varchar, longer, any) = ((1043, 9), (1043, 14), (1043, -1));
    let (char5, char9) = ((1042, 9), (1042, 13));
    let (millis, micros, moment) = ((1184, 3), (1184, 6), (1184, -1));
    let keep = [
        (texts, any),
        (varchar, texts),
        (varchar, longer),
        (varchar, any),
        (numeric(10, 2), numeric(12, 2)),
        (numeric(10, 2), (1700, -1)),
        (millis, micros),
        (micros, moment),
        (moment, micros),
    ];
    let lose = [
        (int4, int8),
        (int4, texts),
        (texts, varchar),
        (longer, varchar),
        (char5, char9),
        (numeric(10, 2), numeric(12, 3)),
        (numeric(12, 2), numeric(10, 2)),
        ((1700, -1), numeric(10, 2)),
        (micros, millis),
        (moment, millis),
    ];
    let changed = |before: (u32, i32), after: (u32, i32)| {
        let relation = |(oid, modifier): (u32, i32)| {
            let columns = [("id", 25, -1, true), ("v", oid, modifier, false)];
            let stream = Stream::new();
            stream
                .relation(OID, "public", "t", ReplicaIdentity::Default, &columns)
                .bytes()
        };
        let begin = Stream::new()
            .session()
            .begin(0x1000, 700)
            .raw(&relation(before));
        let begin = begin
            .insert(OID, &[text("1"), null()])
            .raw(&relation(after));
        gap(begin.insert(OID, &[text("2"), null()]))
    };
    for (before, after) in keep {
        assert_eq!(changed(before, after), None, "{before:?} to {after:?}");
    }
    for (before, after) in lose {
        let column = "v".to_owned();
        assert_eq!(
            changed(before, after),
            Some(Gap::Type { column }),
            "{before:?} to {after:?}"
        );
    }
}

#[test]
fn a_column_that_comes_again_has_no_old_values() {
    let one = stream(ReplicaIdentity::Default, &["id"]).bytes();
    let two = stream(ReplicaIdentity::Default, &["id", "v"]).bytes();
    let both = begun(ReplicaIdentity::Default)
        .raw(&one)
        .insert(OID, &[text("2")])
        .raw(&two)
        .insert(OID, &[text("3"), text("c")])
        .commit();
    let (columns, rows) = rows(applied(Net::state(OID), &both.bytes()).unwrap());
    assert_eq!(columns, ["id", "v"]);
    let row = |id: &str, v: Option<&str>| vec![Some(id.to_owned()), v.map(str::to_owned)];
    assert_eq!(rows, [row("1", None), row("2", None), row("3", Some("c"))]);
}

#[test]
fn columns_that_came_after_the_last_change_are_null() {
    let columns = |names: &[&str]| -> Vec<_> {
        let columns = names.iter();
        columns
            .map(|name| CatalogColumn::new(*name, 25, -1))
            .collect()
    };
    for (now, expected) in [
        (&["v", "new", "id"][..], &[Some("a"), None, Some("1")][..]),
        (&["id", "v"], &[Some("1"), Some("a")]),
        (&["id"], &[Some("1")]),
        (&["new"], &[None]),
        (&[], &[]),
    ] {
        let bytes = begun(ReplicaIdentity::Default).commit().bytes();
        let folded = applied(fold(), &bytes).unwrap();
        let mut folded = folded.into_rows().unwrap().with_columns(&columns(now));
        let (mut chunk, mut found) = (Vec::new(), Vec::new());
        let mut assembler = Assembler::default();
        while folded.read(&mut chunk).unwrap() {
            let mut input = &*chunk;
            while let Some(event) = assembler.next(&mut input).unwrap() {
                if let Event::Change(change) = event {
                    let names: Vec<_> =
                        change.relation.columns.iter().map(|it| &*it.name).collect();
                    assert_eq!(names, now);
                    let RowChange::Insert { new } = change.row else {
                        panic!("only inserts");
                    };
                    let text = |cell| match cell {
                        Cell::Text(text) => Some(String::from_utf8(text.to_vec()).unwrap()),
                        _ => None,
                    };
                    found.push(new.cells().map(text).collect::<Vec<_>>());
                }
            }
        }
        let expected: Vec<_> = expected.iter().map(|it| it.map(str::to_owned)).collect();
        assert_eq!(found.first(), Some(&expected), "{now:?}");
    }
}

#[test]
fn attribute_numbers_tell_a_renamed_column() {
    let catalog = |name: &str, number: i16| {
        let json = format!(
            r#"{{"fact": "catalog", "types": [], "tables": [{{"schema": "public", "name": "t",
            "oid": {OID}, "columns": [
                {{"name": "id", "type": 25, "type_modifier": -1, "key": true, "number": 1}},
                {{"name": "{name}", "type": 25, "type_modifier": -1, "key": false,
                 "number": {number}}}]}}]}}"#
        );
        Stream::new().emit_at(0, "walrow", json.as_bytes()).bytes()
    };
    let two = stream(ReplicaIdentity::Default, &["id", "w"]).bytes();
    for (number, old) in [(2, Some("a")), (3, None)] {
        let first = Stream::new().session().raw(&catalog("v", 2));
        let first = first.begin(0x1000, 700);
        let first = first.raw(&stream(ReplicaIdentity::Default, &["id", "v"]).bytes());
        let first = first.insert(OID, &[text("1"), text("a")]).commit();
        let both = first
            .raw(&catalog("w", number))
            .begin(0x2000, 701)
            .raw(&two);
        let both = both.insert(OID, &[text("2"), text("b")]).commit();
        let (columns, rows) = rows(applied(Net::state(OID), &both.bytes()).unwrap());
        assert_eq!(columns, ["id", "w"]);
        assert_eq!(rows[0][1].as_deref(), old);
    }
}

#[test]
fn a_binary_key_without_a_text_is_found_by_itself() {
    let key = |id: &OwnedCell| [id.clone(), null()];
    let id = binary([0xff, 0xfe]);
    let stream = begun(ReplicaIdentity::Default)
        .insert(OID, &[id.clone(), text("b")])
        .delete_key(OID, &key(&id))
        .commit();
    let (_, rows) = rows(applied(Net::state(OID), &stream.bytes()).unwrap());
    assert_eq!(rows.len(), 1);
}
