//! The bytes of a log: names, segments with their feet, blocks, and the small objects beside them.

pub(crate) mod blocks;
pub(crate) mod catalog;
pub(crate) mod contents;
pub(crate) mod frames;
pub(crate) mod history;
pub(crate) mod index;
pub(crate) mod journal;
pub(crate) mod listing;
pub(crate) mod load_place;
pub(crate) mod new_segment;
pub(crate) mod prepared;
pub(crate) mod reader_name;
pub(crate) mod registered_reader;
pub(crate) mod segment;
pub(crate) mod state;
pub(crate) mod undecided;
pub(crate) mod version;
pub(crate) mod whole_frames;
