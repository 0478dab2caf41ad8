//! Transactions that wait for their commit in files.
use std::io;
use std::sync::Arc;
use walrow_log::FileSpool;
use walrow_stream::{Assembler, ErrorKind, Item, Spool};
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
fn captures_read_the_same_from_files_that_nobody_sees() {
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
        if let Item::Change(change) = item
            && let walrow_stream::Row::Insert { new } = change.row
        {
            sizes.push(new.byte_len());
        }
    }
    let size = |value: &str| value.len() + 5;
    let expected = [size(&large), size("small"), size(&large), size(&large)];
    assert_eq!(sizes, expected);
}

#[test]
fn a_directory_that_is_not_there_is_an_error_once_it_is_needed() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let error = FileSpool::new(&missing).create().unwrap_err();
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
