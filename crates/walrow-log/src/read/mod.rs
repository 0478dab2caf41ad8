//! Reads a log. Nothing here writes.

pub(crate) mod as_of;
pub(crate) mod log;
pub(crate) mod recount;
pub(crate) mod resolve;
pub(crate) mod segment_reader;
pub(crate) mod table_state;
mod verify;

use crate::error::Error;

/// Is called between the steps of something that takes long. Its error ends that.
pub type Step<'a> = dyn FnMut() -> Result<(), Error> + 'a;
