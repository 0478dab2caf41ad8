//! A stream without some columns or rows of a table.
//!
//! Everything else stays as it is, byte for byte. Where a row is left out, a fact says which seq the next
//! change has, so (commit LSN, seq) of all others stay the same.

use crate::log::error::{DamagedPart, Error, ErrorKind};
use crate::log::segment::{Foot, TableFoot};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use walrow_stream::{Catalog, Fact};
use walrow_wire::{
    Cell, Columns, Delete, Frame, Kind, Lsn, Message, Oid, OldTuple, Peek, Relation,
    ReplicaIdentity, Tuple, Update,
};

/// What is erased of some tables.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Erase {
    /// The tables.
    pub tables: HashSet<Oid>,
    /// The columns that are left out.
    pub columns: HashSet<String>,
    /// The changes that are left out, by commit LSN and seq.
    pub rows: BTreeMap<(Lsn, u64), Images>,
    /// Whether changes go that registered readers have not taken.
    pub force: bool,
}

/// Which images of a change are erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a change has no more")]
pub struct Images {
    /// The row before.
    pub old: bool,
    /// The row after.
    pub new: bool,
}

/// The state of a segment's stream.
#[derive(Debug)]
pub(crate) struct Erasing<'a> {
    erase: &'a Erase,
    /// Bytes of a frame that was cut.
    rest: Vec<u8>,
    relations: HashMap<Oid, Table>,
    commit_lsn: Lsn,
    /// The seq of the next change.
    seq: u64,
    first_seq: u64,
    /// Whether changes were left out since the last one.
    skipped: bool,
    is_inside: bool,
    /// What the tables have in the new stream.
    counts: Vec<TableFoot>,
    has_changed: bool,
    /// The tables of which the current transaction has lost rows.
    losing: BTreeSet<Oid>,
    /// Where the last transaction ends of which a table has lost rows.
    lost: BTreeMap<Oid, Lsn>,
}

/// A relation of the stream.
#[derive(Debug)]
struct Table {
    /// For each column, whether it is left out. Empty if none is.
    left_out: Vec<bool>,
    /// Its place in the counts.
    place: usize,
}

impl Table {
    fn cells<'a>(&self, tuple: Tuple<'a>) -> impl Iterator<Item = Cell<'a>> + use<'a, '_> {
        let cells = tuple.cells().enumerate();
        let kept = cells.filter(|(place, _)| !self.left_out.get(*place).is_some_and(|it| *it));
        kept.map(|(_, cell)| cell)
    }
}

impl<'a> Erasing<'a> {
    pub(crate) fn new(erase: &'a Erase) -> Self {
        Self {
            erase,
            rest: Vec::new(),
            relations: HashMap::new(),
            commit_lsn: Lsn::INVALID,
            seq: 0,
            first_seq: 0,
            skipped: false,
            is_inside: false,
            counts: Vec::new(),
            has_changed: false,
            losing: BTreeSet::new(),
            lost: BTreeMap::new(),
        }
    }

    /// Whether something was left out.
    pub(crate) const fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Where the last transaction ends of which rows were left out, by table.
    pub(crate) fn lost(&self) -> impl Iterator<Item = (Oid, Lsn)> + use<'_> {
        self.lost.iter().map(|(oid, end)| (*oid, *end))
    }

    /// Whether the stream so far ends between transactions.
    pub(crate) const fn is_between(&self) -> bool {
        !self.is_inside
    }

    /// Appends what stays of a chunk of the stream.
    pub(crate) fn take(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let mut bytes = std::mem::take(&mut self.rest);
        bytes.extend_from_slice(chunk);
        let mut rest = &*bytes;
        while let Ok(Some(size)) = Frame::size(rest) {
            let Some((frame, more)) = rest.split_at_checked(size) else {
                break;
            };
            match Peek::new(frame) {
                Some(peek) => self.frame(&peek, out)?,
                None => out.extend_from_slice(frame),
            }
            rest = more;
        }
        self.rest = rest.to_vec();
        Ok(())
    }

    /// Whether the stream ends with a whole frame.
    pub(crate) const fn is_whole(&self) -> bool {
        self.rest.is_empty()
    }

    fn frame(&mut self, peek: &Peek<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        let what = DamagedPart::Content;
        let fault = |_| Error::new("", ErrorKind::Damaged { what });
        match peek.kind() {
            Kind::Insert | Kind::Update | Kind::Delete => {
                let row = peek.row(false);
                let is_wanted = row.is_some_and(|row| self.relations.contains_key(&row.relation()));
                let seq = self.seq;
                self.seq = seq.saturating_add(1);
                if !is_wanted {
                    self.close_gap(seq, out);
                    out.extend_from_slice(peek.frame());
                    return Ok(());
                }
                let before = out.len();
                let message = peek.message(false).map_err(fault)?;
                let images = self.erase.rows.get(&(self.commit_lsn, seq));
                let images = images.copied().unwrap_or_default();
                if self.row(peek, &message, images, seq, out) {
                    return Ok(());
                }
                // Nothing of it stays.
                out.truncate(before);
                (self.skipped, self.has_changed) = (true, true);
            }
            Kind::Begin => {
                if let Ok(Message::Begin(begin)) = peek.message(false) {
                    self.commit_lsn = begin.final_lsn;
                }
                self.seq = std::mem::take(&mut self.first_seq);
                (self.is_inside, self.skipped) = (true, false);
                out.extend_from_slice(peek.frame());
            }
            Kind::Commit => {
                self.close_gap(self.seq, out);
                self.is_inside = false;
                if let Message::Commit(commit) = peek.message(false).map_err(fault)? {
                    let losing = std::mem::take(&mut self.losing);
                    self.lost
                        .extend(losing.into_iter().map(|oid| (oid, commit.end_lsn)));
                }
                out.extend_from_slice(peek.frame());
            }
            Kind::Relation => match peek.message(false).map_err(fault)? {
                Message::Relation(relation) if self.erase.tables.contains(&relation.oid) => {
                    self.relation(peek, &relation, out)?;
                }
                _ => out.extend_from_slice(peek.frame()),
            },
            Kind::Truncate => {
                self.close_gap(self.seq, out);
                self.seq = self.seq.saturating_add(1);
                if let Ok(Message::Truncate(truncate)) = peek.message(false) {
                    for oid in truncate.relations() {
                        if let Some(table) = self.relations.get(&oid)
                            && let Some(counts) = self.counts.get_mut(table.place)
                        {
                            counts.truncates = counts.truncates.saturating_add(1);
                        }
                    }
                }
                out.extend_from_slice(peek.frame());
            }
            Kind::Message => {
                let message = peek.message(false).map_err(fault)?;
                let fact = match &message {
                    Message::Message(message) => Fact::of(message),
                    _ => None,
                };
                self.message(peek, fact, out);
            }
            _ => out.extend_from_slice(peek.frame()),
        }
        Ok(())
    }

    /// Says which seq the next change has, if some before it were left out.
    fn close_gap(&mut self, next: u64, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.skipped) {
            Fact::Seq { next }.encode(true, out);
        }
    }

    fn message(&mut self, peek: &Peek<'_>, mut fact: Option<Fact>, out: &mut Vec<u8>) {
        if let Some(Fact::Catalog(catalog)) = &mut fact
            && erase_columns(catalog, self.erase)
        {
            self.has_changed = true;
            Fact::Catalog(std::mem::take(catalog)).encode(self.is_inside, out);
            return;
        }
        match fact {
            Some(Fact::Seq { next }) => {
                (self.seq, self.skipped) = (next, true);
                return;
            }
            Some(Fact::Part { first_seq }) => self.first_seq = first_seq,
            _ => {}
        }
        if self.is_inside {
            self.close_gap(self.seq, out);
        }
        out.extend_from_slice(peek.frame());
    }

    fn relation(
        &mut self,
        peek: &Peek<'_>,
        relation: &Relation<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let name = |name: walrow_wire::PgString<'_>| String::from_utf8_lossy(name.0).into_owned();
        let is_left_out = |column: &walrow_wire::Column<'_>| {
            self.erase
                .columns
                .contains(&*String::from_utf8_lossy(column.name.0))
        };
        let mut left_out: Vec<_> = relation.columns.iter().map(|it| is_left_out(&it)).collect();
        let mut columns = relation.columns.iter();
        let has_key = columns.any(|it| is_left_out(&it) && it.is_key());
        if has_key && relation.replica_identity != ReplicaIdentity::Full {
            return Err(Error::new("", ErrorKind::KeyColumn));
        }
        let kept = || relation.columns.iter().filter(|it| !is_left_out(it));
        let columns = kept();
        let columns = columns.map(|it| (name(it.name), it.type_oid, it.type_modifier, it.is_key()));
        let counts = TableFoot {
            oid: relation.oid,
            schema: name(relation.namespace),
            name: name(relation.name),
            columns: columns.collect(),
            identity: char::from(relation.replica_identity.letter()),
            rows: 0,
            truncates: 0,
            bytes: 0,
            last: Lsn::INVALID,
            loaded: None,
        };
        if left_out.contains(&true) {
            self.has_changed = true;
            let mut buffer = Vec::new();
            let columns = Columns::encoded(kept(), &mut buffer);
            let data = peek.data();
            let message = Message::Relation(Relation {
                columns,
                ..*relation
            });
            message.encode_in_frame(data.start, data.clock, out);
        } else {
            left_out.clear();
            out.extend_from_slice(peek.frame());
        }
        let known = self.counts.iter().position(|it| is_same(it, &counts));
        let place = known.unwrap_or(self.counts.len());
        if known.is_none() {
            self.counts.push(counts);
        }
        self.relations
            .insert(relation.oid, Table { left_out, place });
        Ok(())
    }

    /// Writes what stays of a row. Returns false if nothing does.
    fn row(
        &mut self,
        peek: &Peek<'_>,
        message: &Message<'_>,
        erased: Images,
        seq: u64,
        out: &mut Vec<u8>,
    ) -> bool {
        let (oid, old, new) = match message {
            Message::Insert(it) => (it.relation, None, Some(it.new)),
            Message::Update(it) => (it.relation, it.old, Some(it.new)),
            Message::Delete(it) => (it.relation, Some(it.old), None),
            _ => return true,
        };
        let Some(table) = self.relations.get(&oid) else {
            return true;
        };
        let place = table.place;
        // As with a row filter: a row that was another one, which is erased, is new for others.
        let is_update = matches!(message, Message::Update(_)) && !(old.is_some() && erased.old);
        let keeps_new = new.is_some() && !erased.new;
        // Without an old image, an update's key is that of the new one.
        let keeps_old = old.is_some() && !erased.old;
        let is_whole = keeps_new == new.is_some() && keeps_old == old.is_some();
        if !is_whole {
            self.losing.insert(oid);
        }
        if !keeps_new && !keeps_old {
            return false;
        }
        let is_unchanged = is_whole && table.left_out.is_empty();
        let (mut old_cells, mut new_cells) = (Vec::new(), Vec::new());
        let mut frame = Vec::new();
        if is_unchanged {
            frame.extend_from_slice(peek.frame());
        } else {
            let new = new.filter(|_| keeps_new);
            let new = new.map(|new| Tuple::encoded(table.cells(new), &mut new_cells));
            let old = old.filter(|_| keeps_old).map(|old| {
                let tuple = Tuple::encoded(table.cells(old.tuple()), &mut old_cells);
                match old {
                    OldTuple::Key(_) => OldTuple::Key(tuple),
                    _ => OldTuple::Full(tuple),
                }
            });
            let xid = None;
            let message = match (old, new) {
                // The row became one that is erased: for others, it was deleted.
                (Some(old), None) => Message::Delete(Delete {
                    xid,
                    relation: oid,
                    old,
                }),
                (old, Some(new)) if is_update => Message::Update(Update {
                    xid,
                    relation: oid,
                    old,
                    new,
                }),
                (_, Some(new)) => Message::Insert(walrow_wire::Insert {
                    xid,
                    relation: oid,
                    new,
                }),
                (None, None) => return false,
            };
            let data = peek.data();
            message.encode_in_frame(data.start, data.clock, &mut frame);
            self.has_changed = true;
        }
        self.close_gap(seq, out);
        out.extend_from_slice(&frame);
        if let Some(counts) = self.counts.get_mut(place) {
            counts.rows = counts.rows.saturating_add(1);
            counts.bytes = counts.bytes.saturating_add(frame.len() as u64);
        }
        true
    }

    /// The tables of a foot, as they are in the new stream.
    pub(crate) fn tables(self, foot: &Foot) -> Vec<TableFoot> {
        let mut tables: Vec<_> = foot.tables.clone();
        tables.retain(|it| !self.erase.tables.contains(&it.oid));
        for mut counts in self.counts {
            if counts.rows == 0 && counts.truncates == 0 {
                continue;
            }
            let before = foot.tables.iter().filter(|it| {
                let columns = it.columns.iter();
                let kept = columns.filter(|it| !self.erase.columns.contains(&it.0));
                it.oid == counts.oid && kept.eq(&counts.columns)
            });
            for before in before {
                counts.last = counts.last.max(before.last);
                counts.loaded = counts.loaded.max(before.loaded);
            }
            tables.push(counts);
        }
        tables
    }
}

fn is_same(one: &TableFoot, other: &TableFoot) -> bool {
    one.oid == other.oid
        && one.schema == other.schema
        && one.name == other.name
        && one.columns == other.columns
}

/// Leaves columns out of a catalog's tables. Returns whether there were any.
pub(crate) fn erase_columns(catalog: &mut Catalog, erase: &Erase) -> bool {
    let mut has_changed = false;
    for table in &mut catalog.tables {
        if erase.tables.contains(&table.oid) {
            let before = table.columns.len();
            table.columns.retain(|it| !erase.columns.contains(&it.name));
            has_changed |= table.columns.len() < before;
        }
    }
    has_changed
}
