//! The events of an assembler, one line per event.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::allow_attributes,
    reason = "each test takes what it needs of it"
)]

use walrow_stream::{Assembler, ErrorKind, Event, RowChange};
use walrow_wire::{Cell, Tuple};

/// All events of an assembler, one line each.
pub(crate) fn lines<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<String>, Option<ErrorKind>) {
    lines_of(&mut Assembler::default(), pieces)
}

/// All events of an assembler with options, one line each.
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

/// An event as a line.
pub(crate) fn line(item: &Event<'_>) -> String {
    match item {
        Event::Begin(transaction) => {
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
        Event::Commit { transaction, .. } => format!("commit {}", transaction.end_lsn),
        Event::Change(change) => {
            let what = match &change.row {
                RowChange::Insert { .. } => "insert".to_owned(),
                RowChange::Update { old, .. } => format!("update {}", old.is_some()),
                RowChange::Delete { .. } => "delete".to_owned(),
            };
            format!(
                "{} {what} {} v{}",
                change.seq, change.relation, change.relation.version
            )
        }
        Event::Truncate(truncate) => {
            let relations = &truncate.relations;
            let names: Vec<_> = relations.iter().map(|r| r.name.to_string()).collect();
            format!(
                "{} truncate {names:?} {} {} {} v{}",
                truncate.seq,
                truncate.cascade,
                truncate.restart_identity,
                relations.first().unwrap(),
                relations.first().unwrap().version
            )
        }
        Event::Message(message) => format!(
            "message {} {} {} seq {}",
            message.transactional,
            message.prefix,
            String::from_utf8_lossy(message.content),
            message.seq
        ),
        Event::Relation { relation, seq, .. } => {
            format!("{seq} relation {relation} v{}", relation.version)
        }
        Event::SessionStart => "session".to_owned(),
        Event::ServerError { sqlstate, .. } => format!("error {sqlstate}"),
        other => format!("{other:?}"),
    }
}

/// For each transaction its properties, and for each row its seq, its key and its number of
/// columns. This is a consumer's view, without the relation versions.
pub(crate) fn rows_of<'a>(
    assembler: &mut Assembler,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<String>, Option<ErrorKind>) {
    let mut rows = Vec::new();
    for piece in pieces {
        let mut rest = piece;
        loop {
            match assembler.next(&mut rest) {
                Ok(Some(Event::Begin(transaction))) => {
                    let gid = transaction.prepared.as_ref().map(|it| it.gid.as_str());
                    rows.push(format!(
                        "{} {}{}",
                        transaction.xid,
                        transaction.commit_lsn,
                        gid.map_or_else(String::new, |gid| format!(" {gid}"))
                    ));
                }
                Ok(Some(Event::Change(change))) => {
                    let cell = |tuple: Tuple<'_>| match tuple.cells().next() {
                        Some(Cell::Text(text)) => String::from_utf8_lossy(text).into_owned(),
                        other => format!("{other:?}"),
                    };
                    let what = match &change.row {
                        RowChange::Insert { new } => format!("+{}", cell(*new)),
                        RowChange::Update { new, .. } => format!("={}", cell(*new)),
                        RowChange::Delete { old } => format!("-{}", cell(old.tuple())),
                    };
                    let relation = change.relation;
                    let columns = relation.columns.len();
                    rows.push(format!(
                        "  {} {what} {}/{columns}",
                        change.seq, relation.name
                    ));
                }
                Ok(Some(Event::Truncate(truncate))) => {
                    let relation = truncate.relations.first().unwrap();
                    let columns = relation.columns.len();
                    rows.push(format!(
                        "  {} truncate {}/{columns}",
                        truncate.seq, relation.name
                    ));
                }
                Ok(Some(Event::Message(message))) => {
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
