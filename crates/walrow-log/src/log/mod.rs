//! A log: a directory of segments, and a few objects of its writer.
//!
//! | object | contents |
//! |---|---|
//! | `000000000191BA28-00000.wire.zst` | a segment: see [`segment`] |
//! | `000000000191BA28-1000000.wire.zst` | a merged segment: see [`compaction`] |
//! | `_open` | what is durable, but not published yet: see [`block_file`] |
//! | `_index` | the feet of all segments, so that a log of many segments opens fast: see [`index`] |
//! | `_catalog` | definitions of types and tables, for the next segments: see [`state`] |
//! | `_prepared-…` | a prepared transaction that is not decided yet: see [`state`] |
//! | `_reader-…` | how far a registered reader is: see [`readers`] |
//! | `_lock` | is locked while readers or segments change: see [`locking`] |
//! | `_pruned` | up to where segments were removed: see [`state`] |
//! | `_stopped` | why a receiver must not go on: its server has changed, or was set back |
//! | `_load` | where a load is expected: see [`load_place`] |
//! | `.walrow-…` | a temporary object |

mod as_of;
mod block_file;
mod broken_load;
mod compaction;
mod comparison;
mod contents;
mod erasing;
mod erasure;
mod error;
mod filling;
mod frames;
mod hold;
mod index;
mod listing;
mod load;
mod load_place;
mod loading;
mod locking;
mod publishing;
mod reader;
mod reader_name;
mod readers;
mod recovery;
mod remedy;
mod retention;
mod segment;
mod segment_file;
mod state;
mod store;
mod table_state;
mod view;
mod writer;

pub use compaction::Compacted;
pub use erasing::{Erase, Images};
pub use erasure::{Erased, Eraser};
pub use error::{DamagedPart, Error, ErrorKind, LoadRefusal, OtherServer, SourcePart};
pub use hold::Hold;
pub use index::{Segment, TableChanges, TableVersion};
pub use load::{Load, TableCopy};
pub use reader::SegmentReader;
pub use readers::RegisteredReader;
pub use remedy::Remedy;
pub use retention::{Retained, Retention};
pub use segment::{FORMAT, Foot, MERGED, Member, SegmentName, TableFoot};
pub use store::{Directory, ReadAt, Store, WriteAt};
pub use table_state::{StateOptions, StateReader};
pub use view::{Log, Plan};
pub use writer::{Writer, WriterCounts, WriterOptions};
