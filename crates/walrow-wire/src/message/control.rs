//! Messages about transactions: their begin and end, streamed and prepared, their origin, and
//! logical decoding messages.
//!
//! Field names and order follow the manual. The flags byte of Commit, Stream Commit and the
//! two-phase messages has no defined bit yet: any value except 0 is an error.

use super::stream_xid::{put_stream_xid, stream_xid};
use crate::cursor::Cursor;
use crate::encode::Put;
use crate::error::Error;
use crate::{Lsn, PgString, Timestamp, Xid};
use alloc::vec::Vec;

/// `B`: the begin of a transaction that is sent whole, after its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Where the commit record starts: the Commit's `commit_lsn`.
    pub final_lsn: Lsn,
    /// When it was committed.
    pub commit_time: Timestamp,
    /// The transaction.
    pub xid: Xid,
}

impl Begin {
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Self, Error> {
        *cursor = cursor.named("Begin");
        Ok(Self {
            final_lsn: cursor.lsn("final LSN")?,
            commit_time: cursor.timestamp("commit timestamp")?,
            xid: cursor.u32("transaction ID")?,
        })
    }

    /// A whole and valid Begin, from the bytes after its kind. Otherwise, [`Begin::parse`] returns
    /// the error.
    #[inline]
    pub(crate) fn valid(bytes: &[u8]) -> Option<Self> {
        let ([final_lsn, commit_time], xid) = bytes.as_chunks() else {
            return None;
        };
        Some(Self {
            final_lsn: Lsn(u64::from_be_bytes(*final_lsn)),
            commit_time: Timestamp(i64::from_be_bytes(*commit_time)),
            xid: Xid::from_be_bytes(xid.try_into().ok()?),
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64s([self.final_lsn.0, self.commit_time.0.cast_unsigned()]);
        out.put_u32(self.xid);
    }
}

/// `C`: the end of the transaction that the last Begin opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Where the commit record starts.
    pub commit_lsn: Lsn,
    /// Where it ends: the LSN that a client confirms.
    pub end_lsn: Lsn,
    /// When it was committed. Not monotonic.
    pub commit_time: Timestamp,
}

impl Commit {
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Self, Error> {
        *cursor = cursor.named("Commit");
        cursor.no_flags()?;
        Ok(Self {
            commit_lsn: cursor.lsn("commit LSN")?,
            end_lsn: cursor.lsn("end LSN")?,
            commit_time: cursor.timestamp("commit timestamp")?,
        })
    }

    /// A whole and valid Commit, from the bytes after its kind. Otherwise, [`Commit::parse`] returns
    /// the error.
    #[inline]
    pub(crate) fn valid(bytes: &[u8]) -> Option<Self> {
        let [0, fields @ ..] = bytes else {
            return None;
        };
        let ([commit_lsn, end_lsn, commit_time], []) = fields.as_chunks() else {
            return None;
        };
        Some(Self {
            commit_lsn: Lsn(u64::from_be_bytes(*commit_lsn)),
            end_lsn: Lsn(u64::from_be_bytes(*end_lsn)),
            commit_time: Timestamp(i64::from_be_bytes(*commit_time)),
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let time = self.commit_time.0.cast_unsigned();
        out.put_u8(0);
        out.put_u64s([self.commit_lsn.0, self.end_lsn.0, time]);
    }
}

/// `O`: the origin of a transaction that was itself replicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The commit LSN on the origin server; 0/0 in a stream block, or if the writer set none.
    pub commit_lsn: Lsn,
    /// The origin's name.
    pub name: PgString<'a>,
}

impl<'a> Origin<'a> {
    pub(super) fn parse(cursor: &mut Cursor<'a>) -> Result<Self, Error> {
        *cursor = cursor.named("Origin");
        Ok(Self {
            commit_lsn: cursor.lsn("commit LSN on the origin")?,
            name: cursor.string("origin name")?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_lsn(self.commit_lsn);
        out.put_string(self.name);
    }
}

/// `M`: a logical decoding message, written by `pg_logical_emit_message`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogicalMessage<'a> {
    /// In a stream block, the top-level transaction.
    pub xid: Option<Xid>,
    /// Whether it belongs to a transaction. If not, it is sent even if its writer rolled back.
    pub transactional: bool,
    /// Where its record ends.
    pub lsn: Lsn,
    /// Its prefix; may be empty.
    pub prefix: PgString<'a>,
    /// Its content: bytes without an encoding.
    pub content: &'a [u8],
}

impl<'a> LogicalMessage<'a> {
    pub(super) fn parse(cursor: &mut Cursor<'a>, in_stream: bool) -> Result<Self, Error> {
        *cursor = cursor.named("Message");
        Ok(Self {
            xid: stream_xid(cursor, in_stream)?,
            transactional: cursor.flag("flags")?,
            lsn: cursor.lsn("LSN")?,
            prefix: cursor.string("prefix")?,
            content: {
                let length = cursor.u32("content length")?;
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                cursor.bytes(length, "content")?
            },
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_stream_xid(out, self.xid);
        out.put_u8(self.transactional.into());
        out.put_lsn(self.lsn);
        out.put_string(self.prefix);
        out.put_length(self.content.len());
        out.put_bytes(self.content);
    }
}

/// `S`: a chunk of a transaction in progress begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamStart {
    /// The top-level transaction.
    pub xid: Xid,
    /// Whether it is the session's first chunk of that transaction.
    pub first: bool,
}

impl StreamStart {
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Self, Error> {
        *cursor = cursor.named("Stream Start");
        Ok(Self {
            xid: cursor.u32("transaction ID")?,
            first: cursor.flag("first segment")?,
        })
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.put_u32(self.xid);
        out.put_u8(self.first.into());
    }
}

/// `c`: a streamed transaction was committed. It comes outside stream blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCommit {
    /// The top-level transaction.
    pub xid: Xid,
    /// Where the commit record starts.
    pub commit_lsn: Lsn,
    /// Where it ends.
    pub end_lsn: Lsn,
    /// When it was committed.
    pub commit_time: Timestamp,
}

impl StreamCommit {
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Self, Error> {
        *cursor = cursor.named("Stream Commit");
        let xid = cursor.u32("transaction ID")?;
        cursor.no_flags()?;
        Ok(Self {
            xid,
            commit_lsn: cursor.lsn("commit LSN")?,
            end_lsn: cursor.lsn("end LSN")?,
            commit_time: cursor.timestamp("commit timestamp")?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.xid);
        out.put_u8(0);
        out.put_lsn(self.commit_lsn);
        out.put_lsn(self.end_lsn);
        out.put_timestamp(self.commit_time);
    }
}

/// `A`: a streamed transaction, or a subtransaction of one, was rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamAbort {
    /// The top-level transaction.
    pub xid: Xid,
    /// The subtransaction; equal to `xid` if the whole transaction was rolled back.
    pub subxid: Xid,
    /// Where and when. Sent only with `streaming 'parallel'`, in every protocol version.
    pub abort: Option<AbortRecord>,
}

/// Where and when a transaction was rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortRecord {
    /// Where the abort record is.
    pub lsn: Lsn,
    /// When it was rolled back.
    pub time: Timestamp,
}

impl StreamAbort {
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Self, Error> {
        *cursor = cursor.named("Stream Abort");
        Ok(Self {
            xid: cursor.u32("transaction ID")?,
            subxid: cursor.u32("subtransaction ID")?,
            // Only the message's length shows which form it has.
            abort: match cursor.remaining() {
                0 => None,
                _ => Some(AbortRecord {
                    lsn: cursor.lsn("abort LSN")?,
                    time: cursor.timestamp("abort timestamp")?,
                }),
            },
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.xid);
        out.put_u32(self.subxid);
        if let Some(AbortRecord { lsn, time }) = self.abort {
            out.put_lsn(lsn);
            out.put_timestamp(time);
        }
    }
}

/// `b`: a prepared transaction begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeginPrepare<'a> {
    /// Where the prepare record starts.
    pub prepare_lsn: Lsn,
    /// Where it ends.
    pub end_lsn: Lsn,
    /// When it was prepared.
    pub prepare_time: Timestamp,
    /// The transaction.
    pub xid: Xid,
    /// The name the user gave it.
    pub gid: PgString<'a>,
}

impl<'a> BeginPrepare<'a> {
    pub(super) fn parse(cursor: &mut Cursor<'a>) -> Result<Self, Error> {
        *cursor = cursor.named("Begin Prepare");
        Ok(Self {
            prepare_lsn: cursor.lsn("prepare LSN")?,
            end_lsn: cursor.lsn("end LSN")?,
            prepare_time: cursor.timestamp("prepare timestamp")?,
            xid: cursor.u32("transaction ID")?,
            gid: cursor.string("GID")?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_lsn(self.prepare_lsn);
        out.put_lsn(self.end_lsn);
        out.put_timestamp(self.prepare_time);
        out.put_u32(self.xid);
        out.put_string(self.gid);
    }
}

/// Fields that three two-phase messages share, in their order.
macro_rules! prepared_message {
    ($(#[$doc:meta])* $type:ident, $name:literal, $lsn:ident: $lsn_name:literal $lsn_doc:literal,
     $end_doc:literal, $time:ident: $time_name:literal $time_doc:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $type<'a> {
            #[doc = $lsn_doc]
            pub $lsn: Lsn,
            #[doc = $end_doc]
            pub end_lsn: Lsn,
            #[doc = $time_doc]
            pub $time: Timestamp,
            /// The transaction.
            pub xid: Xid,
            /// The name the user gave it.
            pub gid: PgString<'a>,
        }

        impl<'a> $type<'a> {
            pub(super) fn parse(cursor: &mut Cursor<'a>) -> Result<Self, Error> {
                *cursor = cursor.named($name);
                cursor.no_flags()?;
                Ok(Self {
                    $lsn: cursor.lsn($lsn_name)?,
                    end_lsn: cursor.lsn("end LSN")?,
                    $time: cursor.timestamp($time_name)?,
                    xid: cursor.u32("transaction ID")?,
                    gid: cursor.string("GID")?,
                })
            }

            pub(super) fn encode(&self, out: &mut Vec<u8>) {
                out.put_u8(0);
                out.put_lsn(self.$lsn);
                out.put_lsn(self.end_lsn);
                out.put_timestamp(self.$time);
                out.put_u32(self.xid);
                out.put_string(self.gid);
            }
        }
    };
}

prepared_message!(
    /// `P`: the transaction that Begin Prepare opened was prepared.
    Prepare, "Prepare",
    prepare_lsn: "prepare LSN" "Where the prepare record starts.",
    "Where it ends.",
    prepare_time: "prepare timestamp" "When it was prepared."
);

prepared_message!(
    /// `K`: a prepared transaction was committed. Its rows may come from an earlier session.
    CommitPrepared, "Commit Prepared",
    commit_lsn: "commit LSN" "Where the commit record starts.",
    "Where it ends.",
    commit_time: "commit timestamp" "When it was committed."
);

prepared_message!(
    /// `p`: a streamed transaction was prepared. It comes outside stream blocks.
    StreamPrepare, "Stream Prepare",
    prepare_lsn: "prepare LSN" "Where the prepare record starts.",
    "Where it ends.",
    prepare_time: "prepare timestamp" "When it was prepared."
);

/// `r`: a prepared transaction was rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollbackPrepared<'a> {
    /// Where the prepare record ends: the `end_lsn` of Prepare.
    pub prepare_end_lsn: Lsn,
    /// Where the rollback record ends.
    pub rollback_end_lsn: Lsn,
    /// When it was prepared.
    pub prepare_time: Timestamp,
    /// When it was rolled back.
    pub rollback_time: Timestamp,
    /// The transaction.
    pub xid: Xid,
    /// The name the user gave it.
    pub gid: PgString<'a>,
}

impl<'a> RollbackPrepared<'a> {
    pub(super) fn parse(cursor: &mut Cursor<'a>) -> Result<Self, Error> {
        *cursor = cursor.named("Rollback Prepared");
        cursor.no_flags()?;
        Ok(Self {
            prepare_end_lsn: cursor.lsn("prepare end LSN")?,
            rollback_end_lsn: cursor.lsn("rollback end LSN")?,
            prepare_time: cursor.timestamp("prepare timestamp")?,
            rollback_time: cursor.timestamp("rollback timestamp")?,
            xid: cursor.u32("transaction ID")?,
            gid: cursor.string("GID")?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(0);
        out.put_lsn(self.prepare_end_lsn);
        out.put_lsn(self.rollback_end_lsn);
        out.put_timestamp(self.prepare_time);
        out.put_timestamp(self.rollback_time);
        out.put_u32(self.xid);
        out.put_string(self.gid);
    }
}
