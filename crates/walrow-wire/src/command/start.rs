//! The commands that start a stream, quoted for the server's grammar.
//!
//! Manual: [Streaming Replication Protocol, START_REPLICATION](https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-START-REPLICATION-SLOT-LOGICAL),
//! [Logical Streaming Replication Parameters](https://www.postgresql.org/docs/current/protocol-logical-replication.html).

use super::error::{CommandError, SLOT, require};
use super::quoted::{identifier, list_item, literal};
use crate::Lsn;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// `START_REPLICATION SLOT … LOGICAL …` with pgoutput's options.
///
/// ```
/// use walrow_wire::{Lsn, PluginOption, ReplicationCommand, StartReplication};
/// let options = vec![
///     PluginOption::ProtoVersion(4),
///     PluginOption::PublicationNames(vec!["Orders".into(), "it's".into()]),
///     PluginOption::Binary(true),
/// ];
/// let start = StartReplication::new("walrow", Lsn(0x16_B374_D848), options);
/// let command = ReplicationCommand::Start(start);
/// assert_eq!(
///     command.text(18)?,
///     "START_REPLICATION SLOT \"walrow\" LOGICAL 16/B374D848 (\"proto_version\" '4', \
///      \"publication_names\" '\"Orders\",\"it''s\"', \"binary\" 'true')"
/// );
/// # Ok::<(), walrow_wire::CommandError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartReplication<'a> {
    /// The slot.
    pub slot: &'a str,
    /// Where to start. The server never starts before the slot's confirmed position.
    pub start: Lsn,
    /// pgoutput's options; the protocol version and the publications are required.
    pub options: Vec<PluginOption>,
}

impl<'a> StartReplication<'a> {
    /// Starts the stream of a slot with these options.
    pub const fn new(slot: &'a str, start: Lsn, options: Vec<PluginOption>) -> Self {
        Self {
            slot,
            start,
            options,
        }
    }
}

/// An option of pgoutput.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PluginOption {
    /// `proto_version`: 1; 2 from server 14, 3 from 15, 4 from 16.
    ProtoVersion(u8),
    /// `publication_names`, unquoted.
    PublicationNames(Vec<String>),
    /// `binary`, from server 14: binary values, for types that have a send function.
    Binary(bool),
    /// `messages`, from server 14: logical decoding messages.
    Messages(bool),
    /// `streaming`, from server 14 with protocol 2: `off`, `on`, or with protocol 4 `parallel`.
    Streaming(&'static str),
    /// `two_phase`, from server 15 with protocol 3.
    TwoPhase(bool),
    /// `origin`, from server 16: `any` or `none`.
    Origin(&'static str),
    /// Any other option: name and value. `None`: the option has no value.
    Other(String, Option<String>),
}

impl PluginOption {
    fn name(&self) -> &str {
        match self {
            Self::ProtoVersion(_) => "proto_version",
            Self::PublicationNames(_) => "publication_names",
            Self::Binary(_) => "binary",
            Self::Messages(_) => "messages",
            Self::Streaming(_) => "streaming",
            Self::TwoPhase(_) => "two_phase",
            Self::Origin(_) => "origin",
            Self::Other(name, _) => name,
        }
    }

    fn value(&self) -> Result<Option<String>, CommandError> {
        Ok(Some(match self {
            Self::ProtoVersion(version) => alloc::format!("{version}"),
            Self::PublicationNames(names) => {
                let names = names
                    .iter()
                    .map(|name| list_item("a publication's name", name));
                names.collect::<Result<Vec<_>, _>>()?.join(",")
            }
            Self::Binary(on) | Self::Messages(on) | Self::TwoPhase(on) => alloc::format!("{on}"),
            Self::Streaming(value) | Self::Origin(value) => (*value).to_owned(),
            Self::Other(_, value) => return Ok(value.clone()),
        }))
    }

    /// Refuses an option that a server of this version lacks, or a value.
    fn check(&self, major: u32) -> Result<(), CommandError> {
        match self {
            Self::ProtoVersion(3) => require(major, 15, "proto_version 3"),
            Self::ProtoVersion(4..) => require(major, 16, "proto_version 4"),
            Self::Streaming("parallel") => require(major, 16, "streaming 'parallel'"),
            Self::TwoPhase(_) => require(major, 15, "two_phase"),
            Self::Origin(_) => require(major, 16, "origin"),
            _ => Ok(()),
        }
    }
}

impl StartReplication<'_> {
    pub(super) fn text(&self, major: u32) -> Result<String, CommandError> {
        let slot = identifier(SLOT, self.slot)?;
        let mut text = alloc::format!("START_REPLICATION SLOT {slot} LOGICAL {}", self.start);
        for (index, option) in self.options.iter().enumerate() {
            option.check(major)?;
            text.push_str(if index == 0 { " (" } else { ", " });
            text.push_str(&identifier("an option's name", option.name())?);
            if let Some(value) = option.value()? {
                text.push(' ');
                text.push_str(&literal("an option's value", &value)?);
            }
        }
        if !self.options.is_empty() {
            text.push(')');
        }
        Ok(text)
    }
}

/// `START_REPLICATION … PHYSICAL …`: WAL itself, from a position on.
///
/// ```
/// use walrow_wire::{Lsn, ReplicationCommand, StartPhysical};
/// let mut start = StartPhysical::new(Lsn(0x300_0000));
/// (start.slot, start.timeline) = (Some("backup"), Some(2));
/// assert_eq!(
///     ReplicationCommand::StartPhysical(start).text(18)?,
///     "START_REPLICATION SLOT \"backup\" PHYSICAL 0/3000000 TIMELINE 2"
/// );
/// # Ok::<(), walrow_wire::CommandError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartPhysical<'a> {
    /// The slot. `None`: the server keeps no WAL for the client.
    pub slot: Option<&'a str>,
    /// Where to start.
    pub start: Lsn,
    /// The timeline, which may be an earlier one of the server. `None`: the latest.
    pub timeline: Option<u32>,
}

impl StartPhysical<'_> {
    /// Without a slot, on the latest timeline.
    pub const fn new(start: Lsn) -> Self {
        Self {
            slot: None,
            start,
            timeline: None,
        }
    }

    pub(super) fn text(&self) -> Result<String, CommandError> {
        let slot = match self.slot {
            Some(slot) => alloc::format!("SLOT {} ", identifier(SLOT, slot)?),
            None => String::new(),
        };
        let timeline = match self.timeline {
            Some(timeline) => alloc::format!(" TIMELINE {timeline}"),
            None => String::new(),
        };
        let start = self.start;
        Ok(alloc::format!(
            "START_REPLICATION {slot}PHYSICAL {start}{timeline}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn quotes_inside_names_are_doubled_twice_over() {
        let command = StartReplication {
            slot: "s",
            start: Lsn::INVALID,
            options: vec![PluginOption::PublicationNames(vec!["a\"b'c\\".into()])],
        };
        assert_eq!(
            command.text(14).unwrap(),
            r#"START_REPLICATION SLOT "s" LOGICAL 0/0 ("publication_names" '"a""b''c\"')"#
        );
    }

    #[test]
    fn no_options_no_parentheses() {
        let command = StartReplication {
            slot: "a'b",
            start: Lsn(1),
            options: vec![],
        };
        assert_eq!(
            command.text(14).unwrap(),
            r#"START_REPLICATION SLOT "a'b" LOGICAL 0/1"#
        );
    }

    #[test]
    fn physical_streams_need_only_a_position() {
        let start = StartPhysical::new(Lsn(1));
        assert_eq!(start.text().unwrap(), "START_REPLICATION PHYSICAL 0/1");
        let slot = StartPhysical {
            slot: Some("a\"b"),
            ..start
        };
        assert!(matches!(slot.text(), Err(CommandError::Unwritable { .. })));
    }
}
