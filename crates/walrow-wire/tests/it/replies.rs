//! Properties of the results of replication commands.

use proptest::collection::vec;
use proptest::prelude::*;
use walrow_wire::{CreatedSlot, IdentifySystem, Lsn, PgString, PhysicalSlot, TimelineHistory};

/// A byte as a server or a damaged file has it.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        proptest::sample::select(b"0123456789ABCDEF/\t\n #".to_vec()),
        any::<u8>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn histories_read_as_written(
        steps in vec((1_u32..1_000_000, any::<u64>(), "[!-~]([ -~]*[!-~])?"), 0..20),
    ) {
        let mut lines = Vec::new();
        let mut written = Vec::new();
        let mut timeline: u32 = 0;
        for (step, end, reason) in &steps {
            timeline = timeline.strict_add(*step);
            let end = Lsn(*end);
            lines.push(format!("{timeline}\t{end}\t{reason}\n\n"));
            written.push((timeline, end, PgString(reason.as_bytes())));
        }
        let content = lines.concat();
        let switches = TimelineHistory::parse_content(content.as_bytes()).unwrap();
        let read: Vec<_> = switches.iter().map(|it| (it.timeline, it.end, it.reason)).collect();
        prop_assert_eq!(read, written);
    }

    #[test]
    fn arbitrary_cells_are_values_or_errors(
        cells in vec(proptest::option::of(vec(byte(), 0..40)), 0..6),
    ) {
        let cells: Vec<Option<&[u8]>> = cells.iter().map(Option::as_deref).collect();
        let known = matches!(cells.len(), 2..=4);
        prop_assert!(known || IdentifySystem::from_cells(&cells).is_err());
        prop_assert!(known || CreatedSlot::from_cells(&cells).is_err());
        prop_assert!(known || PhysicalSlot::from_cells(&cells).is_err());
        prop_assert!(known || TimelineHistory::from_cells(&cells).is_err());
        for content in cells.into_iter().flatten() {
            let _ = TimelineHistory::parse_content(content);
        }
    }
}
