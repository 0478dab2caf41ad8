//! The texts of a value's parts, which share one limit of size.

use crate::error::{CellError, MAX_VALUE, Unrepresentable};
use crate::pg_type::PgType;

/// Writes the texts of one value's parts, and limits their total size.
#[derive(Default)]
pub(crate) struct Parts {
    /// The length of all texts. The text of a few bytes can be thousands of times longer.
    bytes: usize,
}

impl Parts {
    /// Appends the text of a part, which the caller then quotes. Each level of quotes doubles the
    /// quotes inside it, so the text of a few bytes has no limit of its own.
    pub(crate) fn render<E: PgType + ?Sized>(
        &mut self,
        pg_type: &E,
        cell: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CellError> {
        let start = out.len();
        pg_type.text_from_binary(cell, out)?;
        let text = out.get(start..).unwrap_or_default();
        self.bytes = self.bytes.saturating_add(text.len());
        if text.len() > MAX_VALUE / 2 {
            let doubled = text.iter().filter(|byte| matches!(byte, b'"' | b'\\'));
            self.bytes = self.bytes.saturating_add(doubled.count());
        }
        if self.bytes > MAX_VALUE {
            return Err(Unrepresentable::TooLarge.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg_type::write_text_of_binary;
    use crate::{Attribute, Composite, Int4, Known, Multirange, Numeric, Range};
    use std::sync::Arc;

    fn in_field(cell: &[u8]) -> Vec<u8> {
        let length = i32::try_from(cell.len()).unwrap().to_be_bytes();
        [&length[..], cell].concat()
    }

    fn render(pg_type: &dyn PgType, cell: &[u8]) -> (Result<(), CellError>, usize) {
        let mut out = Vec::new();
        let rendered = write_text_of_binary(pg_type, cell, &mut out);
        (rendered, out.capacity())
    }

    fn composite(types: Vec<(u32, Arc<dyn PgType>)>) -> Arc<dyn PgType> {
        let attributes = types.into_iter().map(|(oid, pg_type)| Attribute {
            name: "a".to_owned(),
            oid,
            pg_type,
        });
        Arc::new(Composite {
            attributes: attributes.collect(),
        })
    }

    fn range(subtype: Arc<dyn PgType>) -> Arc<Range<dyn PgType>> {
        Arc::new(Range { subtype })
    }

    #[test]
    fn the_texts_of_many_parts_are_bounded_together() {
        // Ten bytes, whose text has 32,769 digits.
        let numeric: Vec<u8> = [1_u16, 8_191, 0, 0, 1]
            .into_iter()
            .flat_map(u16::to_be_bytes)
            .collect();
        let pg_type: Arc<dyn PgType> = Arc::new(Numeric::new("numeric", -1));
        let field = in_field(&numeric);
        for (count, rendered) in [
            (31_usize, Ok(())),
            (33, Err(Unrepresentable::TooLarge.into())),
        ] {
            let number = i32::try_from(count).unwrap().to_be_bytes();
            let typed = [&1_700_u32.to_be_bytes()[..], &field].concat();
            // No upper bound.
            let one = in_field(&[vec![0b1_0000], field.clone()].concat());
            let record = composite(vec![(1_700, Arc::clone(&pg_type)); count]);
            let cell = [&number[..], &typed.repeat(count)].concat();
            assert_eq!(render(&*record, &cell).0, rendered);
            let ranges = Multirange {
                range: range(Arc::clone(&pg_type)),
            };
            let cell = [&number[..], &one.repeat(count)].concat();
            assert_eq!(render(&ranges, &cell).0, rendered);
        }
    }

    #[test]
    fn text_in_quotes_within_quotes_is_never_larger_than_postgresqls() {
        let int4: Arc<dyn PgType> = Arc::new(Int4);
        let mut record = (Arc::clone(&int4), 1_i32.to_be_bytes().to_vec());
        let mut ranges = record.clone();
        // Each level is deeper, and its text twice as long.
        for level in 1..=63 {
            let (pg_type, cell) = record;
            let header = [&1_i32.to_be_bytes()[..], &23_u32.to_be_bytes()].concat();
            let cell = [header, in_field(&cell)].concat();
            record = (composite(vec![(23, pg_type)]), cell);
            let (pg_type, cell) = ranges;
            // No upper bound.
            let cell = [vec![0b1_0000], in_field(&cell)].concat();
            ranges = (range(pg_type), cell);
            for (pg_type, cell) in [&record, &ranges] {
                let (rendered, capacity) = render(&**pg_type, cell);
                if level <= 18 {
                    assert_eq!(rendered, Ok(()));
                } else if level > 20 {
                    assert_eq!(rendered, Err(Unrepresentable::TooLarge.into()));
                }
                assert!(capacity <= 4 * MAX_VALUE);
            }
        }
    }
}
