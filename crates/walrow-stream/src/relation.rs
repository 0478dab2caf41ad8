//! The relation versions of a session: what its tables look like, and looked like.

use crate::catalog::CatalogTable;
use crate::encoding::Encoding;
use crate::error::ErrorKind;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
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
    /// When the last one arrived that a streamed transaction made itself.
    own: u64,
}

impl<T> Defined<T> {
    /// One that arrives now.
    const fn now(value: T, arrival: u64) -> Self {
        Self {
            value,
            arrival,
            outside: arrival,
            own: 0,
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
    /// Whether each version was handed out, and how many were not.
    announced: Vec<bool>,
    unannounced: usize,
    /// Versions that are to be handed out now.
    new: VecDeque<Arc<Relation>>,
    /// The relations looked up last, by the low bits of their OID: a transaction alternates
    /// between few tables, and a run of rows is of one.
    recent: [Option<Arc<Relation>>; RECENT],
    /// What names are encoded in.
    pub(crate) encoding: Encoding,
}

const RECENT: usize = 8;

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

    #[inline]
    pub(crate) fn get(&mut self, oid: Oid) -> Option<&Arc<Relation>> {
        let slot = self.recent.get_mut(oid as usize % RECENT)?;
        if slot.as_ref().is_none_or(|relation| relation.oid != oid) {
            let overlay = self.overlay.as_ref().and_then(|it| it.relations.get(&oid));
            let defined = overlay.or_else(|| self.session.relations.get(&oid))?;
            *slot = Some(Arc::clone(&defined.value));
        }
        slot.as_ref()
    }

    /// The session's relations, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.session.relations.values().map(|known| &known.value)
    }

    /// Whether a row of these relations uses a version that is to be handed out before it.
    #[cold]
    pub(crate) fn uses_unannounced(&mut self, oids: &[Oid]) -> bool {
        for oid in oids {
            if let Some(relation) = self.get(*oid).cloned() {
                self.announce(&relation);
            }
        }
        !self.new.is_empty()
    }

    #[cold]
    fn announce(&mut self, relation: &Arc<Relation>) {
        if let Some(announced) = self.announced.get_mut(relation.version as usize)
            && !std::mem::replace(announced, true)
        {
            self.unannounced = self.unannounced.saturating_sub(1);
            self.new.push_back(Arc::clone(relation));
        }
    }

    /// Whether there are versions that were not handed out.
    #[inline]
    pub(crate) const fn has_unannounced(&self) -> bool {
        self.unannounced > 0
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

    /// Definitions from now on are the session's again, with those of the transaction that `kept`
    /// names, unless the session knows better.
    pub(crate) fn leave(&mut self, kept: &Kept) {
        let Some(mut overlay) = self.overlay.take() else {
            return;
        };
        for (oid, keep) in &kept.relations {
            let arrival = self.arrive();
            promote(
                &mut self.session.relations,
                &mut overlay.relations,
                *oid,
                *keep,
                arrival,
            );
        }
        for (oid, keep) in &kept.types {
            let arrival = self.arrive();
            promote(
                &mut self.session.types,
                &mut overlay.types,
                *oid,
                *keep,
                arrival,
            );
        }
        self.forget_recent();
    }

    /// How a streamed definition of a relation that arrives now is kept.
    pub(crate) fn keep(&mut self, message: &walrow_wire::Relation<'_>, xid: Xid) -> Keep {
        let known = self.session.relations.get(&message.oid);
        let own = known.is_none_or(|known| !known.value.is_like(message, self.encoding));
        self.keep_now(xid, own)
    }

    /// How a streamed definition of a type that arrives now is kept.
    pub(crate) fn keep_type(&mut self, message: &walrow_wire::Type<'_>, xid: Xid) -> Keep {
        let known = self.session.types.get(&message.oid);
        let own = known.is_none_or(|known| {
            let name = self.encoding.decode(message.name);
            let namespace = self.encoding.decode(spelt_out(message.namespace));
            name.is_none_or(|name| *known.value.name != *name)
                || namespace.is_none_or(|namespace| *known.value.namespace != *namespace)
        });
        self.keep_now(xid, own)
    }

    fn keep_now(&mut self, xid: Xid, own: bool) -> Keep {
        Keep {
            arrival: self.arrive(),
            xid,
            own,
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
        let mut relation = Relation {
            version: 0,
            oid: message.oid,
            namespace: self.namespace(message.namespace, "Relation")?.into(),
            name: self.text(message.name, "Relation", "relation name")?.into(),
            replica_identity: message.replica_identity,
            columns: columns.into(),
        };
        let oid = message.oid;
        let arrival = self.arrive();
        let overlay = self.overlay.as_ref().and_then(|it| it.relations.get(&oid));
        let known = overlay.into_iter().chain(self.session.relations.get(&oid));
        let known = known.map(|known| &known.value).chain(self.last.get(&oid));
        let same = known.into_iter().find(|known| {
            relation.version = known.version;
            ***known == relation
        });
        let relation = if let Some(same) = same {
            Arc::clone(same)
        } else {
            relation.version = u32::try_from(self.announced.len()).unwrap_or(u32::MAX);
            self.announced.push(false);
            self.unannounced = self.unannounced.saturating_add(1);
            Arc::new(relation)
        };
        self.last.insert(oid, Arc::clone(&relation));
        if announce == Announce::Yes {
            self.announce(&relation);
        }
        let relations = match &mut self.overlay {
            Some(overlay) => &mut overlay.relations,
            None => &mut self.session.relations,
        };
        relations.insert(oid, Defined::now(relation, arrival));
        if let Some(slot) = self.recent.get_mut(oid as usize % RECENT) {
            *slot = None;
        }
        Ok(())
    }
}

/// Takes a transaction's definition over into the session.
///
/// Not if one arrived outside since, or a later one of another transaction that made it. And not if
/// it only repeats what the session had when it arrived, and another transaction's has taken that
/// one's place since: that one made the change.
fn promote<T>(
    session: &mut HashMap<Oid, Defined<T>>,
    overlay: &mut HashMap<Oid, Defined<T>>,
    oid: Oid,
    keep: Keep,
    arrival: u64,
) {
    let (latest, outside, own) = session
        .get(&oid)
        .map_or((0, 0, 0), |known| (known.arrival, known.outside, known.own));
    let since = if keep.own { outside.max(own) } else { latest };
    if since <= keep.arrival
        && let Some(Defined { value, .. }) = overlay.remove(&oid)
    {
        session.insert(
            oid,
            Defined {
                value,
                arrival,
                outside,
                own: if keep.own { keep.arrival } else { own },
            },
        );
    }
}

/// What a streamed transaction defined.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) relations: BTreeMap<Oid, Keep>,
    pub(crate) types: BTreeMap<Oid, Keep>,
}

/// One definition of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    arrival: u64,
    /// The (sub)transaction that it came with.
    xid: Xid,
    /// Whether it is another than the session's when it arrived.
    own: bool,
}

impl Kept {
    /// The subtransaction was rolled back.
    pub(crate) fn forget(&mut self, subxid: Xid) {
        self.relations.retain(|_, keep| keep.xid != subxid);
        self.types.retain(|_, keep| keep.xid != subxid);
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
