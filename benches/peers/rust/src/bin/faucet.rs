//! faucet-source-postgres-cdc: messages that own their texts.

use faucet_source_postgres_cdc::pgoutput::decoder::{XLogDataHeader, decode_message};
use faucet_source_postgres_cdc::pgoutput::messages::{Message, TupleCell, TupleData};
use std::error::Error;
use walrow_peers::{Counts, Parser, Payload};

struct Faucet;

impl Parser for Faucet {
    type Message<'a> = Message;

    fn parse(&mut self, payload: Payload<'_>) -> Result<Option<Message>, Box<dyn Error>> {
        let Some((b'w', data)) = payload.borrowed().split_first() else {
            return Ok(None);
        };
        std::hint::black_box(XLogDataHeader::decode(data)?);
        Ok(Some(decode_message(&data[XLogDataHeader::SIZE..])?))
    }

    fn count(message: &Message, counts: &mut Counts) {
        let tag = match message {
            Message::Begin(_) => b'B',
            Message::Commit(_) => b'C',
            Message::Origin => b'O',
            Message::Relation(_) => b'R',
            Message::Type => b'Y',
            Message::Insert(insert) => {
                cells(&insert.new, counts);
                b'I'
            }
            Message::Update(update) => {
                update.old.iter().for_each(|old| cells(old, counts));
                cells(&update.new, counts);
                b'U'
            }
            Message::Delete(delete) => {
                cells(&delete.old, counts);
                b'D'
            }
            Message::Truncate(_) => b'T',
        };
        counts.message(tag);
    }
}

fn cells(tuple: &TupleData, counts: &mut Counts) {
    for cell in &tuple.cells {
        counts.cell(match cell {
            TupleCell::Null | TupleCell::UnchangedToast => None,
            TupleCell::Text(text) => Some(text.len()),
        });
    }
}

fn main() -> std::io::Result<()> {
    walrow_peers::run(|| Faucet)
}
