//! The relation versions of a session: the current and earlier definitions of its tables.
//!
//! # Promotion
//!
//! A server describes a relation once for each session and streamed transaction that uses it, and
//! again when its cache entry of the relation was invalidated. A definition inside a stream block
//! applies only to that transaction, which may roll back. When the transaction commits, the server
//! takes the relation as described for the whole session, and does not send it again. So its
//! definition is promoted: it becomes the session's.
//!
//! Blocks of several transactions interleave, so at the commit there may be newer definitions than
//! the transaction's own. A definition that arrived outside stream blocks always wins. The order of
//! arrival is not enough for definitions inside stream blocks. A transaction that runs concurrently
//! with an ALTER SCHEMA … RENAME may describe a table by its old name long after the renaming
//! transaction described it by its new name. And on servers 14 and 15 the rename invalidates no
//! relation, so no later description corrects the session.
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
//! A definition that repeats the session's does not prove that the table has that definition again.
//! So each definition has a mark: whether it is a *change*, which means that it differed from the
//! session's when it arrived. Then
//!
//! - a change is promoted unless a definition arrived after it outside stream blocks, or a later
//!   change of another transaction was already promoted;
//! - a repetition is promoted unless the session received any definition after it arrived.
//!
//! Definitions of a subtransaction that was rolled back are dropped. Definitions of a streamed
//! transaction that is prepared are promoted at its Stream Prepare: from version 19 on, the server
//! takes the relations as described then. Earlier versions describe them again. In `b` … `P`,
//! definitions apply at once.

use crate::catalog::{Catalog, CatalogColumn, CatalogTable, TypeKind};
use crate::encoding::Encoding;
use crate::error::{ErrorKind, Fault};
use crate::recent::Recent;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use walrow_wire::{Message, Oid, Peek, PgString, ReplicaIdentity, Xid};

/// One version of a table: the definition under which rows arrived.
///
/// An identical Relation message that is sent again is the same version. Changed columns, names,
/// types or replica identity make a new version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Relation {
    /// Numbers the versions of one assembler from 0, in the order of their arrival.
    pub version: u32,
    /// The relation.
    pub oid: Oid,
    /// Its schema. `pg_catalog` is written out.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// The replica identity: which columns old tuples contain.
    pub replica_identity: ReplicaIdentity,
    /// The published columns, in attribute order.
    pub columns: Box<[Column]>,
    /// The encoding of its names and its rows.
    pub encoding: Encoding,
}

/// A column of one relation version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Column {
    /// Its name.
    pub name: Box<str>,
    /// Its type.
    pub type_oid: Oid,
    /// `pg_attribute.atttypmod`; -1 for none.
    pub type_modifier: i32,
    /// Whether it is part of the replica identity.
    pub is_key: bool,
    /// The type's name from a Type message; `None` for built-in types.
    pub type_name: Option<TypeName>,
}

/// A type's name from a Type message. **For a domain it is the base type's.**
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeName {
    /// The schema. `pg_catalog` is written out.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl Relation {
    /// Creates a relation that is not a table of a server: without OID, replica identity and
    /// columns.
    pub fn stand_in(namespace: impl Into<Box<str>>, name: impl Into<Box<str>>) -> Self {
        Self {
            version: 0,
            oid: 0,
            namespace: namespace.into(),
            name: name.into(),
            replica_identity: ReplicaIdentity::Nothing,
            columns: Box::default(),
            encoding: Encoding::Utf8,
        }
    }
}

impl TypeName {
    /// Creates a name.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// The column of a Relation message that a server would send for a catalog's column.
impl From<&CatalogColumn> for Column {
    fn from(column: &CatalogColumn) -> Self {
        Self {
            name: column.name.as_str().into(),
            type_oid: column.type_oid,
            type_modifier: column.type_modifier,
            is_key: column.key,
            type_name: None,
        }
    }
}

/// The Relation message that a server would send for a catalog's table.
impl From<&CatalogTable> for Relation {
    fn from(table: &CatalogTable) -> Self {
        let columns = table.columns.iter().map(Column::from);
        Self {
            version: 0,
            oid: table.oid,
            namespace: table.schema.as_str().into(),
            name: table.name.as_str().into(),
            replica_identity: ReplicaIdentity::Default,
            columns: columns.collect(),
            encoding: Encoding::Utf8,
        }
    }
}

impl Relation {
    /// The definition of a catalog's table, with the names of its types, as a server sends them.
    pub fn of_catalog(
        catalog: &Catalog,
        table: &CatalogTable,
        replica_identity: ReplicaIdentity,
    ) -> Self {
        let mut relation = Self {
            replica_identity,
            ..Self::from(table)
        };
        for column in &mut relation.columns {
            column.type_name = type_name(catalog, column.type_oid);
        }
        relation
    }

    /// Whether the message has the same definition.
    fn is_like(&self, message: &walrow_wire::Relation<'_>, encoding: Encoding) -> bool {
        let same = |one: &str, other| encoding.decode(other).is_some_and(|other| other == one);
        let columns = self.columns.iter().zip(message.columns.iter());
        same(&self.name, message.name)
            && same(&self.namespace, written_out(message.namespace))
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

/// The name in the Type message of a type. `None` for built-in types, and domains of them.
fn type_name(catalog: &Catalog, oid: Oid) -> Option<TypeName> {
    let mut found = catalog.type_of(oid)?;
    // Domains of domains: each is defined after its base.
    for _ in 0..catalog.types.len() {
        let TypeKind::Domain { base, .. } = found.kind else {
            break;
        };
        found = catalog.type_of(base)?;
    }
    Some(TypeName {
        namespace: found.schema.as_str().into(),
        name: found.name.as_str().into(),
    })
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.namespace, self.name)
    }
}

/// The definitions from Relation and Type messages, with the order of their arrival.
#[derive(Debug, Default)]
struct Definitions {
    relations: HashMap<Oid, Defined<Arc<Relation>>>,
    types: HashMap<Oid, Defined<TypeName>>,
}

/// Whether a definition belongs to a committed transaction, so that it is returned as an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announce {
    Yes,
    No,
}

/// A definition, and when it arrived.
#[derive(Debug)]
struct Defined<T> {
    value: T,
    /// When it arrived, or was promoted from a streamed transaction.
    arrival: u64,
    /// When the last definition arrived outside stream blocks.
    outside: u64,
    /// When the last change of a streamed transaction arrived.
    changed: u64,
}

impl<T> Defined<T> {
    /// A definition that arrives now.
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
/// While a streamed or prepared transaction is read, its own definitions override the session's.
#[derive(Debug, Default)]
pub(crate) struct Relations {
    session: Definitions,
    overlay: Option<Definitions>,
    /// The last version of each relation, from any transaction: the same definition again is the
    /// same version.
    last: HashMap<Oid, Arc<Relation>>,
    /// Counts Relation and Type messages as they arrive.
    arrivals: u64,
    /// The number of the next version.
    next_version: u32,
    /// The states of versions that were not yet returned, or that are skipped.
    states: HashMap<u32, State>,
    /// Versions to return as events now.
    new: VecDeque<Arc<Relation>>,
    /// The last relations looked up, each with whether its rows are returned.
    recent: Recent<(Arc<Relation>, bool)>,
    /// The encoding of names and rows.
    pub(crate) encoding: Encoding,
    /// The encoding that the caller chose, for sessions that do not report theirs.
    pub(crate) chosen: Encoding,
    /// Whether sessions must not report another encoding.
    pub(crate) is_fixed: bool,
}

/// The state of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It was not returned as an event yet.
    Unannounced,
    /// Its rows are skipped.
    LeftOut,
}

/// The result of looking up a row's relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// A version, at this place of the cache.
    Known(usize),
    /// A version whose rows are skipped.
    LeftOut,
    /// A version that must be returned as an event first.
    New,
    Unknown,
}

/// The most bytes of a name on the wire. PostgreSQL's names have 63; a server that was compiled
/// with a larger limit, or converts from another encoding, sends more. A name is repeated in every
/// field, row and error that names its column, so a long name would multiply.
const MAX_NAME: usize = 256;

/// The most columns of a table. Each takes about a hundred times its bytes in the message.
const MAX_COLUMNS: usize = 1600;

impl Relations {
    /// Takes the `client_encoding` that a session reports. It applies only while the stream
    /// has no text in another encoding. `has_open`: whether a transaction is open or prepared.
    pub(crate) fn report(&mut self, value: PgString<'_>, has_open: bool) -> Result<(), ErrorKind> {
        let reported = match value.0 {
            // The server does not know the encoding.
            b"SQL_ASCII" => Some(self.chosen),
            value => str::from_utf8(value).ok().and_then(Encoding::of_setting),
        };
        let wanted = match reported {
            Some(reported) if reported == self.encoding => return Ok(()),
            _ if self.is_fixed || self.arrivals > 0 || has_open => self.encoding.setting(),
            Some(reported) => {
                self.encoding = reported;
                return Ok(());
            }
            None => "UTF8, LATIN1 or SQL_ASCII",
        };
        let found = value.0.get(..MAX_NAME).unwrap_or(value.0);
        let found = String::from_utf8_lossy(found).into_owned();
        Err(ErrorKind::ClientEncoding { found, wanted })
    }

    /// Drops all definitions: a new session sends them again. Version numbers continue.
    pub(crate) fn clear(&mut self) {
        self.session = Definitions::default();
        self.overlay = None;
        self.recent.clear();
    }

    /// The current version.
    pub(crate) fn get(&self, oid: Oid) -> Option<&Arc<Relation>> {
        let overlay = self.overlay.as_ref().and_then(|it| it.relations.get(&oid));
        let defined = overlay.or_else(|| self.session.relations.get(&oid))?;
        Some(&defined.value)
    }

    /// Looks up the relation of a row. A new version is queued as an event.
    #[inline]
    pub(crate) fn look_up(&mut self, oid: Oid) -> Lookup {
        match self.recent.get(oid) {
            Some((place, (_, true))) => Lookup::Known(place),
            Some(_) => Lookup::LeftOut,
            None => self.look_further(oid),
        }
    }

    /// The version at a place of the cache.
    #[inline]
    pub(crate) fn recent(&self, place: usize) -> Option<&Arc<Relation>> {
        let (relation, _) = self.recent.at(place)?;
        Some(relation)
    }

    /// The relation of a row, if it was used lately and its rows are not skipped.
    #[inline]
    pub(crate) fn known(&self, oid: Oid) -> Option<&Arc<Relation>> {
        match self.recent.get(oid) {
            Some((_, (relation, true))) => Some(relation),
            _ => None,
        }
    }

    #[cold]
    fn look_further(&mut self, oid: Oid) -> Lookup {
        let Some(relation) = self.get(oid).cloned() else {
            return Lookup::Unknown;
        };
        if self.announce(&relation) {
            return Lookup::New;
        }
        let is_wanted = self.states.get(&relation.version) != Some(&State::LeftOut);
        let place = self.recent.insert(oid, (relation, is_wanted));
        if is_wanted {
            Lookup::Known(place)
        } else {
            Lookup::LeftOut
        }
    }

    /// Skips the rows of this version.
    pub(crate) fn leave_out(&mut self, version: u32) {
        self.states.insert(version, State::LeftOut);
        self.recent.clear();
    }

    /// The session's relations, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.session.relations.values().map(|known| &known.value)
    }

    /// Queues a version that was not yet returned as an event. Returns whether it did.
    fn announce(&mut self, relation: &Arc<Relation>) -> bool {
        if self.states.get(&relation.version) != Some(&State::Unannounced) {
            return false;
        }
        self.states.remove(&relation.version);
        self.new.push_back(Arc::clone(relation));
        true
    }

    /// Whether a version must be returned as an event before the next change.
    #[inline]
    pub(crate) fn has_new(&self) -> bool {
        !self.new.is_empty()
    }

    /// The next version to return as an event.
    #[inline]
    pub(crate) fn next_new(&mut self) -> Option<Arc<Relation>> {
        self.new.pop_front()
    }

    /// The number of a message that arrives now.
    fn arrive(&mut self) -> u64 {
        self.arrivals = self.arrivals.saturating_add(1);
        self.arrivals
    }

    /// From now on, definitions belong to one transaction, which begins with the definitions in
    /// `inherited`.
    pub(crate) fn enter(&mut self, inherited: BTreeMap<Oid, Arc<Relation>>) {
        let relations = inherited
            .into_iter()
            .map(|(oid, relation)| (oid, Defined::now(relation, 0)));
        self.overlay = Some(Definitions {
            relations: relations.collect(),
            types: HashMap::new(),
        });
        self.recent.clear();
    }

    /// From now on, definitions belong to the session again. Promotes the definitions of the
    /// transaction that are not out of date.
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
                promotion,
                arrival,
            );
        }
        for (oid, promotion) in &promotions.types {
            let arrival = self.arrive();
            promote(
                &mut self.session.types,
                &mut overlay.types,
                *oid,
                promotion,
                arrival,
            );
        }
        self.recent.clear();
    }

    /// How to promote a streamed definition of a relation that arrives now.
    pub(crate) fn relation_promotion(
        &mut self,
        message: &walrow_wire::Relation<'_>,
        xid: Xid,
        peek: &Peek<'_>,
    ) -> Promotion {
        let known = self.session.relations.get(&message.oid);
        let is_change = known.is_none_or(|known| !known.value.is_like(message, self.encoding));
        self.promotion(xid, is_change, peek)
    }

    /// How to promote a streamed definition of a type that arrives now.
    pub(crate) fn type_promotion(
        &mut self,
        message: &walrow_wire::Type<'_>,
        xid: Xid,
        peek: &Peek<'_>,
    ) -> Promotion {
        let known = self.session.types.get(&message.oid);
        let is_change = known.is_none_or(|known| {
            let name = self.encoding.decode(message.name);
            let namespace = self.encoding.decode(written_out(message.namespace));
            name.is_none_or(|name| *known.value.name != *name)
                || namespace.is_none_or(|namespace| *known.value.namespace != *namespace)
        });
        self.promotion(xid, is_change, peek)
    }

    fn promotion(&mut self, xid: Xid, is_change: bool, peek: &Peek<'_>) -> Promotion {
        Promotion {
            arrival: self.arrive(),
            xid,
            is_change,
            message: peek.bytes().into(),
        }
    }

    /// Promotes the definitions of a streamed transaction that was prepared.
    pub(crate) fn prepare(&mut self, promotions: &Promotions) -> Result<(), Fault> {
        self.enter(BTreeMap::new());
        let types = promotions.types.values();
        let mut messages = types.chain(promotions.relations.values());
        let defined = messages.try_for_each(|it| match Message::parse(&it.message, true)? {
            Message::Type(message) => Ok(self.define_type(&message)?),
            Message::Relation(message) => Ok(self.define(&message, Announce::No)?),
            _ => Ok(()),
        });
        self.leave(promotions);
        defined
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
        self.text(written_out(string), message, "namespace")
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
            encoding: self.encoding,
        };
        let arrival = self.arrive();
        let relation = self.version_of(relation);
        let oid = relation.oid;
        self.last.insert(oid, Arc::clone(&relation));
        if announce == Announce::Yes {
            self.announce(&relation);
        }
        let relations = match &mut self.overlay {
            Some(overlay) => &mut overlay.relations,
            None => &mut self.session.relations,
        };
        relations.insert(oid, Defined::now(relation, arrival));
        self.recent.remove(oid);
        Ok(())
    }

    /// The known version with this definition, or a new version.
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

/// Moves a transaction's definition to the session, unless it is out of date: see the rules at the
/// top of this file.
fn promote<T>(
    session: &mut HashMap<Oid, Defined<T>>,
    overlay: &mut HashMap<Oid, Defined<T>>,
    oid: Oid,
    promotion: &Promotion,
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

/// The definitions of a streamed transaction, which its commit or prepare may promote.
#[derive(Debug, Default)]
pub(crate) struct Promotions {
    pub(crate) relations: BTreeMap<Oid, Promotion>,
    pub(crate) types: BTreeMap<Oid, Promotion>,
}

/// One definition of a streamed transaction.
#[derive(Debug)]
pub(crate) struct Promotion {
    arrival: u64,
    /// The (sub)transaction that sent it.
    xid: Xid,
    /// Whether it differed from the session's definition when it arrived.
    is_change: bool,
    /// Its message, as in a stream block.
    message: Box<[u8]>,
}

impl Promotions {
    /// Drops the definitions of a subtransaction that was rolled back.
    pub(crate) fn forget(&mut self, subxid: Xid) {
        self.relations.retain(|_, it| it.xid != subxid);
        self.types.retain(|_, it| it.xid != subxid);
    }
}

/// Rejects a name that is longer than any server's.
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

/// `pg_catalog` is empty on the wire.
fn written_out(namespace: PgString<'_>) -> PgString<'_> {
    if namespace.is_empty() {
        PgString(b"pg_catalog")
    } else {
        namespace
    }
}
