//! What a call allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting. A test binary that measures installs it:
///
/// ```
/// use walrow_testkit::allocation::{Counting, allocated};
///
/// #[global_allocator]
/// static ALLOCATOR: Counting = Counting;
///
/// let (bytes, list) = allocated(|| Vec::<u8>::with_capacity(100));
/// assert_eq!((bytes, list.capacity()), (100, 100));
/// ```
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// Runs `call` and says how many bytes it allocated on this thread, given back or not.
///
/// # Panics
/// If [`Counting`] is not the binary's allocator.
pub fn allocated<T>(call: impl FnOnce() -> T) -> (usize, T) {
    let before = ALLOCATED.get();
    drop(std::hint::black_box(Box::new(0_u8)));
    let start = ALLOCATED.get();
    assert!(start > before, "the test binary does not install Counting");
    let value = call();
    (ALLOCATED.get() - start, value)
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
// SAFETY: every call goes to the system's allocator with the arguments as they came. Counting
// neither allocates, having no destructor and a constant start, nor panics: it wraps.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get().wrapping_add(layout.size()));
        // SAFETY: the caller keeps what `GlobalAlloc::alloc` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above; all places come from the system's allocator.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED.set(
            ALLOCATED
                .get()
                .wrapping_add(size.saturating_sub(layout.size())),
        );
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}
