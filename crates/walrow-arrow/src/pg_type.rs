//! PostgreSQL's built-in types: OIDs that are the same on every server.

mod built_in;

pub(crate) use built_in::*;
use walrow_wire::Oid;

/// A built-in type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BuiltIn {
    pub(crate) oid: Oid,
    /// Its array type, 0 for none.
    pub(crate) array: Oid,
    /// `pg_type.typname`; the array type's is the same after an underscore.
    pub(crate) name: &'static str,
    /// What stands between the elements of an array's text.
    pub(crate) delimiter: u8,
}

/// OIDs below this one are assigned by hand and stay the same on every server and version.
pub(crate) const FIRST_UNPINNED_OID: Oid = 10_000;

/// A built-in type, and whether the OID or name asked for was its array type's.
pub(crate) fn by_oid(oid: Oid) -> Option<(BuiltIn, bool)> {
    find(|entry| {
        if entry.oid == oid {
            Some(false)
        } else {
            // 0 stands for none.
            (entry.array == oid && oid != 0).then_some(true)
        }
    })
}

/// As [`by_oid`], by `pg_type.typname`.
pub(crate) fn by_name(name: &str) -> Option<(BuiltIn, bool)> {
    find(|entry| {
        if entry.name == name {
            return Some(false);
        }
        (entry.array != 0 && name.strip_prefix('_') == Some(entry.name)).then_some(true)
    })
}

fn find(matches: impl Fn(&BuiltIn) -> Option<bool>) -> Option<(BuiltIn, bool)> {
    BUILT_IN
        .iter()
        .find_map(|entry| matches(entry).map(|is_array| (*entry, is_array)))
}

const fn entry(oid: Oid, array: Oid, name: &'static str, delimiter: u8) -> BuiltIn {
    BuiltIn {
        oid,
        array,
        name,
        delimiter,
    }
}
