//! Decodes a stream in one piece, or in many with operations between them.

use super::options::Options;
use super::source::PLAN;
use arrow_schema::SchemaRef;
use std::collections::{BTreeMap, BTreeSet};
use walrow_arrow::{Batch, Decoder, Error, ErrorKind, UnresolvedType};
use walrow_wire::{Frame, Lsn};

/// The outcome of a run.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) batches: Vec<Batch>,
    pub(super) fault: Option<Fault>,
    pub(super) position: Lsn,
    pub(super) is_mid_transaction: bool,
    pub(super) prepared: Vec<String>,
    pub(super) server_error: Option<String>,
    pub(super) unresolved: BTreeSet<UnresolvedType>,
    /// The schema of all batches except those of side tables.
    pub(super) schema: Option<SchemaRef>,
    /// Nulled values and dropped bounds, by table and column.
    pub(super) counts: BTreeMap<(String, String), (u64, u64)>,
    /// Some positions, each with the number of batches before it.
    pub(super) positions: Vec<(usize, Lsn)>,
    pub(super) how: How,
}

/// The operations between the pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct How {
    pub(super) flushed: bool,
    pub(super) saved: usize,
    /// How many prepared transactions were restored.
    pub(super) restored: usize,
    pub(super) handed_over: bool,
}

/// The error that stopped a run. Its offset counts from the start of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: String,
    pub(super) offset: Option<u64>,
    pub(super) lsn: Option<Lsn>,
    table: Option<String>,
    column: Option<String>,
    /// Whether the stream itself is faulty.
    pub(super) is_of_stream: bool,
}

impl Fault {
    fn new(error: &Error, base: u64) -> Self {
        let (kind, is_of_stream) = match error.kind() {
            ErrorKind::Stream(error) => (format!("{:?}", error.kind), true),
            kind => (format!("{kind:?}"), false),
        };
        Self {
            kind,
            offset: error.offset().map(|offset| offset + base),
            lsn: error.lsn(),
            table: error.table().map(str::to_owned),
            column: error.column().map(str::to_owned),
            is_of_stream,
        }
    }
}

struct Run<'o> {
    options: &'o Options,
    decoder: Decoder,
    /// Bytes of the stream before this decoder started.
    base: u64,
    batches: Vec<Batch>,
    error: Option<Error>,
    /// The result of taking a batch.
    last: Option<Error>,
    position: Lsn,
    unresolved: BTreeSet<UnresolvedType>,
    positions: Vec<(usize, Lsn)>,
    how: How,
    /// Whether batches are dropped as soon as they are taken.
    drops: bool,
}

/// How many batches are taken between two pieces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Take {
    All,
    One,
    None,
}

/// The whole stream at once.
pub(super) fn at_once(options: &Options, stream: &[u8]) -> Outcome {
    let mut run = Run::new(options);
    run.feed(stream, Take::All);
    run.end()
}

/// The same, without keeping batches.
pub(super) fn dropped(options: &Options, stream: &[u8]) {
    let mut run = Run::new(options);
    run.drops = true;
    run.feed(stream, Take::All);
    drop(run.end());
}

/// Decodes the stream up to some byte, then all of it again, as from a server that received no
/// confirmation. The second decoder starts at the position of the first, with its prepared
/// transactions.
pub(super) fn reconnected(
    options: &Options,
    from: impl Fn(Lsn) -> Options,
    stream: &[u8],
    cut: usize,
) -> Vec<Batch> {
    let mut first = Run::new(options);
    first.feed(&stream[..cut], Take::All);
    let Some((state, _)) = first.save() else {
        panic!("a part of the stream is refused: {:?}", first.error);
    };
    let later = from(first.position);
    let mut second = Run::new(&later);
    let restored = second.decoder.restore_prepared(&mut state.as_slice());
    restored.unwrap_or_else(|error| panic!("a saved state is refused: {error}"));
    second.feed(stream, Take::All);
    let second = second.end();
    assert_eq!(second.fault, None, "from {} on", first.position);
    [first.batches, second.batches].concat()
}

/// Decodes the stream in pieces, with the plan's operations between them.
pub(super) fn in_pieces(options: &Options, plan: &[u8; PLAN], stream: &[u8]) -> Outcome {
    let mut run = Run::new(options);
    let sizes: Vec<_> = plan[19..23].iter().map(|byte| size(*byte)).collect();
    let border = session(options, plan[31], stream);
    let (mut at, mut pieces, mut saves) = (0, 0, 0);
    while at < stream.len() && run.error.is_none() {
        let wanted = match sizes[pieces % 4] {
            // Enough small pieces.
            _ if pieces > 3000 || sizes == [0; 4] => stream.len(),
            wanted => wanted,
        };
        let mut end = (at + wanted).min(stream.len());
        if at < border {
            end = end.min(border);
        }
        let action = plan[23 + pieces % 8];
        let take = match action % 4 {
            0 | 1 => Take::All,
            2 => Take::One,
            _ => Take::None,
        };
        run.feed(&stream[at..end], take);
        at = end;
        pieces += 1;
        if at == border {
            run.hand_over(at);
            continue;
        }
        match action >> 2 {
            0..=7 => run.flush(),
            8..=13 if saves < 8 => {
                saves += 1;
                run.save();
            }
            _ => {}
        }
        if run.positions.len() < 200 {
            run.positions
                .push((run.batches.len(), run.decoder.position()));
        }
    }
    // Bytes that are decoded only at the end make different batch borders.
    run.feed(&[], Take::All);
    run.end()
}

const fn size(byte: u8) -> usize {
    let few = (byte >> 3) as usize;
    match byte % 8 {
        0 => few % 2,
        1 | 2 => few + 1,
        3 | 4 => few * 16 + 1,
        5 | 6 => few * 256 + 1,
        _ => few * 8192 + 1,
    }
}

/// Where a session begins at which another decoder continues. Past the end if there is none.
fn session(options: &Options, choice: u8, stream: &[u8]) -> usize {
    // The selected table and the start are not passed to the next decoder.
    let can = options.tables.is_empty() && options.reference.start.is_none();
    let mut found = Vec::new();
    let mut at = 0;
    while let Ok(Some((frame, size))) = Frame::parse(&stream[at..]) {
        if frame.tag == b'W' && at > 0 {
            found.push(at);
        }
        at += size;
    }
    if can && choice >= 64 && !found.is_empty() {
        found[usize::from(choice) % found.len()]
    } else {
        usize::MAX
    }
}

impl<'o> Run<'o> {
    fn new(options: &'o Options) -> Self {
        Self {
            options,
            decoder: decoder(options),
            base: 0,
            batches: Vec::new(),
            error: None,
            last: None,
            position: Lsn(0),
            unresolved: BTreeSet::new(),
            positions: Vec::new(),
            how: How::default(),
            drops: false,
        }
    }

    fn feed(&mut self, piece: &[u8], take: Take) {
        let mut rest = piece;
        while self.error.is_none() {
            let had = self.decoder.has_batch();
            let consumed = match self.decoder.decode(rest) {
                Ok(consumed) => consumed,
                Err(error) => return self.fail(error),
            };
            assert!(
                !had || consumed == 0,
                "input was taken while batches were waiting"
            );
            rest = &rest[consumed..];
            let taken = match take {
                Take::All => self.take_all(),
                Take::One => self.take(),
                Take::None => consumed == 0 && !rest.is_empty() && self.take(),
            };
            let stays = !taken && !self.decoder.has_batch() && consumed == 0;
            assert!(
                rest.is_empty() || !stays || self.last.is_some(),
                "input is left, and no batch came"
            );
            if rest.is_empty() && (take != Take::All || !taken) {
                return;
            }
        }
    }

    /// Takes a batch, if there is one.
    fn take(&mut self) -> bool {
        let batch = self.decoder.next_batch().unwrap_or_else(|error| {
            self.last = Some(error);
            None
        });
        self.look();
        let taken = batch.is_some();
        self.batches.extend(batch.filter(|_| !self.drops));
        taken
    }

    fn take_all(&mut self) -> bool {
        let mut taken = false;
        while self.take() {
            taken = true;
        }
        assert!(!self.decoder.has_batch(), "a batch that cannot be taken");
        taken
    }

    fn look(&mut self) {
        let position = self.decoder.position();
        assert!(
            position >= self.position,
            "{} after {}",
            position,
            self.position
        );
        self.position = position;
    }

    fn fail(&mut self, error: Error) {
        assert!(!error.to_string().is_empty());
        self.take_all();
        let repeated = [
            self.decoder.decode(b"more").err(),
            self.decoder.flush().err(),
            self.last.clone(),
        ];
        for again in repeated {
            assert_eq!(again.as_ref(), Some(&error), "an error is repeated");
        }
        assert_eq!(
            self.decoder.save_prepared(&mut Vec::new()),
            Err(error.clone())
        );
        self.decoder.new_session();
        assert_eq!(self.decoder.finish(), Err(error.clone()));
        assert_eq!(self.decoder.next_batch().err().as_ref(), Some(&error));
        self.error = Some(error);
    }

    fn flush(&mut self) {
        if self.error.is_some() {
            return;
        }
        self.how.flushed = true;
        match self.decoder.flush() {
            Ok(()) => drop(self.take_all()),
            Err(error) => self.fail(error),
        }
    }

    /// Saves the prepared transactions, and checks that they are the same after they were restored.
    fn save(&mut self) -> Option<(Vec<u8>, Decoder)> {
        self.flush();
        if self.error.is_some() || self.last.is_some() {
            return None;
        }
        let mut state = Vec::new();
        let saved = self.decoder.save_prepared(&mut state);
        saved.unwrap_or_else(|error| panic!("what is prepared cannot be saved: {error}"));
        let mut again = Vec::new();
        let saved = self.decoder.save_prepared(&mut again);
        saved.unwrap_or_else(|error| panic!("what is prepared cannot be saved: {error}"));
        assert!(state == again, "another state at once");
        let mut other = decoder(self.options);
        let restored = other.restore_prepared(&mut state.as_slice());
        restored.unwrap_or_else(|error| panic!("a saved state is refused: {error}"));
        assert_eq!(prepared(&other), prepared(&self.decoder));
        again.clear();
        let saved = other.save_prepared(&mut again);
        saved.unwrap_or_else(|error| panic!("what was restored cannot be saved: {error}"));
        assert!(state == again, "another state after it was restored");
        let cut = state.len() - 1 - self.batches.len() % state.len();
        let refused = decoder(self.options).restore_prepared(&mut &state[..cut]);
        assert!(
            refused.is_err(),
            "a state of {cut} bytes is taken for whole"
        );
        self.how.saved += 1;
        self.how.restored += other.prepared().count();
        Some((state, other))
    }

    /// Continues in another decoder with the prepared transactions.
    fn hand_over(&mut self, at: usize) {
        let Some((_, other)) = self.save() else {
            return;
        };
        self.note();
        self.how.handed_over = true;
        self.base = at as u64;
        self.decoder = other;
        self.position = self.decoder.position();
    }

    fn note(&mut self) {
        self.unresolved
            .extend(self.decoder.unresolved_types().cloned());
        self.positions
            .push((self.batches.len(), self.decoder.position()));
    }

    fn end(mut self) -> Outcome {
        let mut fault = None;
        if self.error.is_none() {
            let result = self.decoder.finish();
            self.take_all();
            match (result, self.last.clone()) {
                (_, Some(error)) => self.fail(error),
                (Ok(()), None) => self.after_end(),
                (Err(error), None) => {
                    fault = Some(Fault::new(&error, self.base));
                    self.after_end();
                }
            }
        }
        self.note();
        let fault = fault.or_else(|| Some(Fault::new(self.error.as_ref()?, self.base)));
        let mut counts: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for batch in &self.batches {
            let table = batch.relation().to_string();
            for (column, count) in batch.nulled() {
                counts.entry((table.clone(), column.clone())).or_default().0 += count;
            }
            for (column, count) in batch.dropped_lower_bounds() {
                counts.entry((table.clone(), column.clone())).or_default().1 += count;
            }
        }
        let position = self.positions.iter().map(|(_, position)| *position).max();
        Outcome {
            fault,
            position: position.unwrap_or(self.position),
            is_mid_transaction: self.decoder.is_unfinished(),
            prepared: prepared(&self.decoder),
            server_error: self.decoder.server_error().map(str::to_owned),
            unresolved: self.unresolved,
            schema: self.decoder.schema(),
            counts,
            positions: self.positions,
            how: self.how,
            batches: self.batches,
        }
    }

    /// A stream may continue after its end.
    fn after_end(&mut self) {
        assert_eq!(self.decoder.decode(&[]), Ok(0));
        assert_eq!(self.decoder.flush(), Ok(()));
        assert!(self.decoder.next_batch().is_ok_and(|batch| batch.is_none()));
        self.look();
    }
}

fn decoder(options: &Options) -> Decoder {
    let built = options.builder.clone().build();
    built.expect("the options do not contradict each other")
}

fn prepared(decoder: &Decoder) -> Vec<String> {
    let prepared = decoder.prepared();
    prepared.map(|(xid, it)| format!("{xid} {it:?}")).collect()
}
