//! Appends a stream to a log.
//!
//! ```text
//! stream ─► Assembler ─► Encoder ─► block ─► journal ─► segment
//!           committed    protocol 1          durable    published
//! ```
//! A transaction is durable when the journal is synced, and visible to readers when its segment is
//! published. After a crash, the writer first publishes the whole transactions of the journal.
//!
//! A prepared transaction is a separate object until it is decided, because the server does not
//! send its rows again.

use crate::error::{BrokenBy, Error, ErrorKind, LoadRefusal};
use crate::format::catalog::write_catalog;
use crate::format::listing::Listing;
use crate::format::load_place::Place;
use crate::format::segment::Foot;
use crate::read::log::Log;
use crate::store::Store;
use crate::store::lease::Quiet;
use crate::write::counts::WriterCounts;
use crate::write::index_file::IndexFile;
use crate::write::load::{Load, LoadId, LoadOptions};
use crate::write::load_place::{end_place, fill, keep_place};
use crate::write::opening::{self, WriterOptions};
use crate::write::recovery::Repair;
use crate::write::stage::{Stage, Step, breaks};
use crate::write::tail::Tail;
use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use walrow_stream::fact::{PreparedBefore, Source};
use walrow_stream::{Assembler, Catalog, Relation};
use walrow_wire::{Lsn, Timestamp};

/// The one writer of a log.
///
/// ```
/// use std::sync::Arc;
/// use walrow_log::{Directory, Writer, WriterOptions};
/// use walrow_stream::Assembler;
///
/// let stream: &[u8] = &[]; // wire frames
/// # let path = std::env::temp_dir().join(format!("walrow-writer-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&path);
/// let store = Arc::new(Directory::create(&path)?);
/// let mut writer = Writer::open(store, WriterOptions::default())?;
/// let mut assembler = writer.resume(Assembler::default())?;
/// writer.append(&mut assembler, &mut &*stream)?;
/// writer.sync(&mut assembler)?;
/// writer.publish(&mut assembler)?;
/// # std::fs::remove_dir_all(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Writer {
    store: Arc<dyn Store>,
    index: IndexFile,
    stage: Stage,
    /// The end of the durable changes after the last sync or publish.
    position: Lsn,
    counts: WriterCounts,
}

/// An LSN that may be confirmed to the server, because everything before it is durable. Only
/// [`Writer::sync`] makes a `Confirmable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmable(Lsn);

impl Confirmable {
    /// The LSN.
    pub const fn lsn(self) -> Lsn {
        self.0
    }
}

impl Writer {
    /// Opens a log for writing. After a crash, this publishes the whole transactions and removes
    /// the incomplete transactions.
    ///
    /// # Errors
    /// Another process writes to the log. The log belongs to another source, or is not a log. The
    /// store failed.
    pub fn open(store: Arc<dyn Store>, options: WriterOptions) -> Result<Self, Error> {
        Self::open_unless(store, options, |_| Ok(()))
    }

    /// Opens a log, unless `refuse` refuses its repairs.
    fn open_unless(
        store: Arc<dyn Store>,
        options: WriterOptions,
        refuse: impl FnOnce(&[Repair]) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let (index, stage) = opening::open(&store, options, refuse)?;
        let position = stage.tail()?.durable();
        let mut writer = Self {
            store,
            index,
            stage,
            position,
            counts: WriterCounts::default(),
        };
        // Takes over the counts and the segments of the recovery.
        writer.step(|stage| (stage, Ok(())))?;
        Ok(writer)
    }

    /// Opens a log like [`Writer::open`], and keeps other writers out. All durable changes are in
    /// segments, and the log stays unchanged.
    ///
    /// # Errors
    /// The errors of [`Writer::open`]. The log begins with a load that was broken off: only a
    /// writer that begins the load again may remove it.
    pub fn quiet(store: Arc<dyn Store>) -> Result<Quiet, Error> {
        // This check comes first, so that a directory that is not a log stays unchanged.
        Log::open(store.clone())?;
        let refuse = |repairs: &[Repair]| {
            if repairs.contains(&Repair::BeginAgain) {
                let why = LoadRefusal::First;
                return Err(ErrorKind::Load { why }.into());
            }
            Ok(())
        };
        let opened = Self::open_unless(store, WriterOptions::default(), refuse)?;
        let Self { store, stage, .. } = opened;
        let journal = stage.into_tail()?.into_journal();
        Ok(Quiet::new(store, journal.into_journal()))
    }

    /// Does a step, and keeps the stage that the step returns.
    fn step<T>(&mut self, step: impl FnOnce(Stage) -> Step<T>) -> Result<T, Error> {
        let before = mem::replace(&mut self.stage, Stage::Broken(BrokenBy::Panicked));
        let was_behind = before.is_behind();
        let (mut stage, done) = step(before);
        if let Ok(tail) = stage.tail_mut() {
            self.counts = tail.counts();
            for foot in tail.publisher_mut().new_feet() {
                if !was_behind {
                    // The index can be made from the segments. [`Writer::open`] adds missing
                    // segments to it.
                    let _ = self.index.append(&*self.store, &foot);
                }
            }
        }
        self.stage = match done.as_ref().err().and_then(breaks) {
            Some(why) => Stage::Broken(why),
            None => stage,
        };
        done
    }

    /// Does something with the tail, in any stage.
    fn with_tail<T>(
        &mut self,
        run: impl FnOnce(&mut Tail) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.step(|mut stage| {
            let done = stage.tail_mut().and_then(run);
            (stage, done)
        })
    }

    /// Publishes the changes before a load, if a change or a position behind the load has come.
    fn cross(&mut self, assembler: &mut Assembler) -> Result<(), Error> {
        self.step(|mut stage| {
            let saved = match &mut stage {
                Stage::Crossing(_, _, tail) => tail.save_prepared(assembler),
                _ => Ok(()),
            };
            match saved {
                Ok(()) => stage.cross(),
                Err(error) => (stage, Err(error)),
            }
        })
    }

    /// Prepares a new assembler for a session of the server that begins at [`Writer::position`] or
    /// before. The assembler knows the prepared transactions. The writer skips transactions that
    /// the log has. Call this between transactions, after [`Writer::append`] has taken all input of
    /// the previous session.
    ///
    /// # Errors
    /// A prepared transaction is damaged, or the store failed.
    pub fn resume(&mut self, assembler: Assembler) -> Result<Assembler, Error> {
        self.with_tail(|tail| tail.resume(assembler))
    }

    /// Compares the server of the session that [`Writer::resume`] has begun with the log's.
    ///
    /// Until the server has sent everything up to [`Writer::position`], the log takes no changes,
    /// and makes no changes durable. The server begins at `confirmed`, or at
    /// [`Taken::resent_from`](walrow_stream::fact::Taken::resent_from) of the last transaction or
    /// message if that LSN is later. With `only`, the log takes no later changes, either.
    ///
    /// # Errors
    /// The writer is broken.
    pub fn compare(&mut self, confirmed: Lsn, only: bool) -> Result<(), Error> {
        self.stage.tail_mut()?.compare(confirmed, only);
        Ok(())
    }

    /// Like [`Writer::compare`], for a server that was compared before. The new session only asks
    /// it for other changes.
    ///
    /// # Errors
    /// The writer is broken.
    pub fn assume_compared(&mut self) -> Result<(), Error> {
        self.stage.tail_mut()?.assume_compared();
        Ok(())
    }

    /// Whether the comparison of the session's server has ended, or was not asked for.
    ///
    /// # Errors
    /// The writer is broken.
    pub fn is_compared(&self) -> Result<bool, Error> {
        Ok(self.stage.tail()?.session().is_compared())
    }

    /// The source of the changes.
    ///
    /// # Errors
    /// The writer is broken.
    pub fn source(&self) -> Result<&Source, Error> {
        Ok(self.stage.tail()?.session().source())
    }

    /// Whether the transactions that are not published fill a segment.
    ///
    /// # Errors
    /// The writer is broken.
    pub fn is_full(&self) -> Result<bool, Error> {
        Ok(self.stage.tail()?.is_full())
    }

    /// Whether there are transactions or messages that are not published.
    ///
    /// # Errors
    /// The writer is broken.
    pub fn has_changes(&self) -> Result<bool, Error> {
        Ok(self.stage.tail()?.has_changes())
    }

    /// Sets the timeline of the next WAL, and where the timeline began, if that is known. They are
    /// as durable as the next changes.
    ///
    /// # Errors
    /// The writer is broken.
    pub fn set_timeline(&mut self, timeline: u32, start: Option<Lsn>) -> Result<(), Error> {
        let tail = self.stage.tail_mut()?;
        tail.learn(|session| session.set_timeline(timeline, start));
        Ok(())
    }

    /// Sets the options that the server is asked for. They are as durable as the next changes.
    ///
    /// If `messages` is a JSON string, the session takes only transactional logical messages with
    /// this prefix.
    ///
    /// # Errors
    /// The writer is broken.
    pub fn set_asked(&mut self, options: BTreeMap<String, String>) -> Result<(), Error> {
        let tail = self.stage.tail_mut()?;
        tail.learn(|session| session.set_asked(options));
        Ok(())
    }

    /// Sets where the slot begins, for a log that is empty. This LSN is as durable as the next
    /// changes.
    ///
    /// # Errors
    /// The writer is broken.
    pub fn set_slot_start(&mut self, lsn: Lsn) -> Result<(), Error> {
        let tail = self.stage.tail_mut()?;
        if !tail.end().is_valid() {
            tail.learn(|session| session.set_slot_start(lsn));
        }
        Ok(())
    }

    /// Sets which transactions may have been prepared before the slot begins, for a log that is
    /// empty: a commit of one of them is an error. The setting is as durable as the next changes.
    ///
    /// # Errors
    /// The writer is broken.
    pub fn set_prepared_before(
        &mut self,
        before: &PreparedBefore,
        assembler: &mut Assembler,
    ) -> Result<(), Error> {
        let tail = self.stage.tail_mut()?;
        if !tail.end().is_valid() {
            assembler.set_prepared_before(before.clone(), tail.end());
            tail.learn(|session| session.set_prepared_before(before));
        }
        Ok(())
    }

    /// Counts of the changes and segments since the writer was opened.
    pub const fn counts(&self) -> WriterCounts {
        self.counts
    }

    /// The definitions of types and tables.
    ///
    /// # Errors
    /// The writer is broken.
    pub fn catalog(&self) -> Result<&Catalog, Error> {
        Ok(self.stage.tail()?.publisher().catalog())
    }

    /// Adds definitions to the catalog. Each segment has the definitions that it uses. New
    /// definitions come before the transactions that [`Writer::fill`] has not given to the segment
    /// yet.
    ///
    /// # Errors
    /// The store failed.
    pub fn extend_catalog(&mut self, found: &Catalog) -> Result<(), Error> {
        let tail = self.stage.tail_mut()?;
        let publisher = tail.publisher_mut();
        let mut catalog = publisher.catalog().clone();
        catalog.extend(found);
        if catalog != *publisher.catalog() {
            write_catalog(&*self.store, &catalog)?;
            publisher.set_catalog(catalog);
        }
        Ok(())
    }

    /// The LSN where the durable changes end. After a restart, it may be later than the confirmed
    /// LSN. Then let the server begin at the confirmed LSN, and confirm no LSN until
    /// [`Writer::sync`] returns a later one. The log may lack transactions that were prepared
    /// between these LSNs. See [`Writer::resume`].
    pub const fn position(&self) -> Lsn {
        self.position
    }

    /// Appends all events of an assembler, and takes all input. Publishes parts of a transaction
    /// that is larger than a segment. Call [`Writer::publish`] if [`Writer::is_full`].
    ///
    /// # Errors
    /// The stream does not follow the protocol, or the store failed. After a failure of the store,
    /// the next call continues where this one stopped, with the rest of the input.
    pub fn append(&mut self, assembler: &mut Assembler, input: &mut &[u8]) -> Result<(), Error> {
        loop {
            self.cross(assembler)?;
            self.step(|stage| stage.take(|tail, place| tail.append(assembler, input, place)))?;
            if !matches!(self.stage, Stage::Crossing(..)) {
                return Ok(());
            }
        }
    }

    /// Records that the server has decoded everything up to this LSN, so that this LSN may be
    /// confirmed when it is durable. Otherwise, a quiet database would keep its WAL for ever.
    ///
    /// # Errors
    /// The server differs from the log's: see [`Writer::compare`].
    pub fn advance(&mut self, lsn: Lsn) -> Result<(), Error> {
        self.step(|stage| stage.take(|tail, place| tail.advance(lsn, place)))
    }

    /// Publishes that the server does not send the changes between the log's end and this LSN, with
    /// the code of the reason. Call this before [`Writer::resume`], between sessions. The next
    /// session begins at this LSN, and transactions that were prepared before it end as unknown.
    ///
    /// # Errors
    /// A load is not complete, or the store failed: another call tries again.
    pub fn cross_gap(&mut self, end: Lsn, reason: &str) -> Result<(), Error> {
        let reason = reason.to_owned();
        self.step(|stage| stage.cross_gap(|tail| tail.cross_gap(end, reason)))?;
        check(&*self.store)?;
        self.position = self.stage.tail()?.durable();
        Ok(())
    }

    /// Gives the whole transactions that fill blocks to the next segment, so that
    /// [`Writer::publish`] has less to do. Call it when the catalog has the definitions that these
    /// transactions use.
    ///
    /// # Errors
    /// The store failed. Another call, or [`Writer::publish`], begins the segment again.
    pub fn fill(&mut self) -> Result<(), Error> {
        self.with_tail(Tail::fill)
    }

    /// Makes all whole transactions durable, and all prepared transactions of the assembler. `None`
    /// if the log has never had durable changes.
    ///
    /// # Errors
    /// The store failed. Another call tries again. After [`ErrorKind::NotSynced`], the durable
    /// changes are not known, and the log must be opened again.
    pub fn sync(&mut self, assembler: &mut Assembler) -> Result<Option<Confirmable>, Error> {
        self.cross(assembler)?;
        let store = Arc::clone(&self.store);
        let durable = self.with_tail(|tail| {
            tail.sync(assembler)?;
            check(&*store)?;
            Ok(tail.durable())
        })?;
        self.position = durable;
        Ok(durable.is_valid().then_some(Confirmable(durable)))
    }

    /// Publishes all whole transactions as a segment, and returns its foot. `None` if no segment is
    /// due.
    ///
    /// # Errors
    /// The store failed: another call tries again. Another writer has published the segment.
    pub fn publish(&mut self, assembler: &mut Assembler) -> Result<Option<Foot>, Error> {
        self.cross(assembler)?;
        let store = Arc::clone(&self.store);
        let (foot, durable) = self.with_tail(|tail| {
            let foot = tail.publish(assembler)?;
            if foot.is_some() {
                check(&*store)?;
            }
            Ok((foot, tail.durable()))
        })?;
        self.position = durable;
        Ok(foot)
    }

    /// Whether the log lacks the load that it begins with, because the load was broken off. Then
    /// its slot is useless: drop the slot, and begin the load again.
    pub const fn lacks_first_load(&self) -> bool {
        self.stage.lacks_first_load()
    }

    /// Records that the log begins with a load, before its slot is created. Until the load is
    /// complete, a writer that opens the log finds it empty.
    ///
    /// # Errors
    /// The log is not empty, or the store failed.
    pub fn plan_first_load(&mut self) -> Result<(), Error> {
        let store = Arc::clone(&self.store);
        self.step(|stage| stage.plan_first_load(|place| keep_place(&*store, place)))
    }

    /// Begins a load of a snapshot, and keeps its place in the log. `point` is the consistent point
    /// of the snapshot. Only transactions that were committed before `point` may have been
    /// appended.
    ///
    /// # Errors
    /// A later transaction was appended, another load is not complete, or the store failed.
    pub fn begin_load(
        &mut self,
        point: Lsn,
        time: Timestamp,
        tables: Vec<Relation>,
    ) -> Result<Load, Error> {
        let (id, store) = (LoadId::next(), Arc::clone(&self.store));
        let note = |place: &Place| keep_place(&*store, place);
        let place = self.step(|stage| stage.begin_load(id, point, note))?;
        let tail = self.stage.tail()?;
        let options = LoadOptions {
            id,
            store: Arc::clone(&self.store),
            level: tail.shape().level,
            segment_bytes: tail.shape().segment_bytes,
            source: tail.session().source().clone(),
            catalog: tail.publisher().catalog().clone(),
        };
        Ok(Load::new(options, place, time, tables))
    }

    /// Publishes a load in its place, once everything before it was appended and published. Returns
    /// false until then.
    ///
    /// # Errors
    /// It is not the load that was begun last. The store failed: another call tries again.
    pub fn end_load(&mut self, load: &Load) -> Result<bool, Error> {
        let store = Arc::clone(&self.store);
        let mut filled = None;
        let ended = self.step(|stage| {
            stage.end_load(load.id(), |place, before| {
                let segments = load.publish(before)?;
                end_place(&*store, place.number, Some(place.point))?;
                filled = Some(place.start);
                Ok(segments)
            })
        })?;
        self.index_from(filled);
        Ok(ended)
    }

    /// Cancels a load. Fills its place in the log without the load.
    ///
    /// # Errors
    /// The log begins with this load: open the log again, which empties the log. It is not the load
    /// that was begun last. The store failed: another call tries again.
    pub fn give_up_load(&mut self, load: &Load, assembler: &mut Assembler) -> Result<(), Error> {
        self.cross(assembler)?;
        let store = Arc::clone(&self.store);
        let mut filled = None;
        self.step(|stage| {
            stage.give_up_load(load.id(), |place, behind| {
                load.give_up();
                if let Some((tail, before)) = behind {
                    let source = tail.session().source();
                    fill(place, &*store, source, tail.shape().level, before)?;
                    filled = Some(place.start);
                }
                let point = filled.map(|_| place.point);
                end_place(&*store, place.number, point)
            })
        })?;
        self.index_from(filled);
        Ok(())
    }

    /// Adds the segments from `start` on to the index. Segments behind a load were published before
    /// the load.
    fn index_from(&mut self, start: Option<Lsn>) {
        let Some(start) = start else {
            return;
        };
        let index = &mut self.index;
        let store = &*self.store;
        let add = || {
            let names = Listing::of(store)?.segments;
            for name in names.iter().filter(|name| name.start >= start) {
                let foot = Foot::read(store, *name)?;
                index.append(store, &foot)?;
            }
            Ok::<_, Error>(())
        };
        // [`Writer::open`] adds missing segments to the index.
        let _ = { add }();
    }
}

/// Refuses a log that is no longer where it was opened.
fn check(store: &dyn Store) -> Result<(), Error> {
    store.check().map_err(|error| Error::store("", &error))
}
