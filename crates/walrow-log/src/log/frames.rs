//! zstd frames, compressed or stored.

use std::fmt;
use std::io;
use zstd_safe::{CCtx, CParameter};

/// Makes zstd frames.
pub(crate) struct Compressor {
    /// `None` stores the bytes as they are.
    context: Option<CCtx<'static>>,
    frame: Vec<u8>,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

impl Compressor {
    /// `level` is zstd's. `None` stores the bytes as they are.
    pub(crate) fn new(level: Option<i32>) -> io::Result<Self> {
        let context = match level {
            None => None,
            Some(level) => {
                let mut context = CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
                for parameter in [
                    CParameter::CompressionLevel(level),
                    CParameter::ChecksumFlag(true),
                ] {
                    context.set_parameter(parameter).map_err(reason)?;
                }
                Some(context)
            }
        };
        Ok(Self {
            context,
            frame: Vec::new(),
        })
    }

    /// The bytes as one frame.
    pub(crate) fn frame(&mut self, bytes: &[u8]) -> io::Result<&[u8]> {
        self.frame.clear();
        match &mut self.context {
            Some(context) => {
                self.frame.reserve(zstd_safe::compress_bound(bytes.len()));
                context.compress2(&mut self.frame, bytes).map_err(reason)?;
            }
            None => store(bytes, &mut self.frame),
        }
        Ok(&self.frame)
    }
}

fn reason(code: usize) -> io::Error {
    io::Error::other(zstd_safe::get_error_name(code))
}

/// A frame's magic number, and a descriptor: a single segment, with its size in eight bytes.
const HEAD: [u8; 5] = [0x28, 0xB5, 0x2F, 0xFD, 0xE0];
/// The largest block.
const BLOCK: usize = 128 << 10;

/// Appends a frame of raw blocks, which every decompressor copies.
fn store(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&HEAD);
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    let mut rest = bytes;
    loop {
        let (block, more) = rest.split_at(rest.len().min(BLOCK));
        // The lowest bit marks the last block, the next two are zero for a raw one.
        let size = u32::try_from(block.len()).unwrap_or(u32::MAX);
        let [b0, b1, b2, _] = (size << 3 | u32::from(more.is_empty())).to_le_bytes();
        out.extend_from_slice(&[b0, b1, b2]);
        out.extend_from_slice(block);
        if more.is_empty() {
            return;
        }
        rest = more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_frames_are_zstd() {
        for size in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK] {
            let bytes: Vec<u8> = (0..=250).cycle().take(size).collect();
            for level in [None, Some(1)] {
                let mut compressor = Compressor::new(level).unwrap();
                let frame = compressor.frame(&bytes).unwrap();
                let mut found = Vec::with_capacity(size);
                zstd_safe::decompress(&mut found, frame).unwrap();
                assert_eq!(found, bytes);
            }
        }
    }
}
