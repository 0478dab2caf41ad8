//! How fast walrow is, and how fast it could be.
//!
//! `walrow-floor` is the measure: a bare program for the same bytes, which only checks bounds.
//! [`captures`] returns the bytes, and [`types`] makes cells of each type. `cargo bench --bench ratios --features csv` compares
//! both in one run, since machines are noisy and ratios are less so; `--bench types` does the same with other
//! parsers. README.md says how to read the results.

#[cfg(test)]
mod agreement;
pub mod captures;
#[cfg(feature = "csv")]
pub mod csv;
pub mod decode;
pub mod log;
pub mod types;
pub mod walk;
