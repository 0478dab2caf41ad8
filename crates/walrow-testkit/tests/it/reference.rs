//! The reference reads captures of servers: the same history, sent in different ways.

#![expect(clippy::expect_used, reason = "a panic is how a test fails")]

use walrow_testkit::reference::{Committed, committed};
use walrow_testkit::{Capture, Expected, OwnedCell, OwnedMessage, OwnedOld, captures, text};

/// Captures with this ending, each with the text capture of the same history.
fn pairs(ending: &str) -> Vec<(Capture, Capture)> {
    let captures = captures();
    let pair = |capture: &Capture| {
        let name = capture.name.strip_suffix(ending)?;
        let text = format!("{name}.text");
        let text = captures.iter().find(|capture| capture.name == text)?;
        Some((capture.clone(), text.clone()))
    };
    captures.iter().filter_map(pair).collect()
}

fn read(capture: &Capture) -> Committed {
    committed(&capture.bytes).expect(&capture.name)
}

/// Rows and truncates of transactions that have any: a Message of a stream block survives its
/// subtransaction's rollback, and an empty transaction is sent only if it was prepared.
fn rows(committed: Committed) -> Vec<Expected> {
    let mut transactions = committed.transactions;
    for transaction in &mut transactions {
        transaction
            .changes
            .retain(|change| !matches!(change.message, OwnedMessage::Message { .. }));
    }
    transactions.retain(|transaction| !transaction.changes.is_empty());
    transactions
}

#[test]
fn any_protocol_version_brings_the_same_rows() {
    let mut compared = 0;
    for (v1, text) in pairs(".v1") {
        let (v1, text) = (read(&v1), read(&text));
        assert_eq!(v1.notes, text.notes);
        let v1 = rows(v1);
        assert_eq!(v1, rows(text));
        compared += v1.len();
    }
    assert!(compared > 10, "{compared}");
}

#[test]
fn text_and_binary_bring_the_same_rows_but_for_their_values() {
    let mut compared = 0;
    for (binary, text) in pairs(".binary") {
        let blank = |capture: &Capture| {
            let mut rows = rows(read(capture));
            for transaction in &mut rows {
                for change in &mut transaction.changes {
                    blank(&mut change.message);
                }
            }
            rows
        };
        let binary = blank(&binary);
        assert_eq!(binary, blank(&text));
        compared += binary.len();
    }
    assert!(compared > 100, "{compared}");
}

/// Makes all values the same, in either format.
fn blank(message: &mut OwnedMessage) {
    let cells = match message {
        OwnedMessage::Insert { new, .. } => vec![new],
        OwnedMessage::Update { old: None, new, .. } => vec![new],
        OwnedMessage::Update {
            old: Some(OwnedOld::Key(old) | OwnedOld::Full(old)),
            new,
            ..
        } => vec![old, new],
        OwnedMessage::Delete {
            old: OwnedOld::Key(old) | OwnedOld::Full(old),
            ..
        } => vec![old],
        _ => vec![],
    };
    for cell in cells.into_iter().flatten() {
        if matches!(cell, OwnedCell::Text(_) | OwnedCell::Binary(_)) {
            *cell = text("");
        }
    }
}
