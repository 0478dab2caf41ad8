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
pub(crate) const INT2VECTOR: Oid = 22;
pub(crate) const INT4: Oid = 23;
pub(crate) const REGPROC: Oid = 24;
pub(crate) const TEXT: Oid = 25;
pub(crate) const OID: Oid = 26;
pub(crate) const TID: Oid = 27;
pub(crate) const XID: Oid = 28;
pub(crate) const CID: Oid = 29;
pub(crate) const OIDVECTOR: Oid = 30;
pub(crate) const JSON: Oid = 114;
pub(crate) const XML: Oid = 142;
pub(crate) const PG_NODE_TREE: Oid = 194;
pub(crate) const POINT: Oid = 600;
pub(crate) const LSEG: Oid = 601;
pub(crate) const PATH: Oid = 602;
pub(crate) const BOX: Oid = 603;
pub(crate) const POLYGON: Oid = 604;
pub(crate) const LINE: Oid = 628;
pub(crate) const CIDR: Oid = 650;
pub(crate) const FLOAT4: Oid = 700;
pub(crate) const FLOAT8: Oid = 701;
pub(crate) const CIRCLE: Oid = 718;
pub(crate) const MACADDR8: Oid = 774;
pub(crate) const MONEY: Oid = 790;
pub(crate) const MACADDR: Oid = 829;
pub(crate) const INET: Oid = 869;
pub(crate) const ACLITEM: Oid = 1033;
pub(crate) const BPCHAR: Oid = 1042;
pub(crate) const VARCHAR: Oid = 1043;
pub(crate) const DATE: Oid = 1082;
pub(crate) const TIME: Oid = 1083;
pub(crate) const TIMESTAMP: Oid = 1114;
pub(crate) const TIMESTAMPTZ: Oid = 1184;
pub(crate) const INTERVAL: Oid = 1186;
pub(crate) const TIMETZ: Oid = 1266;
pub(crate) const BIT: Oid = 1560;
pub(crate) const VARBIT: Oid = 1562;
pub(crate) const NUMERIC: Oid = 1700;
pub(crate) const REFCURSOR: Oid = 1790;
pub(crate) const REGPROCEDURE: Oid = 2202;
pub(crate) const REGOPER: Oid = 2203;
pub(crate) const REGOPERATOR: Oid = 2204;
pub(crate) const REGCLASS: Oid = 2205;
pub(crate) const REGTYPE: Oid = 2206;
pub(crate) const UUID: Oid = 2950;
pub(crate) const TXID_SNAPSHOT: Oid = 2970;
pub(crate) const PG_LSN: Oid = 3220;
pub(crate) const TSVECTOR: Oid = 3614;
pub(crate) const TSQUERY: Oid = 3615;
pub(crate) const GTSVECTOR: Oid = 3642;
pub(crate) const REGCONFIG: Oid = 3734;
pub(crate) const REGDICTIONARY: Oid = 3769;
pub(crate) const JSONB: Oid = 3802;
pub(crate) const INT4RANGE: Oid = 3904;
pub(crate) const NUMRANGE: Oid = 3906;
pub(crate) const TSRANGE: Oid = 3908;
pub(crate) const TSTZRANGE: Oid = 3910;
pub(crate) const DATERANGE: Oid = 3912;
pub(crate) const INT8RANGE: Oid = 3926;
pub(crate) const JSONPATH: Oid = 4072;
pub(crate) const REGNAMESPACE: Oid = 4089;
pub(crate) const REGROLE: Oid = 4096;
pub(crate) const REGCOLLATION: Oid = 4191;
pub(crate) const INT4MULTIRANGE: Oid = 4451;
pub(crate) const NUMMULTIRANGE: Oid = 4532;
pub(crate) const TSMULTIRANGE: Oid = 4533;
pub(crate) const TSTZMULTIRANGE: Oid = 4534;
pub(crate) const DATEMULTIRANGE: Oid = 4535;
pub(crate) const INT8MULTIRANGE: Oid = 4536;
pub(crate) const PG_SNAPSHOT: Oid = 5038;
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

/// What the bounds of a built-in range or multirange are; 0 if it is neither.
pub(crate) const fn subtype(oid: Oid) -> Oid {
    match oid {
        INT4RANGE | INT4MULTIRANGE => INT4,
        NUMRANGE | NUMMULTIRANGE => NUMERIC,
        TSRANGE | TSMULTIRANGE => TIMESTAMP,
        TSTZRANGE | TSTZMULTIRANGE => TIMESTAMPTZ,
        DATERANGE | DATEMULTIRANGE => DATE,
        INT8RANGE | INT8MULTIRANGE => INT8,
        _ => 0,
    }
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
        delimiter: if oid == BOX { b';' } else { b',' },
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
    entry(INT2VECTOR, 1006, "int2vector"),
    entry(INT4, 1007, "int4"),
    entry(REGPROC, 1008, "regproc"),
    entry(TEXT, 1009, "text"),
    entry(OID, 1028, "oid"),
    entry(TID, 1010, "tid"),
    entry(XID, 1011, "xid"),
    entry(CID, 1012, "cid"),
    entry(OIDVECTOR, 1013, "oidvector"),
    entry(JSON, 199, "json"),
    entry(XML, 143, "xml"),
    entry(PG_NODE_TREE, 0, "pg_node_tree"),
    entry(POINT, 1017, "point"),
    entry(LSEG, 1018, "lseg"),
    entry(PATH, 1019, "path"),
    entry(BOX, 1020, "box"),
    entry(POLYGON, 1027, "polygon"),
    entry(LINE, 629, "line"),
    entry(CIDR, 651, "cidr"),
    entry(FLOAT4, 1021, "float4"),
    entry(FLOAT8, 1022, "float8"),
    entry(CIRCLE, 719, "circle"),
    entry(MACADDR8, 775, "macaddr8"),
    entry(MONEY, 791, "money"),
    entry(MACADDR, 1040, "macaddr"),
    entry(INET, 1041, "inet"),
    entry(ACLITEM, 1034, "aclitem"),
    entry(BPCHAR, 1014, "bpchar"),
    entry(VARCHAR, 1015, "varchar"),
    entry(DATE, 1182, "date"),
    entry(TIME, 1183, "time"),
    entry(TIMESTAMP, 1115, "timestamp"),
    entry(TIMESTAMPTZ, 1185, "timestamptz"),
    entry(INTERVAL, 1187, "interval"),
    entry(TIMETZ, 1270, "timetz"),
    entry(BIT, 1561, "bit"),
    entry(VARBIT, 1563, "varbit"),
    entry(NUMERIC, 1231, "numeric"),
    entry(REFCURSOR, 2201, "refcursor"),
    entry(REGPROCEDURE, 2207, "regprocedure"),
    entry(REGOPER, 2208, "regoper"),
    entry(REGOPERATOR, 2209, "regoperator"),
    entry(REGCLASS, 2210, "regclass"),
    entry(REGTYPE, 2211, "regtype"),
    entry(UUID, 2951, "uuid"),
    entry(TXID_SNAPSHOT, 2949, "txid_snapshot"),
    entry(PG_LSN, 3221, "pg_lsn"),
    entry(TSVECTOR, 3643, "tsvector"),
    entry(TSQUERY, 3645, "tsquery"),
    entry(GTSVECTOR, 3644, "gtsvector"),
    entry(REGCONFIG, 3735, "regconfig"),
    entry(REGDICTIONARY, 3770, "regdictionary"),
    entry(JSONB, 3807, "jsonb"),
    entry(INT4RANGE, 3905, "int4range"),
    entry(NUMRANGE, 3907, "numrange"),
    entry(TSRANGE, 3909, "tsrange"),
    entry(TSTZRANGE, 3911, "tstzrange"),
    entry(DATERANGE, 3913, "daterange"),
    entry(INT8RANGE, 3927, "int8range"),
    entry(JSONPATH, 4073, "jsonpath"),
    entry(REGNAMESPACE, 4090, "regnamespace"),
    entry(REGROLE, 4097, "regrole"),
    entry(REGCOLLATION, 4192, "regcollation"),
    entry(INT4MULTIRANGE, 6150, "int4multirange"),
    entry(NUMMULTIRANGE, 6151, "nummultirange"),
    entry(TSMULTIRANGE, 6152, "tsmultirange"),
    entry(TSTZMULTIRANGE, 6153, "tstzmultirange"),
    entry(DATEMULTIRANGE, 6155, "datemultirange"),
    entry(INT8MULTIRANGE, 6157, "int8multirange"),
    entry(PG_SNAPSHOT, 5039, "pg_snapshot"),
    entry(XID8, 271, "xid8"),
];
