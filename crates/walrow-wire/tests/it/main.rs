//! Messages and their bytes.

mod errors;
mod golden;
mod messages;
mod properties;
mod replies;
mod splitter;
