//! Somebody changes a log with commands such as `mv`, `cp` and `rm`, while processes use it.
//!
//! A writer must notice it before it returns a position, or the log must be refused until the
//! object is put back.

use super::actors::Actor;
use super::coverage::{Act, REMOVALS};
use super::disk::{Disk, Inode};
use super::machine::Inner;
use super::store::Process;
use super::truth::Wrong;
use std::sync::Arc;
use walrow_log::{SegmentName, Writer, WriterOptions};

impl Actor {
    pub(crate) fn do_by_hand(&self) {
        for _ in 0..=self.next(12) {
            self.pause();
            if self.is_over() {
                break;
            }
            match self.next(8) {
                0 => {}
                1 => self.move_away_and_back(),
                2 => self.world.aside(|it| replace(it, self.number)),
                3 => self.restore(),
                _ => self.remove_by_hand(),
            }
        }
    }

    /// Waits some turns, or for a call of another actor.
    pub(crate) fn pause(&self) {
        if self.next(2) == 1 {
            self.world.aside(|it| it.hold(self.number));
            self.wait();
            return;
        }
        for _ in 0..self.next(10) {
            self.wait();
        }
    }

    fn move_away_and_back(&self) {
        self.world.aside(|it| {
            it.act(self.number, Act::Moves);
            it.is_away = true;
        });
        self.pause();
        self.world.aside(|it| it.is_away = false);
    }

    /// Puts an earlier copy in the place of the log, as it was at that moment.
    fn restore(&self) {
        let earlier = self.world.aside(|it| {
            let mut truth = it.truth.clone();
            truth.forget_writers();
            (it.disk().copied(), truth)
        });
        self.pause();
        self.world.aside(|it| {
            it.act(self.number, Act::Restores);
            let (disk, mut truth) = earlier;
            truth.changes = it.truth.changes + 1;
            it.replace(disk);
            it.truth = truth;
        });
    }

    fn remove_by_hand(&self) {
        let wanted = self.of(&REMOVALS);
        // Some objects are there for a short time only.
        let removed = (0..20).find_map(|_| {
            let removed = self.world.aside(|it| remove(it, self.number, wanted));
            if removed.is_none() {
                self.pause();
            }
            removed
        });
        let Some((name, inode)) = removed else {
            return;
        };
        let (is_lacking, opened) = self.truth(|it| (it.is_lacking, it.opened));
        if !is_lacking {
            return;
        }
        // A writer has to refuse the log, and every reader to wait.
        for _ in 0..=self.next(6) {
            self.pause();
        }
        self.world.aside(|it| {
            // A writer has started without the object, an erasure has begun, or another object has
            // the name: "put only that one back, before a receiver starts again", and "a published
            // segment never changes, unless rows were erased since" (docs/log.md).
            let secret = it.truth.secret.as_ref();
            let is_late = it.truth.opened != opened
                || !it.truth.opening.is_empty()
                || secret.is_some_and(|it| it.is_erasing)
                || it.disk().inode(&name).is_ok();
            if is_late || it.choices.rarely(8) {
                it.end();
                return;
            }
            it.act(self.number, Act::PutsBack);
            let disk = it.disk_mut();
            disk.link(inode, &name);
            disk.sync_names();
            it.truth.is_lacking = false;
            it.truth.changes += 1;
        });
    }
}

/// Puts a copy in the place of the log.
fn replace(inner: &mut Inner, actor: usize) {
    inner.act(actor, Act::Replaces);
    let disk = inner.disk().copied();
    inner.replace(disk);
    inner.truth.forget_writers();
    inner.truth.changes += 1;
}

/// The prepared transactions that a writer removes, because the journal decides them.
fn decided(disk: Disk) -> Vec<String> {
    let prepared = |disk: &Disk| {
        let names = disk.names().map(|(name, _)| name.clone());
        let names = names.filter(|it| Act::removes(it) == Some(Act::RemovesPrepared));
        names.collect::<Vec<_>>()
    };
    let mut decided = prepared(&disk);
    let process = Process::alone(disk);
    if Writer::open(Arc::new(process.clone()), WriterOptions::default()).is_ok() {
        let kept = prepared(&process.disk());
        decided.retain(|it| !kept.contains(it));
        decided
    } else {
        Vec::new()
    }
}

/// Removes an object of this kind. Returns its name and inode.
fn remove(inner: &mut Inner, actor: usize, act: Act) -> Option<(String, Inode)> {
    // An object from before an erasure must not come back after the erasure.
    let is_erasing = inner.truth.secret.as_ref().is_some_and(|it| it.is_erasing);
    if inner.over || inner.truth.is_lacking || is_erasing {
        return None;
    }
    let names = inner.disk().names();
    let found = names.filter(|(name, _)| Act::removes(name) == Some(act));
    let mut found: Vec<_> = found.map(|(name, inode)| (name.clone(), inode)).collect();
    if found.is_empty() {
        return None;
    }
    // Without an earlier segment, there is a gap. The last one is missed only if something names it.
    let newest = found.len() - 1;
    let draws = found.len() * if act == Act::RemovesSegment { 2 } else { 1 };
    let (name, inode) = found.swap_remove(inner.choices.next(draws).min(newest));
    let is_lock = matches!(act, Act::RemovesOpen | Act::RemovesWriter);
    if is_lock && inner.truth.lacks_other_lock(act, inner.disk()) {
        return None;
    }
    inner.act(actor, act);
    let decided = if act == Act::RemovesOpen {
        decided(inner.disk().copied())
    } else {
        Vec::new()
    };
    let disk = inner.disk_mut();
    disk.unlink(&name);
    disk.sync_names();
    inner.truth.changes += 1;
    match act {
        Act::RemovesWriter | Act::RemovesLock => {
            if is_lock {
                inner.truth.removed_locks.push((act, inode));
            }
            return Some((name, inode));
        }
        Act::RemovesOpen => {
            inner.truth.removed_locks.push((act, inode));
            let mut disk = inner.disk().copied();
            // "_open: transactions that are durable, but not published yet" (docs/log.md), with the
            // decisions about prepared ones: the writer of the journal may be about to remove these.
            for name in &decided {
                disk.unlink(name);
            }
            let segments = disk.names().filter_map(|it| SegmentName::parse(it.0));
            let begun = segments.map(|it| it.start).max().unwrap_or_default();
            let Inner { truth, choices, .. } = inner;
            match truth.check_recovery(disk, "removed") {
                // The load may still end. Then the log has what is in segments, or is refused without the
                // decisions of the journal.
                Ok(_) if truth.lacks_first_load => {
                    truth.lose_journal(begun, choices);
                    truth.is_lacking = true;
                }
                Ok(position) => truth.lose_journal(position, choices),
                Err(Wrong::Refused(_)) => truth.is_lacking = true,
                Err(Wrong::View(what)) => inner.fail(what),
            }
        }
        Act::RemovesReader => {
            let readers = &mut inner.truth.readers;
            readers.retain(|reader, _| !name.ends_with(reader.as_str()));
        }
        Act::RemovesSegment | Act::RemovesPrepared | Act::RemovesState => {
            inner.truth.is_lacking = true;
        }
        _ => {}
    }
    inner.truth.has_lacked = true;
    Some((name, inode))
}
