//! How fast walrow is, and how fast it could be.
//!
//! [`floor`] is the measure: a bare program for the same bytes, with no checks beyond bounds.
//! [`captures`] are the bytes, [`types`] those of one type each. `cargo bench --bench ratios`
//! compares both in one run, since machines are noisy and ratios are less so; `--bench types` does
//! the same with other parsers; the other benches are Criterion's, for the history of one machine.

pub mod captures;
pub mod decode;
pub mod floor;
pub mod types;
pub mod walk;
