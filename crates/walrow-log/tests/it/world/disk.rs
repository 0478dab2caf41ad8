//! A disk in memory: the files that processes see, and the files that a power loss leaves.

use super::choices::Choices;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::io;
use std::sync::{Arc, OnceLock};
use walrow_log::Tag;

pub(crate) type Inode = usize;
/// A process, from its start to its end.
pub(crate) type Life = u64;

/// The beginning of the names of objects that are not complete.
pub(crate) const STAGED: &str = ".walrow-";

/// Inodes and their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    names: BTreeMap<String, Inode>,
    durable: BTreeMap<String, Inode>,
    /// Changes of names that are not durable, in order.
    changes: Vec<(String, Option<Inode>)>,
    /// Names of objects that are not complete. It does not matter whether a power loss leaves them.
    staged: BTreeMap<String, Inode>,
    inodes: BTreeMap<Inode, Arc<Content>>,
    /// How many inodes there were.
    created: usize,
    locks: BTreeMap<Inode, Life>,
    /// Counts changes that readers see.
    pub(crate) seen: u64,
    /// Counts changes that matter after a power loss.
    pub(crate) kept: u64,
    /// The lock that each process gets.
    pub(crate) shared: Option<String>,
    /// How many pages new objects may fill together with the others.
    pub(crate) room: Option<usize>,
}

#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    /// The writes after the last sync, in order.
    writes: Vec<Write>,
    /// Whether a sync has failed, so that some bytes are not durable although no write is left.
    has_lost: bool,
    digest: OnceLock<u64>,
    /// Whether the bytes or the durable bytes contain the value that is erased.
    has_secret: OnceLock<bool>,
}

impl Content {
    fn change(content: &mut Arc<Self>) -> &mut Self {
        let content = Arc::make_mut(content);
        content.digest.take();
        content.has_secret.take();
        content
    }
}

#[derive(Clone, Debug)]
enum Write {
    At(usize, Vec<u8>),
    Truncate(usize),
}

impl Write {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::At(at, new) => {
                bytes.resize(bytes.len().max(at + new.len()), 0);
                bytes[*at..at + new.len()].copy_from_slice(new);
            }
            Self::Truncate(size) => bytes.truncate(*size),
        }
    }

    /// The first bytes of the write.
    fn cut(&self, size: usize) -> Self {
        match self {
            Self::At(at, new) => Self::At(*at, new[..size.min(new.len())].to_vec()),
            Self::Truncate(size) => Self::Truncate(*size),
        }
    }
}

/// The choice of a power loss among the writes and names that are not durable: it takes all of
/// them, nothing, or some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    All,
    Nothing,
    Chosen,
}

/// A number that differs for other values.
pub(crate) fn digest<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Disk {
    fn content(&self, inode: Inode) -> &Content {
        &self.inodes[&inode]
    }

    fn content_mut(&mut self, inode: Inode) -> &mut Content {
        Content::change(self.inodes.get_mut(&inode).unwrap())
    }

    /// Distinguishes the bytes of an object from others.
    pub(crate) fn digest(&self, inode: Inode) -> u64 {
        let content = self.content(inode);
        *content.digest.get_or_init(|| digest(&content.bytes))
    }

    pub(crate) fn inode(&self, name: &str) -> io::Result<Inode> {
        let inode = self.names.get(name).copied();
        inode.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = (&String, Inode)> {
        self.names.iter().map(|(name, inode)| (name, *inode))
    }

    /// All names that a listing has.
    pub(crate) fn list(&self) -> Vec<String> {
        self.names
            .keys()
            .chain(self.staged.keys())
            .cloned()
            .collect()
    }

    pub(crate) fn staged(&self) -> usize {
        self.staged.len()
    }

    pub(crate) fn is_staged(&self, inode: Inode) -> bool {
        self.staged.values().any(|it| *it == inode)
    }

    pub(crate) fn bytes(&self, inode: Inode) -> &[u8] {
        &self.content(inode).bytes
    }

    /// The names now and after a power loss, and a text about the object of each.
    pub(crate) fn described(&self) -> BTreeMap<String, String> {
        let names = self.names.keys().chain(self.durable.keys());
        let describe = |name: &String| {
            let (now, durable) = (self.names.get(name), self.durable.get(name));
            let now_text = self.describe(name, now.copied());
            let text = if now == durable {
                now_text
            } else {
                format!(
                    "{now_text}; durable: {}",
                    self.describe(name, durable.copied())
                )
            };
            (name.clone(), text)
        };
        names.map(describe).collect()
    }

    fn describe(&self, name: &str, inode: Option<Inode>) -> String {
        let Some(inode) = inode else {
            return "none".to_owned();
        };
        let Content { bytes, synced, .. } = self.content(inode);
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            let text = text.replace(|it: char| it.is_control(), ".");
            let text = if name.starts_with("_loaded") {
                &text
            } else {
                ""
            };
            format!(
                "{} bytes {:04x} {text}",
                bytes.len(),
                digest(bytes) & 0xffff
            )
        };
        let synced = if bytes == synced {
            "all".to_owned()
        } else {
            text(synced)
        };
        format!("#{inode} {}, synced: {synced}", text(bytes))
    }

    fn create(&mut self) -> Inode {
        self.created += 1;
        self.inodes.insert(self.created, Arc::default());
        self.created
    }

    fn change(&mut self, name: &str, inode: Option<Inode>) {
        match inode {
            Some(inode) => self.names.insert(name.to_owned(), inode),
            None => self.names.remove(name),
        };
        self.changes.push((name.to_owned(), inode));
        self.seen += 1;
    }

    /// Makes all names durable, as the directory's sync does: "Calling `fsync()` does not necessarily ensure
    /// that the entry in the directory containing the file has also reached disk. For that an explicit
    /// `fsync()` on a file descriptor for the directory is also needed" (Linux, `fsync(2)`).
    pub(crate) fn sync_names(&mut self) {
        if !self.changes.is_empty() {
            self.changes.clear();
            self.durable.clone_from(&self.names);
            self.kept += 1;
        }
    }

    pub(crate) fn stage(&mut self, life: Life) -> Inode {
        let inode = self.create();
        self.staged.insert(format!("{STAGED}{life}-{inode}"), inode);
        self.locks.insert(inode, life);
        inode
    }

    pub(crate) fn unstage(&mut self, inode: Inode) {
        self.staged.retain(|_, it| *it != inode);
        self.locks.remove(&inode);
    }

    /// Removes the staged objects of dead processes.
    pub(crate) fn sweep(&mut self) -> usize {
        let before = self.staged.len();
        let locks = &self.locks;
        self.staged.retain(|_, inode| locks.contains_key(inode));
        before - self.staged.len()
    }

    pub(crate) fn write(&mut self, inode: Inode, at: Option<usize>, bytes: &[u8]) {
        let content = self.content_mut(inode);
        let at = at.unwrap_or(content.bytes.len());
        let write = Write::At(at, bytes.to_vec());
        write.apply(&mut content.bytes);
        content.writes.push(write);
    }

    pub(crate) fn truncate(&mut self, inode: Inode, size: usize) {
        let content = self.content_mut(inode);
        let write = Write::Truncate(size);
        write.apply(&mut content.bytes);
        content.writes.push(write);
    }

    pub(crate) fn sync(&mut self, inode: Inode) {
        let content = self.content_mut(inode);
        for write in std::mem::take(&mut content.writes) {
            write.apply(&mut content.synced);
        }
        self.kept += 1;
    }

    /// Only some of the writes become durable. A later sync does not write the other writes.
    pub(crate) fn fail_to_sync(&mut self, inode: Inode, choices: &mut Choices) {
        let content = self.content_mut(inode);
        content.has_lost = true;
        let (all, is_evicted) = (choices.next(3), choices.rarely(2));
        for write in std::mem::take(&mut content.writes) {
            if all == 1 || all == 2 && choices.rarely(2) {
                write.apply(&mut content.synced);
            }
        }
        if is_evicted {
            // The system takes the lost bytes for written ones, and drops them from its cache. Then
            // readers find the bytes of the disk.
            let size = content.bytes.len();
            content.bytes.clone_from(&content.synced);
            content.bytes.resize(size, 0);
            self.seen += 1;
        }
        self.kept += 1;
    }

    pub(crate) fn tag(&self, inode: Inode) -> Tag {
        Tag(format!("{inode}-{}", self.bytes(inode).len()))
    }

    /// Gives an inode a name, if the name is free: `EEXIST` if it "resolves to an existing directory entry"
    /// (POSIX, link). Returns whether the inode has the name.
    pub(crate) fn link(&mut self, inode: Inode, name: &str) -> bool {
        if let Some(known) = self.names.get(name) {
            return *known == inode;
        }
        self.change(name, Some(inode));
        true
    }

    /// Whether the name's object is the expected one, or this inode already.
    pub(crate) fn is_expected(&self, inode: Inode, name: &str, expected: &Tag) -> bool {
        let known = self.names.get(name);
        known.is_some_and(|it| *it == inode || self.tag(*it) == *expected)
    }

    /// Gives an inode a name, in place of another inode: "a link named new shall remain visible to other
    /// threads throughout the renaming operation and refer either to the file referred to by new or old
    /// before the operation began" (POSIX, rename).
    pub(crate) fn rename(&mut self, inode: Inode, name: &str) {
        if self.names.get(name) != Some(&inode) {
            self.change(name, Some(inode));
        }
    }

    pub(crate) fn unlink(&mut self, name: &str) {
        if self.names.contains_key(name) {
            self.change(name, None);
        }
    }

    /// Opens or creates an object, and locks it. `None` if it is locked.
    pub(crate) fn locked(&mut self, name: &str, life: Life) -> Option<Inode> {
        let inode = self.inode(name).unwrap_or_else(|_| {
            let inode = self.create();
            self.change(name, Some(inode));
            inode
        });
        let is_shared = self.shared.as_deref() == Some(name);
        if self.locks.contains_key(&inode) && !is_shared {
            return None;
        }
        self.locks.insert(inode, life);
        Some(inode)
    }

    pub(crate) fn unlock(&mut self, inode: Inode) {
        self.locks.remove(&inode);
    }

    pub(crate) fn is_locked(&self, name: &str) -> bool {
        let is_shared = self.shared.as_deref() == Some(name);
        let inode = self.names.get(name);
        !is_shared && inode.is_some_and(|inode| self.locks.contains_key(inode))
    }

    /// Whether a process has locked this object, which may have lost its name.
    pub(crate) fn has_lock(&self, inode: Inode) -> bool {
        self.locks.contains_key(&inode)
    }

    /// A process ends. Its locks end, too: "the lock is released either by an explicit `LOCK_UN` operation on
    /// any of these duplicate file descriptors, or when all such file descriptors have been closed"
    /// (Linux, `flock(2)`).
    pub(crate) fn kill(&mut self, life: Life) {
        self.locks.retain(|_, it| *it != life);
    }

    /// Changes the disk as a power loss does.
    pub(crate) fn lose_power(&mut self, loss: Loss, is_ordered: bool, choices: &mut Choices) {
        self.locks.clear();
        let mut chosen = |most: usize| match loss {
            Loss::All => 0,
            Loss::Nothing => most,
            Loss::Chosen => choices.next(most + 1),
        };
        let changes = std::mem::take(&mut self.changes);
        // Most file systems keep the order of names.
        let most = if is_ordered {
            chosen(changes.len())
        } else {
            changes.len()
        };
        for (name, inode) in changes.into_iter().take(most) {
            if is_ordered || chosen(1) == 1 {
                match inode {
                    Some(inode) => self.durable.insert(name, inode),
                    None => self.durable.remove(&name),
                };
            }
        }
        self.names.clone_from(&self.durable);
        if chosen(1) == 0 {
            self.staged.clear();
        }
        for content in self.inodes.values_mut() {
            if content.writes.is_empty() && !content.has_lost {
                continue;
            }
            let content = Content::change(content);
            for write in std::mem::take(&mut content.writes) {
                // The whole write, no byte of it, its first bytes, or its last bytes. Earlier bytes or
                // zeros are before these.
                match (chosen(3), &write) {
                    (0, _) => {}
                    (1, Write::At(_, bytes)) => {
                        write.cut(chosen(bytes.len())).apply(&mut content.synced);
                    }
                    (2, Write::At(at, bytes)) => {
                        let size = content.synced.len().max(at + bytes.len());
                        content.synced.resize(size, 0);
                        let first = chosen(bytes.len());
                        Write::At(at + first, bytes[first..].to_vec()).apply(&mut content.synced);
                    }
                    _ => write.apply(&mut content.synced),
                }
            }
            content.bytes.clone_from(&content.synced);
            content.has_lost = false;
        }
        self.seen += 1;
        self.kept += 1;
    }

    /// Changes the disk as a power loss does that leaves this many bytes of each object that were not
    /// synced, and all names if it leaves bytes.
    pub(crate) fn restart(&mut self, stays: usize) {
        self.locks.clear();
        if stays > 0 {
            self.sync_names();
        }
        for content in self.inodes.values_mut() {
            let content = Content::change(content);
            let appended = content.bytes.len().saturating_sub(content.synced.len());
            if appended > 0 && content.bytes.starts_with(&content.synced) {
                let size = content.synced.len() + stays.min(appended);
                content.bytes.truncate(size);
                content.synced.clone_from(&content.bytes);
                content.writes.clear();
            }
        }
        self.lose_power(Loss::All, true, &mut Choices::of_list(&[]));
    }

    /// The pages of all objects that have a name, or will have one.
    pub(crate) fn pages(&self) -> usize {
        let inodes: BTreeSet<_> = self.names.values().chain(self.staged.values()).collect();
        let sizes = inodes.iter().map(|inode| self.bytes(**inode).len());
        sizes.map(|size| size.div_ceil(4096)).sum()
    }

    /// Changes a bit of an object.
    pub(crate) fn flip(&mut self, name: &str, place: usize, bit: u8) {
        let inode = self.names[name];
        let content = self.content_mut(inode);
        content.bytes[place] ^= bit;
        content.synced[place] ^= bit;
    }

    /// A disk with these names, which no process uses.
    fn with(&self, names: &BTreeMap<String, Inode>) -> Self {
        let inodes = names.values();
        Self {
            names: names.clone(),
            durable: names.clone(),
            inodes: inodes.map(|it| (*it, self.inodes[it].clone())).collect(),
            created: self.created,
            seen: self.seen,
            kept: self.kept,
            shared: self.shared.clone(),
            room: self.room,
            ..Self::default()
        }
    }

    /// The disk after a power loss that takes everything that is not durable.
    pub(crate) fn after_loss(&self) -> Self {
        let mut disk = self.with(&self.durable);
        disk.lose_power(Loss::All, true, &mut Choices::of_list(&[]));
        disk
    }

    /// The object that has the value in bytes that a power loss may leave.
    pub(crate) fn has(&self, value: &[u8]) -> Option<String> {
        let pending = self.changes.iter();
        let pending = pending.filter_map(|(name, inode)| Some((name, (*inode)?)));
        let durable = self.durable.iter().map(|(name, inode)| (name, *inode));
        let mut all = self.names().chain(durable).chain(pending);
        let is_in = |bytes: &[u8]| bytes.windows(value.len()).any(|it| it == value);
        let found = all.find(|(_, inode)| {
            let content = self.content(*inode);
            let is_there = || is_in(&content.bytes) || is_in(&content.synced);
            *content.has_secret.get_or_init(is_there)
        });
        found.map(|(name, _)| name.clone())
    }

    /// The same directory elsewhere, as `cp -a` and a sync make it. Nobody has locked its objects.
    pub(crate) fn copied(&self) -> Self {
        let mut copy = self.with(&self.names);
        copy.staged.clone_from(&self.staged);
        let staged = self.staged.values();
        copy.inodes
            .extend(staged.map(|it| (*it, self.inodes[it].clone())));
        for content in copy.inodes.values_mut() {
            if !content.writes.is_empty() || content.has_lost {
                let content = Content::change(content);
                content.writes.clear();
                content.synced.clone_from(&content.bytes);
            }
        }
        copy.seen += 1;
        copy.kept += 1;
        copy
    }

    /// Sets an object's bytes, as `cp` does.
    pub(crate) fn set(&mut self, name: &str, bytes: &[u8]) {
        let inode = self.create();
        self.write(inode, None, bytes);
        self.sync(inode);
        self.change(name, Some(inode));
        self.sync_names();
    }
}
