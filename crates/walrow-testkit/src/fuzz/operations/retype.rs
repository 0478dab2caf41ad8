//! Changes a whole stream: the names of its tables, and the types and values of their columns.

use super::frame::{in_stream, read};
use crate::{OwnedCell, OwnedCopyData, OwnedFrame, OwnedMessage, OwnedOld};

const DATES: [&[u8]; 8] = [
    b"infinity",
    b"2024-01-01",
    b"-infinity",
    b"0044-03-15 BC",
    b"infinity",
    b"1999-12-31",
    b"2024-02-29",
    b"2024-02-30",
];
const NUMERICS: [&[u8]; 8] = [
    b"NaN",
    b"1.5",
    b"Infinity",
    b"-0.001",
    b"123456789012345678901234567890123456789012",
    b"0",
    b"NaN",
    b"1e5",
];
const ARRAYS: [&[u8]; 8] = [
    b"{1,2}",
    b"[0:1]={1,2}",
    b"{}",
    b"{NULL,3}",
    b"[2:2]={1}",
    b"{{1,2},{3,4}}",
    b"[0:1]={5,6}",
    b"{1",
];
const TIMESTAMPS: [&[u8]; 8] = [
    b"infinity",
    b"2024-01-01 00:00:00+00",
    b"-infinity",
    b"2024-01-01 00:00:00.123456+00",
    b"infinity",
    b"0001-01-01 00:00:00+00 BC",
    b"294276-12-31 23:59:59.999999+00",
    b"2024-13-01 00:00:00+00",
];
const TEXTS: [&[u8]; 8] = [
    b"a",
    b"\xFF",
    b"",
    b"\xC0\x80",
    b"b",
    b"\xE2\x82",
    "\u{1F422}".as_bytes(),
    b"c",
];

/// Gives the second column of all tables another type, with values of that type. Some values do not
/// fit the column, and some are invalid.
pub(super) fn retype(frames: &mut [Vec<u8>], kind: u8) {
    let (oid, values): (u32, [&[u8]; 8]) = match kind % 5 {
        0 => (1082, DATES),
        1 => (1700, NUMERICS),
        2 => (1007, ARRAYS),
        3 => (1184, TIMESTAMPS),
        _ => (25, TEXTS),
    };
    let mut count = 0;
    let mut retyped = |cells: &mut Vec<OwnedCell>| {
        if let Some(cell @ (OwnedCell::Text(_) | OwnedCell::Null)) = cells.get_mut(1) {
            // The last value, which may be malformed, is rare.
            let last = count % 29 == 28;
            let value = values[if last { 7 } else { count % 7 }];
            *cell = OwnedCell::Text(value.to_vec());
            if last && oid == 25 {
                // Any text is valid: the row gets a wrong number of cells instead.
                cells.push(OwnedCell::Null);
            }
            count += 1;
        }
    };
    for place in 0..frames.len() {
        let in_stream = in_stream(&frames[..place]);
        let Some(mut frame) = read(&frames[place], in_stream) else {
            continue;
        };
        let OwnedFrame::CopyData(OwnedCopyData::XLogData { message, .. }) = &mut frame else {
            continue;
        };
        match message {
            OwnedMessage::Relation { columns, .. } => {
                if let Some(column) = columns.get_mut(1) {
                    column.type_oid = oid;
                }
            }
            OwnedMessage::Insert { new, .. } => retyped(new),
            OwnedMessage::Update { old, new, .. } => {
                if let Some(OwnedOld::Full(cells)) = old {
                    retyped(cells);
                }
                retyped(new);
            }
            OwnedMessage::Delete {
                old: OwnedOld::Full(cells),
                ..
            } => retyped(cells),
            _ => continue,
        }
        frames[place] = frame.bytes();
    }
}

/// Gives all tables, or the second column of each, a very long name.
pub(super) fn rename(frames: &mut [Vec<u8>], column: bool, long: usize) {
    for place in 0..frames.len() {
        let in_stream = in_stream(&frames[..place]);
        if let Some(OwnedFrame::CopyData(OwnedCopyData::XLogData {
            start,
            end,
            clock,
            message: mut relation,
        })) = read(&frames[place], in_stream)
            && let OwnedMessage::Relation { name, columns, .. } = &mut relation
        {
            let name = columns
                .get_mut(1)
                .filter(|_| column)
                .map_or(name, |it| &mut it.name);
            *name = [name.as_bytes(), &vec![b'n'; long]]
                .concat()
                .as_slice()
                .into();
            let data = OwnedCopyData::XLogData {
                start,
                end,
                clock,
                message: relation,
            };
            frames[place] = OwnedFrame::CopyData(data).bytes();
        }
    }
}
