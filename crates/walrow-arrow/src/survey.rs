//! What a stream contains: its tables, their versions and how many changes each has.

use crate::builder::DecoderBuilder;
use crate::decoder;
use crate::error::Error;
use crate::layout::Template;
use arrow_schema::{DataType, Field};
use std::collections::HashMap;
use std::iter::repeat;
use std::sync::Arc;
use walrow_stream::{
    Assembler, Catalog, Change, Column, Ddl, Event, Fact, Relation, Transaction, Unread,
};
use walrow_wire::{Cell, Image, Kind, Lsn, Oid, UnreadCells, UnreadTuple};

/// Counts the committed changes of each relation version, without decoding values.
///
/// ```
/// use walrow_arrow::DecoderBuilder;
///
/// let stream: &[u8] = &[]; // wire frames, from a file or a connection
/// let mut survey = DecoderBuilder::new().build_survey()?;
/// survey.decode(stream)?;
/// survey.finish();
/// for version in survey.versions() {
///     println!("{}: {} inserts", version.relation, version.inserts);
/// }
/// # Ok::<(), walrow_arrow::Error>(())
/// ```
#[derive(Debug)]
pub struct Survey {
    template: Template,
    assembler: Assembler,
    versions: Vec<SurveyedVersion>,
    /// The index in `versions` of each version of the assembler. Sessions describe a table again,
    /// as another version with the same definition.
    places: HashMap<u32, usize>,
    ddl: Vec<SurveyedDdl>,
    /// The columns that tables had last: name, type and attribute number.
    numbered: HashMap<Oid, Vec<(String, Oid, i16)>>,
    now: Commit,
    /// Whether the current transaction is a load.
    is_load: bool,
    server_error: Option<String>,
}

/// A commit: where and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Commit {
    /// Where the commit record starts.
    pub lsn: Lsn,
    /// Microseconds since 1970. `None` if the time does not fit.
    pub unix_micros: Option<i64>,
}

/// A relation version, and what the stream contains of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SurveyedVersion {
    /// The version.
    pub relation: Arc<Relation>,
    /// Its columns, in order.
    pub columns: Vec<SurveyedColumn>,
    /// The number of inserted rows.
    pub inserts: u64,
    /// The number of updated rows.
    pub updates: u64,
    /// The number of deleted rows.
    pub deletes: u64,
    /// The number of TRUNCATEs.
    pub truncates: u64,
    /// The number of loads. Each load replaces all rows.
    pub loads: u64,
    /// The number of rows of loads. They are no inserts.
    pub loaded: u64,
    /// Inserts with values that were not sent: a row filter made them from updates.
    pub inserts_with_unsent: u64,
    /// Updates with values that were not sent, and whose message has no old row with them.
    pub updates_with_unsent: u64,
    /// The first transaction that changed it.
    pub first: Option<Commit>,
    /// The last transaction that changed it.
    pub last: Option<Commit>,
}

/// A command that changed the definition of a table, from an event trigger.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SurveyedDdl {
    /// The table.
    pub oid: Oid,
    /// The command's tag, such as `ALTER TABLE`.
    pub command: String,
    /// Its transaction.
    pub commit: Commit,
}

/// The types of a column.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SurveyedColumn {
    /// The name of its PostgreSQL type; `None` if it is unknown.
    pub type_name: Option<String>,
    /// The Arrow type of its values in batches. `None` if it consists of too many types.
    pub data_type: Option<DataType>,
    /// The OIDs of unknown types that it consists of.
    pub unresolved: Vec<Oid>,
    /// Its attribute number, which stays the same when it is renamed. `None` if neither an event
    /// trigger nor the catalog in the stream has it.
    pub number: Option<i16>,
}

impl DecoderBuilder {
    /// Builds a survey. Only the options for the input and for types matter.
    ///
    /// # Errors
    /// The errors of [`DecoderBuilder::build`].
    pub fn build_survey(self) -> Result<Survey, Error> {
        let (options, template) = self.into_parts()?;
        Ok(Survey {
            template,
            assembler: decoder::assembler(&options, options.framing),
            versions: Vec::new(),
            places: HashMap::new(),
            ddl: Vec::new(),
            numbered: HashMap::new(),
            now: Commit::default(),
            is_load: false,
            server_error: None,
        })
    }
}

impl Survey {
    /// Takes wire frames, cut anywhere.
    ///
    /// # Errors
    /// Bytes that do not follow the protocol. Later calls repeat the error.
    pub fn decode(&mut self, input: &[u8]) -> Result<(), Error> {
        let mut rest = input;
        loop {
            // Stops at each row.
            let event = self
                .assembler
                .next_with(&mut rest, |change| Err::<(), _>(seen(&change)))?;
            match event {
                None => return Ok(()),
                Some(Event::Begin(transaction)) => {
                    self.now = Commit::of(transaction);
                    self.is_load = transaction.snapshot;
                }
                Some(Event::Relation { relation, .. }) => {
                    let relation = Arc::clone(relation);
                    self.describe(&relation);
                }
                Some(Event::Change(seen)) => {
                    let (version, seen) = seen?;
                    let is_load = self.is_load;
                    if let Some(version) = self.touch(version) {
                        version.count(seen, is_load);
                    }
                }
                Some(Event::Truncate(truncate)) => {
                    for relation in truncate.relations {
                        self.describe(&relation);
                        let is_load = self.is_load;
                        if let Some(version) = self.touch(relation.version) {
                            add(if is_load {
                                &mut version.loads
                            } else {
                                &mut version.truncates
                            });
                        }
                    }
                }
                Some(Event::Fact(fact)) => {
                    if let Fact::Catalog(catalog) = &*fact {
                        self.template.learn(catalog);
                        number(&mut self.numbered, catalog);
                    }
                }
                Some(Event::Message(message)) => {
                    if let Some(ddl) = Ddl::of(&message) {
                        self.define(ddl);
                    }
                }
                Some(Event::SessionStart) => self.server_error = None,
                Some(Event::ServerError { sqlstate, .. }) => {
                    self.server_error = Some(sqlstate.to_owned());
                }
                Some(_) => {}
            }
        }
    }

    /// Adds tables that the current session described, but that no committed transaction changed.
    /// Call it at the end of each session's bytes.
    pub fn finish(&mut self) {
        let relations = self.assembler.relations().map(Arc::clone);
        let mut relations: Vec<_> = relations.collect();
        relations.sort_unstable_by_key(|relation| relation.version);
        for relation in relations {
            self.describe(&relation);
        }
    }

    /// The versions, in the order in which they first appeared.
    pub fn versions(&self) -> &[SurveyedVersion] {
        &self.versions
    }

    /// The commands that changed the definitions of tables, in order.
    pub fn ddl(&self) -> &[SurveyedDdl] {
        &self.ddl
    }

    /// Whether the input so far ends inside a frame or a transaction, or one of its sessions does
    /// and the rest never came.
    pub fn is_unfinished(&self) -> bool {
        self.assembler.is_mid_transaction() || self.assembler.missing_transaction().is_some()
    }

    /// The SQLSTATE of the error with which the server ended the stream.
    pub fn server_error(&self) -> Option<&str> {
        self.server_error.as_deref()
    }

    /// The version, as changed by the current transaction.
    fn touch(&mut self, version: u32) -> Option<&mut SurveyedVersion> {
        let version = self.versions.get_mut(*self.places.get(&version)?)?;
        version.first.get_or_insert(self.now);
        version.last = Some(self.now);
        Some(version)
    }

    fn define(&mut self, ddl: Ddl) {
        let columns = ddl.columns.into_iter().flatten();
        let columns = columns.map(|it| (it.name, it.type_oid, it.number));
        self.numbered.insert(ddl.oid, columns.collect());
        self.ddl.push(SurveyedDdl {
            oid: ddl.oid,
            command: ddl.command,
            commit: self.now,
        });
    }

    fn describe(&mut self, relation: &Arc<Relation>) {
        if self.places.contains_key(&relation.version) {
            return;
        }
        // Only the last version of a table: a change that was undone makes a third version.
        let mut of_table = self.versions.iter().enumerate().rev();
        let last = of_table.find(|(_, version)| version.relation.oid == relation.oid);
        let place = match last {
            Some((place, version)) if is_same(&version.relation, relation) => place,
            _ => {
                let numbered = self.numbered.get(&relation.oid);
                let numbers = numbered.and_then(|it| numbers(relation, it));
                let version = SurveyedVersion::new(&self.template, relation, numbers);
                self.versions.push(version);
                self.versions.len().saturating_sub(1)
            }
        };
        self.places.insert(relation.version, place);
    }
}

impl Commit {
    fn of(transaction: &Transaction) -> Self {
        Self {
            lsn: transaction.commit_lsn,
            unix_micros: transaction.commit_time.unix_micros(),
        }
    }
}

fn is_same(one: &Relation, other: &Relation) -> bool {
    one.namespace == other.namespace
        && one.name == other.name
        && one.replica_identity == other.replica_identity
        && one.columns == other.columns
}

impl SurveyedVersion {
    fn new(template: &Template, relation: &Arc<Relation>, numbers: Option<Vec<i16>>) -> Self {
        let numbers = numbers.into_iter().flatten().map(Some);
        let columns = relation.columns.iter().zip(numbers.chain(repeat(None)));
        Self {
            columns: columns
                .map(|(column, number)| SurveyedColumn::new(template, relation, column, number))
                .collect(),
            relation: Arc::clone(relation),
            inserts: 0,
            updates: 0,
            deletes: 0,
            truncates: 0,
            loads: 0,
            loaded: 0,
            inserts_with_unsent: 0,
            updates_with_unsent: 0,
            first: None,
            last: None,
        }
    }

    fn count(&mut self, seen: Seen, is_load: bool) {
        match seen.kind {
            Kind::Insert if is_load => add(&mut self.loaded),
            Kind::Insert => {
                add(&mut self.inserts);
                if seen.lacks_values {
                    add(&mut self.inserts_with_unsent);
                }
            }
            Kind::Update => {
                add(&mut self.updates);
                if seen.lacks_values {
                    add(&mut self.updates_with_unsent);
                }
            }
            _ => add(&mut self.deletes),
        }
    }
}

impl SurveyedColumn {
    fn new(template: &Template, relation: &Relation, column: &Column, number: Option<i16>) -> Self {
        let mut types = template.resolver().types();
        let resolved = template
            .resolver()
            .column(relation, column, None, &mut types);
        let field = resolved.ok().map(|resolved| resolved.field);
        let name = |field: &Field| field.metadata().get("pg.type").cloned();
        Self {
            type_name: field.as_ref().and_then(name),
            data_type: field.map(|field| field.data_type().clone()),
            unresolved: types.missing.into_iter().collect(),
            number,
        }
    }
}

/// Takes the attribute numbers of a catalog.
fn number(numbered: &mut HashMap<Oid, Vec<(String, Oid, i16)>>, catalog: &Catalog) {
    for table in &catalog.tables {
        let columns = table.columns.iter();
        let columns = columns.map(|it| Some((it.name.clone(), it.type_oid, it.number?)));
        if let Some(columns) = columns.collect() {
            numbered.insert(table.oid, columns);
        }
    }
}

/// The attribute numbers of a version's columns. `None` if a column is not among those known: what
/// is known belongs to another definition.
fn numbers(relation: &Relation, known: &[(String, Oid, i16)]) -> Option<Vec<i16>> {
    let number = |column: &Column| {
        let mut known = known.iter();
        let found = known.find(|it| it.0 == *column.name && it.1 == column.type_oid);
        found.map(|it| it.2)
    };
    let numbers: Option<Vec<i16>> = relation.columns.iter().map(number).collect();
    // A Relation message has the columns in the order of their numbers.
    numbers.filter(|it| it.is_sorted_by(|one, next| one < next))
}

/// The properties of a row change that are counted.
#[derive(Clone, Copy, Debug)]
struct Seen {
    kind: Kind,
    /// Whether the new row has values that neither image contains.
    lacks_values: bool,
}

/// Looks at a change without reading its values. Returns its version too.
fn seen(change: &Change<'_, Unread<'_>>) -> Result<(u32, Seen), Error> {
    match look(change) {
        Some(seen) => Ok((change.relation.version, seen)),
        None => match change.read() {
            Err(error) => Err(error.into()),
            Ok(_) => Err(Error::internal("a valid row was refused")),
        },
    }
}

/// `None` if the row does not follow the protocol.
fn look(change: &Change<'_, Unread<'_>>) -> Option<Seen> {
    let columns = change.relation.columns.len();
    let row = change.row.row()?;
    let (image, tuple) = row.first()?;
    let (mut lacks_values, mut rest) = has_unchanged(tuple, columns)?;
    if row.kind() == Kind::Update && image != Image::New {
        (lacks_values, rest) = has_unchanged(rest.then_new()?, columns)?;
        // The old row has the values that the new one lacks.
        lacks_values &= image != Image::Full;
    }
    let kind = row.kind();
    rest.is_end().then_some(Seen { kind, lacks_values })
}

/// Reads the cells' lengths. Returns whether a cell was not sent and what follows the cells, or
/// `None` for another number of cells.
fn has_unchanged(tuple: UnreadTuple<'_>, columns: usize) -> Option<(bool, UnreadCells<'_>)> {
    if tuple.len() != columns {
        return None;
    }
    let (mut cells, mut unchanged) = (tuple.cells(), false);
    for _ in 0..columns {
        unchanged |= matches!(cells.cell()?, Cell::Unchanged);
    }
    Some((unchanged, cells))
}

fn add(count: &mut u64) {
    *count = count.saturating_add(1);
}
