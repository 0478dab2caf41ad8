//! The journal of a writer: changes that are durable, but not published yet, in a chain of blocks.
//!
//! ```text
//! ┌──────────┬─────────┬────────────┬────────────┬────────────┬──────────┬─ … ─┐
//! │ size (4) │ crc (4) │ number (4) │ synced (4) │ before (4) │ mark (4) │bytes│
//! └──────────┴─────────┴────────────┴────────────┴────────────┴──────────┴─ … ─┘
//! ```
//! `crc` is the CRC-32C of the bytes. `mark` is the CRC-32C of the 20 bytes before it. `before` is
//! the mark of the block before. The highest bit of the size says that no transaction is open at
//! the end of the block. `synced` says how many blocks were durable when the block was written.
//!
//! So there are two kinds of bad blocks. A bad block that no later block calls durable is the end
//! that a crash has torn. The contents of this block and of later blocks were never confirmed. Any
//! other bad block is damage.
//!
//! Block 0 is the [`Header`]. The writer writes it with the first block after it has emptied the
//! journal. In later versions, its head stays as it is, and the header still begins with a version.
//! So the error for a later version names that version.

use crate::error::{DamagedPart, Error, ErrorKind};
use crate::format::blocks::{self, Window};
use crate::format::history::{FORMAT, History, is_known, other_version};
use crate::format::undecided::Undecided;
use crate::store::{OPEN, ReadAt};
use serde::{Deserialize, Serialize};
use std::io;
use walrow_stream::fact::Source;
use walrow_wire::Lsn;

/// Bytes of a block before its contents.
pub(crate) const HEAD: usize = 24;
/// Marks a block whose end is between transactions.
const BETWEEN: u32 = 1 << 31;

/// The state of the log that a journal continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// The version of the format.
    pub(crate) format: u32,
    #[serde(default, skip_serializing_if = "History::is_first")]
    pub(crate) history: History,
    /// The LSN where the segment before it ends.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub(crate) begin: Lsn,
    /// The source of the changes.
    pub(crate) source: Source,
    /// The prepared transactions that were not decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) undecided: Vec<Undecided>,
}

impl Default for Header {
    fn default() -> Self {
        Self::new(Lsn::INVALID, &Source::default(), Vec::new())
    }
}

impl Header {
    pub(crate) fn new(begin: Lsn, source: &Source, undecided: Vec<Undecided>) -> Self {
        Self {
            format: FORMAT,
            history: History::default(),
            begin,
            source: source.clone(),
            undecided,
        }
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let fault = |kind| Error::new(OPEN, kind);
        let what = DamagedPart::Block;
        let version = serde_json::from_slice(bytes);
        let Version { format: found } = version.map_err(|_| fault(ErrorKind::Damaged { what }))?;
        if !is_known(found) {
            return Err(fault(other_version(found)));
        }
        let header = serde_json::from_slice(bytes);
        let header: Self = header.map_err(|_| fault(ErrorKind::Damaged { what }))?;
        header.history.check(OPEN)?;
        Ok(header)
    }
}

/// The place of a block in the chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// Its number.
    pub(crate) number: u32,
    /// How many blocks are durable.
    pub(crate) synced: u32,
    /// The mark of the block before.
    pub(crate) before: u32,
}

/// The head of a block, which comes before its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    size: u32,
    between: bool,
    crc: u32,
    link: Link,
}

impl Head {
    pub(crate) fn of(bytes: &[u8], between: bool, link: Link) -> io::Result<Self> {
        let size = u32::try_from(bytes.len()).ok();
        let size = size.filter(|size| *size < BETWEEN);
        Ok(Self {
            size: size.ok_or(io::ErrorKind::InvalidInput)?,
            between,
            crc: crc32c::crc32c(bytes),
            link,
        })
    }

    /// Its bytes, and its mark.
    pub(crate) fn encode(&self) -> ([u8; HEAD], u32) {
        let flag = if self.between { BETWEEN } else { 0 };
        let Link {
            number,
            synced,
            before,
        } = self.link;
        let fields = [self.size | flag, self.crc, number, synced, before];
        let mut bytes = [0; HEAD];
        let (parts, _) = bytes.as_chunks_mut::<4>();
        for (part, field) in parts.iter_mut().zip(fields) {
            *part = field.to_le_bytes();
        }
        let mark = mark(&bytes);
        if let Some(last) = bytes.last_chunk_mut() {
            *last = mark.to_le_bytes();
        }
        (bytes, mark)
    }

    /// The head with these bytes, and its mark. `None` if the bytes are not a head.
    fn parse(bytes: &[u8]) -> Option<(Self, u32)> {
        let bytes: &[u8; HEAD] = bytes.first_chunk()?;
        let (parts, _) = bytes.as_chunks::<4>();
        let mut fields = parts.iter().map(|part| u32::from_le_bytes(*part));
        let mut next = || fields.next().unwrap_or_default();
        let (size, crc, number, synced, before, found) =
            (next(), next(), next(), next(), next(), next());
        let head = Self {
            size: size & !BETWEEN,
            between: size & BETWEEN != 0,
            crc,
            link: Link {
                number,
                synced,
                before,
            },
        };
        (mark(bytes) == found).then_some((head, found))
    }
}

/// The CRC-32C of a head without its last field.
fn mark(bytes: &[u8; HEAD]) -> u32 {
    let (fields, _) = bytes.split_at(HEAD.saturating_sub(4));
    crc32c::crc32c(fields)
}

/// The blocks of a journal, up to the first block that is not whole.
#[derive(Debug)]
pub(crate) struct JournalBlocks<'a, R: ReadAt + ?Sized> {
    window: Window<'a, R>,
    /// The place in the file where the next block begins.
    at: u64,
    /// The number of the next block, and the mark of the block before it.
    number: u32,
    before: u32,
}

impl<'a, R: ReadAt + ?Sized> JournalBlocks<'a, R> {
    pub(crate) fn new(file: &'a mut R) -> io::Result<Self> {
        Ok(Self {
            window: Window::new(file)?,
            at: 0,
            number: 0,
            before: 0,
        })
    }

    /// The next block. `None` at the end, and if it is not whole.
    pub(crate) fn next(&mut self) -> io::Result<Option<(&[u8], bool)>> {
        let rest = self.window.size().saturating_sub(self.at);
        if rest < HEAD as u64 {
            return Ok(None);
        }
        let Some((head, mark)) = Head::parse(self.window.bytes(self.at, HEAD)?) else {
            return Ok(None);
        };
        let Link { number, before, .. } = head.link;
        let begin = self.at.saturating_add(HEAD as u64);
        let is_whole = (number, before) == (self.number, self.before)
            && u64::from(head.size) <= rest.saturating_sub(HEAD as u64)
            && self
                .window
                .has_checksum(begin, u64::from(head.size), head.crc)?;
        if !is_whole {
            return Ok(None);
        }
        self.at = begin.saturating_add(u64::from(head.size));
        self.number = self.number.saturating_add(1);
        self.before = mark;
        let bytes = self.window.bytes(begin, head.size as usize)?;
        Ok(Some((bytes, head.between)))
    }

    /// Whether a later block says that the first bad block was durable.
    fn is_damaged(&mut self) -> io::Result<bool> {
        let (mut at, lost) = (self.at, self.number);
        while at.saturating_add(HEAD as u64) <= self.window.size() {
            let claims = Head::parse(self.window.bytes(at, HEAD)?).is_some_and(|(head, _)| {
                let Link { number, synced, .. } = head.link;
                number > lost && synced > lost && synced <= number
            });
            if claims {
                return Ok(true);
            }
            at = at.saturating_add(1);
        }
        Ok(false)
    }
}

/// The header of a journal, and the extent of its blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// `None` if the journal does not begin with a whole block.
    pub(crate) header: Option<Header>,
    /// How many blocks it has up to the last block that ends between transactions, and the mark of
    /// that block. The header does not count.
    pub(crate) blocks: usize,
    pub(crate) mark: u32,
    /// Bytes up to the end of that block.
    pub(crate) size: u64,
    /// Bytes after that end.
    pub(crate) torn: u64,
}

impl Extent {
    /// Reads the extent of a journal.
    ///
    /// # Errors
    /// A block that was durable is damaged. Another version of walrow wrote it. The store failed.
    pub(crate) fn of(file: &mut dyn ReadAt) -> Result<Self, Error> {
        let io = |error| Error::store(OPEN, &error);
        let mut extent = Self::default();
        let mut blocks = JournalBlocks::new(&mut *file).map_err(io)?;
        if let Some((header, _)) = blocks.next().map_err(io)? {
            extent.header = Some(Header::parse(header)?);
        }
        if extent.header.is_some() {
            let mut number = 0_usize;
            while let Some((_, between)) = blocks.next().map_err(io)? {
                number = number.saturating_add(1);
                if between {
                    (extent.blocks, extent.mark) = (number, blocks.before);
                    extent.size = blocks.at;
                }
            }
        }
        if blocks.is_damaged().map_err(io)? {
            let what = DamagedPart::Block;
            return Err(Error::new(OPEN, ErrorKind::Damaged { what }));
        }
        extent.torn = blocks.window.size().saturating_sub(extent.size);
        drop(blocks);
        if extent.header.is_none() && blocks::whole(file).map_err(io)? > 0 {
            return Err(Error::new(OPEN, ErrorKind::Unreleased { found: 1 }));
        }
        Ok(extent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::blocks::tests::Stored;

    /// A journal of these blocks. Each block says how many blocks were durable when it was written.
    fn journal(blocks: &[(&[u8], bool, u32)]) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut ends, mut before) = (Vec::new(), Vec::new(), 0);
        let header = serde_json::to_vec(&Header::default()).unwrap();
        let header = std::iter::once((&*header, true, 0));
        for (number, (block, between, synced)) in (0..).zip(header.chain(blocks.iter().copied())) {
            let link = Link {
                number,
                synced,
                before,
            };
            let (head, mark) = Head::of(block, between, link).unwrap().encode();
            bytes.extend_from_slice(&head);
            bytes.extend_from_slice(block);
            ends.push(bytes.len());
            before = mark;
        }
        (bytes, ends)
    }

    fn extent(bytes: &[u8]) -> Result<Extent, Error> {
        Extent::of(&mut Stored::of(bytes))
    }

    const BLOCKS: [(&[u8], bool, u32); 4] = [
        (b"one", true, 0),
        (b"two", true, 2),
        (b"three", false, 3),
        (b"four", true, 3),
    ];

    #[test]
    fn a_cut_journal_ends_with_a_block_between_transactions() {
        let (bytes, ends) = journal(&BLOCKS);
        for size in 0..=bytes.len() {
            let found = extent(&bytes[..size]).unwrap();
            let whole = match ends.iter().filter(|end| **end <= size).count() {
                0 | 1 => 0,
                2 => 1,
                3 | 4 => 2,
                _ => 4,
            };
            assert_eq!(found.blocks, whole, "{size}");
            let end = if whole == 0 { 0 } else { ends[whole] };
            assert_eq!((found.size, found.torn), (end as u64, (size - end) as u64));
            assert_eq!(found.header.is_some(), size >= ends[0]);
        }
    }

    #[test]
    fn a_bad_block_is_damage_if_a_later_one_calls_it_durable_and_a_torn_end_otherwise() {
        let (bytes, ends) = journal(&BLOCKS);
        for place in 0..bytes.len() {
            for bit in [1, 0x80] {
                let mut changed = bytes.clone();
                changed[place] ^= bit;
                let number = ends.iter().filter(|end| **end <= place).count();
                // Blocks 0 to 2 were durable when the last blocks were written.
                match extent(&changed) {
                    Err(error) => {
                        let what = DamagedPart::Block;
                        assert_eq!(error.kind, ErrorKind::Damaged { what });
                        assert!(number < 3, "block {number} was not durable");
                    }
                    Ok(found) => {
                        assert!(number >= 3, "block {number} was durable, byte {place}");
                        assert_eq!(found.blocks, 2);
                    }
                }
            }
        }
    }

    #[test]
    fn zeros_and_blocks_of_an_earlier_journal_are_a_torn_end() {
        let (bytes, ends) = journal(&BLOCKS);
        let zeros = [&bytes[..ends[2]], &[0; 100]].concat();
        assert_eq!(extent(&zeros).unwrap().blocks, 2);
        let (other, others) = journal(&[(b"1", true, 0), (b"2", true, 0), (b"3", true, 0)]);
        let stale = [&bytes[..ends[2]], &other[others[2]..]].concat();
        assert_eq!(extent(&stale).unwrap().blocks, 2);
        assert_eq!(extent(&[0; 100]).unwrap().blocks, 0);
    }

    #[test]
    fn one_of_another_version_is_refused() {
        let mut first = blocks::head(b"a transaction").unwrap().to_vec();
        first.extend_from_slice(b"a transaction");
        assert_eq!(
            extent(&first).unwrap_err().kind,
            ErrorKind::Unreleased { found: 1 }
        );
        let json = br#"{"format":4,"unknown":true}"#;
        let (head, _) = Head::of(json, true, Link::default()).unwrap().encode();
        let later = [&head[..], json].concat();
        assert_eq!(
            extent(&later).unwrap_err().kind,
            ErrorKind::Version { found: 4 }
        );
    }
}
