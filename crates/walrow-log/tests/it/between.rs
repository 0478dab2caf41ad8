//! Another process acts between two operations of the store.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::sync;
use crate::world::Memory;
use std::io;
use std::sync::{Arc, Mutex};
use walrow_log::{
    Journal, Lock, Log, Objects, Put, ReadAt, Staged, Store, Tag, Upkeep, Writer, WriterOptions,
};
use walrow_stream::Assembler;
use walrow_testkit::{Stream, text};
use walrow_wire::{Lsn, ReplicaIdentity};

/// Is called with the names of the objects.
type Removed = dyn FnMut(&[&str]) + Send;

/// A store that calls somebody after it has removed objects, may lose an answer, and may refuse names.
#[derive(Clone)]
struct Between {
    store: Memory,
    removed: Arc<Mutex<Removed>>,
    loses: Arc<Mutex<bool>>,
    /// How many objects get a name.
    names: Arc<Mutex<usize>>,
}

impl std::fmt::Debug for Between {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Between").finish_non_exhaustive()
    }
}

impl Between {
    fn new(store: &Memory, removed: impl FnMut(&[&str]) + Send + 'static) -> Self {
        Self {
            store: store.clone(),
            removed: Arc::new(Mutex::new(removed)),
            loses: Arc::default(),
            names: Arc::new(Mutex::new(usize::MAX)),
        }
    }
}

impl Objects for Between {
    fn list(&self) -> io::Result<Vec<String>> {
        self.store.list()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>> {
        self.store.open(name)
    }
}

impl Store for Between {
    fn stage(&self) -> io::Result<Box<dyn Staged>> {
        Ok(Box::new(Loses(self.clone(), self.store.stage()?)))
    }

    fn remove(&self, names: &[&str]) -> io::Result<()> {
        self.store.remove(names)?;
        (self.removed.lock().unwrap())(names);
        Ok(())
    }

    fn journal(&self, name: &str) -> io::Result<Box<dyn Journal>> {
        self.store.journal(name)
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.store.lock(name)
    }

    fn check(&self) -> io::Result<()> {
        self.store.check()
    }

    fn sweep(&self) -> io::Result<usize> {
        self.store.sweep()
    }
}

/// An object whose answer may get lost when it gets its name.
#[derive(Debug)]
struct Loses(Between, Box<dyn Staged>);

impl Staged for Loses {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.1.append(bytes)
    }

    fn create(&mut self, name: &str) -> Put {
        let mut names = self.0.names.lock().unwrap();
        let Some(left) = names.checked_sub(1) else {
            return Put::Unknown(io::Error::other("no more names"));
        };
        *names = left;
        let put = self.1.create(name);
        if std::mem::take(&mut *self.0.loses.lock().unwrap()) {
            return Put::Unknown(io::Error::other("no answer"));
        }
        put
    }

    fn swap(&mut self, name: &str, expected: &Tag) -> Put {
        self.1.swap(name, expected)
    }
}

/// The end of a transaction.
const fn end(number: u64) -> Lsn {
    Lsn(0x1000 * number + Stream::RECORD)
}

/// Appends a transaction with one row, as a segment.
fn publish(writer: &mut Writer, assembler: &mut Assembler, number: u64) {
    append(writer, assembler, number);
    writer.publish(assembler).unwrap();
}

fn append(writer: &mut Writer, assembler: &mut Assembler, number: u64) {
    let columns = [("a", 23, -1, true)];
    let bytes = Stream::new()
        .session()
        .begin(0x1000 * number, u32::try_from(number).unwrap())
        .relation(1, "public", "t", ReplicaIdentity::Default, &columns)
        .insert(1, &[text(number.to_string())])
        .commit()
        .bytes();
    writer.append(assembler, &mut &*bytes).unwrap();
}

#[test]
fn a_follower_finds_what_was_merged_as_soon_as_its_next_segment_is_gone() {
    let store = Memory::default();
    let mut writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    publish(&mut writer, &mut assembler, 1);
    let mut follower = Log::open(Arc::new(store.clone())).unwrap();
    for number in 2..=5 {
        publish(&mut writer, &mut assembler, number);
    }
    drop(writer);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let between = Between::new(&store, {
        let seen = Arc::clone(&seen);
        move |names| {
            if names.iter().any(|name| name.contains(".wire")) {
                follower.follow().unwrap();
                seen.lock().unwrap().push(follower.end());
            }
        }
    });
    let mut upkeep = Upkeep::open(Arc::new(between)).unwrap();
    assert!(upkeep.compact(1 << 20, &mut || Ok(())).unwrap().merged > 0);
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty());
    assert!(seen.iter().all(|it| *it == end(5)), "{seen:?}");
}

#[test]
fn a_segment_whose_answer_was_lost_is_published() {
    let store = Memory::default();
    let between = Between::new(&store, |_| {});
    let loses = Arc::clone(&between.loses);
    let mut writer = Writer::open(Arc::new(between), WriterOptions::default()).unwrap();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    append(&mut writer, &mut assembler, 1);
    *loses.lock().unwrap() = true;
    writer.publish(&mut assembler).unwrap();
    assert!(!*loses.lock().unwrap());
    assert_eq!(Log::open(Arc::new(store)).unwrap().end(), end(1));
}

#[test]
fn a_decision_outlives_the_parts_of_a_later_transaction() {
    let store = Memory::default();
    let between = Between::new(&store, |_| {});
    let names = Arc::clone(&between.names);
    let mut options = WriterOptions::default();
    options.segment_bytes = 1000;
    let columns = [("a", 23, -1, true)];
    let prepared = Stream::new()
        .session()
        .begin_prepare(0x1000, 701, "g")
        .relation(1, "public", "t", ReplicaIdentity::Default, &columns)
        .insert(1, &[text("1")])
        .prepare();
    let mut writer = Writer::open(Arc::new(between), options.clone()).unwrap();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    writer
        .append(&mut assembler, &mut &*prepared.bytes())
        .unwrap();
    sync(&mut writer, &mut assembler).unwrap();
    publish(&mut writer, &mut assembler, 2);
    let is_prepared = |name: &String| name.starts_with("_prepared");
    assert!(store.list().unwrap().iter().any(is_prepared));
    // The transaction goes once its decision is durable in the journal. No segment has the decision.
    let before = prepared.bytes().len();
    let decided = prepared.rollback_prepared(0x3000, 701, "g").bytes();
    writer
        .append(&mut assembler, &mut &decided[before..])
        .unwrap();
    sync(&mut writer, &mut assembler).unwrap();
    assert!(!store.list().unwrap().iter().any(is_prepared));
    // The first parts of a transaction empty the journal. Then there is a crash.
    let mut large = Stream::new().begin(0x4000, 4);
    for row in 0..100 {
        large = large.insert(1, &[text(format!("{row:0100}"))]);
    }
    *names.lock().unwrap() = 3;
    let large = large.commit().bytes();
    writer.append(&mut assembler, &mut &*large).unwrap_err();
    drop(writer);
    let mut writer = Writer::open(Arc::new(store.clone()), options).unwrap();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    publish(&mut writer, &mut assembler, 5);
    assert_eq!(Log::open(Arc::new(store)).unwrap().end(), end(5));
}

#[test]
fn processes_that_end_at_any_call_leave_a_log_that_opens() {
    let columns = [("a", 23, -1, true)];
    let stream = Stream::new()
        .session()
        .begin_prepare(0x1000, 701, "g")
        .relation(1, "public", "t", ReplicaIdentity::Default, &columns)
        .insert(1, &[text("1")])
        .prepare();
    let prepared = stream.bytes().len();
    let stream = stream.commit_prepared(0x20000, 701, "g").bytes();
    let open = |store: &Memory| Writer::open(Arc::new(store.clone()), WriterOptions::default());
    // Each call of two processes that publish may be their last.
    let mut ends = (0, 0);
    loop {
        let store = Memory::default();
        let mut writer = open(&store).unwrap();
        let mut assembler = writer.resume(Assembler::default()).unwrap();
        writer
            .append(&mut assembler, &mut &stream[..prepared])
            .unwrap();
        sync(&mut writer, &mut assembler).unwrap();
        // The next journal begins with an undecided transaction, which is committed then.
        publish(&mut writer, &mut assembler, 0x18);
        writer
            .append(&mut assembler, &mut &stream[prepared..])
            .unwrap();
        store.refuse(ends.0, 0);
        let published = writer.publish(&mut assembler);
        drop(writer);
        if published.is_ok() && ends.0 >= store.operations() {
            break;
        }
        let mut second = open(&store).unwrap();
        let mut assembler = second.resume(Assembler::default()).unwrap();
        let confirmed = second.position();
        append(&mut second, &mut assembler, 0x30);
        store.refuse(ends.1, 0);
        let published = second.publish(&mut assembler);
        drop(second);
        if published.is_ok() && ends.1 >= store.operations() {
            ends = (ends.0 + 1, 0);
            continue;
        }
        let mut upkeep = Upkeep::open(Arc::new(store.clone())).unwrap();
        upkeep.prune(end(0x30), true).unwrap();
        // The machine loses power.
        store.reboot();
        let third = open(&store).unwrap_or_else(|error| panic!("{ends:?}: {error}"));
        assert!(third.position() >= confirmed, "{ends:?}");
        ends.1 += 1;
    }
    assert!(ends.0 > 5, "{ends:?}");
}
