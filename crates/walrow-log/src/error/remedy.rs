//! The steps that avoid an error of a log, as data. Rust, Python and the command line each print
//! them in their own words.

use std::fmt;
use walrow_wire::Lsn;

/// A step that avoids an error of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Choose a directory that is empty, or a new one.
    EmptyDirectory,
    /// Remove the file, which does not belong to the log.
    RemoveFile,
    /// Read the file with the version of walrow that wrote it.
    LaterVersion,
    /// Receive the log anew, with a new slot and a new load.
    ReceiveAnew,
    /// Restore the file from a copy.
    Restore,
    /// Read from the start of the log on, and load everything again that depends on earlier
    /// changes.
    ReadFrom {
        /// The LSN where the log begins.
        start: Lsn,
    },
    /// Move the reader forward: [`Upkeep::advance`](crate::Upkeep::advance).
    Advance {
        /// Its name.
        reader: String,
    },
    /// Forget the reader: [`Upkeep::forget`](crate::Upkeep::forget).
    Forget {
        /// Its name.
        reader: String,
    },
    /// Move the reader back: [`Upkeep::rewind`](crate::Upkeep::rewind).
    Rewind {
        /// Its name.
        reader: String,
    },
    /// Register the reader: [`Upkeep::register`](crate::Upkeep::register).
    Register {
        /// Its name.
        reader: String,
    },
    /// Remove also the changes that readers and loads need: the option `force` of
    /// [`Upkeep::prune`](crate::Upkeep::prune) or [`Erase`](crate::Erase).
    Force,
    /// Load the table again.
    Load {
        /// The table, as `schema.name`.
        table: String,
    },
    /// Choose one of several tables.
    OneTable,
    /// Erase the column under its earlier name, too.
    EraseEarlierName,
    /// Commit or roll back the prepared transactions, and receive the result.
    Decide,
    /// Change the log where its receiver writes it.
    WhereItIsWritten,
    /// Try again later.
    Retry,
    /// Stop the other writer.
    StopWriter,
    /// Use another log.
    OtherLog,
    /// Open the log again.
    OpenAgain,
    /// Put back the directory or file that was there, and start again.
    PutBack,
    /// Seal the older capture first, into another log.
    OlderFirst,
}

impl Remedy {
    /// The name of the step.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::EmptyDirectory => "empty_directory",
            Self::RemoveFile => "remove_file",
            Self::LaterVersion => "later_version",
            Self::ReceiveAnew => "receive_anew",
            Self::Restore => "restore",
            Self::ReadFrom { .. } => "read_from",
            Self::Advance { .. } => "advance",
            Self::Forget { .. } => "forget",
            Self::Rewind { .. } => "rewind",
            Self::Register { .. } => "register",
            Self::Force => "force",
            Self::Load { .. } => "load",
            Self::OneTable => "one_table",
            Self::EraseEarlierName => "erase_earlier_name",
            Self::Decide => "decide",
            Self::WhereItIsWritten => "where_it_is_written",
            Self::Retry => "retry",
            Self::StopWriter => "stop_writer",
            Self::OtherLog => "other_log",
            Self::OpenAgain => "open_again",
            Self::PutBack => "put_back",
            Self::OlderFirst => "older_first",
        }
    }

    /// The reader, table or LSN of the step, if it has one.
    pub fn subject(&self) -> Option<String> {
        match self {
            Self::ReadFrom { start } => Some(start.to_string()),
            Self::Advance { reader }
            | Self::Forget { reader }
            | Self::Rewind { reader }
            | Self::Register { reader } => Some(reader.clone()),
            Self::Load { table } => Some(table.clone()),
            _ => None,
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EmptyDirectory => "choose an empty or new directory",
            Self::RemoveFile => "remove it from the log's directory",
            Self::LaterVersion => "read it with that version",
            Self::ReceiveAnew => "receive the log anew",
            Self::Restore => "restore the file from a copy",
            Self::ReadFrom { start } => {
                return write!(
                    f,
                    "read from {start} on, and load again what depends on earlier changes"
                );
            }
            Self::Advance { .. } => "advance the reader",
            Self::Forget { .. } => "forget it",
            Self::Rewind { .. } => "rewind it to read changes again",
            Self::Register { .. } => "register it first",
            Self::Force => "set force",
            Self::Load { .. } => "load the table again",
            Self::OneTable => "choose one of them",
            Self::EraseEarlierName => {
                "erase the columns that the earlier version has instead of it, too"
            }
            Self::Decide => "commit it or roll it back, receive that, and try again",
            Self::WhereItIsWritten => "change it where its receiver writes it",
            Self::Retry => "try again later",
            Self::StopWriter => "stop it first",
            Self::OtherLog => "use another log",
            Self::OpenAgain => "open the log again",
            Self::PutBack => "put back what was there, and start again",
            Self::OlderFirst => "seal the captures into another log, the oldest first",
        })
    }
}
