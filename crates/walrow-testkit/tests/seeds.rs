//! The fuzz targets' bodies, on their seeds and on what the last faults were found with.

use std::collections::BTreeMap;
use walrow_testkit::{fuzz, seeds};

#[test]
fn seeds_replay() {
    let mut replayed = BTreeMap::new();
    for seed in seeds() {
        match seed.target.as_str() {
            "arrow" => fuzz::arrow(&seed.bytes),
            "cuts" => fuzz::cuts(&seed.bytes),
            "frames" => fuzz::frames(&seed.bytes),
            "messages" => fuzz::messages(&seed.bytes),
            "roundtrip" => {
                fuzz::roundtrip(&seed.bytes).unwrap_or_else(|_| panic!("{}: too short", seed.name));
            }
            "histories" => {
                fuzz::histories(&seed.bytes).unwrap_or_else(|_| panic!("{}: too short", seed.name));
            }
            target => panic!("{target}/{}: no such target", seed.name),
        }
        *replayed.entry(seed.target).or_insert(0) += 1;
    }
    assert_eq!(replayed.len(), 6, "{replayed:?}");
    assert!(replayed.values().all(|count| *count >= 3), "{replayed:?}");
}
