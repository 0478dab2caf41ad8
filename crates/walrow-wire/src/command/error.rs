//! Why a command cannot be written.

use core::fmt;

/// Why a command cannot be written.
///
/// `{:?}` prints the text of `{}`, and `{:#?}` the fields.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandError {
    /// The server's version lacks the command or the option.
    Unsupported {
        /// The command or the option, as the server's grammar writes it.
        what: &'static str,
        /// The first major version that has it.
        since: u32,
        /// The server's major version.
        server: u32,
    },
    /// A name or value contains a character that the replication grammar cannot express.
    Unwritable {
        /// Which name or value.
        what: &'static str,
        /// The character.
        character: &'static str,
    },
    /// A number that no server takes.
    OutOfRange {
        /// The option.
        what: &'static str,
        /// The values that servers take.
        allowed: &'static str,
    },
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported {
                what,
                since,
                server,
            } => write!(
                f,
                "{what} needs PostgreSQL {since} or later, the server has {server}"
            ),
            Self::Unwritable { what, character } => write!(
                f,
                "{what} contains {character}, which a replication command cannot contain"
            ),
            Self::OutOfRange { what, allowed } => write!(f, "{what} must be {allowed}"),
        }
    }
}

impl fmt::Debug for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        match self {
            Self::Unsupported {
                what,
                since,
                server,
            } => f
                .debug_struct("Unsupported")
                .field("what", what)
                .field("since", since)
                .field("server", server)
                .finish(),
            Self::Unwritable { what, character } => f
                .debug_struct("Unwritable")
                .field("what", what)
                .field("character", character)
                .finish(),
            Self::OutOfRange { what, allowed } => f
                .debug_struct("OutOfRange")
                .field("what", what)
                .field("allowed", allowed)
                .finish(),
        }
    }
}

impl core::error::Error for CommandError {}

/// What errors call the name of a slot.
pub(super) const SLOT: &str = "the slot's name";

/// Refuses what servers before this major version lack.
pub(super) const fn require(
    major: u32,
    since: u32,
    what: &'static str,
) -> Result<(), CommandError> {
    if major < since {
        return Err(CommandError::Unsupported {
            what,
            since,
            server: major,
        });
    }
    Ok(())
}
