//! A segment under construction: a temporary object, which is published when it is complete.
//!
//! A thread of its own makes the frames and writes them, while the writer goes on with the stream.

use crate::log::error::{Error, ErrorKind};
use crate::log::frames::Compressor;
use crate::log::segment::{FORMAT, Foot, SegmentName};
use crate::log::store::{Store, TEMPORARY, WriteAt, remove_if_there};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};
use walrow_stream::fact::{Fact, Segment};

/// Bytes of a stream after which a frame ends with the transaction.
const FRAME: usize = 1 << 20;
/// Bytes after which it ends in any case.
const LARGEST: usize = 2 << 20;

/// Pieces of the stream that wait for the thread, at most.
const WAITING: usize = 4;

/// A segment under construction.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    name: SegmentName,
    /// `None` once all pieces were given.
    pieces: Option<SyncSender<Piece>>,
    thread: Option<JoinHandle<Result<Frames, Error>>>,
}

/// A segment that lacks only its name.
#[derive(Clone, Debug)]
pub(crate) struct CompleteSegment {
    name: SegmentName,
    foot: Foot,
}

impl CompleteSegment {
    /// Publishes it. Succeeds too if it was published before with the same contents.
    pub(crate) fn publish(&self, store: &dyn Store) -> Result<Foot, Error> {
        let (temporary, name) = (temporary(self.name), self.name.to_string());
        match store.publish(&temporary, &name) {
            Ok(()) => Ok(self.foot.clone()),
            // The second, if an earlier call failed after it.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
                ) =>
            {
                if Foot::read(store, self.name)? != self.foot {
                    return Err(Error::new(&name, ErrorKind::Published));
                }
                remove_if_there(store, &temporary)?;
                Ok(self.foot.clone())
            }
            Err(error) => Err(Error::store(&name, &error)),
        }
    }

    /// Whether its transaction continues in another segment.
    pub(crate) const fn continues(&self) -> bool {
        self.foot.continues
    }

    /// Removes it, unless it is published.
    pub(crate) fn remove(&self, store: &dyn Store) -> Result<(), Error> {
        remove_if_there(store, &temporary(self.name))
    }
}

/// Whole messages of the stream.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Arc<Vec<u8>>,
    /// The place of the messages.
    pub(crate) range: Range<usize>,
    /// Whether a transaction ends there.
    pub(crate) between: bool,
}

impl From<Vec<u8>> for Piece {
    /// Messages between transactions.
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Self {
            bytes: Arc::new(bytes),
            range,
            between: true,
        }
    }
}

impl SegmentFile {
    /// Begins a segment. What an earlier call has left of the same segment is removed.
    pub(crate) fn create(
        store: &dyn Store,
        mut head: Segment,
        level: Option<i32>,
    ) -> Result<Self, Error> {
        let name = SegmentName {
            start: head.start,
            part: head.part,
        };
        let mut frames = Frames::create(store, temporary(name), level)?;
        head.format = FORMAT;
        Fact::Segment(Box::new(head)).encode(false, &mut frames.rest);
        let (pieces, given) = mpsc::sync_channel(WAITING);
        let thread = thread::Builder::new().name("walrow-segment".to_owned());
        let thread = thread.spawn(move || frames.write(&given));
        let thread = thread.map_err(|error| Error::store(&temporary(name), &error))?;
        Ok(Self {
            name,
            pieces: Some(pieces),
            thread: Some(thread),
        })
    }

    /// Appends whole messages of the stream. An error may be that of an earlier call.
    pub(crate) fn append(&mut self, piece: impl Into<Piece>) -> Result<(), Error> {
        let sent = self.pieces.as_ref().map(|it| it.send(piece.into()));
        match sent {
            Some(Ok(())) => Ok(()),
            // The thread has ended.
            _ => self.end().map(|_| ()),
        }
    }

    /// Waits until all frames are written.
    fn end(&mut self) -> Result<Frames, Error> {
        self.pieces = None;
        let ended = self.thread.take().map(JoinHandle::join);
        ended.and_then(Result::ok).unwrap_or_else(|| {
            let error = io::Error::other("the thread that writes the segment has ended");
            Err(Error::store(&temporary(self.name), &error))
        })
    }

    /// Completes the segment and publishes it.
    pub(crate) fn publish(self, store: &dyn Store, foot: Foot) -> Result<Foot, Error> {
        self.complete(foot)?.publish(store)
    }

    /// Writes what is left, and makes it durable.
    pub(crate) fn complete(mut self, foot: Foot) -> Result<CompleteSegment, Error> {
        let mut frames = self.end()?;
        let foot = Foot {
            format: FORMAT,
            start: self.name.start,
            part: self.name.part,
            stream_bytes: frames.stream_bytes,
            bytes: frames.bytes,
            crc32c: frames.crc32c,
            ..foot
        };
        let temporary = temporary(self.name);
        let io = |error: io::Error| Error::store(&temporary, &error);
        frames.file.append(&foot.encode()).map_err(io)?;
        frames.file.sync().map_err(io)?;
        Ok(CompleteSegment {
            name: self.name,
            foot,
        })
    }

    /// Removes what was written.
    pub(crate) fn remove(mut self, store: &dyn Store) -> Result<(), Error> {
        // An error of the thread no longer matters.
        let _ = self.end();
        remove_if_there(store, &temporary(self.name))
    }
}

impl Drop for SegmentFile {
    /// The thread must not write to an object that somebody else begins again.
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn temporary(name: SegmentName) -> String {
    format!("{TEMPORARY}{name}")
}

/// A segment's frames so far.
#[derive(Debug)]
pub(super) struct Frames {
    temporary: String,
    pub(super) file: Box<dyn WriteAt>,
    compressor: Compressor,
    /// Bytes of the stream that are not in a frame yet.
    rest: Vec<u8>,
    pub(super) stream_bytes: u64,
    pub(super) bytes: u64,
    pub(super) crc32c: u32,
}

impl Frames {
    /// Begins an object of this name.
    pub(super) fn create(
        store: &dyn Store,
        temporary: String,
        level: Option<i32>,
    ) -> Result<Self, Error> {
        let io = |error| Error::store(&temporary, &error);
        // It may be the published segment under its other name, if publishing it failed late: then
        // it must not be overwritten.
        remove_if_there(store, &temporary)?;
        let file = store.write(&temporary).map_err(io)?;
        let compressor = Compressor::new(level).map_err(io)?;
        Ok(Self {
            temporary,
            file,
            compressor,
            rest: Vec::new(),
            stream_bytes: 0,
            bytes: 0,
            crc32c: 0,
        })
    }

    /// Writes all pieces that come.
    fn write(mut self, pieces: &Receiver<Piece>) -> Result<Self, Error> {
        for piece in pieces {
            let bytes = piece.bytes.get(piece.range).unwrap_or_default();
            self.append(bytes, piece.between)?;
        }
        self.end_frame()?;
        Ok(self)
    }

    pub(super) fn append(&mut self, bytes: &[u8], between: bool) -> Result<(), Error> {
        if between && bytes.len() >= FRAME {
            // Large enough without a copy.
            self.end_frame()?;
            return self.write_frame(bytes);
        }
        self.rest.extend_from_slice(bytes);
        let is_full = self.rest.len() >= FRAME && (between || self.rest.len() >= LARGEST);
        if is_full { self.end_frame() } else { Ok(()) }
    }

    pub(super) fn end_frame(&mut self) -> Result<(), Error> {
        let mut rest = std::mem::take(&mut self.rest);
        let written = if rest.is_empty() {
            Ok(())
        } else {
            self.write_frame(&rest)
        };
        rest.clear();
        self.rest = rest;
        written
    }

    fn write_frame(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = self.compressor.frame(bytes).and_then(|frame| {
            self.crc32c = crc32c::crc32c_append(self.crc32c, frame);
            self.bytes = self.bytes.saturating_add(frame.len() as u64);
            self.file.append(frame)
        });
        written.map_err(|error| Error::store(&self.temporary, &error))?;
        self.stream_bytes = self.stream_bytes.saturating_add(bytes.len() as u64);
        Ok(())
    }
}
