//! The floor: how fast these bytes can be read at all.
//!
//! A bare loop in plain safe Rust over a capture whose tables are known. It uses only the standard
//! library. Its only checks are the bounds of slices, and it panics at unexpected bytes. So this is
//! no decoder: decoders are compared with it.
//!
//! [`walk`] only visits every frame, message and cell. [`rows`] reads every cell of the committed rows
//! into typed vectors, with the change, its place and its transaction.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::inline_always,
    clippy::panic,
    reason = "the measure does no more than it must; a call for each row would be 5 % of it"
)]

mod binary;
mod column;
mod frames;
mod rows;
mod table;
mod text;

pub use column::{Column, Values};
pub use frames::{Visited, walk};
pub use rows::rows;
pub use table::{Change, Run, Table};

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(&bytes[at..]))
}
