//! The names of Arrow types, as errors print them, and as the option `types` of Python and the
//! command line takes them.

use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};
use std::fmt;
use std::sync::Arc;

/// Prints an Arrow type in a form that [`parse_arrow_type`] reads: `int64`, `list<string>`,
/// `timestamp[us, UTC]`.
///
/// ```
/// use walrow_arrow::{ArrowTypeName, parse_arrow_type};
///
/// let data_type = parse_arrow_type("list<decimal128(38, 9)>").unwrap();
/// assert_eq!(ArrowTypeName(&data_type).to_string(), "list<decimal128(38, 9)>");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ArrowTypeName<'a>(pub &'a DataType);

impl fmt::Display for ArrowTypeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            DataType::Boolean => f.write_str("bool"),
            DataType::Int8 => f.write_str("int8"),
            DataType::Int16 => f.write_str("int16"),
            DataType::Int32 => f.write_str("int32"),
            DataType::Int64 => f.write_str("int64"),
            DataType::UInt8 => f.write_str("uint8"),
            DataType::UInt16 => f.write_str("uint16"),
            DataType::UInt32 => f.write_str("uint32"),
            DataType::UInt64 => f.write_str("uint64"),
            DataType::Float16 => f.write_str("float16"),
            DataType::Float32 => f.write_str("float32"),
            DataType::Float64 => f.write_str("float64"),
            DataType::Utf8 => f.write_str("string"),
            DataType::LargeUtf8 => f.write_str("large_string"),
            DataType::Utf8View => f.write_str("string_view"),
            DataType::Binary => f.write_str("binary"),
            DataType::LargeBinary => f.write_str("large_binary"),
            DataType::BinaryView => f.write_str("binary_view"),
            DataType::FixedSizeBinary(size) => write!(f, "fixed_size_binary[{size}]"),
            DataType::Date32 => f.write_str("date32"),
            DataType::Date64 => f.write_str("date64"),
            DataType::Time32(unit) => write!(f, "time32[{}]", unit_name(*unit)),
            DataType::Time64(unit) => write!(f, "time64[{}]", unit_name(*unit)),
            DataType::Timestamp(unit, None) => write!(f, "timestamp[{}]", unit_name(*unit)),
            DataType::Timestamp(unit, Some(zone)) => {
                write!(f, "timestamp[{}, {zone}]", unit_name(*unit))
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                f.write_str("month_day_nano_interval")
            }
            DataType::Decimal128(precision, scale) => write!(f, "decimal128({precision}, {scale})"),
            DataType::Decimal256(precision, scale) => write!(f, "decimal256({precision}, {scale})"),
            DataType::List(item) => write!(f, "list<{}>", Item(item)),
            DataType::LargeList(item) => write!(f, "large_list<{}>", Item(item)),
            DataType::FixedSizeList(item, size) => {
                write!(f, "fixed_size_list<{}>[{size}]", Item(item))
            }
            DataType::Struct(fields) => {
                f.write_str("struct<")?;
                for (place, field) in fields.iter().enumerate() {
                    let comma = if place == 0 { "" } else { ", " };
                    write!(f, "{comma}{}: {}", field.name(), Item(field))?;
                }
                f.write_str(">")
            }
            map_type if *map_type == map() => f.write_str("map<string, string>"),
            dictionary_type if *dictionary_type == dictionary() => f.write_str("dictionary"),
            other => other.fmt(f),
        }
    }
}

/// The type of a field within another type.
struct Item<'a>(&'a Field);

impl fmt::Display for Item<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let null = if self.0.is_nullable() {
            ""
        } else {
            " not null"
        };
        write!(f, "{}{null}", ArrowTypeName(self.0.data_type()))
    }
}

const fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// The types that columns can have, as [`parse_arrow_type`] takes them.
pub const ARROW_TYPE_NAMES: &str = "string, large_string, string_view, dictionary, binary, large_binary, \
    binary_view, bool, int16, int32, int64, uint32, uint64, float32, float64, date32, \
    decimal128(p, s), decimal256(p, s), time64[us], time64[ns], timestamp[us], timestamp[us, UTC], \
    month_day_nano_interval, uuid, list<...>, large_list<...>, fixed_size_list<float32>[n], \
    struct<name: ..., ...>, map<string, string>";

/// The maximum depth of types within types, as in a catalog. The parser is recursive.
pub const MAX_TYPE_DEPTH: usize = 64;

/// Parses the name of an Arrow type: as pyarrow writes it (`list<item: int32>`, `timestamp[us,
/// tz=UTC]`), or as arrow-rs does (`List(Int32)`, `Utf8`). Returns `None` for other texts.
pub fn parse_arrow_type(text: &str) -> Option<DataType> {
    if is_deep(text) {
        return None;
    }
    parse(text).or_else(|| text.trim().parse().ok())
}

/// Whether types are nested deeper than [`MAX_TYPE_DEPTH`].
fn is_deep(text: &str) -> bool {
    let mut depth = 0_usize;
    text.bytes().any(|byte| {
        match byte {
            b'<' | b'(' => depth = depth.saturating_add(1),
            b'>' | b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > MAX_TYPE_DEPTH
    })
}

fn parse(text: &str) -> Option<DataType> {
    let text = text.trim();
    Some(match text {
        "string" | "utf8" => DataType::Utf8,
        "large_string" | "large_utf8" => DataType::LargeUtf8,
        "string_view" | "utf8_view" => DataType::Utf8View,
        "dictionary" => dictionary(),
        "binary" => DataType::Binary,
        "large_binary" => DataType::LargeBinary,
        "binary_view" => DataType::BinaryView,
        "bool" => DataType::Boolean,
        "int16" => DataType::Int16,
        "int32" => DataType::Int32,
        "int64" => DataType::Int64,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "month_day_nano_interval" => DataType::Interval(IntervalUnit::MonthDayNano),
        "float16" | "halffloat" => DataType::Float16,
        "float32" | "float" => DataType::Float32,
        "float64" | "double" => DataType::Float64,
        "date32" | "date32[day]" => DataType::Date32,
        "time64[us]" => DataType::Time64(TimeUnit::Microsecond),
        "time64[ns]" => DataType::Time64(TimeUnit::Nanosecond),
        "timestamp[us]" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "uuid" | "fixed_size_binary[16]" => DataType::FixedSizeBinary(16),
        "map<string, string>" => map(),
        _ => return parse_parametric(text),
    })
}

fn parse_parametric(text: &str) -> Option<DataType> {
    if let Some(zone) = inside(text, "timestamp[us,", "]") {
        let zone = zone.strip_prefix("tz=").unwrap_or(zone);
        return Some(DataType::Timestamp(
            TimeUnit::Microsecond,
            Some(zone.into()),
        ));
    }
    let digits = |digits: &str| {
        let (precision, scale) = digits.split_once(',')?;
        Some((precision.trim().parse().ok()?, scale.trim().parse().ok()?))
    };
    if let Some(text) = inside(text, "decimal128(", ")") {
        let (precision, scale) = digits(text)?;
        return Some(DataType::Decimal128(precision, scale));
    }
    if let Some(text) = inside(text, "decimal256(", ")") {
        let (precision, scale) = digits(text)?;
        return Some(DataType::Decimal256(precision, scale));
    }
    if inside(text, "dictionary<values=string, indices=int32", ">").is_some() {
        return Some(dictionary());
    }
    if let Some(fields) = inside(text, "struct<", ">") {
        let fields = split_fields(fields)?.into_iter().map(|field| {
            let (name, data_type) = field.split_once(':')?;
            Some(Field::new(name.trim(), parse(data_type)?, true))
        });
        return Some(DataType::Struct(fields.collect::<Option<_>>()?));
    }
    if let Some((item, size)) =
        inside(text, "fixed_size_list<", "]").and_then(|inside| inside.rsplit_once(">["))
    {
        let item = item_type(item);
        let item = Field::new_list_field(parse(item)?, true);
        return Some(DataType::FixedSizeList(Arc::new(item), size.parse().ok()?));
    }
    let (item, large) = match inside(text, "large_list<", ">") {
        Some(item) => (item, true),
        None => (inside(text, "list<", ">")?, false),
    };
    let item = item_type(item);
    let item = Arc::new(Field::new_list_field(parse(item)?, true));
    Some(if large {
        DataType::LargeList(item)
    } else {
        DataType::List(item)
    })
}

/// The type of a list's item, without the name that pyarrow and Spark write.
fn item_type(item: &str) -> &str {
    let names = ["item: ", "element: "];
    let unnamed = names.iter().find_map(|name| item.strip_prefix(name));
    unnamed.unwrap_or(item)
}

fn map() -> DataType {
    let key = Field::new("key", DataType::Utf8, false);
    let pair = vec![key, Field::new("value", DataType::Utf8, true)];
    let entries = Field::new("entries", DataType::Struct(pair.into()), false);
    DataType::Map(Arc::new(entries), false)
}

fn dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Splits at commas outside brackets.
fn split_fields(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' => depth = depth.saturating_add(1),
            b'>' | b')' | b']' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                parts.push(text.get(start..place)?);
                start = place.saturating_add(1);
            }
            _ => {}
        }
    }
    parts.push(text.get(start..)?);
    Some(parts)
}

fn inside<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(text.strip_prefix(before)?.strip_suffix(after)?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_and_printed() {
        let examples = ARROW_TYPE_NAMES
            .replace("(p, s)", "(38;9)")
            .replace("[us, UTC]", "[us;UTC]")
            .replace("[n]", "[3]")
            .replace(
                "struct<name: ..., ...>",
                "struct<x: float64;y: list<string>>",
            )
            .replace("list<...>", "list<int32>")
            .replace("map<string, string>", "map<string;string>");
        for text in examples.split(", ") {
            let text = text.replace(';', ", ");
            let data_type = parse_arrow_type(&text).unwrap_or_else(|| panic!("{text}"));
            let printed = ArrowTypeName(&data_type).to_string();
            if text == "uuid" {
                assert_eq!(printed, "fixed_size_binary[16]");
            } else {
                assert_eq!(printed, text);
            }
            assert_eq!(parse_arrow_type(&printed), Some(data_type));
        }
    }

    #[test]
    fn other_libraries_spellings_are_read() {
        for (text, expected) in [
            ("Utf8", "string"),
            ("Int64", "int64"),
            ("Boolean", "bool"),
            ("List(Int32)", "list<int32>"),
            ("Timestamp(µs, \"UTC\")", "timestamp[us, UTC]"),
            ("timestamp[us, tz=UTC]", "timestamp[us, UTC]"),
            ("list<element: double>", "list<float64>"),
            (
                "dictionary<values=string, indices=int32, ordered=0>",
                "dictionary",
            ),
        ] {
            let data_type = parse_arrow_type(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(ArrowTypeName(&data_type).to_string(), expected);
        }
        for text in ["", "int", "list<", "List(", "decimal128(1)"] {
            assert_eq!(parse_arrow_type(text), None, "{text}");
        }
        for (open, close) in [("list<", ">"), ("List(", ")")] {
            let deep = format!("{}Int32{}", open.repeat(50_000), close.repeat(50_000));
            assert_eq!(parse_arrow_type(&deep), None);
        }
    }
}
