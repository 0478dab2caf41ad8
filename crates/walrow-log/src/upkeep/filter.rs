//! A stream without some columns or rows of a table.
//!
//! All other bytes stay as they are. Where a row is left out, a fact says which seq the next change
//! has. So (commit LSN, seq) of all other changes stay the same.

use crate::error::{DamagedPart, Error, ErrorKind};
use crate::format::whole_frames::WholeFrames;
use crate::upkeep::columns::ErasedColumns;
use crate::upkeep::erase::{Erase, Images};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use walrow_stream::Fact;
use walrow_wire::{
    Cell, Columns, Delete, Kind, Lsn, Message, Oid, OldTuple, Peek, Relation, ReplicaIdentity,
    Tuple, Update,
};

/// The state of a segment's stream.
#[derive(Debug)]
pub(crate) struct Filter<'a> {
    erase: &'a Erase,
    columns: &'a ErasedColumns,
    frames: WholeFrames,
    relations: HashMap<Oid, Table>,
    commit_lsn: Lsn,
    /// The seq of the next change.
    seq: u64,
    first_seq: u64,
    /// Whether changes were left out since the last one.
    skipped: bool,
    is_inside: bool,
    has_changed: bool,
    /// The tables that lose rows in the current transaction.
    losing: BTreeSet<Oid>,
    /// For each table, the LSN where the last transaction with lost rows ends.
    lost: BTreeMap<Oid, Lsn>,
}

/// A relation of the stream: for each column, whether it is left out. Empty if all columns stay.
#[derive(Debug)]
struct Table(Vec<bool>);

impl Table {
    fn cells<'a>(&self, tuple: Tuple<'a>) -> impl Iterator<Item = Cell<'a>> + use<'a, '_> {
        let cells = tuple.cells().enumerate();
        let kept = cells.filter(|(place, _)| !self.0.get(*place).is_some_and(|it| *it));
        kept.map(|(_, cell)| cell)
    }
}

impl<'a> Filter<'a> {
    pub(crate) fn new(erase: &'a Erase, columns: &'a ErasedColumns) -> Self {
        Self {
            erase,
            columns,
            frames: WholeFrames::default(),
            relations: HashMap::new(),
            commit_lsn: Lsn::INVALID,
            seq: 0,
            first_seq: 0,
            skipped: false,
            is_inside: false,
            has_changed: false,
            losing: BTreeSet::new(),
            lost: BTreeMap::new(),
        }
    }

    /// Whether columns or rows were left out.
    pub(crate) const fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// For each table, the LSN where the last transaction with lost rows ends.
    pub(crate) fn lost(&self) -> impl Iterator<Item = (Oid, Lsn)> + use<'_> {
        self.lost.iter().map(|(oid, end)| (*oid, *end))
    }

    /// Whether the stream so far ends between transactions.
    pub(crate) const fn is_between(&self) -> bool {
        !self.is_inside
    }

    /// Appends the parts of a chunk of the stream that stay.
    pub(crate) fn take(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let mut frames = std::mem::take(&mut self.frames);
        let taken = frames.take(chunk, |frame| {
            match Peek::new(frame) {
                Some(peek) => self.frame(&peek, out)?,
                None => out.extend_from_slice(frame),
            }
            Ok(())
        });
        self.frames = frames;
        taken
    }

    /// Whether the stream ends with a whole frame.
    pub(crate) const fn is_whole(&self) -> bool {
        self.frames.is_whole()
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
                // The whole change is left out.
                out.truncate(before);
                (self.skipped, self.has_changed) = (true, true);
            }
            Kind::Begin => {
                if let Message::Begin(begin) = peek.message(false).map_err(fault)? {
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

    /// Says which seq the next change has, if changes before it were left out.
    fn close_gap(&mut self, next: u64, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.skipped) {
            Fact::Seq { next }.encode(true, out);
        }
    }

    fn message(&mut self, peek: &Peek<'_>, mut fact: Option<Fact>, out: &mut Vec<u8>) {
        if let Some(Fact::Catalog(catalog)) = &mut fact
            && self.columns.leave_out(Arc::make_mut(catalog))
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
        let left_out = self.columns.of(relation)?;
        let places = || relation.columns.iter().zip(&left_out);
        let has_key = places().any(|(it, is_left_out)| *is_left_out && it.is_key());
        if has_key && relation.replica_identity != ReplicaIdentity::Full {
            return Err(Error::new("", ErrorKind::KeyColumn));
        }
        let kept = || places().filter(|(_, it)| !**it).map(|(column, _)| column);
        let table = if left_out.contains(&true) {
            self.has_changed = true;
            let mut buffer = Vec::new();
            let columns = Columns::encoded(kept(), &mut buffer);
            let data = peek.data();
            let message = Message::Relation(Relation {
                columns,
                ..*relation
            });
            message.encode_in_frame(data.start, data.clock, out);
            Table(left_out)
        } else {
            out.extend_from_slice(peek.frame());
            Table(Vec::new())
        };
        self.relations.insert(relation.oid, table);
        Ok(())
    }

    /// Writes the parts of a row that stay. Returns false if the whole row is left out.
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
        // As with a row filter, an update becomes an insert if its old row is erased.
        let is_update = matches!(message, Message::Update(_)) && !(old.is_some() && erased.old);
        let keeps_new = new.is_some() && !erased.new;
        // Without an old image, an update's key is the key of the new image.
        let keeps_old = old.is_some() && !erased.old;
        let is_whole = keeps_new == new.is_some() && keeps_old == old.is_some();
        if !is_whole {
            self.losing.insert(oid);
        }
        if !keeps_new && !keeps_old {
            return false;
        }
        let is_unchanged = is_whole && table.0.is_empty();
        let (mut old_cells, mut new_cells) = (Vec::new(), Vec::new());
        let mut frame = Vec::new();
        if is_unchanged {
            frame.extend_from_slice(peek.frame());
        } else {
            let new = new.filter(|_| keeps_new);
            let new = new.map(|new| {
                // A whole old image has the values that were not sent again.
                let mut before = match old {
                    Some(OldTuple::Full(old)) if !is_update => Some(table.cells(old)),
                    _ => None,
                };
                let cells = table.cells(new).map(|cell| {
                    let old = before.as_mut().and_then(Iterator::next);
                    let is_kept = cell == Cell::Unchanged;
                    old.filter(|_| is_kept).unwrap_or(cell)
                });
                Tuple::encoded(cells, &mut new_cells)
            });
            let old = old.filter(|_| keeps_old).map(|old| {
                let tuple = Tuple::encoded(table.cells(old.tuple()), &mut old_cells);
                match old {
                    OldTuple::Key(_) => OldTuple::Key(tuple),
                    OldTuple::Full(_) => OldTuple::Full(tuple),
                }
            });
            let xid = None;
            let message = match (old, new) {
                // The new row is erased, so the update becomes a delete.
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
        true
    }
}
