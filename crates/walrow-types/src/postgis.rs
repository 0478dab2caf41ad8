//! `geometry` and `geography` of the extension `PostGIS`.
//!
//! ```text
//! text    EWKB in hexadecimal digits in upper case
//! binary  EWKB: u8 1 for little endian | u32 type and flags | u32 SRID, if flagged | coordinates
//! ```

use crate::bytea::{bytes_from_hex, hex_from_byte};
use crate::error::{CellError, Unrepresentable};
use crate::pg_type::{AppendBytes, Known, PgType, text_from_binary};

/// `PostGIS`'s `geometry` or `geography`.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// The SRID of its values; 0 for none.
    pub srid: u32,
    /// Whether edges are geodesics.
    pub is_geography: bool,
}

impl Known for Geometry {
    const EXTENSION_NAMES: &'static [&'static str] = &["geometry", "geography"];

    fn new(name: &str, type_modifier: i32) -> Self {
        let is_geography = name == "geography";
        // The SRID of a geography whose type names none.
        let srid = if is_geography { 4326 } else { 0 };
        Self {
            srid: srid_of_typmod(type_modifier).unwrap_or(srid),
            is_geography,
        }
    }
}

impl Geometry {
    /// Appends the ISO WKB of a text cell, and returns the SRID if the value has one.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn text(
        self,
        cell: &[u8],
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Option<u32>, CellError> {
        wkb_from_text(cell, scratch, out)
    }

    /// Appends the ISO WKB of a binary cell, and returns the SRID if the value has one.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn binary(self, cell: &[u8], out: &mut Vec<u8>) -> Result<Option<u32>, CellError> {
        wkb_from_binary(cell, out)
    }
}

impl PgType for Geometry {
    text_from_binary!(|cell, out| {
        geometry_text_from_binary(cell, out);
        Ok(())
    });

    fn is_ascii(&self) -> bool {
        true
    }
}

/// The EWKB of a geometry, as `PostGIS` stores it.
#[derive(Clone, Copy, Debug)]
pub struct Ewkb;

impl AppendBytes for Ewkb {
    fn text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        bytes_from_hex(cell, out)
    }

    fn binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        out.extend_from_slice(cell);
        Ok(())
    }
}

/// The ISO WKB of geometries with one SRID.
#[derive(Clone, Copy, Debug)]
pub struct Wkb {
    /// The SRID of all values; 0 for none.
    pub srid: u32,
}

impl Wkb {
    /// WKB has no SRID, so each value must have the column's.
    fn check(self, own: Option<u32>) -> Result<(), CellError> {
        if own.unwrap_or(0) == self.srid {
            return Ok(());
        }
        Err(Unrepresentable::Srid.into())
    }
}

impl AppendBytes for Wkb {
    fn text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        let own = wkb_from_text(cell, &mut Vec::new(), out)?;
        self.check(own)
    }

    fn binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        let own = wkb_from_binary(cell, out)?;
        self.check(own)
    }
}

/// The SRID in the type modifier of a `geometry` or `geography` column, if it has one.
fn srid_of_typmod(type_modifier: i32) -> Option<u32> {
    let bits = u32::try_from(type_modifier).ok()?;
    Some(bits >> 8 & 0xf_ffff).filter(|srid| *srid != 0)
}

/// Appends the ISO WKB of a geometry's text; nothing if it is malformed. Returns the SRID, if it has one. `scratch` holds
/// the EWKB.
fn wkb_from_text(
    cell: &[u8],
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<Option<u32>, CellError> {
    scratch.clear();
    bytes_from_hex(cell, scratch)?;
    wkb_from_binary(scratch, out)
}

/// Appends the ISO WKB of a binary geometry, which is EWKB; nothing if it is malformed. Returns the SRID, if it has one.
fn wkb_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<Option<u32>, CellError> {
    let start = out.len();
    let mut walk = WkbWalk { srid: None, out };
    let walked = walk.geometry(cell, None, 0).and_then(|rest| match rest {
        [] => Ok(()),
        _ => Err(CellError::Malformed("nothing after the geometry")),
    });
    let srid = walk.srid;
    if walked.is_err() {
        out.truncate(start);
    }
    walked.map(|()| srid)
}

/// Appends the text of a binary geometry.
fn geometry_text_from_binary(cell: &[u8], out: &mut Vec<u8>) {
    out.extend(
        cell.iter()
            .flat_map(|byte| hex_from_byte(*byte).map(|digit| digit.to_ascii_uppercase())),
    );
}

/// Converts EWKB to ISO WKB in the same byte order: the flags become a part of the type's number, and the SRID is
/// removed.
struct WkbWalk<'o> {
    srid: Option<u32>,
    out: &'o mut Vec<u8>,
}

/// The type of a geometry and the flags of its dimensions.
#[derive(Clone, Copy)]
struct WkbType {
    kind: u32,
    dimensions: u32,
}

impl WkbWalk<'_> {
    /// Writes the geometry in front. Returns what follows it.
    fn geometry<'a>(
        &mut self,
        bytes: &'a [u8],
        outer: Option<WkbType>,
        depth: u32,
    ) -> Result<&'a [u8], CellError> {
        let (order, rest) = bytes.split_first().ok_or(NOT_EWKB)?;
        let little = match order {
            0 => false,
            1 => true,
            _ => return Err(NOT_EWKB),
        };
        let (flagged, mut rest) = split_word(rest, little)?;
        if flagged & WITH_SRID != 0 {
            // PostGIS writes the SRID once, in the outermost geometry.
            if depth > 0 {
                return Err(NOT_EWKB);
            }
            let (srid, after) = split_word(rest, little)?;
            self.srid = Some(srid);
            rest = after;
        }
        let this = WkbType {
            kind: flagged & !(WITH_Z | WITH_M | WITH_SRID),
            dimensions: flagged & (WITH_Z | WITH_M),
        };
        if outer.is_some_and(|outer| !outer.takes(this)) {
            return Err(NOT_EWKB);
        }
        let (z, m) = (
            u32::from(flagged & WITH_Z != 0),
            u32::from(flagged & WITH_M != 0),
        );
        let iso = this
            .kind
            .wrapping_add(z.wrapping_mul(1000))
            .wrapping_add(m.wrapping_mul(2000));
        self.out.push(*order);
        self.out.extend_from_slice(&if little {
            iso.to_le_bytes()
        } else {
            iso.to_be_bytes()
        });
        let size = u64::from(z.wrapping_add(m).wrapping_add(2)).wrapping_mul(8);
        match this.kind {
            POINT => self.copy(rest, size),
            LINESTRING | CIRCULARSTRING => self.points(rest, little, size),
            POLYGON | TRIANGLE => {
                let (rings, mut rest) = self.count(rest, little, 4)?;
                for _ in 0..rings {
                    rest = self.points(rest, little, size)?;
                }
                Ok(rest)
            }
            MULTIPOINT..=GEOMETRYCOLLECTION
            | COMPOUNDCURVE..=MULTISURFACE
            | POLYHEDRALSURFACE
            | TIN => {
                if depth >= MAX_DEPTH {
                    return Err(CellError::Malformed("geometries at most 200 deep"));
                }
                // Each takes at least the byte order, the type and a count.
                let (geometries, mut rest) = self.count(rest, little, 9)?;
                for _ in 0..geometries {
                    rest = self.geometry(rest, Some(this), depth.saturating_add(1))?;
                }
                Ok(rest)
            }
            _ => Err(CellError::Malformed("a geometry type of PostGIS")),
        }
    }

    /// Writes a count and as many points of that size.
    fn points<'a>(
        &mut self,
        rest: &'a [u8],
        little: bool,
        size: u64,
    ) -> Result<&'a [u8], CellError> {
        let (points, rest) = self.count(rest, little, size)?;
        self.copy(rest, u64::from(points).saturating_mul(size))
    }

    /// Writes a count of parts, each of which takes at least this number of bytes.
    fn count<'a>(
        &mut self,
        rest: &'a [u8],
        little: bool,
        least: u64,
    ) -> Result<(u32, &'a [u8]), CellError> {
        let (count, after) = split_word(rest, little)?;
        let bytes = u64::from(count).saturating_mul(least);
        if usize::try_from(bytes).map_or(true, |bytes| bytes > after.len()) {
            return Err(NOT_EWKB);
        }
        self.copy(rest, 4)?;
        Ok((count, after))
    }

    fn copy<'a>(&mut self, rest: &'a [u8], length: u64) -> Result<&'a [u8], CellError> {
        let (bytes, rest) = usize::try_from(length)
            .ok()
            .and_then(|length| rest.split_at_checked(length))
            .ok_or(NOT_EWKB)?;
        self.out.extend_from_slice(bytes);
        Ok(rest)
    }
}

impl WkbType {
    /// Whether a geometry of this type can contain one of the other.
    const fn takes(self, inner: Self) -> bool {
        let kind = match self.kind {
            MULTIPOINT => inner.kind == POINT,
            MULTILINESTRING => inner.kind == LINESTRING,
            MULTIPOLYGON | POLYHEDRALSURFACE => inner.kind == POLYGON,
            TIN => inner.kind == TRIANGLE,
            _ => true,
        };
        kind && inner.dimensions == self.dimensions
    }
}

fn split_word(bytes: &[u8], little: bool) -> Result<(u32, &[u8]), CellError> {
    let (word, rest) = bytes.split_first_chunk::<4>().ok_or(NOT_EWKB)?;
    let word = if little {
        u32::from_le_bytes(*word)
    } else {
        u32::from_be_bytes(*word)
    };
    Ok((word, rest))
}

const NOT_EWKB: CellError = CellError::Malformed("EWKB as PostGIS writes it");

const WITH_Z: u32 = 0x8000_0000;
const WITH_M: u32 = 0x4000_0000;
const WITH_SRID: u32 = 0x2000_0000;

const POINT: u32 = 1;
const LINESTRING: u32 = 2;
const POLYGON: u32 = 3;
const MULTIPOINT: u32 = 4;
const MULTILINESTRING: u32 = 5;
const MULTIPOLYGON: u32 = 6;
const GEOMETRYCOLLECTION: u32 = 7;
const CIRCULARSTRING: u32 = 8;
const COMPOUNDCURVE: u32 = 9;
const MULTISURFACE: u32 = 12;
const POLYHEDRALSURFACE: u32 = 15;
const TIN: u32 = 16;
const TRIANGLE: u32 = 17;

/// The deepest nesting of collections that `PostGIS` reads.
const MAX_DEPTH: u32 = 200;

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod tests {
    use proptest::prelude::*;
    use walrow_testkit::hex;

    use super::*;

    fn wkb(cell: &[u8]) -> Result<(Option<u32>, Vec<u8>), CellError> {
        let mut out = b"before".to_vec();
        match wkb_from_binary(cell, &mut out) {
            Ok(srid) => {
                let mut again = Vec::new();
                let mut text = Vec::new();
                geometry_text_from_binary(cell, &mut text);
                assert!(!text.iter().any(u8::is_ascii_lowercase));
                assert_eq!(wkb_from_text(&text, &mut Vec::new(), &mut again), Ok(srid));
                assert_eq!(out.strip_prefix(b"before"), Some(again.as_slice()));
                Ok((srid, again))
            }
            Err(error) => {
                assert_eq!(out, b"before");
                Err(error)
            }
        }
    }

    // The second as ST_AsBinary of PostGIS gives it, but for the TIN, by hand; the first with the flags of ST_AsEWKB.
    #[test]
    fn extended_wkb_becomes_iso_wkb() {
        for (extended, iso) in [
            // POINT(0 0), both byte orders
            (
                "010100000000000000000000000000000000000000",
                "010100000000000000000000000000000000000000",
            ),
            (
                "000000000100000000000000000000000000000000",
                "000000000100000000000000000000000000000000",
            ),
            // POINT EMPTY
            (
                "0101000000000000000000f87f000000000000f87f",
                "0101000000000000000000f87f000000000000f87f",
            ),
            // POINT Z (1 2 3), both byte orders; POINT M (1 2 3); POINT ZM (1 2 3 4)
            (
                "0101000080000000000000f03f00000000000000400000000000000840",
                "01e9030000000000000000f03f00000000000000400000000000000840",
            ),
            (
                "00800000013ff000000000000040000000000000004008000000000000",
                "00000003e93ff000000000000040000000000000004008000000000000",
            ),
            (
                "0101000040000000000000f03f00000000000000400000000000000840",
                "01d1070000000000000000f03f00000000000000400000000000000840",
            ),
            (
                "01010000c0000000000000f03f000000000000004000000000000008400000000000001040",
                "01b90b0000000000000000f03f000000000000004000000000000008400000000000001040",
            ),
            // LINESTRING ZM EMPTY
            ("01020000c000000000", "01ba0b000000000000"),
            // LINESTRING(0 0, 1 1)
            (
                "01020000000200000000000000000000000000000000000000000000000000f03f000000000000f03f",
                "01020000000200000000000000000000000000000000000000000000000000f03f000000000000f03f",
            ),
            // POLYGON((0 0,1 0,1 1,0 1,0 0)); POLYGON M EMPTY
            (
                "0103000000010000000500000000000000000000000000000000000000000000000000f03f0000000000000000\
                 000000000000f03f000000000000f03f0000000000000000000000000000f03f00000000000000000000000000000000",
                "0103000000010000000500000000000000000000000000000000000000000000000000f03f0000000000000000\
                 000000000000f03f000000000000f03f0000000000000000000000000000f03f00000000000000000000000000000000",
            ),
            ("010300004000000000", "01d307000000000000"),
            // MULTIPOINT Z ((0 0 0), (2 0 1)), both byte orders
            (
                "01040000800200000001010000800000000000000000000000000000000000000000000000000\
                 101000080000000000000004000000000000000000000 00000000f03f",
                "01ec0300000200000001e90300000000000000000000000000000000000000000000000000000\
                 1e9030000000000000000004000000000000000000000 00000000f03f",
            ),
            (
                "00800000040000000200800000010000000000000000000000000000000000000000000000000080000001\
                 400000000000000000000000000000003ff0000000000000",
                "00000003ec0000000200000003e900000000000000000000000000000000000000000000000000000003e9\
                 400000000000000000000000000000003ff0000000000000",
            ),
            // MULTIPOLYGON ZM EMPTY
            ("01060000c000000000", "01be0b000000000000"),
            // COMPOUNDCURVE M (CIRCULARSTRING M (0 0 1,1 1 1,2 0 1),LINESTRING M (2 0 0,4 1 1))
            (
                "0109000040020000000108000040 03000000 00000000000000000000000000000000000000000000f03f\
                 000000000000f03f000000000000f03f000000000000f03f00000000000000400000000000000000000000000000f03f\
                 0102000040 02000000 000000000000004000000000000000000000000000000000\
                 0000000000001040000000000000f03f000000000000f03f",
                "01d9070000020000000 1d8070000 03000000 00000000000000000000000000000000000000000000f03f\
                 000000000000f03f000000000000f03f000000000000f03f00000000000000400000000000000000000000000000f03f\
                 01d2070000 02000000 000000000000004000000000000000000000000000000000\
                 0000000000001040000000000000f03f000000000000f03f",
            ),
            // CURVEPOLYGON Z, MULTICURVE, MULTISURFACE M, POLYHEDRALSURFACE Z, TIN ZM and TRIANGLE M, all EMPTY
            ("010a00008000000000", "01f203000000000000"),
            ("010b00000000000000", "010b00000000000000"),
            ("010c00004000000000", "01dc07000000000000"),
            ("010f00008000000000", "01f703000000000000"),
            ("01100000c000000000", "01c80b000000000000"),
            ("011100004000000000", "01e107000000000000"),
            // TIN(((0 0,0 0,0 0,0 0))): a triangle has one ring
            (
                &format!(
                    "0110000000010000000111000000 01000000 04000000 {}",
                    "00".repeat(64)
                ),
                &format!(
                    "0110000000010000000111000000 01000000 04000000 {}",
                    "00".repeat(64)
                ),
            ),
            // GEOMETRYCOLLECTION M (POINT M EMPTY,GEOMETRYCOLLECTION M (POINT M (0 0 0)))
            (
                "010700004002000000 0101000040000000000000f87f000000000000f87f000000000000f87f\
                 010700004001000000 0101000040000000000000000000000000000000000000000000000000",
                "01d707000002000000 01d1070000000000000000f87f000000000000f87f000000000000f87f\
                 01d707000001000000 01d1070000000000000000000000000000000000000000000000000000",
            ),
        ] {
            let hex = |text: &str| hex(&text.replace([' ', '\n'], ""));
            assert_eq!(wkb(&hex(extended)), Ok((None, hex(iso))), "{extended}");
        }
    }

    #[test]
    fn srid_is_taken_out() {
        // SRID=4326;POINT(1 2), both byte orders
        for (extended, iso) in [
            (
                "0101000020E6100000000000000000F03F0000000000000040",
                "0101000000000000000000F03F0000000000000040",
            ),
            (
                "0020000001000010E63FF00000000000004000000000000000",
                "00000000013FF00000000000004000000000000000",
            ),
        ] {
            assert_eq!(wkb(&hex(extended)), Ok((Some(4326), hex(iso))));
        }
        // SRID=4326;POINT Z EMPTY
        let empty = "000000000000F87F".repeat(3);
        assert_eq!(
            wkb(&hex(&format!("01010000A0E6100000{empty}"))),
            Ok((Some(4326), hex(&format!("01E9030000{empty}"))))
        );
        // SRID=4326;MULTIPOINT(0 0): the point inside has no SRID.
        let zeros = "00".repeat(16);
        assert_eq!(
            wkb(&hex(&format!(
                "0104000020E6100000010000000101000000{zeros}"
            ))),
            Ok((
                Some(4326),
                hex(&format!("0104000000010000000101000000{zeros}"))
            ))
        );
    }

    #[test]
    fn wrong_geometries_are_refused() {
        let zeros = "00".repeat(16);
        let whole = hex(&format!("0104000020E6100000010000000101000000{zeros}"));
        assert!(wkb(&whole).is_ok());
        for end in 0..whole.len() {
            assert!(wkb(&whole[..end]).is_err(), "{end}");
        }
        assert!(wkb(&[&whole[..], &[0]].concat()).is_err());
        for wrong in [
            // A byte order of 2; types 0, 13, 14, 18 and the ISO number 1001.
            format!("0201000000{zeros}"),
            format!("0100000000{zeros}"),
            "010d00000000000000".into(),
            "010e00000000000000".into(),
            "011200000000000000".into(),
            format!("01e9030000{zeros}0000000000000000"),
            // More points, rings, points of a ring, geometries than bytes.
            "0102000000ffffffff".into(),
            "0103000000ffffffff".into(),
            "010300000001000000ffffffff".into(),
            "0107000000ffffffff".into(),
            "01070000000100000001020000".into(),
            // A line among points, a flat point in a collection with Z, an SRID within.
            "010400000001000000010200000000000000".into(),
            format!("0107000080010000000101000000{zeros}"),
            format!("0107000000010000000101000020E6100000{zeros}"),
        ] {
            assert!(wkb(&hex(&wrong)).is_err(), "{wrong}");
        }
        for wrong in ["", "0", "xx", "01010000000", "\\x0101"] {
            let mut out = Vec::new();
            assert!(wkb_from_text(wrong.as_bytes(), &mut Vec::new(), &mut out).is_err());
            assert!(out.is_empty());
        }
    }

    #[test]
    fn depth_is_limited() {
        let nested = |depth: usize| {
            let mut cell = hex("010700000001000000").repeat(depth);
            cell.extend(hex("010700000000000000"));
            cell
        };
        assert!(wkb(&nested(199)).is_ok());
        assert!(wkb(&nested(200)).is_err());
        assert!(wkb(&nested(100_000)).is_err());
    }

    #[test]
    fn the_srid_is_in_the_type_modifier() {
        let geometry =
            |name, type_modifier| <super::Geometry as Known>::new(name, type_modifier).srid;
        // format_type: geometry(PointZ,4326), geometry(TriangleM,999999), geometry(Point).
        assert_eq!(geometry("geometry", 1_107_462), 4326);
        assert_eq!(geometry("geometry", 999_999 << 8 | 17 << 2 | 1), 999_999);
        assert_eq!(geometry("geometry", 1 << 2), 0);
        assert_eq!(geometry("geometry", -1), 0);
        assert_eq!(geometry("geography", -1), 4326);
        assert_eq!(geometry("geography", 4267 << 8), 4267);
    }

    /// Any geometry as EWKB, and as ISO WKB.
    #[derive(Clone, Debug)]
    enum Geometry {
        Points(u32, Vec<Vec<[u64; 4]>>),
        Nested(u32, Vec<Self>),
    }

    impl Geometry {
        fn write(&self, little: bool, dimensions: u32, srid: Option<u32>, iso: bool) -> Vec<u8> {
            let word = |word: u32| {
                if little {
                    word.to_le_bytes()
                } else {
                    word.to_be_bytes()
                }
            };
            let (Self::Points(kind, _) | Self::Nested(kind, _)) = self;
            let (z, m) = (dimensions & 2 != 0, dimensions & 1 != 0);
            let mut cell = vec![u8::from(little)];
            let srid = srid.filter(|_| !iso);
            cell.extend(word(if iso {
                kind + 1000 * u32::from(z) + 2000 * u32::from(m)
            } else {
                kind | u32::from(z) << 31 | u32::from(m) << 30 | u32::from(srid.is_some()) << 29
            }));
            cell.extend(srid.into_iter().flat_map(word));
            let width = 2 + usize::from(z) + usize::from(m);
            match self {
                Self::Points(kind, rings) => {
                    if *kind == POLYGON {
                        cell.extend(word(u32::try_from(rings.len()).unwrap()));
                    }
                    for ring in rings {
                        if *kind != POINT {
                            cell.extend(word(u32::try_from(ring.len()).unwrap()));
                        }
                        for number in ring.iter().flat_map(|point| &point[..width]) {
                            cell.extend_from_slice(&number.to_ne_bytes());
                        }
                    }
                }
                Self::Nested(_, geometries) => {
                    cell.extend(word(u32::try_from(geometries.len()).unwrap()));
                    for geometry in geometries {
                        cell.extend(geometry.write(little, dimensions, None, iso));
                    }
                }
            }
            cell
        }
    }

    fn geometry() -> impl Strategy<Value = Geometry> {
        let ring = || proptest::collection::vec(any::<[u64; 4]>(), 0..4);
        let simple = prop_oneof![
            any::<[u64; 4]>().prop_map(|point| Geometry::Points(POINT, vec![vec![point]])),
            ring().prop_map(|ring| Geometry::Points(LINESTRING, vec![ring])),
            ring().prop_map(|ring| Geometry::Points(CIRCULARSTRING, vec![ring])),
            proptest::collection::vec(ring(), 0..3)
                .prop_map(|rings| Geometry::Points(POLYGON, rings)),
        ];
        simple.prop_recursive(3, 12, 3, |inner| {
            (
                prop::sample::select(vec![
                    GEOMETRYCOLLECTION,
                    COMPOUNDCURVE,
                    10,
                    11,
                    MULTISURFACE,
                ]),
                proptest::collection::vec(inner, 0..3),
            )
                .prop_map(|(kind, geometries)| Geometry::Nested(kind, geometries))
        })
    }

    proptest! {
        #[test]
        fn any_geometry_becomes_iso_wkb(
            geometry in geometry(),
            little: bool,
            dimensions in 0..4_u32,
            srid in proptest::option::of(1..999_999_u32),
        ) {
            let extended = geometry.write(little, dimensions, srid, false);
            let iso = geometry.write(little, dimensions, srid, true);
            prop_assert_eq!(wkb(&extended), Ok((srid, iso)));
            for end in 0..extended.len() {
                prop_assert!(wkb(&extended[..end]).is_err());
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            cell in proptest::collection::vec(any::<u8>(), 0..40),
            kind in 0..20_u8,
            flags in 0..8_u8,
            counts in proptest::collection::vec(prop_oneof![0..3_u8, Just(0xff)], 0..60),
        ) {
            let geometry = [&[1, kind, 0, 0, flags << 5], &counts[..]].concat();
            for cell in [&cell[..], &geometry] {
                let _ = wkb(cell);
                let _ = wkb_from_text(cell, &mut Vec::new(), &mut Vec::new());
            }
        }
    }
}
