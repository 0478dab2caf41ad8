//! Keyword options into a [`DecoderBuilder`].

use crate::catalog::Catalog;
use crate::engine;
use crate::errors;
use crate::export;
use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::path::PathBuf;
use std::sync::Arc;
use walrow::{
    Decoder, DecoderBuilder, FileSpool, Framing, MetadataColumn, OnUnrepresentable, Profile,
    SessionSettings, SideTable, TableName,
};

/// The options of `read` and `Decoder`.
pub(crate) struct Options {
    pub(crate) builder: DecoderBuilder,
    pub(crate) framing: Framing,
}

impl Options {
    pub(crate) fn new(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut this = Self {
            builder: DecoderBuilder::new().with_spool(Arc::new(FileSpool::default())),
            framing: Framing::Wire,
        };
        let Some(options) = options else {
            return Ok(this);
        };
        let mut prefix = "_".to_owned();
        if let Some(value) = options.get_item("metadata_prefix")? {
            prefix = value.extract()?;
            this.builder = this.builder.with_metadata_prefix(&prefix);
        }
        for (name, value) in options.iter() {
            let name: String = name.extract()?;
            this.set(py, &name, &value, &prefix)?;
        }
        Ok(this)
    }

    pub(crate) fn decoder(self) -> PyResult<Decoder> {
        self.builder.build().map_err(|error| errors::raise(&error))
    }

    fn set(
        &mut self,
        py: Python<'_>,
        name: &str,
        value: &Bound<'_, PyAny>,
        prefix: &str,
    ) -> PyResult<()> {
        let builder = std::mem::take(&mut self.builder);
        let none = value.is_none();
        self.builder = match name {
            "metadata_prefix" => builder,
            "table" | "schema" | "types" | "catalog" | "metadata" | "start" | "spool_directory"
            | "message_limit" | "session"
                if none =>
            {
                builder
            }
            "table" => builder.with_table(table(value)?),
            "schema" => builder.with_schema(Arc::new(export::import_schema(value)?)),
            "framing" => {
                self.framing = framing(value)?;
                builder.with_framing(self.framing)
            }
            "profile" => builder.with_profile(match word(value, name)?.as_str() {
                "arrow" => Profile::Arrow,
                "spark" => Profile::Spark,
                "text" => Profile::Text,
                other => {
                    let text = format!("profile must be arrow, spark or text, not {other:?}");
                    return Err(errors::option_error(py, &text));
                }
            }),
            "types" => {
                let mut builder = builder;
                for item in value.call_method0("items")?.try_iter()? {
                    let (key, data_type): (String, Bound<'_, PyAny>) = item?.extract()?;
                    let data_type = arrow_type(&key, &data_type)?;
                    builder = builder.with_type(key, data_type);
                }
                builder
            }
            "unrepresentable" => unrepresentable(builder, value)?,
            "catalog" => {
                let catalog = value.cast::<Catalog>().map_err(|_| {
                    PyTypeError::new_err("catalog must be a walrow.Catalog; see Catalog.from_json")
                })?;
                builder.with_catalog(Arc::clone(&catalog.get().0))
            }
            "session" => {
                let (mut session, mut told) = (SessionSettings::default(), Vec::new());
                for item in value.call_method0("items")?.try_iter()? {
                    let (setting, value): (String, String) = item?.extract()?;
                    let lower = setting.to_ascii_lowercase();
                    if told.contains(&lower) {
                        let text = format!("session: {setting} is told twice");
                        return Err(errors::option_error(py, &text));
                    }
                    told.push(lower);
                    let set = session.set(&setting, &value);
                    set.map_err(|error| errors::raise(&error.into()))?;
                }
                builder.with_session(session)
            }
            "trim_bpchar" => builder.with_trim_bpchar(value.extract()?),
            "metadata" => builder.with_metadata(metadata(value, prefix)?),
            "batch_rows" => builder.with_batch_rows(size(value)?),
            "batch_bytes" => builder.with_batch_bytes(size(value)?),
            "batch_memory" => builder.with_batch_memory(size(value)?),
            "side_tables" => builder.with_side_tables(side_tables(value)?),
            "envelope" => builder.with_envelope(value.extract()?),
            "start" => builder.with_start(engine::lsn(value)?),
            "late_start" => builder.with_late_start(value.extract()?),
            "spool_memory" => builder.with_spool_memory(
                usize::try_from(value.extract::<i64>()?)
                    .map_err(|_| errors::option_error(py, "spool_memory must not be negative"))?,
            ),
            "spool_directory" => {
                let directory: PathBuf = value.extract()?;
                builder.with_spool(Arc::new(FileSpool::new(directory)))
            }
            "message_limit" => builder.with_message_limit(size(value)?),
            other => {
                let text = format!("got an unexpected keyword argument {other:?}");
                return Err(PyTypeError::new_err(text));
            }
        };
        Ok(())
    }
}

/// How the stream is handed over.
pub(crate) fn framing(value: &Bound<'_, PyAny>) -> PyResult<Framing> {
    Ok(match word(value, "framing")?.as_str() {
        "wire" => Framing::Wire,
        "copydata" => Framing::CopyData,
        "message" => Framing::Message,
        other => {
            let text = format!("framing must be wire, copydata or message, not {other:?}");
            return Err(errors::option_error(value.py(), &text));
        }
    })
}

pub(crate) fn table(value: &Bound<'_, PyAny>) -> PyResult<TableName> {
    if let Ok(name) = value.extract::<String>() {
        return Ok(TableName::Text(name));
    }
    let pair: Result<(String, String), _> = value.extract();
    pair.map(|(schema, name)| TableName::Qualified(schema, name))
        .map_err(|_| PyTypeError::new_err("table must be a name or a pair of schema and name"))
}

fn unrepresentable(
    mut builder: DecoderBuilder,
    value: &Bound<'_, PyAny>,
) -> PyResult<DecoderBuilder> {
    if value.is_instance_of::<PyString>() {
        return Ok(builder.with_unrepresentable(policy(value)?));
    }
    for item in value.call_method0("items")?.try_iter()? {
        let (key, value): (String, Bound<'_, PyAny>) = item?.extract()?;
        builder = match key.as_str() {
            "*" => builder.with_unrepresentable(policy(&value)?),
            _ => builder.with_column_unrepresentable(key, policy(&value)?),
        };
    }
    Ok(builder)
}

fn policy(value: &Bound<'_, PyAny>) -> PyResult<OnUnrepresentable> {
    Ok(match word(value, "unrepresentable")?.as_str() {
        "error" => OnUnrepresentable::Error,
        "null" => OnUnrepresentable::Null,
        "sentinel" => OnUnrepresentable::Sentinel,
        other => {
            let text = format!("unrepresentable must be error, null or sentinel, not {other:?}");
            return Err(errors::option_error(value.py(), &text));
        }
    })
}

fn metadata(value: &Bound<'_, PyAny>, prefix: &str) -> PyResult<Vec<MetadataColumn>> {
    if value.is_instance_of::<PyString>() {
        let text = "metadata must be a sequence of names, not one string";
        return Err(PyTypeError::new_err(text));
    }
    let mut columns = Vec::new();
    for name in value.try_iter()? {
        let name: String = name?.extract()?;
        let bare = name.strip_prefix(prefix).unwrap_or(&name);
        let column = MetadataColumn::from_name(bare).or_else(|| MetadataColumn::from_name(&name));
        columns.push(column.ok_or_else(|| {
            let known = MetadataColumn::ALL.map(MetadataColumn::name).join(", ");
            let text = format!("no metadata column {name:?}, only {known}");
            errors::option_error(value.py(), &text)
        })?);
    }
    Ok(columns)
}

fn side_tables(value: &Bound<'_, PyAny>) -> PyResult<Vec<SideTable>> {
    if value.is_instance_of::<PyString>() {
        let text = "side_tables must be a sequence of names, not one string";
        return Err(PyTypeError::new_err(text));
    }
    let mut tables = Vec::new();
    for name in value.try_iter()? {
        let name: String = name?.extract()?;
        tables.push(SideTable::from_name(&name).ok_or_else(|| {
            let known = SideTable::ALL.map(SideTable::name).join(", ");
            let text = format!("no side table {name:?}, only {known}");
            errors::option_error(value.py(), &text)
        })?);
    }
    Ok(tables)
}

fn word(value: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
    value
        .extract()
        .map_err(|_| PyTypeError::new_err(format!("{name} must be a string")))
}

/// A size; what is none is left to the builder to refuse.
fn size(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    Ok(usize::try_from(value.extract::<i64>()?).unwrap_or(0))
}

fn arrow_type(key: &str, value: &Bound<'_, PyAny>) -> PyResult<DataType> {
    if let Ok(text) = value.extract::<String>() {
        let parsed = if is_deep(&text) {
            None
        } else {
            parse_type(&text)
        };
        return parsed.ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            let text = format!(
                "types: {shown:?} for {key:?} is not an Arrow type that columns can have: string, \
                 large_string, string_view, dictionary, binary, large_binary, binary_view, bool, \
                 int16, int32, int64, uint32, uint64, float32, float64, date32, decimal128(p, s), \
                 decimal256(p, s), time64[us], time64[ns], timestamp[us], timestamp[us, UTC], \
                 month_day_nano_interval, uuid, list<...>, large_list<...>, \
                 fixed_size_list<float>[n], struct<name: ..., ...>, map<string, string>"
            );
            errors::option_error(value.py(), &text)
        });
    }
    if !value.hasattr("__arrow_c_schema__")? {
        let text = format!("types: {key:?} needs the name of an Arrow type, or an Arrow type");
        return Err(PyTypeError::new_err(text));
    }
    export::import_type(value)
}

/// Whether types lie in one another deeper than columns can be read.
fn is_deep(text: &str) -> bool {
    let mut depth = 0_usize;
    text.bytes().any(|byte| {
        match byte {
            b'<' => depth = depth.saturating_add(1),
            b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > export::DEEPEST
    })
}

/// A type as pyarrow writes it: `list<item: int32>`, `struct<x: double, y: double>`.
fn parse_type(text: &str) -> Option<DataType> {
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
    if text == "map<string, string>" {
        return Some(map());
    }
    if let Some(fields) = inside(text, "struct<", ">") {
        let fields = split_fields(fields)?.into_iter().map(|field| {
            let (name, data_type) = field.split_once(':')?;
            Some(Field::new(name.trim(), parse_type(data_type)?, true))
        });
        return Some(DataType::Struct(fields.collect::<Option<_>>()?));
    }
    if let Some((item, size)) =
        inside(text, "fixed_size_list<", "]").and_then(|inside| inside.rsplit_once(">["))
    {
        let item = item_type(item);
        let item = Field::new_list_field(parse_type(item)?, true);
        return Some(DataType::FixedSizeList(Arc::new(item), size.parse().ok()?));
    }
    let (item, large) = match inside(text, "large_list<", ">") {
        Some(item) => (item, true),
        None => (inside(text, "list<", ">")?, false),
    };
    let item = item_type(item);
    let item = Arc::new(Field::new_list_field(parse_type(item)?, true));
    Some(if large {
        DataType::LargeList(item)
    } else {
        DataType::List(item)
    })
}

/// A list's item without the name that pyarrow and Spark give it.
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

/// The parts between the commas that stand in no brackets.
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
