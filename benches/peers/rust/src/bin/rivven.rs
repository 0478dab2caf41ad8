//! rivven-cdc: messages of shared bytes.

use rivven_cdc::postgres::{PgOutputDecoder, ReplicationMessage, Tuple, TupleData};
use std::error::Error;
use walrow_peers::{Counts, Parser, Payload};

struct Rivven;

impl Parser for Rivven {
    type Message<'a> = ReplicationMessage;

    fn parse(
        &mut self,
        payload: Payload<'_>,
    ) -> Result<Option<ReplicationMessage>, Box<dyn Error>> {
        let Some((_, message)) = payload.xlog_data() else {
            return Ok(None);
        };
        Ok(Some(PgOutputDecoder::decode(&mut message.shared())?))
    }

    fn count(message: &ReplicationMessage, counts: &mut Counts) {
        let tag = match message {
            ReplicationMessage::Begin(_) => b'B',
            ReplicationMessage::Commit(_) => b'C',
            ReplicationMessage::Origin(_) => b'O',
            ReplicationMessage::Relation(_) => b'R',
            ReplicationMessage::Type(_) => b'Y',
            ReplicationMessage::Insert(insert) => {
                cells(&insert.tuple, counts);
                b'I'
            }
            ReplicationMessage::Update(update) => {
                update.key_tuple.iter().for_each(|old| cells(old, counts));
                cells(&update.new_tuple, counts);
                b'U'
            }
            ReplicationMessage::Delete(delete) => {
                delete.key_tuple.iter().for_each(|old| cells(old, counts));
                b'D'
            }
            ReplicationMessage::Truncate(_) => b'T',
            ReplicationMessage::StreamStart(_) => b'S',
            ReplicationMessage::StreamStop(_) => b'E',
            ReplicationMessage::StreamCommit(_) => b'c',
            ReplicationMessage::StreamAbort(_) => b'A',
        };
        counts.message(tag);
    }
}

fn cells(tuple: &Tuple, counts: &mut Counts) {
    for cell in &tuple.0 {
        counts.cell(match cell {
            TupleData::Null | TupleData::Toast => None,
            TupleData::Text(text) => Some(text.len()),
        });
    }
}

fn main() -> std::io::Result<()> {
    walrow_peers::run(|| Rivven)
}
