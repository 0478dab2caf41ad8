#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|data: &[u8]| -> Corpus {
    match walrow_testkit::fuzz::histories(data) {
        Ok(()) => Corpus::Keep,
        // Too few bytes to make anything of.
        Err(_) => Corpus::Reject,
    }
});
