//! The rows of a batch that are not in its table's columns, as several threads append rows.

use crate::batch::Batch;
use crate::layout::Layout;
use crate::rows::Rows;
use crate::threads::KeptRows;
use std::sync::Arc;

/// The rows of a batch that are not in the table's columns.
#[derive(Debug, Default)]
pub(crate) struct Later {
    /// The first rows of the batch, in order. Those in the columns follow.
    pub(super) parts: Vec<Part>,
    /// The number of rows in the parts.
    pub(super) in_parts: usize,
    /// Rows that wait. They follow the rows in the columns.
    pub(super) kept: KeptRows,
    /// The batch before the stretch. `None` if it has no rows of the stretch.
    pub(super) before: Option<Rows>,
    /// The rows of the stretch that were appended here: number, and transaction.
    pub(super) appended: Vec<(u64, u64)>,
    /// The layout of the rows that wait. The table's own layout may be dropped meanwhile.
    pub(super) layout: Option<Arc<Layout>>,
    /// The job that has all rows behind the parts, and the columns.
    pub(super) open: Option<usize>,
}

/// Some rows of a batch.
#[derive(Debug)]
pub(super) enum Part {
    Made(Batch),
    /// They are made by the job with this number.
    Waits(usize),
}

/// A batch that ended before all its rows were appended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) version: u32,
    /// The number of the first row behind it.
    pub(crate) end: u64,
    pub(super) later: Later,
}
