//! elefant-client: messages that borrow from the input, texts checked as UTF-8.

use elefant_client::replication::{
    PgOutputMessage, ReplicationError, ReplicationMessage, TupleColumn, TupleData,
    parse_pgoutput_message, parse_replication_message,
};
use std::error::Error;
use walrow_peers::{Counts, Parser, Payload};

struct Elefant;

impl Parser for Elefant {
    type Message<'a> = PgOutputMessage<'a>;

    fn parse<'a>(
        &mut self,
        payload: Payload<'a>,
    ) -> Result<Option<PgOutputMessage<'a>>, Box<dyn Error>> {
        match parse_replication_message(payload.borrowed()).map_err(said)? {
            ReplicationMessage::XLogData(data) => {
                Ok(Some(parse_pgoutput_message(data.data).map_err(said)?))
            }
            ReplicationMessage::PrimaryKeepalive(_) => Ok(None),
        }
    }

    fn count(message: &PgOutputMessage<'_>, counts: &mut Counts) {
        let tag = match message {
            PgOutputMessage::Begin(_) => b'B',
            PgOutputMessage::Commit(_) => b'C',
            PgOutputMessage::Relation(_) => b'R',
            PgOutputMessage::Insert(insert) => {
                cells(&insert.tuple, counts);
                b'I'
            }
            PgOutputMessage::Update(update) => {
                update.old_tuple.iter().for_each(|old| cells(old, counts));
                cells(&update.new_tuple, counts);
                b'U'
            }
            PgOutputMessage::Delete(delete) => {
                cells(&delete.old_tuple, counts);
                b'D'
            }
            PgOutputMessage::Truncate(_) => b'T',
            PgOutputMessage::Origin(_) => b'O',
            PgOutputMessage::Type(_) => b'Y',
            PgOutputMessage::LogicalDecodingMessage(_) => b'M',
            PgOutputMessage::StreamStart(_) => b'S',
            PgOutputMessage::StreamStop => b'E',
            PgOutputMessage::StreamCommit(_) => b'c',
            PgOutputMessage::StreamAbort(_) => b'A',
            PgOutputMessage::Unsupported { msg_type, .. } => *msg_type,
        };
        counts.message(tag);
    }
}

/// Its error has no text.
fn said(error: ReplicationError) -> Box<dyn Error> {
    format!("{error:?}").into()
}

fn cells(tuple: &TupleData<'_>, counts: &mut Counts) {
    for column in &tuple.columns {
        counts.cell(match column {
            TupleColumn::Null | TupleColumn::Unchanged => None,
            TupleColumn::Text(text) => Some(text.len()),
            TupleColumn::Binary(bytes) => Some(bytes.len()),
        });
    }
}

fn main() -> std::io::Result<()> {
    walrow_peers::run(|| Elefant)
}
