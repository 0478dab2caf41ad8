//! Registered readers and their positions, so that the log keeps the segments that they still need.
//!
//! Each reader is an object, which any process may write. A process that registers a reader writes
//! the reader, then looks for a removal. A process that removes segments writes its intent, then
//! looks at the readers. So at least one of the two processes sees the other process, in any order.

use crate::error::{Error, ErrorKind};
use crate::format::blocks::open_object;
use crate::format::history::History;
use crate::format::reader_name::{check, object};
use crate::format::registered_reader::{FoundReader, RegisteredReader, unknown};
use crate::format::state::State;
use crate::store::lease::{lease, lock};
use crate::store::once::remove;
use crate::upkeep::Upkeep;
use crate::upkeep::retention::end_removal;
use walrow_wire::{Lsn, Timestamp};

impl Upkeep {
    /// Registers a reader: from now on, the log keeps all changes after its position. A reader of
    /// this name stays where it is. A new reader begins at `position`, or where the log begins.
    ///
    /// # Errors
    /// The name is empty, too long, or has control characters. Changes after the position were
    /// removed, or are about to be removed, or the log does not reach the position. The store
    /// failed.
    pub fn register(
        &mut self,
        name: &str,
        position: Option<Lsn>,
        now: Timestamp,
    ) -> Result<RegisteredReader, Error> {
        check(name)?;
        let position = position.filter(|it| it.is_valid());
        if let Some(position) = position
            && RegisteredReader::read(&*self.store, name)?.is_none()
        {
            self.reached(position)?;
        }
        self.place(name, now, &|found, state| match (found, position) {
            (Some(known), _) => known.position,
            (None, Some(position)) => position,
            (None, None) => state.kept(),
        })
    }

    /// Moves a reader forward. At its own position, it only counts as used.
    ///
    /// # Errors
    /// There is no reader of this name. The reader is past this position, or the log does not reach
    /// the position. The store failed.
    pub fn advance(
        &mut self,
        name: &str,
        position: Lsn,
        now: Timestamp,
    ) -> Result<RegisteredReader, Error> {
        let is_ahead = |found: &FoundReader| position > found.reader.position;
        if is_ahead(&FoundReader::known(&*self.store, name)?) {
            // This comes before the lock, because it may read feet of segments.
            self.reached(position)?;
        }
        let _lock = lock(&*self.store)?;
        let found = FoundReader::known(&*self.store, name)?;
        let from = found.reader.position;
        if position < from {
            let (name, to) = (name.to_owned(), position);
            return Err(Error::new("", ErrorKind::Backwards { name, from, to }));
        }
        let reader = RegisteredReader {
            position,
            used: now.0,
            ..found.reader.clone()
        };
        reader.write(&*self.store, Some(&found))?;
        Ok(reader)
    }

    /// Moves a reader to any position in the log. So the reader reads changes again, or skips
    /// changes.
    ///
    /// # Errors
    /// There is no reader of this name. Changes after the position were removed, or are about to be
    /// removed, or the log does not reach the position. The store failed.
    pub fn rewind(
        &mut self,
        name: &str,
        position: Lsn,
        now: Timestamp,
    ) -> Result<RegisteredReader, Error> {
        FoundReader::known(&*self.store, name)?;
        self.reached(position)?;
        self.place(name, now, &|_, _| position)
    }

    /// Forgets a reader, so that it does not hold segments back any more.
    ///
    /// # Errors
    /// There is no reader of this name, or the store failed.
    pub fn forget(&self, name: &str) -> Result<(), Error> {
        let object = object(name)?;
        let _lock = lock(&*self.store)?;
        // Its record may be damaged.
        open_object(&*self.store, &object)?.ok_or_else(|| unknown(name))?;
        remove(&*self.store, &object)
    }

    /// Forgets a reader that was not used since a time, and returns whether it did. The reader may
    /// have been used after the caller looked at it.
    pub(crate) fn forget_unused(&self, name: &str, since: i64) -> Result<bool, Error> {
        let _lock = lock(&*self.store)?;
        match RegisteredReader::read(&*self.store, name)? {
            Some(reader) if reader.used < since => {
                remove(&*self.store, &object(name)?)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Writes a reader at the position that `choose` gives for the found reader and the state of
    /// the log. Then looks whether a process removes changes after the position, and undoes the
    /// write in that case.
    fn place(
        &self,
        name: &str,
        now: Timestamp,
        choose: &dyn Fn(Option<&RegisteredReader>, &State) -> Lsn,
    ) -> Result<RegisteredReader, Error> {
        let mut may_wait = true;
        loop {
            let (start, state) = match self.try_to_place(name, now, choose)? {
                Placed::Yes(reader) => return Ok(reader),
                Placed::No { start, state } => (start, state),
            };
            // The process that is about to remove segments may give up, or has crashed.
            if std::mem::take(&mut may_wait) && start >= state.boundary {
                match lease(&*self.store) {
                    Ok(lease) => {
                        end_removal(&*self.store, &lease)?;
                        continue;
                    }
                    Err(error) if error.kind == ErrorKind::Busy => {}
                    Err(error) => return Err(error),
                }
            }
            let until = state.kept();
            return Err(Error::new("", ErrorKind::Pruned { start, until }));
        }
    }

    fn try_to_place(
        &self,
        name: &str,
        now: Timestamp,
        choose: &dyn Fn(Option<&RegisteredReader>, &State) -> Lsn,
    ) -> Result<Placed, Error> {
        let store = &*self.store;
        let _lock = lock(store)?;
        let found = FoundReader::read(store, name)?;
        let before = found.as_ref().map(|it| &it.reader);
        let state = State::read(store)?;
        let start = choose(before, &state);
        let reader = RegisteredReader {
            name: name.to_owned(),
            position: start,
            used: now.0,
            history: History::default(),
        };
        if before.is_some_and(|before| before.position <= start) {
            // The reader has held back all of these changes until now.
            reader.write(store, found.as_ref())?;
            return Ok(Placed::Yes(reader));
        }
        if start < state.kept() {
            return Ok(Placed::No { start, state });
        }
        reader.write(store, found.as_ref())?;
        // This read comes after the write: a process that removes segments writes its intent before
        // it counts the readers.
        let state = State::read(store)?;
        if start >= state.kept() {
            return Ok(Placed::Yes(reader));
        }
        match before {
            Some(before) => before.write(store, FoundReader::read(store, name)?.as_ref())?,
            None => remove(store, &object(name)?)?,
        }
        Ok(Placed::No { start, state })
    }

    /// Refuses a position that the log does not reach.
    fn reached(&mut self, position: Lsn) -> Result<(), Error> {
        // A call stops where segments were merged since. The next call goes on.
        while position > self.end() && self.follow()? > 0 {}
        let end = self.end();
        if position > end {
            return Err(Error::new("", ErrorKind::PastEnd { position, end }));
        }
        Ok(())
    }
}

/// Whether a reader was written at its position.
enum Placed {
    Yes(RegisteredReader),
    /// Changes after this position were removed, or are about to be removed.
    No {
        start: Lsn,
        state: State,
    },
}
