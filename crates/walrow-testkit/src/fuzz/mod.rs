//! The bodies of the fuzz targets: ordinary functions that panic on a fault.
//!
//! One file per body. `decoding` runs the decoder for two of them. A target in `fuzz/` only calls
//! its body, and `tests/seeds.rs` replays the seeds through the bodies without a fuzzer.

mod arrow;
mod cuts;
mod decoding;
mod frames;
mod histories;
mod messages;
pub mod operations;
mod roundtrip;

pub use arrow::arrow;
pub use cuts::cuts;
pub use frames::frames;
pub use histories::histories;
pub use messages::messages;
pub use operations::operations;
pub use roundtrip::roundtrip;
