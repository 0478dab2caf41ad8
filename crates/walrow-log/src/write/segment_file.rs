//! A segment under construction. If it is large, a thread makes its frames and writes them, while
//! the writer goes on with the stream.

use crate::error::{Error, ErrorKind};
use crate::format::history::FORMAT;
use crate::format::new_segment::{FramesSize, NewSegment};
use crate::format::segment::{Foot, SegmentName};
use crate::store::{ReadAt, Staged, Store, once};
use std::io;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};
use walrow_stream::fact::{Fact, Segment};

/// The most pieces of the stream that wait for the thread.
const WAITING: usize = 4;
/// A segment of this many bytes is compressed faster than a thread starts.
const SMALL: usize = 64 << 10;

/// A segment under construction.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    name: SegmentName,
    frames: Frames,
    /// Bytes of the stream.
    given: usize,
}

/// The maker of a segment's frames.
#[derive(Debug)]
enum Frames {
    /// The caller, while the segment is small.
    Here(NewSegment),
    Thread(
        SyncSender<Piece>,
        JoinHandle<Result<(NewSegment, FramesSize), Error>>,
    ),
    /// All of them are made, or the store failed.
    Ended,
}

/// A segment that lacks only its name.
#[derive(Debug)]
pub(crate) struct CompleteSegment {
    name: SegmentName,
    foot: Foot,
    staged: Box<dyn Staged>,
}

impl CompleteSegment {
    /// Publishes the segment. Also succeeds if the same segment was published before.
    pub(crate) fn publish(&mut self, store: &dyn Store) -> Result<Foot, Error> {
        let (name, foot) = (self.name, &self.foot);
        let object = name.to_string();
        let is_mine = |found: &mut dyn ReadAt| Ok(Foot::read_from(found, name)? == *foot);
        if once::create(store, &mut *self.staged, &object, is_mine)? {
            Ok(foot.clone())
        } else {
            Err(Error::new(&object, ErrorKind::Published))
        }
    }

    /// Whether its transaction continues in another segment.
    pub(crate) const fn continues(&self) -> bool {
        self.foot.continues
    }
}

/// Whole messages of the stream.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Arc<Vec<u8>>,
    /// The place of the messages in `bytes`.
    pub(crate) range: Range<usize>,
    /// Whether the messages end between transactions.
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

impl Piece {
    fn give(self, segment: &mut NewSegment) -> Result<(), Error> {
        let bytes = self.bytes.get(self.range).unwrap_or_default();
        segment.append(bytes, self.between)
    }
}

impl SegmentFile {
    /// Begins a segment.
    pub(crate) fn create(
        store: &dyn Store,
        mut head: Segment,
        level: Option<i32>,
    ) -> Result<Self, Error> {
        let name = SegmentName {
            start: head.start,
            part: head.part,
        };
        let mut segment = NewSegment::stage(store, name, level)?;
        head.format = FORMAT;
        let mut bytes = Vec::new();
        Fact::Segment(Box::new(head)).encode(false, &mut bytes);
        segment.append(&bytes, false)?;
        Ok(Self {
            name,
            frames: Frames::Here(segment),
            given: bytes.len(),
        })
    }

    /// Appends whole messages of the stream. An error may come from an earlier call.
    pub(crate) fn append(&mut self, piece: impl Into<Piece>) -> Result<(), Error> {
        let piece = piece.into();
        self.given = self.given.saturating_add(piece.range.len());
        self.frames = match mem::replace(&mut self.frames, Frames::Ended) {
            Frames::Here(mut segment) if self.given <= SMALL => {
                piece.give(&mut segment)?;
                self.frames = Frames::Here(segment);
                return Ok(());
            }
            Frames::Here(segment) => start(self.name, segment)?,
            frames => frames,
        };
        match &self.frames {
            Frames::Thread(pieces, _) if pieces.send(piece).is_ok() => Ok(()),
            // The thread has ended, because the store failed.
            _ => self.end().map(|_| ()),
        }
    }

    /// Waits until all frames are written.
    fn end(&mut self) -> Result<(NewSegment, FramesSize), Error> {
        match mem::replace(&mut self.frames, Frames::Ended) {
            Frames::Here(mut segment) => {
                let size = segment.end()?;
                Ok((segment, size))
            }
            Frames::Thread(pieces, thread) => {
                drop(pieces);
                let written = thread.join();
                written.unwrap_or_else(|_| Err(ended(self.name)))
            }
            Frames::Ended => Err(ended(self.name)),
        }
    }

    /// Completes the segment and publishes it. If the store failed, and the segment may have got its
    /// name, the log must be opened again: a second segment of that name could have other frames.
    pub(crate) fn publish(self, store: &dyn Store, foot: Foot) -> Result<Foot, Error> {
        let mut complete = self.complete(foot)?;
        complete.publish(store).map_err(|error| {
            let found = Foot::read(store, complete.name);
            let has_no_name = found.is_err_and(|found| found.is_not_found());
            match error.kind {
                ErrorKind::Store { code, text, .. } if !has_no_name => Error::new(
                    &complete.name.to_string(),
                    ErrorKind::NotSynced { code, text },
                ),
                _ => error,
            }
        })
    }

    /// Writes the remaining frames and the foot.
    pub(crate) fn complete(mut self, foot: Foot) -> Result<CompleteSegment, Error> {
        let (segment, size) = self.end()?;
        let foot = Foot {
            format: FORMAT,
            start: self.name.start,
            part: self.name.part,
            stream_bytes: size.stream_bytes,
            bytes: size.bytes,
            crc32c: size.crc32c,
            ..foot
        };
        Ok(CompleteSegment {
            name: self.name,
            staged: segment.finish(&foot)?,
            foot,
        })
    }
}

impl Drop for SegmentFile {
    /// Waits until a thread has ended.
    fn drop(&mut self) {
        if matches!(self.frames, Frames::Thread(..)) {
            let _ = self.end();
        }
    }
}

fn ended(name: SegmentName) -> Error {
    let error = io::Error::other("the frames of the segment have ended");
    Error::store(&name.to_string(), &error)
}

/// Starts the thread that makes the frames from now on.
fn start(name: SegmentName, segment: NewSegment) -> Result<Frames, Error> {
    let (pieces, given) = mpsc::sync_channel(WAITING);
    let thread = thread::Builder::new().name("walrow-segment".to_owned());
    let thread = thread.spawn(move || write(segment, &given));
    let thread = thread.map_err(|error| Error::store(&name.to_string(), &error))?;
    Ok(Frames::Thread(pieces, thread))
}

/// Writes all pieces that come.
fn write(
    mut segment: NewSegment,
    pieces: &Receiver<Piece>,
) -> Result<(NewSegment, FramesSize), Error> {
    for piece in pieces {
        piece.give(&mut segment)?;
    }
    let size = segment.end()?;
    Ok((segment, size))
}
