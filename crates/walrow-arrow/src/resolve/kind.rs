//! What kind of type stands behind an OID: built in, of the catalog, or known by its name.

use crate::column::{GeometryTypmod, Integer, MacSize, Shape};
use crate::pg_type;
use std::sync::Arc;
use walrow_stream::{Catalog, TypeKind, TypeName};
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
const MAX_DEPTH: u8 = 16;

/// How many types a type may consist of: as many attributes as a table may have, twice over.
const MAX_TYPES: u32 = 3200;

/// The type behind an OID, and whether anything told what it is and what it consists of.
pub(super) fn find(
    catalog: &Catalog,
    oid: Oid,
    type_modifier: i32,
    name: Option<&TypeName>,
) -> (PgType, bool) {
    let mut search = Search {
        catalog,
        left: MAX_TYPES,
    };
    search.find(oid, type_modifier, name, MAX_DEPTH)
}

/// A search for a type and those that it consists of. A catalog is whatever a file says: it may name types that
/// contain themselves.
struct Search<'a> {
    catalog: &'a Catalog,
    left: u32,
}

impl Search<'_> {
    fn find(
        &mut self,
        oid: Oid,
        type_modifier: i32,
        name: Option<&TypeName>,
        depth: u8,
    ) -> (PgType, bool) {
        let unknown = (PgType::Other, false);
        let (Some(depth), Some(left)) = (depth.checked_sub(1), self.left.checked_sub(1)) else {
            return unknown;
        };
        self.left = left;
        if oid < pg_type::FIRST_UNPINNED_OID {
            return match pg_type::by_oid(oid) {
                Some((entry, is_array)) => (built_in(entry, is_array, type_modifier), true),
                None => unknown,
            };
        }
        let Some(entry) = self.catalog.type_of(oid) else {
            return by_name(name, type_modifier).map_or(unknown, |pg_type| (pg_type, true));
        };
        match &entry.kind {
            TypeKind::Domain {
                base,
                type_modifier,
            } => self.find(*base, *type_modifier, None, depth),
            TypeKind::Array { element, delimiter } => {
                let (inner, known) = self.find(*element, type_modifier, None, depth);
                match u8::try_from(*delimiter).ok().filter(u8::is_ascii) {
                    Some(delimiter) => (array(inner, *element, delimiter), known),
                    None => (PgType::Other, known),
                }
            }
            TypeKind::Base => {
                let pg_type = extension_type(&entry.name, type_modifier);
                (pg_type.unwrap_or(PgType::Other), true)
            }
            TypeKind::Enum { labels: _ } => (PgType::Text, true),
            TypeKind::Composite { attributes } => {
                let mut all_known = true;
                let attributes = attributes.iter().map(|attribute| {
                    let (oid, type_modifier) = (attribute.type_oid, attribute.type_modifier);
                    let (pg_type, known) = self.find(oid, type_modifier, None, depth);
                    all_known &= known;
                    let name = attribute.name.clone();
                    Attribute { name, oid, pg_type }
                });
                (PgType::Composite(attributes.collect()), all_known)
            }
            TypeKind::Range { subtype } => {
                let (subtype, known) = self.find(*subtype, -1, None, depth);
                (range(subtype), known)
            }
            TypeKind::Multirange { range } => match self.find(*range, -1, None, depth) {
                (PgType::Range(subtype), known) => (PgType::Multirange(subtype), known),
                (_, known) => (PgType::Other, known),
            },
            _ => unknown,
        }
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

/// All types of this name: built in, of an extension, of the catalog; and whether anything told what each is.
pub(super) fn all_named(
    catalog: &Catalog,
    name: &str,
    type_modifier: i32,
) -> impl Iterator<Item = (PgType, bool)> {
    let in_any_schema = TypeName {
        namespace: "".into(),
        name: name.into(),
    };
    let by_name =
        named(name, type_modifier).or_else(|| by_name(Some(&in_any_schema), type_modifier));
    let entries = catalog.types.iter().filter(move |entry| entry.name == name);
    let of_catalog = entries.map(move |entry| find(catalog, entry.oid, type_modifier, None));
    by_name
        .map(|pg_type| (pg_type, true))
        .into_iter()
        .chain(of_catalog)
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
    match element {
        PgType::Other
        | PgType::Array {
            element: _,
            element_oid: _,
            delimiter: _,
        } => PgType::Other,
        element => PgType::Array {
            element: Box::new(element),
            element_oid,
            delimiter,
        },
    }
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
