//! Bytes in, batches out.

use crate::batch::Batch;
use crate::error::{Error, ErrorKind};
use crate::options::DecoderBuilder;
use crate::tables::Tables;
use arrow_schema::SchemaRef;
use std::io;
use std::sync::Arc;
use walrow_stream::{Assembler, Event, Prepared};
use walrow_wire::{Lsn, Oid, Xid};

/// Turns a stream into record batches of its committed rows, one table and version a batch.
///
/// Push bytes with [`Decoder::decode`], which stops when a batch is full; take batches with
/// [`Decoder::next_batch`]; end with [`Decoder::finish`]. Batches never depend on where the input
/// was cut. When all input was taken, a transaction of many batches may still be in the middle: go
/// on with `decode(&[])` until the decoder wants input, so that no more than a batch of it is held at
/// a time.
///
/// ```
/// use walrow_arrow::DecoderBuilder;
///
/// let stream: &[u8] = &[]; // wire frames, from a file or a connection
/// let mut decoder = DecoderBuilder::new().build()?;
/// let mut rest = stream;
/// while !rest.is_empty() || !decoder.wants_input() {
///     while let Some(batch) = decoder.next_batch() {
///         println!("{}: {} rows", batch.relation(), batch.records().num_rows());
///     }
///     let consumed = decoder.decode(rest)?;
///     rest = &rest[consumed..];
/// }
/// decoder.finish()?;
/// while let Some(batch) = decoder.next_batch() {
///     println!("{}: {} rows", batch.relation(), batch.records().num_rows());
/// }
/// println!("complete up to {}", decoder.position());
/// # Ok::<(), walrow_arrow::Error>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    assembler: Assembler,
    tables: Tables,
    failure: Option<Error>,
}

impl Decoder {
    pub(crate) fn new(options: DecoderBuilder) -> Self {
        Self {
            assembler: assembler(&options),
            tables: Tables::new(options),
            failure: None,
        }
    }

    /// Decodes from the front of `input` and says how many bytes it took; give it the rest again.
    ///
    /// It stops early when a batch is full: take all batches before the next call. It stops as well
    /// after some hundred thousand rows that filled none, so that a caller may look around. That all
    /// of `input` was taken does not mean that all of its rows are in batches: call it again, with
    /// more input or with none, until [`Decoder::wants_input`] says yes. In framings other than wire,
    /// each chunk is made wire frames by [`walrow_wire::Framing::append`] first.
    ///
    /// # Errors
    /// What stops the decoder for good: later calls repeat the error. Everything before the fault
    /// lies ready for [`Decoder::next_batch`]: of bytes that are not the protocol all transactions
    /// before theirs, of a value that Arrow cannot hold all changes before its own.
    ///
    /// Whether a committed transaction's bytes are the protocol shows only as they are read: of
    /// one that is at fault, its rows that fill no batch are taken back, but batches that were full
    /// before the fault hold rows of it. [`Decoder::position`] never passes such a transaction.
    pub fn decode(&mut self, input: &[u8]) -> Result<usize, Error> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        let mut rest = input;
        let mut steps = STEPS;
        while steps > 0 && !self.tables.has_batch() {
            match self.step(&mut rest) {
                Ok(0) => break,
                Ok(taken) => steps = steps.saturating_sub(taken),
                Err(error) => return Err(self.fail(error)),
            }
        }
        Ok(input.len().saturating_sub(rest.len()))
    }

    /// Whether there is nothing to do without more input: all batches were taken, and no committed
    /// transaction is in the middle.
    pub fn wants_input(&self) -> bool {
        !self.tables.has_batch() && !self.tables.is_truncating() && !self.assembler.is_reading()
    }

    /// Takes the next event, or the next table of a truncate, and says what that was in steps; none
    /// without more input.
    #[inline]
    fn step(&mut self, rest: &mut &[u8]) -> Result<u32, Error> {
        if self.tables.is_truncating() {
            self.tables.truncate_next()?;
            return Ok(1);
        }
        match self.assembler.next_unread(rest)? {
            None => return Ok(0),
            Some(Event::Change(change)) => self.tables.row(&change)?,
            Some(Event::Skipped) => return Ok(STEPS),
            Some(Event::Begin(transaction)) => self.tables.begin(transaction),
            Some(Event::Commit {
                transaction,
                changes,
                ..
            }) => self.tables.commit(transaction, changes)?,
            Some(Event::Truncate(truncate)) => self.tables.truncate(truncate)?,
            Some(Event::Message(message)) => self.tables.message(&message)?,
            Some(Event::Relation { relation, seq, .. }) => {
                self.tables.relation(relation, seq)?;
            }
            // What the server says of the session before is over.
            Some(Event::SessionStart) => self.tables.server_error = None,
            Some(Event::ServerError { sqlstate, .. }) => {
                self.tables.server_error = Some(sqlstate.to_owned());
            }
            Some(_) => {}
        }
        Ok(1)
    }

    /// Reads on to the end of the committed transaction whose bytes were all taken.
    fn drain(&mut self) -> Result<(), Error> {
        let mut rest: &[u8] = &[];
        while self.step(&mut rest)? > 0 {
            // Nobody takes batches meanwhile, and builders are to stay within their bounds.
            self.tables.finish_due()?;
        }
        Ok(())
    }

    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        if matches!(error.kind(), ErrorKind::Stream(_)) {
            self.tables.take_back();
        }
        self.failure = Some(error.clone());
        // What came before is handed out; that it cannot be would be a second fault.
        let _ = self.tables.flush();
        error
    }

    /// Takes the next finished batch.
    pub fn next_batch(&mut self) -> Option<Batch> {
        loop {
            if let Some((batch, _)) = self.tables.ready.pop_front() {
                return Some(batch);
            }
            let version = self.tables.due.pop_front()?;
            if let Err(error) = self.tables.finish_version(version, false) {
                // Only what Arrow refuses comes to this; the other tables' rows are still good.
                self.failure.get_or_insert(error);
            }
        }
    }

    /// What stopped the decoder for good.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Whether [`Decoder::next_batch`] has a batch.
    pub fn has_batch(&self) -> bool {
        self.tables.has_batch()
    }

    /// Makes batches of all rows so far, that is, of everything up to the last commit.
    ///
    /// Where [`Decoder::decode`] was not called until no more batches came, the rest of the
    /// transaction is decoded at once, however many batches that makes.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn flush(&mut self) -> Result<(), Error> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        self.drain().map_err(|error| self.fail(error))?;
        self.tables.flush().map_err(|error| self.fail(error))
    }

    /// Flushes, then checks that the chosen table is in the stream. Further input is accepted.
    ///
    /// A table that the stream described has its schema, even if no row of it came. With a start
    /// ([`DecoderBuilder::with_start`]) there may be nothing new of it at all.
    ///
    /// # Errors
    /// A chosen table that never appeared is [`ErrorKind::Schema`].
    pub fn finish(&mut self) -> Result<(), Error> {
        self.flush()?;
        self.tables.describe(self.assembler.relations())?;
        match self.tables.missing() {
            Some(name) if !self.tables.options.start.is_valid() => {
                let text = format!("no table {name} in the stream");
                Err(Error::new(ErrorKind::Schema(text)))
            }
            _ => Ok(()),
        }
    }

    /// The end LSN up to which every transaction's rows were taken with [`Decoder::next_batch`];
    /// 0/0 before the first. Never goes back.
    pub fn position(&self) -> Lsn {
        self.tables.position()
    }

    /// The transactions that are prepared and whose end was not told yet, with their IDs.
    pub fn prepared(&self) -> impl Iterator<Item = (Xid, &Prepared)> {
        self.assembler.prepared()
    }

    /// Writes the prepared transactions, as [`Assembler::save_prepared`] does.
    ///
    /// What is saved belongs to [`Decoder::position`]: from there on the stream tells how they
    /// ended.
    ///
    /// # Errors
    /// There are rows that were not handed out: [`Decoder::flush`], and take all batches first. What
    /// stopped the decoder: then the state that was saved last counts, with its position. Those of `out` and of the spool are [`ErrorKind::Stream`].
    pub fn save_prepared(&mut self, out: &mut dyn io::Write) -> Result<(), Error> {
        if let Some(error) = &self.failure {
            // A transaction that failed may be one that was prepared: it is held no more.
            return Err(error.clone());
        }
        if !self.tables.is_empty() {
            let text = "rows are not handed out yet: flush, and take all batches, before the \
                        prepared transactions are saved";
            return Err(Error::new(ErrorKind::Options(text.to_owned())));
        }
        self.assembler.save_prepared(out).map_err(|error| {
            let kind = walrow_stream::ErrorKind::from(error);
            let (offset, lsn) = (self.assembler.offset(), None);
            Error::from(walrow_stream::Error { kind, offset, lsn })
        })
    }

    /// Takes in what [`Decoder::save_prepared`] wrote.
    ///
    /// # Errors
    /// Bytes that are no such state, or cut short; nothing of it is taken in.
    pub fn restore_prepared(&mut self, state: &mut dyn io::Read) -> Result<(), Error> {
        Ok(self.assembler.restore_prepared(state)?)
    }

    /// Bytes consumed so far.
    pub fn offset(&self) -> u64 {
        self.assembler.offset()
    }

    /// Whether the input so far ends inside a frame or a transaction: more should have come. Not
    /// after an error, which says where reading ended.
    pub fn is_mid_transaction(&self) -> bool {
        self.failure.is_none() && self.assembler.is_mid_transaction()
    }

    /// How many prepared transactions were committed that the stream has nothing else of: they
    /// changed nothing, or were prepared before the stream begins.
    ///
    /// See [`Assembler::unprepared_commits`].
    pub fn unprepared_commits(&self) -> u64 {
        self.assembler.unprepared_commits()
    }

    /// Begins a new server session: open transactions and relations are dropped.
    ///
    /// What is committed stays; if it cannot be decoded, the next call says so.
    pub fn new_session(&mut self) {
        if self.failure.is_some() {
            return;
        }
        if let Err(error) = self.drain() {
            self.fail(error);
            return;
        }
        self.assembler.new_session();
    }

    /// The chosen table's schema, once it has appeared.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.tables.schema()
    }

    /// OIDs of types that are neither built in nor in the catalog, of columns and of what the
    /// catalog's types consist of; their values are utf8 unless the options say otherwise.
    pub fn unresolved_types(&self) -> impl Iterator<Item = Oid> + '_ {
        self.tables.unresolved.iter().copied()
    }

    /// The SQLSTATE of the error with which the server ended the stream; none once another session
    /// begins.
    pub fn server_error(&self) -> Option<&str> {
        self.tables.server_error.as_deref()
    }
}

/// So many events are read before a caller may look around.
const STEPS: u32 = 1 << 18;

fn assembler(options: &DecoderBuilder) -> Assembler {
    let assembler = Assembler::new(options.framing)
        .with_spool_memory(options.spool_memory)
        .with_message_limit(options.message_limit)
        .with_start(options.start)
        .with_late_start(options.late_start)
        .with_encoding(options.session.encoding());
    match &options.spool {
        Some(spool) => assembler.with_spool(Arc::clone(spool)),
        None => assembler,
    }
}
