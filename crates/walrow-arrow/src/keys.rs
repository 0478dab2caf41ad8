//! The keys of options that name columns or types, and whether the stream has these.
//!
//! A key that nothing matches is usually a typing error, and its option would have no effect.

use crate::error::{DecoderOption, Error, ErrorKind, MissingTable, Remedy, SchemaError};
use crate::options::Options;
use crate::resolve::Resolver;
use crate::table_name::{TableName, names_column};
use std::collections::BTreeSet;
use walrow_stream::{Catalog, Relation};
use walrow_types::BuiltIn;

/// The keys that matched nothing so far, and the names that may be meant.
#[derive(Debug)]
pub(crate) struct Keys {
    unmatched: Vec<(DecoderOption, String)>,
    /// The names of types, as suggestions. Empty if all keys matched from the start.
    types: Vec<String>,
    /// The tables and columns so far, as suggestions.
    tables: BTreeSet<String>,
    columns: BTreeSet<[String; 3]>,
    has_relation: bool,
}

/// The maximum number of tables, and of columns, that are kept as suggestions.
const MOST_NAMES: usize = 10_000;

impl Keys {
    /// The keys of the options that neither a known type, the catalog nor the declared schema
    /// explains.
    pub(crate) fn new(options: &Options, resolver: &Resolver) -> Self {
        let types = options.types.keys().map(|key| (DecoderOption::Types, key));
        let policies = options.column_unrepresentable.keys();
        let policies = policies.map(|key| (DecoderOption::Unrepresentable, key));
        let columns = options.columns.iter().flatten();
        let columns = columns.map(|key| (DecoderOption::Columns, key));
        let is_open = |(option, key): &(DecoderOption, &String)| {
            let is_type = *option != DecoderOption::Columns && resolver.knows_type(key);
            let schema = options.schema.iter();
            let mut fields = schema.flat_map(|schema| schema.fields());
            let table = options.tables.one();
            !is_type && !fields.any(|field| names_field(key, table, field.name()))
        };
        let all = types.chain(policies).chain(columns).filter(is_open);
        let mut unmatched: Vec<_> = all.map(|(option, key)| (option, key.clone())).collect();
        for table in &options.catalog.tables {
            if unmatched.is_empty() {
                break;
            }
            unmatched.retain(|(_, key)| {
                let names = |name| names_column(key, &table.schema, &table.name, name);
                !table.columns.iter().any(|column| names(&column.name))
            });
        }
        unmatched.sort_by(|one, other| one.1.cmp(&other.1));
        let mut types = Vec::new();
        if !unmatched.is_empty() {
            types.extend(BuiltIn::all().map(|it| it.name.to_owned()));
            types.extend(options.catalog.types.iter().map(|it| it.name.clone()));
        }
        Self {
            unmatched,
            types,
            tables: BTreeSet::new(),
            columns: BTreeSet::new(),
            has_relation: false,
        }
    }

    /// Looks for the keys in a catalog of the stream.
    pub(crate) fn learn(&mut self, catalog: &Catalog) {
        let is_column = |option| matches!(option, DecoderOption::Columns);
        self.unmatched.retain(|(option, key)| {
            is_column(*option) || !catalog.types.iter().any(|it| it.name == *key)
        });
    }

    /// Looks for the keys in a relation version, selected or not.
    pub(crate) fn see(&mut self, relation: &Relation) {
        self.has_relation = true;
        if self.tables.len() < MOST_NAMES {
            self.tables.insert(relation.to_string());
        }
        if self.unmatched.is_empty() {
            return;
        }
        let types = relation
            .columns
            .iter()
            .filter_map(|it| it.type_name.as_ref());
        for name in types {
            let is_column = |option| matches!(option, DecoderOption::Columns);
            self.unmatched
                .retain(|(option, key)| is_column(*option) || **key != *name.name);
        }
        let (namespace, table) = (&*relation.namespace, &*relation.name);
        self.unmatched.retain(|(_, key)| {
            let names = |name| names_column(key, namespace, table, name);
            !relation.columns.iter().any(|column| names(&column.name))
        });
        if self.unmatched.is_empty() {
            self.columns.clear();
            return;
        }
        for column in &relation.columns {
            if self.columns.len() >= MOST_NAMES {
                break;
            }
            self.columns
                .insert([namespace, table, &column.name].map(str::to_owned));
        }
    }

    /// Returns an error if a key matched nothing, unless the stream described no relation at all.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Some((option, key)) = self.unmatched.first().filter(|_| self.has_relation) else {
            return Ok(());
        };
        let parts = key.matches('.').count().min(2);
        let names = self.columns.iter().map(|[namespace, table, column]| {
            let name = match parts {
                0 => String::new(),
                1 => format!("{table}."),
                _ => format!("{namespace}.{table}."),
            };
            name + column
        });
        let is_column = *option == DecoderOption::Columns;
        let types = self.types.iter().filter(|_| !is_column).cloned();
        Err(Error::new(ErrorKind::Schema(SchemaError::NoColumn {
            option: *option,
            key: key.clone(),
            suggestions: nearest(key, names.chain(types)),
        })))
    }

    /// The error of chosen tables that are not there.
    pub(crate) fn missing(&self, tables: &[&TableName]) -> Error {
        let missing: Vec<_> = tables
            .iter()
            .map(|table| self.missing_table(table))
            .collect();
        let ignore = Remedy::word(DecoderOption::MissingTable, "ignore");
        let no_suggestion = missing.iter().all(|it| it.suggestions.is_empty());
        let remedies = no_suggestion.then_some(ignore);
        Error::new(ErrorKind::Schema(SchemaError::NotInStream { missing }))
            .with_remedies(Vec::from_iter(remedies))
    }

    fn missing_table(&self, table: &TableName) -> MissingTable {
        let table = table.to_string();
        let names = self.tables.iter().map(|known| {
            let (_, bare) = known.split_once('.').unwrap_or(("", known));
            let is_bare = !table.contains('.');
            if is_bare {
                bare.to_owned()
            } else {
                known.clone()
            }
        });
        let suggestions = nearest(&table, names);
        MissingTable { table, suggestions }
    }
}

/// Whether the key names a column of this name, in any table.
pub(crate) fn is_last_part(key: &str, column: &str) -> bool {
    let before = key.strip_suffix(column);
    before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Whether the key names this field of the declared schema, which is that of the table.
fn names_field(key: &str, table: Option<&TableName>, field: &str) -> bool {
    let Some(before) = key.strip_suffix(field) else {
        return false;
    };
    let before = before.strip_suffix('.').unwrap_or(before);
    match table {
        _ if before.is_empty() => true,
        Some(TableName::Qualified(schema, name)) => names_column(key, schema, name, field),
        // Either may have the schema's name.
        Some(TableName::Text(name)) => is_last_part(name, before) || is_last_part(before, name),
        // Its name is not known here.
        Some(TableName::Oid(_)) => true,
        None => false,
    }
}

/// The names that are most like this one, the best first.
pub(crate) fn nearest(name: &str, known: impl Iterator<Item = String>) -> Vec<String> {
    let most = (name.chars().count() / 3).max(1);
    let mut found: Vec<_> = known
        .filter_map(|known| {
            let lengths = known.chars().count().abs_diff(name.chars().count());
            let edits = (lengths <= most).then(|| edits(name, &known))?;
            (edits <= most).then_some((edits, known))
        })
        .collect();
    found.sort();
    found.dedup();
    found.truncate(SUGGESTIONS);
    found.into_iter().map(|(_, known)| known).collect()
}

const SUGGESTIONS: usize = 3;

/// The number of characters to insert, delete, replace or swap with the next one, which makes one
/// name the other.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    let mut last = None;
    for (at, letter) in one.chars().enumerate() {
        let mut next = vec![at.saturating_add(1)];
        let mut other_last = None;
        for (place, other_letter) in other.iter().copied().enumerate() {
            let get = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX);
            let replaced = usize::from(letter != other_letter);
            let mut best = get(&row, place)
                .saturating_add(replaced)
                .min(get(&row, place.saturating_add(1)).saturating_add(1))
                .min(get(&next, place).saturating_add(1));
            if let Some(place) = place.checked_sub(1)
                && last == Some(other_letter)
                && other_last == Some(letter)
            {
                best = best.min(get(&before, place).saturating_add(1));
            }
            next.push(best);
            other_last = Some(other_letter);
        }
        last = Some(letter);
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (one, other, count) in [
            ("", "", 0),
            ("", "ab", 2),
            ("amount", "amount", 0),
            ("amuont", "amount", 1),
            ("amunt", "amount", 1),
            ("ammount", "amount", 1),
            ("emount", "amount", 1),
            ("pgbench_histroy", "pgbench_history", 1),
            ("é", "e", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edits(one, other), count, "{one} {other}");
            assert_eq!(edits(other, one), count, "{other} {one}");
        }
    }

    #[test]
    fn the_nearest_names_come_first() {
        let known = ["total", "totals", "note", "tota"].map(str::to_owned);
        assert_eq!(nearest("totla", known.iter().cloned()), ["tota", "total"]);
        assert_eq!(nearest("zebra", known.into_iter()), [""; 0]);
    }
}
