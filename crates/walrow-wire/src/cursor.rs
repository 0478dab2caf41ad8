//! Reads fields from the front of a message.

use crate::error::{Error, ErrorKind};
use crate::{Lsn, PgString, Timestamp};

/// The unread rest of one message. Every read names its field for the error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    /// 0 <= `rest.len()` <= length, so the offset of the next byte is length - `rest.len()`.
    length: usize,
    message: &'static str,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8], message: &'static str) -> Self {
        Self {
            rest: bytes,
            length: bytes.len(),
            message,
        }
    }

    /// Names the message, after its kind byte was read.
    pub(crate) const fn named(mut self, message: &'static str) -> Self {
        self.message = message;
        self
    }

    pub(crate) const fn offset(&self) -> usize {
        self.length.saturating_sub(self.rest.len())
    }

    pub(crate) const fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[cold]
    pub(crate) fn error(&self, kind: ErrorKind, field: &'static str) -> Error {
        Error {
            kind,
            offset: self.offset(),
            message: self.message,
            field,
        }
    }

    #[cold]
    fn end(&self, needed: usize, field: &'static str) -> Error {
        let available = self.rest.len() as u64;
        self.error(
            ErrorKind::UnexpectedEnd {
                needed: needed as u64,
                available,
            },
            field,
        )
    }

    #[inline]
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Error> {
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.end(N, field));
        };
        self.rest = rest;
        Ok(*head)
    }

    #[inline]
    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, Error> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, Error> {
        self.array(field).map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, Error> {
        self.array(field).map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i16(&mut self, field: &'static str) -> Result<i16, Error> {
        self.array(field).map(i16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i32(&mut self, field: &'static str) -> Result<i32, Error> {
        self.array(field).map(i32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn lsn(&mut self, field: &'static str) -> Result<Lsn, Error> {
        self.array(field)
            .map(|bytes| Lsn(u64::from_be_bytes(bytes)))
    }

    #[inline]
    pub(crate) fn timestamp(&mut self, field: &'static str) -> Result<Timestamp, Error> {
        self.array(field)
            .map(|bytes| Timestamp(i64::from_be_bytes(bytes)))
    }

    /// A byte that must be 0 or 1.
    pub(crate) fn flag(&mut self, field: &'static str) -> Result<bool, Error> {
        let before = *self;
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(before.error(ErrorKind::InvalidValue { expected: "0 or 1" }, field)),
        }
    }

    /// A flags byte. No bit is defined yet, so it must be 0.
    pub(crate) fn no_flags(&mut self) -> Result<(), Error> {
        let before = *self;
        match self.u8("flags")? {
            0 => Ok(()),
            _ => Err(before.error(ErrorKind::InvalidValue { expected: "0" }, "flags")),
        }
    }

    pub(crate) fn bytes(&mut self, length: usize, field: &'static str) -> Result<&'a [u8], Error> {
        let Some((head, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.end(length, field));
        };
        self.rest = rest;
        Ok(head)
    }

    /// A string up to its terminating zero, in its original encoding.
    pub(crate) fn string(&mut self, field: &'static str) -> Result<PgString<'a>, Error> {
        let Some(length) = self.rest.iter().position(|&byte| byte == 0) else {
            return Err(self.error(ErrorKind::UnterminatedString, field));
        };
        let string = self.bytes(length, field)?;
        self.u8(field)?;
        Ok(PgString(string))
    }

    /// Fails if bytes are left.
    pub(crate) fn finish(self) -> Result<(), Error> {
        match self.rest.len() {
            0 => Ok(()),
            count => Err(self.error(
                ErrorKind::TrailingBytes {
                    count: count as u64,
                },
                "end of the message",
            )),
        }
    }
}
