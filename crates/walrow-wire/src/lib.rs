//! PostgreSQL's replication protocol as bytes.
//!
//! What server and client send on a replication connection: backend messages ([`Frame`],
//! [`BackendMessage`]), the payloads of CopyData ([`CopyData`]), and all nineteen pgoutput messages
//! of protocol versions 1 to 4 ([`Message`]). Everything borrows from the input, and every `parse`
//! has an exact inverse, `encode`.
//!
//! ```text
//! bytes ─► Frame 'd' ─► CopyData 'w' ─► Message 'I' ─► Tuple ─► Cell
//!            W N S E c C Z T D   'k'
//! ```
//!
//! Bare messages without lengths, as `pg_recvlogical` writes them, are found by the [`Splitter`].
//!
//! This crate uses no files, sockets, clocks or Arrow: it is `no_std` and has no unsafe code. A
//! length on the wire never reserves memory before it is compared with the bytes that are there.
//!
//! ```
//! use walrow_wire::{CopyData, Frame, Message};
//!
//! // insert into t values (null), as a server sends it.
//! let bytes = b"d\0\0\0\x26w\0\0\0\0\x01\x92\x3a\x28\0\0\0\0\x01\x92\x3a\x28\0\x02\xf1\x2c\xc5\x5b\xb3\x40I\0\0\x40\0N\0\x01n";
//! let (frame, used) = Frame::parse(bytes)?.expect("the frame is whole");
//! assert_eq!((frame.tag, used), (b'd', bytes.len()));
//! let CopyData::XLogData(data) = CopyData::parse(frame.body)? else { panic!("not XLogData") };
//! assert_eq!(data.start.to_string(), "0/1923A28");
//! let Message::Insert(insert) = Message::parse(data.message, false)? else { panic!() };
//! assert_eq!((insert.relation, insert.new.len()), (16384, 1));
//! # Ok::<(), walrow_wire::Error>(())
//! ```
//!
//! Manual: [Streaming Replication Protocol](https://www.postgresql.org/docs/current/protocol-replication.html),
//! [Logical Replication Message Formats](https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html).
#![no_std]
#![forbid(unsafe_code)]
#![expect(
    clippy::exhaustive_enums,
    reason = "a new message of the protocol breaks a match that would skip it"
)]

extern crate alloc;

mod backend;
mod backup_data;
mod command;
mod copy_data;
mod copy_rows;
mod cursor;
mod encode;
mod error;
mod framing;
mod frontend;
mod lsn;
mod message;
mod peek;
mod recognition;
mod reply;
mod splitter;
mod string;

pub use backend::{
    Authentication, BackendKeyData, BackendMessage, CopyBothResponse, DataRow, ErrorFields, Frame,
    NotificationResponse, ParameterStatus, RowDescription, RowField,
};
pub use backup_data::BackupData;
pub use command::{
    AlterReplicationSlot, BackupCheckpoint, BackupCompression, BackupManifest, BackupTarget,
    BaseBackup, CommandError, CreateReplicationSlot, ManifestChecksums, PluginOption,
    ReplicationCommand, SlotKind, SnapshotAction, StartPhysical, StartReplication,
};
pub use copy_data::{
    CopyData, HotStandbyFeedback, PrimaryKeepalive, StandbyStatusUpdate, XLogData,
};
pub use copy_rows::CopyRows;
pub use error::{Error, ErrorKind};
pub use framing::Framing;
pub use frontend::FrontendMessage;
pub use lsn::{Lsn, ParseLsnError, Timestamp};
pub use message::{
    AbortRecord, Begin, BeginPrepare, Cell, Cells, Column, Columns, Commit, CommitPrepared, Delete,
    Image, Insert, Kind, LogicalMessage, Message, OldTuple, Origin, Prepare, Relation,
    ReplicaIdentity, RollbackPrepared, StreamAbort, StreamCommit, StreamPrepare, StreamStart,
    Truncate, Tuple, Type, UnreadCells, UnreadRow, UnreadTuple, Update,
};
pub use peek::Peek;
pub use recognition::{Beginning, are_keepalives, first_data};
pub use reply::{
    BackupPosition, CreatedSlot, IdentifySystem, NextTimeline, PhysicalSlot, ReplyError,
    ReplyErrorKind, Setting, Tablespace, TimelineHistory, TimelineSwitch,
};
pub use splitter::{Piece, Splitter};
pub use string::PgString;

/// An object identifier: a relation, a type.
pub type Oid = u32;

/// A transaction ID of 32 bits, as pgoutput sends it. It wraps around.
pub type Xid = u32;
