//! Writes fields: the inverse of the cursor.

use crate::{Lsn, PgString, Timestamp};
use alloc::vec::Vec;

/// Appends a message's fields. All integers are big-endian.
pub(crate) trait Put {
    fn put_u8(&mut self, value: u8);
    fn put_bytes(&mut self, bytes: &[u8]);

    fn put_u16(&mut self, value: u16) {
        self.put_bytes(&value.to_be_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.put_bytes(&value.to_be_bytes());
    }

    fn put_i32(&mut self, value: i32) {
        self.put_bytes(&value.to_be_bytes());
    }

    /// Several fields of 64 bits at once: LSNs, or the bits of times.
    #[inline]
    fn put_u64s<const N: usize>(&mut self, values: [u64; N]) {
        self.put_bytes(values.map(u64::to_be_bytes).as_flattened());
    }

    fn put_lsn(&mut self, value: Lsn) {
        self.put_bytes(&value.0.to_be_bytes());
    }

    fn put_timestamp(&mut self, value: Timestamp) {
        self.put_bytes(&value.0.to_be_bytes());
    }

    /// A string and its terminating zero.
    fn put_string(&mut self, value: PgString<'_>) {
        debug_assert!(
            !value.0.contains(&0),
            "a protocol string holds no zero byte"
        );
        self.put_bytes(value.0);
        self.put_u8(0);
    }

    /// The length of the bytes that follow. Lengths from a parsed message always fit.
    fn put_length(&mut self, length: usize) {
        self.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    }

    /// The number of items that follow. Counts from a parsed message always fit.
    fn put_count(&mut self, count: usize) {
        self.put_u16(u16::try_from(count).unwrap_or(u16::MAX));
    }
}

impl Put for Vec<u8> {
    #[inline]
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    #[inline]
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
