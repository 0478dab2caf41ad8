#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use walrow_testkit::allocation::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fuzz_target!(|data: &[u8]| -> Corpus {
    match walrow_testkit::fuzz::operations(data) {
        Ok(()) => Corpus::Keep,
        // Too few bytes to make anything of.
        Err(_) => Corpus::Reject,
    }
});
