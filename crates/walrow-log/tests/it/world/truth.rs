//! The truth in a world, and the contents that a log must therefore have.

use super::disk::{Disk, Life};
use super::store::Process;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use walrow_log::{Log, Plan, Writer, WriterOptions};
use walrow_stream::{Assembler, Event, Relation};
use walrow_wire::Lsn;

/// A transaction or a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) end: Lsn,
    pub(crate) is_load: bool,
    pub(crate) lines: Vec<String>,
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

/// The contents of segments, by their names and bytes.
type Cache = HashMap<Vec<(String, Vec<u8>)>, Arc<Vec<Unit>>>;

/// The facts that the checks compare a log with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Truth {
    /// The transactions and messages of the server, in order.
    pub(crate) units: Arc<Vec<Unit>>,
    pub(crate) loads: Vec<LoadTruth>,
    /// The greatest position that a sync has returned.
    pub(crate) confirmed: Lsn,
    /// The greatest confirmed position that the server has received.
    pub(crate) flushed: Lsn,
    /// The processes that have a writer open.
    pub(crate) writers: BTreeSet<Life>,
    /// The positions of registered readers.
    pub(crate) readers: BTreeMap<String, Lsn>,
    /// The greatest LSN of a forced removal. It may have removed segments that readers need.
    pub(crate) forced: Lsn,
    pub(crate) secret: Option<Secret>,
    /// Whether the log begins with a load that is not complete.
    pub(crate) lacks_first_load: bool,
    /// Whether the store may give a name after it returned an error.
    pub(crate) has_late: bool,
    /// Whether a power loss may take a name and leave a later name.
    pub(crate) is_unordered: bool,
    /// Counts changes.
    pub(crate) changes: u64,
    cache: Cache,
}

/// The transactions and messages of a stream.
pub(crate) fn units(mut stream: &[u8]) -> Result<Vec<Unit>, String> {
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
            Some(Event::Message(it)) => found.push(Unit {
                end: it.lsn,
                is_load: false,
                lines: vec![format!("{it:?}")],
            }),
            Some(Event::Commit { transaction, .. }) => found.push(Unit {
                end: transaction.end_lsn,
                is_load,
                lines: std::mem::take(&mut lines),
            }),
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
    let mut stream = Vec::new();
    for name in names {
        let (mut segment, mut chunk) = (log.segment(*name)?, Vec::new());
        while segment.read(&mut chunk)? {
            stream.extend_from_slice(&chunk);
        }
    }
    Ok(stream)
}

impl Truth {
    /// Begins again. The log was emptied, because it lacks its first load.
    pub(crate) fn begin_again(&mut self) {
        (self.confirmed, self.flushed) = (Lsn::INVALID, Lsn::INVALID);
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

    /// Checks the disk after a step.
    pub(crate) fn check(
        &mut self,
        disk: &Disk,
        has_seen: bool,
        has_kept: bool,
    ) -> Result<(), String> {
        if has_seen {
            self.check_reader(disk, "reader")?;
        }
        if has_kept {
            let erased = self.secret.as_ref().filter(|it| it.is_erased);
            if let Some(name) = erased.and_then(|it| disk.has(&it.value)) {
                return Err(format!("erased: {name} has the value"));
            }
            let position = self.check_recovery(disk.after_loss(), "recovery")?;
            if position < self.confirmed && !self.lacks_first_load {
                let confirmed = self.confirmed;
                return Err(format!(
                    "recovery: at {position}, and {confirmed} was confirmed"
                ));
            }
        }
        Ok(())
    }

    /// Opens the log with a writer. Returns the end of the log.
    pub(crate) fn check_recovery(&mut self, disk: Disk, what: &str) -> Result<Lsn, String> {
        let process = Process::alone(disk);
        let mut options = WriterOptions::default();
        options.level = None;
        let writer = Writer::open(Arc::new(process.clone()), options);
        let writer = writer.map_err(|error| format!("{what}: a writer: {error}"))?;
        let position = writer.position();
        if writer.lacks_first_load() {
            return Ok(self.confirmed.max(position));
        }
        drop(writer);
        let (start, end, units) = self.seen(&process.disk(), what)?;
        self.compare(what, start, position.max(end), &units)?;
        Ok(position)
    }

    fn check_reader(&mut self, disk: &Disk, what: &str) -> Result<(), String> {
        let has_journal = disk.inode("_open").is_ok();
        if !has_journal && !disk.names().any(|(name, _)| name.contains(".wire.")) {
            return Ok(());
        }
        let (start, end, units) = self.seen(disk, what)?;
        self.compare(what, start, end, &units)?;
        for (name, position) in &self.readers {
            if *position < start && start > self.forced {
                return Err(format!(
                    "boundary: {start}, and the reader {name} is at {position}"
                ));
            }
        }
        Ok(())
    }

    /// The view of a new reader: the beginning and end of the log, and its transactions.
    fn seen(&mut self, disk: &Disk, what: &str) -> Result<(Lsn, Lsn, Vec<Unit>), String> {
        let process = Process::alone(disk.clone());
        let error = |error: walrow_log::Error| format!("{what}: {error}");
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
                Some((name, disk.bytes(inode).to_vec()))
            });
            let key: Option<Vec<_>> = key.collect();
            let known = key.as_ref().and_then(|key| self.cache.get(key)).cloned();
            let found = if let Some(known) = known {
                known
            } else {
                let stream = read(&log, &chain).map_err(error)?;
                let found = units(&stream).map_err(|it| format!("{what}: {it}"))?;
                let found = Arc::new(found);
                if let Some(key) = key {
                    self.cache.insert(key, Arc::clone(&found));
                }
                found
            };
            units_seen.extend(found.iter().cloned());
            chain.clear();
        }
        Ok((log.start(), log.end(), units_seen))
    }

    /// Compares transactions with all expected transactions after `start` and up to `end`, in
    /// order, with the loads between them.
    pub(crate) fn compare(
        &self,
        what: &str,
        start: Lsn,
        end: Lsn,
        found: &[Unit],
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
        if expected == found {
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
