//! Text that was checked when it was pushed. The crate's only unsafe code is here.
//!
//! Arrow's safe constructor checks all bytes of a string array, and where each value ends. Here
//! each value was checked before, alone, as an error names its row. The second check takes an eighth
//! of the time of decoding text columns.

use crate::offsets::{offset, offsets, push_empty, truncate_offsets};
use arrow_array::StringArray;
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use walrow_types::{CellError, check_utf8, short_ascii};

/// Values that are valid UTF-8, each by itself.
///
/// The fields are private, and only the functions of this file change them. After each of them:
/// - `offsets` begins with 0, and each next one is not smaller. The last one is the length of `bytes`.
/// - The bytes between two offsets that follow each other are one value, or none. They are valid
///   UTF-8.
#[derive(Debug)]
pub(crate) struct Utf8 {
    /// 0, then the end of each value.
    offsets: Vec<i32>,
    bytes: Vec<u8>,
}

impl Utf8 {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self {
            offsets: offsets(rows),
            bytes: Vec::new(),
        }
    }

    /// Pushes a cell of 4 to 16 ASCII characters. Returns false for any other cell, and if it needs
    /// an allocation.
    #[inline]
    pub(crate) fn push_short(&mut self, cell: &[u8]) -> bool {
        let Some(bytes) = short_ascii(cell) else {
            return false;
        };
        if self.bytes.spare_capacity_mut().len() < bytes.len() || !self.has_room() {
            return false;
        }
        let end = self.bytes.len().wrapping_add(cell.len());
        let Ok(offset) = offset(end) else {
            return false;
        };
        // A fixed number of bytes needs no call of `memcpy`.
        self.bytes.extend_from_slice(&bytes);
        self.bytes.truncate(end);
        self.offsets.push(offset);
        true
    }

    /// Pushes a cell.
    ///
    /// # Errors
    /// The cell is not UTF-8, or all values together are larger than 2 GiB.
    #[inline]
    pub(crate) fn push(&mut self, cell: &[u8]) -> Result<(), CellError> {
        check_utf8(cell)?;
        let offset = offset(self.bytes.len().saturating_add(cell.len()))?;
        self.bytes.extend_from_slice(cell);
        self.offsets.push(offset);
        Ok(())
    }

    /// Pushes the same text this many times.
    ///
    /// # Errors
    /// All values together are larger than 2 GiB.
    pub(crate) fn push_repeated(&mut self, text: &str, times: usize) -> Result<(), CellError> {
        let start = self.bytes.len();
        let end = start.saturating_add(text.len().saturating_mul(times));
        // The last offset fits, so all offsets do.
        let (first, _) = (offset(start)?, offset(end)?);
        let step = offset(text.len())?;
        if times == 0 {
            return Ok(());
        }
        self.bytes.reserve(end.saturating_sub(start));
        self.bytes.extend_from_slice(text.as_bytes());
        // The bytes repeat themselves here, as a second copy would need as much memory again.
        while self.bytes.len() < end {
            let known = self.bytes.len().saturating_sub(start);
            let more = known.min(end.saturating_sub(self.bytes.len()));
            self.bytes
                .extend_from_within(start..start.saturating_add(more));
        }
        let mut offset = first;
        self.offsets.extend((0..times).map(|_| {
            offset = offset.wrapping_add(step);
            offset
        }));
        Ok(())
    }

    #[inline]
    pub(crate) fn push_null(&mut self) {
        push_empty(&mut self.offsets);
    }

    /// Whether the next offset needs no allocation.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.offsets.len() < self.offsets.capacity()
    }

    /// Drops all values after the first `rows`.
    pub(crate) fn truncate(&mut self, rows: usize) {
        let end = truncate_offsets(&mut self.offsets, rows);
        self.bytes.truncate(end);
    }

    /// Bytes of all values.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// The values as an array, with these nulls.
    ///
    /// # Errors
    /// There are not as many values or nulls as rows.
    pub(crate) fn into_array(
        self,
        rows: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<StringArray, ArrowError> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let has_nulls_of_rows = nulls.as_ref().is_none_or(|nulls| nulls.len() == rows);
        if offsets.len() != rows.saturating_add(1) || !has_nulls_of_rows {
            let message = "a text column has another number of rows".to_owned();
            return Err(ArrowError::InvalidArgumentError(message));
        }
        let bytes = Buffer::from_vec(self.bytes);
        #[expect(unsafe_code, reason = "the values were checked one by one")]
        // SAFETY: `OffsetBuffer::new` has checked that the offsets begin with 0 and ascend, and the
        // last one is the length of the bytes, as `Utf8` says. So each offset lies in the bytes, at
        // the end of a value. Values are pushed whole: a `&str`, or after `check_utf8` or
        // `short_ascii` has found that they are UTF-8. Bytes of UTF-8 one after the other are UTF-8,
        // and each value begins and ends at a character's boundary. `truncate` drops whole values.
        // There are as many nulls as values: this was checked above.
        Ok(unsafe { StringArray::new_unchecked(offsets, bytes, nulls) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Array, StringArray};
    use proptest::prelude::*;

    /// A cell or a null, or the number of rows to keep.
    #[derive(Clone, Debug)]
    enum Step {
        Push(Vec<u8>),
        Short(Vec<u8>),
        Null,
        Repeated(String, usize),
        Truncate(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let cell = || {
            prop_oneof![
                "[a-z]{0,20}".prop_map(String::into_bytes),
                "\\PC{0,9}".prop_map(String::into_bytes),
                proptest::collection::vec(any::<u8>(), 0..9),
            ]
        };
        prop_oneof![
            4 => cell().prop_map(Step::Push),
            4 => cell().prop_map(Step::Short),
            1 => Just(Step::Null),
            1 => ("\\PC{0,5}", 0..9_usize).prop_map(|(text, times)| Step::Repeated(text, times)),
            1 => (0..30_usize).prop_map(Step::Truncate),
        ]
    }

    proptest! {
        #[test]
        fn the_checked_constructor_accepts_all_values(steps in proptest::collection::vec(step(), 0..60)) {
            let mut store = Utf8::with_capacity(8);
            let mut expected: Vec<Option<String>> = Vec::new();
            for step in steps {
                match step {
                    Step::Push(cell) => {
                        let text = String::from_utf8(cell.clone());
                        prop_assert_eq!(store.push(&cell).is_ok(), text.is_ok());
                        expected.extend(text.ok().map(Some));
                    }
                    Step::Short(cell) => {
                        if store.push_short(&cell) {
                            prop_assert!(cell.is_ascii());
                            expected.push(String::from_utf8(cell).ok());
                        }
                    }
                    Step::Null => {
                        store.push_null();
                        expected.push(None);
                    }
                    Step::Repeated(text, times) => {
                        store.push_repeated(&text, times).unwrap();
                        expected.extend(std::iter::repeat_n(Some(text), times));
                    }
                    Step::Truncate(rows) => {
                        store.truncate(rows);
                        expected.truncate(rows);
                    }
                }
            }
            let valid: Vec<bool> = expected.iter().map(Option::is_some).collect();
            let rows = expected.len();
            let array = store.into_array(rows, Some(NullBuffer::from(valid))).unwrap();
            prop_assert!(array.to_data().validate_full().is_ok());
            let strings = StringArray::from(expected);
            prop_assert_eq!(array.to_data(), strings.to_data());
        }
    }

    #[test]
    fn another_number_of_rows_is_an_error() {
        let mut store = Utf8::with_capacity(1);
        store.push(b"one").unwrap();
        let nulls = NullBuffer::new_valid(2);
        assert!(store.into_array(1, Some(nulls)).is_err());
        assert!(Utf8::with_capacity(1).into_array(1, None).is_err());
    }
}
