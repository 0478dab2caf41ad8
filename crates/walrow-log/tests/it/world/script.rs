//! A disk that one process at a time uses, and that fails at the call that a test names.

use super::disk::Disk;
use super::store::Process;
use std::io;
use walrow_log::SegmentName;

/// The store of such a process.
pub(crate) type Memory = Process;

/// The calls of a store, and which of them fail.
#[derive(Debug, Default)]
pub(crate) struct Script {
    calls: usize,
    /// The call that fails, as all later calls do.
    crash: Option<usize>,
    /// The only call that fails, as on a disk that is full for a moment.
    refused: Option<usize>,
    /// How many bytes of that call stay, and after a restart, how many bytes that were not synced.
    pub(crate) stays: usize,
    /// The work of another process before a call.
    hook: Option<(usize, Hook)>,
}

struct Hook(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hook").finish_non_exhaustive()
    }
}

impl Script {
    /// Counts a call. Returns the work that comes before it.
    pub(crate) fn begin(&mut self) -> Option<Box<dyn FnOnce() + Send>> {
        self.calls += 1;
        let calls = self.calls;
        let hook = self.hook.take_if(|(at, _)| *at == calls);
        hook.map(|(_, hook)| hook.0)
    }

    /// The error of the last call, if it fails.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        if self.crash.is_some_and(|crash| self.calls >= crash) {
            Some(io::Error::other("crash"))
        } else if self.refused == Some(self.calls) {
            Some(io::ErrorKind::StorageFull.into())
        } else {
            None
        }
    }
}

impl Default for Process {
    fn default() -> Self {
        Self::alone(Disk::default())
    }
}

impl Process {
    fn script<T>(&self, run: impl FnOnce(&mut Script) -> T) -> T {
        self.world().aside(|it| run(&mut it.script))
    }

    fn with_disk<T>(&self, run: impl FnOnce(&mut Disk) -> T) -> T {
        self.world().aside(|it| run(it.disk_mut()))
    }

    /// Changes a bit of an object.
    pub(crate) fn flip(&self, name: &str, place: usize, bit: u8) {
        self.with_disk(|disk| disk.flip(name, place, bit));
    }

    /// Sets an object's bytes, as if somebody had copied it here.
    pub(crate) fn set(&self, name: &str, bytes: &[u8]) {
        self.with_disk(|disk| disk.set(name, bytes));
    }

    /// Removes an object, as if somebody had removed it by hand.
    pub(crate) fn lose(&self, name: &str) {
        self.with_disk(|disk| {
            disk.unlink(name);
            disk.sync_names();
        });
    }

    /// Another store with the same objects.
    pub(crate) fn copied(&self) -> Self {
        Self::alone(self.disk().copied())
    }

    /// All objects.
    pub(crate) fn objects(&self) -> Vec<(String, Vec<u8>)> {
        let disk = self.disk();
        let names = disk.names();
        names
            .map(|(name, inode)| (name.clone(), disk.bytes(inode).to_vec()))
            .collect()
    }

    pub(crate) fn segments(&self) -> Vec<(SegmentName, Vec<u8>)> {
        let objects = self.objects().into_iter();
        let named = objects.filter_map(|(name, bytes)| Some((SegmentName::parse(&name)?, bytes)));
        let mut segments: Vec<_> = named.collect();
        segments.sort_unstable();
        segments
    }

    /// Runs a function before a later call. Calls count from now on.
    pub(crate) fn before(&self, call: usize, run: impl FnOnce() + Send + 'static) {
        self.script(|it| it.hook = Some((it.calls + call, Hook(Box::new(run)))));
    }

    /// Removes the hook. Returns whether there was a hook.
    pub(crate) fn forget_hook(&self) -> bool {
        self.script(|it| it.hook.take().is_some())
    }

    /// Gives the lock to each process that asks, like a store without locks.
    pub(crate) fn share(&self, name: &str) {
        self.with_disk(|disk| disk.shared = Some(name.to_owned()));
    }

    /// Whether a process has the lock with this name.
    pub(crate) fn is_locked(&self, name: &str) -> bool {
        self.with_disk(|disk| disk.is_locked(name))
    }

    /// Limits the disk to the pages that its objects have now.
    pub(crate) fn fill(&self) {
        self.with_disk(|disk| disk.room = Some(disk.pages()));
    }

    /// How many calls were made since the last restart or failure.
    pub(crate) fn operations(&self) -> usize {
        self.script(|it| it.calls)
    }

    /// This call and all later calls fail. Calls count from now on.
    pub(crate) fn crash_at(&self, call: usize, stays: usize) {
        self.script(|it| (it.crash, it.stays, it.calls) = (Some(call), stays, 0));
    }

    /// Only this call fails. Calls count from now on.
    pub(crate) fn refuse(&self, call: usize, stays: usize) {
        self.script(|it| (it.refused, it.stays, it.calls) = (Some(call), stays, 0));
    }

    /// Starts again after a crash. Names that are not durable stay only if bytes stay, too.
    pub(crate) fn reboot(&self) {
        let stays = self.script(|it| {
            (it.crash, it.refused, it.calls) = (None, None, 0);
            it.stays
        });
        self.with_disk(|disk| disk.restart(stays));
    }
}
