//! Histories give the expected transactions, in every way of delivery.

use proptest::prelude::*;
use walrow_testkit::reference::committed;
use walrow_testkit::strategy::arbitrary;
use walrow_testkit::{Delivery, History, Stream, binary, null, text, unchanged, walk};
use walrow_wire::ReplicaIdentity;

proptest! {
    #[test]
    fn all_deliveries_give_the_same_transactions(history in arbitrary::<History>(2048)) {
        let expected = history.expected();
        for stream in [history.whole(), history.delivered()] {
            let committed = committed(&stream.bytes()).unwrap();
            prop_assert_eq!(&committed.transactions, &expected);
            prop_assert_eq!(&committed.notes, &history.expected_notes());
        }
    }

    #[test]
    fn rows_have_their_relation_s_columns(history in arbitrary::<History>(2048)) {
        for transaction in history.expected() {
            for change in transaction.changes {
                if let walrow_testkit::OwnedMessage::Insert { new, .. } = &change.message {
                    prop_assert_eq!(&change.columns, &[new.len()]);
                }
            }
        }
    }
}

/// A guard: random bytes make the kinds of histories that the properties need.
#[test]
fn histories_are_rich() {
    use arbitrary::{Arbitrary, Unstructured};
    use proptest::test_runner::TestRng;
    let mut random = TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
    let (mut changes, mut kinds, mut rolled_back, mut aborted, mut alters) = (0, [0; 4], 0, 0, 0);
    for _ in 0..200 {
        let mut bytes = [0; 2048];
        random.fill_bytes(&mut bytes);
        let history = History::arbitrary(&mut Unstructured::new(&bytes)).unwrap();
        for transaction in &history.transactions {
            kinds[match transaction.delivery {
                Delivery::Whole => 0,
                Delivery::Streamed => 1,
                Delivery::Prepared => 2,
                Delivery::StreamedPrepared => 3,
            }] += 1;
            rolled_back += usize::from(transaction.rolled_back);
            for part in &transaction.parts {
                aborted += usize::from(part.aborted);
                changes += part.changes.len();
                alters += part
                    .changes
                    .iter()
                    .filter(|change| matches!(change, walrow_testkit::Change::Alter { .. }))
                    .count();
            }
        }
    }
    assert!(kinds.iter().all(|kind| *kind > 50), "{kinds:?}");
    assert!(
        changes > 2000 && rolled_back > 50 && aborted > 100 && alters > 100,
        "{changes} changes, {rolled_back} rolled back, {aborted} aborted, {alters} alters"
    );
}

#[test]
fn a_stream_by_hand_is_valid() {
    let columns = [("id", 23, -1, true), ("v", 25, -1, false)];
    let stream = Stream::new()
        .session()
        .keepalive()
        .relation(1, "public", "t", ReplicaIdentity::Default, &columns)
        .user_type(70_000, "public", "mood")
        .begin(0x1000, 700)
        .origin(7, "elsewhere")
        .insert(1, &[text("1"), null()])
        .update(1, &[text("1"), unchanged()])
        .update_key(1, &[text("1"), null()], &[text("2"), binary([0])])
        .notice("look out")
        .delete_key(1, &[text("2"), null()])
        .truncate(3, &[1])
        .emit("p", b"x")
        .commit()
        .emit_at(0x2000, "note", b"")
        .stream_start(701)
        .relation(1, "public", "t", ReplicaIdentity::Full, &columns)
        .insert(1, &[text("1"), null()])
        .subxid(702)
        .delete_full(1, &[text("1"), null()])
        .emit("in a block", b"")
        .stream_stop()
        .stream_abort(701, 702)
        .stream_start(701)
        .update_full(1, &[text("1"), null()], &[text("1"), text("x")])
        .stream_stop()
        .stream_commit(0x3000, 701)
        .begin_prepare(0x4000, 703, "a")
        .prepare()
        .commit_prepared(0x5000, 703, "a")
        .begin_prepare(0x6000, 704, "a")
        .prepare()
        .rollback_prepared(0x7000, 704, "a")
        .stream_start(705)
        .stream_stop()
        .stream_prepare(0x8000, 705, "b")
        .commit_prepared(0x9000, 705, "b")
        .stream_start(706)
        .stream_stop()
        .stream_abort_parallel(706, 706)
        .parameter("TimeZone", "UTC")
        .copy_done()
        .error("57P01", "terminating");
    let bytes = stream.bytes();
    let mut frames = 0;
    assert_eq!(walk(&bytes, |_| frames += 1), Ok(bytes.len()));
    assert_eq!(frames, stream.frames().len());

    let committed = committed(&bytes).unwrap();
    let transactions: Vec<_> = committed
        .transactions
        .iter()
        .map(|t| (t.xid, t.commit_lsn, t.end_lsn, t.changes.len()))
        .collect();
    assert_eq!(
        transactions,
        [
            (700, 0x1000, 0x1030, 6),
            (701, 0x3000, 0x3030, 3),
            (703, 0x5000, 0x5030, 0),
            (705, 0x9000, 0x9030, 0),
        ]
    );
    assert_eq!(committed.transactions[0].commit_time, Stream::time(700));
    assert_eq!(committed.notes, [(0x2000, "note".into())]);

    // The other framings contain the same bytes.
    let messages = stream.messages();
    let begin = messages
        .iter()
        .find(|(_, message)| message[0] == b'C')
        .unwrap();
    assert_eq!(begin.0, 0x1030);
    assert_eq!(stream.payloads().len(), messages.len() + 1, "one keepalive");
}
