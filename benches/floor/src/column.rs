//! The values of a column.

use crate::table::renewed;
use crate::{array, binary, text};

/// A column's values and which of them are there.
#[derive(Debug)]
pub struct Column {
    values: Values,
    valid: Vec<u64>,
    len: usize,
    /// The rows whose value was not sent, and is not known.
    unsent: Vec<usize>,
}

/// Values; one without a value has any.
#[derive(Debug)]
#[expect(missing_docs, clippy::exhaustive_enums, reason = "plain values")]
pub enum Values {
    Bool(Vec<u8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    /// Unscaled, as all values of a column have the same scale.
    Decimal(Vec<i128>),
    /// Days since 1970.
    Date(Vec<i32>),
    /// Microseconds since midnight.
    Time(Vec<i64>),
    /// Microseconds since 1970.
    Micros(Vec<i64>),
    Uuid(Vec<u128>),
    /// Bytes, and where each value ends, after a first 0.
    Text(Vec<u8>, Vec<i32>),
    /// The same, of `jsonb`, which has a version before its text in binary.
    Jsonb(Vec<u8>, Vec<i32>),
}

impl Column {
    pub(crate) fn new(type_oid: u32) -> Self {
        Self {
            values: match type_oid {
                16 => Values::Bool(Vec::new()),
                20 => Values::I64(Vec::new()),
                21 => Values::I16(Vec::new()),
                23 => Values::I32(Vec::new()),
                700 => Values::F32(Vec::new()),
                701 => Values::F64(Vec::new()),
                1082 => Values::Date(Vec::new()),
                1083 => Values::Time(Vec::new()),
                1114 | 1184 => Values::Micros(Vec::new()),
                1700 => Values::Decimal(Vec::new()),
                2950 => Values::Uuid(Vec::new()),
                3802 => Values::Jsonb(Vec::new(), vec![0]),
                _ => Values::Text(Vec::new(), vec![0]),
            },
            valid: Vec::new(),
            len: 0,
            unsent: Vec::new(),
        }
    }

    /// The values.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a row has a value.
    pub fn is_valid(&self, row: usize) -> bool {
        self.valid[row / 64] >> (row % 64) & 1 == 1
    }

    /// The rows whose value was not sent, and is not known.
    pub fn unsent(&self) -> &[usize] {
        &self.unsent
    }

    pub(crate) fn take(&mut self) -> Self {
        let texts = |bytes: &mut Vec<u8>, ends: &mut Vec<i32>| {
            let taken = (renewed(bytes), renewed(ends));
            ends.push(0);
            taken
        };
        Self {
            values: match &mut self.values {
                Values::Bool(values) => Values::Bool(renewed(values)),
                Values::I16(values) => Values::I16(renewed(values)),
                Values::I32(values) => Values::I32(renewed(values)),
                Values::I64(values) => Values::I64(renewed(values)),
                Values::F32(values) => Values::F32(renewed(values)),
                Values::F64(values) => Values::F64(renewed(values)),
                Values::Decimal(values) => Values::Decimal(renewed(values)),
                Values::Date(values) => Values::Date(renewed(values)),
                Values::Time(values) => Values::Time(renewed(values)),
                Values::Micros(values) => Values::Micros(renewed(values)),
                Values::Uuid(values) => Values::Uuid(renewed(values)),
                Values::Text(bytes, ends) => {
                    let (bytes, ends) = texts(bytes, ends);
                    Values::Text(bytes, ends)
                }
                Values::Jsonb(bytes, ends) => {
                    let (bytes, ends) = texts(bytes, ends);
                    Values::Jsonb(bytes, ends)
                }
            },
            valid: renewed(&mut self.valid),
            len: std::mem::take(&mut self.len),
            unsent: std::mem::take(&mut self.unsent),
        }
    }

    /// Appends a cell by its letter and its value. Cells with `n` or `u` have an empty value.
    #[inline(always)]
    pub(crate) fn push(&mut self, tag: u8, value: &[u8]) {
        if tag == b't' || tag == b'n' {
            self.mark(tag == b't');
            self.push_text(value);
        } else {
            self.push_other(tag, value);
        }
    }

    #[inline]
    fn mark(&mut self, is_valid: bool) {
        if self.len.is_multiple_of(64) {
            self.valid.push(0);
        }
        if is_valid && let Some(bits) = self.valid.last_mut() {
            *bits |= 1 << (self.len % 64);
        }
        self.len += 1;
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the schema says that it fits"
    )]
    fn push_text(&mut self, cell: &[u8]) {
        match &mut self.values {
            Values::Bool(values) => values.push(u8::from(cell == b"t")),
            Values::I16(values) => values.push(text::integer(cell) as i16),
            Values::I32(values) => values.push(text::integer(cell) as i32),
            Values::I64(values) => values.push(text::integer(cell)),
            Values::F32(values) => values.push(text::float(cell)),
            Values::F64(values) => values.push(text::float(cell)),
            Values::Decimal(values) => values.push(text::decimal(cell)),
            Values::Date(values) => values.push(cell.first_chunk::<10>().map_or(0, text::date)),
            Values::Time(values) => values.push(text::time(cell)),
            Values::Micros(values) => values.push(text::micros(cell)),
            Values::Uuid(values) => values.push(text::uuid(cell)),
            Values::Text(bytes, ends) | Values::Jsonb(bytes, ends) => push_bytes(bytes, ends, cell),
        }
    }

    #[inline(never)]
    fn push_other(&mut self, tag: u8, cell: &[u8]) {
        if tag == b'u' {
            self.unsent.push(self.len);
            self.push(b'n', &[]);
            return;
        }
        self.mark(true);
        match &mut self.values {
            Values::Bool(values) => values.push(cell[0]),
            Values::I16(values) => values.push(i16::from_be_bytes(array(cell))),
            Values::I32(values) => values.push(i32::from_be_bytes(array(cell))),
            Values::I64(values) | Values::Time(values) => {
                values.push(i64::from_be_bytes(array(cell)));
            }
            Values::F32(values) => values.push(f32::from_be_bytes(array(cell))),
            Values::F64(values) => values.push(f64::from_be_bytes(array(cell))),
            Values::Decimal(values) => values.push(binary::decimal(cell)),
            Values::Date(values) => values.push(binary::date(cell)),
            Values::Micros(values) => values.push(binary::micros(cell)),
            Values::Uuid(values) => values.push(u128::from_be_bytes(array(cell))),
            Values::Text(bytes, ends) => push_bytes(bytes, ends, cell),
            Values::Jsonb(bytes, ends) => push_bytes(bytes, ends, &cell[1..]),
        }
    }

    /// Appends the last value once more.
    pub(crate) fn repeat_last(&mut self) {
        let last = self.len - 1;
        self.mark(self.is_valid(last));
        match &mut self.values {
            Values::Bool(values) => values.push(values[last]),
            Values::I16(values) => values.push(values[last]),
            Values::I32(values) | Values::Date(values) => values.push(values[last]),
            Values::I64(values) | Values::Time(values) | Values::Micros(values) => {
                values.push(values[last]);
            }
            Values::F32(values) => values.push(values[last]),
            Values::F64(values) => values.push(values[last]),
            Values::Decimal(values) => values.push(values[last]),
            Values::Uuid(values) => values.push(values[last]),
            Values::Text(bytes, ends) | Values::Jsonb(bytes, ends) => {
                let start = usize::try_from(ends[last]).unwrap_or_default();
                bytes.extend_from_within(start..);
                ends.push(i32::try_from(bytes.len()).unwrap_or_default());
            }
        }
    }
}

#[inline]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a batch has less than 2 GiB"
)]
fn push_bytes(bytes: &mut Vec<u8>, ends: &mut Vec<i32>, cell: &[u8]) {
    bytes.extend_from_slice(cell);
    ends.push(bytes.len() as i32);
}
