//! Every frame, message and cell, by walrow.
//!
//! There are two walks. Both hand each cell's value to `black_box`, so no work is optimised away.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "counts of a capture in memory"
)]

use std::hint::black_box;
use walrow_floor::Visited;
use walrow_wire::{
    BackendMessage, Cell, CopyData, Error, Frame, Kind, Message, Peek, Tuple, UnreadCells,
    UnreadRow, UnreadTuple, XLogData,
};

/// Makes each message by [`Message::parse`], which checks it as a whole, and visits its cells.
///
/// `each` gets the kind and the contents of each message.
///
/// # Errors
/// Bytes that are not the protocol.
pub fn messages(bytes: &[u8], each: impl FnMut(u8, Visited)) -> Result<Visited, Error> {
    let mut walk = Walk::new(each);
    let mut rest = bytes;
    while let Some((frame, size)) = Frame::parse(rest)? {
        rest = rest.split_at(size).1;
        walk.frame(frame)?;
    }
    Ok(walk.visited)
}

/// Visits the cells of rows as a decoder does: by [`Peek`] and [`UnreadRow`], which check each cell as
/// it is read and make no [`Message`]. Messages of other kinds are made.
///
/// `each` gets the kind and the contents of each message.
///
/// # Errors
/// As [`messages`].
pub fn cells(bytes: &[u8], each: impl FnMut(u8, Visited)) -> Result<Visited, Error> {
    let mut walk = Walk::new(each);
    let mut rest = bytes;
    loop {
        if let Some((peek, after)) = Peek::split(rest) {
            rest = after;
            walk.peeked(peek)?;
        } else if let Some((frame, size)) = Frame::parse(rest)? {
            rest = rest.split_at(size).1;
            walk.frame(frame)?;
        } else {
            return Ok(walk.visited);
        }
    }
}

struct Walk<F> {
    visited: Visited,
    in_stream: bool,
    each: F,
}

impl<F: FnMut(u8, Visited)> Walk<F> {
    fn new(each: F) -> Self {
        Self {
            visited: Visited::default(),
            in_stream: false,
            each,
        }
    }

    #[inline]
    fn frame(&mut self, frame: Frame<'_>) -> Result<(), Error> {
        if frame.tag != b'd' {
            BackendMessage::parse(frame)?;
        } else if let CopyData::XLogData(data) = CopyData::parse(frame.body)? {
            return self.message(data);
        }
        self.visited.frames += 1;
        Ok(())
    }

    #[inline]
    fn message(&mut self, data: XLogData<'_>) -> Result<(), Error> {
        let mut found = Visited::default();
        match black_box(data.message(self.in_stream)?) {
            Message::Insert(insert) => tuple(insert.new, &mut found),
            Message::Update(update) => {
                if let Some(old) = update.old {
                    tuple(old.tuple(), &mut found);
                }
                tuple(update.new, &mut found);
            }
            Message::Delete(delete) => tuple(delete.old.tuple(), &mut found),
            Message::StreamStart(_) => self.in_stream = true,
            Message::StreamStop => self.in_stream = false,
            _ => {}
        }
        self.add(data.message, found);
        Ok(())
    }

    #[inline]
    fn peeked(&mut self, peek: Peek<'_>) -> Result<(), Error> {
        let mut found = Visited::default();
        let is_whole = match peek.kind() {
            Kind::Begin => black_box(peek.begin()).is_some(),
            Kind::Commit => black_box(peek.commit()).is_some(),
            _ => peek
                .row(self.in_stream)
                .and_then(|row| images(row, &mut found))
                .is_some(),
        };
        if !is_whole {
            return self.message(peek.data());
        }
        self.add(peek.bytes(), found);
        Ok(())
    }

    #[inline]
    fn add(&mut self, message: &[u8], found: Visited) {
        let found = Visited {
            frames: 1,
            messages: 1,
            ..found
        };
        self.visited += found;
        (self.each)(message.first().copied().unwrap_or_default(), found);
    }
}

#[inline]
fn tuple(tuple: Tuple<'_>, found: &mut Visited) {
    for cell in tuple.cells() {
        visit(cell, found);
    }
}

/// The cells of both images. `None` if they do not follow the protocol.
#[inline]
fn images(row: UnreadRow<'_>, found: &mut Visited) -> Option<()> {
    let mut rest = unread(row.first()?.1, found)?;
    if row.has_old() {
        rest = unread(rest.then_new()?, found)?;
    }
    rest.is_end().then_some(())
}

#[inline]
fn unread<'a>(tuple: UnreadTuple<'a>, found: &mut Visited) -> Option<UnreadCells<'a>> {
    let mut cells = tuple.cells();
    for _ in 0..tuple.len() {
        visit(cells.cell()?, found);
    }
    Some(cells)
}

#[inline]
fn visit(cell: Cell<'_>, found: &mut Visited) {
    found.cells += 1;
    match cell {
        Cell::Null => found.nulls += 1,
        Cell::Text(value) | Cell::Binary(value) => {
            found.value_bytes += black_box(value).len();
        }
        Cell::Unchanged => found.unsent += 1,
    }
}
