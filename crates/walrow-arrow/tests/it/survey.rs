//! Counts of changes, and parts of a stream.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use walrow_arrow::{DecoderBuilder, ErrorKind, Survey, TableName};
use walrow_stream::End;
use walrow_testkit::captures;
use walrow_wire::{Lsn, Timestamp};

fn capture(name: &str) -> Vec<u8> {
    let found = captures().into_iter().find(|it| it.name == name);
    found.unwrap().bytes
}

fn survey(data: &[u8], piece: usize) -> Survey {
    let mut survey = DecoderBuilder::new().build_survey().unwrap();
    for piece in data.chunks(piece) {
        survey.decode(piece).unwrap();
    }
    survey.finish();
    survey
}

/// From `create table item …` and the statements of the history `rows`.
#[test]
fn changes_are_counted_whatever_the_cuts() {
    let data = capture("18/rows.text");
    for piece in [data.len(), 1, 13] {
        let survey = survey(&data, piece);
        let counts: Vec<_> = survey
            .versions()
            .iter()
            .map(|it| (it.relation.to_string(), it.inserts, it.updates, it.deletes))
            .collect();
        assert_eq!(
            counts,
            [
                ("public.item".to_owned(), 4, 3, 2),
                ("public.stock".to_owned(), 3, 2, 1)
            ]
        );
        assert!(!survey.is_unfinished());
        let amount = &survey.versions()[0].columns[2];
        assert_eq!(amount.type_name.as_deref(), Some("numeric"));
    }
}

#[test]
fn a_row_with_another_number_of_cells_is_an_error() {
    let mut data = capture("18/rows.text");
    // The first Insert has three cells.
    let insert = data
        .windows(8)
        .position(|it| it[0] == b'I' && it[5] == b'N');
    data[insert.unwrap() + 7] = 2;
    let mut survey = DecoderBuilder::new().build_survey().unwrap();
    let error = survey.decode(&data).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Stream(_)), "{error}");
}

fn rows(data: &[u8], builder: DecoderBuilder) -> (usize, Lsn) {
    let mut reader = builder.build_reader(data).unwrap();
    let rows = reader
        .by_ref()
        .map(|it| it.unwrap().record_batch().num_rows());
    let rows = rows.sum();
    (rows, reader.decoder().position())
}

#[test]
fn an_oid_chooses_one_of_several_tables_of_a_name() {
    let data = capture("18/recreate.text");
    let survey = survey(&data, data.len());
    let oids: Vec<_> = survey.versions().iter().map(|it| it.relation.oid).collect();
    let of = |oid| rows(&data, DecoderBuilder::new().with_table(TableName::Oid(oid))).0;
    assert_eq!(oids.into_iter().map(of).collect::<Vec<_>>(), [2, 2, 1]);
}

#[test]
fn an_end_stops_the_stream() {
    let data = capture("18/rows.text");
    let whole = rows(&data, DecoderBuilder::new());
    let survey = survey(&data, data.len());
    let first = survey.versions()[0].first.unwrap();
    // The first transaction inserts three rows.
    let time = first.unix_micros.unwrap() - Timestamp::UNIX_EPOCH_OFFSET;
    let ends = [
        End::Time(Timestamp(time)),
        End::Lsn(Lsn(first.lsn.0 + 0x30)),
    ];
    for end in ends {
        let (found, position) = rows(&data, DecoderBuilder::new().with_end(end));
        assert_eq!(found, 3);
        let rest = rows(&data, DecoderBuilder::new().with_start(position));
        assert_eq!((3 + rest.0, rest.1), whole);
    }
    let before = End::Lsn(first.lsn);
    assert_eq!(rows(&data, DecoderBuilder::new().with_end(before)).0, 0);
}
