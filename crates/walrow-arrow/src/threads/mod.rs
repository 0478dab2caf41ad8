//! Batches that several threads build from one input, in the order and with the errors of one.
//!
//! The caller's thread finds the committed rows and counts them, so it knows where each batch ends.
//! It keeps the places of the rows, and the threads read the rows there and append them:
//!
//! ```text
//! caller:   find, count ─► KeptRows ─┬─► find, count … ─► append, too ─► settle
//! threads:                           └─► Job: append, finish ────────────┘
//! ```
//! A [`Stretch`] is the part of the input that the threads share. They begin and end with it, so the
//! input is borrowed, and a thread never outlives a call of the decoder. At the end of the stretch,
//! [`Tables::settle`](crate::tables::Tables::settle) takes their batches. If a row could not be
//! appended, it drops all rows from there on: the caller takes the batches of a stretch only at its end.

mod crew;
mod job;
mod kept_rows;
mod stretch;

pub(crate) use crew::Crew;
pub(crate) use job::{Done, Fault, First, Job};
pub(crate) use kept_rows::{KeptRows, KeptRun, KeptRunRows, Wanted};
pub(crate) use stretch::{STEPS, Stretch, is_worth_threads};
