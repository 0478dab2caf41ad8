//! The rows of a table: in memory, then in a file, with an index that finds each row by its
//! identity.
//!
//! ```text
//! ┌──────────────────────────────┬──────────────────┐
//! │ the file: rows written first │ memory: the rest │   rows are appended, never changed
//! └──────────────────────────────┴──────────────────┘
//!    ▲ offset                         each row: identity (16), version (4), size (4), cells
//!    └── index: identity ─► offset, size, count
//! ```
//! A row that was replaced or removed stays as garbage, until more than half of all bytes are
//! garbage: then the heap is written again. A row is garbage unless the index refers to it, so a
//! scan reads the rows in their order, and asks the index only for garbage.

use crate::spool::{Spool, SpoolFile};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::sync::Arc;

/// The identity of a row: 128 bits that depend on the values of its identity's columns.
pub(super) type Id = u128;

/// The number of a relation version.
pub(super) type Version = u32;

/// Bytes of a row before its cells.
const HEADER: usize = 24;
/// Bytes of a read of the file.
const BLOCK: usize = 1 << 20;
/// Bytes of garbage that are always tolerated.
const GARBAGE: u64 = 1 << 20;

/// The place of a row.
#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: u64,
    /// Bytes of its cells.
    size: u32,
    /// How many equal rows there are. More than 1 only if all columns identify a row.
    count: u32,
}

impl Entry {
    /// Bytes of the row.
    const fn bytes(self) -> u64 {
        (HEADER as u64).saturating_add(self.size as u64)
    }
}

/// Identities are hashes.
#[derive(Clone, Copy, Debug, Default)]
struct Low(u64);

impl Hasher for Low {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low bits")]
    fn write_u128(&mut self, id: u128) {
        self.0 = id as u64;
    }
}

/// The rows of a table.
#[derive(Debug)]
pub(super) struct Heap {
    spool: Option<Arc<dyn Spool>>,
    /// Bytes of rows in memory.
    limit: usize,
    file: Option<Box<dyn SpoolFile>>,
    file_size: u64,
    memory: Vec<u8>,
    index: HashMap<Id, Entry, BuildHasherDefault<Low>>,
    garbage: u64,
}

/// A place in a heap whose rows are read in their order.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The offset of the next row.
    at: u64,
    /// A part of the file, and where it begins.
    block: Vec<u8>,
    block_at: u64,
    /// The offset and the size of the current row's cells.
    cells_at: u64,
    cells_size: usize,
}

/// A row of a scan, besides its cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) id: Id,
    pub(super) version: Version,
    pub(super) count: u32,
}

impl Heap {
    pub(super) fn new(spool: Option<Arc<dyn Spool>>, limit: usize) -> Self {
        Self {
            spool,
            limit,
            file: None,
            file_size: 0,
            memory: Vec::new(),
            index: HashMap::default(),
            garbage: 0,
        }
    }

    /// An empty heap with the same limits.
    pub(super) fn like(&self) -> Self {
        Self::new(self.spool.clone(), self.limit)
    }

    pub(super) fn set_spool(&mut self, spool: Arc<dyn Spool>) {
        self.spool = Some(spool);
    }

    pub(super) const fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Whether there is such a row.
    #[inline]
    pub(super) fn has(&self, id: Id) -> bool {
        self.index.contains_key(&id)
    }

    /// Removes all rows.
    pub(super) fn clear(&mut self) {
        *self = self.like();
    }

    /// Adds a row. If there is an equal row, only counts it.
    pub(super) fn add(
        &mut self,
        id: Id,
        version: Version,
        cells: &[u8],
        count: u32,
    ) -> io::Result<()> {
        if let Some(entry) = self.index.get_mut(&id) {
            let more = entry.count.checked_add(count);
            entry.count = more.ok_or_else(|| too_many("equal rows"))?;
            return Ok(());
        }
        let entry = self.append(id, version, count, cells.len(), |out| {
            out.extend_from_slice(cells);
        })?;
        self.index.insert(id, entry);
        Ok(())
    }

    /// Removes a row, or one of several equal rows. Returns whether there was such a row.
    pub(super) fn remove(&mut self, id: Id) -> io::Result<bool> {
        let Some(entry) = self.index.get_mut(&id) else {
            return Ok(false);
        };
        if entry.count > 1 {
            entry.count = entry.count.saturating_sub(1);
            return Ok(true);
        }
        self.garbage = self.garbage.saturating_add(entry.bytes());
        self.index.remove(&id);
        self.settle()?;
        Ok(true)
    }

    /// Replaces the only row with this identity, which exists.
    pub(super) fn replace(&mut self, id: Id, version: Version, cells: &[u8]) -> io::Result<()> {
        self.replace_with(id, version, cells.len(), |out| out.extend_from_slice(cells))
    }

    /// The same with cells of this size, which a function appends.
    pub(super) fn replace_with(
        &mut self,
        id: Id,
        version: Version,
        size: usize,
        put: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<()> {
        let entry = self.append(id, version, 1, size, put)?;
        if let Some(before) = self.index.insert(id, entry) {
            self.garbage = self.garbage.saturating_add(before.bytes());
        }
        self.settle()
    }

    /// Finds a row: its version and cells. The buffer is for a row of the file. `None` if there is
    /// no such row.
    pub(super) fn read<'a>(
        &'a mut self,
        id: Id,
        buffer: &'a mut Vec<u8>,
    ) -> io::Result<Option<(Version, &'a [u8])>> {
        let Some(entry) = self.index.get(&id) else {
            return Ok(None);
        };
        let size = usize::try_from(entry.bytes()).unwrap_or(usize::MAX);
        let at = entry.offset.checked_sub(self.file_size);
        let row = if let Some(at) = at.and_then(|at| usize::try_from(at).ok()) {
            let row = self.memory.get(at..at.saturating_add(size));
            row.unwrap_or_default()
        } else {
            buffer.clear();
            if let Some(file) = &mut self.file {
                buffer.resize(size, 0);
                file.read_at(entry.offset, buffer)?;
            }
            buffer
        };
        let (_, version, _) = header(row).ok_or_else(damaged)?;
        Ok(Some((version, row.get(HEADER..).unwrap_or_default())))
    }

    /// A copy of a row: its version and cells.
    pub(super) fn copy(&mut self, id: Id) -> io::Result<Option<(Version, Vec<u8>)>> {
        let mut buffer = Vec::new();
        let found = self.read(id, &mut buffer)?;
        Ok(found.map(|(version, cells)| (version, cells.to_vec())))
    }

    /// Appends a row whose cells have this size, and are appended by a function.
    #[inline]
    fn append(
        &mut self,
        id: Id,
        version: Version,
        count: u32,
        size: usize,
        put: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<Entry> {
        let wanted = HEADER.saturating_add(size);
        let size = u32::try_from(size).map_err(|_| too_many("bytes of a row"))?;
        if self.memory.len().saturating_add(wanted) > self.limit {
            self.spill()?;
        }
        let offset = self.file_size.saturating_add(self.memory.len() as u64);
        self.memory.extend_from_slice(&id.to_le_bytes());
        let version_and_size = u64::from(version) | u64::from(size) << 32;
        self.memory
            .extend_from_slice(&version_and_size.to_le_bytes());
        put(&mut self.memory);
        Ok(Entry {
            offset,
            size,
            count,
        })
    }

    /// Moves the rows from memory to the file.
    #[cold]
    fn spill(&mut self) -> io::Result<()> {
        if self.memory.is_empty() {
            return Ok(());
        }
        let file = match (&mut self.file, &self.spool) {
            (Some(file), _) => file,
            (file, Some(spool)) => file.insert(spool.create()?),
            (None, None) => {
                return Err(io::Error::new(
                    io::ErrorKind::OutOfMemory,
                    "the rows of the table need more memory than the limit, and there is no spool",
                ));
            }
        };
        file.append(&self.memory)?;
        self.file_size = self.file_size.saturating_add(self.memory.len() as u64);
        self.memory.clear();
        Ok(())
    }

    /// Writes the rows again if more than half of all bytes are garbage.
    #[inline]
    fn settle(&mut self) -> io::Result<()> {
        let all = self.file_size.saturating_add(self.memory.len() as u64);
        if self.garbage <= GARBAGE || self.garbage <= all >> 1 {
            return Ok(());
        }
        self.rewrite()
    }

    #[cold]
    fn rewrite(&mut self) -> io::Result<()> {
        let mut fresh = self.like();
        let mut scan = Scan::default();
        while let Some(row) = self.next(&mut scan)? {
            let cells = self.cells(&scan);
            let entry = fresh.append(row.id, row.version, row.count, cells.len(), |out| {
                out.extend_from_slice(cells);
            })?;
            // The rest of the scan has no other row of this identity.
            self.index.insert(row.id, entry);
        }
        fresh.index = std::mem::take(&mut self.index);
        *self = fresh;
        Ok(())
    }

    /// The next row of a scan, in the order of the last write of each row.
    pub(super) fn next(&mut self, scan: &mut Scan) -> io::Result<Option<Row>> {
        loop {
            if !self.hold(scan, HEADER)? {
                return Ok(None);
            }
            let head = self.held(scan, scan.at).and_then(header);
            let (id, version, size) = head.ok_or_else(damaged)?;
            let size = size as usize;
            let whole = HEADER.saturating_add(size);
            let offset = scan.at;
            let entry = self.index.get(&id).filter(|entry| entry.offset == offset);
            if let Some(count) = entry.map(|entry| entry.count) {
                if !self.hold(scan, whole)? {
                    return Err(damaged());
                }
                scan.cells_at = offset.saturating_add(HEADER as u64);
                scan.cells_size = size;
                scan.at = offset.saturating_add(whole as u64);
                return Ok(Some(Row { id, version, count }));
            }
            scan.at = offset.saturating_add(whole as u64);
        }
    }

    /// The cells of the current row of a scan.
    pub(super) fn cells<'a>(&'a self, scan: &'a Scan) -> &'a [u8] {
        let cells = self.held(scan, scan.cells_at);
        let cells = cells.and_then(|cells| cells.get(..scan.cells_size));
        cells.unwrap_or_default()
    }

    /// Holds at least this many bytes at the place of the scan. Returns false at the end.
    fn hold(&mut self, scan: &mut Scan, wanted: usize) -> io::Result<bool> {
        let held = self.held(scan, scan.at).map_or(0, <[u8]>::len);
        if held >= wanted || scan.at >= self.file_size {
            return Ok(held >= wanted);
        }
        // A row in the file is whole there.
        let left = self.file_size.saturating_sub(scan.at);
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        scan.block.resize(left.min(wanted.max(BLOCK)), 0);
        scan.block_at = scan.at;
        if let Some(file) = &mut self.file {
            file.read_at(scan.at, &mut scan.block)?;
        }
        Ok(scan.block.len() >= wanted)
    }

    /// The bytes in memory from an offset on: of the heap, or of a block of the file.
    #[inline]
    fn held<'a>(&'a self, scan: &'a Scan, offset: u64) -> Option<&'a [u8]> {
        let (bytes, from) = if offset >= self.file_size {
            (&self.memory, self.file_size)
        } else {
            (&scan.block, scan.block_at)
        };
        let at = usize::try_from(offset.checked_sub(from)?).ok()?;
        bytes.get(at..)
    }
}

/// The identity, version and size of a row.
fn header(row: &[u8]) -> Option<(Id, Version, u32)> {
    let (id, rest) = row.split_first_chunk()?;
    let (version, rest) = rest.split_first_chunk()?;
    let (size, _) = rest.split_first_chunk()?;
    Some((
        Id::from_le_bytes(*id),
        Version::from_le_bytes(*version),
        u32::from_le_bytes(*size),
    ))
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the file of rows is damaged")
}

fn too_many(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, format!("too many {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Files in memory.
    #[derive(Debug, Default)]
    struct Files;

    #[derive(Debug, Default)]
    struct Bytes(Mutex<Vec<u8>>);

    impl Spool for Files {
        fn create(&self) -> io::Result<Box<dyn SpoolFile>> {
            Ok(Box::new(Bytes::default()))
        }
    }

    impl SpoolFile for Bytes {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(())
        }

        fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
            let at = usize::try_from(at).unwrap();
            let bytes = self.0.lock().unwrap();
            buffer.copy_from_slice(&bytes[at..][..buffer.len()]);
            Ok(())
        }
    }

    fn rows(heap: &mut Heap) -> Vec<(Id, u32, Vec<u8>)> {
        let (mut scan, mut rows) = (Scan::default(), Vec::new());
        while let Some(row) = heap.next(&mut scan).unwrap() {
            rows.push((row.id, row.count, heap.cells(&scan).to_vec()));
        }
        rows
    }

    #[test]
    fn rows_in_a_file_are_those_in_memory() {
        let mut large = Heap::new(None, usize::MAX);
        let mut small = Heap::new(Some(Arc::new(Files)), 1 << 16);
        let mut buffer = Vec::new();
        for step in 0..60_000_u128 {
            let id = step * 7 % 900;
            let row = vec![u8::try_from(step % 251).unwrap(); usize::try_from(step % 300).unwrap()];
            for heap in [&mut large, &mut small] {
                match step % 11 {
                    0 => drop(heap.remove(id).unwrap()),
                    1 if step > 50_000 && id == 5 => heap.clear(),
                    _ if heap.has(id) => heap.replace(id, 1, &row).unwrap(),
                    _ => heap.add(id, 1, &row, 1).unwrap(),
                }
                let all = heap.file_size + heap.memory.len() as u64;
                let live: u64 = heap.index.values().map(|it| it.bytes()).sum();
                assert!(all <= 2 * live + GARBAGE + 400, "garbage is bounded");
            }
            assert_eq!(large.has(id), small.has(id));
            if small.has(id) {
                let found = small.read(id, &mut buffer).unwrap();
                assert_eq!(found, Some((1, &*row)));
            }
        }
        assert!(small.file_size > 0 && !large.is_empty());
        assert_eq!(rows(&mut small), rows(&mut large));
    }

    #[test]
    fn equal_rows_are_counted() {
        let mut heap = Heap::new(None, usize::MAX);
        heap.add(1, 0, b"a", 1).unwrap();
        heap.add(1, 0, b"a", 2).unwrap();
        assert_eq!(rows(&mut heap), [(1, 3, b"a".to_vec())]);
        assert!(heap.remove(1).unwrap() && heap.remove(1).unwrap());
        assert_eq!(rows(&mut heap), [(1, 1, b"a".to_vec())]);
        assert!(heap.remove(1).unwrap() && !heap.remove(1).unwrap());
        assert!(heap.is_empty());
    }

    #[test]
    fn memory_without_a_spool_is_limited() {
        let mut heap = Heap::new(None, 100);
        heap.add(1, 0, &[0; 70], 1).unwrap();
        let error = heap.add(2, 0, &[0; 70], 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }
}
