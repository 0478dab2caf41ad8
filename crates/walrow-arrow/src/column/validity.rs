//! The rows of a column that are null.

use arrow_array::builder::BooleanBufferBuilder;
use arrow_buffer::NullBuffer;

/// Counts rows, and holds a bit for each row up to the last null.
///
/// A row that is not null only counts: most columns have few nulls, or none.
#[derive(Debug)]
pub(crate) struct Validity {
    rows: usize,
    bits: BooleanBufferBuilder,
}

impl Validity {
    pub(crate) fn new() -> Self {
        Self {
            rows: 0,
            bits: BooleanBufferBuilder::new(0),
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
        self.catch_up();
        self.bits.append(false);
        self.rows = self.rows.wrapping_add(1);
    }

    /// Appends the bits of the rows since the last null.
    #[inline]
    fn catch_up(&mut self) {
        let behind = self.rows.saturating_sub(self.bits.len());
        if behind > 0 {
            self.bits.append_n(behind, true);
        }
    }

    /// Drops all rows after the first `rows`.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
        if self.bits.len() > rows {
            self.bits.truncate(rows);
        }
    }

    /// The nulls, if there is one.
    pub(crate) fn finish(mut self) -> Option<NullBuffer> {
        if self.bits.is_empty() {
            return None;
        }
        self.catch_up();
        Some(NullBuffer::new(self.bits.finish())).filter(|nulls| nulls.null_count() > 0)
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
