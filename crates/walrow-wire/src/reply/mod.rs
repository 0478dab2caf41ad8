//! The results of replication commands: rows of text, as typed values.
//!
//! The cells come from [`DataRow::values`](crate::DataRow::values), or from a driver's result.

mod backup;

pub use backup::{BackupPosition, NextTimeline, Tablespace};

use crate::{Lsn, PgString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// The result of `IDENTIFY_SYSTEM`.
///
/// ```
/// use walrow_wire::{IdentifySystem, Lsn};
/// let cells: [Option<&[u8]>; 4] =
///     [Some(b"7710955664492145510"), Some(b"1"), Some(b"0/16EFED0"), Some(b"shop")];
/// let system = IdentifySystem::from_cells(&cells)?;
/// assert_eq!(system.xlogpos, Lsn(0x16E_FED0));
/// # Ok::<(), walrow_wire::ReplyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdentifySystem<'a> {
    /// Identifies the cluster. Its standbys have the same.
    pub system_identifier: u64,
    /// The current timeline.
    pub timeline: u32,
    /// The end of the WAL that is flushed, on a standby also replayed.
    pub xlogpos: Lsn,
    /// The database. `None` on a connection for physical replication.
    pub database: Option<PgString<'a>>,
}

impl<'a> IdentifySystem<'a> {
    /// Reads the cells of the result's only row.
    pub fn from_cells(cells: &[Option<&'a [u8]>]) -> Result<Self, ReplyError> {
        let [system_identifier, timeline, xlogpos, database] = columns("IDENTIFY_SYSTEM", cells)?;
        Ok(Self {
            system_identifier: system_identifier.parse("systemid", UNSIGNED)?,
            timeline: timeline.parse("timeline", UNSIGNED)?,
            xlogpos: xlogpos.parse("xlogpos", LSN)?,
            database: database.string,
        })
    }
}

/// The result of `TIMELINE_HISTORY`: how the server came to a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineHistory<'a> {
    /// The history file's name, such as `00000002.history`.
    pub filename: PgString<'a>,
    /// The file's bytes, with its comments.
    pub content: PgString<'a>,
    /// The earlier timelines and their ends, oldest first.
    pub switches: Vec<TimelineSwitch<'a>>,
}

/// The end of a timeline, where the next one of the history begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineSwitch<'a> {
    /// The timeline that ends.
    pub timeline: u32,
    /// Its end. The same LSN at or after it is another place in the WAL of the next timeline.
    pub end: Lsn,
    /// Why it ended, in the server's words.
    pub reason: PgString<'a>,
}

impl<'a> TimelineHistory<'a> {
    /// Reads the cells of the result's only row.
    pub fn from_cells(cells: &[Option<&'a [u8]>]) -> Result<Self, ReplyError> {
        let [filename, content] = columns("TIMELINE_HISTORY", cells)?;
        let content = content.present("content")?;
        Ok(Self {
            filename: filename.present("filename")?,
            content,
            switches: Self::parse_content(content.0)?,
        })
    }

    /// Parses a history file: a line per timeline, with its end and a reason.
    ///
    /// As in the server, empty lines and comments do not count, and timelines only increase.
    ///
    /// ```
    /// use walrow_wire::{Lsn, TimelineHistory};
    /// let switches = TimelineHistory::parse_content(b"1\t0/30000A0\tno recovery target specified\n")?;
    /// assert_eq!((switches[0].timeline, switches[0].end), (1, Lsn(0x300_00A0)));
    /// # Ok::<(), walrow_wire::ReplyError>(())
    /// ```
    pub fn parse_content(content: &'a [u8]) -> Result<Vec<TimelineSwitch<'a>>, ReplyError> {
        let mut switches: Vec<TimelineSwitch<'a>> = Vec::new();
        for line in content.split(|byte| *byte == b'\n') {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let (timeline, rest) = field(line);
            let (end, reason) = field(rest);
            let timeline = history_field(timeline).parse("timeline", UNSIGNED)?;
            if switches
                .last()
                .is_some_and(|last| last.timeline >= timeline)
            {
                return Err(history_field(line).invalid("timeline", "later than the one before"));
            }
            switches.push(TimelineSwitch {
                timeline,
                end: history_field(end).parse("switch point", LSN)?,
                reason: PgString(reason),
            });
        }
        Ok(switches)
    }
}

/// The first field of a line, and the rest without the space between them.
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    let end = line.iter().position(u8::is_ascii_whitespace);
    let (field, rest) = line.split_at(end.unwrap_or(line.len()));
    (field, rest.trim_ascii_start())
}

const fn history_field(bytes: &[u8]) -> Cell<'_> {
    Cell {
        reply: "TIMELINE_HISTORY",
        string: Some(PgString(bytes)),
    }
}

/// The result of `CREATE_REPLICATION_SLOT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreatedSlot<'a> {
    /// The slot.
    pub name: PgString<'a>,
    /// From here on, the slot has all changes. 0/0 for a physical slot.
    pub consistent_point: Lsn,
    /// The exported snapshot. It ends with the connection's next command.
    pub snapshot: Option<PgString<'a>>,
    /// The plugin. `None` for a physical slot.
    pub plugin: Option<PgString<'a>>,
}

impl<'a> CreatedSlot<'a> {
    /// Reads the cells of the result's only row.
    pub fn from_cells(cells: &[Option<&'a [u8]>]) -> Result<Self, ReplyError> {
        let [name, consistent_point, snapshot, plugin] = columns("CREATE_REPLICATION_SLOT", cells)?;
        Ok(Self {
            name: name.present("slot_name")?,
            consistent_point: consistent_point.parse("consistent_point", LSN)?,
            snapshot: snapshot.string,
            plugin: plugin.string,
        })
    }
}

/// The result of `READ_REPLICATION_SLOT`: a physical slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhysicalSlot {
    /// The oldest WAL that the slot keeps. `None` before its first use.
    pub restart_lsn: Option<Lsn>,
    /// The timeline of that WAL.
    pub restart_timeline: Option<u32>,
}

impl PhysicalSlot {
    /// Reads the cells of the result's only row. `None`: there is no such slot.
    pub fn from_cells(cells: &[Option<&[u8]>]) -> Result<Option<Self>, ReplyError> {
        let [slot_type, restart_lsn, timeline] = columns("READ_REPLICATION_SLOT", cells)?;
        let Some(found) = slot_type.string else {
            return Ok(None);
        };
        if found != "physical" {
            return Err(slot_type.invalid("slot_type", "physical"));
        }
        let restart_lsn = restart_lsn
            .string
            .map(|_| restart_lsn.parse("restart_lsn", LSN));
        let timeline = timeline
            .string
            .map(|_| timeline.parse("restart_tli", UNSIGNED));
        Ok(Some(Self {
            restart_lsn: restart_lsn.transpose()?,
            restart_timeline: timeline.transpose()?,
        }))
    }
}

/// The result of `SHOW`: a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<'a> {
    /// The value with its unit, as SHOW writes it: `16MB`.
    pub value: PgString<'a>,
}

impl<'a> Setting<'a> {
    /// Reads the cells of the result's only row.
    pub fn from_cells(cells: &[Option<&'a [u8]>]) -> Result<Self, ReplyError> {
        let [value] = columns("SHOW", cells)?;
        Ok(Self {
            value: value.present("value")?,
        })
    }
}

/// A result that no server sends: its command and its column. Never contains the value.
///
/// `{:?}` prints the text of `{}`, and `{:#?}` the fields.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplyError {
    /// The command: `"IDENTIFY_SYSTEM"`.
    pub reply: &'static str,
    /// The column, or the field of a history file.
    pub field: &'static str,
    /// The kind of the error.
    pub kind: ReplyErrorKind,
}

/// The kind of an error in a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyErrorKind {
    /// The result has another number of columns.
    Columns {
        /// The columns of this result.
        expected: usize,
        /// The columns that are there.
        found: usize,
    },
    /// NULL, where there must be a value.
    Null,
    /// A value that the column does not allow.
    InvalidValue {
        /// The values that the column allows.
        expected: &'static str,
    },
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "result of {}: {} ", self.reply, self.field)?;
        match self.kind {
            ReplyErrorKind::Columns { expected, found } => {
                write!(f, "are {found} instead of {expected}")
            }
            ReplyErrorKind::Null => f.write_str("is NULL"),
            ReplyErrorKind::InvalidValue { expected } => write!(f, "is not {expected}"),
        }
    }
}

impl fmt::Debug for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        let Self { reply, field, kind } = self;
        f.debug_struct("ReplyError")
            .field("reply", reply)
            .field("field", field)
            .field("kind", kind)
            .finish()
    }
}

impl core::error::Error for ReplyError {}

/// One cell, with the command that it answers, for errors.
#[derive(Clone, Copy)]
struct Cell<'a> {
    reply: &'static str,
    string: Option<PgString<'a>>,
}

const UNSIGNED: &str = "a decimal number in its range";
const LSN: &str = "an LSN, such as 16/B374D848";

fn columns<'a, const N: usize>(
    reply: &'static str,
    cells: &[Option<&'a [u8]>],
) -> Result<[Cell<'a>; N], ReplyError> {
    let cells: &[Option<&[u8]>; N] = cells.try_into().map_err(|_| ReplyError {
        reply,
        field: "columns",
        kind: ReplyErrorKind::Columns {
            expected: N,
            found: cells.len(),
        },
    })?;
    Ok(cells.map(|cell| Cell {
        reply,
        string: cell.map(PgString),
    }))
}

impl<'a> Cell<'a> {
    fn present(self, field: &'static str) -> Result<PgString<'a>, ReplyError> {
        self.string.ok_or(ReplyError {
            reply: self.reply,
            field,
            kind: ReplyErrorKind::Null,
        })
    }

    fn parse<T: FromStr>(
        self,
        field: &'static str,
        expected: &'static str,
    ) -> Result<T, ReplyError> {
        let text = self.present(field)?.to_str().unwrap_or_default();
        // Rust's numbers may have a sign.
        if text.starts_with('+') {
            return Err(self.invalid(field, expected));
        }
        text.parse().map_err(|_| self.invalid(field, expected))
    }

    const fn invalid(self, field: &'static str, expected: &'static str) -> ReplyError {
        ReplyError {
            reply: self.reply,
            field,
            kind: ReplyErrorKind::InvalidValue { expected },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    fn cells<const N: usize>(texts: [Option<&str>; N]) -> [Option<&[u8]>; N] {
        texts.map(|text| text.map(str::as_bytes))
    }

    #[test]
    fn system_of_a_physical_connection_has_no_database() {
        let row = cells([
            Some("18446744073709551615"),
            Some("4294967295"),
            Some("FFFFFFFF/FFFFFFFF"),
            None,
        ]);
        let system = IdentifySystem {
            system_identifier: u64::MAX,
            timeline: u32::MAX,
            xlogpos: Lsn(u64::MAX),
            database: None,
        };
        assert_eq!(IdentifySystem::from_cells(&row), Ok(system));
    }

    #[test]
    fn history_skips_comments_and_keeps_reasons() {
        // Written by servers from 14 on, whose LSNs have no padding, and from 19 on, with padding.
        let content = b"1\t0/30000A0\tno recovery target specified\n\n# old\n  # older\n\
            3\t16/0B374D84\tbefore 2026-11-21 12:00:00+00\tand more\r\n7 0/1\n";
        let row = [Some("00000008.history".as_bytes()), Some(&content[..])];
        let switch = |timeline, end, reason: &'static str| TimelineSwitch {
            timeline,
            end: Lsn(end),
            reason: reason.into(),
        };
        let history = TimelineHistory {
            filename: "00000008.history".into(),
            content: PgString(content),
            switches: vec![
                switch(1, 0x300_00A0, "no recovery target specified"),
                switch(3, 0x16_0B37_4D84, "before 2026-11-21 12:00:00+00\tand more"),
                switch(7, 1, ""),
            ],
        };
        assert_eq!(TimelineHistory::from_cells(&row), Ok(history));
        assert_eq!(TimelineHistory::parse_content(b""), Ok(vec![]));
    }

    #[test]
    fn damaged_history_names_the_field() {
        for (content, said) in [
            ("x\t0/1\n", "timeline is not a decimal number in its range"),
            ("-1\t0/1\n", "timeline is not a decimal number in its range"),
            ("+1\t0/1\n", "timeline is not a decimal number in its range"),
            (
                "4294967296\t0/1\n",
                "timeline is not a decimal number in its range",
            ),
            ("1\n", "switch point is not an LSN, such as 16/B374D848"),
            ("1\t1A\n", "switch point is not an LSN, such as 16/B374D848"),
            (
                "2\t0/1\n2\t0/2\n",
                "timeline is not later than the one before",
            ),
        ] {
            let error = TimelineHistory::parse_content(content.as_bytes()).unwrap_err();
            assert_eq!(
                error.to_string(),
                alloc::format!("result of TIMELINE_HISTORY: {said}")
            );
        }
        let error = TimelineHistory::parse_content(b"\xFF\t0/1").unwrap_err();
        assert_eq!(error.field, "timeline");
    }

    #[test]
    fn created_slots_of_both_kinds() {
        let row = cells([
            Some("b2"),
            Some("0/16EFF40"),
            Some("00000002-00000006-1"),
            Some("pgoutput"),
        ]);
        let logical = CreatedSlot {
            name: "b2".into(),
            consistent_point: Lsn(0x16E_FF40),
            snapshot: Some("00000002-00000006-1".into()),
            plugin: Some("pgoutput".into()),
        };
        assert_eq!(CreatedSlot::from_cells(&row), Ok(logical));
        let row = cells([Some("p"), Some("0/0"), None, None]);
        let physical = CreatedSlot {
            name: "p".into(),
            consistent_point: Lsn::INVALID,
            snapshot: None,
            plugin: None,
        };
        assert_eq!(CreatedSlot::from_cells(&row), Ok(physical));
    }

    #[test]
    fn an_unknown_slot_is_a_row_of_nulls() {
        assert_eq!(
            PhysicalSlot::from_cells(&cells([None, None, None])),
            Ok(None)
        );
        let row = cells([Some("physical"), Some("0/16EFF40"), Some("1")]);
        let slot = PhysicalSlot {
            restart_lsn: Some(Lsn(0x16E_FF40)),
            restart_timeline: Some(1),
        };
        assert_eq!(PhysicalSlot::from_cells(&row), Ok(Some(slot)));
        let unused = PhysicalSlot {
            restart_lsn: None,
            restart_timeline: None,
        };
        let row = cells([Some("physical"), None, None]);
        assert_eq!(PhysicalSlot::from_cells(&row), Ok(Some(unused)));
    }

    #[test]
    fn wrong_cells_are_errors_that_name_the_column() {
        let said = |row: &[Option<&[u8]>]| IdentifySystem::from_cells(row).unwrap_err().to_string();
        let row = cells([Some("1"), Some("1"), Some("0/1")]);
        assert_eq!(
            said(&row),
            "result of IDENTIFY_SYSTEM: columns are 3 instead of 4"
        );
        let row = cells([None, Some("1"), Some("0/1"), None]);
        assert_eq!(said(&row), "result of IDENTIFY_SYSTEM: systemid is NULL");
        let row = cells([Some("1"), Some("secret"), Some("0/1"), None]);
        assert_eq!(
            said(&row),
            "result of IDENTIFY_SYSTEM: timeline is not a decimal number in its range"
        );
        let row = cells([Some("logical"), Some("0/1"), Some("1")]);
        let error = PhysicalSlot::from_cells(&row).unwrap_err();
        assert_eq!(
            error.to_string(),
            "result of READ_REPLICATION_SLOT: slot_type is not physical"
        );
        let row = cells([None, Some("0/1"), None, None]);
        assert_eq!(
            CreatedSlot::from_cells(&row).unwrap_err().kind,
            ReplyErrorKind::Null
        );
        let error = TimelineHistory::from_cells(&cells([Some("f"), None])).unwrap_err();
        assert_eq!(error.field, "content");
    }
}
