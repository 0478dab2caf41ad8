//! Finds the type of a column: a built-in type, a type of the catalog, or a type known by its name.

use crate::error::TypeLimit;
use crate::forms::{self, ArrowForms};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use walrow_stream::{Catalog, CatalogType, Column, TypeKind, TypeName};
use walrow_types::{
    Array, Attribute, BuiltIn, Composite, FIRST_UNPINNED_OID, Known as _, Multirange, Part, PgLsn,
    Range, Text, Unknown, Vector,
};
use walrow_wire::Oid;

/// The type of a column, an element, an attribute or a bound.
pub(crate) type ColumnType = Arc<dyn ArrowForms>;

/// The maximum depth of types within types.
pub(super) const MAX_LEVELS: u8 = 64;

/// The maximum number of types within a table's columns. A catalog file may contain anything, such
/// as types that contain themselves, or a chain of types that each contain the next one twice.
const MAX_TYPES: u32 = 65_536;

/// Finds the types of one table's columns.
#[derive(Debug)]
pub(crate) struct Types<'a> {
    catalog: &'a Catalog,
    seen: HashMap<Oid, Extent<'a>>,
    /// The number of types inside the columns' types so far.
    pub(crate) inner: u32,
    /// The OIDs of unknown types.
    pub(crate) missing: BTreeSet<Oid>,
}

/// The size of a type, with the types that it consists of.
#[derive(Clone, Copy, Debug)]
struct Extent<'a> {
    /// `None` if the type is built in or unknown.
    entry: Option<&'a CatalogType>,
    types: u32,
    levels: u8,
}

impl<'a> Types<'a> {
    pub(crate) fn new(catalog: &'a Catalog) -> Self {
        Self {
            catalog,
            seen: HashMap::new(),
            inner: 0,
            missing: BTreeSet::new(),
        }
    }

    /// Finds the type of a column.
    pub(crate) fn find(&mut self, column: &Column) -> Result<ColumnType, TypeLimit> {
        let Column {
            type_oid,
            type_modifier,
            type_name,
            ..
        } = column;
        let is_told =
            BuiltIn::by_oid(*type_oid).is_some() || self.catalog.type_of(*type_oid).is_some();
        let name = type_name.as_ref().filter(|_| !is_told);
        let entry = name.and_then(|it| self.catalog.type_named(&it.namespace, &it.name));
        if entry.is_none()
            && let Some(pg_type) = by_name(self.catalog, name, *type_modifier)
        {
            return Ok(pg_type);
        }
        let oid = entry.map_or(*type_oid, |entry| entry.oid);
        self.with_oid(oid, *type_modifier, entry.is_some())
    }

    fn with_oid(
        &mut self,
        oid: Oid,
        type_modifier: i32,
        is_named: bool,
    ) -> Result<ColumnType, TypeLimit> {
        // Check the size before the type is built.
        let extent = self.extent(oid, MAX_LEVELS)?;
        let inner = self.inner.saturating_add(extent.types.saturating_sub(1));
        if inner > MAX_TYPES {
            return Err(TypeLimit::TypesOfTable);
        }
        self.inner = inner;
        Ok(self.make(oid, type_modifier, is_named))
    }

    /// Measures a type. Fails if it has more than this number of levels.
    fn extent(&mut self, oid: Oid, levels: u8) -> Result<Extent<'a>, TypeLimit> {
        let below = levels.checked_sub(1).ok_or(TypeLimit::Levels)?;
        if let Some(extent) = self.seen.get(&oid) {
            let fits = extent.levels <= levels;
            return fits.then_some(*extent).ok_or(TypeLimit::Levels);
        }
        let entry = match BuiltIn::by_oid(oid) {
            Some(_) => None,
            None => self.catalog.type_of(oid),
        };
        let (mut types, mut deepest) = (1_u32, 0);
        for part in entry.map_or_else(Vec::new, |entry| entry.kind.parts()) {
            let part = self.extent(part, below)?;
            types = types.saturating_add(part.types);
            deepest = deepest.max(part.levels);
            if types > MAX_TYPES {
                return Err(TypeLimit::Types);
            }
        }
        let extent = Extent {
            entry,
            types,
            levels: deepest.saturating_add(1),
        };
        self.seen.insert(oid, extent);
        Ok(extent)
    }

    /// Makes a type that was measured. If the catalog's entry was found by its name (`is_named`),
    /// its OIDs are those of another database and cannot be compared with OIDs in binary values.
    fn make(&mut self, oid: Oid, type_modifier: i32, is_named: bool) -> ColumnType {
        if let Some((entry, is_array)) = BuiltIn::by_oid(oid) {
            return built_in(self.catalog, entry, is_array, type_modifier);
        }
        let Some(entry) = self.seen.get(&oid).and_then(|extent| extent.entry) else {
            self.missing.insert(oid);
            return unknown();
        };
        let known = |oid: Oid| match oid {
            FIRST_UNPINNED_OID.. if is_named => 0,
            oid => oid,
        };
        match &entry.kind {
            TypeKind::Domain {
                base,
                type_modifier,
            } => self.make(*base, *type_modifier, is_named),
            TypeKind::Array { element, delimiter } => {
                let inner = self.make(*element, type_modifier, is_named);
                match u8::try_from(*delimiter).ok().filter(u8::is_ascii) {
                    Some(delimiter) => array(inner, known(*element), delimiter),
                    None => unknown(),
                }
            }
            TypeKind::Base => forms::extension(&entry.name, type_modifier).unwrap_or_else(unknown),
            TypeKind::Enum { labels: _ } => Arc::new(Text),
            TypeKind::Composite { attributes } => {
                let attributes = attributes.iter().map(|attribute| Attribute {
                    name: attribute.name.clone(),
                    oid: known(attribute.type_oid),
                    pg_type: self.make(attribute.type_oid, attribute.type_modifier, is_named),
                });
                Arc::new(Composite {
                    attributes: attributes.collect(),
                })
            }
            TypeKind::Range { subtype } => range(self.make(*subtype, -1, is_named)),
            TypeKind::Multirange { range } => match self.seen.get(range).and_then(|it| it.entry) {
                Some(CatalogType {
                    kind: TypeKind::Range { subtype },
                    ..
                }) => multirange(self.make(*subtype, -1, is_named)),
                _ => match BuiltIn::by_oid(*range).and_then(|(entry, _)| entry.part()) {
                    Some(Part::Range(subtype)) => multirange(scalar(self.catalog, subtype, -1)),
                    _ => unknown(),
                },
            },
            _ => unknown(),
        }
    }
}

fn built_in(catalog: &Catalog, entry: BuiltIn, is_array: bool, type_modifier: i32) -> ColumnType {
    let scalar = scalar(catalog, entry, type_modifier);
    if is_array {
        array(scalar, entry.oid, entry.delimiter)
    } else {
        scalar
    }
}

fn scalar(catalog: &Catalog, entry: BuiltIn, type_modifier: i32) -> ColumnType {
    match entry.part() {
        Some(Part::Range(subtype)) => range(scalar(catalog, subtype, -1)),
        Some(Part::Multirange(subtype)) => multirange(scalar(catalog, subtype, -1)),
        Some(Part::Vector(element)) => Arc::new(Vector {
            element: scalar(catalog, element, -1),
            element_oid: element.oid,
        }),
        _ if PgLsn::OIDS.contains(&entry.oid) => Arc::new(PgLsn {
            is_padded: catalog.server_version.is_some_and(|it| it >= 19),
        }),
        _ => forms::built_in(entry.oid, entry.name, type_modifier).unwrap_or_else(unknown),
    }
}

fn unknown() -> ColumnType {
    Arc::new(Unknown)
}

/// All types of this name: built in, of an extension, or in the catalog. `None` is an unknown type.
pub(super) fn all_named(
    catalog: &Catalog,
    name: &str,
    type_modifier: i32,
) -> impl Iterator<Item = Option<ColumnType>> {
    let in_any_schema = TypeName::new("", name);
    let by_name = named(catalog, name, type_modifier)
        .or_else(|| by_name(catalog, Some(&in_any_schema), type_modifier));
    let entries = catalog.types.iter().filter(move |entry| entry.name == name);
    let of_catalog = entries.map(move |entry| column_type(catalog, entry.oid, type_modifier));
    by_name.map(Some).into_iter().chain(of_catalog)
}

/// A type that is built in or in the catalog. `None` if it is unknown, too large or too deep.
pub(super) fn column_type(catalog: &Catalog, oid: Oid, type_modifier: i32) -> Option<ColumnType> {
    let mut types = Types::new(catalog);
    let pg_type = types.with_oid(oid, type_modifier, false).ok()?;
    (types.missing.is_empty() || !pg_type.is_unknown()).then_some(pg_type)
}

/// The built-in type of this name.
fn named(catalog: &Catalog, name: &str, type_modifier: i32) -> Option<ColumnType> {
    let (entry, is_array) = BuiltIn::by_name(name)?;
    Some(built_in(catalog, entry, is_array, type_modifier))
}

/// For a domain, the Type message names the base type: one of `pg_catalog` is built in.
fn by_name(catalog: &Catalog, name: Option<&TypeName>, type_modifier: i32) -> Option<ColumnType> {
    let TypeName {
        namespace, name, ..
    } = name?;
    if &**namespace == "pg_catalog" {
        return named(catalog, name, -1);
    }
    forms::extension(name, type_modifier).or_else(|| {
        let element = name.strip_prefix('_')?;
        // The OID of the elements is unknown.
        let delimiter = if matches!(element, "geometry" | "geography") {
            b':'
        } else {
            b','
        };
        Some(array(
            forms::extension(element, type_modifier)?,
            0,
            delimiter,
        ))
    })
}

/// Makes an array type. If the type of its elements is unknown, so is the array: it stays the text
/// that the server sends.
fn array(element: ColumnType, element_oid: Oid, delimiter: u8) -> ColumnType {
    if element.is_unknown() {
        return element;
    }
    Arc::new(Array {
        element,
        element_oid,
        delimiter,
    })
}

/// Makes a range type. If the type of its bounds is unknown, so is the range.
fn range(subtype: ColumnType) -> ColumnType {
    if subtype.is_unknown() {
        return subtype;
    }
    Arc::new(Range { subtype })
}

fn multirange(subtype: ColumnType) -> ColumnType {
    if subtype.is_unknown() {
        return subtype;
    }
    let range = Arc::new(Range { subtype });
    Arc::new(Multirange { range })
}
