//! PostgreSQL's built-in types: OIDs that are the same on every server.

mod entry;
mod table;

pub use entry::BuiltIn;
pub(crate) use table::*;
use walrow_wire::Oid;

impl BuiltIn {
    /// Finds the type with this OID, or whose array type has it. Returns whether it is the array type.
    pub fn by_oid(oid: Oid) -> Option<(Self, bool)> {
        by_oid(oid)
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        BUILT_IN.iter().copied()
    }

    /// As [`BuiltIn::by_oid`], by `pg_type.typname`.
    pub fn by_name(name: &str) -> Option<(Self, bool)> {
        by_name(name)
    }

    /// The type of the bounds of a range or multirange, or of the elements of an `int2vector` or
    /// `oidvector`.
    pub fn part(self) -> Option<Part> {
        let range = |oid| by_oid(oid).map(|(entry, _)| entry);
        match self.oid {
            INT2VECTOR => range(INT2).map(Part::Vector),
            OIDVECTOR => range(OID).map(Part::Vector),
            oid if self.name.ends_with("multirange") => range(subtype(oid)).map(Part::Multirange),
            oid => range(subtype(oid)).map(Part::Range),
        }
    }
}

/// The built-in type that another one consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The bounds of a range.
    Range(BuiltIn),
    /// The bounds of a multirange's ranges.
    Multirange(BuiltIn),
    /// The elements of an `int2vector` or `oidvector`.
    Vector(BuiltIn),
}

/// OIDs below this one are assigned by hand and stay the same on every server and version.
pub const FIRST_UNPINNED_OID: Oid = 10_000;

/// A built-in type, and whether the OID or name is that of its array type.
fn by_oid(oid: Oid) -> Option<(BuiltIn, bool)> {
    find(|entry| {
        if entry.oid == oid {
            Some(false)
        } else {
            // 0 is no type.
            (entry.array == oid && oid != 0).then_some(true)
        }
    })
}

/// As [`by_oid`], by `pg_type.typname`.
fn by_name(name: &str) -> Option<(BuiltIn, bool)> {
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
