//! One change of a stream: of its frames, of a field of a message, or of raw bytes.

use super::knobs;
use super::source::swell;
use crate::{OwnedCell, OwnedColumn, OwnedCopyData, OwnedFrame, OwnedMessage, OwnedOld, PgText};
use arbitrary::{Result, Unstructured};
use walrow_wire::{BackendMessage, Frame};

/// Changes the stream in one place; whether there was one.
pub(super) fn mutate(
    frames: &mut Vec<Vec<u8>>,
    other: &[Vec<u8>],
    u: &mut Unstructured<'_>,
) -> Result<bool> {
    let kind = u.int_in_range(0..=33_u8)?;
    let Some(last) = frames.len().checked_sub(1) else {
        return Ok(false);
    };
    let place = usize::from(u.arbitrary::<u16>()?) % (last + 1);
    match kind {
        0 | 1 => drop(frames.remove(place)),
        2 | 3 => {
            let double = frames[place].clone();
            frames.insert(place, double);
        }
        4 => {
            let frame = frames.remove(place);
            let to = u.int_in_range(0..=last)?;
            frames.insert(to, frame);
        }
        5 => frames.swap(place, u.int_in_range(0..=last)?),
        6 | 7 => {
            let from = usize::from(u.arbitrary::<u16>()?) % other.len().max(1);
            let run = u.int_in_range(1..=8)?;
            let run = other.iter().skip(from).take(run).cloned();
            frames.splice(place..place, run.collect::<Vec<_>>());
        }
        8 => {
            let end = u.int_in_range(0..=frames[place].len())?;
            frames[place].truncate(end);
            frames.truncate(place + 1);
        }
        9 => {
            let bytes: [u8; 6] = u.arbitrary()?;
            frames.insert(place, bytes[..u.int_in_range(0..=6)?].to_vec());
        }
        10 => {
            let session = OwnedFrame::CopyBothResponse {
                format: 0,
                columns: Vec::new(),
            };
            frames.insert(place, session.bytes());
        }
        11 => {
            let fields = vec![(b'S', "ERROR".into()), (b'C', "57P01".into())];
            frames.insert(place, OwnedFrame::ErrorResponse(fields).bytes());
        }
        12 => swell(frames, u.arbitrary()?),
        13 | 14 => raw(&mut frames[place], u)?,
        15 => {
            // A run of frames that is lost, as where a file was cut in the middle.
            let end = (place + u.int_in_range(2..=20)?).min(last + 1);
            frames.drain(place..end);
        }
        16 | 17 => return Ok(unannounce(frames, place, u.arbitrary()?)),
        _ => return field(frames, place, u),
    }
    Ok(true)
}

/// The kind of the message in a frame.
fn kind_of(frame: &[u8]) -> Option<u8> {
    match (frame.first()?, frame.get(5)?) {
        (b'd', b'w') => frame.get(30).copied(),
        _ => None,
    }
}

/// Removes what begins a prepared transaction, and its Prepare too or not.
fn unannounce(frames: &mut Vec<Vec<u8>>, place: usize, all: bool) -> bool {
    let is = |frame: &Vec<u8>, kind| kind_of(frame) == Some(kind);
    let begin = (place..frames.len()).chain(0..place).find(|at| is(&frames[*at], b'b'));
    let Some(begin) = begin else {
        return false;
    };
    let end = (begin..frames.len()).find(|at| is(&frames[*at], b'P'));
    let end = end.map_or(begin, |end| end + usize::from(all));
    frames.drain(begin..end);
    true
}

const DATES: [&[u8]; 8] = [
    b"infinity",
    b"2024-01-01",
    b"-infinity",
    b"0044-03-15 BC",
    b"infinity",
    b"1999-12-31",
    b"2024-02-29",
    b"2024-02-30",
];
const NUMERICS: [&[u8]; 8] = [
    b"NaN",
    b"1.5",
    b"Infinity",
    b"-0.001",
    b"123456789012345678901234567890123456789012",
    b"0",
    b"NaN",
    b"1e5",
];
const ARRAYS: [&[u8]; 8] = [
    b"{1,2}",
    b"[0:1]={1,2}",
    b"{}",
    b"{NULL,3}",
    b"[2:2]={1}",
    b"{{1,2},{3,4}}",
    b"[0:1]={5,6}",
    b"{1",
];
const TIMESTAMPS: [&[u8]; 8] = [
    b"infinity",
    b"2024-01-01 00:00:00+00",
    b"-infinity",
    b"2024-01-01 00:00:00.123456+00",
    b"infinity",
    b"0001-01-01 00:00:00+00 BC",
    b"294276-12-31 23:59:59.999999+00",
    b"2024-13-01 00:00:00+00",
];
const TEXTS: [&[u8]; 8] = [
    b"a",
    b"\xFF",
    b"",
    b"\xC0\x80",
    b"b",
    b"\xE2\x82",
    "\u{1F422}".as_bytes(),
    b"c",
];

/// Makes the second column of all tables one of another type, with values of that type, which may
/// be none that its column can hold, and here and there none at all.
pub(super) fn retype(frames: &mut [Vec<u8>], kind: u8) {
    let (oid, values): (u32, [&[u8]; 8]) = match kind % 5 {
        0 => (1082, DATES),
        1 => (1700, NUMERICS),
        2 => (1007, ARRAYS),
        3 => (1184, TIMESTAMPS),
        _ => (25, TEXTS),
    };
    let mut told = 0;
    let mut retyped = |cells: &mut Vec<OwnedCell>| {
        if let Some(cell @ (OwnedCell::Text(_) | OwnedCell::Null)) = cells.get_mut(1) {
            // The last value, at times malformed, is rare.
            let last = told % 29 == 28;
            let value = values[if last { 7 } else { told % 7 }];
            *cell = OwnedCell::Text(value.to_vec());
            if last && oid == 25 {
                // Any text is one: the row is at fault instead.
                cells.push(OwnedCell::Null);
            }
            told += 1;
        }
    };
    for place in 0..frames.len() {
        let in_stream = in_stream(&frames[..place]);
        let Some(mut frame) = read(&frames[place], in_stream) else {
            continue;
        };
        let OwnedFrame::CopyData(OwnedCopyData::XLogData { message, .. }) = &mut frame else {
            continue;
        };
        match message {
            OwnedMessage::Relation { columns, .. } => {
                if let Some(column) = columns.get_mut(1) {
                    column.type_oid = oid;
                }
            }
            OwnedMessage::Insert { new, .. } => retyped(new),
            OwnedMessage::Update { old, new, .. } => {
                if let Some(OwnedOld::Full(cells)) = old {
                    retyped(cells);
                }
                retyped(new);
            }
            OwnedMessage::Delete {
                old: OwnedOld::Full(cells),
                ..
            } => retyped(cells),
            _ => continue,
        }
        frames[place] = frame.bytes();
    }
}

/// Gives all tables, or the second column of each, a name that is long for a server.
pub(super) fn rename(frames: &mut [Vec<u8>], column: bool) {
    let long = if knobs::NAMES_ARE_BOUNDED { 60_000 } else { 1000 };
    for place in 0..frames.len() {
        let in_stream = in_stream(&frames[..place]);
        if let Some(OwnedFrame::CopyData(OwnedCopyData::XLogData {
            start,
            end,
            clock,
            message: mut relation,
        })) = read(&frames[place], in_stream)
            && let OwnedMessage::Relation { name, columns, .. } = &mut relation
        {
            let name = columns.get_mut(1).filter(|_| column).map_or(name, |it| &mut it.name);
            *name = [name.as_bytes(), &vec![b'n'; long]].concat().as_slice().into();
            let data = OwnedCopyData::XLogData {
                start,
                end,
                clock,
                message: relation,
            };
            frames[place] = OwnedFrame::CopyData(data).bytes();
        }
    }
}

fn read(frame: &[u8], in_stream: bool) -> Option<OwnedFrame> {
    let (frame, _) = Frame::parse(frame).ok()??;
    OwnedFrame::read(&BackendMessage::parse(frame).ok()?, in_stream).ok()
}

/// Changes a length, a kind or any other byte.
fn raw(frame: &mut Vec<u8>, u: &mut Unstructured<'_>) -> Result<()> {
    if frame.is_empty() {
        return Ok(());
    }
    let kind = [0, 5, 30];
    match u.int_in_range(0..=3)? {
        0 if frame.len() >= 5 => {
            let length: u32 = match u.int_in_range(0..=4)? {
                0 => u.int_in_range(0..=64)?,
                1 => 1 << 30,
                2 => (1 << 30) + 1,
                3 => u32::MAX,
                _ => u.int_in_range(1 << 16..=1 << 26)?,
            };
            frame[1..5].copy_from_slice(&length.to_be_bytes());
        }
        1 => {
            let at = *u.choose(&kind)? % frame.len();
            frame[at] = *u.choose(b"BCOUIDTRYMSEcAbPKrpwkWdNhrZ")?;
        }
        2 if frame.len() >= 34 => {
            // Most likely a length, a count or a number of 32 bits.
            let at = u.int_in_range(30..=frame.len() - 4)?;
            let value = *u.choose(&[0, 1, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, u32::MAX])?;
            frame[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        _ => {
            let at = u.choose_index(frame.len())?;
            frame[at] ^= u.int_in_range(1..=255)?;
        }
    }
    Ok(())
}

/// Changes a field of the message at `place` and writes it again.
fn field(frames: &mut [Vec<u8>], place: usize, u: &mut Unstructured<'_>) -> Result<bool> {
    let in_stream = in_stream(&frames[..place]);
    let Some(mut frame) = read(&frames[place], in_stream) else {
        return Ok(false);
    };
    match &mut frame {
        OwnedFrame::CopyData(OwnedCopyData::XLogData {
            start,
            end,
            message,
            ..
        }) => {
            if u.ratio(1, 8)? {
                change_lsn(start, u)?;
                if u.arbitrary()? {
                    *end = *start;
                }
            } else {
                change(message, u)?;
            }
        }
        OwnedFrame::CopyData(OwnedCopyData::PrimaryKeepalive { end, .. }) => change_lsn(end, u)?,
        _ => return Ok(false),
    }
    frames[place] = frame.bytes();
    Ok(true)
}

/// Whether what follows these frames stands in a stream block.
fn in_stream(frames: &[Vec<u8>]) -> bool {
    let mut blocks = frames.iter().rev().filter_map(|frame| {
        match (frame.first()?, kind_of(frame)) {
            (_, Some(b'S')) => Some(true),
            (_, Some(b'E')) | (b'W' | b'E', _) => Some(false),
            _ => None,
        }
    });
    blocks.next().unwrap_or(false)
}

fn change_lsn(lsn: &mut u64, u: &mut Unstructured<'_>) -> Result<()> {
    *lsn = match u.int_in_range(0..=7)? {
        0 | 1 => 0,
        2 => u64::MAX,
        3 => 1 << 63,
        4 => lsn.wrapping_add(1),
        5 => lsn.wrapping_sub(1),
        6 => lsn.wrapping_add(0x10000),
        _ => lsn.wrapping_sub(0x10000),
    };
    Ok(())
}

fn change_xid(xid: &mut u32, u: &mut Unstructured<'_>) -> Result<()> {
    *xid = match u.int_in_range(0..=5)? {
        0 => 0,
        1 => u32::MAX,
        2 => xid.wrapping_sub(1),
        3 => 701,
        _ => xid.wrapping_add(u.int_in_range(1..=3)?),
    };
    Ok(())
}

fn change_oid(oid: &mut u32, u: &mut Unstructured<'_>) -> Result<()> {
    *oid = *u.choose(&[0, 16384, 16385, u32::MAX, oid.wrapping_add(1), 20, 1700])?;
    Ok(())
}

fn change_time(time: &mut i64, u: &mut Unstructured<'_>) -> Result<()> {
    *time = *u.choose(&[0, i64::MAX, i64::MIN, time.wrapping_add(1), -1])?;
    Ok(())
}

fn change_text(text: &mut PgText, u: &mut Unstructured<'_>) -> Result<()> {
    let most = if knobs::NAMES_ARE_BOUNDED { 60_000 } else { 1000 };
    *text = match u.int_in_range(0..=6)? {
        0 => "".into(),
        1 => vec![b'n'; u.int_in_range(1..=most)?].as_slice().into(),
        2 => b"\xFF\xC0".as_slice().into(),
        3 => "t16384".into(),
        4 => "t16385".into(),
        5 => "id".into(),
        _ => "gid 701".into(),
    };
    Ok(())
}

fn change_option(xid: &mut Option<u32>, u: &mut Unstructured<'_>) -> Result<bool> {
    match xid {
        Some(xid) if u.ratio(1, 3)? => change_xid(xid, u).map(|()| true),
        _ => Ok(false),
    }
}

fn change_cells(cells: &mut Vec<OwnedCell>, u: &mut Unstructured<'_>) -> Result<()> {
    let at = u.int_in_range(0..=cells.len())?;
    match (u.int_in_range(0..=7)?, cells.get_mut(at)) {
        (0, Some(_)) => drop(cells.remove(at)),
        (1, _) => cells.insert(at, OwnedCell::Null),
        (2, Some(cell)) => *cell = OwnedCell::Unchanged,
        (3, Some(cell)) => *cell = OwnedCell::Binary(vec![0, 0, 0, 7]),
        (4, Some(cell)) => *cell = OwnedCell::Text(vec![b'9'; u.int_in_range(0..=60_000)?]),
        (5, Some(cell)) => *cell = OwnedCell::Text(b"infinity".to_vec()),
        (6, Some(cell)) => *cell = OwnedCell::Text(b"\xFF".to_vec()),
        (_, Some(cell)) => *cell = OwnedCell::Null,
        (_, None) => cells.extend(vec![OwnedCell::Null; 300]),
    }
    Ok(())
}

fn change_columns(columns: &mut Vec<OwnedColumn>, u: &mut Unstructured<'_>) -> Result<()> {
    let at = u.int_in_range(0..=columns.len())?;
    match (u.int_in_range(0..=6)?, columns.get_mut(at)) {
        (0, Some(_)) => drop(columns.remove(at)),
        (1, Some(column)) => column.flags ^= 1,
        (2, Some(column)) => change_text(&mut column.name, u)?,
        (3, Some(column)) => column.type_oid = *u.choose(&[16, 20, 1082, 1184, 1700, 0, 99_999])?,
        (4, Some(column)) => column.type_modifier = *u.choose(&[0, 8, 655_366, i32::MAX])?,
        (5, Some(column)) => {
            let column = column.clone();
            columns.push(column);
        }
        _ => {
            let column = |at: usize| OwnedColumn {
                flags: 0,
                name: format!("extra{at}").as_str().into(),
                type_oid: 25,
                type_modifier: -1,
            };
            columns.extend((0..u.int_in_range(1..=300)?).map(column));
        }
    }
    Ok(())
}

fn change_relations(relations: &mut Vec<u32>, u: &mut Unstructured<'_>) -> Result<()> {
    let most = if knobs::TRUNCATE_IS_BOUNDED { 50_000 } else { 8 };
    match u.int_in_range(0..=3)? {
        0 => drop(relations.pop()),
        1 => relations.push(*u.choose(&[16384, 16385, u32::MAX, 1])?),
        2 => {
            let all = relations.clone();
            let times = u.int_in_range(0..=most)?;
            relations.extend(all.iter().cycle().take(times * all.len().min(1)));
        }
        _ => relations.clear(),
    }
    Ok(())
}

fn change(message: &mut OwnedMessage, u: &mut Unstructured<'_>) -> Result<()> {
    match message {
        OwnedMessage::Begin {
            final_lsn,
            commit_time,
            xid,
        } => match u.int_in_range(0..=2)? {
            0 => change_lsn(final_lsn, u)?,
            1 => change_time(commit_time, u)?,
            _ => change_xid(xid, u)?,
        },
        OwnedMessage::Commit {
            commit_lsn,
            end_lsn,
            commit_time,
        } => match u.int_in_range(0..=3)? {
            0 => change_lsn(commit_lsn, u)?,
            1 => change_time(commit_time, u)?,
            _ => change_lsn(end_lsn, u)?,
        },
        OwnedMessage::Origin { commit_lsn, name } => match u.arbitrary()? {
            true => change_lsn(commit_lsn, u)?,
            false => change_text(name, u)?,
        },
        OwnedMessage::Relation {
            xid,
            oid,
            namespace,
            name,
            replica_identity,
            columns,
        } => {
            if change_option(xid, u)? {
                return Ok(());
            }
            match u.int_in_range(0..=7)? {
                0 => change_oid(oid, u)?,
                1 => change_text(namespace, u)?,
                2 => change_text(name, u)?,
                3 => *replica_identity = crate::message::identity(u)?,
                _ => change_columns(columns, u)?,
            }
        }
        OwnedMessage::Type {
            xid,
            oid,
            namespace,
            name,
        } => {
            if !change_option(xid, u)? {
                change_oid(oid, u)?;
                change_text(if u.arbitrary()? { namespace } else { name }, u)?;
            }
        }
        OwnedMessage::Insert { xid, relation, new } => {
            if !change_option(xid, u)? {
                match u.ratio(1, 4)? {
                    true => change_oid(relation, u)?,
                    false => change_cells(new, u)?,
                }
            }
        }
        OwnedMessage::Update {
            xid,
            relation,
            old,
            new,
        } => {
            if change_option(xid, u)? {
                return Ok(());
            }
            match (u.int_in_range(0..=5)?, &mut *old) {
                (0, _) => change_oid(relation, u)?,
                (1, Some(OwnedOld::Key(cells) | OwnedOld::Full(cells))) => change_cells(cells, u)?,
                (2, Some(_)) => *old = None,
                (2 | 3, _) => *old = Some(OwnedOld::Full(new.clone())),
                _ => change_cells(new, u)?,
            }
        }
        OwnedMessage::Delete { xid, relation, old } => {
            if change_option(xid, u)? {
                return Ok(());
            }
            let (OwnedOld::Key(cells) | OwnedOld::Full(cells)) = &mut *old;
            match u.int_in_range(0..=3)? {
                0 => change_oid(relation, u)?,
                1 => *old = OwnedOld::Key(cells.clone()),
                _ => change_cells(cells, u)?,
            }
        }
        OwnedMessage::Truncate {
            xid,
            options,
            relations,
        } => {
            if change_option(xid, u)? {
                return Ok(());
            }
            match u.ratio(1, 4)? {
                true => *options = u.arbitrary()?,
                false => change_relations(relations, u)?,
            }
        }
        OwnedMessage::Message {
            xid,
            transactional,
            lsn,
            prefix,
            content,
        } => {
            if change_option(xid, u)? {
                return Ok(());
            }
            match u.int_in_range(0..=3)? {
                0 => *transactional = !*transactional,
                1 => change_lsn(lsn, u)?,
                2 => change_text(prefix, u)?,
                _ => *content = vec![0; u.int_in_range(0..=100_000)?],
            }
        }
        OwnedMessage::StreamStart { xid, first } => match u.arbitrary()? {
            true => change_xid(xid, u)?,
            false => *first = !*first,
        },
        OwnedMessage::StreamStop => *message = OwnedMessage::StreamStart { xid: 1, first: true },
        OwnedMessage::StreamCommit {
            xid,
            commit_lsn,
            end_lsn,
            commit_time,
        } => match u.int_in_range(0..=4)? {
            0 => change_xid(xid, u)?,
            1 => change_time(commit_time, u)?,
            2 => change_lsn(commit_lsn, u)?,
            _ => change_lsn(end_lsn, u)?,
        },
        OwnedMessage::StreamAbort { xid, subxid, abort } => match u.int_in_range(0..=3)? {
            0 => change_xid(xid, u)?,
            1 => *subxid = *xid,
            2 => *abort = abort.xor(Some((0, 0))),
            _ => change_xid(subxid, u)?,
        },
        OwnedMessage::BeginPrepare {
            prepare_lsn,
            end_lsn,
            prepare_time,
            xid,
            gid,
        }
        | OwnedMessage::Prepare {
            prepare_lsn,
            end_lsn,
            prepare_time,
            xid,
            gid,
        }
        | OwnedMessage::StreamPrepare {
            prepare_lsn,
            end_lsn,
            prepare_time,
            xid,
            gid,
        }
        | OwnedMessage::CommitPrepared {
            commit_lsn: prepare_lsn,
            end_lsn,
            commit_time: prepare_time,
            xid,
            gid,
        }
        | OwnedMessage::RollbackPrepared {
            prepare_end_lsn: prepare_lsn,
            rollback_end_lsn: end_lsn,
            prepare_time,
            rollback_time: _,
            xid,
            gid,
        } => match u.int_in_range(0..=5)? {
            0 => change_lsn(prepare_lsn, u)?,
            1 => change_time(prepare_time, u)?,
            2 => change_xid(xid, u)?,
            3 => change_text(gid, u)?,
            _ => change_lsn(end_lsn, u)?,
        },
    }
    Ok(())
}
