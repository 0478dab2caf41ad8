//! The committed rows of a capture.

use crate::array;
use crate::frames::Messages;
use crate::table::{Change, Run, Table};
use crate::u32_at;

/// Rows of a batch.
const BATCH: usize = 8_192;

/// Reads every cell of the committed rows into typed vectors, hands these over batch by batch, and
/// returns how many row images there are.
///
/// A TRUNCATE counts as one row of each table, without values.
pub fn rows(bytes: &[u8], batch: impl FnMut(Table)) -> usize {
    let mut rows = Rows::new(batch);
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut messages = Messages { rest: bytes };
    while let Some(message) = messages.next() {
        match message[0] {
            b'B' => rows.begin(Run {
                first_row: 0,
                commit_lsn: u64::from_be_bytes(array(&message[1..])),
                commit_time: i64::from_be_bytes(array(&message[9..])),
                xid: u32_at(message, 17),
            }),
            b'S' => {
                let xid = u32_at(message, 1);
                let chunk = rows.chunk(&mut messages);
                match open.iter_mut().find(|open| open.xid == xid) {
                    Some(open) => open.chunks.push(chunk),
                    None => open.push(Open {
                        xid,
                        chunks: vec![chunk],
                        aborted: Vec::new(),
                    }),
                }
            }
            b'A' => {
                let (xid, part) = (u32_at(message, 1), u32_at(message, 5));
                if xid == part {
                    open.retain(|open| open.xid != xid);
                } else if let Some(open) = open.iter_mut().find(|open| open.xid == xid) {
                    open.aborted.push(part);
                }
            }
            b'c' => {
                let xid = u32_at(message, 1);
                rows.begin(Run {
                    first_row: 0,
                    commit_lsn: u64::from_be_bytes(array(&message[6..])),
                    commit_time: i64::from_be_bytes(array(&message[22..])),
                    xid,
                });
                if let Some(at) = open.iter().position(|open| open.xid == xid) {
                    rows.streamed(&open.swap_remove(at));
                }
            }
            kind => rows.change(kind, &message[1..]),
        }
    }
    rows.finish()
}

/// A streamed transaction before its commit.
struct Open<'a> {
    xid: u32,
    chunks: Vec<&'a [u8]>,
    /// Its subtransactions that were rolled back.
    aborted: Vec<u32>,
}

struct Rows<F> {
    batch: F,
    tables: Vec<Table>,
    places: Places,
    /// The OID and the place of the last row's table.
    last: (u32, usize),
    run: Run,
    seq: u64,
    count: usize,
}

impl<F: FnMut(Table)> Rows<F> {
    fn new(batch: F) -> Self {
        Self {
            batch,
            tables: Vec::new(),
            places: Places::default(),
            last: (0, 0),
            run: Run::default(),
            seq: 0,
            count: 0,
        }
    }

    fn begin(&mut self, run: Run) {
        self.run = run;
        self.seq = 0;
    }

    /// The messages up to Stream Stop. Definitions count at once, since their tables never change.
    fn chunk<'a>(&mut self, messages: &mut Messages<'a>) -> &'a [u8] {
        let start = messages.rest;
        loop {
            let end = start.len() - messages.rest.len();
            match messages.next() {
                Some([b'E', ..]) => return &start[..end],
                Some([b'R', message @ ..]) => self.relation(&message[4..]),
                Some(_) => {}
                None => panic!("a chunk without its end"),
            }
        }
    }

    fn streamed(&mut self, open: &Open<'_>) {
        for chunk in &open.chunks {
            for message in (Messages { rest: chunk }) {
                if open.aborted.is_empty() || !open.aborted.contains(&u32_at(message, 1)) {
                    self.change(message[0], &message[5..]);
                }
            }
        }
    }

    /// Reads a message inside of a transaction, without its letter and the ID of its transaction.
    #[inline(always)]
    fn change(&mut self, kind: u8, body: &[u8]) {
        match kind {
            b'I' => self.row(Change::Insert, body),
            b'U' => self.row(Change::Postimage, body),
            b'D' => self.row(Change::Delete, body),
            b'R' => self.relation(body),
            b'T' => self.truncate(body),
            _ => {}
        }
    }

    /// Makes the table of a relation that is new.
    fn relation(&mut self, body: &[u8]) {
        let oid = u32_at(body, 0);
        if self.places.find(oid).is_none() {
            self.places.add(oid);
            self.tables.push(Table::new(body));
        }
    }

    fn truncate(&mut self, body: &[u8]) {
        let (oids, _) = body[5..].as_chunks::<4>();
        for oid in oids {
            let table = self.find(u32::from_be_bytes(*oid));
            self.tables[table].push_truncate(&self.run, self.seq);
            self.count += 1;
        }
        self.seq += 1;
    }

    #[inline(always)]
    fn row(&mut self, change: Change, body: &[u8]) {
        let Some(([oid @ .., letter], tuple)) = body.split_first_chunk::<5>() else {
            panic!("a row without its relation");
        };
        let oid = u32::from_be_bytes(*oid);
        if self.last.0 != oid {
            self.last = (oid, self.find(oid));
        }
        let table = &mut self.tables[self.last.1];
        if change == Change::Postimage && *letter != b'N' {
            let is_whole = *letter == b'O';
            let new = &table.push(&self.run, self.seq, Change::Preimage, tuple)[1..];
            table.push_after(&self.run, self.seq, is_whole, new);
            self.count += 2;
        } else {
            table.push(&self.run, self.seq, change, tuple);
            self.count += 1;
        }
        if table.seq.len() >= BATCH {
            (self.batch)(table.take());
        }
        self.seq += 1;
    }

    fn find(&self, oid: u32) -> usize {
        let place = self.places.find(oid);
        place.unwrap_or_else(|| panic!("rows of an unknown relation"))
    }

    fn finish(mut self) -> usize {
        self.tables.into_iter().for_each(&mut self.batch);
        self.count
    }
}

/// The places of tables by OID: open addressing, as OIDs are close to each other.
#[derive(Default)]
struct Places {
    /// An OID and a place; 0 is no OID. Their number is a power of two, at most half are taken.
    slots: Vec<(u32, usize)>,
    count: usize,
}

impl Places {
    #[inline]
    fn find(&self, oid: u32) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = oid as usize & mask;
        loop {
            match self.slots[at] {
                (0, _) => return None,
                (taken, place) if taken == oid => return Some(place),
                _ => at = (at + 1) & mask,
            }
        }
    }

    fn add(&mut self, oid: u32) {
        if (self.count + 1) * 2 > self.slots.len() {
            let size = (self.slots.len() * 2).max(16);
            let slots = std::mem::replace(&mut self.slots, vec![(0, 0); size]);
            for (oid, place) in slots {
                self.put(oid, place);
            }
        }
        self.put(oid, self.count);
        self.count += 1;
    }

    fn put(&mut self, oid: u32, place: usize) {
        let mask = self.slots.len() - 1;
        let mut at = oid as usize & mask;
        while self.slots[at].0 != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = (oid, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_again() {
        let mut places = Places::default();
        let oids: Vec<u32> = (0..1_000_u32).map(|n| 16_384 + n * n).collect();
        for oid in &oids {
            assert_eq!(places.find(*oid), None);
            places.add(*oid);
        }
        let found: Vec<_> = oids.iter().filter_map(|oid| places.find(*oid)).collect();
        assert_eq!(found, (0..1_000).collect::<Vec<_>>());
    }
}
