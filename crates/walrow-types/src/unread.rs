//! Types whose text is the only form that walrow reads, and unknown types.

use crate::error::{CellError, Unrepresentable};
use crate::pg_type::{PgType, known};

/// A built-in type whose binary form does not exist or is not supported: `tsquery`, `gtsvector`,
/// `aclitem`.
#[derive(Clone, Copy, Debug)]
pub struct Unread;

known!(Unread: TSQUERY, GTSVECTOR, ACLITEM;);

impl PgType for Unread {
    fn text_from_binary(&self, _: &[u8], _: &mut Vec<u8>) -> Result<(), CellError> {
        Err(Unrepresentable::BinaryCell.into())
    }

    fn lacks_text(&self) -> bool {
        true
    }
}

/// An unknown type, such as one of an unsupported extension.
#[derive(Clone, Copy, Debug)]
pub struct Unknown;

impl PgType for Unknown {
    fn text_from_binary(&self, _: &[u8], _: &mut Vec<u8>) -> Result<(), CellError> {
        Err(Unrepresentable::UnknownType.into())
    }

    fn lacks_text(&self) -> bool {
        true
    }

    fn expands(&self) -> bool {
        false
    }

    fn is_unknown(&self) -> bool {
        true
    }
}
