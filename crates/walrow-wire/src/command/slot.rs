//! Commands that create and change replication slots.
//!
//! Through server 14, options are keywords after the plugin. From 15 on, they are a list in
//! parentheses, which can be extended: servers 15 and later still accept the old keywords, but not
//! for the options that were added since.

use super::error::{CommandError, SLOT, require};
use super::quoted::identifier;
use alloc::string::String;
use alloc::vec::Vec;

/// `CREATE_REPLICATION_SLOT`.
///
/// ```
/// use walrow_wire::{CreateReplicationSlot, ReplicationCommand, SlotKind, SnapshotAction};
/// let kind = SlotKind::Logical {
///     plugin: "pgoutput",
///     snapshot: SnapshotAction::Export,
///     two_phase: false,
///     failover: false,
/// };
/// let mut slot = CreateReplicationSlot::new("shop", kind);
/// slot.temporary = true;
/// let command = ReplicationCommand::CreateSlot(slot);
/// assert_eq!(
///     command.text(14)?,
///     "CREATE_REPLICATION_SLOT \"shop\" TEMPORARY LOGICAL \"pgoutput\" EXPORT_SNAPSHOT"
/// );
/// assert_eq!(
///     command.text(18)?,
///     "CREATE_REPLICATION_SLOT \"shop\" TEMPORARY LOGICAL \"pgoutput\" (SNAPSHOT 'export')"
/// );
/// # Ok::<(), walrow_wire::CommandError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreateReplicationSlot<'a> {
    /// The slot's name: lower-case letters, digits and underscores.
    pub slot: &'a str,
    /// Whether the slot ends with the connection, or with any error on it.
    pub temporary: bool,
    /// What the slot is for.
    pub kind: SlotKind<'a>,
}

impl<'a> CreateReplicationSlot<'a> {
    /// A slot that stays until it is dropped.
    pub const fn new(slot: &'a str, kind: SlotKind<'a>) -> Self {
        Self {
            slot,
            temporary: false,
            kind,
        }
    }
}

/// What a slot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotKind<'a> {
    /// WAL itself.
    Physical {
        /// Whether WAL is kept from now on, not from the first connection on.
        reserve_wal: bool,
    },
    /// The output of a plugin.
    Logical {
        /// The plugin.
        plugin: &'a str,
        /// What happens to the snapshot of the slot's start.
        snapshot: SnapshotAction,
        /// Whether prepared transactions are sent at PREPARE. From server 15.
        two_phase: bool,
        /// Whether the slot is copied to standbys. From server 17.
        failover: bool,
    },
}

/// What happens to the snapshot of a logical slot's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotAction {
    /// Other sessions can use it until the connection's next command. Not in a transaction.
    Export,
    /// Nothing.
    Nothing,
    /// The current transaction uses it. The command must be the first one in the transaction.
    Use,
}

impl CreateReplicationSlot<'_> {
    pub(super) fn text(&self, major: u32) -> Result<String, CommandError> {
        let mut text = alloc::format!("CREATE_REPLICATION_SLOT {}", identifier(SLOT, self.slot)?);
        if self.temporary {
            text.push_str(" TEMPORARY");
        }
        let mut options = Vec::new();
        match self.kind {
            SlotKind::Physical { reserve_wal } => {
                text.push_str(" PHYSICAL");
                if reserve_wal {
                    options.push("RESERVE_WAL");
                }
            }
            SlotKind::Logical {
                plugin,
                snapshot,
                two_phase,
                failover,
            } => {
                text.push_str(" LOGICAL ");
                text.push_str(&identifier("the plugin's name", plugin)?);
                options.push(snapshot.option(major));
                if two_phase {
                    require(major, 15, "TWO_PHASE of CREATE_REPLICATION_SLOT")?;
                    options.push("TWO_PHASE");
                }
                if failover {
                    require(major, 17, "FAILOVER of CREATE_REPLICATION_SLOT")?;
                    options.push("FAILOVER");
                }
            }
        }
        if !options.is_empty() {
            let (open, separator, close) = if has_list(major) {
                (" (", ", ", ")")
            } else {
                (" ", " ", "")
            };
            text.push_str(open);
            text.push_str(&options.join(separator));
            text.push_str(close);
        }
        Ok(text)
    }
}

impl SnapshotAction {
    const fn option(self, major: u32) -> &'static str {
        match (self, has_list(major)) {
            (Self::Export, true) => "SNAPSHOT 'export'",
            (Self::Nothing, true) => "SNAPSHOT 'nothing'",
            (Self::Use, true) => "SNAPSHOT 'use'",
            (Self::Export, false) => "EXPORT_SNAPSHOT",
            (Self::Nothing, false) => "NOEXPORT_SNAPSHOT",
            (Self::Use, false) => "USE_SNAPSHOT",
        }
    }
}

/// Whether the options of a slot are a list in parentheses.
const fn has_list(major: u32) -> bool {
    major >= 15
}

/// `ALTER_REPLICATION_SLOT`, from server 17. `None` leaves an option as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlterReplicationSlot<'a> {
    /// The slot.
    pub slot: &'a str,
    /// Whether the slot is copied to standbys.
    pub failover: Option<bool>,
    /// Whether prepared transactions are sent at PREPARE. From server 18.
    pub two_phase: Option<bool>,
}

impl<'a> AlterReplicationSlot<'a> {
    /// A command that leaves all options as they are.
    pub const fn new(slot: &'a str) -> Self {
        Self {
            slot,
            failover: None,
            two_phase: None,
        }
    }

    pub(super) fn text(&self, major: u32) -> Result<String, CommandError> {
        require(major, 17, "ALTER_REPLICATION_SLOT")?;
        let mut options = Vec::new();
        if let Some(on) = self.failover {
            options.push(alloc::format!("FAILOVER {on}"));
        }
        if let Some(on) = self.two_phase {
            require(major, 18, "TWO_PHASE of ALTER_REPLICATION_SLOT")?;
            options.push(alloc::format!("TWO_PHASE {on}"));
        }
        let (slot, options) = (identifier(SLOT, self.slot)?, options.join(", "));
        Ok(alloc::format!("ALTER_REPLICATION_SLOT {slot} ({options})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(error: CommandError) -> u32 {
        match error {
            CommandError::Unsupported { since, .. } => since,
            _ => panic!("{error}"),
        }
    }

    fn logical(snapshot: SnapshotAction, two_phase: bool, failover: bool) -> SlotKind<'static> {
        SlotKind::Logical {
            plugin: "pg'output",
            snapshot,
            two_phase,
            failover,
        }
    }

    fn text(temporary: bool, kind: SlotKind<'_>, major: u32) -> Result<String, u32> {
        let slot = "s";
        let create = CreateReplicationSlot {
            slot,
            temporary,
            kind,
        };
        create.text(major).map_err(since)
    }

    #[test]
    fn old_servers_have_keywords_new_ones_a_list() {
        use SnapshotAction::{Export, Nothing, Use};
        for (snapshot, old, new) in [
            (Export, "EXPORT_SNAPSHOT", "(SNAPSHOT 'export')"),
            (Nothing, "NOEXPORT_SNAPSHOT", "(SNAPSHOT 'nothing')"),
            (Use, "USE_SNAPSHOT", "(SNAPSHOT 'use')"),
        ] {
            let head = "CREATE_REPLICATION_SLOT \"s\" LOGICAL \"pg'output\"";
            for (major, options) in [(14, old), (15, new), (18, new)] {
                let found = text(false, logical(snapshot, false, false), major);
                assert_eq!(found, Ok(alloc::format!("{head} {options}")));
            }
        }
        for (major, options) in [(14, "RESERVE_WAL"), (15, "(RESERVE_WAL)")] {
            let physical = SlotKind::Physical { reserve_wal: true };
            let head = "CREATE_REPLICATION_SLOT \"s\" TEMPORARY PHYSICAL";
            assert_eq!(
                text(true, physical, major),
                Ok(alloc::format!("{head} {options}"))
            );
            let physical = SlotKind::Physical { reserve_wal: false };
            assert_eq!(text(true, physical, major).as_deref(), Ok(head));
        }
    }

    #[test]
    fn options_are_refused_before_their_version() {
        let nothing = SnapshotAction::Nothing;
        assert_eq!(text(false, logical(nothing, true, false), 14), Err(15));
        assert_eq!(text(false, logical(nothing, false, true), 16), Err(17));
        assert_eq!(
            text(true, logical(nothing, true, true), 17).as_deref(),
            Ok(
                "CREATE_REPLICATION_SLOT \"s\" TEMPORARY LOGICAL \"pg'output\" \
                (SNAPSHOT 'nothing', TWO_PHASE, FAILOVER)"
            )
        );
    }

    #[test]
    fn slots_are_altered_from_17_on() {
        let alter = |failover, two_phase, major| {
            let slot = "a'b";
            let command = AlterReplicationSlot {
                slot,
                failover,
                two_phase,
            };
            command.text(major).map_err(since)
        };
        assert_eq!(alter(Some(true), None, 16), Err(17));
        assert_eq!(alter(None, Some(true), 17), Err(18));
        assert_eq!(
            alter(Some(true), None, 17).as_deref(),
            Ok("ALTER_REPLICATION_SLOT \"a'b\" (FAILOVER true)")
        );
        assert_eq!(
            alter(Some(false), Some(true), 18).as_deref(),
            Ok("ALTER_REPLICATION_SLOT \"a'b\" (FAILOVER false, TWO_PHASE true)")
        );
    }
}
