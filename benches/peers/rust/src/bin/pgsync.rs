//! pgsync-postgres: messages of shared bytes.

use pgsync_core::event::{Tuple, Value};
use pgsync_postgres::replication::pgoutput::{LogicalMessage, ReplicationMessage, decode};
use std::error::Error;
use walrow_peers::{Counts, Parser, Payload};

struct Pgsync;

impl Parser for Pgsync {
    type Message<'a> = LogicalMessage;

    fn parse(&mut self, payload: Payload<'_>) -> Result<Option<LogicalMessage>, Box<dyn Error>> {
        match decode(payload.shared())? {
            ReplicationMessage::XLogData { body, .. } => Ok(Some(body)),
            ReplicationMessage::PrimaryKeepalive { .. } => Ok(None),
        }
    }

    fn count(message: &LogicalMessage, counts: &mut Counts) {
        let tag = match message {
            LogicalMessage::Begin { .. } => b'B',
            LogicalMessage::Commit { .. } => b'C',
            LogicalMessage::Origin { .. } => b'O',
            LogicalMessage::Relation(_) => b'R',
            LogicalMessage::Type { .. } => b'Y',
            LogicalMessage::Insert { new, .. } => {
                cells(new, counts);
                b'I'
            }
            LogicalMessage::Update { key, old, new, .. } => {
                key.iter().chain(old).for_each(|old| cells(old, counts));
                cells(new, counts);
                b'U'
            }
            LogicalMessage::Delete { key, old, .. } => {
                key.iter().chain(old).for_each(|old| cells(old, counts));
                b'D'
            }
            LogicalMessage::Truncate { .. } => b'T',
            LogicalMessage::Message { .. } => b'M',
            LogicalMessage::Unsupported { tag } => *tag,
        };
        counts.message(tag);
    }
}

fn cells(tuple: &Tuple, counts: &mut Counts) {
    for value in &tuple.values {
        counts.cell(match value {
            Value::Null | Value::Unchanged => None,
            Value::Text(bytes) | Value::Binary(bytes) => Some(bytes.len()),
        });
    }
}

fn main() -> std::io::Result<()> {
    walrow_peers::run(|| Pgsync)
}
