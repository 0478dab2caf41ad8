//! The versions of a table's columns. Rows are stored under their version, and become rows of the
//! last version here.

use crate::catalog::Catalog;
use crate::net::heap::Version;
use crate::relation::{Column, Relation};
use std::collections::HashMap;
use std::sync::Arc;
use walrow_wire::{Cell, Oid, Tuple};

/// The places of the last version's columns in an earlier version. `None` for a column that the
/// earlier version lacks.
type Places = Box<[Option<usize>]>;

/// The versions of a table.
#[derive(Debug, Default)]
pub(super) struct Versions {
    all: Vec<Stored>,
    /// The versions that differ, in their order: a definition may come back any number of times.
    distinct: Vec<usize>,
}

#[derive(Debug)]
enum Stored {
    Distinct(Shape),
    /// Rows of this version become rows of the last version as the rows of an earlier one do.
    SameAs(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shape {
    columns: u16,
    /// `None` if the version has the columns of the last version.
    places: Option<Places>,
}

impl Versions {
    /// Begins again with one version, which has this number of columns.
    pub(super) fn begin(&mut self, columns: usize) {
        self.all.clear();
        self.distinct.clear();
        self.push(columns);
    }

    fn push(&mut self, columns: usize) {
        self.distinct.push(self.all.len());
        self.all.push(Stored::Distinct(Shape {
            columns: u16::try_from(columns).unwrap_or(u16::MAX),
            places: None,
        }));
    }

    /// The number of the last version.
    pub(super) fn last(&self) -> Version {
        let last = self.all.len().saturating_sub(1);
        Version::try_from(last).unwrap_or(Version::MAX)
    }

    /// Adds a version, whose columns were at these places of the version before.
    pub(super) fn add(&mut self, columns: usize, step: &Places) {
        let mut known = HashMap::new();
        let all = &mut self.all;
        self.distinct.retain(|&number| {
            let Some(Stored::Distinct(shape)) = all.get_mut(number) else {
                return false;
            };
            shape.places = Some(match &shape.places {
                None => step.clone(),
                Some(places) => {
                    let places = step.iter().map(|place| *places.get((*place)?)?);
                    places.collect()
                }
            });
            let first = *known.entry(shape.clone()).or_insert(number);
            if first != number
                && let Some(stored) = all.get_mut(number)
            {
                *stored = Stored::SameAs(first);
            }
            first == number
        });
        self.push(columns);
    }

    fn shape(&self, version: Version) -> Option<&Shape> {
        let mut number = usize::try_from(version).ok()?;
        loop {
            match self.all.get(number)? {
                Stored::Distinct(shape) => return Some(shape),
                // An earlier one.
                Stored::SameAs(first) => number = *first,
            }
        }
    }

    /// Whether rows of this version have the columns of the last version.
    pub(super) fn is_last(&self, version: Version) -> bool {
        self.shape(version).is_some_and(|it| it.places.is_none())
    }

    /// The cells of a stored row, as a row of the last version: in `out`, unless they are the same.
    /// Columns that its version lacks have the cell `missing`. `None` if the cells do not match
    /// their version.
    pub(super) fn project<'a>(
        &self,
        version: Version,
        cells: &'a [u8],
        missing: Cell<'_>,
        out: &'a mut Vec<u8>,
    ) -> Option<Tuple<'a>> {
        let shape = self.shape(version)?;
        let row = Tuple::of(shape.columns, cells)?;
        let Some(places) = &shape.places else {
            return Some(row);
        };
        let cells: Vec<Cell<'_>> = row.cells().collect();
        out.clear();
        for place in places {
            let cell = place.and_then(|place| cells.get(place));
            cell.unwrap_or(&missing).encode(out);
        }
        Tuple::of(u16::try_from(places.len()).ok()?, out)
    }
}

/// A version that was seen.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) relation: Arc<Relation>,
    /// The attribute numbers of its columns.
    pub(super) numbers: Option<Vec<i16>>,
}

/// The attribute numbers of a version's columns, if the catalog has exactly these columns.
pub(super) fn numbers(relation: &Relation, catalog: &Catalog) -> Option<Vec<i16>> {
    let table = catalog.tables.iter().find(|it| it.oid == relation.oid)?;
    if table.columns.len() != relation.columns.len() {
        return None;
    }
    let columns = relation.columns.iter().zip(&table.columns);
    let numbers = columns.map(|(column, known)| {
        let is_same = *column.name == *known.name && column.type_oid == known.type_oid;
        known.number.filter(|_| is_same)
    });
    numbers.collect()
}

/// The difference between the columns of a version and of the version before.
#[derive(Debug)]
pub(super) enum Step {
    /// They are the same.
    Same,
    /// The columns were at these places of the version before.
    Changed(Places),
    /// A column went and another column came. It may be the same column with a new name.
    Unclear {
        /// A column that went.
        went: String,
        /// A column that came.
        came: String,
    },
    /// The values of a column changed with its type.
    Retyped(String),
}

impl Step {
    /// The step from a version to the next version, with the attribute numbers of their columns.
    pub(super) fn new(
        (before, numbers_before): (&Relation, Option<&[i16]>),
        (after, numbers_after): (&Relation, Option<&[i16]>),
    ) -> Self {
        let places = match (numbers_before, numbers_after) {
            (Some(before), Some(after)) => by_number(before, after),
            _ => match by_name(before, after) {
                Ok(places) => places,
                Err((went, came)) => return Self::Unclear { went, came },
            },
        };
        for (column, place) in after.columns.iter().zip(&places) {
            let old = place.and_then(|place| before.columns.get(place));
            if old.is_some_and(|old| !is_kept(old, column)) {
                return Self::Retyped(column.name.to_string());
            }
        }
        let is_same = places.iter().enumerate().all(|(at, it)| *it == Some(at));
        if is_same && before.columns.len() == after.columns.len() {
            return Self::Same;
        }
        Self::Changed(places)
    }
}

fn by_number(before: &[i16], after: &[i16]) -> Places {
    let places = before.iter().enumerate();
    let places: HashMap<i16, usize> = places.map(|(at, it)| (*it, at)).collect();
    after.iter().map(|it| places.get(it).copied()).collect()
}

/// Returns a column that went and a column that came, if there are both.
fn by_name(before: &Relation, after: &Relation) -> Result<Places, (String, String)> {
    let places = before.columns.iter().enumerate();
    let places: HashMap<&str, usize> = places.map(|(at, it)| (&*it.name, at)).collect();
    let found = after
        .columns
        .iter()
        .map(|it| places.get(&*it.name).copied());
    let found: Places = found.collect();
    let mut went = before.columns.iter().enumerate();
    let went = went.find(|(place, _)| !found.contains(&Some(*place)));
    let mut came = after.columns.iter().zip(&found);
    let came = came.find(|(_, place)| place.is_none());
    match (went, came) {
        (Some((_, went)), Some((came, _))) => Err((went.name.to_string(), came.name.to_string())),
        _ => Ok(found),
    }
}

/// `text`, `character varying` and `bit varying`
const TEXT: Oid = 25;
const VARCHAR: Oid = 1043;
const VARBIT: Oid = 1562;
const NUMERIC: Oid = 1700;
/// `time`, `timestamp`, `timestamptz` and `timetz`, with up to 6 digits of a second.
const TIMES: [Oid; 4] = [1083, 1114, 1184, 1266];
const DIGITS: i32 = 6;

/// Whether a change of a column's type leaves its values as they are: then the server does not
/// rewrite the table.
fn is_kept(before: &Column, after: &Column) -> bool {
    let is_text = |oid| oid == TEXT || oid == VARCHAR;
    let oid = after.type_oid;
    if before.type_oid != oid && !(is_text(before.type_oid) && is_text(oid)) {
        return false;
    }
    let modifiers = (before.type_modifier, after.type_modifier);
    match modifiers {
        (before, after) if before == after || after == -1 => true,
        (-1, after) => TIMES.contains(&oid) && after >= DIGITS,
        (before, after) if oid == NUMERIC => {
            // The lower half has the scale, and the upper half the precision.
            let scale = |modifier: i32| modifier.wrapping_sub(4) & 0xffff;
            scale(before) == scale(after) && after >= before
        }
        (before, after) => {
            let grows = [VARCHAR, VARBIT].contains(&oid) || TIMES.contains(&oid);
            grows && after >= before
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_equal_versions_become_rows_of_the_last_one() {
        let encoded = |cells: &[Cell<'_>]| {
            let mut out = Vec::new();
            for cell in cells {
                cell.encode(&mut out);
            }
            out
        };
        let (one, two, three) = (Cell::Text(b"1"), Cell::Text(b"2"), Cell::Text(b"3"));
        let without: Places = Box::new([Some(0), Some(1)]);
        let with: Places = Box::new([Some(0), Some(1), None]);
        let mut versions = Versions::default();
        versions.begin(2);
        for number in 1..2_000 {
            let step = if number % 2 == 1 { &with } else { &without };
            versions.add(step.len(), step);
            assert!(versions.distinct.len() <= 4, "{:?}", versions.distinct);
        }
        // A later step moves the columns of all of them.
        let moved: Places = Box::new([Some(2), Some(0)]);
        versions.add(2, &moved);
        for version in 0..2_000 {
            let cells = [one, two, three];
            let cells = cells.get(..2 + usize::from(version % 2 == 1)).unwrap();
            let (cells, mut out) = (encoded(cells), Vec::new());
            let row = versions.project(version, &cells, Cell::Null, &mut out);
            // Only the last version with a third column has the remaining one.
            let last = if version == 1_999 { three } else { Cell::Null };
            assert_eq!(row.unwrap().bytes(), encoded(&[last, one]), "{version}");
        }
        assert!(versions.is_last(2_000) && !versions.is_last(1_999));
    }
}
