//! Tools for walrow's tests.
//!
//! - [`Stream`] writes a whole stream by hand, one line per message.
//! - [`OwnedMessage`] and [`OwnedFrame`] mirror the types of `walrow-wire` and write their own
//!   bytes, without its encoder: an oracle for its parser and its encoder.
//! - [`History`] generates transactions, delivers the same ones in every way that a server may use
//!   (whole, streamed in chunks, prepared), and returns the expected result.
//! - [`TableModel`] is a table as a server holds it, with the stream of its changes.
//! - [`reference::committed`] assembles the transactions of any stream, slowly and plainly, or
//!   returns why it rejects the stream.
//! - [`contents()`] prints what a stream contains, to compare streams.
//! - [`strategy::arbitrary`] makes a proptest strategy from any `Arbitrary` type.
//! - [`hex()`] parses bytes in hexadecimal digits.
//! - [`for_every_cut`] and [`in_chunks`] cut the same bytes into different pieces.
//! - [`recvlogical()`] writes a stream as `pg_recvlogical` does.
//! - [`type_cases()`] reads values of every type, as Python's tests do.
//! - [`captures()`] reads captures of real servers, [`seeds`] reads the fuzzers' seeds.
//! - [`fuzz`] contains the bodies of the fuzz targets. [`walk()`] reads a stream to its end.
//! - [`fuzz::operations()`] decodes mutated streams with any options. Its test runs for
//!   `WALROW_FUZZ_SECONDS`.
//! - [`is_slow`] and [`step`] make long tests short, but for `WALROW_SLOW`.
//! - [`allocation::Counting`] measures how much a call allocates, and how much it holds at a time.
//!
//! ```
//! use walrow_testkit::{Stream, null, text};
//! use walrow_wire::ReplicaIdentity;
//!
//! let bytes = Stream::new()
//!     .session()
//!     .relation(16384, "public", "t", ReplicaIdentity::Default, &[("id", 23, -1, true), ("v", 25, -1, false)])
//!     .begin(0x1000, 700)
//!     .insert(16384, &[text("1"), null()])
//!     .commit()
//!     .bytes();
//! assert_eq!(walrow_testkit::walk(&bytes, |_| {}), Ok(bytes.len()));
//! ```
#![expect(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "a panic is how a test fails"
)]
#![expect(
    clippy::exhaustive_enums,
    reason = "tests match all that there is, and shall notice more"
)]

pub mod allocation;
mod captures;
mod contents;
mod cut;
mod frame;
pub mod fuzz;
mod hex;
mod history;
mod message;
mod recvlogical;
pub mod reference;
mod slow;
pub mod strategy;
mod stream;
mod table_model;
mod type_cases;
mod walk;

pub use captures::{Capture, Seed, captures, seeds};
pub use contents::{Contents, contents};
pub use cut::{for_every_cut, in_chunks};
pub use frame::{OwnedCopyData, OwnedFrame, RowField};
pub use hex::hex;
pub use history::{Change, Delivery, Expected, ExpectedChange, History, Part, Table, Transaction};
pub use message::{
    OwnedCell, OwnedColumn, OwnedMessage, OwnedOld, OwnedPrepared, PgText, binary, null, text,
    unchanged,
};
pub use recvlogical::{in_recvlogical, recvlogical};
pub use slow::{is_slow, step};
pub use stream::Stream;
pub use table_model::{TableModel, TableStep};
pub use type_cases::{TypeCase, TypeCases, type_cases, type_catalog};
pub use walk::{Step, walk};
