//! The floor: how fast these bytes can be read at all.
//!
//! A bare loop in plain safe Rust over a capture whose tables are known. It checks nothing but
//! that it stays inside the slice, and panics where bytes are not as expected: not a decoder, but
//! what one is measured against.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "the measure does no more than it must"
)]

/// What a walk came by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain counts")]
pub struct Visited {
    pub frames: usize,
    pub messages: usize,
    pub cells: usize,
    pub nulls: usize,
    pub value_bytes: usize,
}

/// Visits every frame, message and cell.
pub fn walk(bytes: &[u8]) -> Visited {
    let mut visited = Visited::default();
    let mut in_stream = false;
    for_each_message(bytes, |frames, message| {
        visited.frames += frames;
        let Some(message) = message else { return };
        visited.messages += 1;
        let head = if in_stream { 9 } else { 5 };
        match message[0] {
            b'I' | b'D' => cells(&message[head + 1..], |cell| visit(&mut visited, cell)),
            b'U' => {
                let mut rest = message[head + 1..].as_ref();
                if message[head] != b'N' {
                    rest = &cells(rest, |cell| visit(&mut visited, cell))[1..];
                }
                cells(rest, |cell| visit(&mut visited, cell))
            }
            b'S' => {
                in_stream = true;
                message
            }
            b'E' => {
                in_stream = false;
                message
            }
            _ => message,
        };
    });
    visited
}

fn visit(visited: &mut Visited, cell: Option<&[u8]>) {
    visited.cells += 1;
    match cell {
        Some(value) => visited.value_bytes += value.len(),
        None => visited.nulls += 1,
    }
}

/// Calls with the number of frames (always 1) and the pgoutput message, if it holds one.
#[inline]
fn for_each_message<'a>(bytes: &'a [u8], mut each: impl FnMut(usize, Option<&'a [u8]>)) {
    let mut rest = bytes;
    while let Some(([tag, length @ ..], after)) = rest.split_first_chunk::<5>() {
        let (body, next) = after.split_at(u32::from_be_bytes(*length) as usize - 4);
        rest = next;
        each(1, (*tag == b'd' && body[0] == b'w').then(|| &body[25..]));
    }
}

/// Calls with each cell of a tuple, `None` for those without a value, and gives what follows it.
#[inline]
fn cells<'a>(tuple: &'a [u8], mut each: impl FnMut(Option<&'a [u8]>)) -> &'a [u8] {
    let count = u16::from_be_bytes([tuple[0], tuple[1]]);
    let mut rest = &tuple[2..];
    for _ in 0..count {
        if let [b't' | b'b', a, b, c, d, after @ ..] = rest {
            let (value, after) = after.split_at(u32::from_be_bytes([*a, *b, *c, *d]) as usize);
            rest = after;
            each(Some(value));
        } else {
            rest = &rest[1..];
            each(None);
        }
    }
    rest
}

/// Rows of a batch.
const BATCH: usize = 8_192;

/// Some rows of one relation.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "plain columns")]
pub struct Table {
    pub oid: u32,
    pub columns: Vec<Column>,
    /// 0 insert, 1 and 2 the images of an update, 3 delete.
    pub change: Vec<u8>,
    pub seq: Vec<u64>,
    pub runs: Vec<Run>,
}

/// Rows of one transaction that follow each other.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "plain values")]
pub struct Run {
    pub first_row: usize,
    pub commit_lsn: u64,
    pub commit_time: i64,
    pub xid: u32,
}

/// A column's values and which of them are there.
#[derive(Debug)]
pub struct Column {
    values: Values,
    valid: Vec<u64>,
    len: usize,
}

#[derive(Debug)]
enum Values {
    Bool(Vec<u8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F64(Vec<f64>),
    /// Unscaled, as all values of a column have the same scale in text.
    Decimal(Vec<i128>),
    Date(Vec<i32>),
    Micros(Vec<i64>),
    Uuid(Vec<u128>),
    Text(Vec<u8>, Vec<i32>),
}

/// Reads every cell of an unstreamed capture into typed vectors, hands these over batch by batch,
/// and says how many row images there are.
pub fn rows(bytes: &[u8], mut batch: impl FnMut(Table)) -> usize {
    let mut tables: Vec<Table> = Vec::new();
    let mut rows = 0;
    let (mut last, mut run) = (
        0,
        Run {
            first_row: 0,
            commit_lsn: 0,
            commit_time: 0,
            xid: 0,
        },
    );
    let mut seq = 0;
    for_each_message(bytes, |_, message| {
        let Some(message) = message else { return };
        match message[0] {
            b'B' => {
                run = Run {
                    first_row: 0,
                    commit_lsn: u64::from_be_bytes(array(&message[1..])),
                    commit_time: i64::from_be_bytes(array(&message[9..])),
                    xid: u32::from_be_bytes(array(&message[17..])),
                };
                seq = 0;
            }
            b'R' => relation(&mut tables, message),
            kind @ (b'I' | b'U' | b'D') => {
                let oid = u32::from_be_bytes(array(&message[1..]));
                if tables[last].oid != oid {
                    let found = tables.iter().position(|table| table.oid == oid);
                    last = found.unwrap_or_else(|| panic!("rows of an unknown relation"));
                }
                let table = &mut tables[last];
                let mut rest = &message[6..];
                if kind == b'U' && message[5] != b'N' {
                    rest = &table.push(&run, seq, 1, rest)[1..];
                    rows += 1;
                }
                let change = match kind {
                    b'I' => 0,
                    b'U' => 2,
                    _ => 3,
                };
                table.push(&run, seq, change, rest);
                rows += 1;
                if table.seq.len() >= BATCH {
                    batch(table.take());
                }
                seq += 1;
            }
            _ => {}
        }
    });
    tables.into_iter().for_each(batch);
    rows
}

impl Table {
    /// The rows so far; the next ones need as much room.
    fn take(&mut self) -> Self {
        Self {
            oid: self.oid,
            columns: self.columns.iter_mut().map(Column::take).collect(),
            change: take(&mut self.change),
            seq: take(&mut self.seq),
            runs: take(&mut self.runs),
        }
    }

    #[inline]
    fn push<'a>(&mut self, run: &Run, seq: u64, change: u8, tuple: &'a [u8]) -> &'a [u8] {
        if self
            .runs
            .last()
            .is_none_or(|last| last.commit_lsn != run.commit_lsn)
        {
            self.runs.push(Run {
                first_row: self.seq.len(),
                ..*run
            });
        }
        self.change.push(change);
        self.seq.push(seq);
        let mut columns = self.columns.iter_mut();
        cells(tuple, |cell| {
            if let Some(column) = columns.next() {
                column.push(cell);
            }
        })
    }
}

impl Column {
    fn new(type_oid: u32) -> Self {
        Self {
            values: match type_oid {
                16 => Values::Bool(Vec::new()),
                20 => Values::I64(Vec::new()),
                21 => Values::I16(Vec::new()),
                23 => Values::I32(Vec::new()),
                701 => Values::F64(Vec::new()),
                1082 => Values::Date(Vec::new()),
                1114 | 1184 => Values::Micros(Vec::new()),
                1700 => Values::Decimal(Vec::new()),
                2950 => Values::Uuid(Vec::new()),
                _ => Values::Text(Vec::new(), vec![0]),
            },
            valid: Vec::new(),
            len: 0,
        }
    }

    fn take(&mut self) -> Self {
        Self {
            values: match &mut self.values {
                Values::Bool(values) => Values::Bool(take(values)),
                Values::I16(values) => Values::I16(take(values)),
                Values::I32(values) => Values::I32(take(values)),
                Values::I64(values) => Values::I64(take(values)),
                Values::F64(values) => Values::F64(take(values)),
                Values::Decimal(values) => Values::Decimal(take(values)),
                Values::Date(values) => Values::Date(take(values)),
                Values::Micros(values) => Values::Micros(take(values)),
                Values::Uuid(values) => Values::Uuid(take(values)),
                Values::Text(bytes, ends) => {
                    let taken = Values::Text(take(bytes), take(ends));
                    ends.push(0);
                    taken
                }
            },
            valid: take(&mut self.valid),
            len: std::mem::take(&mut self.len),
        }
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "the schema says that it fits"
    )]
    fn push(&mut self, cell: Option<&[u8]>) {
        if self.len.is_multiple_of(64) {
            self.valid.push(0);
        }
        if cell.is_some()
            && let Some(bits) = self.valid.last_mut()
        {
            *bits |= 1 << (self.len % 64);
        }
        self.len += 1;
        let cell = cell.unwrap_or(b"");
        match &mut self.values {
            Values::Bool(values) => values.push(u8::from(cell == b"t")),
            Values::I16(values) => values.push(integer(cell) as i16),
            Values::I32(values) => values.push(integer(cell) as i32),
            Values::I64(values) => values.push(integer(cell)),
            Values::F64(values) => values.push(
                str::from_utf8(cell)
                    .ok()
                    .and_then(|text| text.parse().ok())
                    .unwrap_or(0.0),
            ),
            Values::Decimal(values) => values.push(decimal(cell)),
            Values::Date(values) => values.push(cell.first_chunk::<10>().map_or(0, date)),
            Values::Micros(values) => values.push(micros(cell)),
            Values::Uuid(values) => values.push(uuid(cell)),
            Values::Text(bytes, ends) => {
                bytes.extend_from_slice(cell);
                ends.push(bytes.len() as i32);
            }
        }
    }
}

fn take<T>(values: &mut Vec<T>) -> Vec<T> {
    let next = Vec::with_capacity(values.len());
    std::mem::replace(values, next)
}

/// Makes the relation's table, if there is none yet.
fn relation(tables: &mut Vec<Table>, message: &[u8]) {
    let oid = u32::from_be_bytes(array(&message[1..]));
    if tables.iter().any(|table| table.oid == oid) {
        return;
    }
    let mut rest = after_string(after_string(&message[5..]));
    let count = u16::from_be_bytes(array(&rest[1..]));
    rest = &rest[3..];
    let mut columns = Vec::new();
    for _ in 0..count {
        rest = after_string(&rest[1..]);
        columns.push(Column::new(u32::from_be_bytes(array(rest))));
        rest = &rest[8..];
    }
    tables.push(Table {
        oid,
        columns,
        ..Table::default()
    });
}

fn after_string(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    &bytes[end.unwrap_or_else(|| panic!("a string without its zero")) + 1..]
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

#[inline]
fn integer(digits: &[u8]) -> i64 {
    let (negative, digits) = match digits {
        [b'-', rest @ ..] => (true, rest),
        digits => (false, digits),
    };
    let mut value = 0_i64;
    for digit in digits {
        value = value
            .wrapping_mul(10)
            .wrapping_add(i64::from(digit.wrapping_sub(b'0')));
    }
    if negative {
        value.wrapping_neg()
    } else {
        value
    }
}

fn decimal(text: &[u8]) -> i128 {
    let mut value = 0_i128;
    for byte in text {
        if byte.is_ascii_digit() {
            value = value * 10 + i128::from(byte - b'0');
        }
    }
    if text.first() == Some(&b'-') {
        -value
    } else {
        value
    }
}

#[inline]
fn two<const N: usize>(digits: &[u8; N], at: usize) -> i64 {
    i64::from(digits[at].wrapping_sub(b'0')) * 10 + i64::from(digits[at + 1].wrapping_sub(b'0'))
}

/// Days since 1970 of `2024-05-17`.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "years have four digits here"
)]
fn date<const N: usize>(text: &[u8; N]) -> i32 {
    let year = two(text, 0) * 100 + two(text, 2);
    let (month, day) = (two(text, 5), two(text, 8));
    // Years from March, so that the leap day is the last one.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    (days - 719_468) as i32
}

/// Microseconds since 1970 of `2024-05-17 12:34:56.789`, with or without a zone of `+00`.
#[inline]
fn micros(text: &[u8]) -> i64 {
    let Some((text, rest)) = text.split_first_chunk::<19>() else {
        return 0;
    };
    let seconds = two(text, 11) * 3_600 + two(text, 14) * 60 + two(text, 17);
    let (mut fraction, mut digits) = (0, 0);
    if let [b'.', rest @ ..] = rest {
        for digit in rest.iter().take_while(|byte| byte.is_ascii_digit()) {
            fraction = fraction * 10 + i64::from(digit - b'0');
            digits += 1;
        }
    }
    let scale = [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1][digits];
    (i64::from(date(text)) * 86_400 + seconds) * 1_000_000 + fraction * scale
}

fn uuid(text: &[u8]) -> u128 {
    let mut value = 0;
    for byte in text {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => continue,
        };
        value = value << 4 | u128::from(digit);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::captures::captures;

    #[test]
    fn floor_and_walrow_visit_the_same_cells() {
        for capture in captures() {
            let visited = walk(&capture.bytes);
            assert_eq!(
                Ok(visited),
                crate::walk::walk(&capture.bytes),
                "{}",
                capture.name
            );
            assert!(visited.cells > 100_000, "{}: {visited:?}", capture.name);
        }
    }

    #[test]
    fn every_cell_is_read() {
        for capture in captures() {
            let visited = walk(&capture.bytes);
            let (mut cells, mut nulls, mut images) = (0, 0, 0);
            let rows = rows(&capture.bytes, |table| {
                images += table.seq.len();
                for column in &table.columns {
                    assert_eq!(column.len, table.seq.len());
                    cells += column.len;
                    nulls += column.len;
                    nulls -= column
                        .valid
                        .iter()
                        .map(|bits| bits.count_ones() as usize)
                        .sum::<usize>();
                }
            });
            assert_eq!(images, rows, "{}", capture.name);
            assert_eq!(
                (cells, nulls),
                (visited.cells, visited.nulls),
                "{}",
                capture.name
            );
        }
    }

    #[test]
    fn values_are_right() {
        assert_eq!(integer(b"-2147483648"), -2_147_483_648);
        assert_eq!(decimal(b"-12.30"), -1_230);
        assert_eq!(date(b"1970-01-01"), 0);
        assert_eq!(date(b"2024-02-29"), 19_782);
        assert_eq!(micros(b"1970-01-02 00:00:01.5"), 86_401_500_000);
        assert_eq!(micros(b"1969-12-31 23:59:59.999999+00"), -1);
        assert_eq!(
            uuid(b"00000000-0000-4000-8000-0000000000ff"),
            0x4000_8000_0000_0000_00ff
        );
    }
}
