//! The truth in a world, and the contents that a log must therefore have.

use super::choices::Choices;
use super::coverage::Act;
use super::disk::{Disk, Inode, Life, digest};
use super::store::Process;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use walrow_log::{Log, Plan, Writer, WriterOptions};
use walrow_stream::{Assembler, Event, Relation};
use walrow_wire::Lsn;

/// A transaction or a message.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) end: Lsn,
    pub(crate) is_load: bool,
    pub(crate) lines: Vec<String>,
    digest: u64,
}

impl Unit {
    fn new(end: Lsn, is_load: bool, lines: Vec<String>) -> Arc<Self> {
        let digest = digest(&(end.0, is_load, &lines));
        Arc::new(Self {
            end,
            is_load,
            lines,
            digest,
        })
    }
}

/// A load that was begun.
#[derive(Clone, Debug)]
pub(crate) struct LoadTruth {
    pub(crate) point: Lsn,
    pub(crate) rows: usize,
    /// Whether its end was confirmed.
    pub(crate) is_ended: bool,
    /// The process that writes it, unless it was given up.
    pub(crate) by: Option<Life>,
}

/// A value that the eraser removes.
#[derive(Clone, Debug)]
pub(crate) struct Secret {
    pub(crate) value: Vec<u8>,
    pub(crate) end: Lsn,
    /// Whether an erasure may have taken it.
    pub(crate) is_erasing: bool,
    pub(crate) is_erased: bool,
}

/// The view of a new reader: where the log begins and ends, and its transactions.
type View = (Lsn, Lsn, Units);

pub(crate) type Units = Vec<Arc<Unit>>;

/// Earlier results, by the objects that they depend on.
#[derive(Debug, Default)]
struct Cache {
    /// The contents of segments.
    segments: HashMap<u64, Units>,
    views: HashMap<u64, View>,
    /// The position of a writer, whether it lacks a first load, and the view after its repairs.
    writers: HashMap<u64, (Lsn, Option<View>)>,
}

/// The facts that the checks compare a log with.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts")]
pub(crate) struct Truth {
    /// The transactions and messages of the server, in order.
    pub(crate) units: Arc<Units>,
    pub(crate) loads: Vec<LoadTruth>,
    /// The greatest position that a sync has returned.
    pub(crate) confirmed: Lsn,
    /// The greatest confirmed position that the server has received.
    pub(crate) flushed: Lsn,
    /// All confirmed positions that the server has received.
    flushes: Vec<Lsn>,
    /// The processes that have a writer open.
    pub(crate) writers: BTreeSet<Life>,
    /// The positions of registered readers.
    pub(crate) readers: BTreeMap<String, Lsn>,
    /// The greatest LSN of a forced removal. It may have removed segments that readers need.
    pub(crate) forced: Lsn,
    pub(crate) secret: Option<Secret>,
    /// Whether the log begins with a load that is not complete.
    pub(crate) lacks_first_load: bool,
    /// Whether an object is missing, because somebody has removed it by hand. Then the log may be
    /// refused, but no view of it may be wrong.
    pub(crate) is_lacking: bool,
    /// Whether somebody has ever removed an object by hand.
    pub(crate) has_lacked: bool,
    /// How often a writer has opened the log or repaired it, and the processes that are about to.
    pub(crate) opened: u64,
    pub(crate) opening: BTreeSet<Life>,
    /// The processes whose journal somebody has removed.
    pub(crate) outdated: BTreeSet<Life>,
    /// The locks that somebody has removed.
    pub(crate) removed_locks: Vec<(Act, Inode)>,
    /// Whether the store may give a name after it returned an error.
    pub(crate) has_late: bool,
    /// Whether a power loss may take a name and leave a later name.
    pub(crate) is_unordered: bool,
    /// Counts changes.
    pub(crate) changes: u64,
    cache: Arc<Mutex<Cache>>,
}

/// The transactions and messages of a stream.
pub(crate) fn units(mut stream: &[u8]) -> Result<Units, String> {
    let mut assembler = Assembler::default();
    let (mut found, mut lines, mut is_load) = (Vec::new(), Vec::new(), false);
    let plain = |relation: &Relation| {
        let mut relation = relation.clone();
        relation.version = 0;
        relation
    };
    loop {
        let event = assembler.next(&mut stream);
        match event.map_err(|error| error.to_string())? {
            None => break,
            Some(Event::Begin(it)) => {
                is_load = it.snapshot;
                lines = vec![format!("{it:?}")];
            }
            Some(Event::Change(it)) => {
                let row = (it.seq, it.lsn, it.row);
                lines.push(format!("{row:?} {:?}", plain(it.relation)));
            }
            Some(Event::Truncate(it)) => {
                let relations: Vec<_> = it.relations.iter().map(|it| plain(it)).collect();
                lines.push(format!("{} {} {relations:?}", it.seq, it.lsn));
            }
            Some(Event::Message(it)) if it.transactional => lines.push(format!("{it:?}")),
            Some(Event::Message(it)) => {
                found.push(Unit::new(it.lsn, false, vec![format!("{it:?}")]));
            }
            Some(Event::Commit { transaction, .. }) => {
                let lines = std::mem::take(&mut lines);
                found.push(Unit::new(transaction.end_lsn, is_load, lines));
            }
            Some(_) => {}
        }
    }
    if assembler.is_mid_transaction() {
        return Err("it ends inside a transaction".to_owned());
    }
    Ok(found)
}

/// The stream of these segments.
pub(crate) fn read(
    log: &Log,
    names: &[walrow_log::SegmentName],
) -> Result<Vec<u8>, walrow_log::Error> {
    let (mut stream, mut chunk) = (Vec::new(), Vec::new());
    let mut reader = log.read(names, Lsn::INVALID)?;
    while reader.read(&mut chunk)? {
        stream.extend_from_slice(&chunk);
    }
    Ok(stream)
}

/// A fault of a log.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// It is refused with an error.
    Refused(String),
    /// A reader finds wrong contents.
    View(String),
}

impl Wrong {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Refused(what) | Self::View(what) => what,
        }
    }
}

impl From<String> for Wrong {
    fn from(what: String) -> Self {
        Self::View(what)
    }
}

impl Truth {
    /// Begins again. The log was emptied, because it lacks its first load.
    pub(crate) fn begin_again(&mut self) {
        (self.confirmed, self.flushed) = (Lsn::INVALID, Lsn::INVALID);
        self.flushes.clear();
        self.loads.clear();
        if let Some(secret) = &mut self.secret {
            (secret.is_erasing, secret.is_erased) = (false, false);
        }
        self.lacks_first_load = true;
        self.changes += 1;
    }

    /// A writer has returned a position.
    pub(crate) fn confirm(&mut self, life: Life, position: Lsn) -> Result<(), String> {
        if position > self.confirmed {
            if self.writers.iter().any(|it| *it != life) {
                return Err(format!("writers: two are open, and one returns {position}"));
            }
            self.confirmed = position;
            self.changes += 1;
        }
        Ok(())
    }

    /// The server has received a confirmed position.
    pub(crate) fn flush(&mut self, position: Lsn) {
        self.flushed = self.flushed.max(position);
        self.flushes.push(self.flushed);
    }

    /// Checks the disk after a step.
    pub(crate) fn check(&self, disk: &Disk, has_seen: bool, has_kept: bool) -> Result<(), String> {
        if has_seen {
            let seen = self.check_reader(disk, "reader");
            self.unless_refused(seen)?;
        }
        if has_kept {
            let erased = self.secret.as_ref().filter(|it| it.is_erased);
            if let Some(name) = erased.and_then(|it| disk.has(&it.value)) {
                return Err(format!("erased: {name} has the value"));
            }
            let position = self.check_recovery(disk.after_loss(), "recovery");
            let Some(position) = self.unless_refused(position)? else {
                return Ok(());
            };
            if position < self.confirmed && !self.lacks_first_load && !self.is_lacking {
                let confirmed = self.confirmed;
                return Err(format!(
                    "recovery: at {position}, and {confirmed} was confirmed"
                ));
            }
        }
        Ok(())
    }

    /// A writer has opened a log that may lack an object. Returns whether a receiver goes on: it
    /// refuses a log that ends before the confirmed LSN of the slot.
    pub(crate) fn open_at(&mut self, position: Lsn) -> Result<bool, String> {
        if position < self.confirmed && !self.is_lacking {
            let confirmed = self.confirmed;
            return Err(format!(
                "opened at {position}, and {confirmed} was confirmed"
            ));
        }
        if position < self.flushed {
            return Ok(false);
        }
        self.confirmed = self.confirmed.min(position);
        self.opened += 1;
        Ok(true)
    }

    /// If an object is missing, the log may be refused.
    fn unless_refused<T>(&self, result: Result<T, Wrong>) -> Result<Option<T>, String> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Wrong::Refused(_)) if self.is_lacking => Ok(None),
            Err(wrong) => Err(wrong.text()),
        }
    }

    /// Somebody has removed the journal by hand, with all changes that are in no segment. From now
    /// on, the log must have the changes up to this position.
    pub(crate) fn lose_journal(&mut self, position: Lsn, choices: &mut Choices) {
        self.confirmed = self.confirmed.min(position);
        self.flushes.retain(|it| *it <= position);
        if self.flushed > position {
            // A receiver refuses the log, unless the server was set back, too. Its slot has then
            // any position that it had: "The current position of each slot is persisted only at
            // checkpoint, so in the case of a crash the slot may return to an earlier LSN"
            // (PostgreSQL's manual, Logical Decoding Concepts). The end of the segments may be
            // between two of them.
            let earlier = choices.next(self.flushes.len() + 1).checked_sub(1);
            self.flushed = earlier.map_or(Lsn::INVALID, |it| self.flushes[it]);
        }
        self.outdated.extend(&self.writers);
        self.forget_writers();
        self.changes += 1;
    }

    /// Whether a writer runs without the other one of its two locks, which somebody has removed. Its
    /// log is then no longer protected: "removing one of the two does not let a second writer in"
    /// (docs/log.md).
    pub(crate) fn lacks_other_lock(&self, act: Act, disk: &Disk) -> bool {
        let mut removed = self.removed_locks.iter();
        removed.any(|(known, inode)| *known != act && disk.has_lock(*inode))
    }

    /// The processes that have a writer open must not return positions any more.
    pub(crate) fn forget_writers(&mut self) {
        self.writers.clear();
        self.loads.iter_mut().for_each(|it| it.by = None);
    }

    /// Opens the log with a writer. Returns the end of the log.
    pub(crate) fn check_recovery(&self, disk: Disk, what: &str) -> Result<Lsn, Wrong> {
        let names = disk.names();
        let key = names.map(|(name, inode)| (name, disk.digest(inode)));
        let key = digest(&key.collect::<Vec<_>>());
        let known = self.cache().writers.get(&key).cloned();
        let (position, view) = if let Some(known) = known {
            known
        } else {
            let found = self.recovered(disk, what)?;
            self.cache().writers.insert(key, found.clone());
            found
        };
        let Some((start, end, units)) = view else {
            return Ok(self.confirmed.max(position));
        };
        self.compare(what, start, position.max(end), &units)?;
        Ok(position)
    }

    fn recovered(&self, disk: Disk, what: &str) -> Result<(Lsn, Option<View>), Wrong> {
        let process = Process::alone(disk);
        let mut options = WriterOptions::default();
        options.level = None;
        let writer = Writer::open(Arc::new(process.clone()), options);
        let writer =
            writer.map_err(|error| Wrong::Refused(format!("{what}: a writer: {error}")))?;
        let position = writer.position();
        if writer.lacks_first_load() {
            return Ok((position, None));
        }
        drop(writer);
        Ok((position, Some(self.seen(&process.disk(), what)?)))
    }

    fn check_reader(&self, disk: &Disk, what: &str) -> Result<(), Wrong> {
        let has_journal = disk.inode("_open").is_ok();
        if !has_journal && !disk.names().any(|(name, _)| name.contains(".wire.")) {
            return Ok(());
        }
        let (start, end, units) = self.seen(disk, what)?;
        self.compare(what, start, end, &units)?;
        for (name, position) in &self.readers {
            if *position < start && start > self.forced {
                return Err(Wrong::View(format!(
                    "boundary: {start}, and the reader {name} is at {position}"
                )));
            }
        }
        Ok(())
    }

    fn seen(&self, disk: &Disk, what: &str) -> Result<View, Wrong> {
        let names = disk.names().filter(|(name, _)| {
            let others = ["_lock", "_upkeep", "_writer"];
            !others.contains(&name.as_str()) && Act::removes(name) != Some(Act::RemovesReader)
        });
        // Readers do not look into the journal.
        let key = names.map(|(name, inode)| {
            let is_read = name != "_open";
            (name, is_read.then(|| disk.digest(inode)))
        });
        let key = digest(&key.collect::<Vec<_>>());
        let known = self.cache().views.get(&key).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let process = Process::alone(disk.clone());
        let error = |error: walrow_log::Error| Wrong::Refused(format!("{what}: {error}"));
        let log = Log::open(Arc::new(process)).map_err(error)?;
        let names = log.plan(&Plan::default()).map_err(error)?;
        let mut units_seen = Vec::new();
        let mut chain = Vec::new();
        for name in names {
            chain.push(name);
            let segment = log.segments().iter().find(|it| it.name() == name);
            if segment.is_some_and(|it| it.continues) {
                continue;
            }
            let key = chain.iter().map(|name| {
                let name = name.to_string();
                let inode = disk.inode(&name).ok()?;
                Some((name, disk.digest(inode)))
            });
            let key = key.collect::<Option<Vec<_>>>().map(|it| digest(&it));
            let known = key.and_then(|key| self.cache().segments.get(&key).cloned());
            let found = if let Some(known) = known {
                known
            } else {
                let stream = read(&log, &chain).map_err(error)?;
                let found = units(&stream);
                let found = found.map_err(|it| Wrong::View(format!("{what}: {it}")))?;
                if let Some(key) = key {
                    self.cache().segments.insert(key, found.clone());
                }
                found
            };
            units_seen.extend(found);
            chain.clear();
        }
        let view = (log.start(), log.end(), units_seen);
        self.cache().views.insert(key, view.clone());
        Ok(view)
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares transactions with all expected transactions after `start` and up to `end`, in
    /// order, with the loads between them.
    pub(crate) fn compare(
        &self,
        what: &str,
        start: Lsn,
        end: Lsn,
        found: &[Arc<Unit>],
    ) -> Result<(), String> {
        let mut loads: Vec<_> = self.loads.iter().collect();
        loads.retain(|load| load.point > start && load.point <= end);
        for unit in found.iter().filter(|it| it.is_load) {
            let Some(place) = loads.iter().position(|it| it.point == unit.end) else {
                return Err(format!("{what}: a load at {} that nobody began", unit.end));
            };
            let load = loads.swap_remove(place);
            // A load also has its begin and the truncate.
            if unit.lines.len() != load.rows + 2 {
                let (rows, lines) = (load.rows, unit.lines.len());
                return Err(format!("{what}: {lines} lines of a load with {rows} rows"));
            }
        }
        if let Some(load) = loads.iter().find(|it| it.is_ended) {
            return Err(format!("{what}: the load at {} is missing", load.point));
        }
        let runs = |load: &&&LoadTruth| load.by.is_some_and(|it| self.writers.contains(&it));
        if let Some(load) = loads.iter().find(runs).filter(|_| what == "reader") {
            return Err(format!("{what}: passes the load at {}", load.point));
        }
        let ends: Vec<_> = found.iter().map(|it| it.end).collect();
        if !ends.is_sorted() {
            return Err(format!("{what}: not in order: {ends:?}"));
        }
        let expected = self.units.iter();
        let mut expected = expected.filter(|it| it.end > start && it.end <= end);
        for unit in found.iter().filter(|it| !it.is_load && it.end > start) {
            match expected.next() {
                Some(it) if self.is_same(what, it, unit) => {}
                Some(it) if it.end == unit.end => {
                    let (known, found) = (&it.lines, &unit.lines);
                    let pairs = known.iter().zip(found).find(|(one, other)| one != other);
                    let end = unit.end;
                    return Err(format!("{what}: other contents at {end}: {pairs:?}"));
                }
                Some(it) => {
                    let (found, expected) = (unit.end, it.end);
                    return Err(format!("{what}: {found}, and {expected} is next"));
                }
                None => return Err(format!("{what}: {} is one too many", unit.end)),
            }
        }
        match expected.next() {
            Some(it) => Err(format!(
                "{what}: {} is missing, and it ends at {end}",
                it.end
            )),
            None => Ok(()),
        }
    }

    fn is_same(&self, what: &str, expected: &Unit, found: &Unit) -> bool {
        if expected.digest == found.digest {
            // A reader that opened the segment before the erasure reads the old bytes.
            let is_new = !["following", "plan"].contains(&what);
            let erased = self.secret.as_ref().filter(|it| it.is_erased && is_new);
            return erased.is_none_or(|it| it.end != found.end);
        }
        let Some(secret) = self.secret.as_ref().filter(|it| it.is_erasing) else {
            return false;
        };
        let value = format!("{:?}", secret.value);
        let mut lines = expected.lines.clone();
        lines.retain(|line| !line.contains(&value));
        expected.end == found.end && lines == found.lines
    }
}
