//! Changes one field of one message to a value that is likely to matter.

use super::frame::{in_stream, read};
use crate::{OwnedCell, OwnedColumn, OwnedCopyData, OwnedFrame, OwnedMessage, OwnedOld, PgText};
use arbitrary::{Result, Unstructured};

/// Changes a field of the message at `place` and encodes it again.
pub(super) fn field(
    frames: &mut [Vec<u8>],
    place: usize,
    u: &mut Unstructured<'_>,
) -> Result<bool> {
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
    *text = match u.int_in_range(0..=6)? {
        0 => "".into(),
        1 => vec![b'n'; u.int_in_range(1..=60_000)?].as_slice().into(),
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
    match u.int_in_range(0..=3)? {
        0 => drop(relations.pop()),
        1 => relations.push(*u.choose(&[16384, 16385, u32::MAX, 1])?),
        2 => {
            let all = relations.clone();
            let times = *u.choose(&[1, 2, 500, 20_000])?;
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
        OwnedMessage::Origin { commit_lsn, name } => {
            if u.arbitrary()? {
                change_lsn(commit_lsn, u)?;
            } else {
                change_text(name, u)?;
            }
        }
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
                if u.ratio(1, 4)? {
                    change_oid(relation, u)?;
                } else {
                    change_cells(new, u)?;
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
            if u.ratio(1, 4)? {
                *options = u.arbitrary()?;
            } else {
                change_relations(relations, u)?;
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
        OwnedMessage::StreamStart { xid, first } => {
            if u.arbitrary()? {
                change_xid(xid, u)?;
            } else {
                *first = !*first;
            }
        }
        OwnedMessage::StreamStop => {
            *message = OwnedMessage::StreamStart {
                xid: 1,
                first: true,
            }
        }
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
        OwnedMessage::BeginPrepare(it)
        | OwnedMessage::Prepare(it)
        | OwnedMessage::StreamPrepare(it)
        | OwnedMessage::CommitPrepared(it) => match u.int_in_range(0..=5)? {
            0 => change_lsn(&mut it.lsn, u)?,
            1 => change_time(&mut it.time, u)?,
            2 => change_xid(&mut it.xid, u)?,
            3 => change_text(&mut it.gid, u)?,
            _ => change_lsn(&mut it.end_lsn, u)?,
        },
        OwnedMessage::RollbackPrepared {
            prepare_end_lsn: lsn,
            rollback_end_lsn: end_lsn,
            prepare_time: time,
            rollback_time: _,
            xid,
            gid,
        } => match u.int_in_range(0..=5)? {
            0 => change_lsn(lsn, u)?,
            1 => change_time(time, u)?,
            2 => change_xid(xid, u)?,
            3 => change_text(gid, u)?,
            _ => change_lsn(end_lsn, u)?,
        },
    }
    Ok(())
}
