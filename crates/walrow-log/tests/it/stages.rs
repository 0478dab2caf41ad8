//! Each call of a writer in each of its stages.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::world::Memory;
use std::sync::Arc;
use walrow_log::{BrokenBy, Error, ErrorKind, Load, LoadRefusal, Log, Writer, WriterOptions};
use walrow_stream::Assembler;
use walrow_testkit::Stream;
use walrow_wire::{Lsn, Timestamp};

/// A writer in a stage, with the load that was begun.
struct Case {
    store: Memory,
    writer: Writer,
    assembler: Assembler,
    load: Option<Load>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Empty,
    Planned,
    Streaming,
    Before,
    Crossing,
    Behind,
    BehindFirst,
    Broken,
}

const STAGES: [Stage; 8] = [
    Stage::Empty,
    Stage::Planned,
    Stage::Streaming,
    Stage::Before,
    Stage::Crossing,
    Stage::Behind,
    Stage::BehindFirst,
    Stage::Broken,
];

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Done,
    /// The call has no work, or waits.
    Nothing,
    Refused(LoadRefusal),
    Broken,
}

use Is::{Done, Nothing, Refused};
use LoadRefusal::{Another, First, NoLoad, NotBegun, NotEmpty, TooEarly};

fn transaction(lsn: u64) -> Vec<u8> {
    Stream::new().session().begin(lsn, 700).commit().bytes()
}

fn at(stage: Stage) -> Case {
    let store = Memory::default();
    let mut writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    let mut load = None;
    let begin = |writer: &mut Writer, point| {
        Some(
            writer
                .begin_load(Lsn(point), Timestamp(0), Vec::new())
                .unwrap(),
        )
    };
    let append = |writer: &mut Writer, assembler: &mut Assembler, lsn| {
        writer.append(assembler, &mut &*transaction(lsn)).unwrap();
    };
    match stage {
        Stage::Empty => {}
        Stage::Planned => writer.plan_first_load().unwrap(),
        Stage::Streaming => append(&mut writer, &mut assembler, 0x1000),
        Stage::Before | Stage::Crossing | Stage::Behind => {
            append(&mut writer, &mut assembler, 0x1000);
            load = begin(&mut writer, 0x2000);
            if stage != Stage::Before {
                writer.advance(Lsn(0x3000)).unwrap();
            }
            if stage == Stage::Behind {
                writer.sync(&mut assembler).unwrap();
            }
        }
        Stage::BehindFirst => {
            writer.plan_first_load().unwrap();
            load = begin(&mut writer, 0x2000);
        }
        Stage::Broken => return broken(),
    }
    Case {
        store,
        writer,
        assembler,
        load,
    }
}

/// A writer whose sync failed at the operation that makes bytes durable. After a failure at an
/// earlier operation, a writer tries again.
fn broken() -> Case {
    let cases = (1..).map(|operation| {
        let mut case = at(Stage::Streaming);
        case.store.refuse(operation, 0);
        let error = case.writer.sync(&mut case.assembler).unwrap_err();
        (case, error.kind)
    });
    let mut cases = cases.skip_while(|(_, kind)| matches!(kind, ErrorKind::Store { .. }));
    let (case, kind) = cases.next().unwrap();
    assert!(matches!(kind, ErrorKind::NotSynced { .. }), "{kind:?}");
    case
}

fn is<T>(result: Result<T, Error>, is_done: impl FnOnce(T) -> bool) -> Is {
    match result {
        Ok(value) => {
            if is_done(value) {
                Done
            } else {
                Nothing
            }
        }
        Err(Error {
            kind: ErrorKind::Load { why },
            ..
        }) => Refused(why),
        Err(Error {
            kind: ErrorKind::Broken {
                why: BrokenBy::NotSynced,
            },
            ..
        }) => Is::Broken,
        Err(error) => panic!("{error}"),
    }
}

type Call = fn(&mut Case) -> Is;

/// The table of the stages' documentation, in the order of [`STAGES`].
const TABLE: [(&str, Call, [Is; 8]); 9] = [
    (
        "plan_first_load",
        |it| is(it.writer.plan_first_load(), |()| true),
        [
            Done,
            Done,
            Refused(NotEmpty),
            Refused(NotEmpty),
            Refused(NotEmpty),
            Refused(NotEmpty),
            Refused(NotEmpty),
            Is::Broken,
        ],
    ),
    (
        "begin_load",
        |it| {
            let begun = it.writer.begin_load(Lsn(0x9000), Timestamp(0), Vec::new());
            is(begun, |_| true)
        },
        [
            Done,
            Done,
            Done,
            Refused(Another),
            Refused(Another),
            Refused(Another),
            Refused(Another),
            Is::Broken,
        ],
    ),
    (
        "begin_load, early",
        |it| {
            let begun = it.writer.begin_load(Lsn(0x800), Timestamp(0), Vec::new());
            is(begun, |_| true)
        },
        [
            Done,
            Done,
            Refused(TooEarly),
            Refused(Another),
            Refused(Another),
            Refused(Another),
            Refused(Another),
            Is::Broken,
        ],
    ),
    (
        "append",
        |it| {
            let input = transaction(0x5000);
            is(it.writer.append(&mut it.assembler, &mut &*input), |()| true)
        },
        [
            Done,
            Refused(NotBegun),
            Done,
            Done,
            Done,
            Done,
            Done,
            Is::Broken,
        ],
    ),
    (
        "advance",
        |it| is(it.writer.advance(Lsn(0x5000)), |()| true),
        [
            Done,
            Refused(NotBegun),
            Done,
            Done,
            Done,
            Done,
            Done,
            Is::Broken,
        ],
    ),
    (
        "sync",
        |it| is(it.writer.sync(&mut it.assembler), |it| it.is_some()),
        [Nothing, Nothing, Done, Done, Done, Done, Done, Is::Broken],
    ),
    (
        "publish",
        |it| is(it.writer.publish(&mut it.assembler), |it| it.is_some()),
        [
            Nothing,
            Nothing,
            Done,
            Done,
            // The crossing publishes the segment before the load. A position alone is not a
            // segment.
            Nothing,
            Nothing,
            Nothing,
            Is::Broken,
        ],
    ),
    (
        "end_load",
        |it| {
            let other = at(Stage::Before).load;
            let load = it.load.as_ref().or(other.as_ref()).unwrap();
            is(it.writer.end_load(load), |ended| ended)
        },
        [
            Refused(NoLoad),
            Refused(NoLoad),
            Refused(NoLoad),
            Nothing,
            Nothing,
            Done,
            Done,
            Is::Broken,
        ],
    ),
    (
        "give_up_load",
        |it| {
            let other = at(Stage::Before).load;
            let load = it.load.as_ref().or(other.as_ref()).unwrap();
            is(it.writer.give_up_load(load, &mut it.assembler), |()| true)
        },
        [
            Refused(NoLoad),
            Refused(NoLoad),
            Refused(NoLoad),
            Done,
            Done,
            Done,
            Refused(First),
            Is::Broken,
        ],
    ),
];

#[test]
fn each_call_in_each_stage_is_as_the_table_says() {
    for (name, call, expected) in TABLE {
        for (stage, expected) in STAGES.into_iter().zip(expected) {
            let mut case = at(stage);
            assert_eq!(call(&mut case), expected, "{name} in {stage:?}");
            // After any result, the log is whole, and opens again.
            let Case { store, writer, .. } = case;
            drop(writer);
            store.reboot();
            drop(Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap());
            Log::open(Arc::new(store)).unwrap();
        }
    }
}

#[test]
fn a_load_that_is_over_is_not_ended_in_the_place_of_the_next_one() {
    let mut case = at(Stage::Before);
    let one = case.load.take().unwrap();
    case.writer.give_up_load(&one, &mut case.assembler).unwrap();
    let begun = case
        .writer
        .begin_load(Lsn(0x2800), Timestamp(0), Vec::new());
    let two = begun.unwrap();
    let input = [transaction(0x2000), transaction(0x3000)].concat();
    case.writer
        .append(&mut case.assembler, &mut &*input)
        .unwrap();
    case.writer.publish(&mut case.assembler).unwrap();
    for ended in [
        case.writer.end_load(&one).map(|_| ()),
        case.writer.give_up_load(&one, &mut case.assembler),
    ] {
        assert_eq!(is(ended, |()| true), Refused(NoLoad));
    }
    assert!(case.writer.end_load(&two).unwrap());
    let log = Log::open(Arc::new(case.store)).unwrap();
    assert_eq!(log.end(), Lsn(0x3030));
}

#[test]
fn what_was_not_synced_is_never_confirmed() {
    let Case {
        store,
        mut writer,
        mut assembler,
        ..
    } = at(Stage::Broken);
    assert_eq!(
        is(writer.sync(&mut assembler), |it| it.is_some()),
        Is::Broken
    );
    assert_eq!(writer.position(), Lsn::INVALID);
    drop(writer);
    store.reboot();
    let writer = Writer::open(Arc::new(store), WriterOptions::default()).unwrap();
    assert_eq!(writer.position(), Lsn::INVALID);
}

#[test]
fn a_writer_whose_journal_lost_its_name_confirms_nothing_more() {
    let mut case = at(Stage::Streaming);
    case.writer.sync(&mut case.assembler).unwrap();
    case.store.lose("_open");
    let more = transaction(0x5000);
    case.writer
        .append(&mut case.assembler, &mut &*more)
        .unwrap();
    let refused = case.writer.sync(&mut case.assembler).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Replaced);
    let broken = case.writer.sync(&mut case.assembler).unwrap_err();
    let why = BrokenBy::Replaced;
    assert_eq!(broken.kind, ErrorKind::Broken { why });
    assert_eq!(case.writer.position(), Lsn(0x1030));
}
