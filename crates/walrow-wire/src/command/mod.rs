//! Commands on a replication connection, as the server's grammar has them.
//!
//! Manual: [Streaming Replication Protocol](https://www.postgresql.org/docs/current/protocol-replication.html).

mod base_backup;
mod error;
mod quoted;
mod slot;
mod start;

pub use base_backup::{
    BackupCheckpoint, BackupCompression, BackupManifest, BackupTarget, BaseBackup,
    ManifestChecksums,
};
pub use error::CommandError;
pub use slot::{AlterReplicationSlot, CreateReplicationSlot, SlotKind, SnapshotAction};
pub use start::{PluginOption, StartPhysical, StartReplication};

use alloc::string::{String, ToString};
use error::{SLOT, require};
use quoted::identifier;

/// A command on a replication connection. [`ReplicationCommand::text`] writes it for a server.
///
/// Results are parsed by [`IdentifySystem`](crate::IdentifySystem),
/// [`TimelineHistory`](crate::TimelineHistory), [`CreatedSlot`](crate::CreatedSlot),
/// [`PhysicalSlot`](crate::PhysicalSlot), [`Setting`](crate::Setting),
/// [`NextTimeline`](crate::NextTimeline), [`BackupPosition`](crate::BackupPosition) and
/// [`Tablespace`](crate::Tablespace).
///
/// ```
/// use walrow_wire::ReplicationCommand;
/// let command = ReplicationCommand::DropSlot { slot: "shop", wait: true };
/// assert_eq!(command.text(14)?, "DROP_REPLICATION_SLOT \"shop\" WAIT");
/// let error = ReplicationCommand::ReadSlot { slot: "shop" }.text(14).unwrap_err();
/// assert_eq!(error.to_string(), "READ_REPLICATION_SLOT needs PostgreSQL 15 or later, the server has 14");
/// # Ok::<(), walrow_wire::CommandError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplicationCommand<'a> {
    /// `IDENTIFY_SYSTEM`.
    IdentifySystem,
    /// `SHOW`: one row with the value of a setting.
    Show {
        /// The setting.
        name: &'a str,
    },
    /// `TIMELINE_HISTORY`. Timeline 1 has no history: the server reports an error.
    TimelineHistory {
        /// The timeline.
        timeline: u32,
    },
    /// `CREATE_REPLICATION_SLOT`.
    CreateSlot(CreateReplicationSlot<'a>),
    /// `READ_REPLICATION_SLOT`, from server 15: only for physical slots.
    ReadSlot {
        /// The slot.
        slot: &'a str,
    },
    /// `ALTER_REPLICATION_SLOT`, from server 17.
    AlterSlot(AlterReplicationSlot<'a>),
    /// `DROP_REPLICATION_SLOT`.
    DropSlot {
        /// The slot.
        slot: &'a str,
        /// Whether the server waits while another process uses the slot.
        wait: bool,
    },
    /// `START_REPLICATION` of a logical slot.
    Start(StartReplication<'a>),
    /// `START_REPLICATION` of WAL itself.
    StartPhysical(StartPhysical<'a>),
    /// `BASE_BACKUP`.
    BaseBackup(BaseBackup<'a>),
    /// `UPLOAD_MANIFEST`, from server 17: the next backup may be incremental to this manifest.
    UploadManifest,
}

impl ReplicationCommand<'_> {
    /// The command's text for a server of this major version.
    ///
    /// # Errors
    /// The version lacks the command or one of its options, or the grammar cannot express a name.
    pub fn text(&self, major: u32) -> Result<String, CommandError> {
        Ok(match self {
            Self::IdentifySystem => "IDENTIFY_SYSTEM".to_string(),
            Self::Show { name } => alloc::format!("SHOW {}", identifier("the setting", name)?),
            Self::TimelineHistory { timeline } => alloc::format!("TIMELINE_HISTORY {timeline}"),
            Self::CreateSlot(create) => create.text(major)?,
            Self::ReadSlot { slot } => {
                require(major, 15, "READ_REPLICATION_SLOT")?;
                alloc::format!("READ_REPLICATION_SLOT {}", identifier(SLOT, slot)?)
            }
            Self::AlterSlot(alter) => alter.text(major)?,
            Self::DropSlot { slot, wait } => {
                let wait = if *wait { " WAIT" } else { "" };
                alloc::format!("DROP_REPLICATION_SLOT {}{wait}", identifier(SLOT, slot)?)
            }
            Self::Start(start) => start.text(major)?,
            Self::StartPhysical(start) => start.text()?,
            Self::BaseBackup(backup) => backup.text(major)?,
            Self::UploadManifest => {
                require(major, 17, "UPLOAD_MANIFEST")?;
                "UPLOAD_MANIFEST".to_string()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn commands_without_options_have_one_text_for_all_versions() {
        for (command, text) in [
            (ReplicationCommand::IdentifySystem, "IDENTIFY_SYSTEM"),
            (
                ReplicationCommand::Show { name: "wal_level" },
                "SHOW \"wal_level\"",
            ),
            (
                ReplicationCommand::TimelineHistory { timeline: u32::MAX },
                "TIMELINE_HISTORY 4294967295",
            ),
            (
                ReplicationCommand::DropSlot {
                    slot: "a'b\\ é",
                    wait: false,
                },
                "DROP_REPLICATION_SLOT \"a'b\\ é\"",
            ),
        ] {
            for major in 14..=18 {
                assert_eq!(command.text(major).as_deref(), Ok(text));
            }
        }
    }

    #[test]
    fn what_the_grammar_cannot_express_is_refused() {
        // Servers 14 to 18 answer DROP_REPLICATION_SLOT "a""b" with a syntax error.
        for name in ["a\"b", "\"", "a\0"] {
            for command in [
                ReplicationCommand::Show { name },
                ReplicationCommand::ReadSlot { slot: name },
                ReplicationCommand::DropSlot {
                    slot: name,
                    wait: true,
                },
                ReplicationCommand::Start(StartReplication {
                    slot: name,
                    start: crate::Lsn::INVALID,
                    options: Vec::new(),
                }),
            ] {
                let error = command.text(18).unwrap_err();
                assert!(matches!(error, CommandError::Unwritable { .. }), "{error}");
                assert!(error.to_string().contains("a double quote or a NUL"));
            }
        }
    }

    #[test]
    fn a_physical_slot_is_read_from_15_on() {
        let command = ReplicationCommand::ReadSlot { slot: "s" };
        assert_eq!(
            command.text(15).as_deref(),
            Ok("READ_REPLICATION_SLOT \"s\"")
        );
        let error = CommandError::Unsupported {
            what: "READ_REPLICATION_SLOT",
            since: 15,
            server: 14,
        };
        assert_eq!(command.text(14), Err(error));
    }

    #[test]
    fn a_manifest_is_uploaded_from_17_on() {
        let command = ReplicationCommand::UploadManifest;
        assert_eq!(command.text(17).as_deref(), Ok("UPLOAD_MANIFEST"));
        let error = command.text(16).unwrap_err().to_string();
        assert_eq!(
            error,
            "UPLOAD_MANIFEST needs PostgreSQL 17 or later, the server has 16"
        );
    }
}
