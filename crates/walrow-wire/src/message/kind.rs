//! The kinds of messages.

/// The kind of a pgoutput message: its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// `B`
    Begin = b'B',
    /// `C`
    Commit = b'C',
    /// `O`
    Origin = b'O',
    /// `R`
    Relation = b'R',
    /// `Y`
    Type = b'Y',
    /// `I`
    Insert = b'I',
    /// `U`
    Update = b'U',
    /// `D`
    Delete = b'D',
    /// `T`
    Truncate = b'T',
    /// `M`
    Message = b'M',
    /// `S`, protocol 2 and later
    StreamStart = b'S',
    /// `E`, protocol 2 and later
    StreamStop = b'E',
    /// `c`, protocol 2 and later
    StreamCommit = b'c',
    /// `A`, protocol 2 and later
    StreamAbort = b'A',
    /// `b`, protocol 3 and later
    BeginPrepare = b'b',
    /// `P`, protocol 3 and later
    Prepare = b'P',
    /// `K`, protocol 3 and later
    CommitPrepared = b'K',
    /// `r`, protocol 3 and later
    RollbackPrepared = b'r',
    /// `p`, protocol 3 and later
    StreamPrepare = b'p',
}

/// The kinds that change one row.
const ROWS: u64 = Kind::Insert.bit() | Kind::Update.bit() | Kind::Delete.bit();
/// The kinds that describe a relation or a type.
const DEFINITIONS: u64 = Kind::Relation.bit() | Kind::Type.bit();
/// The kinds that are the contents of transactions.
const CONTENTS: u64 = ROWS | DEFINITIONS | Kind::Truncate.bit() | Kind::Message.bit();

impl Kind {
    /// The kind as one bit of a set. Letters differ in their low six bits.
    ///
    /// A set is tested without a jump, and a jump by the kind of each message is often mispredicted.
    const fn bit(self) -> u64 {
        1_u64.wrapping_shl(self as u32)
    }

    #[inline]
    const fn is_in(self, kinds: u64) -> bool {
        self.bit() & kinds != 0
    }

    /// The kind with this byte.
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            b'B' => Self::Begin,
            b'C' => Self::Commit,
            b'O' => Self::Origin,
            b'R' => Self::Relation,
            b'Y' => Self::Type,
            b'I' => Self::Insert,
            b'U' => Self::Update,
            b'D' => Self::Delete,
            b'T' => Self::Truncate,
            b'M' => Self::Message,
            b'S' => Self::StreamStart,
            b'E' => Self::StreamStop,
            b'c' => Self::StreamCommit,
            b'A' => Self::StreamAbort,
            b'b' => Self::BeginPrepare,
            b'P' => Self::Prepare,
            b'K' => Self::CommitPrepared,
            b'r' => Self::RollbackPrepared,
            b'p' => Self::StreamPrepare,
            _ => return None,
        })
    }

    /// Its byte.
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Its name in the manual.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Begin => "Begin",
            Self::Commit => "Commit",
            Self::Origin => "Origin",
            Self::Relation => "Relation",
            Self::Type => "Type",
            Self::Insert => "Insert",
            Self::Update => "Update",
            Self::Delete => "Delete",
            Self::Truncate => "Truncate",
            Self::Message => "Message",
            Self::StreamStart => "Stream Start",
            Self::StreamStop => "Stream Stop",
            Self::StreamCommit => "Stream Commit",
            Self::StreamAbort => "Stream Abort",
            Self::BeginPrepare => "Begin Prepare",
            Self::Prepare => "Prepare",
            Self::CommitPrepared => "Commit Prepared",
            Self::RollbackPrepared => "Rollback Prepared",
            Self::StreamPrepare => "Stream Prepare",
        }
    }

    /// Whether it changes one row: Insert, Update, Delete.
    #[inline]
    pub const fn is_row(self) -> bool {
        self.is_in(ROWS)
    }

    /// Whether it describes a relation or a type.
    #[inline]
    pub const fn is_definition(self) -> bool {
        self.is_in(DEFINITIONS)
    }

    /// Whether it carries a transaction ID between Stream Start and Stream Stop. Such messages are
    /// the contents of transactions. All other kinds mark where transactions begin, end or come
    /// from.
    #[inline]
    pub const fn carries_xid(self) -> bool {
        self.is_in(CONTENTS)
    }

    /// Whether the rollback of its subtransaction discards it. A Message is not discarded: its
    /// transaction ID is always the top-level one.
    #[inline]
    pub const fn is_of_subtransaction(self) -> bool {
        self.carries_xid() && !matches!(self, Self::Message)
    }

    /// Whether it ends a block that Stream Start or Begin Prepare began.
    pub const fn ends_block(self) -> bool {
        matches!(self, Self::StreamStop | Self::Prepare)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_its_kind_or_none() {
        let kinds = (0..=u8::MAX).filter_map(|byte| {
            let kind = Kind::from_byte(byte)?;
            assert_eq!(kind.byte(), byte);
            Some(kind)
        });
        assert_eq!(kinds.count(), 19);
    }
}
