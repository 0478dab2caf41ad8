//! Transactions that wait for their commit in files.
use std::io;
use std::sync::Arc;
use walrow_log::FileSpool;
use walrow_stream::{Assembler, ErrorKind, Event, Spool};
use walrow_testkit::{Stream, captures, in_chunks, text};
use walrow_wire::ReplicaIdentity;

fn items(assembler: &mut Assembler, pieces: &[&[u8]]) -> Result<Vec<String>, ErrorKind> {
    let mut items = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while let Some(item) = assembler.next(&mut input).map_err(|error| error.kind)? {
            items.push(format!("{item:?}"));
        }
    }
    Ok(items)
}

#[test]
fn captures_read_the_same_from_unnamed_files() {
    let directory = tempfile::tempdir().unwrap();
    for capture in captures().iter().filter(|capture| !capture.is_physical()) {
        let pieces: Vec<&[u8]> = in_chunks(&capture.bytes, &[500]).collect();
        let mut spooled = Assembler::default()
            .with_spool(Arc::new(FileSpool::new(directory.path())))
            .with_spool_memory(100);
        let whole = items(&mut Assembler::default(), &pieces);
        assert_eq!(items(&mut spooled, &pieces), whole, "{}", capture.name);
        let left = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(left, 0, "{}", capture.name);
    }
}

#[test]
fn frames_larger_than_a_block_are_read_whole() {
    let large = "x".repeat(3 << 20);
    let columns = [("id", 25, -1, true)];
    let mut stream = Stream::new().stream_start(700).relation(
        16_384,
        "public",
        "t",
        ReplicaIdentity::Default,
        &columns,
    );
    for value in [&large, "small", &large, &large] {
        stream = stream.insert(16_384, &[text(value)]);
    }
    let bytes = stream.stream_stop().stream_commit(0x1000, 700).bytes();
    let mut assembler = Assembler::default()
        .with_spool(Arc::new(FileSpool::default()))
        .with_spool_memory(0);
    let mut sizes = Vec::new();
    let mut input = &*bytes;
    while let Some(item) = assembler.next(&mut input).unwrap() {
        if let Event::Change(change) = item
            && let walrow_stream::RowChange::Insert { new } = change.row
        {
            sizes.push(new.byte_len());
        }
    }
    let size = |value: &str| value.len() + 5;
    let expected = [size(&large), size("small"), size(&large), size(&large)];
    assert_eq!(sizes, expected);
}

#[test]
fn a_missing_directory_is_an_error_when_it_is_needed() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let mut file = FileSpool::new(&missing).create().unwrap();
    let error = file.append(b"0").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    let mut assembler = Assembler::default()
        .with_spool(Arc::new(FileSpool::new(missing)))
        .with_spool_memory(10);
    let bytes = Stream::new()
        .begin(0x1000, 700)
        .emit("note", b"0123456789")
        .bytes();
    let error = items(&mut assembler, &[&bytes]).unwrap_err();
    assert!(
        matches!(
            error,
            ErrorKind::Spool {
                kind: io::ErrorKind::NotFound,
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn blocks_are_used_again_and_hold_what_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let spool = FileSpool::new(directory.path());
    let byte = |file: usize, at: usize| u8::try_from((file * 31 + at * 7) % 251).unwrap();
    let sizes = [1, 65_536, 65_537, 300_000, 70_000, 10];
    for round in 0..3 {
        let mut files: Vec<_> = sizes.iter().map(|_| spool.create().unwrap()).collect();
        // Written in turns, so that their blocks interleave.
        for start in (0..300_000).step_by(10_007) {
            for (number, (file, size)) in files.iter_mut().zip(sizes).enumerate() {
                let part = start..(start + 10_007).min(size);
                let bytes: Vec<u8> = part.map(|at| byte(number + round, at)).collect();
                file.append(&bytes).unwrap();
            }
        }
        files.swap_remove(1);
        for (number, (file, size)) in files
            .iter_mut()
            .zip([1, 10, 65_537, 300_000, 70_000])
            .enumerate()
        {
            let number = if number == 1 { 5 } else { number };
            for at in [0, size / 2, size - 1] {
                let mut buffer = vec![0; size - at];
                file.read_at(at as u64, &mut buffer).unwrap();
                let wanted: Vec<u8> = (at..size).map(|at| byte(number + round, at)).collect();
                assert_eq!(buffer, wanted, "file {number} from {at}");
            }
            let past = file.read_at(size as u64 + 65_536, &mut [0]);
            assert_eq!(past.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}

#[test]
fn an_empty_file_outlives_the_others() {
    let spool = FileSpool::default();
    let mut empty = spool.create().unwrap();
    let mut other = spool.create().unwrap();
    other.append(b"other").unwrap();
    drop(other);
    empty.append(b"mine").unwrap();
    let mut bytes = [0; 4];
    empty.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"mine");
}

#[test]
fn thousands_of_open_transactions_take_one_descriptor() {
    let directory = tempfile::tempdir().unwrap();
    let spool = Arc::new(FileSpool::new(directory.path()));
    let mut assembler = Assembler::default().with_spool(spool).with_spool_memory(0);
    for xid in 1..5_000 {
        let stream = Stream::new()
            .stream_start(xid)
            .emit("note", b"")
            .stream_stop();
        assert!(assembler.next(&mut &*stream.bytes()).unwrap().is_none());
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        assert!(open.count() < 200);
    }
}
