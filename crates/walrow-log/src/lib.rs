//! Committed transactions in files: a log, and the [`FileSpool`] where transactions wait for their
//! commit. No other Rust crate of walrow opens files.
//!
//! A log is a directory of segments. Any number of readers ([`Log`]) and one [`Writer`] share it.
//! The feature `segments` turns logs on.
//!
//! The modules use each other in one direction, along the arrows:
//!
//! ```text
//! error ◄─ store ◄─ format ◄─ read ◄─┬─ write
//!                                    └─ upkeep
//! ```
//!
//! | object | contents |
//! |---|---|
//! | `000000000191BA28-00000.wire.zst` | a segment |
//! | `000000000191BA28-1000000.wire.zst` | a merged segment |
//! | `_open` | the journal: changes that are durable, but not published yet |
//! | `_index` | the feet of all segments, so that a log of many segments opens fast |
//! | `_catalog` | definitions of types and tables, for the next segments |
//! | `_prepared-…` | a prepared transaction that is not decided yet |
//! | `_reader-…` | how far a registered reader is |
//! | `_writer` | is locked while a writer lives |
//! | `_lock` | is locked while readers or `_loaded-and-removed` change |
//! | `_upkeep` | is locked while segments are removed, merged or erased |
//! | `_loaded-and-removed` | up to where segments were removed, merged and erased, and where a load is expected |
//! | `_stopped` | why a receiver must not go on: its server has changed, or was set back |
//! | `_targets`, `_run` | the targets that follow the log; a directory with locks and status records |
//! | `.walrow-…` | a temporary object |

#[cfg(feature = "segments")]
mod error;
#[cfg(feature = "segments")]
mod format;
#[cfg(feature = "segments")]
mod read;
mod spool;
#[cfg(feature = "segments")]
mod store;
#[cfg(feature = "segments")]
mod upkeep;
#[cfg(feature = "segments")]
mod write;

pub use spool::FileSpool;
#[cfg(feature = "segments")]
pub use {
    error::hold::Hold,
    error::remedy::Remedy,
    error::{BrokenBy, DamagedPart, Error, ErrorKind, LoadRefusal, OtherServer, SourcePart},
    format::history::FORMAT,
    format::index::{Segment, TableChanges},
    format::registered_reader::RegisteredReader,
    format::segment::{Foot, MERGED, Member, SegmentName, TableFoot},
    format::version::TableVersion,
    read::Step,
    read::log::{Log, Plan},
    read::net_checkpoint::NetCheckpoint,
    read::reached::Reached,
    read::read_ahead::ReadAhead,
    read::resolve::PlanReader,
    read::table_net::LogNetOptions,
    read::table_nets::NetsReader,
    read::table_reader::TableReader,
    read::table_state::StateOptions,
    store::lease::{Locked, Quiet},
    store::small::{SmallObjects, read_object},
    store::{Directory, Journal, Lock, Objects, Put, ReadAt, Staged, Store, Tag},
    upkeep::Upkeep,
    upkeep::compaction::Compacted,
    upkeep::erase::{Erase, Images},
    upkeep::erasure::{Erased, Eraser},
    upkeep::retention::{Retained, Retention},
    write::counts::WriterCounts,
    write::load::{Load, TableCopy},
    write::look::check,
    write::opening::WriterOptions,
    write::recovery::Repair,
    write::repeats::RepeatedBy,
    write::writer::{Confirmable, Writer},
};
