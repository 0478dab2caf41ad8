//! PostgreSQL's built-in types: OIDs that are the same on every server.

use walrow_wire::Oid;

/// A built-in type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BuiltIn {
    pub(crate) oid: Oid,
    /// Its array type, 0 for none.
    pub(crate) array: Oid,
    /// `pg_type.typname`; the array type's is the same after an underscore.
    pub(crate) name: &'static str,
    /// What stands between the elements of an array's text.
    pub(crate) delimiter: u8,
}

/// OIDs below this one are assigned by hand and stay the same on every server and version.
pub(crate) const FIRST_UNPINNED_OID: Oid = 10_000;

pub(crate) const BOOL: Oid = 16;
pub(crate) const BYTEA: Oid = 17;
pub(crate) const CHAR: Oid = 18;
pub(crate) const NAME: Oid = 19;
pub(crate) const INT8: Oid = 20;
pub(crate) const INT2: Oid = 21;
pub(crate) const INT4: Oid = 23;
pub(crate) const TEXT: Oid = 25;
pub(crate) const OID: Oid = 26;
pub(crate) const XID: Oid = 28;
pub(crate) const CID: Oid = 29;
pub(crate) const JSON: Oid = 114;
pub(crate) const FLOAT4: Oid = 700;
pub(crate) const FLOAT8: Oid = 701;
pub(crate) const BPCHAR: Oid = 1042;
pub(crate) const VARCHAR: Oid = 1043;
pub(crate) const DATE: Oid = 1082;
pub(crate) const TIME: Oid = 1083;
pub(crate) const TIMESTAMP: Oid = 1114;
pub(crate) const TIMESTAMPTZ: Oid = 1184;
pub(crate) const TIMETZ: Oid = 1266;
pub(crate) const NUMERIC: Oid = 1700;
pub(crate) const UUID: Oid = 2950;
pub(crate) const JSONB: Oid = 3802;
pub(crate) const XID8: Oid = 5069;

/// A built-in type, and whether the OID or name asked for was its array type's.
pub(crate) fn by_oid(oid: Oid) -> Option<(BuiltIn, bool)> {
    find(|entry| {
        if entry.oid == oid {
            Some(false)
        } else {
            (entry.array == oid).then_some(true)
        }
    })
}

/// As [`by_oid`], by `pg_type.typname`.
pub(crate) fn by_name(name: &str) -> Option<(BuiltIn, bool)> {
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

const fn entry(oid: Oid, array: Oid, name: &'static str) -> BuiltIn {
    BuiltIn {
        oid,
        array,
        name,
        delimiter: if oid == 603 { b';' } else { b',' },
    }
}

/// `pg_type` without pseudo-types and the catalogs' row types.
const BUILT_IN: &[BuiltIn] = &[
    entry(BOOL, 1000, "bool"),
    entry(BYTEA, 1001, "bytea"),
    entry(CHAR, 1002, "char"),
    entry(NAME, 1003, "name"),
    entry(INT8, 1016, "int8"),
    entry(INT2, 1005, "int2"),
    entry(22, 1006, "int2vector"),
    entry(INT4, 1007, "int4"),
    entry(24, 1008, "regproc"),
    entry(TEXT, 1009, "text"),
    entry(OID, 1028, "oid"),
    entry(27, 1010, "tid"),
    entry(XID, 1011, "xid"),
    entry(CID, 1012, "cid"),
    entry(30, 1013, "oidvector"),
    entry(JSON, 199, "json"),
    entry(142, 143, "xml"),
    entry(194, 0, "pg_node_tree"),
    entry(600, 1017, "point"),
    entry(601, 1018, "lseg"),
    entry(602, 1019, "path"),
    entry(603, 1020, "box"),
    entry(604, 1027, "polygon"),
    entry(628, 629, "line"),
    entry(650, 651, "cidr"),
    entry(FLOAT4, 1021, "float4"),
    entry(FLOAT8, 1022, "float8"),
    entry(718, 719, "circle"),
    entry(774, 775, "macaddr8"),
    entry(790, 791, "money"),
    entry(829, 1040, "macaddr"),
    entry(869, 1041, "inet"),
    entry(1033, 1034, "aclitem"),
    entry(BPCHAR, 1014, "bpchar"),
    entry(VARCHAR, 1015, "varchar"),
    entry(DATE, 1182, "date"),
    entry(TIME, 1183, "time"),
    entry(TIMESTAMP, 1115, "timestamp"),
    entry(TIMESTAMPTZ, 1185, "timestamptz"),
    entry(1186, 1187, "interval"),
    entry(TIMETZ, 1270, "timetz"),
    entry(1560, 1561, "bit"),
    entry(1562, 1563, "varbit"),
    entry(NUMERIC, 1231, "numeric"),
    entry(1790, 2201, "refcursor"),
    entry(2202, 2207, "regprocedure"),
    entry(2203, 2208, "regoper"),
    entry(2204, 2209, "regoperator"),
    entry(2205, 2210, "regclass"),
    entry(2206, 2211, "regtype"),
    entry(UUID, 2951, "uuid"),
    entry(2970, 2949, "txid_snapshot"),
    entry(3220, 3221, "pg_lsn"),
    entry(3614, 3643, "tsvector"),
    entry(3615, 3645, "tsquery"),
    entry(3642, 3644, "gtsvector"),
    entry(3734, 3735, "regconfig"),
    entry(3769, 3770, "regdictionary"),
    entry(JSONB, 3807, "jsonb"),
    entry(3904, 3905, "int4range"),
    entry(3906, 3907, "numrange"),
    entry(3908, 3909, "tsrange"),
    entry(3910, 3911, "tstzrange"),
    entry(3912, 3913, "daterange"),
    entry(3926, 3927, "int8range"),
    entry(4072, 4073, "jsonpath"),
    entry(4089, 4090, "regnamespace"),
    entry(4096, 4097, "regrole"),
    entry(4191, 4192, "regcollation"),
    entry(4451, 6150, "int4multirange"),
    entry(4532, 6151, "nummultirange"),
    entry(4533, 6152, "tsmultirange"),
    entry(4534, 6153, "tstzmultirange"),
    entry(4535, 6155, "datemultirange"),
    entry(4536, 6157, "int8multirange"),
    entry(5038, 5039, "pg_snapshot"),
    entry(XID8, 271, "xid8"),
];
