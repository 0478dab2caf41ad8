//! The relation versions of a session: what its tables look like, and looked like.
//!
//! # Promotion
//!
//! A server describes a relation once for each session and streamed transaction that uses it, and
//! again when its cache of the relation was invalidated. What is described inside a stream block
//! holds for that transaction alone, since it may roll back. When the transaction commits, the server
//! takes the relation for described to the whole session, and describes it no more. So its
//! definition is promoted: it becomes the session's.
//!
//! Blocks of several transactions take turns, so by the time of the commit there may be newer
//! definitions than the transaction's own. One that arrived outside stream blocks always wins. For
//! those that arrived inside, the order of arrival is not enough. A transaction that runs beside an
//! ALTER SCHEMA … RENAME may describe a table by its old name long after the rename has described it
//! by its new name. And on servers 14 and 15 the rename invalidates no relation: no later description
//! mends what the session has then.
//!
//! ```text
//!            session    stream of 700                        stream of 701
//!  time │    R old.t
//!       │               ALTER SCHEMA old RENAME TO new
//!       │               S R new.t  I  E         a change
//!       │                                                    S R old.t  I  E      repeats the
//!       │               c  ── promoted: the session                               session's
//!       │    new.t ◄────── has new.t
//!       ▼                                                    c  ── not promoted: it only repeats
//!            I  (of new.t)                                         what 700 has changed since
//! ```
//!
//! A definition that says nothing new is no sign that the table looks so again. Hence each one is
//! noted with whether it is a *change*, another than the session's when it arrived, and
//!
//! - a change is promoted unless one arrived after it from outside, or a later change of another
//!   transaction was promoted already;
//! - a repetition is promoted unless anything at all has come to the session since it arrived.
//!
//! Definitions of a subtransaction that was rolled back are forgotten, and those of a prepared
//! transaction are never promoted: in `b` … `P` they counted at once, and a server that streams
//! describes relations again after Stream Prepare.

use crate::catalog::CatalogTable;
use crate::encoding::Encoding;
use crate::error::ErrorKind;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use walrow_wire::{Oid, PgString, ReplicaIdentity, Xid};

/// One version of a table, as rows arrived under it.
///
/// An identical Relation message sent again is the same version; changed columns, names, types or
/// replica identity make a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Numbers the versions of one assembler from 0, in the order in which they appeared.
    pub version: u32,
    /// The relation.
    pub oid: Oid,
    /// Its schema; `pg_catalog` is spelt out.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// What identifies a row in old tuples.
    pub replica_identity: ReplicaIdentity,
    /// The published columns, in attribute order.
    pub columns: Box<[Column]>,
}

/// A column of one relation version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: Box<str>,
    /// Its type.
    pub type_oid: Oid,
    /// `pg_attribute.atttypmod`; -1 for none.
    pub type_modifier: i32,
    /// Whether it is part of the replica identity.
    pub is_key: bool,
    /// What a Type message said of its type; `None` for built-in types.
    pub type_name: Option<TypeName>,
}

/// A type's name from a Type message. **For a domain it is the base type's.**
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName {
    /// The schema; `pg_catalog` is spelt out.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

/// What a Relation message would say of a catalog's table.
impl From<&CatalogTable> for Relation {
    fn from(table: &CatalogTable) -> Self {
        let columns = table.columns.iter().map(|column| Column {
            name: column.name.as_str().into(),
            type_oid: column.type_oid,
            type_modifier: column.type_modifier,
            is_key: column.key,
            type_name: None,
        });
        Self {
            version: 0,
            oid: table.oid,
            namespace: table.schema.as_str().into(),
            name: table.name.as_str().into(),
            replica_identity: ReplicaIdentity::Default,
            columns: columns.collect(),
        }
    }
}

impl Relation {
    /// Whether the message says nothing else.
    fn is_like(&self, message: &walrow_wire::Relation<'_>, encoding: Encoding) -> bool {
        let same = |one: &str, other| encoding.decode(other).is_some_and(|other| other == one);
        let columns = self.columns.iter().zip(message.columns.iter());
        same(&self.name, message.name)
            && same(&self.namespace, spelt_out(message.namespace))
            && self.replica_identity == message.replica_identity
            && self.columns.len() == message.columns.len()
            && columns.into_iter().all(|(one, other)| {
                same(&one.name, other.name)
                    && one.type_oid == other.type_oid
                    && one.type_modifier == other.type_modifier
                    && one.is_key == other.is_key()
            })
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.namespace, self.name)
    }
}

/// What Relation and Type messages defined, and in which order they arrived.
#[derive(Debug, Default)]
struct Definitions {
    relations: HashMap<Oid, Defined<Arc<Relation>>>,
    types: HashMap<Oid, Defined<TypeName>>,
}

/// Whether a definition is a committed transaction's, so that it is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announce {
    Yes,
    No,
}

/// A definition, and when it came to be.
#[derive(Debug)]
struct Defined<T> {
    value: T,
    /// When it arrived, or was taken over from a streamed transaction.
    arrival: u64,
    /// When the last definition arrived outside streams.
    outside: u64,
    /// When the last one arrived that a streamed transaction changed.
    changed: u64,
}

impl<T> Defined<T> {
    /// One that arrives now.
    const fn now(value: T, arrival: u64) -> Self {
        Self {
            value,
            arrival,
            outside: arrival,
            changed: 0,
        }
    }
}

/// The definitions that hold at one point of a session.
///
/// While a transaction is read that arrived in stream blocks or was prepared, its own definitions
/// lie over those of the session.
#[derive(Debug, Default)]
pub(crate) struct Relations {
    session: Definitions,
    overlay: Option<Definitions>,
    /// The last version of each relation, whoever defined it: one that comes again is the same.
    last: HashMap<Oid, Arc<Relation>>,
    /// Counts Relation and Type messages as they arrive.
    arrivals: u64,
    /// The number of the next version.
    next_version: u32,
    /// What is to be known of some versions.
    states: HashMap<u32, State>,
    /// Versions that are to be handed out now.
    new: VecDeque<Arc<Relation>>,
    /// The relations looked up last, by the low bits of their OID, each with whether its rows are
    /// handed out: a transaction alternates between few tables, and a run of rows is of one.
    recent: [Option<(Arc<Relation>, bool)>; RECENT],
    /// What the next definitions come to, where that is known: in a transaction that was taken out.
    known: VecDeque<Arc<Relation>>,
    /// What is noted of a transaction that is being taken out.
    record: Option<Record>,
    /// What names are encoded in.
    pub(crate) encoding: Encoding,
}

const RECENT: usize = 8;

/// What a transaction looks up.
#[derive(Debug, Default)]
struct Record {
    /// The versions of relations at their first use, but for those that it defined before.
    used: HashMap<Oid, Arc<Relation>>,
    /// What its definitions came to, and of which relations they were.
    defined: VecDeque<Arc<Relation>>,
    oids: HashSet<Oid>,
    /// What was to be known of these versions before it.
    states: HashMap<u32, State>,
    /// Versions that were to be handed out when it began.
    new: VecDeque<Arc<Relation>>,
}

/// What is to be known of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It was not handed out.
    Unannounced,
    /// Nobody asks for its rows.
    LeftOut,
}

/// What a row's relation is to who reads the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// A version, at this place of those that were looked up last.
    Known(usize),
    /// A version that nobody asks for.
    LeftOut,
    /// A version that is to be handed out first.
    New,
    Unknown,
}

/// Bytes that a name may have as it was sent. PostgreSQL's have 63; a server that was compiled with
/// longer ones, or converts them from another encoding, sends more. A name is repeated in every
/// field, row and error that names its column, so that a long one would multiply.
const MAX_NAME: usize = 256;

/// Columns that a table may have. Each takes some hundred times the bytes that a message has for it.
const MAX_COLUMNS: usize = 1600;

impl Relations {
    /// Forgets all definitions: a new session sends them again. Version numbers go on.
    pub(crate) fn clear(&mut self) {
        self.session = Definitions::default();
        self.overlay = None;
        self.forget_recent();
    }

    fn forget_recent(&mut self) {
        self.recent = [const { None }; RECENT];
    }

    /// The version that holds now.
    pub(crate) fn get(&self, oid: Oid) -> Option<&Arc<Relation>> {
        let overlay = self.overlay.as_ref().and_then(|it| it.relations.get(&oid));
        let defined = overlay.or_else(|| self.session.relations.get(&oid))?;
        Some(&defined.value)
    }

    /// What the relation of a row is. A new version is ready to be handed out then.
    #[inline]
    pub(crate) fn look_up(&mut self, oid: Oid) -> Lookup {
        let place = oid as usize % RECENT;
        match self.recent.get(place) {
            Some(Some((relation, true))) if relation.oid == oid => Lookup::Known(place),
            Some(Some((relation, false))) if relation.oid == oid => Lookup::LeftOut,
            _ => self.look_further(oid, place),
        }
    }

    /// The version at a place of those that were looked up last.
    #[inline]
    pub(crate) fn recent(&self, place: usize) -> Option<&Arc<Relation>> {
        let (relation, _) = self.recent.get(place)?.as_ref()?;
        Some(relation)
    }

    #[cold]
    fn look_further(&mut self, oid: Oid, place: usize) -> Lookup {
        let Some(relation) = self.get(oid).cloned() else {
            return Lookup::Unknown;
        };
        if let Some(record) = &mut self.record {
            if !record.oids.contains(&oid) {
                let used = record.used.entry(oid);
                used.or_insert_with(|| Arc::clone(&relation));
            }
            if let Some(state @ State::LeftOut) = self.states.get(&relation.version) {
                record.states.insert(relation.version, *state);
            }
        }
        if self.announce(&relation) {
            return Lookup::New;
        }
        let wanted = self.states.get(&relation.version) != Some(&State::LeftOut);
        if let Some(recent) = self.recent.get_mut(place) {
            *recent = Some((relation, wanted));
        }
        if wanted {
            Lookup::Known(place)
        } else {
            Lookup::LeftOut
        }
    }

    /// Notes from now on what is looked up.
    pub(crate) fn record(&mut self) {
        self.forget_recent();
        self.record = Some(Record {
            new: self.new.clone(),
            ..Record::default()
        });
    }

    /// Relations in which the same reading looks up the same.
    pub(crate) fn recorded(&mut self) -> Self {
        let record = self.record.take().unwrap_or_default();
        self.new.clear();
        let used = record.used.into_iter();
        Self {
            session: Definitions {
                relations: used.map(|(oid, it)| (oid, Defined::now(it, 0))).collect(),
                types: HashMap::new(),
            },
            next_version: self.next_version,
            states: record.states,
            new: record.new,
            known: record.defined,
            encoding: self.encoding,
            ..Self::default()
        }
    }

    /// Rows of this version are not asked for.
    pub(crate) fn leave_out(&mut self, version: u32) {
        self.states.insert(version, State::LeftOut);
        self.forget_recent();
    }

    /// The session's relations, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.session.relations.values().map(|known| &known.value)
    }

    /// Makes ready to hand out a version that was not; whether it was not.
    pub(crate) fn announce(&mut self, relation: &Arc<Relation>) -> bool {
        if self.states.get(&relation.version) != Some(&State::Unannounced) {
            return false;
        }
        self.states.remove(&relation.version);
        if let Some(record) = &mut self.record {
            record.states.insert(relation.version, State::Unannounced);
        }
        self.new.push_back(Arc::clone(relation));
        true
    }

    /// A version that is to be handed out now.
    #[inline]
    pub(crate) fn next_new(&mut self) -> Option<Arc<Relation>> {
        self.new.pop_front()
    }

    /// The number of a message that arrives now.
    fn arrive(&mut self) -> u64 {
        self.arrivals = self.arrivals.saturating_add(1);
        self.arrivals
    }

    /// Definitions from now on are one transaction's own; it begins with these.
    pub(crate) fn enter(&mut self, inherited: BTreeMap<Oid, Arc<Relation>>) {
        let relations = inherited
            .into_iter()
            .map(|(oid, relation)| (oid, Defined::now(relation, 0)));
        self.overlay = Some(Definitions {
            relations: relations.collect(),
            types: HashMap::new(),
        });
        self.forget_recent();
    }

    /// Definitions from now on are the session's again, with those of the transaction that are to be
    /// promoted, unless the session knows better.
    pub(crate) fn leave(&mut self, promotions: &Promotions) {
        let Some(mut overlay) = self.overlay.take() else {
            return;
        };
        for (oid, promotion) in &promotions.relations {
            let arrival = self.arrive();
            promote(
                &mut self.session.relations,
                &mut overlay.relations,
                *oid,
                *promotion,
                arrival,
            );
        }
        for (oid, promotion) in &promotions.types {
            let arrival = self.arrive();
            promote(
                &mut self.session.types,
                &mut overlay.types,
                *oid,
                *promotion,
                arrival,
            );
        }
        self.forget_recent();
    }

    /// How a streamed definition of a relation that arrives now is to be promoted.
    pub(crate) fn relation_promotion(
        &mut self,
        message: &walrow_wire::Relation<'_>,
        xid: Xid,
    ) -> Promotion {
        let known = self.session.relations.get(&message.oid);
        let is_change = known.is_none_or(|known| !known.value.is_like(message, self.encoding));
        self.promotion(xid, is_change)
    }

    /// How a streamed definition of a type that arrives now is to be promoted.
    pub(crate) fn type_promotion(
        &mut self,
        message: &walrow_wire::Type<'_>,
        xid: Xid,
    ) -> Promotion {
        let known = self.session.types.get(&message.oid);
        let is_change = known.is_none_or(|known| {
            let name = self.encoding.decode(message.name);
            let namespace = self.encoding.decode(spelt_out(message.namespace));
            name.is_none_or(|name| *known.value.name != *name)
                || namespace.is_none_or(|namespace| *known.value.namespace != *namespace)
        });
        self.promotion(xid, is_change)
    }

    fn promotion(&mut self, xid: Xid, is_change: bool) -> Promotion {
        Promotion {
            arrival: self.arrive(),
            xid,
            is_change,
        }
    }

    /// Takes a Type message.
    pub(crate) fn define_type(&mut self, message: &walrow_wire::Type<'_>) -> Result<(), ErrorKind> {
        let name = TypeName {
            namespace: self.namespace(message.namespace, "Type")?.into(),
            name: self.text(message.name, "Type", "type name")?.into(),
        };
        let arrival = self.arrive();
        let types = match &mut self.overlay {
            Some(overlay) => &mut overlay.types,
            None => &mut self.session.types,
        };
        types.insert(message.oid, Defined::now(name, arrival));
        Ok(())
    }

    fn text<'a>(
        &self,
        string: PgString<'a>,
        message: &'static str,
        field: &'static str,
    ) -> Result<Cow<'a, str>, ErrorKind> {
        bounded(string, MAX_NAME, message, field)?;
        let text = self.encoding.decode(string);
        text.ok_or(ErrorKind::InvalidUtf8 { message, field })
    }

    fn namespace<'a>(
        &self,
        string: PgString<'a>,
        message: &'static str,
    ) -> Result<Cow<'a, str>, ErrorKind> {
        self.text(spelt_out(string), message, "namespace")
    }

    fn type_name(&self, oid: Oid) -> Option<&TypeName> {
        let overlay = self.overlay.as_ref().and_then(|it| it.types.get(&oid));
        let defined = overlay.or_else(|| self.session.types.get(&oid))?;
        Some(&defined.value)
    }

    /// Takes a Relation message.
    pub(crate) fn define(
        &mut self,
        message: &walrow_wire::Relation<'_>,
        announce: Announce,
    ) -> Result<(), ErrorKind> {
        let count = message.columns.len();
        if count > MAX_COLUMNS {
            return Err(ErrorKind::TooManyColumns {
                oid: message.oid,
                columns: count,
                limit: MAX_COLUMNS,
            });
        }
        let mut columns = Vec::with_capacity(count);
        for column in message.columns.iter() {
            columns.push(Column {
                name: self.text(column.name, "Relation", "column name")?.into(),
                type_oid: column.type_oid,
                type_modifier: column.type_modifier,
                is_key: column.is_key(),
                type_name: self.type_name(column.type_oid).cloned(),
            });
        }
        let relation = Relation {
            version: 0,
            oid: message.oid,
            namespace: self.namespace(message.namespace, "Relation")?.into(),
            name: self.text(message.name, "Relation", "relation name")?.into(),
            replica_identity: message.replica_identity,
            columns: columns.into(),
        };
        let arrival = self.arrive();
        let relation = match self.known.pop_front() {
            Some(relation) => relation,
            None => self.version_of(relation),
        };
        let oid = relation.oid;
        if let Some(record) = &mut self.record {
            record.oids.insert(oid);
            record.defined.push_back(Arc::clone(&relation));
        }
        self.last.insert(oid, Arc::clone(&relation));
        if announce == Announce::Yes {
            self.announce(&relation);
        }
        let relations = match &mut self.overlay {
            Some(overlay) => &mut overlay.relations,
            None => &mut self.session.relations,
        };
        relations.insert(oid, Defined::now(relation, arrival));
        if let Some(recent) = self.recent.get_mut(oid as usize % RECENT) {
            *recent = None;
        }
        Ok(())
    }

    /// A version that says the same, or a new one.
    fn version_of(&mut self, mut relation: Relation) -> Arc<Relation> {
        let oid = relation.oid;
        let overlay = self.overlay.as_ref().and_then(|it| it.relations.get(&oid));
        let known = overlay.into_iter().chain(self.session.relations.get(&oid));
        let known = known.map(|known| &known.value).chain(self.last.get(&oid));
        for known in known {
            relation.version = known.version;
            if **known == relation {
                return Arc::clone(known);
            }
        }
        relation.version = self.next_version;
        self.states.insert(relation.version, State::Unannounced);
        self.next_version = self.next_version.saturating_add(1);
        Arc::new(relation)
    }
}

/// Takes a transaction's definition over into the session, if it is not out of date: see above.
fn promote<T>(
    session: &mut HashMap<Oid, Defined<T>>,
    overlay: &mut HashMap<Oid, Defined<T>>,
    oid: Oid,
    promotion: Promotion,
    arrival: u64,
) {
    let (latest, outside, changed) = session.get(&oid).map_or((0, 0, 0), |known| {
        (known.arrival, known.outside, known.changed)
    });
    let since = if promotion.is_change {
        outside.max(changed)
    } else {
        latest
    };
    if since <= promotion.arrival
        && let Some(Defined { value, .. }) = overlay.remove(&oid)
    {
        let changed = if promotion.is_change {
            promotion.arrival
        } else {
            changed
        };
        session.insert(
            oid,
            Defined {
                value,
                arrival,
                outside,
                changed,
            },
        );
    }
}

/// What a streamed transaction defined, and the session takes over at its commit.
#[derive(Debug, Default)]
pub(crate) struct Promotions {
    pub(crate) relations: BTreeMap<Oid, Promotion>,
    pub(crate) types: BTreeMap<Oid, Promotion>,
}

/// One definition of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promotion {
    arrival: u64,
    /// The (sub)transaction that it came with.
    xid: Xid,
    /// Whether it is another than the session's when it arrived.
    is_change: bool,
}

impl Promotions {
    /// The subtransaction was rolled back.
    pub(crate) fn forget(&mut self, subxid: Xid) {
        self.relations.retain(|_, it| it.xid != subxid);
        self.types.retain(|_, it| it.xid != subxid);
    }
}

/// Refuses a name that no server can have.
pub(crate) fn bounded(
    name: PgString<'_>,
    limit: usize,
    message: &'static str,
    field: &'static str,
) -> Result<(), ErrorKind> {
    let size = name.0.len();
    if size <= limit {
        return Ok(());
    }
    Err(ErrorKind::NameTooLong {
        message,
        field,
        size,
        limit,
    })
}

/// The wire leaves `pg_catalog` empty.
fn spelt_out(namespace: PgString<'_>) -> PgString<'_> {
    if namespace.is_empty() {
        PgString(b"pg_catalog")
    } else {
        namespace
    }
}
