//! Streams as record batches.

mod catalogs;
mod cells;
mod chosen_tables;
mod containers;
mod decoder;
mod golden;
mod survey;
mod types;
