//! The rows of a column that are null.

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

/// Counts rows, and holds a bit for each row up to the last null.
///
/// A row that is not null only counts: most columns have few nulls, or none.
#[derive(Debug)]
pub(crate) struct Validity {
    rows: usize,
    /// Bits that are 0 for a null. All bits after the last null are 1.
    words: Vec<u64>,
}

/// The number of bits of a word.
const BITS: usize = 64;

impl Validity {
    pub(crate) const fn new() -> Self {
        Self {
            rows: 0,
            words: Vec::new(),
        }
    }

    pub(crate) const fn rows(&self) -> usize {
        self.rows
    }

    #[inline]
    pub(crate) fn append_non_null(&mut self) {
        self.rows = self.rows.wrapping_add(1);
    }

    #[inline]
    pub(crate) fn append_null(&mut self) {
        let place = self.rows / BITS;
        if place >= self.words.len() {
            self.words.resize(place.saturating_add(1), u64::MAX);
        }
        if let Some(word) = self.words.get_mut(place) {
            *word &= !(1 << (self.rows % BITS));
        }
        self.rows = self.rows.wrapping_add(1);
    }

    /// Drops all rows after the first `rows`.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
        self.words.truncate(self.rows.div_ceil(BITS));
        if let Some(word) = self.words.get_mut(self.rows / BITS) {
            *word |= u64::MAX << (self.rows % BITS);
        }
    }

    /// The nulls, if there is one.
    pub(crate) fn finish(mut self) -> Option<NullBuffer> {
        if self.words.is_empty() {
            return None;
        }
        self.words.resize(self.rows.div_ceil(BITS), u64::MAX);
        for word in &mut self.words {
            *word = word.to_le();
        }
        let bits = BooleanBuffer::new(Buffer::from_vec(self.words), 0, self.rows);
        Some(NullBuffer::new(bits)).filter(|nulls| nulls.null_count() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_column_without_nulls_has_no_bits() {
        let mut validity = Validity::new();
        for _ in 0..1000 {
            validity.append_non_null();
        }
        assert_eq!(validity.rows(), 1000);
        assert_eq!(validity.finish(), None);
    }

    #[test]
    fn a_null_that_was_dropped_leaves_none() {
        let mut validity = Validity::new();
        validity.append_non_null();
        validity.append_null();
        validity.truncate(1);
        validity.append_non_null();
        assert_eq!(validity.rows(), 2);
        assert_eq!(validity.finish(), None);
    }

    proptest! {
        #[test]
        fn each_row_is_what_was_appended(
            rows: Vec<bool>,
            kept in 0..200_usize,
            more: Vec<bool>,
        ) {
            let mut validity = Validity::new();
            let append = |validity: &mut Validity, rows: &[bool]| {
                for is_valid in rows {
                    if *is_valid {
                        validity.append_non_null();
                    } else {
                        validity.append_null();
                    }
                }
            };
            append(&mut validity, &rows);
            validity.truncate(kept);
            append(&mut validity, &more);
            let expected: Vec<bool> = rows.iter().take(kept).chain(&more).copied().collect();
            prop_assert_eq!(validity.rows(), expected.len());
            let found = validity.finish();
            prop_assert_eq!(found.is_some(), expected.contains(&false));
            if let Some(nulls) = found {
                prop_assert_eq!(nulls.iter().collect::<Vec<_>>(), expected);
            }
        }
    }
}
