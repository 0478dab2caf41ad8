//! Checks of options: each by itself, and those that contradict each other.

use crate::error::{DecoderOption, Error, ErrorKind, OptionsError};
use crate::keys::is_last_part;
use crate::metadata::MetadataColumn;
use crate::options::{ChosenTables, OnUnrepresentable, Options};
use crate::table_name::TableName;
use std::collections::HashSet;

impl Options {
    /// Rejects options that are invalid or contradict each other. Types are checked elsewhere.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.batch_rows == 0 || self.batch_rows > MAX_BATCH_ROWS {
            return Err(out_of_range(DecoderOption::BatchRows, Some(MAX_BATCH_ROWS)));
        }
        if self.batch_bytes == 0 || self.batch_bytes > MAX_BATCH_BYTES {
            return Err(out_of_range(
                DecoderOption::BatchBytes,
                Some(MAX_BATCH_BYTES),
            ));
        }
        if self.batch_memory == 0 {
            return Err(out_of_range(DecoderOption::BatchMemory, None));
        }
        for (index, column) in self.metadata.iter().enumerate() {
            let mut rest = self.metadata.iter().skip(index.saturating_add(1));
            if rest.any(|other| other == column) {
                return Err(options(OptionsError::Repeated {
                    option: DecoderOption::Metadata,
                    name: column.name().to_owned(),
                }));
            }
        }
        if self.prefix.contains('\0') {
            let option = DecoderOption::MetadataPrefix;
            return Err(options(OptionsError::ZeroByte { option }));
        }
        if self.message_limit == 0 {
            return Err(out_of_range(DecoderOption::MessageLimit, None));
        }
        self.check_tables()?;
        let side = self.tables.side_table();
        if self.envelope && !self.types.is_empty() {
            return Err(options(OptionsError::EnvelopeTypes));
        }
        if self.schema.is_some() && (self.envelope || side.is_some()) {
            return Err(options(OptionsError::OwnSchema));
        }
        if side.is_some() && self.envelope {
            return Err(options(OptionsError::EnvelopeOfSideTable));
        }
        if self.schema.is_some() && self.tables.one().is_none() {
            return Err(options(match self.tables {
                ChosenTables::Several(_) => OptionsError::SchemaOfSeveral,
                _ => OptionsError::SchemaWithoutTable,
            }));
        }
        if self.columns.is_some() && self.tables.has_only_side_tables() {
            return Err(options(OptionsError::SideTableColumns));
        }
        self.check_columns()?;
        let sentinel = |policy: &OnUnrepresentable| *policy == OnUnrepresentable::Sentinel;
        if !self.profile.has_sentinels()
            && (sentinel(&self.unrepresentable)
                || self.column_unrepresentable.values().any(sentinel))
        {
            return Err(options(OptionsError::SparkSentinel));
        }
        Ok(())
    }

    fn check_tables(&self) -> Result<(), Error> {
        let tables = match &self.tables {
            ChosenTables::All | ChosenTables::One(_) => return Ok(()),
            ChosenTables::OneAndSeveral => return Err(options(OptionsError::TableAndTables)),
            ChosenTables::Several(tables) if tables.is_empty() => {
                return Err(options(OptionsError::NoTables));
            }
            ChosenTables::Several(tables) => tables,
        };
        let texts = tables.iter().filter_map(|table| match table {
            TableName::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let texts: HashSet<_> = texts.collect();
        let mut seen = HashSet::new();
        for table in tables {
            let is_pair = matches!(table, TableName::Qualified(..));
            let is_text_too = is_pair && texts.contains(table.to_string().as_str());
            if is_text_too || !seen.insert(table) {
                return Err(options(OptionsError::Repeated {
                    option: DecoderOption::Tables,
                    name: table.to_string(),
                }));
            }
        }
        Ok(())
    }

    /// Checks that the wanted columns are those of the declared schema.
    fn check_columns(&self) -> Result<(), Error> {
        let (Some(columns), Some(schema)) = (&self.columns, &self.schema) else {
            return Ok(());
        };
        let is_own = |name: &str| {
            let bare = name.strip_prefix(&*self.prefix);
            let metadata = bare.and_then(MetadataColumn::from_name);
            !metadata.is_some_and(|column| self.metadata.contains(&column))
        };
        let fields = schema.fields().iter().map(|field| &**field.name());
        let mut own = fields.filter(|name| is_own(name));
        let lacks = |key: &&String| !own.clone().any(|name| is_last_part(key, name));
        if let Some(key) = columns.iter().find(lacks) {
            let column = key.clone();
            return Err(options(OptionsError::ColumnNotInSchema { column }));
        }
        let is_left_out = |name: &&str| !columns.iter().any(|key| is_last_part(key, name));
        if let Some(name) = own.find(is_left_out) {
            let column = name.to_owned();
            return Err(options(OptionsError::SchemaColumnLeftOut { column }));
        }
        Ok(())
    }
}

fn options(error: OptionsError) -> Error {
    Error::new(ErrorKind::Options(error))
}

fn out_of_range(option: DecoderOption, limit: Option<usize>) -> Error {
    options(OptionsError::OutOfRange { option, limit })
}

/// Arrow's offsets, which have 31 bits, count the rows.
const MAX_BATCH_ROWS: usize = i32::MAX.unsigned_abs() as usize;

/// Past this, two values of PostgreSQL's largest size would not fit a column's 2 GiB.
const MAX_BATCH_BYTES: usize = 1 << 29;
