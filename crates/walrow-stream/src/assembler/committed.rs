//! A committed transaction as a value, to be read on another thread.
//!
//! The assembler skips the transaction: its definitions apply to the following transactions. The
//! value gets all results of look-ups on the way:
//!
//! ```text
//! assembler                                      value
//! ─────────                                      ─────
//! bytes, in the input or the spool ────────────► its spool
//! the version of each relation at its first use ► its session's relations
//! the versions that its own definitions made ───► the versions of the same definitions there
//! which of them were not returned yet ──────────► the same
//! ```
//! So the value is an assembler that has just found this transaction, and reads it in the same way.

use super::Assembler;
use super::core::{Core, Phase};
use super::reading::{Reading, Source, Spooling};
use super::session::Session;
use crate::error::Error;
use crate::frames::{Frames, Span};
use crate::spool::{SpoolReader, Spooled};
use crate::transaction::{Change, Event, Transaction, Unread};
use walrow_wire::{Kind, Peek};

/// A committed transaction, taken out of its assembler: its bytes, or its place in the spool, and
/// the relation versions that it uses. Another thread can read it.
#[derive(Debug)]
pub struct Committed(Assembler);

impl Committed {
    /// The transaction.
    pub const fn transaction(&self) -> &Transaction {
        &self.0.core.session.transaction
    }

    /// The next event, up to the transaction's [`Event::Commit`]; `None` after it.
    ///
    /// # Errors
    /// As [`Assembler::next`] at this place.
    #[expect(
        clippy::should_implement_trait,
        reason = "an event borrows what is read"
    )]
    pub fn next(&mut self) -> Result<Option<Event<'_>>, Error> {
        self.0.next(&mut &[][..])
    }

    /// Gives rows to `row`, unread: see [`Assembler::next_with`].
    ///
    /// # Errors
    /// As [`Assembler::next_with`] at this place.
    pub fn next_with<T>(
        &mut self,
        row: impl FnMut(Change<'_, Unread<'_>>) -> Result<(), T>,
    ) -> Result<Option<Event<'_, T>>, Error> {
        self.0.next_with(&mut &[][..], row)
    }
}

impl Assembler {
    /// Takes out the transaction that has just begun. Returns the whole transaction, instead of its
    /// events.
    ///
    /// Call it right after [`Event::Begin`], with the rest of the same input. At any other time, or
    /// if the input no longer contains the transaction's end, it returns `None` and takes no bytes.
    /// The caller owns the bytes from now on. They no longer count as the spool's memory.
    ///
    /// If a definition does not follow the protocol, or a row's relation is unknown, both the value
    /// and the next call on the assembler return the error. Errors in a row's cells come only from
    /// the value.
    ///
    /// # Errors
    /// The error that stopped the assembler before.
    pub fn take_transaction(&mut self, input: &mut &[u8]) -> Result<Option<Committed>, Error> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        let taken = self.core.take_transaction(input).map(|(core, failure)| {
            self.failure = failure;
            Committed(Self {
                core,
                failure: None,
            })
        });
        Ok(taken)
    }
}

impl Core {
    /// The transaction, and the error that stopped this assembler while it skipped the transaction.
    fn take_transaction(&mut self, input: &mut &[u8]) -> Option<(Self, Option<Error>)> {
        let framing = self.frames.framing();
        let Phase::Reading(reading) = &mut self.phase else {
            return None;
        };
        match &reading.source {
            Source::Spool(spooling) if spooling.reader.is_at_start() => {}
            Source::Spool(_) => return None,
            Source::Input => {
                let run = self
                    .frames
                    .is_clear()
                    .then(|| Run::to_commit(input, &self.frames))??;
                let spooled = Spooled::in_memory(run.frames, run.span);
                *input = run.behind;
                self.frames.skip(run.fed);
                *reading = Reading::of(Spooling {
                    reader: SpoolReader::new(spooled, framing),
                    ..Spooling::default()
                });
            }
        }
        // Record everything that the transaction looks up.
        let (first, mut failure) = (self.seq, None);
        self.session.relations.record();
        loop {
            match self.pass(&mut &[][..]) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let relations = self.session.relations.recorded();
        let Phase::Reading(Reading {
            source: Source::Spool(spooling),
            ..
        }) = &mut self.phase
        else {
            return None;
        };
        let reader = std::mem::take(&mut spooling.reader);
        let phase = Phase::Reading(Reading::of(Spooling {
            reader: SpoolReader::new(reader.into_spooled(), framing),
            streamed: spooling.streamed,
            aborted: spooling.aborted.clone(),
            ..Spooling::default()
        }));
        let transaction = self.session.transaction.clone();
        self.end_reading();
        let core = Self {
            frames: self.frames.behind(),
            phase,
            session: Session {
                transaction,
                relations,
                ..Session::default()
            },
            announced: None,
            seq: first,
            context: self.context,
        };
        Some((core, failure))
    }
}

/// A plain transaction's frames at the front of the input.
struct Run<'i> {
    frames: &'i [u8],
    span: Span,
    /// The bytes after its Commit, and how many bytes were fed up to there.
    behind: &'i [u8],
    fed: u64,
}

impl<'i> Run<'i> {
    /// The frames up to the Commit, if the input contains it.
    fn to_commit(input: &'i [u8], frames: &Frames) -> Option<Self> {
        let (mut rest, mut fed) = (input, 0_u64);
        loop {
            let size = frames.size(rest, 0).ok().flatten()?;
            let (frame, behind) = rest.split_at_checked(size)?;
            let to_here = fed;
            fed = fed.saturating_add(frames.fed(size));
            if Peek::new(frame).is_some_and(|peek| peek.kind() == Kind::Commit) {
                return Some(Self {
                    frames: input.get(..input.len().saturating_sub(rest.len()))?,
                    span: Span {
                        offset: frames.offset(),
                        fed: to_here,
                    },
                    behind,
                    fed,
                });
            }
            rest = behind;
        }
    }
}
