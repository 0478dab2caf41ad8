//! The frames of a stream that comes in chunks.

use crate::error::{DamagedPart, Error, ErrorKind};
use walrow_wire::Frame;

/// Whole frames of a stream that comes in chunks.
#[derive(Debug, Default)]
pub(crate) struct WholeFrames {
    /// Bytes of a frame that was cut, and the frames after it.
    bytes: Vec<u8>,
}

impl WholeFrames {
    /// Calls `frame` with each frame that the chunk completes. A frame of an impossible length is
    /// an error before it takes memory.
    pub(crate) fn take(
        &mut self,
        chunk: &[u8],
        mut frame: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let what = DamagedPart::Content;
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.extend_from_slice(chunk);
        let mut at = 0_usize;
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let size = Frame::size(rest);
            let size = size.map_err(|_| Error::new("", ErrorKind::Damaged { what }))?;
            let Some(whole) = size.and_then(|size| rest.get(..size)) else {
                break;
            };
            frame(whole)?;
            at = at.saturating_add(whole.len());
        }
        if at > 0 {
            bytes.drain(..at);
            // This gives the memory of a large frame back.
            bytes.shrink_to(bytes.len().saturating_add(chunk.len()).saturating_mul(2));
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Whether the stream ends with a whole frame.
    pub(crate) const fn is_whole(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_given_once_they_are_whole_and_impossible_ones_are_refused() {
        let mut frames = WholeFrames::default();
        let mut found = Vec::new();
        let stream = b"d\0\0\0\x06abd\0\0\0\x04d\0\0\0\x05c";
        for byte in stream {
            let taken = frames.take(&[*byte], |frame| {
                found.push(frame.len());
                Ok(())
            });
            taken.unwrap();
        }
        assert_eq!(found, [7, 5, 6]);
        assert!(frames.is_whole());
        for length in [0, 3, u32::MAX] {
            let mut frame = b"d".to_vec();
            frame.extend_from_slice(&length.to_be_bytes());
            let mut frames = WholeFrames::default();
            assert!(frames.take(&frame, |_| Ok(())).is_err(), "{length}");
        }
        assert!(WholeFrames::default().take(b"\0", |_| Ok(())).is_err());
        // A large frame leaves no memory behind.
        let mut large = b"d\0\x40\0\x04".to_vec();
        large.resize((4 << 20) + 5, 0);
        for chunk in large.chunks(1 << 16) {
            frames.take(chunk, |_| Ok(())).unwrap();
        }
        frames.take(stream, |_| Ok(())).unwrap();
        assert!(frames.bytes.capacity() < 1 << 18);
    }
}
