//! The results before and after a base backup, and at the end of a timeline.

use super::{Cell, LSN, ReplyError, UNSIGNED, columns};
use crate::{Lsn, Oid, PgString};

/// A result of `BASE_BACKUP`: where the backup starts, and at the end, where it ends.
///
/// ```
/// use walrow_wire::{BackupPosition, Lsn};
/// let position = BackupPosition::from_cells(&[Some(b"0/2000028"), Some(b"1")])?;
/// assert_eq!(position, BackupPosition { lsn: Lsn(0x200_0028), timeline: 1 });
/// # Ok::<(), walrow_wire::ReplyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupPosition {
    /// WAL is needed from the start to the end.
    pub lsn: Lsn,
    /// The timeline of that WAL.
    pub timeline: u32,
}

impl BackupPosition {
    /// Reads the cells of the result's only row.
    pub fn from_cells(cells: &[Option<&[u8]>]) -> Result<Self, ReplyError> {
        let [lsn, timeline] = columns("BASE_BACKUP", cells)?;
        Ok(Self {
            lsn: lsn.parse("recptr", LSN)?,
            timeline: timeline.parse("tli", UNSIGNED)?,
        })
    }
}

/// A row of the second result of `BASE_BACKUP`: one archive that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tablespace<'a> {
    /// The tablespace. `None` for the data directory itself.
    pub oid: Option<Oid>,
    /// Its directory on the server. `None` for the data directory.
    pub location: Option<PgString<'a>>,
    /// The estimated size in kB. `None` if progress was not asked for.
    pub size: Option<u64>,
}

impl<'a> Tablespace<'a> {
    /// Reads the cells of one row.
    pub fn from_cells(cells: &[Option<&'a [u8]>]) -> Result<Self, ReplyError> {
        let [oid, location, size] = columns("BASE_BACKUP", cells)?;
        Ok(Self {
            oid: oid.optional("spcoid", UNSIGNED)?,
            location: location.string,
            size: size.optional("size", UNSIGNED)?,
        })
    }
}

/// The result of `START_REPLICATION` at the end of a timeline that is not the server's latest.
///
/// It comes after the stream, or instead of one if the start is the timeline's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextTimeline {
    /// The timeline that follows in the server's history.
    pub timeline: u32,
    /// Where it begins.
    pub start: Lsn,
}

impl NextTimeline {
    /// Reads the cells of the result's only row.
    pub fn from_cells(cells: &[Option<&[u8]>]) -> Result<Self, ReplyError> {
        let [timeline, start] = columns("START_REPLICATION", cells)?;
        Ok(Self {
            timeline: timeline.parse("next_tli", UNSIGNED)?,
            start: start.parse("next_tli_startpos", LSN)?,
        })
    }
}

impl Cell<'_> {
    fn optional<T: core::str::FromStr>(
        self,
        field: &'static str,
        expected: &'static str,
    ) -> Result<Option<T>, ReplyError> {
        self.string.map(|_| self.parse(field, expected)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_data_directory_has_no_oid() {
        let row = [None, None, Some(&b"30511"[..])];
        let main = Tablespace {
            oid: None,
            location: None,
            size: Some(30_511),
        };
        assert_eq!(Tablespace::from_cells(&row), Ok(main));
        let row = [Some(&b"16391"[..]), Some(&b"/srv/\xFF"[..]), None];
        let other = Tablespace {
            oid: Some(16_391),
            location: Some(PgString(b"/srv/\xFF")),
            size: None,
        };
        assert_eq!(Tablespace::from_cells(&row), Ok(other));
    }

    #[test]
    fn wrong_cells_are_errors_that_name_the_column() {
        let tablespace = |row: [Option<&[u8]>; 3]| Tablespace::from_cells(&row).unwrap_err();
        let oid = [Some(&b"4294967296"[..]), None, None];
        assert_eq!(tablespace(oid).field, "spcoid");
        let size = [None, None, Some(&b"-1"[..])];
        assert_eq!(tablespace(size).field, "size");
        let position = BackupPosition::from_cells(&[Some(b"0/1"), None]).unwrap_err();
        assert_eq!(position.to_string(), "result of BASE_BACKUP: tli is NULL");
        let next = NextTimeline::from_cells(&[Some(b"2"), Some(b"1")]).unwrap_err();
        assert_eq!(
            next.to_string(),
            "result of START_REPLICATION: next_tli_startpos is not an LSN, such as 16/B374D848"
        );
        let next = NextTimeline::from_cells(&[Some(b"2"), Some(b"0/3000000")]);
        let expected = NextTimeline {
            timeline: 2,
            start: Lsn(0x300_0000),
        };
        assert_eq!(next, Ok(expected));
    }
}
