//! Finds the columns that are erased: columns of a given name, and the same columns under other
//! names. A column has the same attribute number under all its names.
//!
//! ```text
//! versions     (id, mail)  ─►  (id, email)  ─►  (id, email, note)
//! numbers        1    2          1    2           1    2      3      as the catalogs in the log say
//! erase email        gone             gone             gone
//! ```
//! A version that lacks the name, and whose numbers are not known, may have the column under
//! another name. Such a version is refused, unless a version with the name has all of its columns.

use crate::error::{Error, ErrorKind};
use crate::format::index::Segment;
use crate::format::whole_frames::WholeFrames;
use crate::read::Step;
use crate::read::log::Log;
use crate::upkeep::erase::Erase;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use walrow_stream::{Catalog, Fact};
use walrow_wire::{Kind, Message, Oid, Peek, Relation};

/// A column: its name, type, and attribute number if it is known.
type Column = (String, Oid, Option<i16>);

/// The columns that are erased.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErasedColumns {
    names: HashSet<String>,
    tables: BTreeMap<Oid, Table>,
}

/// The columns of a table, as far as they are known.
#[derive(Clone, Debug, Default)]
struct Table {
    /// The columns that it had at different times. Some lists come from catalogs, with numbers.
    lists: BTreeSet<Vec<Column>>,
    /// The numbers of the columns that are erased.
    numbers: HashSet<i16>,
}

impl ErasedColumns {
    /// Looks for the columns in a log's versions. If a table has had different columns, also looks
    /// for their numbers in the log's catalogs.
    pub(crate) fn find(
        log: &Log,
        catalog: &Catalog,
        erase: &Erase,
        step: &mut Step<'_>,
    ) -> Result<Self, Error> {
        let mut columns = Self {
            names: erase.columns.clone(),
            tables: erase
                .tables
                .iter()
                .map(|oid| (*oid, Table::default()))
                .collect(),
        };
        for version in log.versions() {
            let list = version.columns.iter();
            let list = list.map(|(name, type_oid, ..)| (name.clone(), *type_oid, None));
            columns.add(version.oid, list.collect());
        }
        let changing: HashSet<Oid> = columns.changing().collect();
        if !changing.is_empty() {
            columns.add_catalog(catalog);
            for segment in log.segments() {
                let mut tables = segment.tables.iter();
                let has_table = tables.any(|table| {
                    let version = log.versions().get(table.version);
                    version.is_some_and(|version| changing.contains(&version.oid))
                });
                if has_table {
                    columns.read(log, segment, step)?;
                }
            }
        }
        for table in columns.tables.values_mut() {
            let known = table.lists.iter().flatten();
            let erased = known.filter(|(name, ..)| columns.names.contains(name));
            table.numbers = erased.filter_map(|(_, _, number)| *number).collect();
        }
        Ok(columns)
    }

    /// The tables that have had different columns.
    fn changing(&self) -> impl Iterator<Item = Oid> {
        let names = !self.names.is_empty();
        let tables = self.tables.iter().filter(move |_| names);
        let changing = tables.filter(|(_, table)| {
            let mut lists = table.lists.iter().map(|list| {
                let names: HashSet<_> = list.iter().map(|(name, ..)| name).collect();
                names
            });
            let first = lists.next();
            lists.any(|list| Some(list) != first)
        });
        changing.map(|(oid, _)| *oid)
    }

    fn add(&mut self, oid: Oid, list: Vec<Column>) {
        if let Some(table) = self.tables.get_mut(&oid) {
            table.lists.insert(list);
        }
    }

    fn add_catalog(&mut self, catalog: &Catalog) {
        for table in &catalog.tables {
            let list = table.columns.iter();
            let list = list.map(|it| (it.name.clone(), it.type_oid, it.number));
            self.add(table.oid, list.collect());
        }
    }

    /// Adds the catalogs of a segment.
    fn read(&mut self, log: &Log, segment: &Segment, step: &mut Step<'_>) -> Result<(), Error> {
        let mut stream = log.read_segments([segment]);
        let (mut frames, mut chunk) = (WholeFrames::default(), Vec::new());
        while stream.read(&mut chunk)? {
            let taken = frames.take(&chunk, |frame| {
                if let Some(peek) = Peek::new(frame)
                    && peek.kind() == Kind::Message
                    && let Ok(Message::Message(message)) = peek.message(false)
                    && let Some(Fact::Catalog(catalog)) = Fact::of(&message)
                {
                    self.add_catalog(&catalog);
                }
                Ok(())
            });
            taken.map_err(|error| Error::new(&segment.name().to_string(), error.kind))?;
            step()?;
        }
        Ok(())
    }

    /// For each column of a relation, whether it is erased.
    pub(crate) fn of(&self, relation: &Relation<'_>) -> Result<Vec<bool>, Error> {
        let columns = relation.columns.iter();
        let columns =
            columns.map(|it| (String::from_utf8_lossy(it.name.0).into_owned(), it.type_oid));
        let columns: Vec<_> = columns.collect();
        let mut erased: Vec<_> = columns
            .iter()
            .map(|(name, _)| self.names.contains(name))
            .collect();
        let Some(table) = self.tables.get(&relation.oid) else {
            return Ok(erased);
        };
        let mut is_known = false;
        for list in &table.lists {
            let is_same = list.len() == columns.len()
                && list.iter().all(|(_, _, number)| number.is_some())
                && list
                    .iter()
                    .zip(&columns)
                    .all(|(it, column)| (&it.0, it.1) == (&column.0, column.1));
            if is_same {
                is_known = true;
                for ((_, _, number), erased) in list.iter().zip(&mut erased) {
                    *erased |= number.is_some_and(|it| table.numbers.contains(&it));
                }
            }
        }
        if is_known {
            return Ok(erased);
        }
        let unclear = self.names.iter().find(|name| {
            let lacks = columns.iter().all(|(it, _)| it != *name);
            lacks && table.may_have(name, &columns, &erased)
        });
        match unclear {
            None => Ok(erased),
            Some(name) => {
                let table = format!(
                    "{}.{}",
                    String::from_utf8_lossy(relation.namespace.0),
                    String::from_utf8_lossy(relation.name.0)
                );
                let column = name.clone();
                Err(Error::new("", ErrorKind::EarlierName { table, column }))
            }
        }
    }

    /// Leaves columns out of a catalog's tables. Returns whether the catalog had any of these
    /// columns.
    pub(crate) fn leave_out(&self, catalog: &mut Catalog) -> bool {
        let mut has_changed = false;
        for table in &mut catalog.tables {
            if let Some(known) = self.tables.get(&table.oid) {
                let before = table.columns.len();
                table.columns.retain(|it| {
                    let has_number = it.number.is_some_and(|it| known.numbers.contains(&it));
                    !has_number && !self.names.contains(&it.name)
                });
                has_changed |= table.columns.len() < before;
            }
        }
        has_changed
    }
}

impl Table {
    /// Whether one of these columns may be the column of this name under another name. Columns that
    /// are erased anyhow do not count. It is possible if there are lists with the name, and each of
    /// these lists lacks one of the columns.
    fn may_have(&self, name: &str, columns: &[(String, Oid)], erased: &[bool]) -> bool {
        let with = self
            .lists
            .iter()
            .filter(|list| list.iter().any(|it| it.0 == name));
        let mut lacking = with.map(|list| {
            let mut kept = columns.iter().zip(erased).filter(|(_, erased)| !**erased);
            kept.any(|((name, _), _)| list.iter().all(|it| it.0 != *name))
        });
        // Without such a list, the table never had the column.
        let first = lacking.next();
        first.is_some_and(|first| first && lacking.all(|it| it))
    }
}
