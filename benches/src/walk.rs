//! Every frame, message and cell, by walrow.

use walrow_floor::Visited;
use walrow_wire::{
    BackendMessage, Cell, CopyData, Error, Frame, Kind, Message, Peek, UnreadCells, UnreadRow,
    UnreadTuple,
};

/// Visits them as a decoder does: each cell is checked as it is read.
///
/// # Errors
/// Bytes that are not the protocol.
pub fn walk(bytes: &[u8]) -> Result<Visited, Error> {
    let mut visited = Visited::default();
    let mut in_stream = false;
    let mut rest = bytes;
    loop {
        if let Some((peek, after)) = Peek::split(rest) {
            rest = after;
            visited.frames = visited.frames.wrapping_add(1);
            visited.messages = visited.messages.wrapping_add(1);
            let is_whole = match peek.kind() {
                Kind::Begin => peek.begin().is_some(),
                Kind::Commit => peek.commit().is_some(),
                _ => peek
                    .row(in_stream)
                    .and_then(|row| images(row, &mut visited))
                    .is_some(),
            };
            if !is_whole {
                match peek.message(in_stream)? {
                    Message::StreamStart(_) => in_stream = true,
                    Message::StreamStop => in_stream = false,
                    _ => {}
                }
            }
        } else if let Some((frame, size)) = Frame::parse(rest)? {
            rest = rest.split_at(size).1;
            visited.frames = visited.frames.wrapping_add(1);
            if frame.tag == b'd' {
                CopyData::parse(frame.body)?;
            } else {
                BackendMessage::parse(frame)?;
            }
        } else {
            return Ok(visited);
        }
    }
}

/// The cells of both images. `None` if they do not follow the protocol.
fn images(row: UnreadRow<'_>, visited: &mut Visited) -> Option<()> {
    let mut rest = cells(row.first()?.1, visited)?;
    if row.has_old() {
        rest = cells(rest.then_new()?, visited)?;
    }
    rest.is_end().then_some(())
}

fn cells<'a>(tuple: UnreadTuple<'a>, visited: &mut Visited) -> Option<UnreadCells<'a>> {
    let mut cells = tuple.cells();
    for _ in 0..tuple.len() {
        match cells.cell()? {
            Cell::Null => visited.nulls = visited.nulls.wrapping_add(1),
            Cell::Text(value) | Cell::Binary(value) => {
                visited.value_bytes = visited.value_bytes.wrapping_add(value.len());
            }
            _ => {}
        }
    }
    visited.cells = visited.cells.wrapping_add(tuple.len());
    Some(cells)
}
