//! Property tests over the fuzzers' grammar.

use arbitrary::{Arbitrary, Unstructured};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::sample::{Index, select};
use std::fmt::Debug;

/// Any `T` that can be made from up to `most` random bytes. It shrinks with the bytes.
///
/// One grammar serves fuzzers and property tests: the `Arbitrary` of the testkit's types.
pub fn arbitrary<T>(most: usize) -> impl Strategy<Value = T>
where
    T: Debug + for<'a> Arbitrary<'a>,
{
    vec(any::<u8>(), 0..=most).prop_filter_map("too few bytes", |bytes| {
        T::arbitrary(&mut Unstructured::new(&bytes)).ok()
    })
}

/// Bytes of an alphabet, and texts with up to two bytes removed, replaced or inserted. Such texts
/// are close to what a server writes, which random bytes almost never are.
pub fn near<T>(texts: T, alphabet: &'static [u8]) -> impl Strategy<Value = Vec<u8>>
where
    T: Strategy<Value = Vec<u8>>,
{
    let letter = || select(alphabet);
    let change = (any::<Index>(), letter(), 0..4_u8);
    let changed = (texts, vec(change, 0..3)).prop_map(|(mut text, changes)| {
        for (place, byte, change) in changes {
            let place = place.index(text.len().saturating_add(1));
            match (change, text.get_mut(place)) {
                (0, Some(at)) => *at = byte,
                (1, Some(_)) => drop(text.remove(place)),
                (2, _) => text.insert(place, byte),
                _ => {}
            }
        }
        text
    });
    prop_oneof![vec(letter(), 0..16), changed]
}
