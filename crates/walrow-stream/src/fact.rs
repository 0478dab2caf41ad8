//! walrow's own facts in a stream. Protocol 1 has no messages for them.
//!
//! A fact is a logical message with the prefix `walrow` at LSN 0/0, which no server sends, and with
//! JSON as its content. So other decoders of pgoutput skip it, and a user's message with this
//! prefix remains data. A fact may come anywhere before its use.

use crate::catalog::{Catalog, part};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use walrow_wire::{LogicalMessage, Lsn, Message, PgString, Timestamp, Xid};

/// The prefix of the logical messages.
pub(crate) const PREFIX: &str = "walrow";

/// A fact.
///
/// ```
/// use walrow_stream::Fact;
///
/// let fact = Fact::Part { first_seq: 70_000 };
/// let mut frame = Vec::new();
/// fact.encode(false, &mut frame);
/// assert!(frame.ends_with(br#"{"fact":"part","first_seq":70000}"#));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fact {
    /// A segment of a log begins.
    Segment(#[serde(deserialize_with = "part")] Box<Segment>),
    /// Types that the stream does not define.
    Catalog(Arc<Catalog>),
    /// How the next transaction was prepared.
    Prepared {
        /// The GID from PREPARE TRANSACTION.
        gid: String,
        /// The LSN where the prepare record starts.
        #[serde(with = "lsn")]
        prepare_lsn: Lsn,
        /// The LSN where the prepare record ends.
        #[serde(with = "lsn")]
        prepare_end_lsn: Lsn,
        /// When it was prepared, in microseconds since 2000.
        prepare_time: i64,
    },
    /// The next transaction is a load: a truncate of tables, and their rows in a snapshot.
    Snapshot,
    /// Savepoints of the next transaction were rolled back, while it was streamed.
    RolledBack {
        /// The LSN of the last rollback's record: logical messages up to here may belong to the
        /// savepoints.
        #[serde(with = "lsn")]
        until: Lsn,
    },
    /// A transaction was prepared, and is not decided yet: its rows are an object of the log.
    Undecided {
        /// Its ID.
        xid: u32,
        /// The LSN where its prepare record ends.
        #[serde(with = "lsn")]
        prepare_end_lsn: Lsn,
    },
    /// A prepared transaction was committed or rolled back.
    Decided {
        /// Its ID.
        xid: u32,
        /// The LSN where its prepare record ends.
        #[serde(with = "lsn")]
        prepare_end_lsn: Lsn,
    },
    /// The next transaction continues a transaction of an earlier segment.
    Part {
        /// The seq of its first change.
        first_seq: u64,
    },
    /// Changes of the current transaction were erased here. The next change has this seq.
    Seq {
        /// The seq of the next change.
        next: u64,
    },
    /// The current transaction continues in the next segment.
    Continues,
    /// Everything up to this LSN is in the log, with or without transactions.
    Position {
        /// The end of the last record that the server decoded.
        #[serde(with = "lsn")]
        lsn: Lsn,
    },
    /// The writer received the following messages on another timeline.
    Timeline {
        /// The timeline's number.
        timeline: u32,
        /// The LSN where the timeline began.
        #[serde(
            default,
            with = "lsn::optional",
            skip_serializing_if = "Option::is_none"
        )]
        start: Option<Lsn>,
    },
    /// From here on, the server is asked for a stream with these options.
    Asked {
        /// The options of the stream.
        options: BTreeMap<String, String>,
    },
    /// A transaction was prepared, and no other message came after it up to the next position.
    Taken(#[serde(deserialize_with = "part")] Taken),
    /// The LSN where the slot was when the log was begun: earlier transactions are not in the log.
    SlotStart {
        /// The server has sent all transactions that were committed after this LSN.
        #[serde(with = "lsn")]
        lsn: Lsn,
    },
    /// The transactions that may have been prepared before the slot was there.
    PreparedBefore(#[serde(deserialize_with = "part")] PreparedBefore),
    /// The log lacks all changes of a range.
    Gap(#[serde(deserialize_with = "part")] Gap),
    /// A fact of a later version of walrow, which a reader may skip.
    #[serde(other)]
    Unknown,
}

/// A range of LSNs without changes: the server did not send the changes that were committed there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Gap {
    /// The last LSN up to which the log has all changes.
    #[serde(with = "lsn")]
    pub start: Lsn,
    /// The LSN after which the log has all changes again.
    #[serde(with = "lsn")]
    pub end: Lsn,
    /// The code of its reason, such as `slot_missing`.
    pub reason: String,
}

impl Gap {
    /// A gap between two LSNs, with the code of its reason.
    pub const fn new(start: Lsn, end: Lsn, reason: String) -> Self {
        Self { start, end, reason }
    }

    /// Whether a reader that begins at `from` and ends at `to` lacks changes in it.
    pub fn is_between(&self, from: Lsn, to: Option<Lsn>) -> bool {
        self.end > from && to.is_none_or(|to| to > self.start)
    }
}

/// The properties of a whole segment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Segment {
    /// The version of the format.
    pub format: u32,
    /// The end LSN of the segment before.
    #[serde(with = "lsn")]
    pub start: Lsn,
    /// The number of earlier segments that begin there. A transaction that is larger than a segment
    /// continues in several.
    pub part: u32,
    /// The source of the changes.
    pub source: Source,
}

impl Segment {
    /// The segment at this place. Its writer sets the format.
    pub const fn new(start: Lsn, part: u32, source: Source) -> Self {
        let format = 0;
        Self {
            format,
            start,
            part,
            source,
        }
    }
}

/// The server, database and slot that changes come from. Empty for a capture, which does not
/// contain them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Source {
    /// The system identifier of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_identifier: Option<String>,
    /// The database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// The replication slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// The timeline of the WAL that was received last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<u32>,
    /// The LSN where the timeline began. `None` for the first timeline, and if the LSN is not
    /// known.
    #[serde(
        default,
        with = "lsn::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeline_start: Option<Lsn>,
    /// The last transaction or message from the server: other servers do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Taken>,
    /// Where the last gap ends. The server is not asked for earlier changes again.
    #[serde(
        default,
        with = "lsn::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub gap_end: Option<Lsn>,
    /// The options of the stream that decide which messages come.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub asked: BTreeMap<String, String>,
    /// The LSN where the slot was when the log was begun. `None` for captures.
    #[serde(
        default,
        with = "lsn::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub slot_start: Option<Lsn>,
    /// The transactions that may have been prepared before the slot was there.
    #[serde(default, skip_serializing_if = "PreparedBefore::is_empty")]
    pub prepared_before: PreparedBefore,
    /// The settings that text values depend on, if they are not walrow's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub session: BTreeMap<String, String>,
}

/// Transactions that may have been prepared before the slot was where a log begins: the server has
/// sent their rows to another client, and sends only their commits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PreparedBefore {
    /// Transactions whose commit ends at or before this LSN: walrow had not yet asked which
    /// transactions are prepared.
    #[serde(with = "lsn")]
    pub until: Lsn,
    /// The IDs of the transactions that were prepared when walrow asked.
    pub xids: Vec<Xid>,
}

/// A transaction or message that was taken from a server: it distinguishes that server from other
/// servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "taken", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Taken {
    /// A committed transaction.
    #[non_exhaustive]
    Transaction {
        /// The LSN where the commit record starts.
        #[serde(with = "lsn")]
        lsn: Lsn,
        /// Its ID.
        xid: Xid,
        /// When it was committed, in microseconds since 2000.
        time: i64,
    },
    /// A prepared transaction.
    #[non_exhaustive]
    Prepare {
        /// The LSN where the prepare record starts.
        #[serde(with = "lsn")]
        lsn: Lsn,
        /// Its ID.
        xid: Xid,
        /// When it was prepared, in microseconds since 2000.
        time: i64,
    },
    /// A logical message outside transactions.
    #[non_exhaustive]
    Message {
        /// The LSN where the record ends.
        #[serde(with = "lsn")]
        lsn: Lsn,
        /// Its prefix.
        prefix: String,
        /// The CRC-32C of its content.
        crc32c: u32,
        /// Bytes of its content.
        bytes: u64,
        /// The ID of the last transaction before it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        xid: Option<Xid>,
    },
}

impl Taken {
    /// A committed transaction.
    pub const fn transaction(lsn: Lsn, xid: Xid, time: Timestamp) -> Self {
        let time = time.0;
        Self::Transaction { lsn, xid, time }
    }

    /// A prepared transaction.
    pub const fn prepare(lsn: Lsn, xid: Xid, time: Timestamp) -> Self {
        let time = time.0;
        Self::Prepare { lsn, xid, time }
    }

    /// A logical message outside transactions, and the ID of the last transaction before it.
    pub fn message(
        lsn: Lsn,
        prefix: &str,
        crc32c: u32,
        bytes: usize,
        before: Option<&Self>,
    ) -> Self {
        Self::Message {
            lsn,
            prefix: prefix.to_owned(),
            crc32c,
            bytes: bytes as u64,
            xid: before.and_then(Self::xid),
        }
    }

    /// The LSN where the record starts. For a message, the LSN where the record ends.
    pub const fn lsn(&self) -> Lsn {
        match self {
            Self::Transaction { lsn, .. }
            | Self::Prepare { lsn, .. }
            | Self::Message { lsn, .. } => *lsn,
        }
    }

    /// The ID of the transaction, or for a message, the ID of the last transaction before it.
    pub const fn xid(&self) -> Option<Xid> {
        match self {
            Self::Transaction { xid, .. } | Self::Prepare { xid, .. } => Some(*xid),
            Self::Message { xid, .. } => *xid,
        }
    }

    /// An LSN at or shortly before the record's start. A server that begins there sends it again.
    pub fn resent_from(&self) -> Lsn {
        match self {
            Self::Transaction { lsn, .. } | Self::Prepare { lsn, .. } => *lsn,
            Self::Message {
                lsn, prefix, bytes, ..
            } => {
                // The record starts before its end LSN. It has headers, and its pages have headers,
                // too.
                let content = bytes.saturating_add(prefix.len() as u64);
                let record = content.saturating_mul(2).saturating_add(1024);
                Lsn(lsn.0.saturating_sub(record))
            }
        }
    }

    /// Whether a server that sends all changes after this LSN sends it, too.
    pub fn comes_after(&self, confirmed: Lsn) -> bool {
        match self {
            Self::Transaction { lsn, .. } | Self::Prepare { lsn, .. } => *lsn >= confirmed,
            Self::Message { lsn, .. } => *lsn > confirmed,
        }
    }

    /// Whether both are the same. The transaction before a message does not matter.
    pub fn is(&self, other: &Self) -> bool {
        let mut other = other.clone();
        if let (Self::Message { xid, .. }, Self::Message { xid: known, .. }) = (self, &mut other) {
            *known = *xid;
        }
        *self == other
    }
}

impl PreparedBefore {
    /// Transactions that were committed up to this LSN, and transactions with these IDs.
    pub const fn new(until: Lsn, xids: Vec<Xid>) -> Self {
        Self { until, xids }
    }

    /// Whether there are no such transactions.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a transaction whose Prepare did not come may be such a transaction.
    pub(crate) fn may_have(&self, xid: Xid, commit_end: Lsn) -> bool {
        commit_end <= self.until || self.xids.contains(&xid)
    }
}

impl Fact {
    /// Appends the fact as a frame. `transactional` says whether a transaction is around it.
    pub fn encode(&self, transactional: bool, out: &mut Vec<u8>) {
        // Serializing plain data into memory cannot fail.
        let content = serde_json::to_vec(self).unwrap_or_default();
        let message = Message::Message(LogicalMessage {
            xid: None,
            transactional,
            lsn: Lsn::INVALID,
            prefix: PgString(PREFIX.as_bytes()),
            content: &content,
        });
        message.encode_in_frame(Lsn::INVALID, Timestamp(0), out);
    }

    /// The fact in a logical message. `None` if it is a user's message.
    pub fn of(message: &LogicalMessage<'_>) -> Option<Self> {
        is_own(message).then(|| serde_json::from_slice(message.content).ok())?
    }
}

/// The name of a fact of a later version, unless the fact has `"may_skip": true`.
pub(crate) fn refused(content: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Unknown {
        fact: String,
        #[serde(default)]
        may_skip: bool,
    }
    let found: Unknown = serde_json::from_slice(content).ok()?;
    (!found.may_skip).then_some(found.fact)
}

fn is_own(message: &LogicalMessage<'_>) -> bool {
    message.lsn == Lsn::INVALID && message.prefix.0 == PREFIX.as_bytes()
}

/// The catalogs of a stream by their JSON. Each segment of a log repeats the catalog of its tables:
/// identical bytes are parsed once.
#[derive(Debug, Default)]
pub(crate) struct ReadCatalogs {
    by_json: HashMap<Box<[u8]>, Arc<Catalog>>,
    /// Bytes of JSON.
    bytes: usize,
}

impl ReadCatalogs {
    /// The most bytes of JSON that are kept.
    const MOST: usize = 4 << 20;

    /// As [`Fact::of`].
    pub(crate) fn fact_of(&mut self, message: &LogicalMessage<'_>) -> Option<Fact> {
        if !is_own(message) {
            return None;
        }
        let json = message.content;
        if let Some(catalog) = self.by_json.get(json) {
            return Some(Fact::Catalog(Arc::clone(catalog)));
        }
        let fact = Fact::of(message)?;
        if let Fact::Catalog(catalog) = &fact {
            self.keep(json, catalog);
        }
        Some(fact)
    }

    fn keep(&mut self, json: &[u8], catalog: &Arc<Catalog>) {
        if self.bytes.saturating_add(json.len()) > Self::MOST {
            *self = Self::default();
        }
        if json.len() <= Self::MOST {
            self.bytes = self.bytes.saturating_add(json.len());
            self.by_json.insert(json.into(), Arc::clone(catalog));
        }
    }
}

/// LSNs in JSON, as PostgreSQL writes them.
pub mod lsn {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use walrow_wire::Lsn;

    /// Writes an LSN.
    ///
    /// # Errors
    /// As the serializer.
    pub fn serialize<S: Serializer>(lsn: &Lsn, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(lsn)
    }

    /// Reads an LSN.
    ///
    /// # Errors
    /// The value is not the text of an LSN.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Lsn, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }

    /// LSNs that may be missing.
    pub mod optional {
        use serde::{Deserialize, Deserializer, Serializer};
        use walrow_wire::Lsn;

        /// Writes an LSN, or null.
        ///
        /// # Errors
        /// As the serializer.
        pub fn serialize<S: Serializer>(
            lsn: &Option<Lsn>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            match lsn {
                Some(lsn) => super::serialize(lsn, serializer),
                None => serializer.serialize_none(),
            }
        }

        /// Reads an LSN, or null.
        ///
        /// # Errors
        /// The value is neither the text of an LSN nor null.
        pub fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Lsn>, D::Error> {
            #[derive(Deserialize)]
            struct Text(#[serde(with = "super")] Lsn);
            Ok(Option::<Text>::deserialize(deserializer)?.map(|it| it.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(content: &[u8]) -> LogicalMessage<'_> {
        LogicalMessage {
            xid: None,
            transactional: false,
            lsn: Lsn::INVALID,
            prefix: PgString(PREFIX.as_bytes()),
            content,
        }
    }

    fn json(name: &str) -> Vec<u8> {
        format!(
            r#"{{"fact":"catalog","types":[{{"oid":20000,"schema":"s","name":"{name}","kind":"base"}}]}}"#
        )
        .into_bytes()
    }

    #[test]
    fn identical_catalogs_are_parsed_once() {
        let mut catalogs = ReadCatalogs::default();
        let mut of = |json: &[u8]| match catalogs.fact_of(&message(json)) {
            Some(Fact::Catalog(catalog)) => catalog,
            other => panic!("{other:?}"),
        };
        let (first, other) = (of(&json("a")), of(&json("b")));
        assert_eq!(first.types[0].name, "a");
        assert_eq!(other.types[0].name, "b");
        assert!(Arc::ptr_eq(&first, &of(&json("a"))));
        assert!(Arc::ptr_eq(&other, &of(&json("b"))));
    }

    #[test]
    fn the_catalogs_of_a_stream_stay_small() {
        let mut catalogs = ReadCatalogs::default();
        for number in 0..20 {
            let name = format!("{number}{}", "x".repeat(ReadCatalogs::MOST / 3));
            assert!(catalogs.fact_of(&message(&json(&name))).is_some());
            assert!(catalogs.bytes <= ReadCatalogs::MOST);
            let kept: usize = catalogs.by_json.keys().map(|json| json.len()).sum();
            assert_eq!(catalogs.bytes, kept);
        }
        let large = json(&"x".repeat(ReadCatalogs::MOST));
        assert!(catalogs.fact_of(&message(&large)).is_some());
        assert!(catalogs.by_json.is_empty());
    }

    #[test]
    fn messages_of_users_are_no_facts() {
        let json = json("a");
        let of_user = LogicalMessage {
            lsn: Lsn(1),
            ..message(&json)
        };
        assert_eq!(ReadCatalogs::default().fact_of(&of_user), None);
    }
}
