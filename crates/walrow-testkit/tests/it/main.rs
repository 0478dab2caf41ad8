//! Tests of the test kit, and tests that it drives.

mod history;
mod operations;
mod recvlogical;
mod reference;
mod seeds;

use walrow_testkit::allocation::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
