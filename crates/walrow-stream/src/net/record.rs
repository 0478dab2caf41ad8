//! The stored record of a key whose earlier row is unknown.
//!
//! ```text
//! ┌───────┬─────────────┬──────────────────────────┬──────────────────────────┐
//! │ flags │ since (4),  │ of a head: length (4),   │ a row: all cells         │
//! │       │ changed (4) │ cells of the key it had  │ gone: cells of the key   │
//! └───────┴─────────────┴──────────────────────────┴──────────────────────────┘
//! ```

/// Where a row was before the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Head {
    /// Nowhere: it was inserted. The values that it lacks were never sent.
    #[default]
    None,
    /// Under its own key. The values that it lacks are as they were.
    Own,
    /// Under another key. The values that it lacks are as they were there.
    Other,
}

/// The record of a key.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are bits of what is stored"
)]
pub(super) struct Record<'a> {
    pub(super) head: Head,
    /// The cells of the head's key, if that is another key.
    pub(super) head_key: &'a [u8],
    /// Whether there is a row. If not, the row was taken: it was deleted, or got another key.
    pub(super) is_row: bool,
    /// Whether the row was deleted, and is kept.
    pub(super) is_marked: bool,
    /// Whether the row from before the transaction may be there, too.
    pub(super) is_beside: bool,
    /// Whether the cells may lack values.
    pub(super) has_unsent: bool,
    /// The transaction that gave the row its key. 0 if none did.
    pub(super) since: u32,
    /// The last transaction that changed the row.
    pub(super) changed: u32,
    /// The cells of the row, or of the key.
    pub(super) cells: &'a [u8],
}

const HEAD: u8 = 0b11;
const ROW: u8 = 1 << 2;
const MARKED: u8 = 1 << 3;
const BESIDE: u8 = 1 << 4;
const UNSENT: u8 = 1 << 5;
const KNOWN: u8 = (1 << 6) - 1;

impl<'a> Record<'a> {
    /// The record of a key whose row was taken.
    pub(super) const fn gone(key: &'a [u8]) -> Self {
        Self {
            head: Head::None,
            head_key: &[],
            is_row: false,
            is_marked: false,
            is_beside: false,
            has_unsent: false,
            since: 0,
            changed: 0,
            cells: key,
        }
    }

    /// Reads a record. `None` if the bytes are not a record. The cells are not checked.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (flags, rest) = bytes.split_first()?;
        let (since, rest) = rest.split_first_chunk()?;
        let (changed, mut rest) = rest.split_first_chunk()?;
        let head = match flags & HEAD {
            0 => Head::None,
            1 => Head::Own,
            2 => Head::Other,
            _ => return None,
        };
        let mut head_key: &[u8] = &[];
        if head == Head::Other {
            let (size, after) = rest.split_first_chunk()?;
            let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
            (head_key, rest) = after.split_at_checked(size)?;
        }
        let has = |flag: u8| flags & flag != 0;
        let is_row = has(ROW);
        if flags & !KNOWN != 0 || !is_row && flags & !ROW != 0 {
            return None;
        }
        Some(Self {
            head,
            head_key,
            is_row,
            is_marked: has(MARKED),
            is_beside: has(BESIDE),
            has_unsent: has(UNSENT),
            since: u32::from_le_bytes(*since),
            changed: u32::from_le_bytes(*changed),
            cells: rest,
        })
    }

    /// Bytes of the record.
    pub(super) const fn size(&self) -> usize {
        let head = match self.head {
            Head::None | Head::Own => 0,
            Head::Other => self.head_key.len().saturating_add(4),
        };
        self.cells.len().saturating_add(head).saturating_add(9)
    }

    /// Appends the record.
    #[inline]
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let head = match self.head {
            Head::None => 0,
            Head::Own => 1,
            Head::Other => 2,
        };
        out.push(
            head | flag(self.is_row, ROW)
                | flag(self.is_marked, MARKED)
                | flag(self.is_beside, BESIDE)
                | flag(self.has_unsent, UNSENT),
        );
        let since_and_changed = u64::from(self.since) | u64::from(self.changed) << 32;
        out.extend_from_slice(&since_and_changed.to_le_bytes());
        if self.head == Head::Other {
            let size = u32::try_from(self.head_key.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&size.to_le_bytes());
            out.extend_from_slice(self.head_key);
        }
        out.extend_from_slice(self.cells);
    }
}

/// Says in a record whether the row from before the transaction may be there, too.
pub(super) fn set_beside(record: &mut [u8], is_beside: bool) {
    if let Some(flags) = record.first_mut() {
        *flags = if is_beside {
            *flags | BESIDE
        } else {
            *flags & !BESIDE
        };
    }
}

/// A row that is being changed.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) head: Head,
    pub(super) head_key: Vec<u8>,
    pub(super) is_marked: bool,
    pub(super) since: u32,
    /// Cells of the current columns. None if the change does not need them.
    pub(super) cells: Vec<u8>,
}

impl Row {
    /// Becomes a row of the range, or the row from before it under this key.
    pub(super) fn begin(&mut self, head: Head) {
        self.head = head;
        self.head_key.clear();
        (self.is_marked, self.since) = (false, 0);
    }

    /// Becomes the row of a record, besides its cells.
    pub(super) fn load(&mut self, record: &Record<'_>) {
        self.head = record.head;
        self.head_key.clear();
        self.head_key.extend_from_slice(record.head_key);
        self.is_marked = record.is_marked;
        self.since = record.since;
    }
}
