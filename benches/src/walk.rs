//! Every frame, message and cell, by walrow.

use walrow_floor::Visited;
use walrow_wire::{BackendMessage, Cell, CopyData, Error, Frame, Message, Tuple};

/// Visits them as a decoder does: validated first, then cell by cell.
///
/// # Errors
/// Bytes that are not the protocol.
pub fn walk(bytes: &[u8]) -> Result<Visited, Error> {
    let mut visited = Visited::default();
    let mut in_stream = false;
    let mut rest = bytes;
    while let Some((frame, size)) = Frame::parse(rest)? {
        rest = rest.split_at(size).1;
        visited.frames = visited.frames.wrapping_add(1);
        if frame.tag != b'd' {
            BackendMessage::parse(frame)?;
            continue;
        }
        let CopyData::XLogData(data) = CopyData::parse(frame.body)? else {
            continue;
        };
        visited.messages = visited.messages.wrapping_add(1);
        match data.message(in_stream)? {
            Message::Insert(insert) => cells(insert.new, &mut visited),
            Message::Update(update) => {
                if let Some(old) = update.old {
                    cells(old.tuple(), &mut visited);
                }
                cells(update.new, &mut visited);
            }
            Message::Delete(delete) => cells(delete.old.tuple(), &mut visited),
            Message::StreamStart(_) => in_stream = true,
            Message::StreamStop => in_stream = false,
            _ => {}
        }
    }
    Ok(visited)
}

fn cells(tuple: Tuple<'_>, visited: &mut Visited) {
    for cell in tuple.cells() {
        visited.cells = visited.cells.wrapping_add(1);
        match cell {
            Cell::Null => visited.nulls = visited.nulls.wrapping_add(1),
            Cell::Text(value) | Cell::Binary(value) => {
                visited.value_bytes = visited.value_bytes.wrapping_add(value.len());
            }
            _ => {}
        }
    }
}
