//! Plans the repairs for each combination of up to six objects of a log and each end of the
//! journal.

use super::*;
use walrow_stream::fact::Source;

const P: PreparedName = PreparedName {
    end: Lsn(250),
    xid: 7,
};
const POINT: Lsn = Lsn(201);

fn name(start: u64, part: u32) -> SegmentName {
    SegmentName {
        start: Lsn(start),
        part,
    }
}

fn segment(start: u64, end: u64) -> SeenSegment {
    SeenSegment {
        name: name(start, 0),
        end: Lsn(end),
        continues: false,
    }
}

fn part(start: u64, number: u32) -> SeenSegment {
    SeenSegment {
        name: name(start, number),
        end: Lsn(start),
        continues: true,
    }
}

fn undecided() -> Vec<Undecided> {
    vec![Undecided::new(P, 1)]
}

/// A journal after the segment that ends at 200. It has the first `count` of these records: a
/// prepare, a commit at 300, the decision, and a commit at 400.
fn journal(count: usize) -> SeenJournal {
    let ends = [None, None, Some(Lsn(300)), Some(Lsn(300)), Some(Lsn(400))];
    let end = ends.get(count).copied().flatten();
    SeenJournal {
        header: Header::new(Lsn(200), &Source::default(), Vec::new()),
        first: end.map(|_| Lsn(300)),
        end: end.unwrap_or_default(),
        has_changes: end.is_some(),
        has_facts: count > 0,
        undecided: if count > 0 { vec![P] } else { Vec::new() },
        decided: if count > 2 { vec![P] } else { Vec::new() },
    }
}

/// Returns where the log ends after the repairs. Checks that the repairs fit together.
fn end_after(seen: &Seen, repairs: &[Repair]) -> Lsn {
    let mut end = seen.boundary;
    let removed: &[_] = match repairs.first() {
        Some(Repair::RemoveParts(parts)) => parts,
        _ => &[],
    };
    for segment in seen
        .segments
        .iter()
        .filter(|it| !removed.contains(&it.name))
    {
        assert!(!segment.continues, "a part is left");
        end = segment.end;
    }
    for repair in repairs {
        match repair {
            Repair::FillPlace { point, .. } => end = end.max(*point),
            Repair::PublishJournal { end: upto } => {
                assert!(*upto > end);
                end = *upto;
            }
            Repair::KeepJournal { end: upto } => assert!(*upto >= end),
            _ => {}
        }
    }
    end
}

#[test]
fn every_subset_with_every_end_of_the_journal_is_repaired_or_refused() {
    let segments = [segment(0, 100), segment(100, 200)];
    let (mut repaired, mut refused) = (0, 0);
    // The objects: two segments, the index, the journal, a prepared transaction, the state.
    for set in 0..1_u32 << 6 {
        let has = |place: u32| set & 1 << place != 0;
        let ends: std::ops::Range<usize> = if has(3) { 0..6 } else { 0..1 };
        for count in ends {
            let mut seen = Seen::default();
            for (place, segment) in (0..).zip(segments) {
                if has(place) {
                    seen.segments.push(segment);
                    seen.undecided = Some(Vec::new());
                }
            }
            if has(2) {
                let named = segments.iter().map(|it| it.name);
                let absent = named.filter(|it| !seen.segments.iter().any(|seen| seen.name == *it));
                seen.indexed = absent.collect();
            }
            // At 0, the header of the journal is torn, too.
            seen.journal = (has(3) && count > 0).then(|| journal(count.saturating_sub(1)));
            if has(4) {
                seen.prepared.insert(P, 1);
            }
            seen.has_place = has(5);
            let what = format!("{set:06b} {count}");
            let things = count.saturating_sub(1);
            let Ok(repairs) = plan(&seen) else {
                refused += 1;
                let is_whole = has(0) && has(1) && (has(4) || !(1..=2).contains(&things));
                assert!(!is_whole, "{what} has what it needs");
                continue;
            };
            repaired += 1;
            let end = end_after(&seen, &repairs);
            assert!(!has(1) || has(0), "{what} has a gap");
            assert!(!has(2) || end >= Lsn(200), "{what}: the index names more");
            assert!(
                seen.journal.is_none() || end >= Lsn(200),
                "{what}: the journal begins later"
            );
            assert!(
                things < 2 || end >= Lsn(300),
                "{what}: the journal has more"
            );
            assert!(
                !(1..=2).contains(&things) || has(4),
                "{what} lacks a prepared transaction"
            );
            let forgets = repairs.contains(&Repair::ForgetPrepared {
                xid: P.xid,
                end: P.end,
            });
            // Without a segment and a journal, the prepared transaction stays.
            let is_known = !seen.segments.is_empty() || seen.journal.is_some();
            let is_undecided = (1..=2).contains(&things);
            assert_eq!(forgets, has(4) && is_known && !is_undecided, "{what}");
            assert_eq!(repairs.contains(&Repair::RemovePlace), has(5), "{what}");
        }
    }
    assert!(repaired > 20 && refused > 50, "{repaired} {refused}");
}

#[test]
fn every_subset_of_a_load_that_was_broken_off_is_repaired_or_refused() {
    let place = Place {
        start: Lsn(200),
        point: POINT,
        first: false,
        number: 1,
    };
    // Two segments before the load, two parts of the load, and two segments behind it.
    let segments = [
        segment(0, 100),
        segment(100, 200),
        part(200, 0),
        part(200, 1),
        segment(201, 300),
        segment(300, 400),
    ];
    for set in 0..1_u32 << 6 {
        for begin in [
            None,
            Some(Lsn(100)),
            Some(Lsn(200)),
            Some(POINT),
            Some(Lsn(400)),
        ] {
            let kept = (0..).zip(segments).filter(|(at, _)| set & 1 << at != 0);
            let seen = Seen {
                pending: Some(place.clone()),
                has_place: true,
                segments: kept.map(|it| it.1).collect(),
                journal: begin.map(|begin| SeenJournal {
                    header: Header::new(begin, &Source::default(), Vec::new()),
                    ..SeenJournal::default()
                }),
                ..Seen::default()
            };
            let what = format!("{set:06b} {begin:?}");
            let has = |at: u32| set & 1 << at != 0;
            let is_chain = (!has(1) || has(0))
                && (!has(2) && !has(3) && !has(4) || has(1))
                && (!has(3) || has(2))
                && (!has(5) || has(4));
            let end = [(5, 400), (4, 300), (1, 201), (0, 100)];
            let end = end.iter().find(|it| has(it.0)).map_or(0, |it| it.1);
            let is_right = is_chain && begin.is_none_or(|begin| begin.0 <= end);
            let Ok(repairs) = plan(&seen) else {
                assert!(!is_right, "{what} was refused");
                continue;
            };
            assert!(is_right, "{what} was not refused");
            assert_eq!(end_after(&seen, &repairs), Lsn(end), "{what}");
            assert!(repairs.contains(&Repair::RemovePlace), "{what}");
        }
    }
}

#[test]
fn a_log_begins_again_only_if_it_has_nothing_but_its_first_load_and_what_is_behind() {
    let segments = [
        part(0, 0),
        part(0, 1),
        segment(0, 150),
        segment(150, 200),
        segment(201, 300),
        segment(300, 400),
    ];
    for point in [Lsn::INVALID, POINT] {
        for set in 0..1_u32 << 6 {
            for boundary in [Lsn::INVALID, Lsn(50)] {
                let kept = (0..).zip(segments).filter(|(at, _)| set & 1 << at != 0);
                let seen = Seen {
                    boundary,
                    pending: Some(Place {
                        start: Lsn::INVALID,
                        point,
                        first: true,
                        number: 1,
                    }),
                    has_place: true,
                    segments: kept.map(|it| it.1).collect(),
                    ..Seen::default()
                };
                let is_its_own = set & 0b1100 == 0 && (point.is_valid() || set == 0);
                let expected = if is_its_own && !boundary.is_valid() {
                    Ok(vec![Repair::BeginAgain])
                } else {
                    Err(Damage::Place)
                };
                assert_eq!(plan(&seen), expected, "{set:06b} {point}");
            }
        }
    }
}

#[test]
fn what_a_segment_says_counts_if_it_has_all_of_the_journal() {
    let mut seen = Seen {
        segments: vec![segment(0, 200), segment(200, 300)],
        undecided: Some(Vec::new()),
        journal: Some(journal(2)),
        ..Seen::default()
    };
    // The commit at 300 and the decision were published, and the journal was not emptied.
    assert_eq!(plan(&seen), Ok(vec![Repair::ClearJournal]));
    seen.undecided = Some(undecided());
    assert_eq!(plan(&seen), Err(Damage::Prepared(P)));
    seen.prepared.insert(P, 2);
    assert_eq!(plan(&seen), Err(Damage::OtherPrepared(P)));
    seen.prepared.insert(P, 1);
    assert_eq!(plan(&seen), Ok(vec![Repair::ClearJournal]));
    // The journal is of another log, or has transactions from before the end of the segments.
    let with_slot = |slot: &str| {
        let mut source = Source::default();
        source.slot = Some(slot.to_owned());
        source
    };
    seen.source = Some(with_slot("another"));
    let mut other = journal(2);
    other.header.source = with_slot("mine");
    seen.journal = Some(other);
    assert_eq!(plan(&seen), Err(Damage::Journal));
    seen.source = None;
    seen.journal = Some(journal(4));
    assert_eq!(plan(&seen), Err(Damage::Order));
}

#[test]
fn the_segments_of_a_load_that_has_ended_are_not_forgotten() {
    let mut seen = Seen {
        loaded: Lsn(200),
        segments: vec![segment(0, 100), segment(100, 200)],
        ..Seen::default()
    };
    assert_eq!(plan(&seen), Ok(Vec::new()));
    seen.segments.pop();
    assert_eq!(plan(&seen), Err(Damage::Missing { after: Lsn(100) }));
    seen.boundary = Lsn(200);
    seen.segments.clear();
    assert_eq!(plan(&seen), Ok(Vec::new()));
}
