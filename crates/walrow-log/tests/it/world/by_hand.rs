//! Somebody changes a log with commands such as `mv`, `cp` and `rm`, while processes use it.
//!
//! A writer must notice it before it returns a position, or the log must be refused until the
//! object is put back.

use super::actors::Actor;
use super::coverage::{Act, REMOVALS};
use super::disk::Inode;
use super::machine::Inner;
use super::truth::Wrong;

impl Actor {
    pub(crate) fn do_by_hand(&self) {
        for _ in 0..=self.next(12) {
            self.pause();
            if self.is_over() {
                break;
            }
            match self.next(6) {
                0 => {}
                1 => self.move_away_and_back(),
                2 => self.world.aside(|it| replace(it, self.number)),
                3 => self.restore(),
                _ => self.remove_by_hand(),
            }
        }
    }

    fn pause(&self) {
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
        self.pause();
        self.world.aside(|it| {
            // Once a writer goes on without the object, or an erasure has begun, or another object
            // has the name, it is too late.
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
    let (name, inode) = found.swap_remove(inner.choices.next(found.len()));
    if act == Act::RemovesOpen && !inner.truth.loading.is_empty() {
        // Nothing keeps the writer from going on behind the place of its load.
        return None;
    }
    inner.act(actor, act);
    let disk = inner.disk_mut();
    disk.unlink(&name);
    disk.sync_names();
    inner.truth.changes += 1;
    match act {
        Act::RemovesOpen => {
            let disk = inner.disk().copied();
            match inner.truth.check_recovery(disk, "removed") {
                Ok(position) => inner.truth.lose_journal(position),
                Err(Wrong::Refused(_)) => inner.truth.is_lacking = true,
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
