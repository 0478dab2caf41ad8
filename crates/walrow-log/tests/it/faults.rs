//! Calls of a store that fail: another one in each run.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::world::Memory;
use std::cell::Cell;
use std::fmt::Debug;

/// A call of a store that fails.
pub(crate) struct Fault {
    /// The number of the call.
    pub(crate) call: usize,
    /// Whether only this call fails. Otherwise the machine crashes there.
    pub(crate) is_refused: bool,
    stays: usize,
    has_come: Cell<Option<bool>>,
}

impl Fault {
    /// Works with a store where this call fails. After a crash, the machine has started again.
    pub(crate) fn during<T, E: Debug>(
        &self,
        store: &Memory,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if self.is_refused {
            store.refuse(self.call, self.stays);
        } else {
            store.crash_at(self.call, self.stays);
        }
        let result = work();
        let has_come = store.operations() >= self.call;
        self.has_come.set(Some(has_come));
        if self.is_refused {
            store.refuse(usize::MAX, 0);
        } else {
            store.reboot();
        }
        if !has_come {
            let failed = result.as_ref().err();
            assert!(failed.is_none(), "no call failed: {failed:?}");
        }
        result
    }
}

/// Runs a function for each call that may crash, until no crash comes any more. The last run is
/// without a crash. Returns how many calls there are. `stays` bytes of what was not synced stay.
pub(crate) fn at_every_crash(stays: usize, mut run: impl FnMut(&Fault)) -> usize {
    at_every(1, stays, false, &mut run)
}

/// Like [`at_every_crash`], but runs again for each call that is refused, and takes only one of
/// `step` calls.
pub(crate) fn at_every_fault(step: usize, stays: usize, mut run: impl FnMut(&Fault)) -> usize {
    at_every(step, stays, true, &mut run);
    at_every(step, stays, false, &mut run)
}

fn at_every(step: usize, stays: usize, is_refused: bool, run: &mut dyn FnMut(&Fault)) -> usize {
    let mut call = 1;
    loop {
        let fault = Fault {
            call,
            is_refused,
            stays,
            has_come: Cell::default(),
        };
        run(&fault);
        if !fault.has_come.get().unwrap() {
            return call;
        }
        call += step;
    }
}
