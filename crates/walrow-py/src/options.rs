//! Converts keyword options to a [`DecoderBuilder`].

use crate::catalog::Catalog;
use crate::errors;
use crate::export;
use arrow_schema::DataType;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyIterator, PyString, PyTuple};
use std::path::PathBuf;
use std::sync::Arc;
use walrow::stream::End;
use walrow::wire::Timestamp;
use walrow::{
    ARROW_TYPE_NAMES, Decoder, DecoderBuilder, FileSpool, Framing, Lsn, MetadataColumn,
    OnMissingTable, OnUnfinished, OnUnrepresentable, Profile, SessionSettings, SideTable,
    TableName,
};

/// A default value, as Python shows it.
enum Default {
    None,
    False,
    Empty,
    Text(&'static str),
    Bytes(i64),
}

impl Default {
    fn to_object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Self::None => py.None().into_bound(py),
            Self::False => false.into_pyobject(py)?.to_owned().into_any(),
            Self::Empty => PyTuple::empty(py).into_any(),
            Self::Text(text) => PyString::new(py, text).into_any(),
            Self::Bytes(number) => number.into_pyobject(py)?.into_any(),
        })
    }
}

/// All options in the order of signatures, with their defaults. `walrow.typing.Options` has their
/// types, and [`Options::set`] reads them.
const OPTIONS: &[(&str, Default)] = &[
    ("table", Default::None),
    ("tables", Default::None),
    ("schema", Default::None),
    ("columns", Default::None),
    ("framing", Default::None),
    ("profile", Default::Text("arrow")),
    ("types", Default::None),
    ("unrepresentable", Default::Text("error")),
    ("catalog", Default::None),
    ("session", Default::None),
    ("trim_bpchar", Default::False),
    ("metadata", Default::None),
    ("metadata_prefix", Default::Text("_")),
    ("batch_rows", Default::Bytes(16_384)),
    ("batch_bytes", Default::Bytes(32 << 20)),
    ("batch_memory", Default::Bytes(128 << 20)),
    ("side_tables", Default::Empty),
    ("envelope", Default::False),
    ("start", Default::None),
    ("end", Default::None),
    ("late_start", Default::False),
    ("unfinished", Default::Text("error")),
    ("missing_table", Default::Text("error")),
    ("spool_memory", Default::Bytes(64 << 20)),
    ("spool_directory", Default::None),
    ("message_limit", Default::None),
];

/// The options of `read` and `Decoder` with their defaults, in the order of signatures.
pub(crate) fn defaults(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, default) in OPTIONS {
        dict.set_item(name, default.to_object(py)?)?;
    }
    Ok(dict)
}

/// The options of `read` and `Decoder`.
pub(crate) struct Options {
    pub(crate) builder: DecoderBuilder,
    /// `None` if the source knows it.
    pub(crate) framing: Option<Framing>,
}

impl Options {
    pub(crate) fn new(py: Python<'_>, given: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut this = Self {
            builder: DecoderBuilder::new(),
            framing: None,
        };
        // Use the defaults that signatures show.
        let options = defaults(py)?;
        for (name, value) in given.into_iter().flatten() {
            if !options.contains(&name)? {
                return Err(no_option(&name, &options)?);
            }
            options.set_item(name, value)?;
        }
        let prefix: String = match options.get_item("metadata_prefix")? {
            Some(prefix) => word(&prefix, "metadata_prefix")?,
            None => String::new(),
        };
        for (name, value) in options {
            let name: String = name.extract()?;
            this.set(&name, &value, &prefix)?;
        }
        Ok(this)
    }

    pub(crate) fn decoder(self) -> PyResult<Decoder> {
        self.builder.build().map_err(|error| errors::raise(&error))
    }

    fn set(&mut self, name: &str, value: &Bound<'_, PyAny>, prefix: &str) -> PyResult<()> {
        let builder = std::mem::take(&mut self.builder);
        let none = value.is_none();
        self.builder = match name {
            "table" | "tables" | "schema" | "columns" | "framing" | "types" | "catalog"
            | "session" | "metadata" | "start" | "end" | "spool_directory" | "message_limit"
                if none =>
            {
                builder
            }
            "table" => builder.with_table(table(value, name)?),
            "tables" => builder.with_tables(tables(value, name)?),
            "schema" => builder.with_schema(Arc::new(export::import_schema(name, value)?)),
            "columns" => builder.with_columns(columns(value)?),
            "framing" => {
                let framing = framing(value.py(), &word(value, name)?)?;
                self.framing = Some(framing);
                builder.with_framing(framing)
            }
            "profile" => builder.with_profile(match word(value, name)?.as_str() {
                "arrow" => Profile::Arrow,
                "spark" => Profile::Spark,
                "text" => Profile::Text,
                other => {
                    let text = format!("profile must be arrow, spark or text, not {other:?}");
                    return Err(errors::option_error(value.py(), &text));
                }
            }),
            "types" => {
                let mut builder = builder;
                for item in pairs(value, name)? {
                    let (key, data_type): (String, Bound<'_, PyAny>) = item?.extract()?;
                    let data_type = arrow_type(&key, &data_type)?;
                    builder = builder.with_type(key, data_type);
                }
                builder
            }
            "unrepresentable" => unrepresentable(builder, value)?,
            "catalog" => builder.with_catalog(Catalog::of(value)?),
            "session" => builder.with_session(session(value)?),
            "trim_bpchar" => builder.with_trim_bpchar(flag(value, name)?),
            "metadata" => builder.with_metadata(metadata(value, prefix)?),
            "metadata_prefix" => builder.with_metadata_prefix(prefix),
            "batch_rows" => builder.with_batch_rows(size(value, name)?),
            "batch_bytes" => builder.with_batch_bytes(size(value, name)?),
            "batch_memory" => builder.with_batch_memory(size(value, name)?),
            "side_tables" => builder.with_side_tables(side_tables(value)?),
            "envelope" => builder.with_envelope(flag(value, name)?),
            "start" => builder.with_start(read_lsn(value, name)?),
            "end" => builder.with_end(end(value, name)?),
            "late_start" => builder.with_late_start(flag(value, name)?),
            "unfinished" | "missing_table" => {
                let ignored = ignored(value.py(), name, &word(value, name)?)?;
                match (name, ignored) {
                    ("unfinished", true) => builder.with_unfinished(OnUnfinished::Ignore),
                    ("unfinished", false) => builder.with_unfinished(OnUnfinished::Error),
                    (_, true) => builder.with_missing_table(OnMissingTable::Ignore),
                    (_, false) => builder.with_missing_table(OnMissingTable::Error),
                }
            }
            "spool_memory" => {
                builder.with_spool_memory(usize::try_from(integer(value, name)?).map_err(|_| {
                    errors::option_error(value.py(), "spool_memory must not be negative")
                })?)
            }
            "spool_directory" => {
                let directory: PathBuf = value.extract()?;
                builder.with_spool(Arc::new(FileSpool::new(directory)))
            }
            "message_limit" => builder.with_message_limit(size(value, name)?),
            other => {
                let text = format!("internal error: option {other} is not read");
                return Err(PyTypeError::new_err(text));
            }
        };
        Ok(())
    }
}

/// The error for an unknown option, with the option that it may mean.
#[cold]
fn no_option(name: &Bound<'_, PyAny>, options: &Bound<'_, PyDict>) -> PyResult<PyErr> {
    let difflib = name.py().import("difflib")?;
    let close: Vec<String> = difflib
        .call_method1("get_close_matches", (name.str()?, options.keys(), 1))?
        .extract()?;
    let hint = match close.first() {
        Some(option) => format!("did you mean {option}?"),
        None => "see help(walrow.read)".to_owned(),
    };
    let text = format!("{name} is not an option; {hint}");
    Ok(PyTypeError::new_err(text))
}

/// The framing of a source, which it knows after it returned the first chunk.
pub(crate) fn framing_of(source: &Bound<'_, PyAny>) -> PyResult<Framing> {
    match source.getattr_opt("framing")? {
        Some(name) if !name.is_none() => framing(source.py(), &word(&name, "framing")?),
        _ => Ok(Framing::Wire),
    }
}

/// The framing with this name.
pub(crate) fn framing(py: Python<'_>, name: &str) -> PyResult<Framing> {
    Ok(match name {
        "wire" => Framing::Wire,
        "copydata" => Framing::CopyData,
        "message" => Framing::Message,
        "recvlogical" => Framing::Recvlogical,
        other => {
            let text =
                format!("framing must be wire, copydata, message or recvlogical, not {other:?}");
            return Err(errors::option_error(py, &text));
        }
    })
}

pub(crate) fn table(value: &Bound<'_, PyAny>, option: &str) -> PyResult<TableName> {
    if let Ok(name) = value.extract::<String>() {
        return Ok(TableName::Text(name));
    }
    if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
        let oid: Result<u32, _> = value.extract();
        let text = format!("{option}: an OID has 32 bits");
        let no_oid = |_| errors::option_error(value.py(), &text);
        return oid.map(TableName::Oid).map_err(no_oid);
    }
    let pair: Result<(String, String), _> = value.extract();
    pair.map(|(schema, name)| TableName::Qualified(schema, name))
        .map_err(|_| {
            let one = match option {
                "tables" => "tables must be a sequence: each",
                option => option,
            };
            let text = format!("{one} must be a name, a pair of schema and name, or an OID");
            PyTypeError::new_err(text)
        })
}

pub(crate) fn tables(value: &Bound<'_, PyAny>, option: &str) -> PyResult<Vec<TableName>> {
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyInt>() {
        let text = "tables must be a sequence of tables, not one; for one, use table";
        return Err(PyTypeError::new_err(text));
    }
    let names = value.try_iter()?;
    names.map(|name| table(&name?, option)).collect()
}

fn unrepresentable(
    mut builder: DecoderBuilder,
    value: &Bound<'_, PyAny>,
) -> PyResult<DecoderBuilder> {
    if value.is_instance_of::<PyString>() {
        return Ok(builder.with_unrepresentable(policy(value)?));
    }
    for item in pairs(value, "unrepresentable")? {
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

fn columns(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    names(value, "columns")
}

/// A sequence of names.
fn names(value: &Bound<'_, PyAny>, option: &str) -> PyResult<Vec<String>> {
    let wrong = |what: &str| {
        PyTypeError::new_err(format!("{option} must be a sequence of names, not {what}"))
    };
    if value.is_instance_of::<PyString>() {
        return Err(wrong("one string"));
    }
    let type_of = |value: &Bound<'_, PyAny>| PyResult::Ok(value.get_type().name()?.to_string());
    let Ok(items) = value.try_iter() else {
        return Err(wrong(&type_of(value)?));
    };
    items
        .map(|item| {
            let item = item?;
            match item.extract() {
                Ok(name) => Ok(name),
                Err(_) => Err(wrong(&format!("of {}", type_of(&item)?))),
            }
        })
        .collect()
}

fn metadata(value: &Bound<'_, PyAny>, prefix: &str) -> PyResult<Vec<MetadataColumn>> {
    let mut columns = Vec::new();
    for name in names(value, "metadata")? {
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
    let mut tables = Vec::new();
    for name in names(value, "side_tables")? {
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

/// The items of a mapping.
fn pairs<'py>(value: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyIterator>> {
    if !value.hasattr("items")? {
        let found = value.get_type().name()?;
        let text = format!("{name} must be a dictionary, not {found}");
        return Err(PyTypeError::new_err(text));
    }
    value.call_method0("items")?.try_iter()
}

fn session(value: &Bound<'_, PyAny>) -> PyResult<SessionSettings> {
    let (mut session, mut known) = (SessionSettings::default(), Vec::new());
    for item in pairs(value, "session")? {
        let (setting, text): (String, String) = item?.extract()?;
        let lower = setting.to_ascii_lowercase();
        if known.contains(&lower) {
            let text = format!("session: {setting} is set twice");
            return Err(errors::option_error(value.py(), &text));
        }
        known.push(lower);
        let set = session.set(&setting, &text);
        set.map_err(|error| errors::raise(&error.into()))?;
    }
    Ok(session)
}

/// Whether the policy is "ignore".
pub(crate) fn ignored(py: Python<'_>, name: &str, policy: &str) -> PyResult<bool> {
    match policy {
        "error" => Ok(false),
        "ignore" => Ok(true),
        other => {
            let text = format!("{name} must be error or ignore, not {other:?}");
            Err(errors::option_error(py, &text))
        }
    }
}

fn flag(value: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    value
        .extract()
        .map_err(|_| PyTypeError::new_err(format!("{name} must be True or False")))
}

fn integer(value: &Bound<'_, PyAny>, name: &str) -> PyResult<i64> {
    value
        .extract()
        .map_err(|_| PyTypeError::new_err(format!("{name} must be an integer")))
}

/// An LSN, or a time with a time zone.
pub(crate) fn end(value: &Bound<'_, PyAny>, name: &str) -> PyResult<End> {
    let datetime = value.py().import("datetime")?;
    let class = datetime.getattr("datetime")?;
    if !value.is_instance(&class)? {
        let py = value.py();
        return read_lsn(value, name).map(End::Lsn).map_err(|error| {
            let text = format!(
                "{name} must be an LSN, such as \"16/B374D848\", or a datetime with a time zone"
            );
            if error.is_instance_of::<PyTypeError>(py) {
                PyTypeError::new_err(text)
            } else if value.is_instance_of::<PyString>() {
                errors::option_error(py, &text)
            } else {
                error
            }
        });
    }
    if value.getattr("tzinfo")?.is_none() {
        let text = format!(
            "{name}: the time needs a time zone: datetime.now(UTC), or .replace(tzinfo=UTC)"
        );
        return Err(errors::option_error(value.py(), &text));
    }
    let utc = datetime.getattr("UTC")?;
    let epoch = class.call1((2000, 1, 1, 0, 0, 0, 0, utc))?;
    let unit = datetime.getattr("timedelta")?.call1((0, 0, 1))?;
    let micros = value.sub(epoch)?.floor_div(unit)?.extract()?;
    Ok(End::Time(Timestamp(micros)))
}

/// Reads the LSN of an option or a tuple: an `Lsn`, another integer, or a text.
pub(crate) fn read_lsn(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Lsn> {
    let wrong_type = || {
        PyTypeError::new_err(format!(
            "{name} must be an LSN: a walrow.Lsn, an int, or a text such as \"16/B374D848\""
        ))
    };
    if value.is_instance_of::<PyBool>() {
        return Err(wrong_type());
    }
    if let Ok(number) = value.extract::<u64>() {
        return Ok(Lsn(number));
    }
    let refuse = |reason: &str| errors::option_error(value.py(), format!("{name}: {reason}"));
    if value.is_instance_of::<PyInt>() {
        return Err(refuse("an LSN is a number from 0 to 2**64 - 1"));
    }
    // A driver may have its own class of LSNs, which prints like PostgreSQL.
    match value.str()?.to_string().parse() {
        Ok(lsn) => Ok(lsn),
        Err::<_, walrow::wire::ParseLsnError>(error) if value.is_instance_of::<PyString>() => {
            Err(refuse(&error.to_string()))
        }
        Err(_) => Err(wrong_type()),
    }
}

/// Reads a size. Negative sizes become 0, which the builder rejects.
fn size(value: &Bound<'_, PyAny>, name: &str) -> PyResult<usize> {
    Ok(usize::try_from(integer(value, name)?).unwrap_or(0))
}

fn arrow_type(key: &str, value: &Bound<'_, PyAny>) -> PyResult<DataType> {
    if let Ok(text) = value.extract::<String>() {
        return walrow::parse_arrow_type(&text).ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            let text = format!(
                "types: {shown:?} for {key:?} is not an Arrow type that columns can have: \
                 {ARROW_TYPE_NAMES}"
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
