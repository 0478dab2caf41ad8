//! Runs the bodies of the fuzz targets on their seeds and on inputs of earlier faults.

use std::collections::BTreeMap;
use walrow_testkit::{fuzz, is_slow, seeds};

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
            "operations" => {
                fuzz::operations(&seed.bytes)
                    .unwrap_or_else(|_| panic!("{}: too short", seed.name));
            }
            target => panic!("{target}/{}: no such target", seed.name),
        }
        *replayed.entry(seed.target).or_insert(0) += 1;
    }
    assert_eq!(replayed.len(), 7, "{replayed:?}");
    assert!(replayed.values().all(|count| *count >= 3), "{replayed:?}");
}

/// The fuzz targets' properties with valid numbers, which random text rarely is: so that short runs
/// test every type.
#[test]
fn short_cells_of_every_type_agree_in_both_forms() {
    let all = [0_u8, 0x80, b'a', 0xff, 1, 2, 0x40, 0x7f, 0xc0, b'{'];
    let interesting = if is_slow() { &all[..] } else { &all[..4] };
    for of in 0..=u8::MAX {
        for choice in [0x80, 0x82] {
            for length in [0, 1, 2, 4, 6, 8, 10, 12, 16] {
                for &fill in interesting {
                    let mut cell = vec![choice, of, of % 7];
                    cell.resize(length + 3, fill);
                    fuzz::arrow(&cell);
                    if length > 0 {
                        cell[3] = 0;
                        fuzz::arrow(&cell);
                    }
                }
            }
        }
    }
}
