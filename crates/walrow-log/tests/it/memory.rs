//! A store in memory that crashes.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use walrow_log::{ReadAt, SegmentName, Store, WriteAt};
use walrow_stream::{Spool, SpoolFile};

/// Objects in memory, which crash at an operation and then lose what was not synced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Object>,
    operations: usize,
    /// The operation that fails, and all after it.
    crash: Option<usize>,
    /// How many bytes of that operation, and of what was not synced, survive.
    survive: usize,
    /// The one operation that fails, as on a disk that is full for a moment.
    refused: Option<usize>,
}

#[derive(Clone, Debug, Default)]
struct Object {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    /// Which bytes the next sync makes durable: after one that failed, none of those before it.
    dirty: Vec<bool>,
}

impl Object {
    fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.dirty.resize(self.bytes.len(), true);
    }

    fn sync(&mut self) {
        self.synced.resize(self.bytes.len(), 0);
        for (place, dirty) in self.dirty.iter_mut().enumerate() {
            if *dirty {
                self.synced[place] = self.bytes[place];
            }
            *dirty = false;
        }
    }
}

impl Memory {
    /// Changes a byte of an object.
    pub(crate) fn flip(&self, name: &str, place: usize, bit: u8) {
        let mut state = self.0.lock().unwrap();
        state.objects.get_mut(name).unwrap().bytes[place] ^= bit;
    }

    fn operate<T>(&self, run: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.0.lock().unwrap();
        state.operations += 1;
        if state.crash.is_some_and(|crash| state.operations >= crash) {
            return Err(io::Error::other("crash"));
        }
        if state.refused == Some(state.operations) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        run(&mut state)
    }

    /// Starts again after a crash.
    pub(crate) fn reboot(&self) {
        let mut state = self.0.lock().unwrap();
        (state.crash, state.refused, state.operations) = (None, None, 0);
        let survive = state.survive;
        for object in state.objects.values_mut() {
            let kept = object.bytes.len().min(object.synced.len() + survive);
            if object.bytes.starts_with(&object.synced) {
                object.bytes.truncate(kept);
            } else {
                object.bytes = object.synced.clone();
            }
            object.synced = object.bytes.clone();
            object.dirty = vec![false; object.bytes.len()];
        }
    }

    pub(crate) fn crash_at(&self, operation: usize, survive: usize) {
        let mut state = self.0.lock().unwrap();
        (state.crash, state.survive, state.operations) = (Some(operation), survive, 0);
    }

    pub(crate) fn refuse(&self, operation: usize, survive: usize) {
        let mut state = self.0.lock().unwrap();
        (state.refused, state.survive, state.operations) = (Some(operation), survive, 0);
    }

    pub(crate) fn operations(&self) -> usize {
        self.0.lock().unwrap().operations
    }

    /// All objects.
    pub(crate) fn objects(&self) -> Vec<(String, Vec<u8>)> {
        let state = self.0.lock().unwrap();
        let objects = state.objects.iter();
        objects
            .map(|(name, it)| (name.clone(), it.bytes.clone()))
            .collect()
    }

    pub(crate) fn segments(&self) -> Vec<(SegmentName, Vec<u8>)> {
        let objects = self.objects().into_iter();
        let named = objects.filter_map(|(name, bytes)| Some((SegmentName::parse(&name)?, bytes)));
        let mut segments: Vec<_> = named.collect();
        segments.sort_unstable();
        segments
    }
}

#[derive(Debug)]
struct Handle(Memory, String);

impl Handle {
    fn with<T>(&self, run: impl FnOnce(&mut Object) -> T) -> io::Result<T> {
        self.0.operate(|state| {
            let object = state.objects.get_mut(&self.1);
            object
                .map(run)
                .ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }
}

impl Store for Memory {
    fn list(&self) -> io::Result<Vec<String>> {
        self.operate(|state| Ok(state.objects.keys().cloned().collect()))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>> {
        let handle = Handle(self.clone(), name.to_owned());
        handle.with(|_| ())?;
        Ok(Box::new(handle))
    }

    fn write(&self, name: &str) -> io::Result<Box<dyn WriteAt>> {
        self.operate(|state| {
            state.objects.entry(name.to_owned()).or_default();
            Ok(())
        })?;
        Ok(Box::new(Handle(self.clone(), name.to_owned())))
    }

    fn publish(&self, temporary: &str, name: &str) -> io::Result<()> {
        self.operate(|state| {
            if state.objects.contains_key(name) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let object = state.objects[temporary].clone();
            assert_eq!(
                object.bytes, object.synced,
                "published before it was synced"
            );
            state.objects.insert(name.to_owned(), object);
            Ok(())
        })?;
        self.remove(temporary)
    }

    fn replace(&self, temporary: &str, name: &str) -> io::Result<()> {
        self.operate(|state| {
            let object = state.objects.remove(temporary).unwrap();
            assert_eq!(object.bytes, object.synced, "replaced before it was synced");
            state.objects.insert(name.to_owned(), object);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.operate(|state| {
            state.objects.remove(name);
            Ok(())
        })
    }
}

impl ReadAt for Handle {
    fn size(&mut self) -> io::Result<u64> {
        self.with(|object| object.bytes.len() as u64)
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(at).unwrap();
        self.with(|object| {
            let bytes = object.bytes.get(at..at + buffer.len());
            let bytes = bytes.ok_or(io::ErrorKind::UnexpectedEof)?;
            buffer.copy_from_slice(bytes);
            Ok(())
        })?
    }
}

impl WriteAt for Handle {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let appended = self.with(|object| object.append(bytes));
        if appended.is_err() {
            // A part of the bytes may be there.
            let mut state = self.0.0.lock().unwrap();
            let size = state.survive.min(bytes.len());
            if let Some(object) = state.objects.get_mut(&self.1) {
                object.append(&bytes[..size]);
            }
        }
        appended
    }

    fn rewrite(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let at = usize::try_from(at).unwrap();
        self.with(|object| {
            let range = at..at + bytes.len();
            assert_eq!(object.bytes[range.clone()], *bytes, "other bytes");
            object.dirty[range].fill(true);
        })
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        let size = usize::try_from(size).unwrap();
        self.with(|object| {
            object.bytes.truncate(size);
            object.dirty.truncate(size);
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        let synced = self.with(Object::sync);
        if synced.is_err()
            && let Some(object) = self.0.0.lock().unwrap().objects.get_mut(&self.1)
        {
            object.dirty.fill(false);
        }
        synced
    }
}

/// A store and a spool that count the bytes which were read from one of them, and not written to the
/// other one yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passing {
    pub(crate) store: Memory,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    read: u64,
    written: u64,
    most: u64,
}

impl Passing {
    /// The most bytes that were between them since the last call.
    pub(crate) fn most(&self) -> u64 {
        std::mem::take(&mut *self.counts.lock().unwrap()).most
    }

    fn read_to(&self, end: u64) {
        let mut counts = self.counts.lock().unwrap();
        counts.read = counts.read.max(end);
        counts.most = counts.most.max(counts.read.saturating_sub(counts.written));
    }

    fn written(&self, bytes: usize) {
        self.counts.lock().unwrap().written += bytes as u64;
    }
}

#[derive(Debug)]
struct Passed<T: ?Sized>(Passing, Box<T>);

impl Store for Passing {
    fn list(&self) -> io::Result<Vec<String>> {
        self.store.list()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(Passed(self.clone(), self.store.open(name)?)))
    }

    fn write(&self, name: &str) -> io::Result<Box<dyn WriteAt>> {
        Ok(Box::new(Passed(self.clone(), self.store.write(name)?)))
    }

    fn publish(&self, temporary: &str, name: &str) -> io::Result<()> {
        self.store.publish(temporary, name)
    }

    fn replace(&self, temporary: &str, name: &str) -> io::Result<()> {
        self.store.replace(temporary, name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.store.remove(name)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for Passed<T> {
    fn size(&mut self) -> io::Result<u64> {
        self.1.size()
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_to(at + buffer.len() as u64);
        self.1.read_at(at, buffer)
    }
}

impl WriteAt for Passed<dyn WriteAt> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.written(bytes.len());
        self.1.append(bytes)
    }

    fn rewrite(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.1.rewrite(at, bytes)
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        self.1.truncate(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.1.sync()
    }
}

impl Spool for Passing {
    fn create(&self) -> io::Result<Box<dyn SpoolFile>> {
        Ok(Box::new(Passed(self.clone(), Box::new(Vec::new()))))
    }
}

impl SpoolFile for Passed<Vec<u8>> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.written(bytes.len());
        self.1.extend_from_slice(bytes);
        Ok(())
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_to(at + buffer.len() as u64);
        let at = usize::try_from(at).unwrap();
        buffer.copy_from_slice(&self.1[at..at + buffer.len()]);
        Ok(())
    }
}
