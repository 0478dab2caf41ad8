//! What keeps segments from being removed.

use crate::error::remedy::Remedy;
use std::fmt;
use walrow_stream::Printable;
use walrow_wire::{Lsn, Oid};

/// What needs segments that would be removed otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hold {
    /// A registered reader.
    Reader {
        /// Its name.
        name: String,
        /// Its position.
        position: Lsn,
        /// When it was last used, in microseconds since 2000.
        used: i64,
    },
    /// The last load of a table: without it, nobody could build the table again.
    Load {
        /// The table.
        oid: Oid,
        /// Its schema.
        schema: String,
        /// Its name.
        name: String,
        /// Where the segment before the load ends.
        position: Lsn,
    },
}

impl Hold {
    /// What comes after this LSN is needed.
    pub const fn position(&self) -> Lsn {
        match self {
            Self::Reader { position, .. } | Self::Load { position, .. } => *position,
        }
    }
}

impl Hold {
    /// What ends the need.
    pub(crate) fn remedies(&self) -> Vec<Remedy> {
        match self {
            Self::Reader { name, .. } => {
                let reader = name.clone();
                let forget = Remedy::Forget {
                    reader: reader.clone(),
                };
                vec![Remedy::Advance { reader }, forget]
            }
            Self::Load { schema, name, .. } => vec![Remedy::Load {
                table: format!("{schema}.{name}"),
            }],
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reader { name, position, .. } => {
                write!(f, "the reader {} is at {position}", Printable(name))
            }
            Self::Load {
                schema,
                name,
                position,
                ..
            } => write!(
                f,
                "the last load of {}.{} comes after {position}",
                Printable(schema),
                Printable(name)
            ),
        }
    }
}
