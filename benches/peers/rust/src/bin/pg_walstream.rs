//! `pg_walstream messages` or `events`: messages of shared bytes, or its events with column names.

use pg_walstream::column_value::RowData;
use pg_walstream::{
    ChangeEvent, EventType, LogicalReplicationMessage as Message, LogicalReplicationParser, Lsn,
    PgOutputDecoder, StreamingReplicationMessage, TupleData,
};
use std::error::Error;
use walrow_peers::{Counts, Parser, Payload};

/// The newest protocol that it reads. Older streams are read too.
const PROTOCOL: u32 = 4;

struct Messages(LogicalReplicationParser);

impl Parser for Messages {
    type Message<'a> = StreamingReplicationMessage;

    fn parse(
        &mut self,
        payload: Payload<'_>,
    ) -> Result<Option<StreamingReplicationMessage>, Box<dyn Error>> {
        let Some((_, message)) = payload.xlog_data() else {
            return Ok(None);
        };
        Ok(Some(self.0.parse_wal_message_bytes(message.shared())?))
    }

    fn count(message: &StreamingReplicationMessage, counts: &mut Counts) {
        let tag = match &message.message {
            Message::Begin { .. } => b'B',
            Message::Commit { .. } => b'C',
            Message::Relation { .. } => b'R',
            Message::Insert { tuple, .. } => {
                cells(tuple, counts);
                b'I'
            }
            Message::Update {
                old_tuple,
                new_tuple,
                ..
            } => {
                old_tuple.iter().for_each(|old| cells(old, counts));
                cells(new_tuple, counts);
                b'U'
            }
            Message::Delete { old_tuple, .. } => {
                cells(old_tuple, counts);
                b'D'
            }
            Message::Truncate { .. } => b'T',
            Message::Type { .. } => b'Y',
            Message::Origin { .. } => b'O',
            Message::Message { .. } => b'M',
            Message::StreamStart { .. } => b'S',
            Message::StreamStop => b'E',
            Message::StreamCommit { .. } => b'c',
            Message::StreamAbort { .. } => b'A',
            Message::BeginPrepare { .. } => b'b',
            Message::Prepare { .. } => b'P',
            Message::CommitPrepared { .. } => b'K',
            Message::RollbackPrepared { .. } => b'r',
            Message::StreamPrepare { .. } => b'p',
        };
        counts.message(tag);
    }
}

fn cells(tuple: &TupleData, counts: &mut Counts) {
    for column in &tuple.columns {
        let has_value = column.is_text() || column.is_binary();
        counts.cell(has_value.then(|| column.as_bytes().len()));
    }
}

struct Events(PgOutputDecoder);

impl Parser for Events {
    type Message<'a> = ChangeEvent;

    fn parse(&mut self, payload: Payload<'_>) -> Result<Option<ChangeEvent>, Box<dyn Error>> {
        let Some((start, message)) = payload.xlog_data() else {
            return Ok(None);
        };
        Ok(self.0.decode_message(message.shared(), Lsn::new(start))?)
    }

    /// A first relation is no event, and a row has no cells that were not sent.
    fn count(event: &ChangeEvent, counts: &mut Counts) {
        let rows: &[&RowData] = match &event.event_type {
            EventType::Insert { data, .. } => {
                counts.message(b'I');
                &[data]
            }
            EventType::Update {
                old_data: Some(old),
                new_data,
                ..
            } => {
                counts.message(b'U');
                &[old, new_data]
            }
            EventType::Update { new_data, .. } => {
                counts.message(b'U');
                &[new_data]
            }
            EventType::Delete { old_data, .. } => {
                counts.message(b'D');
                &[old_data]
            }
            EventType::Begin { .. } => {
                counts.message(b'B');
                &[]
            }
            EventType::Commit { .. } => {
                counts.message(b'C');
                &[]
            }
            EventType::Truncate { .. } => {
                counts.message(b'T');
                &[]
            }
            _ => &[],
        };
        let bytes = rows.iter().flat_map(|row| row.iter());
        let bytes: usize = bytes.map(|(_, value)| value.as_bytes().len()).sum();
        counts.value_bytes = Some(counts.value_bytes.unwrap_or_default() + bytes as u64);
    }
}

fn main() -> std::io::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("events") => {
            walrow_peers::run(|| Events(PgOutputDecoder::with_protocol_version(PROTOCOL)))
        }
        _ => walrow_peers::run(|| {
            Messages(LogicalReplicationParser::with_protocol_version(PROTOCOL))
        }),
    }
}
