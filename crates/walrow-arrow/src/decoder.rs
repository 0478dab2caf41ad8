//! The push decoder: bytes in, batches out.

use crate::batch::Batch;
use crate::error::{DecoderOption, Error, ErrorKind, OptionsError, Remedy};
use crate::layout::Template;
use crate::options::{OnGap, OnUnfinished, Options, default_spool};
use crate::tables::{Tables, Taken};
use crate::unresolved::UnresolvedType;
use arrow_schema::SchemaRef;
use std::io;
use walrow_stream::{Assembler, Change, End, Event, Fact, Prepared, Unread};
use walrow_wire::{Framing, Lsn, Xid};

/// Converts a stream to record batches of its committed rows. Each batch has rows of one version of
/// one table.
///
/// Pass the bytes of a connection, cut anywhere, to [`Decoder::decode`], which stops when a batch
/// is full. Take the batches with [`Decoder::next_batch`], and end with [`Decoder::finish`]. When
/// `decode` has taken all input, it may still be inside a transaction of many batches: call
/// `decode(&[])` until the decoder wants input. This keeps at most one batch of the transaction in
/// memory.
///
/// ```
/// use walrow_arrow::DecoderBuilder;
///
/// let stream: &[u8] = &[]; // wire frames, from a file or a connection
/// let mut decoder = DecoderBuilder::new().build()?;
/// let mut rest = stream;
/// while !rest.is_empty() || !decoder.wants_input() {
///     while let Some(batch) = decoder.next_batch()? {
///         println!("{}: {} rows", batch.relation(), batch.record_batch().num_rows());
///     }
///     let consumed = decoder.decode(rest)?;
///     rest = &rest[consumed..];
/// }
/// decoder.finish()?;
/// while let Some(batch) = decoder.next_batch()? {
///     println!("{}: {} rows", batch.relation(), batch.record_batch().num_rows());
/// }
/// println!("complete up to {}", decoder.position());
/// # Ok::<(), walrow_arrow::Error>(())
/// ```
///
/// A driver returns one payload at a time instead: pass each to [`Decoder::decode_chunk`].
///
/// ```
/// use walrow_arrow::DecoderBuilder;
/// use walrow_wire::Framing;
///
/// let payloads: [&[u8]; 0] = []; // of CopyData messages
/// let mut decoder = DecoderBuilder::new().with_framing(Framing::CopyData).build()?;
/// for payload in payloads {
///     decoder.decode_chunk(payload)?;
///     while let Some(batch) = decoder.next_batch()? {
///         println!("{}: {} rows", batch.relation(), batch.record_batch().num_rows());
///     }
/// }
/// decoder.finish()?;
/// while let Some(batch) = decoder.next_batch()? {
///     println!("{}: {} rows", batch.relation(), batch.record_batch().num_rows());
/// }
/// # Ok::<(), walrow_arrow::Error>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    assembler: Assembler,
    tables: Tables,
    framing: Framing,
    chunks: Chunks,
    unfinished: OnUnfinished,
    /// The range in which a gap is an error. `None` if gaps are crossed.
    whole: Option<(Lsn, Option<Lsn>)>,
    failure: Option<Error>,
}

/// A transaction that is neither committed nor rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenTransaction<'a> {
    /// Its ID.
    pub xid: Xid,
    /// Its global ID, if it is prepared. Otherwise it is streamed, and another chunk comes.
    pub gid: Option<&'a str>,
}

/// Takes rows for a step.
struct Rows<'a> {
    tables: &'a mut Tables,
    taken: u32,
    most: u32,
}

impl Rows<'_> {
    /// Takes a row. The error is `None` if a batch is full, or if these were enough rows at once.
    #[expect(
        clippy::inline_always,
        reason = "it is called in two places, once for nearly all rows"
    )]
    #[inline(always)]
    fn take(&mut self, change: &Change<'_, Unread<'_>>) -> Result<(), Option<Error>> {
        let taken = self.tables.row(change).map_err(Some)?;
        self.taken = self.taken.wrapping_add(1);
        match taken {
            Taken::Row if self.taken < self.most => Ok(()),
            _ => Err(None),
        }
    }

    /// Takes a row that is not in the input.
    #[inline(never)]
    fn take_elsewhere(&mut self, change: &Change<'_, Unread<'_>>) -> Result<(), Option<Error>> {
        self.take(change)
    }
}

/// Chunks as wire frames. The first `at` bytes are already decoded.
#[derive(Debug, Default)]
struct Chunks {
    frames: Vec<u8>,
    at: usize,
}

impl Chunks {
    fn rest(&self) -> &[u8] {
        self.frames.get(self.at..).unwrap_or_default()
    }

    fn is_empty(&self) -> bool {
        self.at >= self.frames.len()
    }

    fn push(&mut self, framing: Framing, chunk: &[u8], lsn: Lsn) {
        self.frames.drain(..self.at);
        self.at = 0;
        framing.append(chunk, lsn, &mut self.frames);
    }

    fn clear(&mut self) {
        self.frames.clear();
        self.at = 0;
    }
}

impl Decoder {
    pub(crate) fn new(options: &Options, template: Template) -> Self {
        Self {
            assembler: assembler(options, options.framing),
            framing: options.framing,
            chunks: Chunks::default(),
            tables: Tables::new(options, template),
            unfinished: options.unfinished,
            whole: (options.gaps == OnGap::Error).then_some((options.start, end_lsn(options.end))),
            failure: None,
        }
    }

    /// Decodes wire frames, or with [`Framing::Recvlogical`] bare messages, cut anywhere. Returns
    /// the number of bytes that it took. Pass the other bytes again.
    ///
    /// It stops early when a batch is full: take all batches before the next call. It also stops
    /// after a few hundred thousand rows without a full batch, so that the caller can do something
    /// else. When it has taken all of `input`, some rows may still be missing from the batches:
    /// call it again, with or without more input, until [`Decoder::wants_input`] returns true.
    ///
    /// For chunks of other framings, call [`Decoder::decode_chunk`].
    ///
    /// # Errors
    /// The error is final: later calls repeat it. [`Decoder::next_batch`] still returns the rows
    /// before the error. If bytes do not follow the protocol, these are the rows of all earlier
    /// transactions. If Arrow cannot hold a value, these are the rows of all earlier changes.
    ///
    /// The messages of a transaction are read only when it is committed. If one of them is invalid,
    /// the transaction's rows are dropped, except those in batches that were already full.
    /// [`Decoder::position`] never passes such a transaction.
    pub fn decode(&mut self, input: &[u8]) -> Result<usize, Error> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        if !self.chunks.is_empty() {
            self.decode_chunks()?;
            if !self.chunks.is_empty() {
                return Ok(0);
            }
        }
        let mut rest = input;
        match self.advance(&mut rest, Full::Return) {
            Ok(_) => Ok(input.len().saturating_sub(rest.len())),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Decodes one chunk: with [`Framing::CopyData`] the payload of a CopyData message, as drivers
    /// return it; with [`Framing::Message`] one pgoutput message; with other framings any bytes.
    ///
    /// It takes the whole chunk. Take all batches before the next call: [`Decoder::next_batch`]
    /// decodes the rest of the chunk.
    ///
    /// # Errors
    /// The errors of [`Decoder::decode`].
    pub fn decode_chunk(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.decode_chunk_at(chunk, Lsn::INVALID)
    }

    /// Decodes one chunk, like [`Decoder::decode_chunk`], with the LSN beside it, as
    /// `pg_logical_slot_get_binary_changes` returns one beside each message.
    ///
    /// Only [`Framing::Message`] uses the LSN: chunks of other framings contain their own.
    ///
    /// # Errors
    /// The errors of [`Decoder::decode`].
    pub fn decode_chunk_at(&mut self, chunk: &[u8], lsn: Lsn) -> Result<(), Error> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        self.chunks.push(self.framing, chunk, lsn);
        self.decode_chunks()
    }

    /// Decodes the rest of the chunks, up to a full batch.
    fn decode_chunks(&mut self) -> Result<(), Error> {
        let mut chunks = std::mem::take(&mut self.chunks);
        let mut rest = chunks.rest();
        let mut result = Ok(true);
        while result == Ok(true) && !self.tables.has_batch() {
            result = self.advance(&mut rest, Full::Return);
        }
        chunks.at = chunks.frames.len().saturating_sub(rest.len());
        self.chunks = chunks;
        result.map(|_| ()).map_err(|error| self.fail(error))
    }

    /// Decodes up to a full batch, or for a limited number of steps. Returns whether it can
    /// continue without more input.
    fn advance(&mut self, rest: &mut &[u8], full: Full) -> Result<bool, Error> {
        let mut steps = STEPS;
        while steps > 0 {
            if self.tables.has_batch() {
                match full {
                    Full::Return => break,
                    Full::Finish => self.tables.finish_due()?,
                }
            }
            match self.step(rest, steps)? {
                0 => return Ok(false),
                taken => steps = steps.saturating_sub(taken),
            }
        }
        Ok(true)
    }

    /// Whether the decoder needs more input to continue: all batches were taken, and the last
    /// committed transaction was read to its end.
    pub fn wants_input(&self) -> bool {
        !self.tables.has_batch()
            && !self.tables.is_truncating()
            && !self.assembler.is_reading()
            && self.chunks.is_empty()
    }

    /// Takes the next rows or the next event, or the next table of a TRUNCATE. Returns the number of
    /// steps that this counts as, or 0 if it needs more input.
    #[inline]
    fn step(&mut self, rest: &mut &[u8], most: u32) -> Result<u32, Error> {
        if self.tables.is_truncating() {
            self.tables.truncate_next()?;
            return Ok(1);
        }
        let mut rows = Rows {
            tables: &mut self.tables,
            taken: 0,
            most,
        };
        loop {
            if let Some(stop) = (self.assembler).rows_in_input(rest, |change| rows.take(&change)) {
                return stop.map_or(Ok(rows.taken), Err);
            }
            match self.assembler.edge_in_input::<()>(rest) {
                Some(Event::Begin(transaction)) => rows.tables.begin(transaction),
                Some(Event::Commit {
                    transaction,
                    changes,
                    ..
                }) => rows.tables.commit(transaction, changes)?,
                Some(_) => {}
                None => break,
            }
            rows.taken = rows.taken.wrapping_add(1);
            if rows.taken >= most || rows.tables.has_batch() {
                return Ok(rows.taken);
            }
        }
        let event = (self.assembler).next_with(rest, |change| rows.take_elsewhere(&change))?;
        let rows = rows.taken;
        match event {
            None => return Ok(0),
            Some(Event::Change(None)) => return Ok(rows),
            Some(Event::Change(Some(error))) => return Err(error),
            Some(Event::Skipped) => return Ok(STEPS),
            Some(Event::Begin(transaction)) => self.tables.begin(transaction),
            Some(Event::Commit {
                transaction,
                changes,
                ..
            }) => self.tables.commit(transaction, changes)?,
            Some(Event::Truncate(truncate)) => self.tables.truncate(truncate)?,
            Some(Event::Message(message)) => self.tables.message(&message)?,
            Some(Event::Fact(fact)) => {
                self.refuse_gap(&fact)?;
                self.tables.fact(&fact);
            }
            Some(Event::Relation { relation, seq, .. }) => {
                self.tables.relation(relation, seq)?;
                let version = relation.version;
                if !self.tables.wants(relation) {
                    self.assembler.leave_out(version);
                }
            }
            // The error belonged to the previous session.
            Some(Event::SessionStart) => self.tables.server_error = None,
            Some(Event::ServerError { sqlstate, .. }) => {
                self.tables.server_error = Some(sqlstate.to_owned());
            }
            Some(_) => {}
        }
        Ok(rows.saturating_add(1))
    }

    /// Refuses a gap in the range that is read.
    fn refuse_gap(&self, fact: &Fact) -> Result<(), Error> {
        match (fact, self.whole) {
            (Fact::Gap(gap), Some((start, end))) if gap.is_between(start, end) => {
                let (start, end) = (gap.start, gap.end);
                let cross = Remedy::word(DecoderOption::Gaps, "cross");
                Err(Error::new(ErrorKind::Gap { start, end }).with_remedies([cross]))
            }
            _ => Ok(()),
        }
    }

    /// Reads the rest of a committed transaction whose bytes were all taken.
    fn drain(&mut self) -> Result<(), Error> {
        let chunks = std::mem::take(&mut self.chunks);
        let mut rest = chunks.rest();
        while self.advance(&mut rest, Full::Finish)? {}
        self.tables.finish_due()
    }

    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        if matches!(error.kind(), ErrorKind::Stream(_) | ErrorKind::Spool(_)) {
            self.tables.roll_back();
        }
        self.failure = Some(error.clone());
        // Return the rows before the error. An error in them would only be the second one.
        let _ = self.tables.flush();
        error
    }

    /// Takes the next full batch. Returns `None` if the decoder needs more input for one.
    ///
    /// # Errors
    /// The error that stopped the decoder, after the last batch before it.
    pub fn next_batch(&mut self) -> Result<Option<Batch>, Error> {
        loop {
            match self.tables.next_batch() {
                Some(Ok(batch)) => return Ok(Some(batch)),
                Some(Err(error)) => {
                    // Only Arrow errors arrive here. The rows of other tables are still valid.
                    self.failure.get_or_insert(error);
                    continue;
                }
                None => {}
            }
            if let Some(error) = &self.failure {
                return Err(error.clone());
            }
            if self.chunks.frames.is_empty() {
                return Ok(None);
            }
            if self.wants_input() {
                self.chunks.clear();
                return Ok(None);
            }
            // An error comes after the batches before it.
            let _ = self.decode_chunks();
        }
    }

    /// Whether [`Decoder::next_batch`] has a batch ready.
    pub fn has_batch(&self) -> bool {
        self.tables.has_batch()
    }

    /// Makes batches of all rows up to the last commit.
    ///
    /// If [`Decoder::wants_input`] was false, this decodes the rest of the transaction at once,
    /// even if that makes many batches.
    ///
    /// # Errors
    /// The errors of [`Decoder::decode`].
    pub fn flush(&mut self) -> Result<(), Error> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        self.drain().map_err(|error| self.fail(error))?;
        self.tables.flush().map_err(|error| self.fail(error))
    }

    /// Ends the stream: flushes, then checks that the stream is complete, and that the chosen tables
    /// are in it. Take the last batches, also after such an error. Further input is accepted.
    ///
    /// A stream is complete if it ends between transactions, and not with an error of the server.
    /// [`DecoderBuilder::with_unfinished`](crate::DecoderBuilder::with_unfinished) ignores what is
    /// incomplete. [`Decoder::open_transactions`] do not count: they may end in the next session.
    /// For a connection that goes on, call [`Decoder::flush`] instead.
    ///
    /// A table without rows is also found if the stream described it. See
    /// [`DecoderBuilder::with_missing_table`](crate::DecoderBuilder::with_missing_table).
    ///
    /// # Errors
    /// [`ErrorKind::Server`] if the server ended the stream with an error. [`ErrorKind::Unfinished`]
    /// if the stream ends inside a frame or a transaction, [`ErrorKind::Missing`] if one of its
    /// sessions does, and the rest never came. [`ErrorKind::Schema`] if a chosen table
    /// never appeared, or if the key of an option names neither a column nor a type: a stream that
    /// was resumed at a position may lack them. The errors of [`Decoder::decode`].
    pub fn finish(&mut self) -> Result<(), Error> {
        self.flush()?;
        if let Some(error) = self.broken_off() {
            return Err(error);
        }
        self.tables.check_names(self.assembler.relations())
    }

    /// The error of a stream that must not end here.
    fn broken_off(&self) -> Option<Error> {
        let error = match self.unfinished {
            OnUnfinished::Ignore => None,
            OnUnfinished::Error => {
                broken_off(&self.assembler, self.server_error(), self.is_unfinished())
            }
        };
        // Batches that are ready, but not taken yet, come before the error.
        error.map(|error| error.at(self.offset(), self.tables.end()))
    }

    /// The end LSN up to which the rows of every transaction were taken with
    /// [`Decoder::next_batch`]. It never decreases. Before the first transaction, it is the LSN of
    /// [`DecoderBuilder::with_start`](crate::DecoderBuilder::with_start), or 0/0.
    pub fn position(&self) -> Lsn {
        self.tables.position()
    }

    /// Whether the stream passed [`DecoderBuilder::with_end`](crate::DecoderBuilder::with_end): no
    /// more input is needed.
    pub fn is_past_end(&self) -> bool {
        self.assembler.is_past_end()
    }

    /// The transactions that are neither committed nor rolled back: those that are streamed and
    /// wait for their next chunk, and those that are prepared. Their rows come with their commit.
    pub fn open_transactions(&self) -> impl Iterator<Item = OpenTransaction<'_>> {
        let streamed = self.assembler.streamed();
        let streamed = streamed.map(|xid| OpenTransaction { xid, gid: None });
        streamed.chain(self.prepared().map(|(xid, prepared)| {
            let gid = Some(prepared.gid.as_str());
            OpenTransaction { xid, gid }
        }))
    }

    /// The prepared transactions that are not yet committed or rolled back, with their IDs.
    pub fn prepared(&self) -> impl Iterator<Item = (Xid, &Prepared)> {
        self.assembler.prepared()
    }

    /// Writes the prepared transactions, for [`Decoder::restore_prepared`] of another decoder.
    ///
    /// The state matches [`Decoder::position`]. Resume from this position to see their outcome.
    ///
    /// # Errors
    /// [`ErrorKind::Options`] if some rows were not returned yet: call [`Decoder::flush`], and take
    /// all batches first. [`ErrorKind::Spool`] if `out` or the spool fails. The error that stopped
    /// the decoder: use the last saved state, with its position.
    pub fn save_prepared(&mut self, out: &mut dyn io::Write) -> Result<(), Error> {
        if let Some(error) = &self.failure {
            // The transaction that failed may have been a prepared one. It is no longer stored.
            return Err(error.clone());
        }
        if !self.tables.is_empty() {
            return Err(Error::new(ErrorKind::Options(OptionsError::RowsNotTaken)));
        }
        self.assembler.save_prepared(out).map_err(|error| {
            let kind = walrow_stream::ErrorKind::from(error);
            let offset = self.assembler.offset();
            Error::from(walrow_stream::Error::new(kind, offset, None))
        })
    }

    /// Loads the prepared transactions that [`Decoder::save_prepared`] wrote.
    ///
    /// # Errors
    /// The bytes are not a state, or are truncated. Nothing is loaded.
    pub fn restore_prepared(&mut self, state: &mut dyn io::Read) -> Result<(), Error> {
        Ok(self.assembler.restore_prepared(state)?)
    }

    /// The number of bytes decoded so far.
    pub fn offset(&self) -> u64 {
        self.assembler.offset()
    }

    /// Whether the input so far ends inside a frame or a transaction, or one of its sessions does
    /// and the rest never came. False after an error, because the error contains the place.
    pub fn is_unfinished(&self) -> bool {
        self.failure.is_none()
            && (!self.chunks.is_empty()
                || self.assembler.is_mid_transaction()
                || self.assembler.missing_transaction().is_some())
    }

    /// The ID and commit LSN of a transaction that is only partly in the stream.
    ///
    /// See [`Assembler::missing_transaction`].
    pub fn missing_transaction(&self) -> Option<(Xid, Lsn)> {
        self.assembler.missing_transaction()
    }

    /// The number of COMMIT PREPARED without earlier messages of their transactions. These
    /// transactions changed nothing, or were prepared before the stream begins.
    ///
    /// See [`Assembler::unprepared_commits`].
    pub fn unprepared_commits(&self) -> u64 {
        self.assembler.unprepared_commits()
    }

    /// The number of transactions that were skipped because `pg_recvlogical` received them again
    /// after a reconnect.
    ///
    /// See [`Assembler::repeated_transactions`].
    pub fn repeated_transactions(&self) -> u64 {
        self.assembler.repeated_transactions()
    }

    /// Begins a new server session: open transactions and relations are discarded.
    ///
    /// Committed rows and prepared transactions are kept. If a committed row cannot be decoded, the
    /// next call returns the error.
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

    /// The schema of all batches, once it is known: of the one chosen table, or of the envelope.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.tables.schema()
    }

    /// The unknown types, neither built in nor in the catalog, and their columns, sorted: types of
    /// columns, and types inside types of the catalog. Their values are text unless the options
    /// choose another type. At most 10,000 are listed.
    pub fn unresolved_types(&self) -> impl Iterator<Item = &UnresolvedType> {
        self.tables.unresolved.iter()
    }

    /// The SQLSTATE of the error with which the server ended the stream. `None` once the next
    /// session begins.
    pub fn server_error(&self) -> Option<&str> {
        self.tables.server_error.as_deref()
    }
}

/// What to do with full batches.
#[derive(Clone, Copy)]
enum Full {
    /// Return, so that the caller can take them.
    Return,
    /// Finish them. Nobody takes batches now, and the builders must stay within their limits.
    Finish,
}

/// The number of steps after which [`Decoder::decode`] returns without a full batch.
const STEPS: u32 = 1 << 18;

/// A time may be before or behind a gap.
const fn end_lsn(end: Option<End>) -> Option<Lsn> {
    match end {
        Some(End::Lsn(end)) => Some(end),
        _ => None,
    }
}

pub(crate) fn assembler(options: &Options, framing: Framing) -> Assembler {
    let assembler = Assembler::new(framing)
        .with_spool_memory(options.spool_memory)
        .with_message_limit(options.message_limit)
        .with_start(options.start)
        .with_late_start(options.late_start)
        .with_encoding(options.encoding);
    let assembler = match options.end {
        Some(end) => assembler.with_end(end),
        None => assembler,
    };
    match options.spool.clone().or_else(default_spool) {
        Some(spool) => assembler.with_spool(spool),
        None => assembler,
    }
}

/// The error of a stream that must not end here. `is_unfinished` says whether it ends inside a frame
/// or a transaction.
pub(crate) fn broken_off(
    assembler: &Assembler,
    server_error: Option<&str>,
    is_unfinished: bool,
) -> Option<Error> {
    let kind = if let Some((xid, commit_lsn)) = assembler.missing_transaction() {
        ErrorKind::Missing { xid, commit_lsn }
    } else if let Some(sqlstate) = server_error {
        let sqlstate = sqlstate.to_owned();
        ErrorKind::Server { sqlstate }
    } else if is_unfinished {
        ErrorKind::Unfinished
    } else {
        return None;
    };
    let ignore = Remedy::word(DecoderOption::Unfinished, "ignore");
    Some(Error::new(kind).with_remedies([ignore]))
}
