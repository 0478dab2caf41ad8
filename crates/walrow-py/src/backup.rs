//! Base backups and streams of WAL, for `walrow.backup`: commands, results and payloads.

use crate::commands::{ANY_VERSION, Cells, Name, borrowed, reply_error, text};
use crate::errors;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use walrow::Lsn;
use walrow::wire::{
    BackupCheckpoint, BackupCompression, BackupData, BackupManifest, BackupPosition, BackupTarget,
    BaseBackup, CopyData, HotStandbyFeedback, ManifestChecksums, NextTimeline, PhysicalSlot,
    PrimaryKeepalive, ReplicationCommand, Setting, StartPhysical, Tablespace, Timestamp, XLogData,
};

/// Writes SHOW.
#[pyfunction]
pub(crate) fn show_command(py: Python<'_>, setting: &str) -> PyResult<String> {
    text(py, ANY_VERSION, &ReplicationCommand::Show { name: setting })
}

/// Reads the result of SHOW.
#[pyfunction]
pub(crate) fn parse_setting<'py>(cells: &Bound<'py, PyAny>) -> PyResult<Name<'py>> {
    let (py, cells) = (cells.py(), cells.extract::<Cells>()?);
    let setting = Setting::from_cells(&borrowed(&cells)).map_err(|it| reply_error(py, it))?;
    Ok(PyBytes::new(py, setting.value.0))
}

/// Writes READ_REPLICATION_SLOT for a server's major version.
#[pyfunction]
pub(crate) fn read_slot_command(py: Python<'_>, major: u32, slot: &str) -> PyResult<String> {
    text(py, major, &ReplicationCommand::ReadSlot { slot })
}

/// Reads the result of READ_REPLICATION_SLOT: the oldest WAL that the slot keeps, and its timeline.
#[pyfunction]
pub(crate) fn parse_read_slot(
    cells: &Bound<'_, PyAny>,
) -> PyResult<Option<(Option<u64>, Option<u32>)>> {
    let (py, cells) = (cells.py(), cells.extract::<Cells>()?);
    let slot = PhysicalSlot::from_cells(&borrowed(&cells)).map_err(|it| reply_error(py, it))?;
    Ok(slot.map(|it| (it.restart_lsn.map(|it| it.0), it.restart_timeline)))
}

/// Writes START_REPLICATION for WAL itself.
#[pyfunction]
#[pyo3(signature = (start, *, slot, timeline))]
pub(crate) fn start_physical_command(
    py: Python<'_>,
    start: u64,
    slot: Option<&str>,
    timeline: Option<u32>,
) -> PyResult<String> {
    let mut command = StartPhysical::new(Lsn(start));
    (command.slot, command.timeline) = (slot, timeline);
    text(py, ANY_VERSION, &ReplicationCommand::StartPhysical(command))
}

/// Reads the result at the end of a timeline: the next one, and where it begins.
#[pyfunction]
pub(crate) fn parse_next_timeline(cells: &Bound<'_, PyAny>) -> PyResult<(u32, u64)> {
    let (py, cells) = (cells.py(), cells.extract::<Cells>()?);
    let next = NextTimeline::from_cells(&borrowed(&cells)).map_err(|it| reply_error(py, it))?;
    Ok((next.timeline, next.start.0))
}

/// Reads the head of a payload of a stream of WAL.
///
/// That is where its bytes begin, the server's end of WAL, and its clock in microseconds since 2000. The WAL
/// begins at `WAL_HEADER`. None for a payload without WAL, such as a keepalive.
#[pyfunction]
pub(crate) fn wal_position(payload: &[u8]) -> Option<(u64, u64, i64)> {
    match CopyData::parse(payload) {
        Ok(CopyData::XLogData(data)) => Some((data.start.0, data.end.0, data.clock.0)),
        _ => None,
    }
}

/// Bytes of a payload before its WAL.
pub(crate) const WAL_HEADER: usize = XLogData::HEADER;
const _: () = assert!(PrimaryKeepalive::SIZE < XLogData::HEADER);

/// Writes a Hot standby feedback message: the oldest transactions whose rows a client sees.
///
/// Zeros end the feedback.
///
/// Args:
///     clock: The time, in microseconds since 2000.
///     xmin: The client's oldest transaction.
///     xmin_epoch: The epoch of `xmin`.
///     catalog_xmin: The oldest transaction for catalogs.
///     catalog_xmin_epoch: The epoch of `catalog_xmin`.
#[pyfunction]
pub(crate) fn hot_standby_feedback(
    py: Python<'_>,
    clock: i64,
    xmin: u32,
    xmin_epoch: u32,
    catalog_xmin: u32,
    catalog_xmin_epoch: u32,
) -> Bound<'_, PyBytes> {
    let mut payload = Vec::new();
    CopyData::HotStandbyFeedback(HotStandbyFeedback {
        clock: Timestamp(clock),
        xmin,
        xmin_epoch,
        catalog_xmin,
        catalog_xmin_epoch,
    })
    .encode(&mut payload);
    PyBytes::new(py, &payload)
}

/// Writes BASE_BACKUP for a server's major version.
#[pyfunction]
#[pyo3(signature = (
    major, *, label, progress, checkpoint, wal, wait, max_rate, tablespace_map, verify_checksums,
    manifest, manifest_checksums, compression, compression_detail, target, target_detail,
    incremental
))]
#[expect(
    clippy::too_many_arguments,
    clippy::fn_params_excessive_bools,
    reason = "they are the command's options"
)]
pub(crate) fn base_backup_command(
    py: Python<'_>,
    major: u32,
    label: &str,
    progress: bool,
    checkpoint: &str,
    wal: bool,
    wait: bool,
    max_rate: Option<u32>,
    tablespace_map: bool,
    verify_checksums: bool,
    manifest: &str,
    manifest_checksums: &str,
    compression: Option<&str>,
    compression_detail: Option<&str>,
    target: Option<&str>,
    target_detail: Option<&str>,
    incremental: bool,
) -> PyResult<String> {
    let refused = |text: &str| Err(errors::option_error(py, text));
    let mut backup = BaseBackup::new(label);
    backup.checkpoint = match checkpoint {
        "fast" => BackupCheckpoint::Fast,
        "spread" => BackupCheckpoint::Spread,
        _ => return refused("checkpoint must be 'fast' or 'spread'"),
    };
    let checksums = ManifestChecksums::ALL
        .into_iter()
        .find(|it| it.name().eq_ignore_ascii_case(manifest_checksums));
    let Some(checksums) = checksums else {
        let names = ManifestChecksums::ALL
            .map(ManifestChecksums::name)
            .join(", ");
        return refused(&format!("manifest_checksums must be one of {names}"));
    };
    backup.manifest = match manifest {
        "no" => None,
        "yes" | "force-encode" => Some(BackupManifest {
            force_encode: manifest == "force-encode",
            checksums,
        }),
        _ => return refused("manifest must be 'yes', 'no' or 'force-encode'"),
    };
    backup.compression = compression.map(|method| BackupCompression {
        method,
        detail: compression_detail,
    });
    backup.target = target.map(|name| BackupTarget {
        name,
        detail: target_detail,
    });
    (backup.progress, backup.wal, backup.wait) = (progress, wal, wait);
    (backup.max_rate, backup.tablespace_map) = (max_rate, tablespace_map);
    (backup.verify_checksums, backup.incremental) = (verify_checksums, incremental);
    text(py, major, &ReplicationCommand::BaseBackup(backup))
}

/// Writes UPLOAD_MANIFEST for a server's major version.
#[pyfunction]
pub(crate) fn upload_manifest_command(py: Python<'_>, major: u32) -> PyResult<String> {
    text(py, major, &ReplicationCommand::UploadManifest)
}

/// Reads the first or the last result of BASE_BACKUP: an LSN and its timeline.
#[pyfunction]
pub(crate) fn parse_backup_position(cells: &Bound<'_, PyAny>) -> PyResult<(u64, u32)> {
    let (py, cells) = (cells.py(), cells.extract::<Cells>()?);
    let found = BackupPosition::from_cells(&borrowed(&cells)).map_err(|it| reply_error(py, it))?;
    Ok((found.lsn.0, found.timeline))
}

/// Reads a row of the second result of BASE_BACKUP: OID, directory and size in kB.
#[pyfunction]
pub(crate) fn parse_tablespace<'py>(
    cells: &Bound<'py, PyAny>,
) -> PyResult<(Option<u32>, Option<Name<'py>>, Option<u64>)> {
    let (py, cells) = (cells.py(), cells.extract::<Cells>()?);
    let found = Tablespace::from_cells(&borrowed(&cells)).map_err(|it| reply_error(py, it))?;
    let location = found.location.map(|it| PyBytes::new(py, it.0));
    Ok((found.oid, location, found.size))
}

/// Reads one payload of a base backup, from server 15 on: its letter, and its parts.
#[pyfunction]
pub(crate) fn parse_backup_data<'py>(
    py: Python<'py>,
    payload: &[u8],
) -> PyResult<Bound<'py, PyTuple>> {
    let bytes = |it: &[u8]| PyBytes::new(py, it);
    match BackupData::parse(payload) {
        Ok(BackupData::Archive { name, tablespace }) => {
            ("n", bytes(name.0), bytes(tablespace.0)).into_pyobject(py)
        }
        Ok(BackupData::Manifest) => ("m",).into_pyobject(py),
        Ok(BackupData::Data(data)) => ("d", bytes(data)).into_pyobject(py),
        Ok(BackupData::Progress(done)) => ("p", done).into_pyobject(py),
        Err(error) => Err(errors::replication_error(py, &error)),
    }
}

/// Returns the CRC-32C of bytes, which manifests use by default.
///
/// Args:
///     data: The bytes.
///     crc: The CRC-32C of the bytes before.
#[pyfunction]
#[pyo3(signature = (data, crc = 0))]
pub(crate) fn crc32c(py: Python<'_>, data: &[u8], crc: u32) -> u32 {
    py.detach(|| ::crc32c::crc32c_append(crc, data))
}
