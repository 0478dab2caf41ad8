//! Converts keyword options to a [`DecoderBuilder`].

use crate::catalog::Catalog;
use crate::errors;
use crate::export;
use arrow_schema::{DataType, SchemaRef};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyIterator, PyString};
use std::path::PathBuf;
use std::sync::Arc;
use walrow::stream::{Encoding, End, Spool};
use walrow::wire::Timestamp;
use walrow::{
    ARROW_TYPE_NAMES, Decoder, DecoderBuilder, FileSpool, Framing, Lsn, MetadataColumn, OnGap,
    OnMissingTable, OnUnfinished, OnUnrepresentable, Profile, TableName, defaults as limits,
};

/// A default value, as Python shows it.
enum Default {
    None,
    False,
    Text(&'static str),
    Limit(usize),
}

impl Default {
    fn to_object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Self::None => py.None().into_bound(py),
            Self::False => false.into_pyobject(py)?.to_owned().into_any(),
            Self::Text(text) => PyString::new(py, text).into_any(),
            Self::Limit(number) => number.into_pyobject(py)?.into_any(),
        })
    }
}

/// Reads an option from its value and its name.
type Read = fn(&mut Options, &Bound<'_, PyAny>, &str) -> PyResult<()>;

/// The name of an option, its default, and what reads its value.
type Declared = (&'static str, Default, Read);

/// An option: its name, its default, what reads its value, and the builder's method.
macro_rules! option {
    ($name:ident: $kind:ident $(($value:expr))?, $read:path) => {
        (stringify!($name), Default::$kind $(($value))?, $read)
    };
    ($name:ident: $kind:ident $(($value:expr))?, $read:path => $with:ident) => {
        (stringify!($name), Default::$kind $(($value))?, |it, value, name| {
            it.set(DecoderBuilder::$with, $read(value, name)?)
        })
    };
}

/// The options of `read`, in the order of signatures. `walrow.typing.Options` has their types.
const OPTIONS: &[Declared] = &[
    option! { table: None, table => with_table },
    option! { tables: None, tables => with_tables },
    option! { schema: None, schema => with_schema },
    option! { columns: None, names => with_columns },
    option! { profile: Text("arrow"), profile => with_profile },
    option! { types: None, Options::read_types },
    option! { unrepresentable: Text("error"), Options::read_unrepresentable },
    option! { catalog: None, catalog => with_catalog },
    option! { session: None, session => with_encoding },
    option! { metadata: None, Options::read_metadata },
    option! { metadata_prefix: Text("_"), Options::read_metadata_prefix },
    option! { batch_rows: Limit(limits::BATCH_ROWS), size => with_batch_rows },
    option! { batch_bytes: Limit(limits::BATCH_BYTES), size => with_batch_bytes },
    option! { envelope: False, flag => with_envelope },
    option! { start: None, start => with_start },
    option! { end: None, end => with_end },
    option! { late_start: False, flag => with_late_start },
    option! { unfinished: Text("error"), unfinished => with_unfinished },
    option! { gaps: Text("error"), gaps => with_gaps },
    option! { missing_table: Text("error"), missing_table => with_missing_table },
    option! { spool_memory: Limit(limits::SPOOL_MEMORY), bytes => with_spool_memory },
    option! { spool_directory: None, spool => with_spool },
    option! { message_limit: None, size => with_message_limit },
];

/// The options that only walrow itself sets.
const OWN: &[Declared] = &[option! { _keys: None, names => with_keys }];

/// The options that a `Decoder` has besides.
const OF_DECODERS: &[Declared] = &[
    option! { framing: Text("wire"), Options::read_framing },
    option! { batch_memory: Limit(limits::BATCH_MEMORY), size => with_batch_memory },
    option! { trim_bpchar: False, flag => with_trim_bpchar },
];

/// The options of `read` with their defaults, in the order of signatures.
pub(crate) fn defaults(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    defaults_of(py, &[OPTIONS])
}

/// The options that a `Decoder` has besides, with their defaults.
pub(crate) fn decoder_defaults(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    defaults_of(py, &[OF_DECODERS])
}

fn defaults_of<'py>(py: Python<'py>, lists: &[&[Declared]]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, default, _) in lists.iter().copied().flatten() {
        dict.set_item(name, default.to_object(py)?)?;
    }
    Ok(dict)
}

/// The options of `read` and `Decoder`.
pub(crate) struct Options {
    pub(crate) builder: DecoderBuilder,
    /// The framing of a `Decoder`. The source of a `Reader` knows its own.
    pub(crate) framing: Framing,
    /// The names of metadata columns, until their prefix is read.
    metadata: Option<Vec<String>>,
}

impl Options {
    /// Reads the options of `read`.
    pub(crate) fn new(py: Python<'_>, given: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Self::of(&[OPTIONS, OWN], py, given)
    }

    /// Reads the options of a `Decoder`.
    pub(crate) fn of_decoder(py: Python<'_>, given: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Self::of(&[OPTIONS, OF_DECODERS, OWN], py, given)
    }

    fn of(
        lists: &[&[Declared]],
        py: Python<'_>,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut this = Self {
            builder: DecoderBuilder::new(),
            framing: Framing::Wire,
            metadata: None,
        };
        // Use the defaults that signatures show.
        let options = defaults_of(py, lists)?;
        for (name, value) in given.into_iter().flatten() {
            if !options.contains(&name)? {
                return Err(no_option(&name, &options)?);
            }
            options.set_item(name, value)?;
        }
        for (name, default, read) in lists.iter().copied().flatten() {
            match options.get_item(name)? {
                Some(value) if !(value.is_none() && matches!(default, Default::None)) => {
                    read(&mut this, &value, name)?;
                }
                _ => {}
            }
        }
        Ok(this)
    }

    pub(crate) fn decoder(self) -> PyResult<Decoder> {
        self.builder.build().map_err(|error| errors::raise(&error))
    }

    #[expect(clippy::unnecessary_wraps, reason = "what `Read` returns")]
    fn set<T>(
        &mut self,
        with: impl FnOnce(DecoderBuilder, T) -> DecoderBuilder,
        value: T,
    ) -> PyResult<()> {
        self.builder = with(std::mem::take(&mut self.builder), value);
        Ok(())
    }

    fn read_framing(&mut self, value: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
        let framing = framing(value.py(), &word(value, name)?)?;
        self.framing = framing;
        self.set(DecoderBuilder::with_framing, framing)
    }

    fn read_types(&mut self, value: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
        for item in pairs(value, name)? {
            let (key, data_type) = pair(&item?, name)?;
            let data_type = arrow_type(name, &key, &data_type)?;
            self.set(|it, data_type| it.with_type(key, data_type), data_type)?;
        }
        Ok(())
    }

    fn read_unrepresentable(&mut self, value: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
        let all = DecoderBuilder::with_unrepresentable;
        if value.is_instance_of::<PyString>() {
            return self.set(all, policy(value, name)?);
        }
        for item in pairs(value, name)? {
            let (key, value) = pair(&item?, name)?;
            let policy = policy(&value, name)?;
            match key.as_str() {
                "*" => self.set(all, policy)?,
                _ => self.set(
                    |it, policy| it.with_column_unrepresentable(key, policy),
                    policy,
                )?,
            }
        }
        Ok(())
    }

    fn read_metadata(&mut self, value: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
        self.metadata = Some(names(value, name)?);
        Ok(())
    }

    fn read_metadata_prefix(&mut self, value: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
        let prefix = word(value, name)?;
        if let Some(names) = self.metadata.take() {
            let columns = metadata(value.py(), &names, &prefix)?;
            self.set(DecoderBuilder::with_metadata, columns)?;
        }
        self.set(DecoderBuilder::with_metadata_prefix, prefix)
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
        if name.is_empty() {
            let text = format!("{option} is empty: name a table, such as \"public.orders\"");
            return Err(errors::option_error(value.py(), &text));
        }
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
            wrong_type(value, &text)
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

fn schema(value: &Bound<'_, PyAny>, name: &str) -> PyResult<SchemaRef> {
    export::import_schema(name, value).map(Arc::new)
}

fn catalog(value: &Bound<'_, PyAny>, _: &str) -> PyResult<Arc<walrow::Catalog>> {
    Catalog::of(value)
}

fn spool(value: &Bound<'_, PyAny>, _: &str) -> PyResult<Arc<dyn Spool>> {
    let directory: PathBuf = value.extract()?;
    Ok(Arc::new(FileSpool::new(directory)))
}

fn unfinished(value: &Bound<'_, PyAny>, name: &str) -> PyResult<OnUnfinished> {
    let ignored = ignored(value.py(), name, &word(value, name)?)?;
    Ok(if ignored {
        OnUnfinished::Ignore
    } else {
        OnUnfinished::Error
    })
}

fn gaps(value: &Bound<'_, PyAny>, name: &str) -> PyResult<OnGap> {
    match &*word(value, name)? {
        "error" => Ok(OnGap::Error),
        "cross" => Ok(OnGap::Cross),
        other => {
            let text = format!("{name} must be error or cross, not {other:?}");
            Err(errors::option_error(value.py(), &text))
        }
    }
}

fn missing_table(value: &Bound<'_, PyAny>, name: &str) -> PyResult<OnMissingTable> {
    let ignored = ignored(value.py(), name, &word(value, name)?)?;
    Ok(if ignored {
        OnMissingTable::Ignore
    } else {
        OnMissingTable::Error
    })
}

fn profile(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Profile> {
    Ok(match word(value, name)?.as_str() {
        "arrow" => Profile::Arrow,
        "spark" => Profile::Spark,
        "text" => Profile::Text,
        other => {
            let text = format!("{name} must be arrow, spark or text, not {other:?}");
            return Err(errors::option_error(value.py(), &text));
        }
    })
}

fn policy(value: &Bound<'_, PyAny>, name: &str) -> PyResult<OnUnrepresentable> {
    Ok(match word(value, name)?.as_str() {
        "error" => OnUnrepresentable::Error,
        "null" => OnUnrepresentable::Null,
        "sentinel" => OnUnrepresentable::Sentinel,
        other => {
            let text = format!("{name} must be error, null or sentinel, not {other:?}");
            return Err(errors::option_error(value.py(), &text));
        }
    })
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

fn metadata(py: Python<'_>, names: &[String], prefix: &str) -> PyResult<Vec<MetadataColumn>> {
    let mut columns = Vec::new();
    for name in names {
        let bare = name.strip_prefix(prefix).unwrap_or(name);
        let column = MetadataColumn::from_name(bare).or_else(|| MetadataColumn::from_name(name));
        columns.push(column.ok_or_else(|| {
            let known = MetadataColumn::ALL.map(MetadataColumn::name).join(", ");
            let text = format!("no metadata column {name:?}, only {known}");
            errors::option_error(py, &text)
        })?);
    }
    Ok(columns)
}

/// The error for a value of another type, which it names.
#[cold]
pub(crate) fn wrong_type(value: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    match value.get_type().name() {
        Ok(found) => PyTypeError::new_err(format!("{expected}, not {found}")),
        Err(error) => error,
    }
}

fn word(value: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
    value
        .extract()
        .map_err(|_| wrong_type(value, &format!("{name} must be a string")))
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

/// The key and the value of an item of [`pairs`].
fn pair<'py>(item: &Bound<'py, PyAny>, name: &str) -> PyResult<(String, Bound<'py, PyAny>)> {
    let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
    Ok((word(&key, &format!("a key of {name}"))?, value))
}

/// The encoding of sessions that do not report it: the only setting that can be chosen.
fn session(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Encoding> {
    let mut encoding = None;
    for item in pairs(value, name)? {
        let (setting, text) = pair(&item?, name)?;
        let text = word(&text, &format!("{name}[{setting:?}]"))?;
        let error = |text: &str| errors::option_error(value.py(), format!("{name}: {text}"));
        let pinned = match &*setting.to_ascii_lowercase() {
            "client_encoding" if encoding.is_some() => {
                return Err(error(&format!("{setting} is set twice")));
            }
            "client_encoding" => {
                encoding = Some(Encoding::of_setting(&text).ok_or_else(|| {
                    error(&format!(
                        "client_encoding {text:?} is not supported; use UTF8, SQL_ASCII or LATIN1; \
                         the server translates others if it is asked for UTF8"
                    ))
                })?);
                continue;
            }
            "datestyle" => "; set DateStyle to ISO in the session that writes the stream",
            "intervalstyle" => {
                "; set IntervalStyle to postgres in the session that writes the stream"
            }
            _ => "",
        };
        return Err(error(&format!(
            "{setting:?} cannot be chosen, only client_encoding{pinned}"
        )));
    }
    Ok(encoding.unwrap_or_default())
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
        .map_err(|_| wrong_type(value, &format!("{name} must be True or False")))
}

fn integer(value: &Bound<'_, PyAny>, name: &str) -> PyResult<i64> {
    value
        .extract()
        .map_err(|_| wrong_type(value, &format!("{name} must be an integer")))
}

/// The LSN of a start. A time means a place in a log, which a stream does not know in advance.
fn start(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Lsn> {
    let End::Lsn(lsn) = end(value, name)? else {
        let text =
            format!("{name} is a time, which needs a log: pass the LSN, such as Reader.position");
        return Err(errors::option_error(value.py(), text));
    };
    Ok(lsn)
}

/// An LSN, or a time with a time zone.
pub(crate) fn end(value: &Bound<'_, PyAny>, name: &str) -> PyResult<End> {
    let py = value.py();
    let value = py
        .import("walrow._amounts")?
        .call_method1("at", (value, name))?;
    let datetime = py.import("datetime")?;
    let class = datetime.getattr("datetime")?;
    if !value.is_instance(&class)? {
        return read_lsn(&value, name).map(End::Lsn);
    }
    let utc = datetime.getattr("UTC")?;
    let epoch = class.call1((2000, 1, 1, 0, 0, 0, 0, utc))?;
    let unit = datetime.getattr("timedelta")?.call1((0, 0, 1))?;
    let micros = value.sub(epoch)?.floor_div(unit)?.extract()?;
    Ok(End::Time(Timestamp(micros)))
}

/// Reads the LSN of an option or a tuple: an `Lsn`, another integer, or a text.
pub(crate) fn read_lsn(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Lsn> {
    let no_lsn = || {
        let text = format!(
            "{name} must be an LSN: a walrow.Lsn, an int, or a text such as \"16/B374D848\""
        );
        wrong_type(value, &text)
    };
    if value.is_instance_of::<PyBool>() {
        return Err(no_lsn());
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
        Err(_) => Err(no_lsn()),
    }
}

/// Reads a number of bytes, which may be 0.
fn bytes(value: &Bound<'_, PyAny>, name: &str) -> PyResult<usize> {
    let bytes = usize::try_from(integer(value, name)?);
    bytes.map_err(|_| errors::option_error(value.py(), format!("{name} must not be negative")))
}

/// Reads a size. Negative sizes become 0, which the builder rejects.
fn size(value: &Bound<'_, PyAny>, name: &str) -> PyResult<usize> {
    Ok(usize::try_from(integer(value, name)?).unwrap_or(0))
}

fn arrow_type(name: &str, key: &str, value: &Bound<'_, PyAny>) -> PyResult<DataType> {
    if let Ok(text) = value.extract::<String>() {
        return walrow::parse_arrow_type(&text).ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            let text = format!(
                "{name}: {shown:?} for {key:?} is not an Arrow type that columns can have: \
                 {ARROW_TYPE_NAMES}"
            );
            errors::option_error(value.py(), &text)
        });
    }
    if !value.hasattr("__arrow_c_schema__")? {
        let text = format!("{name}: {key:?} needs the name of an Arrow type, or an Arrow type");
        return Err(PyTypeError::new_err(text));
    }
    export::import_type(value)
}
