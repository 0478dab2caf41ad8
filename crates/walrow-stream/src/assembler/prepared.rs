//! Saves and restores prepared transactions, as bytes that outlive the process.
//!
//! The state is a stream in wire frames. Each transaction is `W`, then `b`, its messages and `P`,
//! or `S`, its messages, `E` and `p`. The relations that it uses come before its rows. A message of
//! walrow's own ends the state.

use super::Assembler;
use crate::encode::put_relation;
use crate::error::{Error, ErrorKind};
use crate::fact::PreparedBefore;
use crate::spool::SpoolReader;
use crate::transaction::{Event, Prepared};
use crate::undecided::{Earlier, Open, Undecided};
use std::io::{self, Read, Write};
use walrow_wire::{
    BackendMessage, BeginPrepare, CopyBothResponse, Framing, LogicalMessage, Lsn, Message, Peek,
    PgString, Prepare, StreamAbort, StreamPrepare, StreamStart, Timestamp, Xid,
};

/// Bytes of messages that are collected before they are written.
const BLOCK: usize = 256 << 10;

impl Assembler {
    /// Writes the prepared transactions, for [`Assembler::restore_prepared`] of another assembler.
    /// After a restart the server does not send them again, only their commit or rollback.
    ///
    /// The state is a stream in wire frames: the messages of each transaction, with the relations
    /// it uses.
    ///
    /// # Errors
    /// I/O errors of `out` and of the spool. An error too if a committed transaction was not read
    /// to its end: it is no longer prepared, and its rows would be lost.
    pub fn save_prepared(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.failure.is_some() || self.is_reading() {
            let text = "a transaction was committed but not read to its end";
            return Err(io::Error::other(text));
        }
        let undecided = &mut self.core.session.undecided;
        save(undecided, |_| true, out)
    }

    /// As [`Assembler::save_prepared`], but writes only the transaction with this ID whose prepare
    /// record ends at this LSN. So each of many large transactions can have its own state.
    ///
    /// # Errors
    /// As [`Assembler::save_prepared`].
    pub fn save_prepared_transaction(
        &mut self,
        xid: Xid,
        prepare_end_lsn: Lsn,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let undecided = &mut self.core.session.undecided;
        let is_chosen = |open: &Open| {
            let prepared = open.transaction.prepared.as_ref();
            open.transaction.xid == xid
                && prepared.is_some_and(|it| it.prepare_end_lsn == prepare_end_lsn)
        };
        save(undecided, is_chosen, out)
    }

    /// Assumes that all transactions that the server prepared before the stream were restored.
    pub fn assume_prepared_restored(&mut self) {
        self.set_complete(true);
    }

    /// Sets which transactions may have been prepared before the slot was where a log begins. A
    /// commit of such a transaction is an error, unless its Prepare comes, or it ends at `received`
    /// or before.
    pub fn set_prepared_before(&mut self, before: PreparedBefore, received: Lsn) {
        self.core.session.undecided.prepared_before = (before, received);
    }

    /// Restores the transactions that [`Assembler::save_prepared`] wrote.
    ///
    /// # Errors
    /// The bytes are not such a state, or are cut short. Then no transaction is restored.
    pub fn restore_prepared(&mut self, state: &mut dyn Read) -> Result<(), Error> {
        let mut inner = Self::default();
        inner.core.session.undecided.spools = self.core.session.undecided.spools.beside();
        inner.core.session.relations.encoding = self.core.session.relations.encoding;
        // A late stream may have saved transactions without their begin.
        inner.core.session.undecided.late_start = true;
        let restored = restore(inner, state)?;
        let moved = restored
            .core
            .session
            .undecided
            .move_prepared(&mut self.core.session.undecided);
        moved.map_err(|error| Error {
            kind: error.into(),
            offset: self.core.frames.offset(),
            lsn: None,
        })
    }

    #[cfg(test)]
    fn held(&self) -> impl Iterator<Item = &Open> {
        self.core
            .session
            .undecided
            .prepared
            .values()
            .map(|open| &**open)
    }

    /// Sets whether the restored state contains all prepared transactions.
    fn set_complete(&mut self, complete: bool) {
        self.core.session.undecided.earlier = if complete {
            Earlier::Restored
        } else {
            Earlier::Unknown
        };
    }

    fn has_streamed(&self) -> bool {
        self.core.session.undecided.has_streamed()
    }
}

fn save(
    undecided: &mut Undecided,
    is_chosen: impl Fn(&Open) -> bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let complete = undecided.knows_prepared();
    let Undecided {
        spools, prepared, ..
    } = undecided;
    let mut bytes = Vec::new();
    let mut count = 0_usize;
    for open in prepared.values_mut().filter(|open| is_chosen(open)) {
        count = count.saturating_add(1);
        // A new session for each transaction, so that relations of other transactions do not apply.
        BackendMessage::CopyBothResponse(CopyBothResponse::default()).encode(&mut bytes);
        put_begin(open, &mut bytes);
        let xid = open.streamed.then_some(open.transaction.xid);
        if let Some(prepared) = &open.transaction.prepared {
            let at = (prepared.prepare_lsn, prepared.prepare_time);
            for relation in open.inherited.values() {
                put_relation(relation, xid, at, &mut bytes);
            }
        }
        let mut reader = SpoolReader::new(spools.take(open.spool), Framing::Wire);
        let written = put_frames(&mut reader, open, &mut bytes, out);
        open.spool = spools.adopt(reader.into_spooled());
        written?;
        put_end(open, &mut bytes);
    }
    put_trailer(count, complete, &mut bytes);
    out.write_all(&bytes)
}

/// A logical message of walrow's own at LSN 0/0, which no server sends. If it is missing or has
/// another number, the state was cut. `complete` means that the state has all prepared
/// transactions.
fn put_trailer(count: usize, complete: bool, out: &mut Vec<u8>) {
    let content = format!("{{\"prepared\":{count},\"complete\":{complete}}}");
    let message = Message::Message(LogicalMessage {
        xid: None,
        transactional: false,
        lsn: Lsn::INVALID,
        prefix: PgString(b"walrow"),
        content: content.as_bytes(),
    });
    message.encode_in_frame(Lsn::INVALID, Timestamp(0), out);
}

fn put_frames(
    reader: &mut SpoolReader,
    open: &Open,
    bytes: &mut Vec<u8>,
    out: &mut dyn Write,
) -> io::Result<()> {
    while let Some(spot) = reader.front()? {
        let frame = reader.frame(spot);
        if !Peek::new(frame).is_some_and(|peek| open.has_aborted(&peek)) {
            bytes.extend_from_slice(frame);
        }
        reader.take(spot);
        if bytes.len() >= BLOCK {
            out.write_all(bytes)?;
            bytes.clear();
        }
    }
    Ok(())
}

/// Reads a state into a new assembler.
fn restore(mut assembler: Assembler, state: &mut dyn Read) -> Result<Assembler, Error> {
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
        while let Some(event) = assembler.next(&mut input)? {
            match event {
                Event::Message(message)
                    if trailer.is_none()
                        && message.lsn == Lsn::INVALID
                        && message.prefix == "walrow" =>
                {
                    trailer = Some(message.content.to_vec());
                }
                Event::SessionStart if trailer.is_none() => {}
                // A committed transaction: this is a capture, not a state.
                _ => return Err(fault(ErrorKind::NotPreparedState)),
            }
        }
    }
    let count = assembler.prepared().count();
    let says = |complete| {
        let mut whole = Vec::new();
        put_trailer(count, complete, &mut whole);
        trailer.as_ref().is_some_and(|it| whole.ends_with(it))
    };
    let complete = says(true);
    let whole = complete || says(false);
    if !whole || assembler.is_mid_transaction() || assembler.has_streamed() {
        return Err(fault(ErrorKind::NotPreparedState));
    }
    assembler.set_complete(complete);
    Ok(assembler)
}

fn put_begin(open: &Open, out: &mut Vec<u8>) {
    let xid = open.transaction.xid;
    let Some(prepared) = &open.transaction.prepared else {
        return;
    };
    let begin = if open.streamed {
        // If the first chunk is missing, the saved transaction lacks it too.
        let first = !open.lost;
        Message::StreamStart(StreamStart { xid, first })
    } else {
        Message::BeginPrepare(BeginPrepare {
            prepare_lsn: prepared.prepare_lsn,
            end_lsn: prepared.prepare_end_lsn,
            prepare_time: prepared.prepare_time,
            xid,
            gid: PgString(prepared.gid.as_bytes()),
        })
    };
    put_here(&begin, prepared, out);
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
        put_here(&Message::StreamStop, prepared, out);
        if let Some(subxid) = open.aborted.iter().min() {
            // Its rows are gone, but messages up to here may be its own.
            let lsn = open.transaction.rolled_back_until;
            let abort = StreamAbort {
                xid,
                subxid: *subxid,
                abort: None,
            };
            Message::StreamAbort(abort).encode_in_frame(lsn, prepare_time, out);
        }
        let prepare = StreamPrepare {
            prepare_lsn,
            end_lsn,
            prepare_time,
            xid,
            gid,
        };
        put_here(&Message::StreamPrepare(prepare), prepared, out);
    } else {
        let prepare = Prepare {
            prepare_lsn,
            end_lsn,
            prepare_time,
            xid,
            gid,
        };
        put_here(&Message::Prepare(prepare), prepared, out);
    }
}

fn put_here(message: &Message<'_>, prepared: &Prepared, out: &mut Vec<u8>) {
    message.encode_in_frame(prepared.prepare_lsn, prepared.prepare_time, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relation::Relation;
    use crate::transaction::{Change, RowChange, Transaction, Truncate};
    use proptest::prelude::*;
    use walrow_testkit::strategy::arbitrary;
    use walrow_testkit::{History, Stream};
    use walrow_wire::Tuple;

    /// The prepared transactions, field by field: a new field must be restored too, or be named
    /// here.
    fn held(assembler: &Assembler) -> Vec<(Transaction, bool, bool)> {
        let fields = |open: &Open| {
            let Open {
                transaction,
                streamed,
                lost,
                // Compared by their events.
                spool: _,
                inherited: _,
                aborted: _,
                // Not used after the prepare.
                promotions: _,
                relation: _,
                since: _,
            } = open;
            (transaction.clone(), *streamed, *lost)
        };
        assembler.held().map(fields).collect()
    }

    /// All events, without offsets and version numbers.
    fn handed_out(assembler: &mut Assembler, mut input: &[u8]) -> Vec<String> {
        let cells = |tuple: Tuple<'_>| format!("{:?}", tuple.cells().collect::<Vec<_>>());
        let unnumbered = |relation: &Relation| {
            let relation = Relation {
                version: 0,
                ..relation.clone()
            };
            format!("{relation:?}")
        };
        let mut lines = Vec::new();
        loop {
            lines.push(match assembler.next(&mut input) {
                Ok(None) => return lines,
                Err(error) => {
                    lines.push(format!("{:?}", error.kind));
                    return lines;
                }
                Ok(Some(Event::Change(change))) => {
                    let Change {
                        seq,
                        lsn,
                        offset: _,
                        relation,
                        row,
                    } = change;
                    let row = match row {
                        RowChange::Insert { new } => cells(new),
                        RowChange::Update { old, new } => {
                            let old = old.map(|old| (old, cells(old.tuple())));
                            format!("{old:?} {}", cells(new))
                        }
                        RowChange::Delete { old } => format!("{old:?} {}", cells(old.tuple())),
                    };
                    format!("{seq} {lsn} {} {row}", unnumbered(relation))
                }
                Ok(Some(Event::Truncate(truncate))) => {
                    let Truncate {
                        seq,
                        lsn,
                        offset: _,
                        relations,
                        cascade,
                        restart_identity,
                    } = truncate;
                    let relations = relations.iter().map(|it| unnumbered(it));
                    let relations: Vec<_> = relations.collect();
                    format!("{seq} {lsn} {relations:?} {cascade} {restart_identity}")
                }
                // The first assembler has already returned its versions.
                Ok(Some(Event::Relation { .. })) => continue,
                Ok(Some(event)) => format!("{event:?}"),
            });
        }
    }

    proptest! {
        #[test]
        fn prepared_transactions_are_restored_field_by_field(
            history in arbitrary::<History>(2048),
            from in any::<prop::sample::Index>(),
            to in any::<prop::sample::Index>(),
            late_start in any::<bool>(),
        ) {
            let stream = history.delivered();
            let frames = stream.frames();
            // A late start lacks the first chunks of some transactions.
            let from = if late_start { from.index(frames.len()) } else { 0 };
            let rest = frames.get(from..).unwrap_or_default();
            let rest = rest.get(..to.index(rest.len().saturating_add(1))).unwrap_or_default();
            let mut first = Assembler::default().with_late_start(late_start);
            let bytes = rest.concat();
            let mut input = &*bytes;
            let read = loop {
                match first.next(&mut input) {
                    Ok(Some(_)) => {}
                    end => break end.map(|_| ()),
                }
            };
            // The stream may begin in the middle of a transaction.
            prop_assume!(read.is_ok());
            // Drops open transactions and relations, which belong to the session.
            first.new_session();
            let mut state = Vec::new();
            first.save_prepared(&mut state).unwrap();
            let mut second = Assembler::default().with_late_start(late_start);
            second.restore_prepared(&mut &*state).unwrap();
            prop_assert_eq!(held(&first), held(&second));
            let mut ends = Stream::new().session();
            for (transaction, _, _) in held(&first) {
                let gid = transaction.prepared.unwrap().gid;
                ends = ends.commit_prepared(0x1000_0000, transaction.xid, &gid);
            }
            let ends = ends.bytes();
            let (one, other) = (handed_out(&mut first, &ends), handed_out(&mut second, &ends));
            prop_assert_eq!(one, other);
        }
    }
}
