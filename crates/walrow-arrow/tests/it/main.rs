//! What comes out as columns.

mod catalogs;
mod cells;
mod containers;
mod decoder;
mod golden;
mod survey;
mod types;
