//! pgoutput-decoder: the decoder inside a Python package, compiled by itself (see build.rs).

use std::error::Error;
use walrow_peers::{Counts, Parser, Payload};

#[expect(dead_code, reason = "the package's own text")]
mod package {
    include!(concat!(env!("OUT_DIR"), "/pgoutput_decoder.rs"));
}

use package::{PgOutputDecoder, PgOutputMessage};

impl Parser for PgOutputDecoder {
    type Message<'a> = PgOutputMessage;

    fn parse(&mut self, payload: Payload<'_>) -> Result<Option<PgOutputMessage>, Box<dyn Error>> {
        let Some((_, message)) = payload.xlog_data() else {
            return Ok(None);
        };
        Ok(Some(self.decode(message.shared())?))
    }

    fn count(message: &PgOutputMessage, counts: &mut Counts) {
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
            PgOutputMessage::Type(_) => b'Y',
            PgOutputMessage::Origin(_) => b'O',
            PgOutputMessage::Message(_) => b'M',
        };
        counts.message(tag);
    }
}

fn cells(tuple: &[Option<Vec<u8>>], counts: &mut Counts) {
    for cell in tuple {
        counts.cell(cell.as_ref().map(Vec::len));
    }
}

fn main() -> std::io::Result<()> {
    walrow_peers::run(PgOutputDecoder::new)
}
