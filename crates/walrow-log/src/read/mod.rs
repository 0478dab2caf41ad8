//! Reads a log, and never writes.

pub(crate) mod as_of;
pub(crate) mod definition;
pub(crate) mod log;
pub(crate) mod net_checkpoint;
pub(crate) mod reached;
pub(crate) mod read_ahead;
pub(crate) mod recount;
pub(crate) mod resolve;
pub(crate) mod segment_reader;
pub(crate) mod table_changes;
pub(crate) mod table_net;
pub(crate) mod table_nets;
pub(crate) mod table_reader;
pub(crate) mod table_state;
mod verify;

use crate::error::Error;

/// A function that is called between the steps of a long call. Its error ends the long call.
pub type Step<'a> = dyn FnMut() -> Result<(), Error> + 'a;
