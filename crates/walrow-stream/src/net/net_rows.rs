//! Net changes as messages, and their tally.

use crate::net::changes::Changes;
use crate::net::error::{Gap, NetError, damaged};
use crate::net::heap::{self, Scan};
use crate::net::options::{Deletes, NeverSent};
use crate::net::record::{Head, Record};
use crate::net::stored::cells_of;
use crate::net::table::Table;
use crate::net::tally::Tally;
use std::collections::BTreeSet;
use std::io;
use walrow_wire::{Cell, Delete, Insert, Lsn, Message, OldTuple, Tuple, Update};

/// Writes net changes.
#[derive(Debug)]
pub(super) struct Changed {
    pub(super) tally: Tally,
    deletes: Deletes,
    scan: Scan,
    /// Whether rows with another head are written now.
    puts_heads: bool,
    scratch: Scratch,
}

/// Memory for one row.
#[derive(Debug, Default)]
struct Scratch {
    projected: Vec<u8>,
    key: Vec<u8>,
    row: Vec<u8>,
}

/// How a record comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Without a message: the target stays as it is.
    Nothing,
    Insert,
    Update,
    /// An update with a head. Whether the row is gone.
    Head {
        is_gone: bool,
    },
    /// A delete with the key.
    Gone,
    /// A delete with a whole image: the row is kept. Whether the target has the row.
    Marked {
        is_known: bool,
    },
    /// The same of a row that got another key: the target keeps all values.
    Left,
}

impl Form {
    fn of(record: &Record<'_>, row: Option<Tuple<'_>>, keys: &[usize], deletes: Deletes) -> Self {
        let Some(row) = row else {
            return match deletes {
                Deletes::Apply => Self::Gone,
                Deletes::Soft => Self::Left,
                Deletes::Ignore => Self::Nothing,
            };
        };
        let is_gone = record.is_marked && deletes == Deletes::Soft;
        let lacks = |wanted: &dyn Fn(usize) -> bool| {
            let mut cells = row.cells().enumerate();
            cells.any(|(place, cell)| cell == Cell::Unchanged && wanted(place))
        };
        match record.head {
            Head::Other if record.has_unsent && lacks(&|_| true) => Self::Head { is_gone },
            Head::Own if is_gone => Self::Marked { is_known: true },
            Head::None | Head::Other if is_gone => Self::Marked { is_known: false },
            Head::None | Head::Other => Self::Insert,
            Head::Own if record.is_marked => {
                let mut cells = row.cells().enumerate();
                let has_value =
                    cells.any(|(place, cell)| cell != Cell::Unchanged && !keys.contains(&place));
                if has_value {
                    Self::Update
                } else {
                    Self::Nothing
                }
            }
            Head::Own => Self::Update,
        }
    }
}

impl Changed {
    /// Counts the net changes.
    pub(super) fn new(table: &mut Table, changes: &Changes) -> Result<Self, NetError> {
        let deletes = changes.options.deletes;
        let mut tally = Tally {
            events: changes.events,
            moves: changes.moves,
            barrier: changes.barrier,
            clears: changes.clears,
            partial: changes
                .layout
                .partial
                .iter()
                .map(ToString::to_string)
                .collect(),
            ..Tally::default()
        };
        let columns = table.relation.as_ref().map_or(0, |it| it.columns.len());
        let nullable: Vec<bool> = (0..columns)
            .map(|place| {
                changes
                    .options
                    .nullable
                    .contains(&table.column(Some(place)))
            })
            .collect();
        let (mut kept, mut lacking) = (BTreeSet::new(), BTreeSet::new());
        let (mut scan, mut projected) = (Scan::default(), Vec::new());
        while let Some(found) = table.heap.next(&mut scan)? {
            let record = record_of(table, found, &scan)?;
            if record.is_row && !record.is_marked && !record.has_unsent {
                // A row of any form counts once.
                tally.rows = tally.rows.saturating_add(1);
                continue;
            }
            let row = row_of(table, found, &record, &mut projected)?;
            let form = Form::of(&record, row, &table.identity.places, deletes);
            if form == Form::Nothing {
                continue;
            }
            tally.rows = tally.rows.saturating_add(1);
            let unsent = row.filter(|_| record.has_unsent).into_iter();
            let unsent = unsent.flat_map(|row| {
                let cells = row.cells().enumerate();
                cells.filter_map(|(place, cell)| (cell == Cell::Unchanged).then_some(place))
            });
            match form {
                Form::Head { .. } => tally.heads = tally.heads.saturating_add(1),
                Form::Left => {
                    let others = (0..columns).filter(|it| !table.identity.places.contains(it));
                    kept.extend(others);
                }
                Form::Update | Form::Marked { is_known: true } => kept.extend(unsent),
                Form::Insert | Form::Marked { is_known: false } => {
                    let lost = unsent.filter(|place| nullable.get(*place) != Some(&true));
                    let before = tally.never_sent;
                    for place in lost {
                        lacking.insert(place);
                        tally.never_sent = before.saturating_add(1);
                    }
                }
                Form::Nothing | Form::Gone => {}
            }
        }
        if let Some(place) = lacking.first()
            && changes.options.never_sent == NeverSent::Error
        {
            let column = table.column(Some(*place));
            return Err(table.gap(Gap::NeverSent { column }));
        }
        let name = |place: usize| table.column(Some(place));
        tally.kept = kept.into_iter().map(name).collect();
        tally.lacking = lacking.into_iter().map(name).collect();
        Ok(Self {
            puts_heads: tally.heads > 0,
            tally,
            deletes,
            scan: Scan::default(),
            scratch: Scratch::default(),
        })
    }

    /// Writes the next message. Returns false at the end.
    pub(super) fn put(&mut self, table: &mut Table, out: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            let Some(found) = table.heap.next(&mut self.scan)? else {
                if !std::mem::take(&mut self.puts_heads) {
                    return Ok(false);
                }
                self.scan = Scan::default();
                continue;
            };
            let Scratch {
                projected,
                key,
                row: buffer,
            } = &mut self.scratch;
            let record = record_of(table, found, &self.scan);
            let record = record.map_err(|_| io::ErrorKind::InvalidData)?;
            let row = row_of(table, found, &record, projected);
            let row = row.map_err(|_| io::ErrorKind::InvalidData)?;
            let form = Form::of(&record, row, &table.identity.places, self.deletes);
            let is_head = matches!(form, Form::Head { .. });
            if form == Form::Nothing || is_head != self.puts_heads {
                continue;
            }
            put(table, form, (&record, row), key, buffer, out).ok_or(io::ErrorKind::InvalidData)?;
            return Ok(true);
        }
    }
}

/// The record of a scan's row.
fn record_of<'a>(
    table: &'a Table,
    found: heap::Row,
    scan: &'a Scan,
) -> Result<Record<'a>, NetError> {
    let mut record = Record::parse(table.heap.cells(scan)).ok_or_else(damaged)?;
    record.has_unsent |= record.is_row && !table.versions.is_last(found.version);
    Ok(record)
}

/// The row of a record, in the columns of the layout.
fn row_of<'a>(
    table: &Table,
    found: heap::Row,
    record: &Record<'a>,
    projected: &'a mut Vec<u8>,
) -> Result<Option<Tuple<'a>>, NetError> {
    if !record.is_row {
        return Ok(None);
    }
    let cells = cells_of(&table.versions, found.version, record, projected);
    Ok(Some(cells.ok_or_else(damaged)?))
}

/// Writes a message.
fn put(
    table: &Table,
    form: Form,
    (record, row): (&Record<'_>, Option<Tuple<'_>>),
    key: &mut Vec<u8>,
    buffer: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Option<()> {
    let (xid, relation) = (None, table.oid);
    let columns = table.relation.as_ref().map_or(0, |it| it.columns.len());
    let message = match form {
        Form::Nothing => return Some(()),
        Form::Insert => Message::Insert(Insert {
            xid,
            relation,
            new: row?,
        }),
        Form::Update => Message::Update(Update {
            xid,
            relation,
            old: None,
            new: row?,
        }),
        Form::Head { is_gone } => {
            let others = if is_gone { Cell::Unchanged } else { Cell::Null };
            let old = key_row(table, columns, record.head_key, others, key)?;
            let old = if is_gone {
                OldTuple::Full(old)
            } else {
                OldTuple::Key(old)
            };
            Message::Update(Update {
                xid,
                relation,
                old: Some(old),
                new: row?,
            })
        }
        Form::Gone => {
            let old = key_row(table, columns, record.cells, Cell::Null, key)?;
            let old = OldTuple::Key(old);
            Message::Delete(Delete { xid, relation, old })
        }
        Form::Left => {
            let old = key_row(table, columns, record.cells, Cell::Unchanged, key)?;
            let old = OldTuple::Full(old);
            Message::Delete(Delete { xid, relation, old })
        }
        Form::Marked { is_known } => {
            let mut old = row?;
            if !is_known && record.has_unsent {
                buffer.clear();
                for cell in old.cells() {
                    if cell == Cell::Unchanged {
                        Cell::Null
                    } else {
                        cell
                    }
                    .encode(buffer);
                }
                old = Tuple::of(u16::try_from(columns).ok()?, buffer)?;
            }
            let old = OldTuple::Full(old);
            Message::Delete(Delete { xid, relation, old })
        }
    };
    message.encode_in_frame(Lsn::INVALID, table.time, out);
    Some(())
}

/// A row that has only a key. All other columns have one cell.
fn key_row<'a>(
    table: &Table,
    columns: usize,
    key: &[u8],
    others: Cell<'_>,
    out: &'a mut Vec<u8>,
) -> Option<Tuple<'a>> {
    let places = &table.identity.places;
    let key = Tuple::of(u16::try_from(places.len()).ok()?, key)?;
    out.clear();
    for place in 0..columns {
        let number = places.iter().position(|it| *it == place);
        let cell = number.and_then(|number| key.cells().nth(number));
        cell.unwrap_or(others).encode(out);
    }
    Tuple::of(u16::try_from(columns).ok()?, out)
}
