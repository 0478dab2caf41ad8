//! Decodes streams of any kind, mutated in some places, with any options, and with any operations
//! between their pieces.
//!
//! An input begins with a plan of a fixed size: the source of the stream, the options, and the
//! operations between the pieces. Then follow the mutations and the bytes of histories. In an input
//! that was written out, the stream itself follows.

mod against;
mod check;
mod field;
mod frame;
mod mutation;
mod options;
mod retype;
mod rows;
mod run;
mod source;

use crate::allocation::peak;
use crate::reference::{Committed, ReadOptions, Reason, committed_with};
use crate::{OwnedFrame, OwnedMessage, walk};
use options::Options;
use run::{Outcome, at_once, dropped, in_pieces, reconnected};
use source::Input;
use std::collections::BTreeMap;
use walrow_arrow::Profile;
use walrow_wire::Lsn;

/// What an input reached, for tests that check that inputs reach everything.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "each counts what its name says")]
pub struct Reached {
    pub bytes: usize,
    pub mutated: usize,
    pub transactions: usize,
    pub rows: usize,
    pub batches: usize,
    /// Whether the reference read the whole stream.
    pub whole: bool,
    pub stream_errors: usize,
    pub other_errors: usize,
    pub spilled: usize,
    pub saved: usize,
    pub restored: usize,
    pub handed_over: usize,
    pub flushed: usize,
    pub old_images: usize,
    pub truncates: usize,
    pub prepared: usize,
    pub unannounced: usize,
    pub server_errors: usize,
    pub nulled: usize,
    pub enveloped: usize,
    pub projected: usize,
    pub resumed: usize,
    /// Batches of each side table.
    pub sides: [usize; 4],
    /// The most memory that was held at a time.
    pub peak: usize,
    /// Whether rows were compared with the reference's.
    pub compared: usize,
}

/// A stream gives the same rows, error and position with any operations between its pieces, and the
/// same as in the slow reference.
pub fn operations(data: &[u8]) -> arbitrary::Result<()> {
    reached(data).map(drop)
}

/// The same input with its stream written out after the plan, so that it can be reduced frame by
/// frame.
pub fn written_out(data: &[u8]) -> arbitrary::Result<Vec<u8>> {
    Ok(Input::read(data)?.written_out())
}

/// The plan of an input that was written out, and the frames of its stream.
pub fn plan_and_frames(written_out: &[u8]) -> (&[u8], Vec<Vec<u8>>) {
    let (plan, stream) = written_out.split_at(source::PLAN.min(written_out.len()));
    (plan, source::frames(stream))
}

/// An input for people: its options, and its stream with one line per frame.
pub fn described(data: &[u8]) -> arbitrary::Result<String> {
    use std::fmt::Write as _;
    let input = Input::read(data)?;
    let options = Options::choose(&input.plan, &input.stream, &[]);
    let mut text = format!("{:?}\n{:?}\n", input.plan, options.builder);
    let end = walk(&input.stream, |step| {
        let frame = OwnedFrame::read(&step.backend, step.in_stream);
        let line = match (&step.message, frame) {
            (Some(message), _) => format!("{:?}", OwnedMessage::from(message)),
            (None, frame) => format!("{frame:?}"),
        };
        let line: String = line.chars().take(300).collect();
        let _ = writeln!(text, "{}: {line}", step.offset);
    });
    let _ = writeln!(text, "{end:?} of {}", input.stream.len());
    Ok(text)
}

/// As [`operations`], and returns what was reached.
pub fn reached(data: &[u8]) -> arbitrary::Result<Reached> {
    let input = Input::read(data)?;
    let stream = &*input.stream;
    let ends: Vec<_> = {
        let committed = match committed_with(stream, ReadOptions::default()) {
            Ok(committed) => committed,
            Err(refused) => refused.committed,
        };
        committed.transactions.iter().map(|it| it.end_lsn).collect()
    };
    let options = Options::choose(&input.plan, stream, &ends);
    let (committed, refused) = match committed_with(stream, options.reference) {
        Ok(committed) => (committed, None),
        Err(refused) => (refused.committed, Some(refused.reason)),
    };
    let (once_peak, once) = peak(|| at_once(&options, stream));
    let (pieces_peak, pieces) = peak(|| in_pieces(&options, &input.plan, stream));
    let most = options.memory(stream.len());
    let mut held = once_peak.max(pieces_peak);
    if held > Some(most) {
        // Returned batches no longer belong to the decoder.
        (held, ()) = peak(|| dropped(&options, stream));
    }
    assert!(
        held <= Some(most),
        "{held:?} bytes for a stream of {}, {most} are allowed by {options:?}",
        stream.len()
    );
    let mut reached = Reached::new(&input, &options, &once, &pieces, &committed);
    reached.whole = refused.is_none();
    reached.peak = held.unwrap_or(0);
    // A decoder with complete prepared state knows that a missing transaction was empty.
    if pieces.how.handed_over && (once.misses_prepared() || pieces.misses_prepared()) {
        return Ok(reached);
    }
    check::batches(&options, &once);
    check::batches(&options, &pieces);
    if once.fault.as_ref().is_some_and(|it| it.is_of_stream) {
        assert!(!once.is_mid_transaction, "after an error");
    }
    check::same(&options, &once, &pieces);

    let assembled = against::assembled(&options, stream, false);
    against::errors(&once, &against::assembled(&options, stream, true));
    let is_whole = refused.is_none();
    if let Some(Reason::Wire(_) | Reason::Impossible(_)) = refused {
        reached.stream_errors += 1;
    }
    against::transactions(&assembled, &committed, is_whole);
    let by_stream = once.fault.as_ref().is_none_or(|fault| fault.is_of_stream);
    if options.profile == Profile::Text && options.all_metadata && !options.projected && by_stream {
        let is_whole = is_whole && once.fault.is_none();
        rows::rows(&options, &once, &committed, is_whole);
        rows::rows(&options, &pieces, &committed, is_whole);
        reached.compared += 1;
    }
    if is_whole && once.fault.is_none() && options.all_metadata && !options.projected {
        reached.resumed += usize::from(resumed(&options, &input, [&once, &pieces], &committed));
    }
    Ok(reached)
}

impl Outcome {
    fn misses_prepared(&self) -> bool {
        let fault = self.fault.as_ref();
        fault.is_some_and(|fault| fault.kind.starts_with("MissingPrepared"))
    }
}

/// Another decoder returns the rest, from any position on. Returns whether this was tested.
fn resumed(
    options: &Options,
    input: &Input,
    [once, pieces]: [&Outcome; 2],
    committed: &Committed,
) -> bool {
    let heads = committed.transactions.iter();
    let ends = &committed.ends;
    let by_commit: BTreeMap<_, _> = heads.map(|it| (it.commit_lsn, it.end_lsn)).collect();
    let in_order = ends.windows(2).all(|pair| pair[0] < pair[1]);
    if !in_order || ends.contains(&0) || by_commit.len() != committed.transactions.len() {
        return false;
    }
    check::positions(options, once, &by_commit);
    check::positions(options, pieces, &by_commit);
    let choice = usize::from(input.plan[30]);
    let positions = &pieces.positions;
    let position = positions[choice % positions.len()].1;
    if pieces.how.handed_over || !options.tables.is_empty() || position == Lsn(0) {
        return false;
    }
    let from = |position: Lsn| {
        let mut later = Options::choose(&input.plan, &input.stream, ends);
        later.builder = later.builder.with_start(position);
        later
    };
    // With a start but without the prepared state, no decoder knows which transactions were empty.
    if committed.unannounced == 0 {
        let rest = at_once(&from(position), &input.stream);
        assert_eq!(rest.fault, None, "from {position} on");
        let expected = check::after(options, once, &by_commit, position.0);
        let found = check::after(options, &rest, &by_commit, 0);
        let names: Vec<_> = expected.keys().collect();
        assert_eq!(
            names,
            found.keys().collect::<Vec<_>>(),
            "from {position} on"
        );
        for (table, rows) in &expected {
            check::same_rows(rows, &found[table], table, options);
        }
    }
    if options.reference.start.is_none() && !options.reference.late_start {
        let share = usize::from(input.plan[29]);
        let cut = input.stream.len() * share / 255;
        let found = reconnected(options, from, &input.stream, cut);
        check::same_tables(options, &once.batches, &found);
    }
    true
}

impl Reached {
    fn new(
        input: &Input,
        options: &Options,
        once: &Outcome,
        pieces: &Outcome,
        committed: &Committed,
    ) -> Self {
        use crate::OwnedMessage::{Truncate, Update};
        let how = pieces.how;
        let heads = &committed.transactions;
        let changes = || {
            heads
                .iter()
                .flat_map(|it| &it.changes)
                .map(|it| &it.message)
        };
        let mut this = Self {
            bytes: input.stream.len(),
            mutated: input.mutated,
            transactions: heads.len(),
            rows: once
                .batches
                .iter()
                .map(|it| it.record_batch().num_rows())
                .sum(),
            batches: once.batches.len(),
            other_errors: usize::from(once.fault.as_ref().is_some_and(|it| !it.is_of_stream)),
            spilled: options.spool.as_ref().map_or(0, |spool| spool.files()),
            saved: how.saved,
            restored: how.restored,
            handed_over: usize::from(how.handed_over),
            flushed: usize::from(how.flushed),
            old_images: changes()
                .filter(|it| matches!(it, Update { old: Some(_), .. }))
                .count(),
            truncates: changes().filter(|it| matches!(it, Truncate { .. })).count(),
            prepared: once.prepared.len(),
            unannounced: committed.unannounced,
            server_errors: usize::from(once.server_error.is_some()),
            nulled: usize::from(!once.counts.is_empty()),
            enveloped: usize::from(options.envelope && !once.batches.is_empty()),
            projected: usize::from(options.projected && !once.batches.is_empty()),
            ..Self::default()
        };
        for batch in &once.batches {
            let sides = walrow_arrow::SideTable::ALL.into_iter();
            for (count, side) in this.sides.iter_mut().zip(sides) {
                let is_it = *batch.relation().name == *side.name();
                *count += usize::from(is_it && check::is_side(options, batch));
            }
        }
        this
    }
}
