//! One built-in type.

use walrow_wire::Oid;

/// A built-in type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuiltIn {
    /// `pg_type.oid`.
    pub oid: Oid,
    /// Its array type, 0 for none.
    pub array: Oid,
    /// `pg_type.typname`; the array type's is the same after an underscore.
    pub name: &'static str,
    /// The delimiter of elements in the text of an array.
    pub delimiter: u8,
}

pub(super) const fn entry(oid: Oid, array: Oid, name: &'static str, delimiter: u8) -> BuiltIn {
    BuiltIn {
        oid,
        array,
        name,
        delimiter,
    }
}
