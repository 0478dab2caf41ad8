//! The store of a process in a world.

use super::coverage::Call;
use super::disk::{Disk, Inode, Life};
use super::turns::{Extent, World, failed};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use walrow_log::{Journal, Lock, Objects, Put, ReadAt, Staged, Store, Tag};

/// The store as a process sees it. Without an actor, its calls are not steps, and do not fail.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    world: World,
    actor: Option<(usize, Life)>,
}

impl Process {
    /// The store of the actor's process.
    pub(crate) fn of(world: &World, actor: usize) -> Self {
        let life = world.life(actor);
        Self {
            world: world.clone(),
            actor: Some((actor, life)),
        }
    }

    /// The store of the only process on a disk.
    pub(crate) fn alone(disk: Disk) -> Self {
        Self {
            world: World::alone(disk),
            actor: None,
        }
    }

    pub(crate) fn life(&self) -> Life {
        self.actor.map_or(0, |(_, life)| life)
    }

    pub(crate) fn disk(&self) -> Disk {
        self.world.aside(|it| it.disk.clone())
    }

    /// Whether the process was killed, or everything has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.world.aside(|it| it.has_ended(self.life()))
    }

    fn operate<T>(
        &self,
        call: Call,
        run: impl FnOnce(&mut Disk) -> io::Result<T>,
    ) -> io::Result<T> {
        self.world.operate(self.actor, call, |disk, _, _| run(disk))
    }

    fn handle(&self, inode: Inode, name: &str, locks: bool) -> Handle {
        Handle {
            process: self.clone(),
            inode,
            name: name.to_owned(),
            locks,
        }
    }

    fn release(&self, run: impl FnOnce(&mut Disk)) {
        self.world.aside(|it| {
            if self.actor.is_none_or(|(_, life)| !it.has_ended(life)) {
                run(&mut it.disk);
            }
        });
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
        let fails_at = |rare: usize, at: usize| if rare == 1 { at } else { usize::MAX };
        let inode = self
            .world
            .operate(self.actor, Call::Stage, |disk, choices, _| {
                // Another thread may write the object. So the append that fails is drawn now.
                fails = fails_at(choices.next(300), 0);
                if fails == 0 {
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
            is_linked: AtomicBool::new(false),
        }))
    }

    fn remove(&self, names: &[&str]) -> io::Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        self.world
            .operate(self.actor, Call::Remove, |disk, choices, extent| {
                let count = match extent {
                    Extent::Whole => names.len(),
                    Extent::Part => choices.next(names.len()),
                };
                for name in &names[..count] {
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
        self.operate(Call::Check, |_| Ok(()))
    }

    fn sweep(&self) -> io::Result<usize> {
        self.operate(Call::Sweep, |disk| Ok(disk.sweep()))
    }

    fn pause(&self, _: Duration) -> io::Result<()> {
        self.world.pause(self.actor.map(|(actor, _)| actor));
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
            self.process.release(|disk| disk.unlock(self.inode));
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
            .operate(process.actor, Call::Append, |disk, choices, extent| {
                let size = match extent {
                    Extent::Whole => bytes.len(),
                    Extent::Part => choices.next(bytes.len() + 1),
                };
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
            .operate(process.actor, Call::Rewrite, |disk, choices, extent| {
                let known = &disk.bytes(inode)[at..at + bytes.len()];
                assert_eq!(known, bytes, "other bytes");
                let size = match extent {
                    Extent::Whole => bytes.len(),
                    Extent::Part => choices.next(bytes.len() + 1),
                };
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
            .operate(process.actor, Call::Sync, |disk, choices, extent| {
                if extent == Extent::Part {
                    disk.fail_to_sync(inode, choices);
                } else {
                    disk.sync(inode);
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
        self.process.operate(Call::IsNamed, is_named)
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
    is_linked: AtomicBool,
}

impl New {
    fn put(
        &self,
        call: Call,
        name: &str,
        expected: Option<&Tag>,
        run: impl FnOnce(&mut Disk) -> bool,
    ) -> Put {
        let Process { world, actor } = &self.process;
        let inode = self.inode;
        if self.is_linked.load(Ordering::Relaxed) {
            return Put::Done;
        }
        let late = Some((inode, name, expected));
        let done = world.operate_late(*actor, call, late, |disk, _, _| {
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
                self.process.release(|disk| disk.unstage(inode));
                self.is_linked.store(true, Ordering::Relaxed);
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
        let Process { world, actor } = &self.process;
        let number = self.appends.fetch_add(1, Ordering::Relaxed);
        let fault = if number == self.fails {
            super::coverage::Fault::Refused
        } else {
            super::coverage::Fault::None
        };
        world.aside(|it| {
            if actor.is_some_and(|(_, life)| it.has_ended(life)) {
                return Err(failed());
            }
            it.coverage.call(Call::StagedAppend, fault);
            if number == self.fails {
                return Err(failed());
            }
            it.disk.write(self.inode, None, bytes);
            Ok(())
        })
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
        self.process.release(|disk| disk.unstage(self.inode));
    }
}
