//! Measures how many bytes a call allocates, how often, and how many it holds at a time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator with a counter. A test binary that measures installs it:
///
/// ```
/// use walrow_testkit::allocation::{Counting, allocated, allocations, peak};
///
/// #[global_allocator]
/// static ALLOCATOR: Counting = Counting;
///
/// let (bytes, list) = allocated(|| Vec::<u8>::with_capacity(100));
/// assert_eq!((bytes, list.capacity()), (100, 100));
/// let (bytes, ()) = peak(|| for _ in 0..3 { drop(Vec::<u8>::with_capacity(100)) });
/// assert_eq!(bytes, Some(100));
/// let (count, _) = allocations(|| vec![Box::new(1), Box::new(2)]);
/// assert_eq!(count, 3);
/// ```
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    /// Bytes that are held, minus bytes of other threads that were freed on this one.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Runs `call` and returns how many bytes it allocated on this thread, freed or not.
///
/// # Panics
/// If [`Counting`] is not the binary's allocator.
pub fn allocated<T>(call: impl FnOnce() -> T) -> (usize, T) {
    assert!(is_counted(), "the test binary does not install Counting");
    let start = ALLOCATED.get();
    let value = call();
    (ALLOCATED.get() - start, value)
}

/// Runs `call` and returns how many times it asked for memory on this thread: for new memory, or for
/// another size.
///
/// # Panics
/// If [`Counting`] is not the binary's allocator.
pub fn allocations<T>(call: impl FnOnce() -> T) -> (usize, T) {
    assert!(is_counted(), "the binary does not install Counting");
    let start = ALLOCATIONS.get();
    let value = call();
    (ALLOCATIONS.get() - start, value)
}

/// Runs `call` and returns by how many bytes the memory held on this thread grew at most. `None` if
/// [`Counting`] is not the binary's allocator.
pub fn peak<T>(call: impl FnOnce() -> T) -> (Option<usize>, T) {
    if !is_counted() {
        return (None, call());
    }
    let (start, outer) = (LIVE.get(), PEAK.get());
    PEAK.set(start);
    let value = call();
    let peak = PEAK.get();
    PEAK.set(outer.max(peak));
    (Some(usize::try_from(peak - start).unwrap_or(0)), value)
}

/// Whether [`Counting`] is the binary's allocator.
fn is_counted() -> bool {
    let before = ALLOCATED.get();
    drop(std::hint::black_box(Box::new(0_u8)));
    ALLOCATED.get() > before
}

fn count(allocated: usize, freed: usize) {
    if allocated > 0 {
        ALLOCATIONS.set(ALLOCATIONS.get().wrapping_add(1));
    }
    ALLOCATED.set(
        ALLOCATED
            .get()
            .wrapping_add(allocated.saturating_sub(freed)),
    );
    let grown = allocated.cast_signed().wrapping_sub(freed.cast_signed());
    let live = LIVE.get().wrapping_add(grown);
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
// SAFETY: every call goes to the system's allocator with unchanged arguments. Counting never
// allocates, because the counters have no destructor and a constant initial value. It never panics,
// because it wraps.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller fulfils the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above; all pointers come from the system's allocator.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}
