//! Messages and their bytes.

mod copy_rows;
mod errors;
mod golden;
mod messages;
mod properties;
mod replies;
mod splitter;
