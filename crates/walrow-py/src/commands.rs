//! Replication commands and their results, for `walrow.postgres`.
//!
//! Names in results are bytes in the connection's encoding, which Python knows.

use crate::errors;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBool, PyBytes, PyDict};
use std::fmt::Display;
use walrow::Lsn;
use walrow::wire::{
    AlterReplicationSlot, CreateReplicationSlot, CreatedSlot, IdentifySystem, PluginOption,
    ReplicationCommand, ReplyError, SlotKind, SnapshotAction, StartReplication, TimelineHistory,
};

/// The cells of a result's row.
pub(crate) type Cells = Vec<Option<PyBackedBytes>>;
/// A name in the connection's encoding.
pub(crate) type Name<'py> = Bound<'py, PyBytes>;

/// Writes TIMELINE_HISTORY.
#[pyfunction]
pub(crate) fn timeline_history_command(py: Python<'_>, timeline: u32) -> PyResult<String> {
    text(
        py,
        ANY_VERSION,
        &ReplicationCommand::TimelineHistory { timeline },
    )
}

/// Writes CREATE_REPLICATION_SLOT for a logical slot and a server's major version.
#[pyfunction]
#[pyo3(signature = (major, slot, *, plugin, temporary, snapshot, two_phase, failover))]
#[expect(clippy::too_many_arguments, reason = "they are the command's options")]
pub(crate) fn create_slot_command(
    py: Python<'_>,
    major: u32,
    slot: &str,
    plugin: &str,
    temporary: bool,
    snapshot: &str,
    two_phase: bool,
    failover: bool,
) -> PyResult<String> {
    let snapshot = match snapshot {
        "export" => SnapshotAction::Export,
        "nothing" => SnapshotAction::Nothing,
        "use" => SnapshotAction::Use,
        _ => {
            let text = "snapshot must be 'export', 'nothing' or 'use'";
            return Err(errors::option_error(py, text));
        }
    };
    let kind = SlotKind::Logical {
        plugin,
        snapshot,
        two_phase,
        failover,
    };
    let mut command = CreateReplicationSlot::new(slot, kind);
    command.temporary = temporary;
    text(py, major, &ReplicationCommand::CreateSlot(command))
}

/// Writes CREATE_REPLICATION_SLOT for a physical slot and a server's major version.
#[pyfunction]
#[pyo3(signature = (major, slot, *, temporary, reserve_wal))]
pub(crate) fn create_physical_slot_command(
    py: Python<'_>,
    major: u32,
    slot: &str,
    temporary: bool,
    reserve_wal: bool,
) -> PyResult<String> {
    let mut command = CreateReplicationSlot::new(slot, SlotKind::Physical { reserve_wal });
    command.temporary = temporary;
    text(py, major, &ReplicationCommand::CreateSlot(command))
}

/// Writes ALTER_REPLICATION_SLOT for a server's major version.
#[pyfunction]
#[pyo3(signature = (major, slot, *, failover, two_phase))]
pub(crate) fn alter_slot_command(
    py: Python<'_>,
    major: u32,
    slot: &str,
    failover: Option<bool>,
    two_phase: Option<bool>,
) -> PyResult<String> {
    let mut command = AlterReplicationSlot::new(slot);
    (command.failover, command.two_phase) = (failover, two_phase);
    text(py, major, &ReplicationCommand::AlterSlot(command))
}

/// Writes DROP_REPLICATION_SLOT.
#[pyfunction]
#[pyo3(signature = (slot, *, wait))]
pub(crate) fn drop_slot_command(py: Python<'_>, slot: &str, wait: bool) -> PyResult<String> {
    text(
        py,
        ANY_VERSION,
        &ReplicationCommand::DropSlot { slot, wait },
    )
}

/// Writes START_REPLICATION for a logical slot: see `walrow.postgres.start_replication_command`.
#[pyfunction]
pub(crate) fn start_replication_command(
    py: Python<'_>,
    slot: &str,
    start: u64,
    options: &Bound<'_, PyDict>,
) -> PyResult<String> {
    let mut list = Vec::with_capacity(options.len());
    for (key, value) in options {
        let key: String = key.extract()?;
        if !value.is_none() {
            list.push(plugin_option(key, &value)?);
        }
    }
    let command = StartReplication::new(slot, Lsn(start), list);
    text(py, ANY_VERSION, &ReplicationCommand::Start(command))
}

fn plugin_option(key: String, value: &Bound<'_, PyAny>) -> PyResult<PluginOption> {
    if key == "publication_names" {
        let names = match value.extract::<String>() {
            Ok(one) => vec![one],
            Err(_) => value.extract()?,
        };
        return Ok(PluginOption::PublicationNames(names));
    }
    if value.extract::<Vec<String>>().is_ok_and(|it| it.is_empty()) {
        return Ok(PluginOption::Other(key, None));
    }
    let value = if let Ok(on) = value.cast::<PyBool>() {
        on.is_true().to_string()
    } else if let Ok(number) = value.extract::<i64>() {
        number.to_string()
    } else if let Ok(text) = value.extract::<String>() {
        text
    } else {
        let kind = value.get_type().name()?;
        let text = format!("option {key} must be a text, a number or a bool, not {kind}");
        return Err(PyTypeError::new_err(text));
    };
    Ok(PluginOption::Other(key, Some(value)))
}

/// Reads the result of IDENTIFY_SYSTEM.
#[pyfunction]
pub(crate) fn parse_identify_system<'py>(
    cells: &Bound<'py, PyAny>,
) -> PyResult<(String, u32, u64, Option<Name<'py>>)> {
    let (py, cells) = (cells.py(), cells.extract::<Cells>()?);
    let system = IdentifySystem::from_cells(&borrowed(&cells)).map_err(|it| reply_error(py, it))?;
    let database = system.database.map(|it| PyBytes::new(py, it.0));
    let identifier = system.system_identifier.to_string();
    Ok((identifier, system.timeline, system.xlogpos.0, database))
}

/// Each earlier timeline, its end and a reason.
type Switches<'py> = Vec<(u32, u64, Name<'py>)>;

/// Reads the result of TIMELINE_HISTORY: the file's name, its bytes and its contents.
///
/// The contents are each earlier timeline, its end and a reason.
#[pyfunction]
pub(crate) fn parse_timeline_history<'py>(
    cells: &Bound<'py, PyAny>,
) -> PyResult<(Name<'py>, Name<'py>, Switches<'py>)> {
    let (py, cells) = (cells.py(), cells.extract::<Cells>()?);
    let cells = borrowed(&cells);
    let history = TimelineHistory::from_cells(&cells).map_err(|it| reply_error(py, it))?;
    let switches = history.switches.iter();
    let rows = switches.map(|it| (it.timeline, it.end.0, PyBytes::new(py, it.reason.0)));
    let bytes = |it: walrow::wire::PgString<'_>| PyBytes::new(py, it.0);
    Ok((
        bytes(history.filename),
        bytes(history.content),
        rows.collect(),
    ))
}

/// Reads the result of CREATE_REPLICATION_SLOT.
#[pyfunction]
pub(crate) fn parse_created_slot<'py>(
    cells: &Bound<'py, PyAny>,
) -> PyResult<(Name<'py>, u64, Option<Name<'py>>, Option<Name<'py>>)> {
    let (py, cells) = (cells.py(), cells.extract::<Cells>()?);
    let slot = CreatedSlot::from_cells(&borrowed(&cells)).map_err(|it| reply_error(py, it))?;
    let bytes = |it: walrow::wire::PgString<'_>| PyBytes::new(py, it.0);
    let (snapshot, plugin) = (slot.snapshot.map(bytes), slot.plugin.map(bytes));
    Ok((bytes(slot.name), slot.consistent_point.0, snapshot, plugin))
}

pub(crate) fn borrowed(cells: &[Option<PyBackedBytes>]) -> Vec<Option<&[u8]>> {
    cells.iter().map(Option::as_deref).collect()
}

pub(crate) fn text(
    py: Python<'_>,
    major: u32,
    command: &ReplicationCommand<'_>,
) -> PyResult<String> {
    command
        .text(major)
        .map_err(|it| errors::option_error(py, it.to_string()))
}

#[cold]
pub(crate) fn reply_error(py: Python<'_>, error: ReplyError) -> PyErr {
    errors::replication_error(py, &error as &dyn Display)
}

/// For commands whose text is the same for all versions.
pub(crate) const ANY_VERSION: u32 = 14;
