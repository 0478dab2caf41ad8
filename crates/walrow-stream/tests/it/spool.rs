//! Open transactions in little memory.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::lines;

use lines::rows_of;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use walrow_stream::{Assembler, ErrorKind, Spool, SpoolFile};
use walrow_testkit::{OwnedCell, Stream, captures, in_chunks, null, text};
use walrow_wire::ReplicaIdentity;

const T: u32 = 16_384;
const ID: (&str, u32, i32, bool) = ("id", 23, -1, true);
const NAME: (&str, u32, i32, bool) = ("name", 25, -1, false);

/// A spool that counts its files and rejects bytes beyond a limit.
#[derive(Debug, Default)]
struct Disk {
    size: usize,
    used: Mutex<usize>,
    files: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct DiskFile {
    disk: Arc<Disk>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Shared(Arc<Disk>);

impl Spool for Shared {
    fn create(&self) -> io::Result<Box<dyn SpoolFile>> {
        self.0.files.fetch_add(1, Ordering::Relaxed);
        self.0.open.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(DiskFile {
            disk: Arc::clone(&self.0),
            bytes: Vec::new(),
        }))
    }
}

impl SpoolFile for DiskFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut used = self.disk.used.lock().unwrap();
        if *used + bytes.len() > self.disk.size {
            return Err(io::ErrorKind::StorageFull.into());
        }
        *used += bytes.len();
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(at).unwrap();
        buffer.copy_from_slice(&self.bytes[at..at + buffer.len()]);
        Ok(())
    }
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        *self.disk.used.lock().unwrap() -= self.bytes.len();
        self.disk.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn disk(size: usize) -> Arc<Disk> {
    Arc::new(Disk {
        size,
        ..Disk::default()
    })
}

fn assembler(disk: &Arc<Disk>, memory: usize) -> Assembler {
    Assembler::default()
        .with_spool(Arc::new(Shared(Arc::clone(disk))))
        .with_spool_memory(memory)
}

fn t(stream: Stream) -> Stream {
    stream.relation(T, "public", "t", ReplicaIdentity::Default, &[ID, NAME])
}

fn row(id: usize, size: usize) -> [OwnedCell; 2] {
    [text(id.to_string()), text("x".repeat(size))]
}

#[test]
fn every_capture_reads_the_same_from_memory_and_from_files() {
    let mut spooled = 0;
    for capture in captures().iter().filter(|capture| !capture.is_physical()) {
        let whole = rows_of(&mut Assembler::default(), [&*capture.bytes]);
        for (memory, size) in [(0, 999), (300, 1), (1 << 14, 4096)] {
            let disk = disk(usize::MAX);
            let mut small = assembler(&disk, memory);
            let cut = rows_of(&mut small, in_chunks(&capture.bytes, &[size]));
            assert_eq!(cut, whole, "{} with {memory} bytes", capture.name);
            spooled += disk.files.load(Ordering::Relaxed);
            drop(small);
            assert_eq!(disk.open.load(Ordering::Relaxed), 0, "{}", capture.name);
        }
    }
    assert!(spooled > 400, "{spooled} files");
}

#[test]
fn files_go_with_their_transaction() {
    let disk = disk(usize::MAX);
    let mut assembler = assembler(&disk, 1000);
    let mut stream = Stream::new();
    for xid in 700..705 {
        stream = t(stream.stream_start(xid));
        for id in 0..10 {
            stream = stream.insert(T, &row(id, 100));
        }
        stream = stream.stream_stop();
    }
    let mut input = &*stream.bytes();
    assert!(assembler.next(&mut input).unwrap().is_none());
    let open = || disk.open.load(Ordering::Relaxed);
    assert!(open() >= 4, "{} files", open());
    let before = stream.bytes().len();
    let stream = stream
        .stream_abort(700, 700)
        .stream_commit(0x1000, 701)
        .stream_prepare(0x2000, 702, "gid")
        .rollback_prepared(0x3000, 702, "gid");
    let bytes = stream.bytes();
    let (rows, error) = rows_of(&mut assembler, [&bytes[before..]]);
    assert_eq!((rows.len(), error), (11, None));
    assert!(open() <= 2, "{} files", open());
    assembler.new_session();
    assert_eq!(open(), 0);
}

#[test]
fn the_largest_goes_to_its_file_first() {
    let disk = disk(usize::MAX);
    let mut assembler = assembler(&disk, 8000);
    let mut stream = Stream::new();
    for xid in 700..730 {
        stream = t(stream.stream_start(xid))
            .insert(T, &row(0, 10))
            .stream_stop();
    }
    stream = t(stream.stream_start(730));
    for id in 0..100 {
        stream = stream.insert(T, &row(id, 100));
    }
    let bytes = stream.stream_stop().bytes();
    assert!(assembler.next(&mut &*bytes).unwrap().is_none());
    assert_eq!(disk.files.load(Ordering::Relaxed), 1);
}

#[test]
fn a_full_disk_is_an_error_and_takes_nothing_back() {
    let mut stream = t(Stream::new().session().begin(0x1000, 699))
        .insert(T, &row(1, 1))
        .commit();
    stream = t(stream.stream_start(700));
    for id in 0..100 {
        stream = stream.insert(T, &row(id, 100));
    }
    let bytes = stream.stream_stop().stream_commit(0x2000, 700).bytes();
    for pieces in [&[usize::MAX][..], &[100]] {
        let disk = disk(5_000);
        let mut assembler = assembler(&disk, 2_000);
        let (rows, error) = rows_of(&mut assembler, in_chunks(&bytes, pieces));
        assert_eq!(rows, ["699 0/1000", "  0 +1 t/2"]);
        let Some(ErrorKind::Spool { kind, .. }) = error else {
            panic!("{error:?}")
        };
        assert_eq!(kind, io::ErrorKind::StorageFull);
        // Open transactions are dropped, with their files.
        assert_eq!(disk.open.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn without_a_spool_memory_is_the_limit() {
    let mut stream = t(Stream::new().begin(0x1000, 700));
    for id in 0..100 {
        stream = stream.insert(T, &row(id, 100));
    }
    let bytes = stream.commit().bytes();
    let small = || Assembler::default().with_spool_memory(1_000);
    // The whole stream is in one block.
    assert_eq!(rows_of(&mut small(), [&*bytes]).1, None);
    let (rows, error) = rows_of(&mut small(), in_chunks(&bytes, &[500]));
    assert!(rows.is_empty());
    assert!(matches!(error, Some(ErrorKind::Spool { .. })), "{error:?}");
}

#[test]
fn a_message_past_the_limit_is_refused_wherever_it_lies() {
    let plain = t(Stream::new().begin(0x1000, 700))
        .insert(T, &row(1, 5_000))
        .commit();
    let streamed = t(Stream::new().stream_start(700))
        .insert(T, &row(0, 10))
        .insert(T, &row(1, 5_000))
        .stream_stop();
    let alone = Stream::new().emit_at(0x1000, "large", &[0; 5_000]);
    for stream in [plain, streamed, alone] {
        let bytes = stream.bytes();
        let frames: Vec<usize> = stream.frames().iter().map(Vec::len).collect();
        let frame = *frames.iter().max().unwrap();
        let offset: usize = frames.iter().take_while(|it| **it != frame).sum();
        // The message without the headers of its frame and XLogData.
        let size = frame - 30;
        for pieces in [&[usize::MAX][..], &[7]] {
            let mut limited = Assembler::default().with_message_limit(1_000);
            let mut error = None;
            for piece in in_chunks(&bytes, pieces) {
                let mut input = piece;
                while error.is_none() {
                    match limited.next(&mut input) {
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(fault) => error = Some(fault),
                    }
                }
            }
            let error = error.unwrap();
            let limit = 1_000;
            assert_eq!(error.kind, ErrorKind::TooLarge { size, limit });
            assert_eq!(error.offset, offset as u64);
            assert!(error.to_string().contains("message limit"), "{error}");
        }
        let mut exact = Assembler::default().with_message_limit(size);
        assert_eq!(rows_of(&mut exact, [&*bytes]).1, None);
    }
}

#[test]
fn offsets_count_over_chunks_and_files() {
    let stream = t(Stream::new().stream_start(700))
        .insert(T, &row(1, 100))
        .stream_stop();
    let stream = stream
        .keepalive()
        .stream_start(700)
        .insert(T, &row(2, 100))
        .keepalive();
    let before = stream.bytes().len();
    let bytes = stream
        .insert(T, &[null(), null(), null()])
        .stream_stop()
        .stream_commit(0x1000, 700)
        .bytes();
    for memory in [0, 200, usize::MAX] {
        for pieces in [&[usize::MAX][..], &[7], &[1]] {
            let mut assembler = assembler(&disk(usize::MAX), memory);
            let mut error = None;
            for piece in in_chunks(&bytes, pieces) {
                let mut input = piece;
                while error.is_none() && !input.is_empty() {
                    error = assembler.next(&mut input).err();
                }
            }
            while error.is_none() {
                error = assembler.next(&mut &[][..]).err();
            }
            assert_eq!(error.unwrap().offset, before as u64, "{memory} {pieces:?}");
        }
    }
}
