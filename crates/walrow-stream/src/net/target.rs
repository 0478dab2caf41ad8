//! The columns of the rows that a target has from before the changes.

use crate::net::error::{Gap, NetError};
use crate::net::table::Table;
use crate::net::versions::{Seen, Step};
use std::collections::BTreeSet;

/// The rows that a target has from before the changes, as far as they are known.
///
/// A renamed column and new values that the server did not send change such rows without a message.
#[derive(Debug, Default)]
pub(super) enum Target {
    /// The target has no such rows, or the caller compares the columns.
    #[default]
    Unseen,
    /// The rows have the columns of this version, and had the columns of earlier versions.
    Has {
        version: Seen,
        earlier: BTreeSet<Box<str>>,
    },
    /// The changes do not give their values.
    Lost(NetError),
}

impl Target {
    pub(super) fn new(version: Seen) -> Self {
        Self::Has {
            version,
            earlier: BTreeSet::new(),
        }
    }

    /// Takes the next version.
    pub(super) fn take_version(&mut self, table: &Table, next: &Seen) {
        let Self::Has { version, earlier } = self else {
            return;
        };
        if let Some(gap) = gap(version, earlier, next) {
            *self = Self::Lost(table.gap(gap));
            return;
        }
        let names = version.relation.columns.iter().map(|it| it.name.clone());
        earlier.extend(names);
        *version = next.clone();
    }

    /// Fails if the changes do not give the values of its rows.
    pub(super) fn check(&mut self) -> Result<(), NetError> {
        match std::mem::take(self) {
            Self::Lost(error) => Err(error),
            _ => Ok(()),
        }
    }
}

fn gap(before: &Seen, earlier: &BTreeSet<Box<str>>, after: &Seen) -> Option<Gap> {
    let (old, new) = (&before.relation, &after.relation);
    let step = Step::new(
        (old, before.numbers.as_deref()),
        (new, after.numbers.as_deref()),
    );
    let places = match step {
        Step::Same => return None,
        Step::Unclear { went, came } => return Some(Gap::Columns { went, came }),
        Step::Retyped(column) => return Some(Gap::Type { column }),
        Step::Changed(places) => places,
    };
    new.columns.iter().zip(places).find_map(|(column, place)| {
        let old_name = place.and_then(|place| Some(&old.columns.get(place)?.name));
        match old_name {
            Some(old_name) if *old_name == column.name => None,
            Some(old_name) => Some(Gap::Renamed {
                before: old_name.to_string(),
                after: column.name.to_string(),
            }),
            None => {
                let is_known = |it: &crate::relation::Column| it.name == column.name;
                let came_back = earlier.contains(&column.name) || old.columns.iter().any(is_known);
                came_back.then(|| Gap::CameBack {
                    column: column.name.to_string(),
                })
            }
        }
    })
}
