//! Prepared transactions that are not decided yet. Each of them is an object.

use crate::error::{DamagedPart, Error, ErrorKind};
use crate::format::blocks::{BlockReader, open_object, write_blocks};
use crate::store::{Objects, Store, once};
use std::io;
use walrow_stream::Assembler;
use walrow_wire::{Lsn, Xid};

/// The beginning of the names of prepared transactions.
const PREPARED: &str = "_prepared-";
/// Bytes of a block of a prepared transaction.
const BLOCK: usize = 1 << 20;

/// The LSN where a transaction's prepare record ends, and the transaction's ID. Names sort in this
/// order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PreparedName {
    pub(crate) end: Lsn,
    pub(crate) xid: Xid,
}

impl PreparedName {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (end, xid) = name.strip_prefix(PREPARED)?.split_once('-')?;
        let parsed = Self {
            end: Lsn(u64::from_str_radix(end, 16).ok()?),
            xid: Xid::from_str_radix(xid, 16).ok()?,
        };
        (parsed.object() == name).then_some(parsed)
    }

    pub(crate) fn object(self) -> String {
        format!("{PREPARED}{:016X}-{:08X}", self.end.0, self.xid)
    }

    /// Makes the transaction durable. Returns the CRC-32C of its object.
    pub(crate) fn save(self, store: &dyn Store, assembler: &mut Assembler) -> Result<u32, Error> {
        write_blocks(store, &self.object(), |blocks| {
            let mut out = Chunks {
                block: Vec::new(),
                write: |block: &[u8]| blocks.append(block),
            };
            assembler.save_prepared_transaction(self.xid, self.end, &mut out)?;
            out.finish()
        })
    }

    /// Gives the transaction to an assembler.
    pub(crate) fn restore(
        self,
        objects: &dyn Objects,
        assembler: &mut Assembler,
    ) -> Result<(), Error> {
        let object = self.object();
        let damaged = || {
            let what = DamagedPart::Prepared;
            Error::new(&object, ErrorKind::Damaged { what })
        };
        let mut file = open_object(objects, &object)?.ok_or_else(damaged)?;
        let state = BlockReader::new(&mut *file);
        let mut state = state.map_err(|error| Error::store(&object, &error))?;
        let restored = assembler.restore_prepared(&mut state);
        restored.map_err(|error| match (state.failure, &error.kind) {
            (Some(failure), _) => Error::store(&object, &failure),
            (None, walrow_stream::ErrorKind::Spool { .. }) => error.into(),
            (None, _) => damaged(),
        })
    }

    pub(crate) fn remove(self, store: &dyn Store) -> Result<(), Error> {
        once::remove(store, &self.object())
    }
}

/// Collects bytes, and writes them in blocks.
struct Chunks<W> {
    block: Vec<u8>,
    write: W,
}

impl<W: FnMut(&[u8]) -> io::Result<()>> Chunks<W> {
    fn finish(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        (self.write)(&self.block)?;
        self.block.clear();
        Ok(())
    }
}

impl<W: FnMut(&[u8]) -> io::Result<()>> io::Write for Chunks<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.block.extend_from_slice(bytes);
        if self.block.len() >= BLOCK {
            self.finish()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
