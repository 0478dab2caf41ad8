//! `point`, `lseg`, `box`, `line` and `circle`, which have a fixed number of coordinates; `path` and `polygon`, which have
//! any number of points: “Geometric Types”.
//!
//! ```text
//! point     (x,y)
//! lseg      [(x1,y1),(x2,y2)]
//! box       (x1,y1),(x2,y2)               the upper right corner first
//! line      {A,B,C}
//! circle    <(x,y),r>
//! path      ((x,y),...) closed, [(x,y),...] open
//! polygon   ((x,y),...)
//!
//! binary    f64 of each number in the same order; before them a path has u8 closed | i32 points,
//!           and a polygon i32 points
//! ```

use crate::built_in;
use crate::error::CellError;
use crate::float::{f64_from_text, f64_text_from_binary};
use crate::lengths::split_count;
use crate::pg_type::{Known, PgType, known, text_from_binary};

/// `path`.
#[derive(Clone, Copy, Debug)]
pub struct Path;

/// `polygon`.
#[derive(Clone, Copy, Debug)]
pub struct Polygon;

known!(Path: PATH;);
known!(Polygon: POLYGON;);

impl Known for Shape {
    const OIDS: &'static [u32] = &[
        built_in::POINT,
        built_in::LSEG,
        built_in::BOX,
        built_in::LINE,
        built_in::CIRCLE,
    ];

    fn new(name: &str, _: i32) -> Self {
        match name {
            "lseg" => Self::Lseg,
            "box" => Self::Box,
            "line" => Self::Line,
            "circle" => Self::Circle,
            _ => Self::Point,
        }
    }
}

impl PgType for Shape {
    fn text_from_binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        shape_text_from_binary(*self, cell, out)
    }
}

impl PgType for Path {
    text_from_binary!(path_text_from_binary);
}

impl PgType for Polygon {
    text_from_binary!(polygon_text_from_binary);
}

impl Path {
    /// Reads a text cell, in place of what `points` held. Returns whether the path is closed.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn text(self, cell: &[u8], points: &mut Vec<[f64; 2]>) -> Result<bool, CellError> {
        path_from_text(cell, points)
    }

    /// As [`Path::text`], of a binary cell.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn binary(self, cell: &[u8], points: &mut Vec<[f64; 2]>) -> Result<bool, CellError> {
        path_from_binary(cell, points)
    }
}

impl Polygon {
    /// Reads a text cell, in place of what `points` held.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn text(self, cell: &[u8], points: &mut Vec<[f64; 2]>) -> Result<(), CellError> {
        polygon_from_text(cell, points)
    }

    /// As [`Polygon::text`], of a binary cell.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn binary(self, cell: &[u8], points: &mut Vec<[f64; 2]>) -> Result<(), CellError> {
        polygon_from_binary(cell, points)
    }
}

/// A geometric type with a fixed number of coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// `point`: x and y.
    Point,
    /// `lseg`: two points.
    Lseg,
    /// `box`: two corners, the upper right one first.
    Box,
    /// `line`: the numbers of `ax + by + c = 0`.
    Line,
    /// `circle`: the center and the radius.
    Circle,
}

impl Shape {
    /// The names of the numbers, in the order of both forms.
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Point => &["x", "y"],
            Self::Lseg | Self::Box => &["x1", "y1", "x2", "y2"],
            Self::Line => &["a", "b", "c"],
            Self::Circle => &["x", "y", "r"],
        }
    }

    /// Reads a text cell, in place of what `numbers` held.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn text(self, cell: &[u8], numbers: &mut Vec<f64>) -> Result<(), CellError> {
        shape_from_text(self, cell, numbers)
    }

    /// Reads a binary cell, in place of what `numbers` held.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn binary(self, cell: &[u8], numbers: &mut Vec<f64>) -> Result<(), CellError> {
        shape_from_binary(self, cell, numbers)
    }

    /// The text around the numbers: before the first, between each two, after the last.
    const fn marks(self) -> &'static [&'static [u8]] {
        match self {
            Self::Point => &[b"(", b",", b")"],
            Self::Lseg => &[b"[(", b",", b"),(", b",", b")]"],
            Self::Box => &[b"(", b",", b"),(", b",", b")"],
            Self::Line => &[b"{", b",", b",", b"}"],
            Self::Circle => &[b"<(", b",", b"),", b">"],
        }
    }
}

/// Parses a shape's text into its numbers, in place of what `numbers` held.
fn shape_from_text(shape: Shape, cell: &[u8], numbers: &mut Vec<f64>) -> Result<(), CellError> {
    numbers.clear();
    let (first, marks) = shape.marks().split_first().ok_or(NOT_A_SHAPE)?;
    let mut rest = cell.strip_prefix(*first).ok_or(NOT_A_SHAPE)?;
    for mark in marks {
        let (number, after) = split_number(rest)?;
        numbers.push(number);
        rest = after.strip_prefix(*mark).ok_or(NOT_A_SHAPE)?;
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(NOT_A_SHAPE)
    }
}

/// Parses a shape's binary form into its numbers, in place of what `numbers` held.
fn shape_from_binary(shape: Shape, cell: &[u8], numbers: &mut Vec<f64>) -> Result<(), CellError> {
    numbers.clear();
    let words = shape_words(shape, cell)?;
    numbers.extend(words.iter().map(|word| f64::from_be_bytes(*word)));
    Ok(())
}

/// Appends the text of a binary shape.
fn shape_text_from_binary(shape: Shape, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    let mut words = shape_words(shape, cell)?.iter();
    for mark in shape.marks() {
        out.extend_from_slice(mark);
        if let Some(word) = words.next() {
            f64_text_from_binary(word, out)?;
        }
    }
    Ok(())
}

/// The numbers of a binary shape.
fn shape_words(shape: Shape, cell: &[u8]) -> Result<&[[u8; 8]], CellError> {
    match cell.as_chunks::<8>() {
        (words, []) if words.len() == shape.names().len() => Ok(words),
        _ => Err(CellError::Malformed("8 bytes for each number")),
    }
}

/// Parses a path's text into its points, in place of what `points` held. Returns whether the path is closed.
fn path_from_text(cell: &[u8], points: &mut Vec<[f64; 2]>) -> Result<bool, CellError> {
    points.clear();
    match cell {
        [b'(', inside @ .., b')'] => points_from_text(inside, points).map(|()| true),
        [b'[', inside @ .., b']'] => points_from_text(inside, points).map(|()| false),
        _ => Err(NOT_POINTS),
    }
}

/// Parses a polygon's text into its points, in place of what `points` held.
fn polygon_from_text(cell: &[u8], points: &mut Vec<[f64; 2]>) -> Result<(), CellError> {
    points.clear();
    match cell {
        [b'(', inside @ .., b')'] => points_from_text(inside, points),
        _ => Err(NOT_POINTS),
    }
}

/// At least one point, with commas between them.
fn points_from_text(inside: &[u8], points: &mut Vec<[f64; 2]>) -> Result<(), CellError> {
    let mut rest = inside;
    loop {
        let (x, after) = split_number(rest.strip_prefix(b"(").ok_or(NOT_POINTS)?)?;
        let (y, after) = split_number(after.strip_prefix(b",").ok_or(NOT_POINTS)?)?;
        points.push([x, y]);
        rest = match after {
            b")" => return Ok(()),
            [b')', b',', next @ ..] => next,
            _ => return Err(NOT_POINTS),
        };
    }
}

/// Parses a binary path into its points, in place of what `points` held. Returns whether the path is closed.
fn path_from_binary(cell: &[u8], points: &mut Vec<[f64; 2]>) -> Result<bool, CellError> {
    points.clear();
    let (closed, words) = path_words(cell)?;
    points.extend(words.iter().map(point_from_words));
    Ok(closed)
}

/// Parses a binary polygon into its points, in place of what `points` held.
fn polygon_from_binary(cell: &[u8], points: &mut Vec<[f64; 2]>) -> Result<(), CellError> {
    points.clear();
    points.extend(polygon_words(cell)?.iter().map(point_from_words));
    Ok(())
}

/// Appends the text of a binary path.
fn path_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    let (closed, words) = path_words(cell)?;
    let [open, close] = if closed { *b"()" } else { *b"[]" };
    out.push(open);
    write_points(words, out)?;
    out.push(close);
    Ok(())
}

/// Appends the text of a binary polygon.
fn polygon_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    let words = polygon_words(cell)?;
    out.push(b'(');
    write_points(words, out)?;
    out.push(b')');
    Ok(())
}

fn write_points(points: &[PointWords], out: &mut Vec<u8>) -> Result<(), CellError> {
    for (place, [x, y]) in points.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        out.push(b'(');
        f64_text_from_binary(x, out)?;
        out.push(b',');
        f64_text_from_binary(y, out)?;
        out.push(b')');
    }
    Ok(())
}

/// Whether a binary path is closed, and the numbers of its points.
fn path_words(cell: &[u8]) -> Result<(bool, &[PointWords]), CellError> {
    match cell {
        [closed @ 0..=1, polygon @ ..] => Ok((*closed == 1, polygon_words(polygon)?)),
        _ => Err(CellError::Malformed("whether the path is closed")),
    }
}

/// The numbers of the points of a binary polygon, which has at least one.
fn polygon_words(cell: &[u8]) -> Result<&[PointWords], CellError> {
    const EXPECTED: CellError = CellError::Malformed("a count of points and as many points");
    let (count, rest) = split_count(cell, 16).ok_or(EXPECTED)?;
    let (words, odd) = rest.as_chunks::<8>();
    let (points, half) = words.as_chunks::<2>();
    if count > 0 && points.len() == count && odd.is_empty() && half.is_empty() {
        Ok(points)
    } else {
        Err(EXPECTED)
    }
}

/// The two numbers of a binary point.
type PointWords = [[u8; 8]; 2];

fn point_from_words(words: &PointWords) -> [f64; 2] {
    words.map(f64::from_be_bytes)
}

/// The number in front, and what follows it.
fn split_number(rest: &[u8]) -> Result<(f64, &[u8]), CellError> {
    let end = |byte: &u8| matches!(byte, b',' | b')' | b'}' | b'>');
    let place = rest.iter().position(end).ok_or(NOT_A_SHAPE)?;
    let (number, after) = rest.split_at_checked(place).ok_or(NOT_A_SHAPE)?;
    Ok((f64_from_text(number)?, after))
}

const NOT_A_SHAPE: CellError = CellError::Malformed("the numbers of a geometric type");
const NOT_POINTS: CellError = CellError::Malformed("points between brackets");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use walrow_testkit::hex;

    use super::*;

    const SHAPES: [Shape; 5] = [
        Shape::Point,
        Shape::Lseg,
        Shape::Box,
        Shape::Line,
        Shape::Circle,
    ];

    /// The bits: equal NaNs have equal bits, and the two zeros differ.
    fn bits(numbers: &[f64]) -> Vec<u64> {
        numbers.iter().map(|number| number.to_bits()).collect()
    }

    fn shape_text(shape: Shape, cell: &[u8]) -> Result<Vec<u64>, CellError> {
        let mut numbers = vec![1.0];
        shape_from_text(shape, cell, &mut numbers).map(|()| bits(&numbers))
    }

    fn shape_binary(shape: Shape, cell: &[u8]) -> Result<Vec<u64>, CellError> {
        let mut numbers = vec![1.0];
        shape_from_binary(shape, cell, &mut numbers).map(|()| bits(&numbers))
    }

    fn shape_rendered(shape: Shape, cell: &[u8]) -> Result<String, CellError> {
        let mut out = Vec::new();
        shape_text_from_binary(shape, cell, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    type Points = (bool, Vec<u64>);

    fn path_text(cell: &[u8]) -> Result<Points, CellError> {
        let mut points = vec![[1.0; 2]];
        path_from_text(cell, &mut points).map(|closed| (closed, bits(points.as_flattened())))
    }

    fn path_binary(cell: &[u8]) -> Result<Points, CellError> {
        let mut points = vec![[1.0; 2]];
        path_from_binary(cell, &mut points).map(|closed| (closed, bits(points.as_flattened())))
    }

    fn path_rendered(cell: &[u8]) -> Result<String, CellError> {
        let mut out = Vec::new();
        path_text_from_binary(cell, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn polygon_text(cell: &[u8]) -> Result<Vec<u64>, CellError> {
        let mut points = vec![[1.0; 2]];
        polygon_from_text(cell, &mut points).map(|()| bits(points.as_flattened()))
    }

    fn polygon_binary(cell: &[u8]) -> Result<Vec<u64>, CellError> {
        let mut points = vec![[1.0; 2]];
        polygon_from_binary(cell, &mut points).map(|()| bits(points.as_flattened()))
    }

    fn polygon_rendered(cell: &[u8]) -> Result<String, CellError> {
        let mut out = Vec::new();
        polygon_text_from_binary(cell, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    // Each as PostgreSQL 18.4 writes and sends it: `select v::text, encode(point_send(v), 'hex')`.
    #[test]
    fn shapes_are_as_the_server_writes_and_sends_them() {
        for (shape, text, sent, numbers) in [
            (
                Shape::Point,
                "(1,2)",
                "3ff00000000000004000000000000000",
                &[1.0, 2.0][..],
            ),
            (
                Shape::Point,
                "(NaN,Infinity)",
                "7ff80000000000007ff0000000000000",
                &[f64::NAN, f64::INFINITY],
            ),
            (
                Shape::Point,
                "(-Infinity,-0)",
                "fff00000000000008000000000000000",
                &[f64::NEG_INFINITY, -0.0],
            ),
            (
                Shape::Point,
                "(1e+20,1e-05)",
                "4415af1d78b58c403ee4f8b588e368f1",
                &[1e20, 1e-5],
            ),
            (
                Shape::Point,
                "(1e+15,123456789012345)",
                "430c6bf52634000042dc12218377de40",
                &[1e15, 123_456_789_012_345.0],
            ),
            (
                Shape::Point,
                "(100000000000000,1e+16)",
                "42d6bcc41e9000004341c37937e08000",
                &[1e14, 1e16],
            ),
            (
                Shape::Point,
                "(0.0001,0.00012345)",
                "3f1a36e2eb1c432d3f202e4b6ce5dc68",
                &[1e-4, 1.2345e-4],
            ),
            (
                Shape::Point,
                "(0.1,0.30000000000000004)",
                "3fb999999999999a3fd3333333333334",
                &[0.1, 0.1 + 0.2],
            ),
            (
                Shape::Point,
                "(1.7976931348623157e+308,5e-324)",
                "7fefffffffffffff0000000000000001",
                &[f64::MAX, 5e-324],
            ),
            (
                Shape::Lseg,
                "[(NaN,2),(3,1e+100)]",
                "7ff80000000000004000000000000000400800000000000054b249ad2594c37d",
                &[f64::NAN, 2.0, 3.0, 1e100],
            ),
            (
                Shape::Box,
                "(3,4),(1,2)",
                "400800000000000040100000000000003ff00000000000004000000000000000",
                &[3.0, 4.0, 1.0, 2.0],
            ),
            (
                Shape::Box,
                "(NaN,4),(3,2)",
                "7ff8000000000000401000000000000040080000000000004000000000000000",
                &[f64::NAN, 4.0, 3.0, 2.0],
            ),
            (
                Shape::Line,
                "{1,-1,NaN}",
                "3ff0000000000000bff00000000000007ff8000000000000",
                &[1.0, -1.0, f64::NAN],
            ),
            (
                Shape::Line,
                "{-1,0,0}",
                "bff000000000000000000000000000000000000000000000",
                &[-1.0, 0.0, 0.0],
            ),
            (
                Shape::Circle,
                "<(1,2),3>",
                "3ff000000000000040000000000000004008000000000000",
                &[1.0, 2.0, 3.0],
            ),
            (
                Shape::Circle,
                "<(NaN,2),Infinity>",
                "7ff800000000000040000000000000007ff0000000000000",
                &[f64::NAN, 2.0, f64::INFINITY],
            ),
        ] {
            let sent = hex(sent);
            assert_eq!(
                shape_text(shape, text.as_bytes()),
                Ok(bits(numbers)),
                "{text}"
            );
            assert_eq!(shape_binary(shape, &sent), Ok(bits(numbers)), "{text}");
            assert_eq!(shape_rendered(shape, &sent), Ok(text.into()), "{text}");
        }
    }

    #[test]
    fn paths_and_polygons_are_as_the_server_writes_and_sends_them() {
        let (one, two) = (
            "3ff00000000000004000000000000000",
            "40080000000000004010000000000000",
        );
        let numbers = bits(&[1.0, 2.0, 3.0, 4.0]);
        for (text, sent, expected) in [
            (
                "[(1,2),(3,4)]",
                format!("0000000002{one}{two}"),
                (false, numbers.clone()),
            ),
            (
                "((1,2),(3,4))",
                format!("0100000002{one}{two}"),
                (true, numbers.clone()),
            ),
            (
                "((1,2))",
                format!("0100000001{one}"),
                (true, bits(&[1.0, 2.0])),
            ),
            (
                "[(1,2)]",
                format!("0000000001{one}"),
                (false, bits(&[1.0, 2.0])),
            ),
        ] {
            let sent = hex(&sent);
            assert_eq!(path_text(text.as_bytes()), Ok(expected.clone()), "{text}");
            assert_eq!(path_binary(&sent), Ok(expected), "{text}");
            assert_eq!(path_rendered(&sent), Ok(text.into()), "{text}");
        }
        let sent = hex(&format!("00000002{one}{two}"));
        assert_eq!(polygon_text(b"((1,2),(3,4))"), Ok(numbers.clone()));
        assert_eq!(polygon_binary(&sent), Ok(numbers));
        assert_eq!(polygon_rendered(&sent), Ok("((1,2),(3,4))".into()));
    }

    #[test]
    fn text_that_the_server_never_writes_is_refused() {
        for wrong in [
            "", "(", "()", "(1)", "(1,2", "1,2", "(1,2,3)", "(1,2)x", "(1, 2)", " (1,2)", "(,2)",
            "(1,)", "(1,2))", "(+1,2)", "(inf,2)", "(nan,2)", "[1,2]", "(1,2}", "((1,2))",
        ] {
            assert!(
                shape_text(Shape::Point, wrong.as_bytes()).is_err(),
                "{wrong}"
            );
        }
        for (shape, wrong) in [
            (Shape::Lseg, "(1,2),(3,4)"),
            (Shape::Lseg, "[(1,2),(3,4)"),
            (Shape::Lseg, "[(1,2)]"),
            (Shape::Lseg, "[(1,2),(3,4),(5,6)]"),
            (Shape::Box, "((1,2),(3,4))"),
            (Shape::Box, "(1,2)"),
            (Shape::Line, "{1,2}"),
            (Shape::Line, "{1,2,3,4}"),
            (Shape::Line, "(1,2,3)"),
            (Shape::Circle, "<(1,2)>"),
            (Shape::Circle, "((1,2),3)"),
            (Shape::Circle, "<(1,2),3"),
        ] {
            assert!(shape_text(shape, wrong.as_bytes()).is_err(), "{wrong}");
        }
        for wrong in [
            "",
            "(",
            "()",
            "[]",
            "(1,2)",
            "((1,2)]",
            "[(1,2))",
            "((1,2),)",
            "((1,2)(3,4))",
            "((1,2), (3,4))",
            "((1,2),(3))",
            "((1,2),(3,4,5))",
            "(((1,2)))",
            "((1,2)) ",
            "{(1,2)}",
            "(((1,2),(3,4)",
        ] {
            assert!(path_text(wrong.as_bytes()).is_err(), "{wrong}");
            assert!(polygon_text(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(polygon_text(b"[(1,2)]").is_err());
    }

    #[test]
    fn wrong_binary_is_refused() {
        for shape in SHAPES {
            let length = shape.names().len() * 8;
            let cell = vec![0; length + 1];
            assert_eq!(shape.marks().len(), shape.names().len() + 1);
            for end in 0..=cell.len() {
                assert_eq!(shape_binary(shape, &cell[..end]).is_ok(), end == length);
                assert_eq!(shape_rendered(shape, &cell[..end]).is_ok(), end == length);
            }
        }
        let mut path = vec![1, 0, 0, 0, 2];
        path.resize(5 + 32, 0);
        assert!(path_binary(&path).is_ok());
        for end in 0..path.len() {
            assert!(path_binary(&path[..end]).is_err(), "{end}");
            assert!(path_rendered(&path[..end]).is_err(), "{end}");
            assert!(polygon_binary(path[1..].get(..end).unwrap_or_default()).is_err() || end == 36);
        }
        for more in 1..20 {
            let longer = [&path[..], &vec![0; more]].concat();
            assert!(path_binary(&longer).is_err(), "{more}");
            assert!(polygon_binary(&longer[1..]).is_err(), "{more}");
        }
        path[0] = 2;
        assert!(path_binary(&path).is_err());
        for count in [[0; 4], [0xff; 4], [0x7f, 0xff, 0xff, 0xff], [0, 0, 0, 3]] {
            path[..5].copy_from_slice(&[1, count[0], count[1], count[2], count[3]]);
            assert!(path_binary(&path).is_err(), "{count:?}");
        }
        assert!(path_binary(&[1, 0, 0, 0, 0]).is_err());
        assert!(polygon_binary(&[0; 4]).is_err());
    }

    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![
            // Text has only one NaN.
            any::<u64>().prop_map(|bits| match f64::from_bits(bits) {
                value if value.is_nan() => f64::NAN.to_bits(),
                _ => bits,
            }),
            (-1000..1000_i16).prop_map(|number| f64::from(number).to_bits()),
        ]
    }

    proptest! {
        #[test]
        fn both_forms_give_the_same_shape(numbers in proptest::collection::vec(number(), 4)) {
            for shape in SHAPES {
                let numbers = &numbers[..shape.names().len()];
                let sent: Vec<u8> = numbers.iter().flat_map(|bits| bits.to_be_bytes()).collect();
                prop_assert_eq!(shape_binary(shape, &sent).unwrap(), numbers);
                let written = shape_rendered(shape, &sent).unwrap();
                prop_assert_eq!(shape_text(shape, written.as_bytes()).unwrap(), numbers);
            }
        }

        #[test]
        fn both_forms_give_the_same_points(
            points in proptest::collection::vec([number(), number()], 1..6),
            closed: bool,
        ) {
            let mut sent = vec![u8::from(closed), 0, 0, 0, u8::try_from(points.len()).unwrap()];
            let points = points.as_flattened();
            sent.extend(points.iter().flat_map(|bits| bits.to_be_bytes()));
            let expected = Ok((closed, points.to_vec()));
            prop_assert_eq!(&path_binary(&sent), &expected);
            prop_assert_eq!(&path_text(path_rendered(&sent).unwrap().as_bytes()), &expected);
            prop_assert_eq!(polygon_binary(&sent[1..]).unwrap(), points);
            let written = polygon_rendered(&sent[1..]).unwrap();
            prop_assert_eq!(polygon_text(written.as_bytes()).unwrap(), points);
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            cell in proptest::collection::vec(any::<u8>(), 0..40),
            near in "[\\[(<{]{0,2}[0-9,().e+-]{0,16}[\\])>}]{0,2}",
            count in 0..4_u8,
        ) {
            let headed = [&[1, 0, 0, 0, count], &cell[..]].concat();
            for cell in [&cell[..], near.as_bytes(), &headed, &headed[1..]] {
                for shape in SHAPES {
                    let _ = (shape_text(shape, cell), shape_binary(shape, cell));
                    let _ = shape_rendered(shape, cell);
                }
                let _ = (path_text(cell), path_binary(cell), path_rendered(cell));
                let _ = (polygon_text(cell), polygon_binary(cell), polygon_rendered(cell));
            }
        }
    }
}
