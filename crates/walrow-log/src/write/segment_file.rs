//! A segment under construction. A thread makes its frames and writes them, while the writer goes
//! on with the stream.

use crate::error::{Error, ErrorKind};
use crate::format::history::FORMAT;
use crate::format::new_segment::{FramesSize, NewSegment};
use crate::format::segment::{Foot, SegmentName};
use crate::store::{ReadAt, Staged, Store, once};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};
use walrow_stream::fact::{Fact, Segment};

/// The most pieces of the stream that wait for the thread.
const WAITING: usize = 4;

/// A segment under construction.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    name: SegmentName,
    /// `None` once all pieces were given.
    pieces: Option<SyncSender<Piece>>,
    thread: Option<JoinHandle<Result<(NewSegment, FramesSize), Error>>>,
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
        let (pieces, given) = mpsc::sync_channel(WAITING);
        let thread = thread::Builder::new().name("walrow-segment".to_owned());
        let thread = thread.spawn(move || write(segment, &given));
        let thread = thread.map_err(|error| Error::store(&name.to_string(), &error))?;
        Ok(Self {
            name,
            pieces: Some(pieces),
            thread: Some(thread),
        })
    }

    /// Appends whole messages of the stream. An error may come from an earlier call.
    pub(crate) fn append(&mut self, piece: impl Into<Piece>) -> Result<(), Error> {
        let sent = self.pieces.as_ref().map(|it| it.send(piece.into()));
        match sent {
            Some(Ok(())) => Ok(()),
            // The thread has ended.
            _ => self.end().map(|_| ()),
        }
    }

    /// Waits until all frames are written.
    fn end(&mut self) -> Result<(NewSegment, FramesSize), Error> {
        self.pieces = None;
        let ended = self.thread.take().map(JoinHandle::join);
        ended.and_then(Result::ok).unwrap_or_else(|| {
            let error = io::Error::other("the thread that writes the segment has ended");
            Err(Error::store(&self.name.to_string(), &error))
        })
    }

    /// Completes the segment and publishes it.
    pub(crate) fn publish(self, store: &dyn Store, foot: Foot) -> Result<Foot, Error> {
        self.complete(foot)?.publish(store)
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
    /// Waits until the thread has ended.
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Writes all pieces that come.
fn write(
    mut segment: NewSegment,
    pieces: &Receiver<Piece>,
) -> Result<(NewSegment, FramesSize), Error> {
    for piece in pieces {
        let bytes = piece.bytes.get(piece.range).unwrap_or_default();
        segment.append(bytes, piece.between)?;
    }
    let size = segment.end()?;
    Ok((segment, size))
}
