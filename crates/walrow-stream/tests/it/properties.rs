//! Compares the assembler with a slow and plain assembler, on generated histories.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use proptest::prelude::*;
use walrow_stream::{Assembler, ErrorKind, Event, RowChange};
use walrow_testkit::reference::committed;
use walrow_testkit::strategy::arbitrary;
use walrow_testkit::{History, captures, in_chunks};

/// The parts of a committed transaction that both assemblers return: xid, LSNs, time, and for each
/// change its seq, its kind and its relations' numbers of columns.
type Summary = (
    u32,
    u64,
    u64,
    i64,
    Option<String>,
    Vec<(u64, u8, Vec<usize>)>,
);

fn assembled<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Summary>, ErrorKind> {
    let mut assembler = Assembler::default();
    let mut found: Vec<Summary> = Vec::new();
    let mut complete = 0;
    for piece in pieces {
        let mut rest = piece;
        while let Some(item) = assembler.next(&mut rest).map_err(|error| error.kind)? {
            match item {
                Event::Begin(transaction) => found.push((
                    transaction.xid,
                    transaction.commit_lsn.0,
                    transaction.end_lsn.0,
                    transaction.commit_time.0,
                    transaction.origins.last().map(|origin| origin.name.clone()),
                    Vec::new(),
                )),
                Event::Change(change) => {
                    let of_one = vec![change.relation.columns.len()];
                    let (kind, columns) = match &change.row {
                        RowChange::Insert { .. } => (b'I', of_one),
                        RowChange::Update { .. } => (b'U', of_one),
                        RowChange::Delete { .. } => (b'D', of_one),
                    };
                    found
                        .last_mut()
                        .unwrap()
                        .5
                        .push((change.seq, kind, columns));
                }
                Event::Truncate(truncate) => {
                    let columns = truncate.relations.iter().map(|r| r.columns.len());
                    let changes = &mut found.last_mut().unwrap().5;
                    changes.push((truncate.seq, b'T', columns.collect()));
                }
                Event::Message(message) if message.transactional => {
                    found
                        .last_mut()
                        .unwrap()
                        .5
                        .push((message.seq, b'M', Vec::new()));
                }
                Event::Commit { .. } => complete += 1,
                _ => {}
            }
        }
    }
    assert_eq!(complete, found.len(), "what began was committed");
    Ok(found)
}

fn expected(bytes: &[u8]) -> Vec<Summary> {
    let transactions = committed(bytes).unwrap().transactions;
    let found = transactions.into_iter().map(|transaction| {
        let changes = transaction.changes.iter().map(|change| {
            let kind = change.message.bytes().first().copied().unwrap();
            (change.seq, kind, change.columns.clone())
        });
        (
            transaction.xid,
            transaction.commit_lsn,
            transaction.end_lsn,
            transaction.commit_time,
            transaction
                .origin
                .map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned()),
            changes.collect(),
        )
    });
    found.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_histories_come_out_whole_in_any_cut(
        history in arbitrary::<History>(2_000),
        sizes in prop::collection::vec(1_usize..300, 1..4),
    ) {
        let whole = history.whole().bytes();
        for bytes in [&whole, &history.delivered().bytes()] {
            match assembled([&**bytes]) {
                Ok(found) => {
                    prop_assert_eq!(&found, &expected(&whole));
                    prop_assert_eq!(assembled(in_chunks(bytes, &sizes)), Ok(found));
                }
                // Arbitrary names may be invalid in every encoding.
                Err(error) => {
                    prop_assert!(matches!(error, ErrorKind::InvalidUtf8 { .. }), "{error:?}");
                    prop_assert_eq!(assembled(in_chunks(bytes, &sizes)), Err(error));
                }
            }
        }
    }
}

#[test]
fn captures_give_the_transactions_of_the_reference() {
    let mut seen = 0;
    for capture in captures().iter().filter(|capture| !capture.is_physical()) {
        let found = assembled([&*capture.bytes]);
        assert_eq!(found, Ok(expected(&capture.bytes)), "{}", capture.name);
        seen += 1;
    }
    assert!(seen > 170, "{seen} captures");
}
