//! Writes a log, and repairs it after a crash of the last writer.

pub(crate) mod buffer;
pub(crate) mod comparison;
pub(crate) mod counts;
pub(crate) mod filling;
pub(crate) mod index_file;
pub(crate) mod intake;
pub(crate) mod journaled;
pub(crate) mod load;
pub(crate) mod load_place;
pub(crate) mod look;
pub(crate) mod marks;
pub(crate) mod open_file;
pub(crate) mod opening;
pub(crate) mod publisher;
pub(crate) mod recovery;
pub(crate) mod repair;
pub(crate) mod repeats;
pub(crate) mod saved_prepared;
pub(crate) mod segment_file;
pub(crate) mod session;
pub(crate) mod stage;
pub(crate) mod tail;
pub(crate) mod writer;
