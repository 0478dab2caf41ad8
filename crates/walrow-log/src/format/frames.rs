//! zstd frames, compressed or stored.

use std::fmt;
use std::io;
use twox_hash::XxHash64;
use zstd_safe::{CCtx, CParameter};

/// The compression level of zstd. Higher levels take more time, and make the rows of a stream hardly
/// smaller.
pub(crate) const LEVEL: i32 = 1;

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
    /// `level` is the compression level of zstd. `None` stores the bytes as they are.
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

/// A frame's magic number, a descriptor (the size is in eight bytes, and a checksum comes last),
/// and the size of the window. The window has the size of a block, because decompressors refuse
/// large windows.
const HEAD: [u8; 6] = [0x28, 0xB5, 0x2F, 0xFD, 0xC4, 0x38];
/// The largest block.
const BLOCK: usize = 128 << 10;

/// Appends a frame of raw blocks, which every decompressor copies.
fn store(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&HEAD);
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    let mut rest = bytes;
    loop {
        let (block, more) = rest.split_at(rest.len().min(BLOCK));
        // The lowest bit marks the last block. The next two bits are zero for a raw block.
        let size = u32::try_from(block.len()).unwrap_or(u32::MAX);
        let [b0, b1, b2, _] = (size << 3 | u32::from(more.is_empty())).to_le_bytes();
        out.extend_from_slice(&[b0, b1, b2]);
        out.extend_from_slice(block);
        if more.is_empty() {
            break;
        }
        rest = more;
    }
    // The lower half of XXH64 is the checksum. libzstd computes it only for frames that it compresses.
    let [b0, b1, b2, b3, ..] = XxHash64::oneshot(0, bytes).to_le_bytes();
    out.extend_from_slice(&[b0, b1, b2, b3]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_zstd_and_have_a_checksum() {
        let sizes = (0..100).chain([BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 77]);
        for size in sizes {
            let bytes: Vec<u8> = (0..=250).cycle().take(size).collect();
            for level in [None, Some(1)] {
                let mut compressor = Compressor::new(level).unwrap();
                let mut frame = compressor.frame(&bytes).unwrap().to_vec();
                let mut found = Vec::with_capacity(size);
                zstd_safe::decompress(&mut found, &frame).unwrap();
                assert_eq!(found, bytes);
                *frame.last_mut().unwrap() ^= 1;
                assert!(zstd_safe::decompress(&mut found, &frame).is_err());
            }
        }
    }

    #[test]
    fn large_frames_have_a_small_window() {
        let bytes = vec![7; 200 << 20];
        let mut compressor = Compressor::new(None).unwrap();
        let frame = compressor.frame(&bytes).unwrap();
        let mut context = zstd_safe::DCtx::create();
        let (mut chunk, mut total) = (Vec::with_capacity(1 << 20), 0);
        let mut input = zstd_safe::InBuffer::around(frame);
        loop {
            chunk.clear();
            let mut output = zstd_safe::OutBuffer::around(&mut chunk);
            let left = context.decompress_stream(&mut output, &mut input).unwrap();
            total += chunk.len();
            if left == 0 {
                break;
            }
        }
        assert_eq!(total, bytes.len());
    }
}
