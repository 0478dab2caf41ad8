//! Columns of cells that a server wrote under settings other than the pinned ones.

use super::{Column, Losses, Refused};
use arrow_array::ArrayRef;
use arrow_schema::ArrowError;
use std::sync::Arc;
use walrow_types::{CellError, PgType, SessionSettings};

/// A column whose text cells are translated before they are read.
#[derive(Debug)]
pub(crate) struct Translated {
    column: Box<dyn Column>,
    pg_type: Arc<dyn PgType>,
    settings: SessionSettings,
    /// The translated cell.
    text: Vec<u8>,
}

impl Translated {
    pub(crate) fn boxed(
        column: Box<dyn Column>,
        pg_type: Arc<dyn PgType>,
        settings: SessionSettings,
    ) -> Box<dyn Column> {
        Box::new(Self {
            column,
            pg_type,
            settings,
            text: Vec::new(),
        })
    }
}

impl Column for Translated {
    fn append_text(&mut self, cell: &[u8]) -> Result<(), Refused> {
        self.text.clear();
        let translated = self.pg_type.translate(cell, self.settings, &mut self.text);
        match translated {
            Ok(()) => self.column.append_text(&self.text),
            Err(error) => self.column.reject(error),
        }
    }

    fn append_binary(&mut self, cell: &[u8]) -> Result<(), Refused> {
        self.column.append_binary(cell)
    }

    fn append_null(&mut self) {
        self.column.append_null();
    }

    fn reject(&mut self, error: CellError) -> Result<(), Refused> {
        self.column.reject(error)
    }

    fn failure(&self) -> CellError {
        self.column.failure()
    }

    fn len(&self) -> usize {
        self.column.len()
    }

    fn truncate(&mut self, rows: usize) {
        self.column.truncate(rows);
    }

    fn variable_bytes(&self) -> usize {
        self.column.variable_bytes()
    }

    fn reserve_bytes(&mut self, bytes: usize) {
        self.column.reserve_bytes(bytes);
    }

    fn losses(&self) -> Losses {
        self.column.losses()
    }

    fn lacks_text(&self, is_binary: bool, is_part: bool) -> bool {
        self.column.lacks_text(is_binary, is_part)
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        self.column.finish()
    }
}
