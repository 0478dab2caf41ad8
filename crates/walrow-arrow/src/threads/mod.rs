//! Batches that several threads build from one input, in the order and with the errors of one.
//!
//! The caller's thread finds the committed rows and counts them, so it knows where each batch ends.
//! It keeps the places of the rows, and the threads read the rows there and append them:
//!
//! ```text
//! caller:   find, count ─► KeptRows ─┬─► find, count … ─► append, too ─► settle
//! threads:                           └─► Work: append, finish ───────────┘
//! ```
//! A [`Stretch`] is the part of the input that the threads share. They begin and end with it, so none
//! of them outlives a call of the decoder, and the input is borrowed. At its end,
//! [`Tables::settle`](crate::tables::Tables::settle) takes what they made. If a row could not be appended,
//! it drops all rows from there on: all of them are still there, as nobody took a batch meanwhile.

mod crew;
mod kept_rows;
mod stretch;
mod work;

pub(crate) use crew::Crew;
pub(crate) use kept_rows::{KeptRow, KeptRows, Wanted};
pub(crate) use stretch::{Stretch, is_worth_threads};
pub(crate) use work::{Done, Fault, First, Work};
