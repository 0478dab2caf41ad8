#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| walrow_testkit::fuzz::cuts(data));
