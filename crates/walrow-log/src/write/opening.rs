//! Opens a log for its writer. After a crash of the last writer, this repairs it.

use crate::error::Error;
use crate::format::catalog::read_catalog;
use crate::format::frames::LEVEL;
use crate::format::listing::Listing;
use crate::store::{OPEN, Store};
use crate::write::index_file::IndexFile;
use crate::write::look::{Looked, compare};
use crate::write::open_file::OpenFile;
use crate::write::recovery::Repair;
use crate::write::repair::{open_index, repair};
use crate::write::repeats::{RepeatedBy, Repeats};
use crate::write::stage::Stage;
use crate::write::tail::{Beginning, Shape, Tail};
use std::sync::Arc;
use walrow_stream::fact::Source;

/// How a log is written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WriterOptions {
    /// The source of the changes. The log completes the fields that are `None`.
    pub source: Source,
    /// Bytes of the stream that fill a segment. A segment ends with a transaction. A larger
    /// transaction continues in several segments.
    pub segment_bytes: u64,
    /// The compression level of zstd. `None` stores the bytes as they are, for measurements and
    /// tests.
    pub level: Option<i32>,
    /// Whether [`Writer::sync`] makes transactions durable before they fill a segment. Otherwise
    /// `sync` publishes them, and [`Writer::fill`] needs less memory. But then the log must be
    /// opened again after a failure of the store.
    ///
    /// [`Writer::sync`]: crate::Writer::sync
    /// [`Writer::fill`]: crate::Writer::fill
    pub syncs: bool,
    /// The origin of transactions that the log seems to have.
    pub repeats: RepeatedBy,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            source: Source::default(),
            segment_bytes: 64 << 20,
            level: Some(LEVEL),
            syncs: true,
            repeats: RepeatedBy::Slot,
        }
    }
}

/// Opens a log, unless `refuse` refuses its repairs. Returns its index, and the first stage of its
/// writer.
pub(crate) fn open(
    store: &Arc<dyn Store>,
    options: WriterOptions,
    refuse: impl FnOnce(&[Repair]) -> Result<(), Error>,
) -> Result<(IndexFile, Stage), Error> {
    let WriterOptions {
        mut source,
        segment_bytes,
        level,
        syncs,
        repeats,
    } = options;
    // This check comes first, so that a directory that is not a log stays unchanged.
    Listing::of(&**store)?;
    let (mut journal, extent) = OpenFile::open(&**store, OPEN)?;
    let found = journal.journaled()?;
    let header = extent.header.as_ref().map(|header| (header, &found));
    let looked = Looked::at(&**store, header)?;
    // The timeline of the next changes. Recovered changes may be of another timeline.
    let timeline = source.timeline.take();
    let lacks_first_load = looked.repairs.contains(&Repair::BeginAgain);
    if let Some(known) = looked.source() {
        compare(known, &source)?;
        if !lacks_first_load {
            complete(&mut source, known);
        }
    }
    refuse(&looked.repairs)?;
    // Up to here, the log is unchanged.
    repair(&**store, level, &looked)?;
    store.sweep().map_err(|error| Error::store("", &error))?;
    let index = open_index(&**store)?;
    let (end, last_load) = looked.after();
    let mut tail = Box::new(Tail::new(Beginning {
        store: Arc::clone(store),
        shape: Shape {
            segment_bytes,
            level,
            syncs,
        },
        source,
        prepared: looked.undecided(),
        repeats: Repeats::of(repeats),
        catalog: read_catalog(&**store)?,
        journal,
        end,
        last_load,
    }));
    tail.recover(found, &looked.repairs)?;
    tail.forget(&looked.repairs)?;
    if let Some(timeline) = timeline {
        tail.learn(|session| session.set_timeline(timeline, None));
    }
    let stage = if lacks_first_load {
        Stage::Planned(tail)
    } else if tail.is_empty() {
        Stage::Empty(tail)
    } else {
        Stage::Streaming(tail)
    };
    Ok((index, stage))
}

/// Completes a source with the source of the log.
fn complete(source: &mut Source, log: &Source) {
    let log = log.clone();
    source.system_identifier = source.system_identifier.take().or(log.system_identifier);
    source.database = source.database.take().or(log.database);
    source.slot = source.slot.take().or(log.slot);
    source.timeline = source.timeline.or(log.timeline);
    source.timeline_start = log.timeline_start;
    source.last = log.last;
    source.slot_start = log.slot_start;
    source.gap_end = log.gap_end;
    source.asked = log.asked;
    source.prepared_before = log.prepared_before;
    if source.session.is_empty() {
        source.session = log.session;
    }
}
