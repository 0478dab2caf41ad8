//! pgoutput: messages that own their texts. The options of the stream are type parameters.

use pgoutput::events::base::event::BaseEvent;
use pgoutput::events::base::tuple_data::{
    OldDataOrPrimaryKeyTupleData, TupleData, TupleDataColumn,
};
use pgoutput::events::event::{Event, EventType};
use pgoutput::options::{BinaryValueTraitOff, StreamingValueTraitOff};
use std::error::Error;
use walrow_peers::{Counts, Parser, Payload};

type Texts = Event<BinaryValueTraitOff, StreamingValueTraitOff>;
type Tuple = TupleData<BinaryValueTraitOff>;

struct Pgoutput;

impl Parser for Pgoutput {
    type Message<'a> = Texts;

    fn parse(&mut self, payload: Payload<'_>) -> Result<Option<Texts>, Box<dyn Error>> {
        let Some((_, message)) = payload.xlog_data() else {
            return Ok(None);
        };
        let (tag, body) = message.borrowed().split_first().ok_or("no message")?;
        let kind = EventType::from_char(*tag).ok_or("an unknown message")?;
        Ok(Some(Event::parse(&kind, body)?))
    }

    fn count(event: &Texts, counts: &mut Counts) {
        let tag = match event {
            Event::Base(BaseEvent::Begin(_)) => b'B',
            Event::Base(BaseEvent::Commit(_)) => b'C',
            Event::Base(BaseEvent::Relation(_)) => b'R',
            Event::Base(BaseEvent::Type(_)) => b'Y',
            Event::Base(BaseEvent::Insert(insert)) => {
                cells(&insert.data, counts);
                b'I'
            }
            Event::Base(BaseEvent::Update(update)) => {
                old(update.old_data_or_primary_key.as_ref(), counts);
                cells(&update.data, counts);
                b'U'
            }
            Event::Base(BaseEvent::Delete(delete)) => {
                old(delete.old_data_or_primary_key.as_ref(), counts);
                b'D'
            }
            Event::Base(BaseEvent::Truncate(_)) => b'T',
            Event::Origin(_) => b'O',
            _ => b'M',
        };
        counts.message(tag);
    }
}

fn old(tuple: Option<&OldDataOrPrimaryKeyTupleData<BinaryValueTraitOff>>, counts: &mut Counts) {
    if let Some(
        OldDataOrPrimaryKeyTupleData::OldTupleData(tuple)
        | OldDataOrPrimaryKeyTupleData::PrimaryKeyTupleData(tuple),
    ) = tuple
    {
        cells(tuple, counts);
    }
}

fn cells(tuple: &Tuple, counts: &mut Counts) {
    for column in tuple {
        counts.cell(match column {
            TupleDataColumn::PGNull | TupleDataColumn::PGUnchangedToastedValue => None,
            TupleDataColumn::Value(text) => Some(text.len()),
        });
    }
}

fn main() -> std::io::Result<()> {
    walrow_peers::run(|| Pgoutput)
}
