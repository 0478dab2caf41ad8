//! The readers and loads that keep segments from being removed.

use crate::error::remedy::Remedy;
use std::fmt;
use walrow_stream::Printable;
use walrow_wire::{Lsn, Oid};

/// A reader or a load that needs segments, so that they cannot be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hold {
    /// A registered reader.
    Reader {
        /// Its name.
        name: String,
        /// Its position.
        position: Lsn,
        /// The time when it was last used, in microseconds since 2000.
        used: i64,
    },
    /// The last load of a table. Without it, readers could not build the table again.
    Load {
        /// The table.
        oid: Oid,
        /// Its schema.
        schema: String,
        /// Its name.
        name: String,
        /// The LSN where the segment before the load ends.
        position: Lsn,
    },
}

impl Hold {
    /// The position of the reader or load, which needs all changes after this LSN.
    pub const fn position(&self) -> Lsn {
        match self {
            Self::Reader { position, .. } | Self::Load { position, .. } => *position,
        }
    }
}

impl Hold {
    /// The remedies that end the need.
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
