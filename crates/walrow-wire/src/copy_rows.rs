//! Rows of `COPY … TO STDOUT`, as Insert messages.
//!
//! A load copies a table in a snapshot. Its rows become the messages that the stream has for rows, so
//! one decoder reads both: the text of a cell is the same in COPY and in pgoutput, and so is its
//! binary form.
//!
//! Manual: [COPY](https://www.postgresql.org/docs/current/sql-copy.html), File Formats.

use crate::backend::Frame;
use crate::copy_data::XLogData;
use crate::cursor::Cursor;
use crate::encode::Put;
use crate::error::{Error, ErrorKind};
use crate::{Lsn, Oid, Timestamp};
use alloc::vec::Vec;

/// The rows of one COPY, in the format `text` or `binary`.
///
/// ```
/// use walrow_wire::{CopyRows, Frame, CopyData, Message, Cell, Timestamp};
///
/// // COPY item (id, note) TO STDOUT
/// let mut rows = CopyRows::text(16384, 2);
/// let mut out = Vec::new();
/// assert_eq!(rows.encode(b"7\ta\\tb\n8\t\\N\n", Timestamp(0), &mut out)?, 2);
/// let (frame, _) = Frame::parse(&out)?.expect("a frame");
/// let CopyData::XLogData(data) = CopyData::parse(frame.body)? else { panic!() };
/// let Message::Insert(insert) = Message::parse(data.message, false)? else { panic!() };
/// assert!(insert.new.cells().eq([Cell::Text(b"7"), Cell::Text(b"a\tb")]));
/// # Ok::<(), walrow_wire::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CopyRows {
    relation: Oid,
    columns: u16,
    format: Format,
    /// Bytes of earlier calls.
    before: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    /// Before the header.
    Header,
    Binary,
    /// After the trailer.
    Ended,
}

/// The bytes that every binary COPY begins with.
const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
const MESSAGE: &str = "CopyData of COPY";

impl CopyRows {
    /// Rows in the format `text`.
    pub const fn text(relation: Oid, columns: u16) -> Self {
        Self {
            relation,
            columns,
            format: Format::Text,
            before: 0,
        }
    }

    /// Rows in the format `binary`.
    pub const fn binary(relation: Oid, columns: u16) -> Self {
        Self {
            format: Format::Header,
            ..Self::text(relation, columns)
        }
    }

    /// Appends a frame with an Insert for each row, and returns how many. `data` is one or more whole
    /// payloads of CopyData: a server ends each with a row.
    ///
    /// # Errors
    /// Bytes that no server sends. The offset counts the bytes of all calls. The rows before are
    /// appended.
    pub fn encode(
        &mut self,
        data: &[u8],
        clock: Timestamp,
        out: &mut Vec<u8>,
    ) -> Result<u64, Error> {
        let mut count = 0;
        let mut cursor = Cursor::new(data, MESSAGE);
        while !cursor.is_empty() {
            let start = out.len();
            let mut row = Ok(false);
            Frame::encode_with(b'd', out, |out| {
                let header = XLogData {
                    start: Lsn::INVALID,
                    end: Lsn::INVALID,
                    clock,
                    message: &[],
                };
                header.encode_header(out);
                row = self.row(&mut cursor, out);
            });
            match row {
                Ok(true) => count = u64::saturating_add(count, 1),
                Ok(false) => out.truncate(start),
                Err(error) => {
                    out.truncate(start);
                    return Err(error.at(self.before));
                }
            }
        }
        self.before = self.before.saturating_add(data.len());
        Ok(count)
    }

    /// Appends the Insert of the next row. Returns false if there is none: header and trailer.
    fn row(&mut self, cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<bool, Error> {
        if self.format == Format::Header {
            header(cursor)?;
            self.format = Format::Binary;
            return Ok(false);
        }
        out.put_u8(b'I');
        out.put_u32(self.relation);
        out.put_u8(b'N');
        out.put_u16(self.columns);
        match self.format {
            Format::Text => text_row(cursor, self.columns, out).map(|()| true),
            Format::Ended => {
                let count = cursor.remaining() as u64;
                Err(cursor.error(ErrorKind::TrailingBytes { count }, "trailer"))
            }
            Format::Header | Format::Binary => {
                let is_row = binary_row(cursor, self.columns, out)?;
                if !is_row {
                    self.format = Format::Ended;
                }
                Ok(is_row)
            }
        }
    }
}

/// Passes what comes before the first row.
fn header(cursor: &mut Cursor<'_>) -> Result<(), Error> {
    let before = *cursor;
    if cursor.bytes(SIGNATURE.len(), "signature")? != SIGNATURE {
        let expected = "that of a binary COPY";
        return Err(before.error(ErrorKind::InvalidValue { expected }, "signature"));
    }
    let before = *cursor;
    // The lower half is for extensions that a reader may ignore.
    if cursor.u32("flags")? > 0xFFFF {
        let expected = "0";
        return Err(before.error(ErrorKind::InvalidValue { expected }, "flags"));
    }
    let length = length(cursor, "header extension")?.unwrap_or(0);
    cursor.bytes(length, "header extension")?;
    Ok(())
}

/// Appends a row's cells. Returns false at the trailer.
fn binary_row(cursor: &mut Cursor<'_>, columns: u16, out: &mut Vec<u8>) -> Result<bool, Error> {
    let before = *cursor;
    let count = cursor.i16("number of columns")?;
    if count == -1 {
        return Ok(false);
    }
    if u16::try_from(count) != Ok(columns) {
        let expected = "the number of columns that were asked for";
        return Err(before.error(ErrorKind::InvalidValue { expected }, "number of columns"));
    }
    for _ in 0..columns {
        match length(cursor, "cell length")? {
            None => out.put_u8(b'n'),
            Some(length) => {
                let cell = cursor.bytes(length, "cell")?;
                out.put_u8(b'b');
                out.put_length(length);
                out.put_bytes(cell);
            }
        }
    }
    Ok(true)
}

/// A length. `None` for -1.
fn length(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Option<usize>, Error> {
    let before = *cursor;
    match cursor.i32(field)? {
        -1 => Ok(None),
        length => usize::try_from(length).map(Some).map_err(|_| {
            let kind = ErrorKind::InvalidLength(length.into());
            before.error(kind, field)
        }),
    }
}

/// Appends a row's cells. A line break ends the row: one in a cell is escaped.
fn text_row(cursor: &mut Cursor<'_>, columns: u16, out: &mut Vec<u8>) -> Result<(), Error> {
    for column in 1..=columns {
        let end = if column == columns { b'\n' } else { b'\t' };
        text_cell(cursor, end, out)?;
    }
    if columns == 0 {
        let before = *cursor;
        if cursor.u8("end of the row")? != b'\n' {
            let expected = "a line break";
            return Err(before.error(ErrorKind::InvalidValue { expected }, "end of the row"));
        }
    }
    Ok(())
}

fn text_cell(cursor: &mut Cursor<'_>, end: u8, out: &mut Vec<u8>) -> Result<(), Error> {
    if let Some([b'\\', b'N', after]) = cursor.rest().first_chunk()
        && *after == end
    {
        cursor.bytes(3, "cell")?;
        out.put_u8(b'n');
        return Ok(());
    }
    out.put_u8(b't');
    let place = out.len();
    out.put_u32(0);
    loop {
        let special = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\\');
        let run = cursor.rest().iter().position(special);
        let run = run.unwrap_or_else(|| cursor.remaining());
        out.put_bytes(cursor.bytes(run, "cell")?);
        let before = *cursor;
        let byte = cursor.u8("end of the cell")?;
        if byte == end {
            break;
        }
        if byte != b'\\' {
            let expected = "the number of columns that were asked for";
            let kind = ErrorKind::InvalidValue { expected };
            return Err(before.error(kind, "number of columns"));
        }
        let byte = match cursor.u8("escape")? {
            b'b' => 0x08,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 0x0B,
            b'f' => 0x0C,
            b'r' => b'\r',
            b'\\' => b'\\',
            _ => {
                let expected = "an escape of COPY";
                return Err(before.error(ErrorKind::InvalidValue { expected }, "escape"));
            }
        };
        out.put_u8(byte);
    }
    let length = out.len().saturating_sub(place).saturating_sub(4);
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    if let Some(room) = out.get_mut(place..place.saturating_add(4)) {
        room.copy_from_slice(&length);
    }
    Ok(())
}
