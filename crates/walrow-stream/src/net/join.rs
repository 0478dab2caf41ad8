//! The nets of several units as one.

use crate::net::changes::Changes;
use crate::net::error::NetError;
use crate::net::heap::Id;
use crate::net::options::NetColumns;
use crate::net::part::{Block, Entry, Header};
use crate::net::record::{Head, Record, Row};
use crate::net::stored::Keep;
use crate::net::table::Table;
use crate::net::{Base, Net};
use std::collections::HashSet;
use walrow_wire::{Cell, Lsn, Tuple};

/// The parts of one partition together.
///
/// ```
/// use walrow_stream::{Net, NetJoin, NetOptions};
/// use walrow_wire::Lsn;
///
/// let unit = || Net::changes(16_400, NetOptions::default()); // and its changes
/// let mut parts = Vec::new();
/// for number in [0, 1] {
///     for (partition, bytes) in unit().split(8, Lsn(100))? {
///         parts.push((partition, number, bytes));
///     }
/// }
/// let mut join = NetJoin::new(Net::changes(16_400, NetOptions::default()));
/// let parts: Vec<_> = parts.iter().filter(|(partition, ..)| *partition == 3).collect();
/// for (_, _, bytes) in &parts {
///     join.note(bytes)?;
/// }
/// for (_, unit, bytes) in &parts {
///     join.add(*unit, bytes)?;
/// }
/// let entangled = join.take_entangled(); // for the join of all partitions
/// let rows = join.into_net().into_rows()?;
/// # assert!(entangled.is_none() && rows.tally().is_some());
/// # Ok::<(), walrow_stream::NetError>(())
/// ```
#[derive(Debug)]
pub struct NetJoin {
    net: Net,
    /// The hashes of keys that take part in moves.
    moved: HashSet<u64>,
    entangled: Vec<u8>,
    count: u64,
    end: Lsn,
    scratch: Scratch,
}

/// Memory for one entry.
#[derive(Debug, Default)]
struct Scratch {
    cells: Vec<u8>,
    record: Vec<u8>,
    row: Row,
    keep: Keep,
}

impl NetJoin {
    /// Begins with net changes without a change. The parts give the table's OID if it is 0.
    pub fn new(net: Net) -> Self {
        Self {
            net,
            moved: HashSet::new(),
            entangled: Vec::new(),
            count: 0,
            end: Lsn::INVALID,
            scratch: Scratch::default(),
        }
    }

    /// Looks for keys that take part in moves. Each part must be noted before the first is added.
    ///
    /// # Errors
    /// The bytes are not a part.
    pub fn note(&mut self, part: &[u8]) -> Result<(), NetError> {
        for block in Block::all(part)? {
            for entry in block.entries() {
                let entry = entry?;
                if entry.is_moved {
                    self.moved.insert(entry.hash);
                }
            }
        }
        Ok(())
    }

    /// Adds a part. Parts come in the order of their units.
    ///
    /// # Errors
    /// The bytes are not a part of this table. The columns of the units do not fit together. The spool
    /// failed.
    pub fn add(&mut self, unit: u64, part: &[u8]) -> Result<(), NetError> {
        for block in Block::all(part)? {
            let header = block.header()?;
            if header.barrier.is_some() {
                // Nothing before it counts.
                self.entangled.clear();
                self.count = 0;
                Block::encode_left(unit, header.clone(), &[], &mut self.entangled)?;
            }
            self.begin(&header)?;
            let mut left = Vec::new();
            for entry in block.entries() {
                let entry = entry?;
                if self.moved.contains(&entry.hash) {
                    entry.encode(&mut left)?;
                    self.count = self.count.saturating_add(1);
                    continue;
                }
                let id = self.compose(&entry)?;
                self.write(id.0, id.1)?;
            }
            // The columns of the last unit count, whether or not it has such changes.
            let (_, changes, _) = self.parts()?;
            if !left.is_empty() || changes.options.columns == NetColumns::Last {
                Block::encode_left(unit, header, &left, &mut self.entangled)?;
            }
        }
        Ok(())
    }

    /// Adds what [`NetJoin::take_entangled`] returned for all partitions. Nothing is left out.
    ///
    /// # Errors
    /// As [`NetJoin::add`].
    pub fn add_entangled(&mut self, parts: &[&[u8]]) -> Result<(), NetError> {
        let mut blocks = Vec::new();
        for part in parts {
            blocks.extend(Block::all(part)?);
        }
        blocks.sort_by_key(|block| block.unit);
        for unit in blocks.chunk_by(|one, other| one.unit == other.unit) {
            self.add_at_once(unit)?;
        }
        Ok(())
    }

    /// Adds all entries of a unit at once: no entry sees the records that the others write.
    fn add_at_once(&mut self, blocks: &[Block<'_>]) -> Result<(), NetError> {
        let mut staged: Vec<(Id, Option<usize>)> = Vec::new();
        let mut bytes = Vec::new();
        for (number, block) in blocks.iter().enumerate() {
            let mut header = block.header()?;
            if number > 0 {
                // The others have the same barrier and versions.
                header.barrier = None;
                self.count_events(&header)?;
            } else {
                self.begin(&header)?;
            }
            for entry in block.entries() {
                let (id, is_kept) = self.compose(&entry?)?;
                bytes.extend_from_slice(&self.scratch.record);
                staged.push((id, is_kept.then_some(self.scratch.record.len())));
                if !is_kept {
                    bytes.truncate(bytes.len().saturating_sub(self.scratch.record.len()));
                }
            }
        }
        let mut rest = &*bytes;
        for (id, size) in staged {
            let (record, after) = rest
                .split_at_checked(size.unwrap_or(0))
                .ok_or(NetError::Part)?;
            rest = after;
            self.scratch.record.clear();
            self.scratch.record.extend_from_slice(record);
            self.write(id, size.is_some())?;
        }
        Ok(())
    }

    /// The changes that were left out, if there are any.
    pub fn take_entangled(&mut self) -> Option<Vec<u8>> {
        let entangled = std::mem::take(&mut self.entangled);
        (self.count > 0).then_some(entangled)
    }

    /// The number of changes that were left out.
    pub const fn entangled(&self) -> u64 {
        self.count
    }

    /// The LSN where the last unit ends.
    pub const fn end(&self) -> Lsn {
        self.end
    }

    /// The net changes.
    pub fn into_net(self) -> Net {
        self.net
    }

    fn parts(&mut self) -> Result<(&mut Table, &mut Changes, &mut Scratch), NetError> {
        match &mut self.net {
            Net {
                table,
                base: Base::Unknown(changes),
            } => Ok((table, changes, &mut self.scratch)),
            _ => Err(NetError::Part),
        }
    }

    fn count_events(&mut self, header: &Header) -> Result<(), NetError> {
        let (_, changes, _) = self.parts()?;
        changes.events = changes.events.saturating_add(header.events);
        changes.moves = changes.moves.saturating_add(header.moves);
        Ok(())
    }

    /// Takes what a part has besides its entries.
    fn begin(&mut self, header: &Header) -> Result<(), NetError> {
        self.end = self.end.max(Lsn(header.end));
        let (table, changes, _) = self.parts()?;
        if table.oid == 0 {
            table.oid = header.oid;
        }
        if table.oid != header.oid || header.keys.is_empty() {
            return Err(NetError::Part);
        }
        table.commit_lsn = Lsn(header.lsn);
        table.has_binary = true;
        table.time = header.time();
        table.catalog.extend(&header.catalog);
        changes.clears |= header.clears;
        match header.barrier() {
            Some(barrier) => changes.clear(table, barrier, header.events),
            None => changes.events = changes.events.saturating_add(header.events),
        }
        changes.moves = changes.moves.saturating_add(header.moves);
        changes.layout.keys = Some(header.keys.clone());
        for seen in header.versions()? {
            let relation = &seen.relation;
            changes.layout.take_version(table, relation, seen.numbers)?;
        }
        Ok(())
    }

    /// Makes the record of an entry, which continues the earlier record of its head. Returns its
    /// key, and whether the key gets the record. If not, the key loses its record.
    fn compose(&mut self, entry: &Entry<'_>) -> Result<(Id, bool), NetError> {
        let (table, changes, scratch) = self.parts()?;
        let Scratch {
            cells,
            record: out,
            row,
            keep,
        } = scratch;
        let mut record = Record::parse(entry.record).ok_or(NetError::Part)?;
        let id = if record.is_row {
            let columns = changes.layout.incoming_columns(table);
            let columns = u16::try_from(columns).map_err(|_| NetError::Part)?;
            let found = Tuple::of(columns, record.cells).ok_or(NetError::Part)?;
            let missing = match record.head {
                Head::None => Cell::Null,
                Head::Own | Head::Other => Cell::Unchanged,
            };
            let found = changes.layout.row(found, missing, cells);
            let found = found.ok_or(NetError::Part)?;
            record.cells = found.bytes();
            table.id_in(found)?
        } else {
            table.id_of_cells(record.cells)?
        };
        let is_kept = changes.compose(table, id, &record, out, row, keep)?;
        Ok((id, is_kept))
    }

    /// Gives a key the record that was made last, or none.
    fn write(&mut self, id: Id, is_kept: bool) -> Result<(), NetError> {
        let (table, _, scratch) = self.parts()?;
        if is_kept {
            let version = table.versions.last();
            table.heap.replace(id, version, &scratch.record)?;
        } else {
            table.heap.remove(id)?;
        }
        Ok(())
    }
}

impl Net {
    /// The net changes of this range and of the next range, which ends at `end`.
    ///
    /// # Errors
    /// The columns of the two do not fit together. At the end of one, several rows have one key. The
    /// spool failed.
    pub fn then(mut self, next: Self, end: Lsn) -> Result<Self, NetError> {
        if let Base::Unknown(changes) = &mut self.base {
            changes.settle(&mut self.table)?;
        }
        let mut join = NetJoin::new(self);
        for (_, part) in next.split(1, end)? {
            join.add_entangled(&[&part])?;
        }
        Ok(join.into_net())
    }
}
