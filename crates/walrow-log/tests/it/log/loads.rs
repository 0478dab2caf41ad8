//! Loads: they take their place in the order of commits, or leave no trace.

use super::*;
use walrow_log::Load;
use walrow_stream::Catalog;
use walrow_wire::{Cell, Timestamp};

/// The course of a load beside the stream.
#[derive(Clone, Copy, Debug)]
struct Loading {
    /// The load's point.
    point: Lsn,
    /// The pieces of the stream before it begins.
    begin: usize,
    /// The number of rows, and the number of rows before each piece.
    rows: usize,
    step: usize,
    /// Whether the log begins with it.
    first: bool,
    /// Whether it is given up.
    gives_up: bool,
}

/// Two tables: a table with `id int8` and `note text`, and a table without columns and rows.
pub(crate) fn catalog() -> Catalog {
    let catalog = Catalog::from_json(
        r#"{"types": [], "tables": [
            {"schema": "public", "name": "loaded", "oid": 70001, "columns": [
                {"name": "id", "type": 20, "type_modifier": -1, "key": true},
                {"name": "note", "type": 25, "type_modifier": -1, "key": false}]},
            {"schema": "public", "name": "empty", "oid": 70002, "columns": []}]}"#,
    );
    catalog.unwrap()
}

pub(crate) fn tables() -> Vec<Relation> {
    let catalog = catalog();
    let tables = catalog.tables.iter();
    tables
        .map(|table| Relation::of_catalog(&catalog, table, ReplicaIdentity::Default))
        .collect()
}

pub(crate) fn rows(numbers: std::ops::Range<usize>) -> String {
    let rows = numbers.map(|row| format!("{row}\tnote {row}\\n\n"));
    rows.collect::<Vec<_>>().concat()
}

/// As `write_with`, with a load beside it.
fn write_and_load(
    store: &Memory,
    bytes: &[u8],
    plan: Plan,
    loading: Loading,
    confirmed: &mut Lsn,
) -> Result<(), Error> {
    let mut options = WriterOptions::default();
    (options.segment_bytes, options.level) = (plan.segment_bytes, plan.level);
    let mut writer = Writer::open(Arc::new(store.clone()), options)?;
    if loading.first {
        writer.plan_first_load()?;
    }
    let mut assembler = writer.resume(Assembler::default())?;
    if !loading.first {
        // The position of a keepalive before the first transaction.
        writer.advance(Lsn(4)).unwrap();
        *confirmed = crate::sync(&mut writer, &mut assembler)?
            .min(Lsn(4))
            .max(*confirmed);
    }
    let mut load: Option<Load> = None;
    let mut loaded = 0;
    let sizes = [plan.piece];
    let pieces = in_chunks(bytes, &sizes).map(Some);
    // The rest of the load comes after the stream. The load's place is known after a sync.
    let idle = std::iter::repeat_n(None, loading.rows / loading.step + 2 + plan.sync);
    for (at, piece) in pieces.chain(idle).enumerate() {
        if at == loading.begin {
            load = Some(writer.begin_load(loading.point, Timestamp(7), tables())?);
        }
        if let Some(mut rest) = piece {
            writer.append(&mut assembler, &mut rest)?;
            writer.set_timeline(u32::try_from(at / 3).unwrap(), None)?;
        } else if load.is_some() {
            // The server has decoded everything.
            writer.advance(Lsn(u64::MAX / 2)).unwrap();
        }
        if at % plan.sync == 0 {
            *confirmed = crate::sync(&mut writer, &mut assembler)?;
        }
        if plan.fills {
            writer.fill()?;
        }
        if at % plan.publish == 0 || writer.is_full()? {
            writer.publish(&mut assembler)?;
        }
        if let Some(running) = &load {
            let more = loaded..(loaded + loading.step).min(loading.rows);
            let mut copy = running.copy(0, false).unwrap();
            running.append(&mut copy, rows(more.clone()).as_bytes())?;
            loaded = more.end;
            if loading.gives_up && loaded * 2 >= loading.rows {
                writer.give_up_load(running, &mut assembler)?;
                load = None;
            } else if loaded == loading.rows && writer.end_load(running)? {
                load = None;
            }
        }
    }
    *confirmed = crate::sync(&mut writer, &mut assembler)?;
    writer.publish(&mut assembler)?;
    assert!(load.is_none(), "the load has no place");
    Ok(())
}

#[test]
fn a_load_from_before_a_switch_does_not_hide_the_timeline() {
    for first in [false, true] {
        let store = Memory::default();
        let open = || Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
        let mut writer = open();
        if first {
            writer.plan_first_load().unwrap();
        }
        let mut assembler = writer.resume(Assembler::default()).unwrap();
        writer.set_timeline(1, None).unwrap();
        let load = writer
            .begin_load(Lsn(0x2000), Timestamp(7), tables())
            .unwrap();
        let mut copy = load.copy(0, false).unwrap();
        load.append(&mut copy, rows(0..3).as_bytes()).unwrap();
        writer.set_timeline(2, None).unwrap();
        writer.advance(Lsn(0x3000)).unwrap();
        crate::sync(&mut writer, &mut assembler).unwrap();
        assert_eq!(writer.end_load(&load), Ok(true));
        drop(writer);
        store.reboot();
        let log = Log::open(Arc::new(store.clone())).unwrap();
        assert_eq!(log.source().timeline, Some(1));
        let writer = open();
        assert_eq!(writer.position(), Lsn(0x3000));
        assert_eq!(writer.source().unwrap().timeline, Some(2), "{first}");
    }
}

/// The lines before the load, the load's lines, and the lines after it.
fn around_load(mut lines: Vec<String>) -> (Vec<String>, Vec<String>, Vec<String>) {
    let Some(begin) = lines.iter().position(|it| it.contains("snapshot: true")) else {
        return (lines, Vec::new(), Vec::new());
    };
    let mut load = lines.split_off(begin);
    let end = load.iter().position(|it| it.ends_with(" changes"));
    let after = load.split_off(end.unwrap() + 1);
    assert!(!after.iter().any(|it| it.contains("snapshot: true")));
    (lines, load, after)
}

/// The parts of a stream's contents before and after an LSN.
fn split_at(bytes: &[u8], point: Lsn) -> (Vec<String>, Vec<String>) {
    let (mut assembler, mut input) = (Assembler::default(), bytes);
    let mut before = 0;
    while let Some(event) = assembler.next(&mut input).unwrap() {
        let lsn = match &event {
            Event::Begin(transaction) => transaction.commit_lsn,
            Event::Message(message) if !message.transactional => message.lsn,
            _ => Lsn::INVALID,
        };
        if lsn >= point {
            break;
        }
        let counts = matches!(
            event,
            Event::Begin(_)
                | Event::Change(_)
                | Event::Truncate(_)
                | Event::Message(_)
                | Event::Commit { .. }
        );
        before += usize::from(counts);
    }
    let mut lines = contents([bytes]);
    let after = lines.split_off(before);
    (lines, after)
}

/// How many pieces may be appended before a load with this point begins.
fn pieces_before(bytes: &[u8], piece: usize, point: Lsn) -> usize {
    let (mut assembler, mut count) = (Assembler::default(), 0);
    for piece in in_chunks(bytes, &[piece]) {
        let mut input = piece;
        while let Some(event) = assembler.next(&mut input).unwrap() {
            let lsn = match event {
                Event::Commit { transaction, .. } => transaction.end_lsn,
                Event::Message(message) if !message.transactional => message.lsn,
                _ => continue,
            };
            if lsn >= point {
                return count;
            }
        }
        count += 1;
    }
    count
}

fn check_rows(load: &[String], count: usize) {
    assert_eq!(load.len(), count + 3, "{load:?}");
    assert!(load[0].contains("commit_time: Timestamp(7)"), "{}", load[0]);
    assert!(load[1].starts_with("(0, "), "{}", load[1]);
    assert!(load[1].contains(", false, false) "), "{}", load[1]);
    assert!(load[1].contains("loaded") && load[1].contains("empty"));
    for (row, line) in load[2..count + 2].iter().enumerate() {
        let (id, note) = (row.to_string(), format!("note {row}\n"));
        let cells = format!(
            "{:?}",
            [Cell::Text(id.as_bytes()), Cell::Text(note.as_bytes())]
        );
        assert!(line.contains(&cells), "{line} has not {cells}");
        assert!(line.starts_with(&format!("({},", row + 1)), "{line}");
    }
    assert_eq!(load[count + 2], format!("{} changes", count + 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::cases(8)))]

    /// A load runs beside any stream, and the store crashes at each operation.
    #[test]
    fn a_load_has_its_place_or_leaves_no_trace(
        history in arbitrary::<History>(900),
        piece in 50_usize..1_000,
        (sync, publish) in (1_usize..6, 1_usize..9),
        segment_bytes in prop::sample::select(vec![200_u64, 900, 1 << 20]),
        survive in prop::sample::select(vec![0_usize, 7, 10_000]),
        (place, early) in any::<(prop::sample::Index, prop::sample::Index)>(),
        (count, step) in (0_usize..40, 1_usize..20),
        fills: bool,
        gives_up: bool,
    ) {
        let bytes = history.whole().bytes();
        let plan = Plan { segment_bytes, level: None, piece, sync, publish, fills, syncs: true };
        if write(&Memory::default(), &bytes, plan, &mut Lsn::default()).is_err() {
            return Ok(());
        }
        let mut points: Vec<Lsn> = commits(&bytes).iter().map(|(lsn, _)| *lsn).collect();
        points.retain(|lsn| lsn.0 > 1);
        points.push(Lsn(u64::MAX / 4));
        let point = points[place.index(points.len())];
        let begin = early.index(pieces_before(&bytes, piece, point) + 1);
        let loading = Loading { point, begin, rows: count, step, first: false, gives_up };
        let whole = Memory::default();
        if write_and_load(&whole, &bytes, plan, loading, &mut Lsn::default()).is_err() {
            // The stream's commits are not in order.
            return Ok(());
        }
        let (before, after) = split_at(&bytes, point);
        let both = [before.clone(), after.clone()].concat();
        let (found_before, load, found_after) = around_load(read(&whole));
        if gives_up {
            prop_assert_eq!(&found_before, &both);
        } else {
            prop_assert_eq!(&found_before, &before);
            prop_assert_eq!(&found_after, &after);
            check_rows(&load, count);
        }
        let with_load = read(&whole);
        at_every_crash(survive, |crash| {
            let store = Memory::default();
            let mut confirmed = Lsn::default();
            let written = crash.during(&store, || {
                write_and_load(&store, &bytes, plan, loading, &mut confirmed)
            });
            // Readers see all of the load, or end before it.
            let seen = Log::open(Arc::new(store.clone())).map_or(Vec::new(), |_| {
                contents([&*stream_of(&store)])
            });
            assert!(
                with_load.starts_with(&seen) || both.starts_with(&seen),
                "a reader after a crash at operation {}", crash.call
            );
            if written.is_err() {
                write(&store, &bytes, plan, &mut confirmed).unwrap();
            }
            let found = read(&store);
            assert!(found == with_load || found == both, "a crash at {}", crash.call);
            if seen.len() > before.len() {
                assert!(found.starts_with(&seen), "what was seen has changed");
            }
        });
    }

    /// Without its first load, a log is empty.
    #[test]
    fn a_log_begins_with_its_first_load_or_is_empty(
        history in arbitrary::<History>(500),
        piece in 50_usize..1_000,
        publish in 1_usize..9,
        segment_bytes in prop::sample::select(vec![200_u64, 1 << 20]),
        survive in prop::sample::select(vec![0_usize, 7, 10_000]),
        (count, step) in (0_usize..40, 1_usize..20),
    ) {
        let bytes = history.whole().bytes();
        let plan =
            Plan { segment_bytes, level: None, piece, sync: 1, publish, fills: true, syncs: true };
        let point = Lsn(8);
        let loading = Loading { point, begin: 0, rows: count, step, first: true, gives_up: false };
        let whole = Memory::default();
        if write_and_load(&whole, &bytes, plan, loading, &mut Lsn::default()).is_err() {
            return Ok(());
        }
        let expected = read(&whole);
        let (before, load, after) = around_load(expected.clone());
        prop_assert_eq!(before, Vec::<String>::new());
        prop_assert_eq!(after, contents([&*bytes]));
        check_rows(&load, count);
        at_every_crash(survive, |crash| {
            let store = Memory::default();
            let written = crash.during(&store, || {
                write_and_load(&store, &bytes, plan, loading, &mut Lsn::default())
            });
            if written.is_ok() {
                assert_eq!(read(&store), expected);
                return;
            }
            let writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
            let lines = read(&store);
            if writer.lacks_first_load() {
                assert!(lines.is_empty() && !writer.position().is_valid());
                drop(writer);
                write_and_load(&store, &bytes, plan, loading, &mut Lsn::default()).unwrap();
                assert_eq!(read(&store), expected);
            } else {
                assert!(expected.starts_with(&lines));
            }
        });
    }
}

#[test]
fn a_load_is_refused_where_it_would_be_wrong() {
    let bytes = Stream::new().session().begin(0x1000, 7).commit().bytes();
    let store = Memory::default();
    let mut writer = Writer::open(Arc::new(store), WriterOptions::default()).unwrap();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    writer.append(&mut assembler, &mut &*bytes).unwrap();
    let early = writer.begin_load(Lsn(0x1000), Timestamp(0), tables());
    assert!(matches!(early.unwrap_err().kind, ErrorKind::Load { .. }));
    let late = writer.plan_first_load();
    assert!(matches!(late.unwrap_err().kind, ErrorKind::Load { .. }));
    let load = writer
        .begin_load(Lsn(0x2000), Timestamp(0), tables())
        .unwrap();
    let second = writer.begin_load(Lsn(0x3000), Timestamp(0), tables());
    assert!(matches!(second.unwrap_err().kind, ErrorKind::Load { .. }));
    assert!(
        !writer.end_load(&load).unwrap(),
        "what is before may still come"
    );
    let mut copy = load.copy(0, false).unwrap();
    let cut = load.append(&mut copy, b"1\tcut");
    assert!(matches!(cut.unwrap_err().kind, ErrorKind::Copy(_)));
    assert!(load.copy(2, false).is_none());
}
