//! What a stream contains, as the assembler reads it.

use walrow_stream::{Assembler, Error, Event, Relation};

/// Everything that committed transactions and messages of a stream contain.
#[derive(Debug)]
pub struct Contents {
    /// One line for each event. Versions have no numbers, because sessions count them anew.
    pub lines: Vec<String>,
    /// The error at the end.
    pub error: Option<Error>,
    /// Whether the stream ends inside a transaction.
    pub is_mid_transaction: bool,
}

/// Reads a stream in pieces. `has_facts` says whether it may be a log's stream: then what only facts
/// say counts too, because protocol 1 has no message for it.
pub fn contents<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, has_facts: bool) -> Contents {
    let mut assembler = Assembler::default();
    let mut lines = Vec::new();
    let mut error = None;
    'pieces: for piece in pieces {
        let mut input = piece;
        loop {
            match assembler.next(&mut input) {
                Ok(Some(event)) => lines.extend(line(&event, has_facts)),
                Ok(None) => break,
                Err(found) => {
                    error = Some(found);
                    break 'pieces;
                }
            }
        }
    }
    Contents {
        lines,
        error,
        is_mid_transaction: assembler.is_mid_transaction(),
    }
}

fn line(event: &Event<'_>, has_facts: bool) -> Option<String> {
    let relation = |relation: &Relation| {
        let mut relation = relation.clone();
        relation.version = 0;
        relation
    };
    Some(match event {
        Event::Begin(it) if has_facts => format!("{it:?}"),
        Event::Begin(it) => {
            let (lsns, origins) = ((it.commit_lsn, it.end_lsn), &it.origins);
            format!("{} {lsns:?} {:?} {origins:?}", it.xid, it.commit_time)
        }
        Event::Change(it) => {
            let row = (it.seq, it.lsn, it.row);
            format!("{row:?} {:?}", relation(it.relation))
        }
        Event::Truncate(it) => {
            let what = (it.seq, it.lsn, it.cascade, it.restart_identity);
            let relations: Vec<_> = it.relations.iter().map(|it| relation(it)).collect();
            format!("{what:?} {relations:?}")
        }
        Event::Message(it) if has_facts => format!("{it:?}"),
        Event::Message(it) => {
            let what = (it.lsn, it.transactional, it.seq);
            format!("{what:?} {:?} {:?}", it.prefix, it.content)
        }
        Event::Commit { changes, .. } => format!("{changes} changes"),
        _ => return None,
    })
}
