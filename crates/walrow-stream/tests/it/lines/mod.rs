//! What an assembler hands out, a line an item.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::allow_attributes,
    reason = "each test takes what it needs of it"
)]

use walrow_stream::{Assembler, ErrorKind, Item, Row};
use walrow_wire::{Cell, Tuple};

/// What the assembler hands out, a line an item.
pub(crate) fn lines<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<String>, Option<ErrorKind>) {
    lines_of(&mut Assembler::default(), pieces)
}

/// The same of an assembler that was set up.
pub(crate) fn lines_of<'a>(
    assembler: &mut Assembler,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<String>, Option<ErrorKind>) {
    let mut lines = Vec::new();
    for piece in pieces {
        let mut rest = piece;
        loop {
            match assembler.next(&mut rest) {
                Ok(Some(item)) => lines.push(line(&item)),
                Ok(None) => break,
                Err(error) => {
                    let again = assembler.next(&mut rest).map(|_| ()).unwrap_err();
                    assert_eq!(again, error, "a failed assembler repeats its error");
                    return (lines, Some(error.kind));
                }
            }
        }
        assert!(rest.is_empty(), "None takes all input");
    }
    (lines, None)
}

/// An item in a line.
pub(crate) fn line(item: &Item<'_>) -> String {
    match item {
        Item::Begin(transaction) => {
            let origins: Vec<_> = transaction
                .origins
                .iter()
                .map(|o| o.name.as_str())
                .collect();
            format!(
                "begin {} {} {origins:?}",
                transaction.xid, transaction.commit_lsn
            )
        }
        Item::Commit(transaction) => format!("commit {}", transaction.end_lsn),
        Item::Change(change) => {
            let what = match &change.row {
                Row::Insert { .. } => "insert".to_owned(),
                Row::Update { old, .. } => format!("update {}", old.is_some()),
                Row::Delete { .. } => "delete".to_owned(),
                Row::Truncate {
                    relations,
                    cascade,
                    restart_identity,
                } => {
                    let names: Vec<_> = relations.iter().map(|r| r.name.to_string()).collect();
                    format!("truncate {names:?} {cascade} {restart_identity}")
                }
                other => format!("{other:?}"),
            };
            format!(
                "{} {what} {} v{}",
                change.seq, change.relation, change.relation.version
            )
        }
        Item::Message(message) => format!(
            "message {} {} {} seq {}",
            message.transactional,
            message.prefix,
            String::from_utf8_lossy(message.content),
            message.seq
        ),
        Item::Relation { relation, seq } => {
            format!("{seq} relation {relation} v{}", relation.version)
        }
        Item::SessionStart => "session".to_owned(),
        Item::ServerError { sqlstate } => format!("error {sqlstate}"),
        other => format!("{other:?}"),
    }
}

/// Of each transaction its head, and of each row its seq, its key and how many columns it has:
/// what a consumer sees of it, without the relation versions.
pub(crate) fn rows_of<'a>(
    assembler: &mut Assembler,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<String>, Option<ErrorKind>) {
    let mut rows = Vec::new();
    for piece in pieces {
        let mut rest = piece;
        loop {
            match assembler.next(&mut rest) {
                Ok(Some(Item::Begin(transaction))) => {
                    let gid = transaction.prepared.as_ref().map(|it| it.gid.as_str());
                    rows.push(format!(
                        "{} {}{}",
                        transaction.xid,
                        transaction.commit_lsn,
                        gid.map_or_else(String::new, |gid| format!(" {gid}"))
                    ));
                }
                Ok(Some(Item::Change(change))) => {
                    let cell = |tuple: Tuple<'_>| match tuple.cells().next() {
                        Some(Cell::Text(text)) => String::from_utf8_lossy(text).into_owned(),
                        other => format!("{other:?}"),
                    };
                    let what = match &change.row {
                        Row::Insert { new } => format!("+{}", cell(*new)),
                        Row::Update { new, .. } => format!("={}", cell(*new)),
                        Row::Delete { old } => format!("-{}", cell(old.tuple())),
                        _ => "truncate".to_owned(),
                    };
                    let relation = change.relation;
                    let columns = relation.columns.len();
                    rows.push(format!(
                        "  {} {what} {}/{columns}",
                        change.seq, relation.name
                    ));
                }
                Ok(Some(Item::Message(message))) => {
                    rows.push(format!("  {} \"{}\"", message.seq, message.prefix));
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => return (rows, Some(error.kind)),
            }
        }
    }
    (rows, None)
}
