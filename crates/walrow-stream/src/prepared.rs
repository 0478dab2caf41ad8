//! Prepared transactions as bytes that outlive the process.
//!
//! The state is a stream in wire frames: of each transaction `b`, its messages and `P`, or `S`, its
//! messages, `E` and `p`, with the relations it uses in front of its rows. A message of walrow's own
//! ends it.

use crate::assembler::Assembler;
use crate::error::{Error, ErrorKind};
use crate::look::{kind_of, xid_of};
use crate::relation::Relation;
use crate::spool::SpoolReader;
use crate::transaction::{Item, Prepared};
use crate::undecided::{Open, Undecided};
use std::io::{self, Read, Write};
use walrow_wire::{
    BackendMessage, BeginPrepare, Columns, CopyData, LogicalMessage, Lsn, Message, PgString,
    Prepare, StreamPrepare, StreamStart, Timestamp, Type, XLogData,
};

/// Bytes of messages that are put together before they are written.
const BLOCK: usize = 256 << 10;

pub(crate) fn save(undecided: &mut Undecided, out: &mut dyn Write) -> io::Result<()> {
    let Undecided {
        spools, prepared, ..
    } = undecided;
    let mut bytes = Vec::new();
    for open in prepared.values_mut() {
        put_begin(open, &mut bytes);
        for relation in &open.inherited {
            put_relation(relation, open, &mut bytes);
        }
        let mut reader = SpoolReader::new(spools.take(open.spool));
        let written = put_frames(&mut reader, open, &mut bytes, out);
        open.spool = spools.adopt(reader.into_spooled());
        written?;
        put_end(open, &mut bytes);
    }
    put_trailer(prepared.len(), &mut bytes);
    out.write_all(&bytes)
}

/// What no server sends: a logical message of walrow's own, at LSN 0/0. Where it is missing, or says
/// another number, the state was cut.
fn put_trailer(count: usize, out: &mut Vec<u8>) {
    let content = format!("{{\"prepared\":{count}}}");
    let message = Message::Message(LogicalMessage {
        xid: None,
        transactional: false,
        lsn: Lsn::INVALID,
        prefix: PgString(b"walrow"),
        content: content.as_bytes(),
    });
    put_at(&message, Lsn::INVALID, Timestamp(0), out);
}

fn put_frames(
    reader: &mut SpoolReader,
    open: &Open,
    bytes: &mut Vec<u8>,
    out: &mut dyn Write,
) -> io::Result<()> {
    while let Some(spot) = reader.next(0)? {
        let frame = reader.frame(spot);
        let stands = open.aborted.is_empty()
            || kind_of(frame) == Some(b'M')
            || xid_of(frame).is_none_or(|xid| !open.aborted.contains(&xid));
        if stands {
            bytes.extend_from_slice(frame);
        }
        if bytes.len() >= BLOCK {
            out.write_all(bytes)?;
            bytes.clear();
        }
    }
    Ok(())
}

/// Reads a state into an assembler that has read nothing else.
pub(crate) fn restore(mut assembler: Assembler, state: &mut dyn Read) -> Result<Assembler, Error> {
    let fault = |kind| Error {
        kind,
        offset: 0,
        lsn: None,
    };
    let mut block = vec![0; BLOCK];
    let mut trailer = None;
    loop {
        let size = match state.read(&mut block) {
            Ok(0) => break,
            Ok(size) => size,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(fault(error.into())),
        };
        let mut input = block.get(..size).unwrap_or_default();
        while let Some(item) = assembler.next(&mut input)? {
            match item {
                Item::Message(message)
                    if trailer.is_none()
                        && message.lsn == Lsn::INVALID
                        && message.prefix == "walrow" =>
                {
                    trailer = Some(message.content.to_vec());
                }
                // A committed transaction, a session: a capture, but no state.
                _ => return Err(fault(ErrorKind::NotPreparedState)),
            }
        }
    }
    let mut whole = Vec::new();
    put_trailer(assembler.prepared().count(), &mut whole);
    let complete = trailer.is_some_and(|trailer| whole.ends_with(&trailer));
    if !complete || assembler.is_mid_transaction() || assembler.has_streamed() {
        return Err(fault(ErrorKind::NotPreparedState));
    }
    Ok(assembler)
}

fn put_begin(open: &Open, out: &mut Vec<u8>) {
    let xid = open.transaction.xid;
    let Some(prepared) = &open.transaction.prepared else {
        return;
    };
    let begin = if open.streamed {
        Message::StreamStart(StreamStart { xid, first: true })
    } else {
        Message::BeginPrepare(BeginPrepare {
            prepare_lsn: prepared.prepare_lsn,
            end_lsn: prepared.prepare_end_lsn,
            prepare_time: prepared.prepare_time,
            xid,
            gid: PgString(prepared.gid.as_bytes()),
        })
    };
    put(&begin, prepared, out);
}

fn put_end(open: &Open, out: &mut Vec<u8>) {
    let xid = open.transaction.xid;
    let Some(prepared) = &open.transaction.prepared else {
        return;
    };
    let gid = PgString(prepared.gid.as_bytes());
    let &Prepared {
        gid: _,
        prepare_lsn,
        prepare_end_lsn: end_lsn,
        prepare_time,
    } = prepared;
    if open.streamed {
        put(&Message::StreamStop, prepared, out);
        let prepare = StreamPrepare {
            prepare_lsn,
            end_lsn,
            prepare_time,
            xid,
            gid,
        };
        put(&Message::StreamPrepare(prepare), prepared, out);
    } else {
        let prepare = Prepare {
            prepare_lsn,
            end_lsn,
            prepare_time,
            xid,
            gid,
        };
        put(&Message::Prepare(prepare), prepared, out);
    }
}

/// A relation version that the transaction's rows use, with the names of its types before it.
fn put_relation(relation: &Relation, open: &Open, out: &mut Vec<u8>) {
    let Some(prepared) = &open.transaction.prepared else {
        return;
    };
    let xid = open.streamed.then_some(open.transaction.xid);
    for column in &relation.columns {
        if let Some(name) = &column.type_name {
            let message = Type {
                xid,
                oid: column.type_oid,
                namespace: PgString(name.namespace.as_bytes()),
                name: PgString(name.name.as_bytes()),
            };
            put(&Message::Type(message), prepared, out);
        }
    }
    let columns = relation.columns.iter().map(|column| walrow_wire::Column {
        flags: column.is_key.into(),
        name: PgString(column.name.as_bytes()),
        type_oid: column.type_oid,
        type_modifier: column.type_modifier,
    });
    let mut buffer = Vec::new();
    let message = walrow_wire::Relation {
        xid,
        oid: relation.oid,
        namespace: PgString(relation.namespace.as_bytes()),
        name: PgString(relation.name.as_bytes()),
        replica_identity: relation.replica_identity,
        columns: Columns::encoded(columns, &mut buffer),
    };
    put(&Message::Relation(message), prepared, out);
}

fn put(message: &Message<'_>, prepared: &Prepared, out: &mut Vec<u8>) {
    put_at(message, prepared.prepare_lsn, prepared.prepare_time, out);
}

fn put_at(message: &Message<'_>, lsn: Lsn, clock: Timestamp, out: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    let data = XLogData {
        start: lsn,
        end: lsn,
        clock,
        message: &bytes,
    };
    BackendMessage::CopyData(CopyData::XLogData(data)).encode(out);
}
