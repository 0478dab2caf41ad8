//! A store in memory that crashes.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};
use walrow_log::{Journal, Lock, Objects, Put, ReadAt, SegmentName, Staged, Store, Tag};
use walrow_stream::{Spool, SpoolFile};

/// Objects in memory. The store crashes at an operation, and then loses bytes that were not synced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(Arc<Mutex<State>>);

type Inode = u64;

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<String, Inode>,
    inodes: BTreeMap<Inode, Object>,
    last: Inode,
    locked: BTreeSet<Inode>,
    /// The inodes that have no name yet.
    staged: BTreeSet<Inode>,
    operations: usize,
    /// The operation that fails. All later operations fail, too.
    crash: Option<usize>,
    /// How many bytes of that operation survive, and how many bytes that were not synced.
    survive: usize,
    /// The only operation that fails, as on a disk that is full for a moment.
    refused: Option<usize>,
    /// The hook that runs before an operation.
    hook: Option<(usize, Hook)>,
    /// The lock that each process gets.
    shared: Option<String>,
    /// Bytes of all objects, at most.
    room: Option<usize>,
}

/// The work of another process.
struct Hook(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hook").finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, Default)]
struct Object {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    /// Marks the bytes that the next sync makes durable. A failed sync clears the marks.
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

impl State {
    fn inode(&self, name: &str) -> io::Result<Inode> {
        let inode = self.names.get(name).copied();
        inode.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create(&mut self) -> Inode {
        self.last += 1;
        self.inodes.insert(self.last, Object::default());
        self.last
    }

    fn named(&mut self, name: &str) -> Inode {
        self.inode(name).unwrap_or_else(|_| {
            let inode = self.create();
            self.names.insert(name.to_owned(), inode);
            inode
        })
    }

    fn object(&mut self, name: &str) -> &mut Object {
        let inode = self.named(name);
        self.inodes.get_mut(&inode).unwrap()
    }

    /// The pages of all objects that have a name, or will have one.
    fn pages(&self) -> usize {
        let sizes = self.inodes.iter().filter(|(inode, _)| {
            self.names.values().any(|it| it == *inode) || self.staged.contains(inode)
        });
        sizes.map(|(_, it)| it.bytes.len().div_ceil(4096)).sum()
    }

    fn tag(&self, inode: Inode) -> Tag {
        Tag(format!("{inode}-{}", self.inodes[&inode].bytes.len()))
    }
}

impl Memory {
    /// Changes a byte of an object.
    pub(crate) fn flip(&self, name: &str, place: usize, bit: u8) {
        let mut state = self.0.lock().unwrap();
        state.object(name).bytes[place] ^= bit;
    }

    /// Sets an object's bytes, as if somebody had copied it here.
    pub(crate) fn set(&self, name: &str, bytes: &[u8]) {
        let mut state = self.0.lock().unwrap();
        state.names.remove(name);
        let object = state.object(name);
        object.append(bytes);
        object.sync();
    }

    /// Removes an object, as if somebody had removed it by hand.
    pub(crate) fn lose(&self, name: &str) {
        self.0.lock().unwrap().names.remove(name);
    }

    fn operate<T>(&self, run: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.0.lock().unwrap();
        state.operations += 1;
        let operation = state.operations;
        if let Some((_, hook)) = state.hook.take_if(|(at, _)| *at == operation) {
            drop(state);
            (hook.0)();
            state = self.0.lock().unwrap();
        }
        if state.crash.is_some_and(|crash| state.operations >= crash) {
            return Err(io::Error::other("crash"));
        }
        if state.refused == Some(state.operations) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        run(&mut state)
    }

    /// Another store with the same objects.
    pub(crate) fn copied(&self) -> Self {
        let copy = Self::default();
        for (name, bytes) in self.objects() {
            copy.set(&name, &bytes);
        }
        copy
    }

    /// Runs a function before a later operation. Operations count from now on.
    pub(crate) fn before(&self, operation: usize, run: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock().unwrap();
        let at = state.operations + operation;
        state.hook = Some((at, Hook(Box::new(run))));
    }

    /// Removes the hook. Returns whether there was a hook.
    pub(crate) fn forget_hook(&self) -> bool {
        self.0.lock().unwrap().hook.take().is_some()
    }

    /// Gives the lock to each process that asks, like a store without locks.
    pub(crate) fn share(&self, name: &str) {
        self.0.lock().unwrap().shared = Some(name.to_owned());
    }

    /// Whether a process has the lock with this name.
    pub(crate) fn is_locked(&self, name: &str) -> bool {
        let state = self.0.lock().unwrap();
        let inode = state.names.get(name);
        let is_shared = state.shared.as_deref() == Some(name);
        !is_shared && inode.is_some_and(|inode| state.locked.contains(inode))
    }

    /// Limits the store to the pages that its objects have now. More pages do not fit.
    pub(crate) fn fill(&self) {
        let mut state = self.0.lock().unwrap();
        state.room = Some(state.pages());
    }

    /// Starts again after a crash.
    pub(crate) fn reboot(&self) {
        let mut state = self.0.lock().unwrap();
        (state.crash, state.refused, state.operations) = (None, None, 0);
        state.locked.clear();
        let survive = state.survive;
        for object in state.inodes.values_mut() {
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
        let names = state.names.iter();
        names
            .map(|(name, inode)| (name.clone(), state.inodes[inode].bytes.clone()))
            .collect()
    }

    pub(crate) fn segments(&self) -> Vec<(SegmentName, Vec<u8>)> {
        let objects = self.objects().into_iter();
        let named = objects.filter_map(|(name, bytes)| Some((SegmentName::parse(&name)?, bytes)));
        let mut segments: Vec<_> = named.collect();
        segments.sort_unstable();
        segments
    }

    fn put(&self, inode: Inode, put: impl FnOnce(&mut State) -> bool) -> Put {
        let done = self.operate(|state| {
            state.inodes.get_mut(&inode).unwrap().sync();
            Ok(put(state))
        });
        match done {
            Ok(true) => Put::Done,
            Ok(false) => Put::Lost,
            Err(error) => Put::Unknown(error),
        }
    }
}

/// An object that was opened, under this name.
#[derive(Debug)]
struct Handle {
    memory: Memory,
    inode: Inode,
    name: String,
    is_locked: bool,
}

impl Handle {
    fn of(memory: &Memory, inode: Inode, name: &str, is_locked: bool) -> Self {
        let (memory, name) = (memory.clone(), name.to_owned());
        Self {
            memory,
            inode,
            name,
            is_locked,
        }
    }

    fn with<T>(&self, run: impl FnOnce(&mut Object) -> T) -> io::Result<T> {
        self.memory
            .operate(|state| Ok(run(state.inodes.get_mut(&self.inode).unwrap())))
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let appended = self.with(|object| object.append(bytes));
        if appended.is_err() {
            // A part of the bytes may be there.
            let mut state = self.memory.0.lock().unwrap();
            let size = state.survive.min(bytes.len());
            let object = state.inodes.get_mut(&self.inode).unwrap();
            object.append(&bytes[..size]);
        }
        appended
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.memory.0.lock().unwrap();
        if self.is_locked {
            state.locked.remove(&self.inode);
        }
        if self.name.is_empty() {
            state.staged.remove(&self.inode);
        }
    }
}

impl Objects for Memory {
    fn list(&self) -> io::Result<Vec<String>> {
        self.operate(|state| Ok(state.names.keys().cloned().collect()))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>> {
        let inode = self.operate(|state| state.inode(name))?;
        Ok(Box::new(Handle::of(self, inode, name, false)))
    }
}

impl Store for Memory {
    fn stage(&self) -> io::Result<Box<dyn Staged>> {
        let inode = self.operate(|state| {
            let inode = state.create();
            state.staged.insert(inode);
            Ok(inode)
        })?;
        Ok(Box::new(Handle::of(self, inode, "", false)))
    }

    fn remove(&self, names: &[&str]) -> io::Result<()> {
        for name in names {
            self.operate(|state| {
                state.names.remove(*name);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn journal(&self, name: &str) -> io::Result<Box<dyn Journal>> {
        let inode = self.operate(|state| {
            let inode = state.named(name);
            if state.locked.insert(inode) {
                Ok(inode)
            } else {
                Err(io::ErrorKind::WouldBlock.into())
            }
        })?;
        Ok(Box::new(Handle::of(self, inode, name, true)))
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        let taken = self.operate(|state| {
            let inode = state.named(name);
            let is_free = state.locked.insert(inode) || state.shared.as_deref() == Some(name);
            Ok(is_free.then_some(inode))
        })?;
        Ok(taken.map(|inode| Box::new(Handle::of(self, inode, name, true)) as Box<dyn Lock>))
    }

    fn check(&self) -> io::Result<()> {
        Ok(())
    }

    fn sweep(&self) -> io::Result<usize> {
        Ok(0)
    }
}

impl Lock for Handle {}

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

    fn tag(&mut self) -> io::Result<Tag> {
        self.memory.operate(|state| Ok(state.tag(self.inode)))
    }
}

impl Staged for Handle {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        Self::append(self, bytes)?;
        let state = self.memory.0.lock().unwrap();
        match state.room {
            Some(room) if state.pages() > room => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    fn create(&mut self, name: &str) -> Put {
        let inode = self.inode;
        self.memory.put(inode, |state| {
            *state.names.entry(name.to_owned()).or_insert(inode) == inode
        })
    }

    fn swap(&mut self, name: &str, expected: &Tag) -> Put {
        let inode = self.inode;
        self.memory.put(inode, |state| {
            let Ok(known) = state.inode(name) else {
                return false;
            };
            if known != inode && state.tag(known) != *expected {
                return false;
            }
            state.names.insert(name.to_owned(), inode);
            true
        })
    }
}

impl Journal for Handle {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        Self::append(self, bytes)
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
        if synced.is_err() {
            let mut state = self.memory.0.lock().unwrap();
            let object = state.inodes.get_mut(&self.inode).unwrap();
            object.dirty.fill(false);
        }
        synced?;
        if self.is_named()? {
            Ok(())
        } else {
            Err(io::ErrorKind::StaleNetworkFileHandle.into())
        }
    }

    fn is_named(&mut self) -> io::Result<bool> {
        let state = self.memory.0.lock().unwrap();
        Ok(state.names.get(&self.name) == Some(&self.inode))
    }
}

/// A store and a spool that count bytes: read from one of the two, and not yet written to the
/// other.
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
    /// The most such bytes since the last call.
    pub(crate) fn most(&self) -> u64 {
        std::mem::take(&mut *self.counts.lock().unwrap()).most
    }

    /// Counts from zero again.
    pub(crate) fn begin(&self) {
        *self.counts.lock().unwrap() = Counts::default();
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

impl Objects for Passing {
    fn list(&self) -> io::Result<Vec<String>> {
        self.store.list()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(Passed(self.clone(), self.store.open(name)?)))
    }
}

impl Store for Passing {
    fn stage(&self) -> io::Result<Box<dyn Staged>> {
        Ok(Box::new(Passed(self.clone(), self.store.stage()?)))
    }

    fn remove(&self, names: &[&str]) -> io::Result<()> {
        self.store.remove(names)
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

impl<T: ReadAt + ?Sized> ReadAt for Passed<T> {
    fn size(&mut self) -> io::Result<u64> {
        self.1.size()
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_to(at + buffer.len() as u64);
        self.1.read_at(at, buffer)
    }

    fn tag(&mut self) -> io::Result<Tag> {
        self.1.tag()
    }
}

impl Staged for Passed<dyn Staged> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.written(bytes.len());
        self.1.append(bytes)
    }

    fn create(&mut self, name: &str) -> Put {
        self.1.create(name)
    }

    fn swap(&mut self, name: &str, expected: &Tag) -> Put {
        self.1.swap(name, expected)
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
