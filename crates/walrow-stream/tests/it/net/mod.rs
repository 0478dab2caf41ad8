//! Net changes: compared with a replay on a plain target, whole and in every grouping.
//!
//! `PROPTEST_CASES=NUMBER` runs more histories.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

mod server;
mod target;

use proptest::prelude::*;
use server::{OID, Server, Step};
use std::io;
use std::sync::{Arc, Mutex};
use target::Target;
use walrow_stream::{
    Assembler, Catalog, CatalogColumn, CellText, Column, Deletes, Event, KeyBytes, Net, NetColumns,
    NetError, NetJoin, NetOptions, NetRows, NeverSent, Spool, SpoolFile, Truncates,
};
use walrow_testkit::strategy::arbitrary;

use walrow_wire::{Cell, Lsn};

/// Files in memory.
#[derive(Debug)]
struct Files;

#[derive(Debug, Default)]
struct Bytes(Mutex<Vec<u8>>);

impl Spool for Files {
    fn create(&self) -> io::Result<Box<dyn SpoolFile>> {
        Ok(Box::new(Bytes::default()))
    }
}

impl SpoolFile for Bytes {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(at).unwrap();
        buffer.copy_from_slice(&self.0.lock().unwrap()[at..][..buffer.len()]);
        Ok(())
    }
}

/// The text of the server's binary cells.
#[expect(clippy::unnecessary_wraps, reason = "the type of such functions")]
fn cell_text(_: &Column, _: &Catalog) -> Option<CellText> {
    Some(Arc::new(|cell, out| {
        out.extend_from_slice(cell.get(1..).unwrap_or_default());
        true
    }))
}

/// The numbers 1 and 1.0 are one key.
fn key_bytes(column: &Column, _: &Catalog) -> Option<KeyBytes> {
    (column.type_oid == 1700).then(|| -> KeyBytes {
        Arc::new(|cell, out| {
            let (Cell::Text(text) | Cell::Binary([_, text @ ..])) = cell else {
                return false;
            };
            let whole = text.split(|byte| *byte == b'.').next();
            out.extend_from_slice(whole.unwrap_or_default());
            true
        })
    })
}

fn begin(options: &NetOptions, is_small: bool) -> Net {
    let net = Net::changes(OID, options.clone())
        .with_cell_text(cell_text)
        .with_key_bytes(key_bytes)
        .with_spool(Arc::new(Files));
    if is_small { net.with_memory(200) } else { net }
}

/// The nets of ranges that end after these numbers of transactions.
fn nets(bytes: &[u8], ends: &[usize], new: impl Fn() -> Net) -> Result<Vec<Net>, NetError> {
    let (mut assembler, mut input) = (Assembler::default(), bytes);
    let (mut nets, mut count) = (vec![new()], 0);
    let mut ends = ends.iter();
    let mut end = ends.next();
    loop {
        let net = nets.last_mut().unwrap();
        let Some(event) = assembler.next_with(&mut input, |row| net.row(&row))? else {
            return Ok(nets);
        };
        match event {
            Event::Change(error) => return Err(error),
            Event::Begin(transaction) => net.begin(transaction)?,
            Event::Relation { relation, .. } => net.relation(relation)?,
            Event::Truncate(truncate) => net.truncate(&truncate)?,
            Event::Fact(fact) => net.fact(&fact),
            Event::Commit { .. } => {
                count += 1;
                if end == Some(&count) {
                    nets.push(new());
                    end = ends.next();
                }
            }
            _ => {}
        }
    }
}

const END: Lsn = Lsn(1 << 40);

fn rows(net: Net) -> Result<NetRows, NetError> {
    Ok(net.into_rows()?.with_end(END))
}

/// Divides units into parts, joins the parts of each partition, and then all entangled entries.
fn joined(
    units: Vec<Net>,
    partitions: u32,
    new: impl Fn() -> Net,
) -> Result<Vec<NetRows>, NetError> {
    let mut parts = Vec::new();
    let mut events = 0;
    for (unit, net) in (0..).zip(units) {
        for (partition, bytes) in net.split(partitions, END)? {
            parts.push((partition, unit, bytes));
        }
    }
    let (mut found, mut entangled) = (Vec::new(), Vec::new());
    for partition in 0..partitions {
        let parts = || parts.iter().filter(|(it, ..)| *it == partition);
        let mut join = NetJoin::new(new());
        for (_, _, bytes) in parts() {
            join.note(bytes)?;
        }
        for (_, unit, bytes) in parts() {
            join.add(*unit, bytes)?;
        }
        let is_entangled = join.entangled() > 0;
        let bytes = join.take_entangled();
        assert_eq!(bytes.is_some(), is_entangled);
        entangled.extend(bytes);
        let rows = rows(join.into_net())?;
        events += rows.tally().unwrap().events;
        found.push(rows);
    }
    assert!(events < 1 << 20);
    if !entangled.is_empty() {
        let entangled: Vec<&[u8]> = entangled.iter().map(|it| &**it).collect();
        let mut join = NetJoin::new(new());
        join.add_entangled(&entangled)?;
        found.push(rows(join.into_net())?);
    }
    Ok(found)
}

#[derive(Clone, Copy, Debug, arbitrary::Arbitrary)]
struct Choices {
    identity: u8,
    rows: u8,
    deletes: u8,
    is_text: bool,
    is_last: bool,
    ignores_truncates: bool,
    partitions: u8,
    cuts: u64,
    order: u64,
}

fn check(choices: Choices, steps: &[Step]) {
    let is_all = !choices.is_last;
    let mut server = Server::new(is_all, choices.identity, choices.rows);
    let deletes = match choices.deletes % 4 {
        0 => Deletes::Soft,
        1 => Deletes::Ignore,
        _ => Deletes::Apply,
    };
    let is_soft = deletes == Deletes::Soft;
    let start = Target::new(&server.sent(), choices.is_text, is_soft);
    for step in steps {
        server.apply(*step);
    }
    server.commit();
    let bytes = server.stream.bytes();
    if std::env::var("DBG").is_ok() {
        std::fs::write("/tmp/dbg.wire", &bytes).unwrap();
    }
    let mut options = NetOptions::default();
    options.keys = Some(vec!["id".to_owned()]);
    options.deletes = deletes;
    options.never_sent = NeverSent::Null;
    if is_all {
        options.columns = NetColumns::All;
        let known = [("id", 1700), ("part", 25), ("big", 25), ("v", 25)];
        options.known = known
            .map(|(name, oid)| CatalogColumn::new(name, oid, -1))
            .into();
    }
    if choices.is_text {
        options.text_keys = vec!["id".to_owned()];
    }
    if choices.ignores_truncates {
        options.truncates = Truncates::Ignore;
    }
    let new = || begin(&options, false);
    let net = nets(&bytes, &[], new).unwrap().remove(0);
    let single = start.after(vec![rows(net).unwrap()]);
    let net = nets(&bytes, &[], || begin(&options, true))
        .unwrap()
        .remove(0);
    let small = start.after(vec![rows(net).unwrap()]);
    assert_eq!(single, small, "in a file");

    // A replay.
    let columns = choices.is_last.then_some(&*server.columns);
    let expected = Target::new(&server.sent(), choices.is_text, is_soft).live(columns);
    let mut found = single.live(columns);
    if choices.ignores_truncates || deletes == Deletes::Ignore {
        found.retain(|key, _| expected.contains_key(key));
    }
    assert_eq!(found, expected);

    // Any grouping.
    let count = server.transactions;
    let ends: Vec<usize> = (1..count)
        .filter(|at| choices.cuts >> (at % 61) & 1 == 1)
        .collect();
    let mut units = nets(&bytes, &ends, new).unwrap();
    let mut order = choices.order;
    while units.len() > 1 {
        let at = usize::try_from(order % (units.len() as u64 - 1)).unwrap();
        order = order
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1)
            >> 1;
        let next = units.remove(at + 1);
        let first = std::mem::replace(&mut units[at], new());
        units[at] = first.then(next, END).unwrap();
    }
    let grouped = start.after(vec![rows(units.remove(0)).unwrap()]);
    assert_eq!(grouped, single, "grouped");

    let partitions = u32::from(choices.partitions % 8) + 1;
    let units = nets(&bytes, &ends, || begin(&options, true)).unwrap();
    let parts = joined(units, partitions, || begin(&options, true)).unwrap();
    assert_eq!(start.after(parts), single, "in {partitions} partitions");
}

const CHOICES: Choices = Choices {
    identity: 1,
    rows: 0,
    deletes: 0,
    is_text: false,
    is_last: false,
    ignores_truncates: false,
    partitions: 0,
    cuts: 0,
    order: 0,
};

const fn insert(id: u8) -> Step {
    Step::Insert {
        id,
        value: 0,
        lost: false,
    }
}

const fn moved(row: u8, id: u8) -> Step {
    Step::Move {
        row,
        id,
        big: false,
    }
}

/// The target keeps rows from before an ignored truncate, and other rows may get their keys.
#[test]
fn an_update_may_take_a_key_from_before_an_ignored_truncate() {
    let choices = Choices {
        ignores_truncates: true,
        ..CHOICES
    };
    let truncate = Step::Truncate { chance: 0 };
    let swap = Step::Swap { one: 1, other: 0 };
    check(
        choices,
        &[insert(0), truncate, insert(0), moved(0, 1), insert(0), swap],
    );
    // And two rows may share it for a while.
    let add = Step::AddColumn { chance: 0 };
    check(choices, &[insert(0), truncate, add, insert(0), moved(0, 0)]);
}

/// So does the target with rows whose delete is ignored.
#[test]
fn an_update_may_take_the_key_of_an_ignored_delete() {
    let choices = Choices {
        identity: 0,
        deletes: 1,
        is_text: true,
        ..CHOICES
    };
    let delete = Step::Delete { row: 0 };
    let wide = Step::Identity { which: 1 };
    let one = Step::Insert {
        id: 1,
        value: 2,
        lost: false,
    };
    let respell = Step::Respell { row: 0, form: 2 };
    check(
        choices,
        &[one, delete, insert(1), Step::Commit, wide, respell],
    );
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(400),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn net_changes_compose_in_any_grouping(
        choices in arbitrary::<Choices>(40),
        steps in prop::collection::vec(arbitrary::<Step>(8), 0..60),
    ) {
        check(choices, &steps);
    }

    /// Bytes that are no parts are errors.
    #[test]
    fn damaged_parts_are_errors(
        steps in prop::collection::vec(arbitrary::<Step>(8), 0..12),
        cut in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut server = Server::new(true, 0, 3);
        for step in steps {
            server.apply(step);
        }
        server.commit();
        let mut options = NetOptions::default();
        options.keys = Some(vec!["id".to_owned()]);
        options.columns = NetColumns::All;
        let new = || begin(&options, false);
        let net = nets(&server.stream.bytes(), &[], new).unwrap().remove(0);
        for (_, whole) in net.split(2, END).unwrap() {
            let mut part = whole.clone();
            if flips.is_empty() {
                part.truncate(cut.index(whole.len()));
            }
            for (at, flip) in &flips {
                let at = at.index(part.len());
                part[at] ^= flip;
            }
            let read = |part: &[u8]| -> Result<(), NetError> {
                let mut join = NetJoin::new(new());
                join.note(part)?;
                join.add(0, part)?;
                let entangled = join.take_entangled();
                rows(join.into_net())?.read(&mut Vec::new())?;
                let mut join = NetJoin::new(new());
                join.add_entangled(&[part, &entangled.unwrap_or_default()])?;
                rows(join.into_net())?.read(&mut Vec::new())?;
                Ok(())
            };
            let read = read(&part);
            if flips.is_empty() && !part.is_empty() {
                prop_assert!(matches!(read, Err(NetError::Part)));
            }
        }
    }
}
