//! Property tests over the fuzzers' grammar.

use arbitrary::{Arbitrary, Unstructured};
use proptest::prelude::{Strategy, any};
use std::fmt::Debug;

/// Any `T` that up to `most` random bytes make; shrinks with the bytes.
///
/// One grammar serves fuzzers and property tests: the `Arbitrary` of the testkit's types.
pub fn arbitrary<T>(most: usize) -> impl Strategy<Value = T>
where
    T: Debug + for<'a> Arbitrary<'a>,
{
    proptest::collection::vec(any::<u8>(), 0..=most).prop_filter_map("too few bytes", |bytes| {
        T::arbitrary(&mut Unstructured::new(&bytes)).ok()
    })
}
