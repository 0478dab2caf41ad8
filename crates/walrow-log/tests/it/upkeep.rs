//! Processes that change a log beside its writer. Each runs between any two steps of another
//! process.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::faults::at_every_crash;
use crate::world::Memory;
use std::sync::{Arc, Mutex};
use walrow_log::{
    Compacted, DamagedPart, Directory, Erase, Eraser, Error, ErrorKind, Log, Objects, Plan, Put,
    Retention, Segment, Store, Upkeep, Writer, WriterOptions,
};
use walrow_stream::{Assembler, Catalog, CatalogColumn, CatalogTable};
use walrow_testkit::{Stream, text};
use walrow_wire::{Lsn, ReplicaIdentity, Timestamp};

/// The end LSN of a transaction of `log_of`.
const fn end(number: u64) -> Lsn {
    Lsn(0x1000 * number + Stream::RECORD)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp(Stream::time(0) + seconds * 1_000_000)
}

/// A log of transactions with one insert each. Each transaction is a segment. Each entry has the
/// name of the second column, and the replica identity. `catalog` returns the catalog for a name.
fn log_with(
    transactions: &[(&str, ReplicaIdentity)],
    catalog: impl Fn(&str) -> Option<Catalog>,
) -> Memory {
    let store = Memory::default();
    let mut options = WriterOptions::default();
    options.level = None;
    let mut writer = Writer::open(Arc::new(store.clone()), options).unwrap();
    let mut assembler = Assembler::default();
    for (number, (name, identity)) in (1..).zip(transactions) {
        let mut stream = Stream::new();
        if number == 1 {
            stream = stream.session();
        }
        if let Some(catalog) = catalog(name) {
            writer.extend_catalog(&catalog).unwrap();
        }
        let is_full = *identity == ReplicaIdentity::Full;
        let columns = [("id", 23, -1, true), (name, 25, -1, is_full)];
        let cells = [text(number.to_string()), text(format!("secret {number}"))];
        let stream = stream
            .begin(0x1000 * number, u32::try_from(number).unwrap())
            .relation(1, "public", "t", *identity, &columns)
            .insert(1, &cells)
            .commit();
        writer
            .append(&mut assembler, &mut &*stream.bytes())
            .unwrap();
        writer.publish(&mut assembler).unwrap().unwrap();
    }
    store
}

fn log_of(count: usize) -> Memory {
    log_with(&vec![("name", ReplicaIdentity::Default); count], |_| None)
}

fn open(store: &Memory) -> Upkeep {
    Upkeep::open(Arc::new(store.clone())).unwrap()
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind
}

/// An act of a process on a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    RegisterAt(u64),
    Register,
    Rewind(u64),
    Advance(u64),
    Forget,
    Prune(u64),
    Retain,
    ForgetUnused,
    Compact,
}

const ACTS: [Act; 10] = [
    Act::RegisterAt(1),
    Act::RegisterAt(3),
    Act::Register,
    Act::Rewind(1),
    Act::Advance(4),
    Act::Forget,
    Act::Prune(3),
    Act::Retain,
    Act::ForgetUnused,
    Act::Compact,
];

impl Act {
    fn run(self, log: &mut Upkeep) -> Result<(), Error> {
        let mut retention = Retention::default();
        match self {
            Self::RegisterAt(number) => {
                log.register("new", Some(end(number)), at(100))?;
            }
            Self::Register => {
                log.register("new", None, at(100))?;
            }
            Self::Rewind(number) => {
                log.rewind("old", end(number), at(100))?;
            }
            Self::Advance(number) => {
                log.advance("old", end(number), at(100))?;
            }
            Self::Forget => log.forget("old")?,
            Self::Prune(number) => {
                log.prune(end(number), false)?;
            }
            Self::Retain => {
                retention.bytes = Some(0);
                log.retain(&retention, at(100))?;
            }
            Self::ForgetUnused => {
                (retention.bytes, retention.forget_after) = (Some(0), Some(10_000_000));
                log.retain(&retention, at(50))?;
            }
            Self::Compact => {
                log.compact(1 << 20, &mut || Ok(()))?;
            }
        }
        Ok(())
    }

    const fn removes(self) -> bool {
        matches!(
            self,
            Self::Prune(_) | Self::Retain | Self::ForgetUnused | Self::Compact
        )
    }
}

/// Whether an act may come here. Other acts would wait for a lock that another process has.
fn may_come(store: &Memory, act: Act) -> bool {
    !(store.is_locked("_lock") || act.removes() && store.is_locked("_upkeep"))
}

/// Checks that the log has the segments that the readers need, and each reader that was registered
/// or used.
fn check(store: &Memory, done: &[(Act, Result<(), Error>)]) {
    let log = open(store);
    for reader in log.readers().unwrap() {
        assert!(
            reader.position >= log.start(),
            "{done:?}: {reader:?} {}",
            log.start()
        );
        let mut plan = Plan::default();
        plan.start = reader.position;
        log.plan(&plan).unwrap();
    }
    let has =
        |act: &dyn Fn(Act) -> bool| done.iter().any(|(it, result)| act(*it) && result.is_ok());
    let names: Vec<_> = log
        .readers()
        .unwrap()
        .into_iter()
        .map(|it| it.name)
        .collect();
    if has(&|act| matches!(act, Act::RegisterAt(_) | Act::Register)) {
        assert!(names.iter().any(|it| it == "new"), "{done:?}");
    }
    let is_used = has(&|act| matches!(act, Act::Rewind(_) | Act::Advance(_)));
    if is_used && !has(&|act| act == Act::Forget) {
        assert!(names.iter().any(|it| it == "old"), "{done:?}");
    }
    for (act, result) in done {
        if let Err(error) = result {
            let is_right = matches!(
                error.kind,
                ErrorKind::Pruned { .. }
                    | ErrorKind::Held { .. }
                    | ErrorKind::NoReader { .. }
                    | ErrorKind::Backwards { .. }
                    | ErrorKind::Busy
                    // On a store without the lock, another process has changed the object.
                    | ErrorKind::Store {
                        kind: std::io::ErrorKind::Other,
                        ..
                    }
            );
            assert!(is_right, "{act:?}: {error}");
        }
    }
}

/// Runs the first act, the second act before one of its operations, and the third act within the
/// second. Does so for each operation. Returns the number of runs, and the number of runs with an
/// act in between.
fn interleave(base: &Memory, acts: (Act, Act, Option<Act>), has_lock: bool) -> (usize, usize) {
    let (first, second, third) = acts;
    let (mut runs, mut between) = (0, 0);
    for operation in 1.. {
        let store = base.copied();
        if !has_lock {
            store.share("_lock");
        }
        let mut log = open(&store);
        let done = Arc::new(Mutex::new(Vec::new()));
        let (nested, results) = (store.clone(), Arc::clone(&done));
        store.before(operation, move || {
            if !may_come(&nested, second) {
                return;
            }
            let mut log = open(&nested);
            if let Some(third) = third {
                let (inner, results) = (nested.clone(), Arc::clone(&results));
                // At another place each time.
                nested.before(1 + operation * 7 % 23, move || {
                    if may_come(&inner, third) {
                        let result = third.run(&mut open(&inner));
                        results.lock().unwrap().push((third, result));
                    }
                });
            }
            let result = second.run(&mut log);
            nested.forget_hook();
            results.lock().unwrap().push((second, result));
        });
        let result = first.run(&mut log);
        let is_over = store.forget_hook();
        let mut done = std::mem::take(&mut *done.lock().unwrap());
        between += usize::from(!done.is_empty());
        done.push((first, result));
        check(&store, &done);
        runs += 1;
        if is_over {
            break;
        }
    }
    (runs, between)
}

#[test]
fn no_order_of_registering_and_removing_leaves_a_reader_with_a_gap() {
    let base = log_of(6);
    open(&base).register("old", Some(end(2)), at(0)).unwrap();
    let (mut runs, mut between) = (0, 0);
    for first in ACTS {
        for second in ACTS {
            let thirds = match (first.removes(), second.removes()) {
                // These are the races.
                (true, false) => vec![None, Some(Act::Forget), Some(Act::Advance(4))],
                (false, true) => vec![None, Some(Act::Rewind(1)), Some(Act::RegisterAt(1))],
                _ => vec![None],
            };
            // All of them with the slow tests.
            let count = if walrow_testkit::is_slow() {
                thirds.len()
            } else {
                1
            };
            for third in thirds.into_iter().take(count) {
                let (more, came) = interleave(&base, (first, second, third), true);
                (runs, between) = (runs + more, between + came);
            }
        }
    }
    assert!(runs > 2000 && between > 500, "{runs} {between}");
}

/// On a store without the lock, whose swaps compare, the order of writing and reading is enough.
#[test]
fn without_the_lock_no_order_leaves_a_reader_with_a_gap_either() {
    let base = log_of(6);
    open(&base).register("old", Some(end(4)), at(0)).unwrap();
    let places = [
        Act::RegisterAt(1),
        Act::Register,
        Act::Rewind(1),
        Act::Advance(5),
    ];
    let removals = [Act::Prune(3), Act::Retain];
    let mut between = 0;
    for place in places {
        for removal in removals {
            between += interleave(&base, (place, removal, None), false).1;
            between += interleave(&base, (removal, place, None), false).1;
        }
    }
    assert!(between > 300, "{between}");
}

#[test]
fn others_go_on_while_segments_are_copied() {
    let store = log_of(6);
    let mut log = open(&store);
    log.register("r", Some(end(1)), at(0)).unwrap();
    let (mut steps, mut position) = (0, 1);
    let done = log.compact(1 << 20, &mut || {
        steps += 1;
        position = (position + 1).min(6);
        let before = std::time::Instant::now();
        open(&store).advance("r", end(position), at(1)).unwrap();
        open(&store).register("other", Some(end(1)), at(1)).unwrap();
        assert!(before.elapsed().as_secs() < 5, "they wait for the lock");
        // Two jobs never work at once.
        assert_eq!(
            kind(open(&store).compact(1 << 20, &mut || Ok(()))),
            ErrorKind::Busy
        );
        assert_eq!(kind(open(&store).prune(end(2), false)), ErrorKind::Busy);
        Ok(())
    });
    assert!(steps > 3);
    assert_eq!(done.unwrap().segments, 5);
    let store_ = store.clone();
    let quiet = Writer::quiet(Arc::new(store.clone())).unwrap();
    let mut erase = Erase::default();
    erase.tables.insert(1);
    erase.columns.insert("name".to_owned());
    let mut eraser = Eraser::open(quiet).unwrap();
    let erased = eraser.erase(&erase, &mut || {
        open(&store_).advance("r", end(6), at(1)).unwrap();
        assert_eq!(
            kind(open(&store_).compact(1 << 20, &mut || Ok(()))),
            ErrorKind::Busy
        );
        Ok(())
    });
    assert_eq!(erased.unwrap().rewritten, 2);
}

/// A step of a job, and a job.
type Step<'a> = &'a mut dyn FnMut() -> Result<(), Error>;
type Job<'a> = &'a dyn Fn(&Memory, Step<'_>) -> Result<(), Error>;

#[test]
fn a_step_that_fails_ends_the_job_and_another_call_goes_on() {
    let count = |job: Job<'_>| {
        let mut steps = 0;
        job(&log_of(4), &mut || {
            steps += 1;
            Ok(())
        })
        .unwrap();
        steps
    };
    let mut erase = Erase::default();
    erase.tables.insert(1);
    erase.columns.insert("name".to_owned());
    let compact = |store: &Memory, step: Step<'_>| open(store).compact(1 << 20, step).map(|_| ());
    let remove = |store: &Memory, step: Step<'_>| {
        let quiet = Writer::quiet(Arc::new(store.clone()))?;
        Eraser::open(quiet)?.erase(&erase, step).map(|_| ())
    };
    let verify = |store: &Memory, step: Step<'_>| {
        let log = open(store);
        log.segments()
            .iter()
            .try_for_each(|it| log.verify(it, step))
    };
    let jobs: [Job<'_>; 3] = [&compact, &remove, &verify];
    for job in jobs {
        let steps = count(job);
        assert!(steps >= 4, "{steps}");
        for last in 1..=steps {
            let store = log_of(4);
            let mut step = 0;
            let stopped = job(&store, &mut || {
                step += 1;
                if step == last {
                    return Err(ErrorKind::Interrupted.into());
                }
                Ok(())
            });
            assert_eq!(kind(stopped), ErrorKind::Interrupted);
            job(&store, &mut || Ok(())).unwrap();
            verify(&store, &mut || Ok(())).unwrap();
        }
    }
}

/// Segments that a crash has left after the log began later.
#[test]
fn a_removal_that_was_not_completed_is_completed_without_more_to_remove() {
    let mut left = 0;
    at_every_crash(0, |crash| {
        let store = log_of(6);
        let mut log = open(&store);
        let _ = crash.during(&store, || log.prune(end(4), false));
        let start = open(&store).start();
        let hidden = |store: &Memory| {
            let segments = store.segments().into_iter();
            segments.filter(|(name, _)| name.start < start).count()
        };
        left += hidden(&store);
        let mut retention = Retention::default();
        retention.bytes = Some(1 << 30);
        open(&store).retain(&retention, at(100)).unwrap();
        assert_eq!(hidden(&store), 0, "{}", crash.call);
        // A reader can register at each position that is left.
        let position = start.max(end(1));
        let mut log = open(&store);
        assert_eq!(
            log.register("r", Some(position), at(0)).unwrap().position,
            position
        );
    });
    assert!(left > 5);
}

#[test]
fn a_reader_is_registered_although_a_remover_has_crashed_before() {
    let mut settled = 0;
    at_every_crash(0, |crash| {
        let store = log_of(6);
        let mut log = open(&store);
        let _ = crash.during(&store, || log.prune(end(4), false));
        let start = open(&store).start();
        let registered = open(&store).register("r", Some(end(1)), at(0));
        if start <= end(1) {
            registered.unwrap();
            settled += 1;
        } else {
            assert!(matches!(kind(registered), ErrorKind::Pruned { .. }));
        }
    });
    assert!(settled > 5);
}

#[test]
fn room_is_made_on_a_full_disk() {
    for forces in [false, true] {
        let store = log_of(6);
        store.fill();
        assert_eq!(open(&store).prune(end(3), forces).unwrap(), 3);
        assert_eq!(open(&store).start(), end(3));
        let mut retention = Retention::default();
        (retention.bytes, retention.force) = (Some(0), forces);
        store.fill();
        assert_eq!(
            open(&store).retain(&retention, at(100)).unwrap().segments,
            2
        );
    }
    // An earlier removal has kept room for a later removal, also without an index.
    let store = log_of(6);
    open(&store).prune(end(1), false).unwrap();
    store.lose("_index");
    store.fill();
    assert_eq!(open(&store).prune(end(3), false).unwrap(), 2);
    // A reader still holds segments.
    let store = log_of(6);
    open(&store).register("r", Some(end(2)), at(0)).unwrap();
    store.fill();
    assert!(matches!(
        kind(open(&store).prune(end(3), false)),
        ErrorKind::Held { .. }
    ));
    let mut retention = Retention::default();
    retention.bytes = Some(0);
    assert_eq!(
        open(&store).retain(&retention, at(100)).unwrap().segments,
        2
    );
    assert_eq!(open(&store).start(), end(2));
}

#[test]
fn versions_that_differ_in_the_replica_identity_stay_apart() {
    let mut identities = vec![("name", ReplicaIdentity::Default); 4];
    identities.insert(0, ("name", ReplicaIdentity::Nothing));
    let store = log_with(&identities, |_| None);
    let counts = |log: &Log| {
        let tables = log.segments().iter().flat_map(|it| &it.tables);
        let mut counts: Vec<_> = tables
            .map(|it| (log.versions().get(it.version).unwrap().identity, it.rows))
            .collect();
        counts.sort_unstable();
        let mut sums: Vec<(char, u64)> = Vec::new();
        for (identity, rows) in counts {
            match sums.last_mut().filter(|it| it.0 == identity) {
                Some(sum) => sum.1 += rows,
                None => sums.push((identity, rows)),
            }
        }
        sums
    };
    let before = counts(&open(&store));
    assert_eq!(before, [('d', 4), ('n', 1)]);
    open(&store).compact(1 << 20, &mut || Ok(())).unwrap();
    let log = open(&store);
    assert_eq!(counts(&log), before);
    for segment in log.segments() {
        log.verify(segment, &mut || Ok(())).unwrap();
    }
    // They stay apart after an erasure, too.
    let mut erase = Erase::default();
    erase.tables.insert(1);
    erase.columns.insert("name".to_owned());
    let quiet = Writer::quiet(Arc::new(store.clone())).unwrap();
    Eraser::open(quiet)
        .unwrap()
        .erase(&erase, &mut || Ok(()))
        .unwrap();
    assert_eq!(counts(&open(&store)), before);
}

/// Writes a segment's foot again.
fn forge(store: &Memory, place: usize, from: &str, to: &str) {
    let (name, bytes) = store.segments().swap_remove(place);
    let size = |at: usize| {
        let bytes = &bytes[at..at + 4];
        u32::from_le_bytes(bytes.try_into().unwrap()) as usize
    };
    let json = bytes.len() - 16 - size(bytes.len() - 12);
    let text = std::str::from_utf8(&bytes[json..bytes.len() - 16]).unwrap();
    let forged = text.replace(from, to);
    assert_ne!(forged, text);
    let mut out = bytes[..json - 8].to_vec();
    let size = u32::try_from(forged.len()).unwrap();
    out.extend_from_slice(&0x184D_2A57_u32.to_le_bytes());
    out.extend_from_slice(&(size + 16).to_le_bytes());
    out.extend_from_slice(forged.as_bytes());
    out.extend_from_slice(&crc32c::crc32c(forged.as_bytes()).to_le_bytes());
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(&bytes[bytes.len() - 8..]);
    store.set(&name.to_string(), &out);
}

fn verified(store: &Memory) -> Result<(), Error> {
    let log = Log::open(Arc::new(store.clone()))?;
    log.segments()
        .iter()
        .try_for_each(|it| log.verify(it, &mut || Ok(())))
}

#[test]
fn a_forged_foot_index_or_state_is_found() {
    let whole = log_of(3);
    verified(&whole).unwrap();
    let lies = [
        ("\"rows\":1", "\"rows\":2"),
        ("\"rows\":1", "\"rows\":0"),
        ("\"truncates\":0", "\"truncates\":1"),
        ("\"transactions\":1", "\"transactions\":2"),
        ("\"name\":\"t\"", "\"name\":\"u\""),
        ("\"identity\":\"d\"", "\"identity\":\"n\""),
        ("\"oid\":1", "\"oid\":2"),
        ("\"times\":[", "\"times\":[1"),
    ];
    for (from, to) in lies {
        let store = whole.copied();
        forge(&store, 1, from, to);
        store.lose("_index");
        let error = verified(&store).unwrap_err();
        let what = DamagedPart::Foot;
        assert_eq!(error.kind, ErrorKind::Damaged { what }, "{to}");
        // The index is right.
        let store = whole.copied();
        forge(&store, 1, from, to);
        let error = verified(&store).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Damaged { .. }), "{to}");
    }
    // An index that lies about the second segment: rows, or tables.
    for (from, to) in [
        ("\"rows\":1", "\"rows\":7"),
        ("\"name\":\"t\"", "\"name\":\"x\""),
    ] {
        let store = whole.copied();
        let objects = store.objects();
        let (_, bytes) = objects.iter().find(|(name, _)| name == "_index").unwrap();
        let (mut rest, mut out) = (&**bytes, Vec::new());
        while let Some((head, more)) = rest.split_first_chunk::<8>() {
            let size = u32::from_le_bytes(head[..4].try_into().unwrap()) & !(1 << 31);
            let (json, more) = more.split_at(size as usize);
            let json = std::str::from_utf8(json).unwrap().replacen(from, to, 1);
            let size = u32::try_from(json.len()).unwrap() | 1 << 31;
            out.extend_from_slice(&size.to_le_bytes());
            out.extend_from_slice(&crc32c::crc32c(json.as_bytes()).to_le_bytes());
            out.extend_from_slice(json.as_bytes());
            rest = more;
        }
        assert_ne!(out, *bytes);
        store.set("_index", &out);
        let error = verified(&store).unwrap_err();
        let what = DamagedPart::Index;
        assert_eq!(error.kind, ErrorKind::Damaged { what }, "{to}");
        assert_eq!(error.object, "_index");
    }
}

/// Two indexes have the same size. The writer notices that its own index has no name any more.
#[test]
fn a_writer_appends_to_the_index_that_has_the_name() {
    let store = log_of(3);
    let objects = store.objects();
    let mut writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    let (_, index) = objects.iter().find(|(name, _)| name == "_index").unwrap();
    store.set("_index", index);
    let stream = Stream::new().session().begin(0x9000, 9).commit();
    writer
        .append(&mut assembler, &mut &*stream.bytes())
        .unwrap();
    writer.publish(&mut assembler).unwrap().unwrap();
    let objects = store.objects();
    let (_, now) = objects.iter().find(|(name, _)| name == "_index").unwrap();
    assert!(now.len() > index.len());
}

/// Counts the operations of the store to read a log of `count` segments that were merged after it
/// was opened.
fn operations_of(count: usize) -> usize {
    let store = log_of(count);
    let log = Log::open(Arc::new(store.clone())).unwrap();
    let merged = open(&store).compact(1 << 20, &mut || Ok(())).unwrap();
    assert_eq!(merged, {
        let mut expected = Compacted::default();
        (expected.segments, expected.merged) = (count - 1, 1);
        expected.bytes = merged.bytes;
        expected
    });
    let names = log.plan(&Plan::default()).unwrap();
    assert_eq!(names.len(), count);
    let before = store.operations();
    let mut stream = log.read(&names, Lsn::INVALID).unwrap();
    let (mut bytes, mut chunk) = (0, Vec::new());
    while stream.read(&mut chunk).unwrap() {
        bytes += chunk.len() as u64;
    }
    let expected: u64 = log.segments().iter().map(|it| it.stream_bytes).sum();
    assert_eq!(bytes, expected);
    store.operations() - before
}

#[test]
fn members_of_a_merged_segment_are_found_once() {
    let (few, many) = (operations_of(10), operations_of(40));
    assert!(many < few + 3 * 30, "{few} {many}");
    // Each part is right, whichever segments are wanted.
    let store = log_of(9);
    let log = Log::open(Arc::new(store.clone())).unwrap();
    let alone: Vec<_> = log
        .segments()
        .iter()
        .map(|it| stream(&log, &[it]))
        .collect();
    open(&store).compact(1 << 20, &mut || Ok(())).unwrap();
    for wanted in 0..1_u32 << 9 {
        let chosen = log.segments().iter().enumerate();
        let chosen = chosen.filter(|(place, _)| wanted & (1 << place) != 0);
        let (places, chosen): (Vec<_>, Vec<_>) = chosen.unzip();
        let expected: Vec<u8> = places.iter().flat_map(|it| alone[*it].clone()).collect();
        assert!(stream(&log, &chosen) == expected, "{wanted:b}");
    }
}

pub(crate) fn stream(log: &Log, segments: &[&Segment]) -> Vec<u8> {
    let names: Vec<_> = segments.iter().map(|it| it.name()).collect();
    let mut stream = log.read(&names, Lsn::INVALID).unwrap();
    let (mut out, mut chunk) = (Vec::new(), Vec::new());
    while stream.read(&mut chunk).unwrap() {
        out.extend_from_slice(&chunk);
    }
    out
}

/// Whether an object has these bytes: the segments are not compressed.
fn has_bytes(store: &Memory, words: &str) -> bool {
    let objects = store.objects();
    let mut objects = objects.iter();
    objects.any(|(_, it)| it.windows(words.len()).any(|it| it == words.as_bytes()))
}

#[test]
fn a_column_is_erased_under_its_earlier_names() {
    let numbered = |name: &str| {
        let mut columns = vec![
            CatalogColumn::new("id", 23, -1),
            CatalogColumn::new(name, 25, -1),
        ];
        for (number, column) in (1..).zip(&mut columns) {
            column.number = Some(number);
        }
        Some(Catalog::new(
            Vec::new(),
            vec![CatalogTable::new(1, "public", "t", columns)],
        ))
    };
    let names = [
        ("mail", ReplicaIdentity::Default),
        ("email", ReplicaIdentity::Default),
    ];
    let erase = |names: &[&str]| {
        let mut erase = Erase::default();
        erase.tables.insert(1);
        erase
            .columns
            .extend(names.iter().map(|it| (*it).to_owned()));
        erase
    };
    let run = |store: &Memory, erase: &Erase| {
        Eraser::open(Writer::quiet(Arc::new(store.clone()))?)?.erase(erase, &mut || Ok(()))
    };
    for name in ["mail", "email"] {
        let store = log_with(&names, numbered);
        assert!(has_bytes(&store, "secret 1") && has_bytes(&store, "secret 2"));
        assert_eq!(run(&store, &erase(&[name])).unwrap().rewritten, 2);
        assert!(!has_bytes(&store, "secret"), "{name}");
        verified(&store).unwrap();
        // After a crash at any time, another call goes on.
        at_every_crash(0, |crash| {
            let store = log_with(&names, numbered);
            let _ = crash.during(&store, || run(&store, &erase(&[name])));
            let mut columns = open(&store).versions().to_vec();
            columns.retain(|it| it.columns.iter().any(|it| it.0 == name));
            if !columns.is_empty() {
                run(&store, &erase(&[name])).unwrap();
            }
            assert!(!has_bytes(&store, "secret"), "{name} {}", crash.call);
        });
    }
    // The catalog does not have the attribute numbers.
    let store = log_with(&names, |_| None);
    let unclear = ErrorKind::EarlierName {
        table: "public.t".to_owned(),
        column: "email".to_owned(),
    };
    let before = store.segments();
    assert_eq!(kind(run(&store, &erase(&["email"]))), unclear);
    assert_eq!(store.segments(), before);
    assert_eq!(
        run(&store, &erase(&["email", "mail"])).unwrap().rewritten,
        2
    );
    assert!(!has_bytes(&store, "secret"));
}

/// Its writer has locked the staged object. So a sweep does not take it for an object of a process
/// that has ended.
#[test]
fn an_object_that_has_its_name_can_be_opened_by_its_writer() {
    let path = std::env::temp_dir().join(format!("walrow-named-{}", std::process::id()));
    let store = Directory::create(&path).unwrap();
    let mut staged = store.stage().unwrap();
    staged.append(b"one").unwrap();
    assert!(matches!(staged.create("_index"), Put::Done));
    drop(store.journal("_index").unwrap());
    let tag = store.open("_index").unwrap().tag().unwrap();
    let mut other = store.stage().unwrap();
    other.append(b"another").unwrap();
    assert_eq!(store.sweep().unwrap(), 0);
    assert!(matches!(other.swap("_index", &tag), Put::Done));
    drop(store.journal("_index").unwrap());
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn a_position_is_reached_although_the_segments_before_it_were_merged() {
    let store = log_of(2);
    let mut log = open(&store);
    log.register("r", None, at(0)).unwrap();
    let mut writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    for number in 3..=7 {
        let stream = Stream::new().session().begin(0x1000 * number, 9).commit();
        writer
            .append(&mut assembler, &mut &*stream.bytes())
            .unwrap();
        writer.publish(&mut assembler).unwrap().unwrap();
    }
    // The third segment is still there. The next segments are in a merged segment.
    let third = store.segments().swap_remove(2);
    open(&store).compact(1 << 20, &mut || Ok(())).unwrap();
    store.set(&third.0.to_string(), &third.1);
    assert_eq!(log.end(), end(2));
    let reader = log.advance("r", end(7), at(1)).unwrap();
    assert_eq!(reader.position, end(7));
}

/// Memory where there is some: only waiting for the lock counts, not the disk.
fn in_memory() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

#[test]
#[ignore = "slow: merges 1 GiB"]
fn a_reader_advances_while_a_gibibyte_is_merged_and_never_waits_for_long() {
    let place = in_memory();
    let store = Arc::new(Directory::create(place.path().join("log")).unwrap());
    let mut options = WriterOptions::default();
    options.level = None;
    let mut writer = Writer::open(store.clone(), options).unwrap();
    let mut assembler = Assembler::default();
    let value = text("x".repeat(1 << 20));
    for number in 1..=65 {
        let mut stream = Stream::new();
        if number == 1 {
            stream = stream.session();
        }
        let columns = [("id", 23, -1, true), ("v", 25, -1, false)];
        stream = stream
            .begin(0x1000 * number, u32::try_from(number).unwrap())
            .relation(1, "public", "t", ReplicaIdentity::Default, &columns);
        for row in 0..16 {
            let id = text((number * 100 + row).to_string());
            stream = stream.insert(1, &[id, value.clone()]);
        }
        let bytes = stream.commit().bytes();
        writer.append(&mut assembler, &mut &*bytes).unwrap();
        writer.publish(&mut assembler).unwrap().unwrap();
    }
    let mut reader = Upkeep::open(store.clone()).unwrap();
    reader.register("r", None, at(0)).unwrap();
    let merging = std::thread::spawn(move || {
        let mut log = Upkeep::open(store).unwrap();
        log.compact(2 << 30, &mut || Ok(())).unwrap()
    });
    let (mut longest, mut count) = (std::time::Duration::ZERO, 0);
    while !merging.is_finished() || count < 1000 {
        let began = std::time::Instant::now();
        reader.advance("r", Lsn::INVALID, at(count)).unwrap();
        longest = longest.max(began.elapsed());
        count += 1;
    }
    let merged = merging.join().unwrap();
    assert!(merged.bytes > 1 << 30, "{merged:?}");
    assert!(
        longest.as_millis() <= 100,
        "{longest:?} of {count} advances"
    );
}
