//! Worlds that failed, and mistakes that are not mended yet.

use super::Choices;

/// A mistake of the log that is not mended yet.
#[derive(Debug)]
pub(crate) struct Mistake {
    pub(crate) name: &'static str,
    /// The text that its failures contain.
    pub(crate) sign: &'static str,
    /// A world that fails in this way. Empty if it must be found again, because the steps of worlds
    /// have changed.
    pub(crate) numbers: &'static [u32],
}

/// The mistakes that are not mended yet. A mended mistake goes from here to the regressions.
pub(crate) const OPEN: &[Mistake] = &[Mistake {
    name: "an erased row that is sent again is on the disk until its transaction is decided",
    sign: "erased: _prepared-",
    numbers: &[],
}];

/// Worlds that failed once.
const REGRESSIONS: &[(&str, &[u32])] = &[(
    "a prepared transaction that is decided is missed, once a part of another one was published",
    &[
        704690452, 0, 0, 7, 0, 2, 0, 0, 0, 0, 4, 0, 0, 1, 0, 3, 1, 4, 0, 0, 1, 6, 0, 0, 0, 0, 1, 1,
        1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0,
        0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 1, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 0,
        1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 0, 0, 0,
        0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 1, 0, 0, 1, 3, 6, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1,
        0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 112, 0, 0, 0, 0, 109, 0, 0, 1, 0, 0, 0, 0, 0,
        0, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1,
        0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0,
        0, 1,
    ],
)];

#[test]
fn worlds_that_failed_do_not_fail_again() {
    for (what, numbers) in REGRESSIONS {
        assert_eq!(
            super::run(Choices::of_list(numbers)).failure,
            None,
            "{what}"
        );
    }
}

#[test]
fn mistakes_that_are_not_mended_are_found() {
    for mistake in OPEN.iter().filter(|it| !it.numbers.is_empty()) {
        let failure = super::run(Choices::of_list(mistake.numbers)).failure;
        let failure = failure.unwrap_or_default();
        assert!(
            failure.contains(mistake.sign),
            "{} is mended: make it a regression ({failure})",
            mistake.name
        );
    }
}
