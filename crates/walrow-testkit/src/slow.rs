//! Whether the slow tests run.

/// Whether the slow tests run: `WALROW_SLOW` is set.
#[must_use]
pub fn is_slow() -> bool {
    std::env::var_os("WALROW_SLOW").is_some()
}

/// The distance between the places that a long test tries: 1 with the slow tests, and `usual` otherwise.
#[must_use]
pub fn step(usual: usize) -> usize {
    if is_slow() { 1 } else { usual }
}
