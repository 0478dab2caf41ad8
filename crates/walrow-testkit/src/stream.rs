//! Whole streams, one line per message.

use crate::{
    OwnedCell, OwnedColumn, OwnedCopyData, OwnedFrame, OwnedMessage, OwnedOld, OwnedPrepared,
};
use arbitrary::Unstructured;
use std::collections::{HashMap, HashSet};
use walrow_wire::ReplicaIdentity;

/// A stream under construction, frame by frame.
///
/// Tracks the state of a server: the open transaction, whose LSN and time its Commit repeats;
/// whether a stream block is open, in which row messages carry a transaction ID; which transactions
/// were streamed or prepared before. A test can also write invalid streams: [`Stream::message`] and
/// [`Stream::raw`] accept anything.
///
/// A record ends [`Stream::RECORD`] bytes after it starts, and a transaction's time is computed
/// from its ID ([`Stream::time`]), so that tests can predict them.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    frames: Vec<Vec<u8>>,
    /// The LSN of the last change.
    lsn: u64,
    open: Option<Open>,
    /// The (sub)transaction in row messages; only in a stream block.
    row_xid: Option<u32>,
    streamed: HashSet<u32>,
    /// By GID: the end of the prepare record and its time.
    prepared: HashMap<String, (u64, i64)>,
}

#[derive(Clone, Debug)]
struct Open {
    lsn: u64,
    xid: u32,
    gid: Option<String>,
}

impl Stream {
    /// From the start of a commit or prepare record to its end.
    pub const RECORD: u64 = 0x30;

    /// An empty stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// When a transaction is prepared, committed or rolled back: 2024-01-01 and one second per
    /// transaction ID, in microseconds since 2000.
    pub fn time(xid: u32) -> i64 {
        757_382_400_000_000 + i64::from(xid) * 1_000_000
    }

    /// All bytes as on the connection.
    pub fn bytes(&self) -> Vec<u8> {
        self.frames.concat()
    }

    /// The frames.
    pub fn frames(&self) -> &[Vec<u8>] {
        &self.frames
    }

    /// The payloads of the CopyData frames, as drivers return them. Other frames are skipped.
    pub fn payloads(&self) -> Vec<&[u8]> {
        self.frames
            .iter()
            .filter(|frame| frame.first() == Some(&b'd'))
            .map(|frame| &frame[5..])
            .collect()
    }

    /// The bare pgoutput messages, each with the LSN in front of it.
    pub fn messages(&self) -> Vec<(u64, &[u8])> {
        self.payloads()
            .into_iter()
            .filter_map(|payload| {
                let (header, message) = payload.split_first_chunk::<25>()?;
                let start = header.strip_prefix(b"w")?.first_chunk()?;
                Some((u64::from_be_bytes(*start), message))
            })
            .collect()
    }

    /// Any bytes at all.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.frames.push(bytes.to_vec());
        self
    }

    /// Any frame.
    #[must_use]
    pub fn frame(self, frame: &OwnedFrame) -> Self {
        let bytes = frame.bytes();
        self.raw(&bytes)
    }

    /// Any message of pgoutput, with the LSN of the last change.
    #[must_use]
    pub fn message(self, message: OwnedMessage) -> Self {
        let lsn = self.lsn;
        self.message_at(lsn, message)
    }

    /// Any message of pgoutput.
    #[must_use]
    pub fn message_at(self, lsn: u64, message: OwnedMessage) -> Self {
        let clock = self.clock();
        self.frame(&OwnedFrame::CopyData(OwnedCopyData::XLogData {
            start: lsn,
            end: lsn,
            clock,
            message,
        }))
    }

    // Frames around the stream.

    /// `W`: a new session. Nothing is open, and nothing was sent.
    #[must_use]
    pub fn session(mut self) -> Self {
        self.open = None;
        self.row_xid = None;
        self.streamed.clear();
        self.frame(&OwnedFrame::CopyBothResponse {
            format: 0,
            columns: Vec::new(),
        })
    }

    /// `k` with the LSN of the last change. It requests no reply.
    #[must_use]
    pub fn keepalive(self) -> Self {
        let end = self.lsn;
        self.keepalive_at(end, false)
    }

    /// `k`.
    #[must_use]
    pub fn keepalive_at(self, end: u64, reply_requested: bool) -> Self {
        let clock = self.clock();
        self.frame(&OwnedFrame::CopyData(OwnedCopyData::PrimaryKeepalive {
            end,
            clock,
            reply_requested,
        }))
    }

    /// `N`: a warning with this text.
    #[must_use]
    pub fn notice(self, text: &str) -> Self {
        self.frame(&OwnedFrame::NoticeResponse(vec![
            (b'S', "WARNING".into()),
            (b'C', "01000".into()),
            (b'M', text.into()),
        ]))
    }

    /// `E`.
    #[must_use]
    pub fn error(self, sqlstate: &str, text: &str) -> Self {
        self.frame(&OwnedFrame::ErrorResponse(vec![
            (b'S', "ERROR".into()),
            (b'C', sqlstate.into()),
            (b'M', text.into()),
        ]))
    }

    /// `S`
    #[must_use]
    pub fn parameter(self, name: &str, value: &str) -> Self {
        self.frame(&OwnedFrame::ParameterStatus {
            name: name.into(),
            value: value.into(),
        })
    }

    /// `c`, `C`, `C`, `Z`: the client ended the stream.
    #[must_use]
    pub fn copy_done(self) -> Self {
        self.frame(&OwnedFrame::CopyDone)
            .frame(&OwnedFrame::CommandComplete("COPY 0".into()))
            .frame(&OwnedFrame::CommandComplete("START_REPLICATION".into()))
            .frame(&OwnedFrame::ReadyForQuery(b'I'))
    }

    // Tables.

    /// `R`. Columns are name, type, type modifier, and whether they are part of the key.
    #[must_use]
    pub fn relation(
        self,
        oid: u32,
        namespace: &str,
        name: &str,
        replica_identity: ReplicaIdentity,
        columns: &[(&str, u32, i32, bool)],
    ) -> Self {
        let xid = self.row_xid;
        let columns = columns
            .iter()
            .map(|(name, type_oid, type_modifier, key)| OwnedColumn {
                flags: u8::from(*key),
                name: (*name).into(),
                type_oid: *type_oid,
                type_modifier: *type_modifier,
            })
            .collect();
        self.message_at(
            0,
            OwnedMessage::Relation {
                xid,
                oid,
                namespace: namespace.into(),
                name: name.into(),
                replica_identity,
                columns,
            },
        )
    }

    /// `Y`
    #[must_use]
    pub fn user_type(self, oid: u32, namespace: &str, name: &str) -> Self {
        let xid = self.row_xid;
        self.message_at(
            0,
            OwnedMessage::Type {
                xid,
                oid,
                namespace: namespace.into(),
                name: name.into(),
            },
        )
    }

    // Rows.

    /// `I`
    #[must_use]
    pub fn insert(self, relation: u32, new: &[OwnedCell]) -> Self {
        let xid = self.row_xid;
        self.change(OwnedMessage::Insert {
            xid,
            relation,
            new: new.to_vec(),
        })
    }

    /// `U` without an old row.
    #[must_use]
    pub fn update(self, relation: u32, new: &[OwnedCell]) -> Self {
        self.update_from(relation, None, new)
    }

    /// `U` with the old key, `K`.
    #[must_use]
    pub fn update_key(self, relation: u32, key: &[OwnedCell], new: &[OwnedCell]) -> Self {
        self.update_from(relation, Some(OwnedOld::Key(key.to_vec())), new)
    }

    /// `U` with the old row, `O`.
    #[must_use]
    pub fn update_full(self, relation: u32, old: &[OwnedCell], new: &[OwnedCell]) -> Self {
        self.update_from(relation, Some(OwnedOld::Full(old.to_vec())), new)
    }

    fn update_from(self, relation: u32, old: Option<OwnedOld>, new: &[OwnedCell]) -> Self {
        let xid = self.row_xid;
        self.change(OwnedMessage::Update {
            xid,
            relation,
            old,
            new: new.to_vec(),
        })
    }

    /// `D` with the old key, `K`.
    #[must_use]
    pub fn delete_key(self, relation: u32, key: &[OwnedCell]) -> Self {
        self.delete(relation, OwnedOld::Key(key.to_vec()))
    }

    /// `D` with the old row, `O`.
    #[must_use]
    pub fn delete_full(self, relation: u32, old: &[OwnedCell]) -> Self {
        self.delete(relation, OwnedOld::Full(old.to_vec()))
    }

    fn delete(self, relation: u32, old: OwnedOld) -> Self {
        let xid = self.row_xid;
        self.change(OwnedMessage::Delete { xid, relation, old })
    }

    /// `T`; bit 1 of the options is CASCADE, bit 2 RESTART IDENTITY.
    #[must_use]
    pub fn truncate(self, options: u8, relations: &[u32]) -> Self {
        let xid = self.row_xid;
        self.change(OwnedMessage::Truncate {
            xid,
            options,
            relations: relations.to_vec(),
        })
    }

    /// A message with the LSN of a new change. In a stream block, it must contain its transaction
    /// ID.
    fn change(mut self, message: OwnedMessage) -> Self {
        self.lsn += 8;
        self.message(message)
    }

    /// `M` of the open transaction.
    #[must_use]
    pub fn emit(mut self, prefix: &str, content: &[u8]) -> Self {
        self.lsn += 8;
        // A Message in a stream block has the ID of the top-level transaction, even if a
        // subtransaction wrote it.
        let xid = self
            .row_xid
            .and(self.open.as_ref())
            .map(|transaction| transaction.xid);
        let lsn = self.lsn;
        self.message(OwnedMessage::Message {
            xid,
            transactional: true,
            lsn,
            prefix: prefix.into(),
            content: content.to_vec(),
        })
    }

    /// `M` outside any transaction.
    #[must_use]
    pub fn emit_at(mut self, lsn: u64, prefix: &str, content: &[u8]) -> Self {
        self.lsn = self.lsn.max(lsn);
        self.message_at(
            lsn,
            OwnedMessage::Message {
                xid: None,
                transactional: false,
                lsn,
                prefix: prefix.into(),
                content: content.to_vec(),
            },
        )
    }

    // Transactions.

    /// `B`
    #[must_use]
    pub fn begin(mut self, commit_lsn: u64, xid: u32) -> Self {
        self.open = Some(Open {
            lsn: commit_lsn,
            xid,
            gid: None,
        });
        self.message(OwnedMessage::Begin {
            final_lsn: commit_lsn,
            commit_time: Self::time(xid),
            xid,
        })
    }

    /// `O`
    #[must_use]
    pub fn origin(self, commit_lsn: u64, name: &str) -> Self {
        self.message(OwnedMessage::Origin {
            commit_lsn,
            name: name.into(),
        })
    }

    /// `C` of the open transaction.
    ///
    /// # Panics
    /// If no transaction is open.
    #[must_use]
    pub fn commit(mut self) -> Self {
        let open = self.open.take().expect("a Begin comes before its Commit");
        let end_lsn = self.record(open.lsn);
        self.message_at(
            end_lsn,
            OwnedMessage::Commit {
                commit_lsn: open.lsn,
                end_lsn,
                commit_time: Self::time(open.xid),
            },
        )
    }

    /// `S`. It contains whether it is the transaction's first in the session.
    #[must_use]
    pub fn stream_start(mut self, xid: u32) -> Self {
        let first = self.streamed.insert(xid);
        self.row_xid = Some(xid);
        self.open = Some(Open {
            lsn: 0,
            xid,
            gid: None,
        });
        self.message(OwnedMessage::StreamStart { xid, first })
    }

    /// Sets the (sub)transaction of the rows that follow in this block.
    #[must_use]
    pub fn subxid(mut self, xid: u32) -> Self {
        self.row_xid = Some(xid);
        self
    }

    /// `E`
    #[must_use]
    pub fn stream_stop(mut self) -> Self {
        self.row_xid = None;
        self.open = None;
        self.message(OwnedMessage::StreamStop)
    }

    /// `c`
    #[must_use]
    pub fn stream_commit(mut self, commit_lsn: u64, xid: u32) -> Self {
        self.streamed.remove(&xid);
        let end_lsn = self.record(commit_lsn);
        self.message_at(
            end_lsn,
            OwnedMessage::StreamCommit {
                xid,
                commit_lsn,
                end_lsn,
                commit_time: Self::time(xid),
            },
        )
    }

    /// `A`, as it comes with `streaming 'on'`.
    #[must_use]
    pub fn stream_abort(self, xid: u32, subxid: u32) -> Self {
        self.abort(xid, subxid, None)
    }

    /// `A`, as it comes with `streaming 'parallel'`.
    #[must_use]
    pub fn stream_abort_parallel(self, xid: u32, subxid: u32) -> Self {
        let abort = (self.lsn, Self::time(xid));
        self.abort(xid, subxid, Some(abort))
    }

    fn abort(mut self, xid: u32, subxid: u32, abort: Option<(u64, i64)>) -> Self {
        if xid == subxid {
            self.streamed.remove(&xid);
        }
        self.message(OwnedMessage::StreamAbort { xid, subxid, abort })
    }

    /// `b`
    #[must_use]
    pub fn begin_prepare(mut self, prepare_lsn: u64, xid: u32, gid: &str) -> Self {
        self.open = Some(Open {
            lsn: prepare_lsn,
            xid,
            gid: Some(gid.to_owned()),
        });
        self.message(OwnedMessage::BeginPrepare(OwnedPrepared {
            lsn: prepare_lsn,
            end_lsn: prepare_lsn + Self::RECORD,
            time: Self::time(xid),
            xid,
            gid: gid.into(),
        }))
    }

    /// `P` of the open transaction.
    ///
    /// # Panics
    /// If no transaction is open, or if it began with `B`.
    #[must_use]
    pub fn prepare(mut self) -> Self {
        let open = self
            .open
            .take()
            .expect("a Begin Prepare comes before its Prepare");
        let gid = open
            .gid
            .expect("a prepared transaction began with Begin Prepare");
        let prepared = self.prepared(open.lsn, open.xid, &gid);
        self.message_at(prepared.end_lsn, OwnedMessage::Prepare(prepared))
    }

    /// `p`
    #[must_use]
    pub fn stream_prepare(mut self, prepare_lsn: u64, xid: u32, gid: &str) -> Self {
        self.streamed.remove(&xid);
        let prepared = self.prepared(prepare_lsn, xid, gid);
        self.message_at(prepared.end_lsn, OwnedMessage::StreamPrepare(prepared))
    }

    /// `K`
    #[must_use]
    pub fn commit_prepared(mut self, commit_lsn: u64, xid: u32, gid: &str) -> Self {
        let end_lsn = self.record(commit_lsn);
        let committed = OwnedPrepared {
            lsn: commit_lsn,
            end_lsn,
            time: Self::time(xid),
            xid,
            gid: gid.into(),
        };
        self.message_at(end_lsn, OwnedMessage::CommitPrepared(committed))
    }

    /// `r` of a transaction that this stream prepared.
    ///
    /// # Panics
    /// If it did not prepare it.
    #[must_use]
    pub fn rollback_prepared(mut self, rollback_lsn: u64, xid: u32, gid: &str) -> Self {
        let (prepare_end_lsn, prepare_time) = *self.prepared.get(gid).expect("it was prepared");
        let rollback_end_lsn = self.record(rollback_lsn);
        self.message_at(
            rollback_end_lsn,
            OwnedMessage::RollbackPrepared {
                prepare_end_lsn,
                rollback_end_lsn,
                prepare_time,
                rollback_time: Self::time(xid),
                xid,
                gid: gid.into(),
            },
        )
    }

    fn prepared(&mut self, lsn: u64, xid: u32, gid: &str) -> OwnedPrepared {
        let (end_lsn, time) = (self.record(lsn), Self::time(xid));
        self.prepared.insert(gid.to_owned(), (end_lsn, time));
        OwnedPrepared {
            lsn,
            end_lsn,
            time,
            xid,
            gid: gid.into(),
        }
    }

    /// Where a record ends that starts here.
    fn record(&mut self, lsn: u64) -> u64 {
        let end = lsn + Self::RECORD;
        self.lsn = self.lsn.max(end);
        end
    }

    fn clock(&self) -> i64 {
        Self::time(0) + i64::try_from(self.frames.len()).unwrap_or(i64::MAX)
    }

    /// Breaks the stream in one place: removes, doubles, moves or cuts a frame, or changes one
    /// byte. The stream may still be valid.
    pub fn broken(mut self, u: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        let Some(last) = self.frames.len().checked_sub(1) else {
            return Ok(self);
        };
        let place = u.int_in_range(0..=last)?;
        let frame = &mut self.frames[place];
        match u.int_in_range(0..=4)? {
            0 => {
                self.frames.remove(place);
            }
            1 => {
                let double = frame.clone();
                self.frames.insert(place, double);
            }
            2 => {
                let to = u.int_in_range(0..=last)?;
                self.frames.swap(place, to);
            }
            3 => frame.truncate(u.int_in_range(0..=frame.len())?),
            _ => {
                let at = u.choose_index(frame.len())?;
                frame[at] ^= u.int_in_range(1..=255)?;
            }
        }
        Ok(self)
    }
}
