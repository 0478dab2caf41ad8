//! Reads arbitrary histories, each delivered in two ways and then broken in one place.

use super::frames;
use crate::history::Expected;
use crate::reference::committed;
use crate::{History, in_chunks, in_recvlogical};
use arbitrary::Unstructured;
use walrow_stream::{Assembler, ErrorKind, Event, RowChange};
use walrow_wire::Framing;

/// Both deliveries give the history's transactions, in the slow reader and, with any cut, in the
/// assembler. So do files of `pg_recvlogical`, which reconnected somewhere. A broken stream is an
/// error or a round trip.
pub fn histories(data: &[u8]) -> arbitrary::Result<()> {
    let mut u = Unstructured::new(data);
    let history: History = u.arbitrary()?;
    let sizes: [u8; 2] = u.arbitrary()?;
    let sizes = sizes.map(|size| usize::from(size) + 1);
    let expected = history.expected();
    for stream in [history.whole(), history.delivered()] {
        let bytes = stream.bytes();
        let committed = committed(&bytes).expect("a history's stream is valid");
        assert_eq!(committed.transactions, expected);
        assert_eq!(committed.notes, history.expected_notes());
        let summaries: Vec<_> = expected.iter().map(summary).collect();
        let found = assembled(Framing::Wire, in_chunks(&bytes, &sizes));
        assert_eq!(found.as_ref(), Ok(&summaries));
        let messages = in_recvlogical(&bytes);
        let before = u.int_in_range(0..=messages.len())?;
        let file = [messages[..before].concat(), messages.concat()].concat();
        let found = assembled(Framing::Recvlogical, in_chunks(&file, &sizes));
        assert_eq!(
            found.as_ref(),
            Ok(&summaries),
            "reconnected after {before} messages"
        );
        frames(&stream.broken(&mut u)?.bytes());
    }
    Ok(())
}

/// A transaction's ID and LSNs, and for each change its seq, its kind and its relation's number of
/// columns.
type Summary = (u32, u64, u64, Vec<(u64, u8, usize)>);

fn summary(transaction: &Expected) -> Summary {
    let changes = transaction.changes.iter().map(|change| {
        let kind = change.message.bytes()[0];
        let columns = change.columns.first().copied().unwrap_or(0);
        (change.seq, kind, columns)
    });
    let &Expected {
        xid,
        commit_lsn,
        end_lsn,
        ..
    } = transaction;
    (xid, commit_lsn, end_lsn, changes.collect())
}

fn assembled<'a>(
    framing: Framing,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<Summary>, ErrorKind> {
    let mut assembler = Assembler::new(framing);
    let mut found: Vec<Summary> = Vec::new();
    for piece in pieces {
        let mut rest = piece;
        while let Some(item) = assembler.next(&mut rest).map_err(|error| error.kind)? {
            let change = match item {
                Event::Begin(it) => {
                    found.push((it.xid, it.commit_lsn.0, it.end_lsn.0, Vec::new()));
                    continue;
                }
                Event::Change(change) => {
                    let kind = match change.row {
                        RowChange::Insert { .. } => b'I',
                        RowChange::Update { .. } => b'U',
                        RowChange::Delete { .. } => b'D',
                    };
                    (change.seq, kind, change.relation.columns.len())
                }
                Event::Truncate(truncate) => {
                    let columns = truncate.relations.first().map_or(0, |it| it.columns.len());
                    (truncate.seq, b'T', columns)
                }
                Event::Message(message) if message.transactional => (message.seq, b'M', 0),
                _ => continue,
            };
            if let Some((.., changes)) = found.last_mut() {
                changes.push(change);
            }
        }
    }
    Ok(found)
}
