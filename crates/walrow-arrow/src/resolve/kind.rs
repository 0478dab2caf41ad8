//! What kind of type stands behind an OID: built in, of the catalog, or known by its name.

use crate::column::{GeometryTypmod, Integer, MacSize, Shape};
use crate::pg_type;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use walrow_stream::{Catalog, CatalogType, Column, TypeKind, TypeName};
use walrow_wire::Oid;

/// A PostgreSQL type, as far as its values are read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PgType {
    Bool,
    Integer(Integer),
    Float4,
    Float8,
    Numeric {
        type_modifier: i32,
    },
    Text,
    Xml,
    /// Text filled up with blanks.
    Bpchar,
    Char,
    Bytea,
    /// How many bits, if it is always as many.
    Bits {
        length: Option<i32>,
    },
    Uuid,
    Json,
    Jsonb,
    /// Text, which has a version before it in binary: `jsonpath`, `ltree`.
    Versioned,
    Date,
    Time,
    TimeTz,
    Timestamp {
        zone: bool,
    },
    Interval,
    Money,
    /// A name in text, the digits of an OID in binary, which no catalog here brings together.
    Reg,
    Tid,
    Network {
        is_cidr: bool,
    },
    Mac(MacSize),
    TsVector,
    Snapshot,
    /// `int2vector` or `oidvector`
    Vector(Integer),
    Array {
        element: Box<Self>,
        /// 0 if nothing told.
        element_oid: Oid,
        delimiter: u8,
    },
    /// An array whose elements are arrays themselves, as those of a domain over one are: text, which is read as that of
    /// this type.
    Nested(Box<Self>),
    Shape(Shape),
    Path,
    Polygon,
    Hstore,
    Cube,
    /// pgvector's `vector`, and how many numbers it has if always as many.
    Numbers {
        dimensions: Option<i32>,
    },
    /// pgvector's `halfvec`.
    Halves,
    /// pgvector's `sparsevec`.
    Sparse,
    /// `PostGIS`'s `geometry` or `geography`, and the SRID of its values, 0 for none.
    Geometry {
        srid: u32,
        is_geography: bool,
    },
    Composite(Arc<[Attribute]>),
    /// A range of this type's values.
    Range(Box<Self>),
    /// Ranges of this type's values.
    Multirange(Box<Self>),
    /// A built-in type that has no binary form, or none that is read.
    TextOnly,
    /// PostgreSQL's own text.
    Other,
}

/// An attribute of a composite type.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) oid: Oid,
    pub(super) pg_type: PgType,
}

/// The most numbers that pgvector takes in a column's type.
pub(super) const MAX_DIMENSIONS: i32 = 16_000;

/// How deep types may lie within types.
pub(super) const MAX_LEVELS: u8 = 64;

/// How many types a table's columns may consist of. A catalog is whatever a file says: types may
/// contain themselves, or each the next one twice.
const MAX_TYPES: u32 = 65_536;

/// A type that consists of more than is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beyond {
    Types,
    /// Not by itself.
    TypesOfTable,
    Levels,
}

impl fmt::Display for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Types => {
                "the column's type consists of more than 65,536 types in the catalog (one that \
                 contains itself does)"
            }
            Self::TypesOfTable => {
                "the column's type and those of the columns before it consist of more than 65,536 \
                 types in the catalog"
            }
            Self::Levels => {
                "the column's type consists of types within types of more than 64 levels in the \
                 catalog (one that contains itself does)"
            }
        })
    }
}

/// The types of one table's columns, as they are found.
#[derive(Debug)]
pub(crate) struct Types<'a> {
    catalog: &'a Catalog,
    seen: HashMap<Oid, Extent<'a>>,
    /// How many types the columns' types consist of so far, beside themselves.
    pub(crate) inner: u32,
    /// Those that nothing tells of.
    pub(crate) missing: BTreeSet<Oid>,
}

/// What a type consists of, itself included.
#[derive(Clone, Copy, Debug)]
struct Extent<'a> {
    /// None if it is built in, or missing.
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

    /// The type of a column.
    pub(super) fn find(&mut self, column: &Column) -> Result<PgType, Beyond> {
        let Column {
            type_oid,
            type_modifier,
            type_name,
            ..
        } = column;
        let is_told =
            pg_type::by_oid(*type_oid).is_some() || self.catalog.type_of(*type_oid).is_some();
        let name = type_name.as_ref().filter(|_| !is_told);
        let entry = name.and_then(|it| self.catalog.type_named(&it.namespace, &it.name));
        if entry.is_none()
            && let Some(pg_type) = by_name(name, *type_modifier)
        {
            return Ok(pg_type);
        }
        let oid = entry.map_or(*type_oid, |entry| entry.oid);
        self.with_oid(oid, *type_modifier, entry.is_some())
    }

    fn with_oid(&mut self, oid: Oid, type_modifier: i32, is_named: bool) -> Result<PgType, Beyond> {
        // Measured before anything is made of it.
        let extent = self.extent(oid, MAX_LEVELS)?;
        let inner = self.inner.saturating_add(extent.types.saturating_sub(1));
        if inner > MAX_TYPES {
            return Err(Beyond::TypesOfTable);
        }
        self.inner = inner;
        Ok(self.make(oid, type_modifier, is_named))
    }

    /// Measures a type that lies no deeper than so many levels.
    fn extent(&mut self, oid: Oid, levels: u8) -> Result<Extent<'a>, Beyond> {
        let below = levels.checked_sub(1).ok_or(Beyond::Levels)?;
        if let Some(extent) = self.seen.get(&oid) {
            let fits = extent.levels <= levels;
            return fits.then_some(*extent).ok_or(Beyond::Levels);
        }
        let entry = match pg_type::by_oid(oid) {
            Some(_) => None,
            None => self.catalog.type_of(oid),
        };
        let (mut types, mut deepest) = (1_u32, 0);
        for part in entry.map_or_else(Vec::new, |entry| parts(&entry.kind)) {
            let part = self.extent(part, below)?;
            types = types.saturating_add(part.types);
            deepest = deepest.max(part.levels);
            if types > MAX_TYPES {
                return Err(Beyond::Types);
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

    /// Makes a type that was measured. In a catalog found by a name (`is_named`), OIDs are another
    /// database's: what a binary value must say of them is not known.
    fn make(&mut self, oid: Oid, type_modifier: i32, is_named: bool) -> PgType {
        if let Some((entry, is_array)) = pg_type::by_oid(oid) {
            return built_in(entry, is_array, type_modifier);
        }
        let Some(entry) = self.seen.get(&oid).and_then(|extent| extent.entry) else {
            self.missing.insert(oid);
            return PgType::Other;
        };
        let told = |oid: Oid| match oid {
            pg_type::FIRST_UNPINNED_OID.. if is_named => 0,
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
                    Some(delimiter) => array(inner, told(*element), delimiter),
                    None => PgType::Other,
                }
            }
            TypeKind::Base => extension_type(&entry.name, type_modifier).unwrap_or(PgType::Other),
            TypeKind::Enum { labels: _ } => PgType::Text,
            TypeKind::Composite { attributes } => {
                let attributes = attributes.iter().map(|attribute| Attribute {
                    name: attribute.name.clone(),
                    oid: told(attribute.type_oid),
                    pg_type: self.make(attribute.type_oid, attribute.type_modifier, is_named),
                });
                PgType::Composite(attributes.collect())
            }
            TypeKind::Range { subtype } => range(self.make(*subtype, -1, is_named)),
            TypeKind::Multirange { range } => match self.make(*range, -1, is_named) {
                PgType::Range(subtype) => PgType::Multirange(subtype),
                _ => PgType::Other,
            },
            _ => PgType::Other,
        }
    }
}

/// The types that a type consists of, as often as it does.
fn parts(kind: &TypeKind) -> Vec<Oid> {
    match kind {
        TypeKind::Domain { base, .. } => vec![*base],
        TypeKind::Array { element, .. } => vec![*element],
        TypeKind::Composite { attributes } => attributes.iter().map(|it| it.type_oid).collect(),
        // Two bounds.
        TypeKind::Range { subtype } => vec![*subtype; 2],
        TypeKind::Multirange { range } => vec![*range],
        _ => Vec::new(),
    }
}

fn built_in(entry: pg_type::BuiltIn, is_array: bool, type_modifier: i32) -> PgType {
    let scalar = scalar(entry.oid, type_modifier);
    if is_array {
        array(scalar, entry.oid, entry.delimiter)
    } else {
        scalar
    }
}

/// All types of this name: built in, of an extension, of the catalog; none for one of which nothing is told.
pub(super) fn all_named(
    catalog: &Catalog,
    name: &str,
    type_modifier: i32,
) -> impl Iterator<Item = Option<PgType>> {
    let in_any_schema = TypeName {
        namespace: "".into(),
        name: name.into(),
    };
    let by_name =
        named(name, type_modifier).or_else(|| by_name(Some(&in_any_schema), type_modifier));
    let entries = catalog.types.iter().filter(move |entry| entry.name == name);
    let of_catalog = entries.map(move |entry| told(catalog, entry.oid, type_modifier));
    by_name.map(Some).into_iter().chain(of_catalog)
}

/// A type that is built in or in the catalog; none if nothing tells what it is, or it is more than is read.
pub(super) fn told(catalog: &Catalog, oid: Oid, type_modifier: i32) -> Option<PgType> {
    let mut types = Types::new(catalog);
    let pg_type = types.with_oid(oid, type_modifier, false).ok()?;
    (types.missing.is_empty() || pg_type != PgType::Other).then_some(pg_type)
}

/// The built-in type of this name.
fn named(name: &str, type_modifier: i32) -> Option<PgType> {
    let (entry, is_array) = pg_type::by_name(name)?;
    Some(built_in(entry, is_array, type_modifier))
}

/// For a domain, the Type message names the base type: one of `pg_catalog` is built in.
fn by_name(name: Option<&TypeName>, type_modifier: i32) -> Option<PgType> {
    let TypeName { namespace, name } = name?;
    if &**namespace == "pg_catalog" {
        return named(name, -1);
    }
    extension_type(name, type_modifier).or_else(|| {
        let element = name.strip_prefix('_')?;
        // Nothing tells the OID of the elements.
        let delimiter = if matches!(element, "geometry" | "geography") {
            b':'
        } else {
            b','
        };
        Some(array(extension_type(element, type_modifier)?, 0, delimiter))
    })
}

/// An extension's type by its name, whose OID and schema differ from database to database.
fn extension_type(name: &str, type_modifier: i32) -> Option<PgType> {
    match name {
        "citext" => Some(PgType::Text),
        "hstore" => Some(PgType::Hstore),
        "cube" => Some(PgType::Cube),
        "vector" => Some(PgType::Numbers {
            dimensions: Some(type_modifier).filter(|it| (1..=MAX_DIMENSIONS).contains(it)),
        }),
        "halfvec" => Some(PgType::Halves),
        "sparsevec" => Some(PgType::Sparse),
        "geometry" | "geography" => {
            let typmod = GeometryTypmod::new(type_modifier);
            let is_geography = name == "geography";
            // What geography means where it names no coordinate system.
            let srid = if is_geography { 4326 } else { 0 };
            Some(PgType::Geometry {
                srid: typmod
                    .map(|it| it.srid)
                    .filter(|it| *it != 0)
                    .unwrap_or(srid),
                is_geography,
            })
        }
        "ltree" | "lquery" | "ltxtquery" => Some(PgType::Versioned),
        _ => None,
    }
}

fn scalar(oid: Oid, type_modifier: i32) -> PgType {
    match oid {
        pg_type::BOOL => PgType::Bool,
        pg_type::INT2 => PgType::Integer(Integer::Int2),
        pg_type::INT4 => PgType::Integer(Integer::Int4),
        pg_type::INT8 => PgType::Integer(Integer::Int8),
        pg_type::OID | pg_type::XID | pg_type::CID => PgType::Integer(Integer::Oid),
        pg_type::FLOAT4 => PgType::Float4,
        pg_type::FLOAT8 => PgType::Float8,
        pg_type::NUMERIC => PgType::Numeric { type_modifier },
        pg_type::TEXT
        | pg_type::VARCHAR
        | pg_type::NAME
        | pg_type::REFCURSOR
        | pg_type::PG_NODE_TREE => PgType::Text,
        pg_type::XML => PgType::Xml,
        pg_type::BPCHAR => PgType::Bpchar,
        pg_type::CHAR => PgType::Char,
        pg_type::BYTEA => PgType::Bytea,
        pg_type::UUID => PgType::Uuid,
        pg_type::JSON => PgType::Json,
        pg_type::JSONB => PgType::Jsonb,
        pg_type::DATE => PgType::Date,
        pg_type::TIME => PgType::Time,
        pg_type::TIMETZ => PgType::TimeTz,
        pg_type::INTERVAL => PgType::Interval,
        pg_type::XID8 => PgType::Integer(Integer::Xid8),
        pg_type::PG_LSN => PgType::Integer(Integer::Lsn),
        pg_type::BIT => PgType::Bits {
            length: Some(type_modifier).filter(|length| *length > 0),
        },
        pg_type::VARBIT => PgType::Bits { length: None },
        pg_type::MONEY => PgType::Money,
        pg_type::REGPROC
        | pg_type::REGPROCEDURE
        | pg_type::REGOPER
        | pg_type::REGOPERATOR
        | pg_type::REGCLASS
        | pg_type::REGTYPE
        | pg_type::REGCONFIG
        | pg_type::REGDICTIONARY
        | pg_type::REGNAMESPACE
        | pg_type::REGROLE
        | pg_type::REGCOLLATION => PgType::Reg,
        pg_type::TID => PgType::Tid,
        pg_type::INET => PgType::Network { is_cidr: false },
        pg_type::CIDR => PgType::Network { is_cidr: true },
        pg_type::MACADDR => PgType::Mac(MacSize::Six),
        pg_type::MACADDR8 => PgType::Mac(MacSize::Eight),
        pg_type::TSVECTOR => PgType::TsVector,
        pg_type::PG_SNAPSHOT | pg_type::TXID_SNAPSHOT => PgType::Snapshot,
        pg_type::JSONPATH => PgType::Versioned,
        pg_type::INT2VECTOR => PgType::Vector(Integer::Int2),
        pg_type::OIDVECTOR => PgType::Vector(Integer::Oid),
        pg_type::TSQUERY | pg_type::GTSVECTOR | pg_type::ACLITEM => PgType::TextOnly,
        pg_type::POINT => PgType::Shape(Shape::Point),
        pg_type::LSEG => PgType::Shape(Shape::Lseg),
        pg_type::BOX => PgType::Shape(Shape::Box),
        pg_type::LINE => PgType::Shape(Shape::Line),
        pg_type::CIRCLE => PgType::Shape(Shape::Circle),
        pg_type::PATH => PgType::Path,
        pg_type::POLYGON => PgType::Polygon,
        pg_type::INT4RANGE
        | pg_type::NUMRANGE
        | pg_type::TSRANGE
        | pg_type::TSTZRANGE
        | pg_type::DATERANGE
        | pg_type::INT8RANGE => range(scalar(pg_type::subtype(oid), -1)),
        pg_type::INT4MULTIRANGE
        | pg_type::NUMMULTIRANGE
        | pg_type::TSMULTIRANGE
        | pg_type::TSTZMULTIRANGE
        | pg_type::DATEMULTIRANGE
        | pg_type::INT8MULTIRANGE => multirange(scalar(pg_type::subtype(oid), -1)),
        pg_type::TIMESTAMP => PgType::Timestamp { zone: false },
        pg_type::TIMESTAMPTZ => PgType::Timestamp { zone: true },
        _ => PgType::Other,
    }
}

/// Lists are of elements that are read; arrays of anything else stay text, as do arrays of arrays.
fn array(element: PgType, element_oid: Oid, delimiter: u8) -> PgType {
    if element == PgType::Other {
        return PgType::Other;
    }
    let is_nested = matches!(element, PgType::Array { .. } | PgType::Nested(_));
    let array = PgType::Array {
        element: Box::new(element),
        element_oid,
        delimiter,
    };
    if is_nested {
        return PgType::Nested(Box::new(array));
    }
    array
}

/// Ranges whose bounds are not read stay text, as arrays do.
fn range(subtype: PgType) -> PgType {
    match subtype {
        PgType::Other => PgType::Other,
        subtype => PgType::Range(Box::new(subtype)),
    }
}

fn multirange(subtype: PgType) -> PgType {
    match subtype {
        PgType::Other => PgType::Other,
        subtype => PgType::Multirange(Box::new(subtype)),
    }
}
