//! Segments in a directory: failures of the file system, hostile files, and very many of them.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use proptest::prelude::*;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use walrow_log::{
    BrokenBy, DamagedPart, Directory, ErrorKind, Foot, Journal, Lock, Objects, Plan, Put, ReadAt,
    SegmentName, Staged, Store, Tag, Upkeep, Writer, WriterOptions,
};
use walrow_stream::Assembler;
use walrow_testkit::Stream;
use walrow_wire::Lsn;

/// A directory that is removed at the end of a test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("walrow-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn open(&self) -> Directory {
        Directory::open(&self.0).unwrap()
    }

    fn log(&self) -> Result<Upkeep, ErrorKind> {
        Upkeep::open(Arc::new(self.open())).map_err(|error| error.kind)
    }

    /// Writes a log of one segment, without changes of tables.
    fn segment(&self, lsn: u64) -> Foot {
        let (mut writer, mut assembler) = begun(Arc::new(self.open()), lsn);
        writer.publish(&mut assembler).unwrap().unwrap()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A writer that can publish a transaction.
fn begun(store: Arc<dyn Store>, lsn: u64) -> (Writer, Assembler) {
    let mut writer = Writer::open(store, WriterOptions::default()).unwrap();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    let stream = Stream::new().session().begin(lsn, 700).commit().bytes();
    writer.append(&mut assembler, &mut &*stream).unwrap();
    (writer, assembler)
}

/// A directory whose first publication fails after the segment has its name.
#[derive(Debug)]
struct FailsLate(Directory, AtomicBool);

impl Objects for FailsLate {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>> {
        self.0.open(name)
    }
}

impl Store for FailsLate {
    fn stage(&self) -> io::Result<Box<dyn Staged>> {
        let is_late = !self.1.swap(true, Ordering::Relaxed);
        Ok(Box::new(Late(self.0.stage()?, is_late)))
    }
    fn remove(&self, names: &[&str]) -> io::Result<()> {
        self.0.remove(names)
    }
    fn journal(&self, name: &str) -> io::Result<Box<dyn Journal>> {
        self.0.journal(name)
    }
    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.0.lock(name)
    }
    fn check(&self) -> io::Result<()> {
        self.0.check()
    }
    fn sweep(&self) -> io::Result<usize> {
        self.0.sweep()
    }
}

#[derive(Debug)]
struct Late(Box<dyn Staged>, bool);

impl Staged for Late {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.append(bytes)
    }
    fn create(&mut self, name: &str) -> Put {
        match self.0.create(name) {
            Put::Done if self.1 => {
                let error = io::Error::other("the directory could not be synced");
                Put::Unknown(error)
            }
            put => put,
        }
    }
    fn swap(&mut self, name: &str, expected: &Tag) -> Put {
        self.0.swap(name, expected)
    }
}

#[test]
fn a_published_segment_is_never_written_again() {
    use std::os::unix::fs::MetadataExt;

    let directory = Temporary::new("late");
    let store = Arc::new(FailsLate(directory.open(), AtomicBool::new(false)));
    let (mut writer, mut assembler) = begun(store, 0x3000);
    // Its name may not be durable, and another segment of this name could have other frames.
    let not_synced = writer.publish(&mut assembler).unwrap_err();
    assert!(matches!(not_synced.kind, ErrorKind::NotSynced { .. }));
    let path = directory.open().path(&SegmentName::default().to_string());
    // Another name of the same file would be truncated before it is written again.
    let before = fs::metadata(&path).unwrap();
    let held = fs::File::open(&path).unwrap();
    let broken = ErrorKind::Broken {
        why: BrokenBy::NotSynced,
    };
    let bytes = Stream::new().session().begin(0x4000, 701).commit().bytes();
    for refused in [
        writer.publish(&mut assembler).map(|_| ()),
        writer.append(&mut assembler, &mut &*bytes),
    ] {
        assert_eq!(refused.unwrap_err().kind, broken);
    }
    drop(writer);
    let store = Arc::new(directory.open());
    let mut writer = Writer::open(store, WriterOptions::default()).unwrap();
    let end = writer.position();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    writer.append(&mut assembler, &mut &*bytes).unwrap();
    let foot = writer.publish(&mut assembler).unwrap().unwrap();
    assert_eq!(foot.start, end);
    let after = held.metadata().unwrap();
    assert_eq!(
        (after.ino(), after.len(), after.mtime_nsec()),
        (before.ino(), before.len(), before.mtime_nsec())
    );
    assert_eq!(writer.position(), foot.end);
    drop(writer);
    assert_eq!(directory.log().unwrap().end(), foot.end);
}

/// Makes a segment by its format, without walrow's writer.
fn segment(frames: &[u8], foot: &Foot) -> Vec<u8> {
    segment_of(frames, &serde_json::to_vec(foot).unwrap())
}

fn segment_of(frames: &[u8], json: &[u8]) -> Vec<u8> {
    let size = |bytes: usize| u32::try_from(bytes).unwrap().to_le_bytes();
    [
        frames,
        &0x184D_2A57_u32.to_le_bytes(),
        &size(json.len() + 16),
        json,
        &crc32c::crc32c(json).to_le_bytes(),
        &size(json.len()),
        b"walrow\x00\x01",
    ]
    .concat()
}

type Change = fn(&mut Foot);

#[test]
fn hostile_segments_are_errors_and_take_little_memory() {
    let directory = Temporary::new("hostile");
    let foot = directory.segment(0x3000);
    let name = SegmentName::default();
    let path = directory.open().path(&name.to_string());
    let whole = fs::read(&path).unwrap();
    let frames = whole[..usize::try_from(foot.bytes).unwrap()].to_vec();
    assert_eq!(segment(&frames, &foot), whole);

    let damaged = |what| Err(ErrorKind::Damaged { what });
    let feet: [(Change, Result<(), ErrorKind>); 7] = [
        (|foot| foot.bytes += 1, damaged(DamagedPart::Size)),
        (|foot| foot.bytes = u64::MAX, damaged(DamagedPart::Size)),
        (|foot| foot.end = Lsn::INVALID, damaged(DamagedPart::Range)),
        (|foot| foot.start = Lsn(8), damaged(DamagedPart::Name)),
        (|foot| foot.format = 4, Err(ErrorKind::Version { found: 4 })),
        (
            |foot| foot.format = 1,
            Err(ErrorKind::Unreleased { found: 1 }),
        ),
        (|_| (), Ok(())),
    ];
    for (change, expected) in feet {
        let mut foot = foot.clone();
        change(&mut foot);
        fs::write(&path, segment(&frames, &foot)).unwrap();
        assert_eq!(directory.log().map(|_| ()), expected);
    }

    // A foot of 4 GiB, in a file that takes no space.
    fs::write(&path, []).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(5 << 30).unwrap();
    let tail = [&[0; 4][..], &u32::MAX.to_le_bytes(), b"walrow\x00\x01"].concat();
    std::os::unix::fs::FileExt::write_at(&file, &tail, (5 << 30) - 16).unwrap();
    assert_eq!(directory.log().map(|_| ()), damaged(DamagedPart::Size));

    // 1 GiB of zeros in 32 KiB.
    let mut bomb = Vec::with_capacity(1 << 20);
    let mut context = zstd_safe::CCtx::create();
    let zeros = vec![0; 1 << 30];
    context.compress(&mut bomb, &zeros, 3).unwrap();
    drop(zeros);
    let mut foot = foot;
    (foot.bytes, foot.crc32c) = (bomb.len() as u64, crc32c::crc32c(&bomb));
    fs::write(&path, segment(&bomb, &foot)).unwrap();
    let log = directory.log().unwrap();
    let mut chunk = Vec::new();
    let mut stream = log.read(&[name], Lsn::INVALID).unwrap();
    let error = stream.read(&mut chunk).unwrap_err();
    assert_eq!(
        error.kind,
        ErrorKind::Damaged {
            what: DamagedPart::Size
        }
    );
    assert!(chunk.capacity() < 64 << 20);
}

#[test]
fn following_ends_at_a_segment_that_leads_to_itself() {
    let directory = Temporary::new("circle");
    let foot = directory.segment(0x3000);
    let mut log = directory.log().unwrap();
    let path = |name: SegmentName| directory.open().path(&name.to_string());
    let frames = fs::read(path(foot_name(&foot))).unwrap();
    let mut next = foot.clone();
    next.start = foot.end;
    let size = usize::try_from(foot.bytes).unwrap();
    fs::write(path(foot_name(&next)), segment(&frames[..size], &next)).unwrap();
    let error = log.follow().unwrap_err();
    assert_eq!(
        error.kind,
        ErrorKind::Damaged {
            what: DamagedPart::Range
        }
    );
}

const fn foot_name(foot: &Foot) -> SegmentName {
    SegmentName {
        start: foot.start,
        part: foot.part,
    }
}

#[test]
fn following_goes_on_where_the_log_was_pruned_past_it() {
    let directory = Temporary::new("past");
    directory.segment(0x3000);
    let mut follower = directory.log().unwrap();
    directory.segment(0x4000);
    let end = directory.segment(0x5000).end;
    assert_eq!(directory.log().unwrap().prune(end, false), Ok(2));
    assert_eq!(follower.follow(), Ok(1));
    assert_eq!(follower.end(), end);
    let mut plan = Plan::default();
    plan.start = Lsn(0x3010);
    let error = follower.plan(&plan).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Pruned { .. }));
}

#[test]
fn a_segment_that_was_pruned_after_it_was_planned_says_so() {
    let directory = Temporary::new("planned");
    let name = foot_name(&directory.segment(0x3000));
    let end = directory.segment(0x4000).end;
    let reader = directory.log().unwrap();
    directory.log().unwrap().prune(end, false).unwrap();
    let mut stream = reader.read(&[name], Lsn::INVALID).unwrap();
    let error = stream.read(&mut Vec::new()).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Pruned { .. }), "{error}");
    // A later view does not have the segment.
    let view = directory.log().unwrap();
    let refused = |name| view.read(&[name], Lsn::INVALID).unwrap_err();
    assert!(matches!(refused(name).kind, ErrorKind::Pruned { .. }));
    let unknown = SegmentName {
        start: end,
        part: 0,
    };
    assert!(refused(unknown).is_not_found());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A reader reads any file to its end or to an error, even if the checksums are right.
    #[test]
    fn changed_segments_are_read_or_refused(
        changes in prop::collection::vec((0_usize..100_000, any::<u8>(), 0_u8..3), 1..6),
        in_frames: bool,
        is_repaired: bool,
    ) {
        let change = |bytes: &mut Vec<u8>| {
            for (place, byte, kind) in &changes {
                let place = place % bytes.len().max(1);
                match kind {
                    0 => bytes[place] = *byte,
                    1 => bytes.insert(place, *byte),
                    _ => drop(bytes.remove(place)),
                }
            }
        };
        let directory = Temporary::new("changed");
        let mut foot = directory.segment(0x3000);
        let path = directory.open().path(&SegmentName::default().to_string());
        let mut bytes = fs::read(&path).unwrap();
        if is_repaired {
            let mut frames = bytes[..usize::try_from(foot.bytes).unwrap()].to_vec();
            if in_frames {
                change(&mut frames);
                (foot.bytes, foot.crc32c) = (frames.len() as u64, crc32c::crc32c(&frames));
            }
            let mut json = serde_json::to_vec(&foot).unwrap();
            if !in_frames {
                change(&mut json);
            }
            bytes = segment_of(&frames, &json);
        } else {
            change(&mut bytes);
        }
        fs::write(&path, &bytes).unwrap();
        if let Ok(mut log) = directory.log() {
            let segments = log.segments().to_vec();
            let _ = segments.iter().map(|it| log.verify(it, &mut || Ok(()))).collect::<Vec<_>>();
            for segment in &segments {
                let (mut chunk, mut total) = (Vec::new(), 0);
                let mut stream = log.read(&[segment.name()], Lsn::INVALID).unwrap();
                while let Ok(true) = stream.read(&mut chunk) {
                    total += chunk.len();
                    prop_assert!(total as u64 <= segment.stream_bytes);
                }
            }
            let _ = log.follow();
        }
        let _ = Writer::open(Arc::new(directory.open()), WriterOptions::default());
    }
}

/// A log of a hundred thousand segments opens in two seconds, also in a build with few
/// optimisations.
#[test]
#[ignore = "slow: writes 100,000 files"]
#[expect(clippy::print_stderr, reason = "measures")]
fn a_hundred_thousand_segments_open_fast() {
    const COUNT: u64 = 100_000;
    let directory = Temporary::new("many");
    let first = directory.segment(0x1_0000);
    let path = |name: SegmentName| directory.open().path(&name.to_string());
    let whole = fs::read(path(foot_name(&first))).unwrap();
    let frames = whole[..usize::try_from(first.bytes).unwrap()].to_vec();
    let tables = serde_json::from_str(
        r#"[{"oid": 16400, "schema": "public", "name": "orders", "columns":
            [["id", 20, -1, true], ["customer", 20, -1, false], ["total", 1700, 786438, false],
             ["placed", 1184, -1, false]], "rows": 1000, "truncates": 0, "bytes": 90000, "last":
             "0/10010"},
            {"oid": 16410, "schema": "public", "name": "items", "columns":
            [["id", 20, -1, true], ["name", 25, -1, false], ["price", 1700, 786438, false]],
             "rows": 3000, "truncates": 0, "bytes": 190000, "last": "0/10010"}]"#,
    );
    let mut foot = first;
    foot.tables = tables.unwrap();
    for number in 1..COUNT {
        (foot.start, foot.end) = (foot.end, Lsn(0x1_0000 + number * 0x100_0000));
        for table in &mut foot.tables {
            table.last = foot.end;
        }
        fs::write(path(foot_name(&foot)), segment(&frames, &foot)).unwrap();
    }
    // Adds them all to the index.
    let begin = Instant::now();
    drop(Writer::open(Arc::new(directory.open()), WriterOptions::default()).unwrap());
    let indexed = begin.elapsed();
    let begin = Instant::now();
    let mut log = directory.log().unwrap();
    let opened = begin.elapsed();
    assert_eq!(log.segments().len() as u64, COUNT);

    let mut slowest = [0, 0].map(std::time::Duration::from_micros);
    for each in 0..100 {
        let lsn = foot.end.0 + (each + 1) * 0x1000;
        (foot.start, foot.end) = (foot.end, Lsn(lsn));
        fs::write(path(foot_name(&foot)), segment(&frames, &foot)).unwrap();
        let begin = Instant::now();
        assert_eq!(log.follow(), Ok(1));
        let followed = begin.elapsed();
        let mut plan = Plan::default();
        plan.start = foot.start;
        let begin = Instant::now();
        assert_eq!(log.plan(&plan).unwrap().len(), 1);
        slowest = [slowest[0].max(followed), slowest[1].max(begin.elapsed())];
    }
    eprintln!("indexed {indexed:?}, opened {opened:?}, followed and planned {slowest:?} at most");
    assert!(opened.as_secs_f64() < 2.0, "{opened:?}");
    assert!(slowest[1].as_millis() < 5, "{slowest:?}");
}
