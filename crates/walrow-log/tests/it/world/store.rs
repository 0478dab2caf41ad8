//! The store of a process in a world.

use super::coverage::{Call, Fault};
use super::disk::{Disk, Inode, Life};
use super::machine::{Extent, failed};
use super::turns::{NOWHERE, Who, World};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use walrow_log::{Journal, Lock, Objects, Put, ReadAt, Staged, Store, Tag};

/// The store as a process sees it. Without an actor, its calls are not steps, and do not fail.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    world: World,
    who: Option<Who>,
}

impl Process {
    /// The store of the actor's process, which opens the directory at the log's path.
    pub(crate) fn of(world: &World, actor: usize) -> Self {
        let life = world.life(actor);
        let place = world.aside(|it| if it.is_away { NOWHERE } else { it.here() });
        Self {
            world: world.clone(),
            who: Some(Who { actor, life, place }),
        }
    }

    /// The store of the only process on a disk.
    pub(crate) fn alone(disk: Disk) -> Self {
        Self {
            world: World::alone(disk),
            who: None,
        }
    }

    pub(crate) const fn world(&self) -> &World {
        &self.world
    }

    pub(crate) fn life(&self) -> Life {
        self.who.map_or(0, |it| it.life)
    }

    pub(crate) fn disk(&self) -> Disk {
        self.world.aside(|it| it.disk().clone())
    }

    /// Whether the process does not matter any more: it was killed, another directory is at the
    /// log's path, or everything has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.world.aside(|it| {
            let is_elsewhere = |who: Who| who.place != it.here();
            it.has_ended(self.life()) || self.who.is_some_and(is_elsewhere)
        })
    }

    /// Whether the directory that the process has opened is at the log's path, as far as the
    /// process lives.
    pub(crate) fn is_here(&self) -> bool {
        self.world.aside(|it| {
            let is_here = |who: Who| it.has_ended(who.life) || it.is_here(who.place);
            self.who.is_none_or(is_here)
        })
    }

    fn operate<T>(
        &self,
        call: Call,
        run: impl FnOnce(&mut Disk) -> io::Result<T>,
    ) -> io::Result<T> {
        self.world.operate(self.who, call, |disk, _, _| run(disk))
    }

    fn handle(&self, inode: Inode, name: &str, locks: bool) -> Handle {
        Handle {
            process: self.clone(),
            inode,
            name: name.to_owned(),
            locks,
        }
    }

    /// Uses the disk without a step, unless the process has ended.
    fn aside<T>(&self, run: impl FnOnce(&mut Disk) -> T) -> Option<T> {
        self.world.aside(|it| match self.who {
            Some(who) if it.has_ended(who.life) || who.place == NOWHERE => None,
            Some(who) => Some(run(it.place_mut(who.place))),
            None => Some(run(it.disk_mut())),
        })
    }
}

impl Objects for Process {
    fn list(&self) -> io::Result<Vec<String>> {
        self.operate(Call::List, |disk| Ok(disk.list()))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>> {
        let inode = self.operate(Call::Open, |disk| disk.inode(name))?;
        Ok(Box::new(self.handle(inode, name, false)))
    }
}

impl Store for Process {
    fn stage(&self) -> io::Result<Box<dyn Staged>> {
        let mut fails = usize::MAX;
        let life = self.life();
        let often = self.world.aside(|it| it.focuses(Call::StagedAppend));
        let inode = self
            .world
            .operate(self.who, Call::Stage, |disk, choices, _| {
                // Another thread may write the object. So the append that fails is drawn now.
                if choices.rarely(if often { 4 } else { 300 }) {
                    fails = choices.next(3);
                }
                Ok(disk.stage(life))
            })?;
        let is_calm = self.world.aside(|it| it.is_calm());
        Ok(Box::new(New {
            process: self.clone(),
            inode,
            fails: if is_calm { usize::MAX } else { fails },
            appends: AtomicUsize::new(0),
            is_linked: false,
            is_lost: false,
        }))
    }

    fn remove(&self, names: &[&str]) -> io::Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        self.world
            .operate(self.who, Call::Remove, |disk, choices, extent| {
                for name in &names[..extent.of(names.len(), choices)] {
                    disk.unlink(name);
                }
                Ok(())
            })?;
        self.operate(Call::SyncNames, |disk| {
            disk.sync_names();
            Ok(())
        })
    }

    fn journal(&self, name: &str) -> io::Result<Box<dyn Journal>> {
        let life = self.life();
        let inode = self.operate(Call::Journal, |disk| {
            let locked = disk.locked(name, life);
            locked.ok_or_else(|| io::ErrorKind::WouldBlock.into())
        })?;
        let journal = self.handle(inode, name, true);
        self.operate(Call::SyncNames, |disk| {
            disk.sync_names();
            Ok(())
        })?;
        Ok(Box::new(journal))
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        let life = self.life();
        let inode = self.operate(Call::Lock, |disk| Ok(disk.locked(name, life)))?;
        Ok(inode.map(|inode| Box::new(self.handle(inode, name, true)) as Box<dyn Lock>))
    }

    fn check(&self) -> io::Result<()> {
        self.operate(Call::Check, |_| Ok(()))?;
        if self.is_here() {
            self.world.aside(|it| {
                if let Some(who) = self.who {
                    it.found_here[who.actor] += 1;
                }
            });
            Ok(())
        } else {
            Err(io::ErrorKind::StaleNetworkFileHandle.into())
        }
    }

    fn sweep(&self) -> io::Result<usize> {
        self.operate(Call::Sweep, |disk| Ok(disk.sweep()))
    }

    fn pause(&self, _: Duration) -> io::Result<()> {
        self.world.pause(self.who.map(|it| it.actor));
        Ok(())
    }
}

/// An object that is open.
#[derive(Debug)]
struct Handle {
    process: Process,
    inode: Inode,
    name: String,
    locks: bool,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.locks {
            self.process.aside(|disk| disk.unlock(self.inode));
        }
    }
}

impl Lock for Handle {}

impl ReadAt for Handle {
    fn size(&mut self) -> io::Result<u64> {
        let inode = self.inode;
        let size = |disk: &mut Disk| Ok(disk.bytes(inode).len() as u64);
        self.process.operate(Call::Size, size)
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(at).unwrap();
        self.process.operate(Call::ReadAt, |disk| {
            let bytes = disk.bytes(self.inode).get(at..at + buffer.len());
            buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn tag(&mut self) -> io::Result<Tag> {
        self.process
            .operate(Call::Tag, |disk| Ok(disk.tag(self.inode)))
    }
}

impl Journal for Handle {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (process, inode) = (&self.process, self.inode);
        let is_seen = self.name != "_open";
        process
            .world
            .operate(process.who, Call::Append, |disk, choices, extent| {
                let size = extent.of(bytes.len(), choices);
                disk.write(inode, None, &bytes[..size]);
                disk.seen += u64::from(is_seen);
                Ok(())
            })
    }

    fn rewrite(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let (process, inode) = (&self.process, self.inode);
        let at = usize::try_from(at).unwrap();
        process
            .world
            .operate(process.who, Call::Rewrite, |disk, choices, extent| {
                let known = &disk.bytes(inode)[at..at + bytes.len()];
                assert_eq!(known, bytes, "other bytes");
                let size = extent.of(bytes.len(), choices);
                disk.write(inode, Some(at), &bytes[..size]);
                Ok(())
            })
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        let size = usize::try_from(size).unwrap();
        self.process.operate(Call::Truncate, |disk| {
            disk.truncate(self.inode, size);
            Ok(())
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        let (process, inode) = (&self.process, self.inode);
        process
            .world
            .operate(process.who, Call::Sync, |disk, choices, extent| {
                if extent == Extent::Whole {
                    disk.sync(inode);
                } else {
                    disk.fail_to_sync(inode, choices);
                }
                Ok(())
            })?;
        if self.is_named()? {
            Ok(())
        } else {
            Err(io::ErrorKind::StaleNetworkFileHandle.into())
        }
    }

    fn is_named(&mut self) -> io::Result<bool> {
        let (inode, name) = (self.inode, &self.name);
        let is_named = |disk: &mut Disk| Ok(disk.inode(name).ok() == Some(inode));
        let is_named = self.process.operate(Call::IsNamed, is_named)?;
        self.process.world.aside(|it| {
            if let Some(who) = self.process.who {
                it.found_named[who.actor] += u64::from(is_named);
            }
        });
        Ok(is_named)
    }
}

/// An object that has no name yet.
#[derive(Debug)]
struct New {
    process: Process,
    inode: Inode,
    /// The append that fails.
    fails: usize,
    appends: AtomicUsize,
    is_linked: bool,
    /// Whether a sync has failed. Some of the bytes may be lost, although another sync succeeds.
    is_lost: bool,
}

impl New {
    fn put(
        &mut self,
        call: Call,
        name: &str,
        expected: Option<&Tag>,
        run: impl FnOnce(&mut Disk) -> bool,
    ) -> Put {
        let Process { world, who } = &self.process;
        let inode = self.inode;
        if self.is_linked {
            return Put::Done;
        }
        if self.is_lost {
            return Put::Unknown(failed());
        }
        let late = Some((inode, name, expected));
        let is_lost = &mut self.is_lost;
        let done = world.operate_late(*who, call, late, |disk, choices, extent| {
            if extent != Extent::Whole {
                disk.fail_to_sync(inode, choices);
                *is_lost = true;
                return Err(failed());
            }
            disk.sync(inode);
            Ok(run(disk))
        });
        let done = done.and_then(|done| {
            self.process.operate(Call::SyncNames, |disk| {
                disk.sync_names();
                Ok(done)
            })
        });
        match done {
            Ok(true) => {
                self.process.aside(|disk| disk.unstage(inode));
                self.is_linked = true;
                Put::Done
            }
            Ok(false) => Put::Lost,
            Err(error) => Put::Unknown(error),
        }
    }
}

impl Staged for New {
    /// This call is not a step. Another thread may make it, and no other process sees the bytes.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.process.who.is_none() {
            let inode = self.inode;
            return self.process.operate(Call::StagedAppend, |disk| {
                disk.write(inode, None, bytes);
                match disk.room {
                    Some(room) if disk.pages() > room => Err(io::ErrorKind::StorageFull.into()),
                    _ => Ok(()),
                }
            });
        }
        let number = self.appends.fetch_add(1, Ordering::Relaxed);
        let fails = number == self.fails;
        let fault = if fails { Fault::Refused } else { Fault::None };
        self.process
            .world
            .aside(|it| it.coverage.call(Call::StagedAppend, fault));
        let written = (!fails).then(|| {
            self.process
                .aside(|disk| disk.write(self.inode, None, bytes))
        });
        written.flatten().ok_or_else(failed)
    }

    fn create(&mut self, name: &str) -> Put {
        let inode = self.inode;
        self.put(Call::Create, name, None, |disk| disk.link(inode, name))
    }

    fn swap(&mut self, name: &str, expected: &Tag) -> Put {
        let inode = self.inode;
        // Another process may come between the comparison and the change.
        let is_expected =
            self.process.operate(
                Call::Tag,
                |disk| Ok(disk.is_expected(inode, name, expected)),
            );
        match is_expected {
            Err(error) => return Put::Unknown(error),
            Ok(false) => return Put::Lost,
            Ok(true) => {}
        }
        self.put(Call::Swap, name, Some(expected), |disk| {
            disk.rename(inode, name);
            true
        })
    }
}

impl Drop for New {
    fn drop(&mut self) {
        if !self.is_linked {
            self.process.aside(|disk| disk.unstage(self.inode));
        }
    }
}
