//! A segment under construction: a temporary object, which is published when it is complete.

use crate::log::error::{Error, ErrorKind};
use crate::log::frames::Compressor;
use crate::log::segment::{FORMAT, Foot, SegmentName};
use crate::log::store::{Store, TEMPORARY, WriteAt, remove_if_there};
use std::io;
use walrow_stream::fact::{Fact, Segment};

/// Bytes of a stream after which a frame ends with the transaction.
const FRAME: usize = 1 << 20;
/// Bytes after which it ends in any case.
const LARGEST: usize = 8 << 20;

/// A segment's frames so far.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    name: SegmentName,
    temporary: String,
    file: Box<dyn WriteAt>,
    compressor: Compressor,
    /// Bytes of the stream that are not in a frame yet.
    rest: Vec<u8>,
    stream_bytes: u64,
    bytes: u64,
    crc32c: u32,
}

impl SegmentFile {
    /// Begins a segment. What an earlier call has left of the same segment is removed.
    pub(crate) fn create(
        store: &dyn Store,
        head: Segment,
        level: Option<i32>,
    ) -> Result<Self, Error> {
        let name = SegmentName {
            start: head.start,
            part: head.part,
        };
        let temporary = format!("{TEMPORARY}{name}");
        let io = |error| Error::store(&temporary, &error);
        // It may be the published segment under its other name, if publishing it failed late: then
        // it must not be overwritten.
        remove_if_there(store, &temporary)?;
        let file = store.write(&temporary).map_err(io)?;
        let compressor = Compressor::new(level).map_err(io)?;
        let mut rest = Vec::new();
        Fact::Segment(Segment {
            format: FORMAT,
            ..head
        })
        .encode(false, &mut rest);
        Ok(Self {
            name,
            temporary,
            file,
            compressor,
            rest,
            stream_bytes: 0,
            bytes: 0,
            crc32c: 0,
        })
    }

    /// Appends whole messages of the stream. `between` says whether a transaction ends there.
    pub(crate) fn append(&mut self, bytes: &[u8], between: bool) -> Result<(), Error> {
        if between && bytes.len() >= FRAME {
            // Large enough without a copy.
            self.end_frame()?;
            return self.write_frame(bytes);
        }
        self.rest.extend_from_slice(bytes);
        let is_full = self.rest.len() >= FRAME && (between || self.rest.len() >= LARGEST);
        if is_full { self.end_frame() } else { Ok(()) }
    }

    fn end_frame(&mut self) -> Result<(), Error> {
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

    /// Completes the segment and publishes it. Succeeds too if it was published before with the same
    /// contents.
    pub(crate) fn publish(mut self, store: &dyn Store, foot: Foot) -> Result<Foot, Error> {
        self.end_frame()?;
        let foot = Foot {
            format: FORMAT,
            start: self.name.start,
            part: self.name.part,
            stream_bytes: self.stream_bytes,
            bytes: self.bytes,
            crc32c: self.crc32c,
            ..foot
        };
        let io = |error: io::Error| Error::store(&self.temporary, &error);
        self.file.append(&foot.encode()).map_err(io)?;
        self.file.sync().map_err(io)?;
        let name = self.name.to_string();
        match store.publish(&self.temporary, &name) {
            Ok(()) => Ok(foot),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let published = Foot::read(store, self.name)?;
                if published != foot {
                    return Err(Error::new(&name, ErrorKind::Published));
                }
                store.remove(&self.temporary).map_err(io)?;
                Ok(foot)
            }
            Err(error) => Err(Error::store(&name, &error)),
        }
    }
}
