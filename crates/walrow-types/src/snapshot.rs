//! `pg_snapshot` and `txid_snapshot`: “Transaction ID and Snapshot Information Functions”.
//!
//! ```text
//! text    10:20:10,14     xmin: the first ID in progress; xmax: the first unassigned ID; all IDs in progress between them
//! binary  i32 count | u64 xmin | u64 xmax | u64 of each between them that is in progress
//! ```

use crate::digits::write_decimal;
use crate::error::CellError;
use crate::pg_type::{PgType, known, text_from_binary};

/// `pg_snapshot` and `txid_snapshot`.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot;

known!(Snapshot: PG_SNAPSHOT, TXID_SNAPSHOT;);

impl PgType for Snapshot {
    text_from_binary!(snapshot_text_from_binary);
}

/// Appends the text of a binary `pg_snapshot` or `txid_snapshot`.
fn snapshot_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    let (count, rest) = cell.split_first_chunk::<4>().ok_or(NOT_A_SNAPSHOT)?;
    let (xids, surplus) = rest.as_chunks::<8>();
    let [xmin, xmax, running @ ..] = xids else {
        return Err(NOT_A_SNAPSHOT);
    };
    if !surplus.is_empty() || usize::try_from(i32::from_be_bytes(*count)) != Ok(running.len()) {
        return Err(NOT_A_SNAPSHOT);
    }
    write_decimal(u64::from_be_bytes(*xmin), out);
    out.push(b':');
    write_decimal(u64::from_be_bytes(*xmax), out);
    let mut before = Some(b':');
    for xid in running {
        out.push(before.take().unwrap_or(b','));
        write_decimal(u64::from_be_bytes(*xid), out);
    }
    out.extend(before);
    Ok(())
}

const NOT_A_SNAPSHOT: CellError = CellError::Malformed("a count and as many transaction IDs");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pg_type::tests::rendered;

    #[test]
    fn snapshots_list_running_transactions() {
        let sent = |xids: &[u64]| {
            let count = i32::try_from(xids.len() - 2).unwrap();
            let mut cell = count.to_be_bytes().to_vec();
            cell.extend(xids.iter().flat_map(|xid| xid.to_be_bytes()));
            cell
        };
        for (text, xids) in [
            ("10:20:10,14,15", &[10, 20, 10, 14, 15][..]),
            ("10:20:", &[10, 20]),
            ("1:1:", &[1, 1]),
        ] {
            let cell = sent(xids);
            assert_eq!(
                rendered(snapshot_text_from_binary, &cell).as_deref(),
                Ok(text)
            );
            for end in 0..cell.len() {
                assert!(rendered(snapshot_text_from_binary, &cell[..end]).is_err());
            }
        }
        let mut wrong = sent(&[1, 1]);
        wrong[0] = 0xff;
        assert!(rendered(snapshot_text_from_binary, &wrong).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(cell: Vec<u8>) {
            let _ = rendered(snapshot_text_from_binary, &cell);
        }
    }
}
