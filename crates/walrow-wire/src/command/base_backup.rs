//! The command that begins a base backup.
//!
//! Through server 14, options are keywords. From 15 on, they are a list in parentheses.
//!
//! Manual: [Streaming Replication Protocol, BASE_BACKUP](https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-BASE-BACKUP).

use super::error::{CommandError, require};
use super::quoted::literal;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// `BASE_BACKUP`.
///
/// ```
/// use walrow_wire::{BackupCheckpoint, BaseBackup, ReplicationCommand};
/// let mut backup = BaseBackup::new("before the move");
/// backup.checkpoint = BackupCheckpoint::Fast;
/// backup.wal = true;
/// let command = ReplicationCommand::BaseBackup(backup);
/// assert_eq!(command.text(14)?, "BASE_BACKUP LABEL 'before the move' FAST WAL");
/// assert_eq!(
///     command.text(18)?,
///     "BASE_BACKUP (LABEL 'before the move', CHECKPOINT 'fast', WAL)"
/// );
/// # Ok::<(), walrow_wire::CommandError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the command's options"
)]
pub struct BaseBackup<'a> {
    /// The backup's label, for people.
    pub label: &'a str,
    /// Whether the sizes of tablespaces are estimated first, and progress is sent.
    pub progress: bool,
    /// How the server makes its checkpoint at the start.
    pub checkpoint: BackupCheckpoint,
    /// Whether the backup contains the WAL from its start to its end.
    pub wal: bool,
    /// Whether the backup ends only when the last WAL is archived, if the server archives.
    pub wait: bool,
    /// The greatest rate in kB a second: 32 to 1,048,576. 0 or `None`: no limit.
    pub max_rate: Option<u32>,
    /// Whether links to tablespaces come as the file `tablespace_map`, not as links.
    pub tablespace_map: bool,
    /// Whether the server verifies the checksums of pages, if it has them.
    pub verify_checksums: bool,
    /// Whether a manifest comes, and how. `None`: no manifest comes.
    pub manifest: Option<BackupManifest>,
    /// How the server compresses archives. From server 15.
    pub compression: Option<BackupCompression<'a>>,
    /// Where the backup goes instead of to the client. From server 15.
    pub target: Option<BackupTarget<'a>>,
    /// Whether only changes since the uploaded manifest come. From server 17.
    pub incremental: bool,
}

impl<'a> BaseBackup<'a> {
    /// The server's defaults.
    pub const fn new(label: &'a str) -> Self {
        Self {
            label,
            progress: false,
            checkpoint: BackupCheckpoint::Spread,
            wal: false,
            wait: true,
            max_rate: None,
            tablespace_map: false,
            verify_checksums: true,
            manifest: None,
            compression: None,
            target: None,
            incremental: false,
        }
    }
}

/// How the server makes its checkpoint at the start of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackupCheckpoint {
    /// At once.
    Fast,
    /// Spread over time, as its periodic checkpoints are.
    Spread,
}

/// The manifest of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupManifest {
    /// Whether all file names come in hexadecimal, not only the names that are not UTF-8.
    pub force_encode: bool,
    /// The checksums of its files.
    pub checksums: ManifestChecksums,
}

/// The checksums of files in a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ManifestChecksums {
    /// None.
    None,
    /// CRC-32C, the server's default.
    Crc32c,
    /// SHA-224.
    Sha224,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl ManifestChecksums {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::None,
        Self::Crc32c,
        Self::Sha224,
        Self::Sha256,
        Self::Sha384,
        Self::Sha512,
    ];

    /// The name in a command and in a manifest.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Crc32c => "CRC32C",
            Self::Sha224 => "SHA224",
            Self::Sha256 => "SHA256",
            Self::Sha384 => "SHA384",
            Self::Sha512 => "SHA512",
        }
    }
}

/// How the server compresses the archives of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupCompression<'a> {
    /// The method: `gzip`, `lz4` or `zstd`, if the server was built with it.
    pub method: &'a str,
    /// A level, or settings such as `level=5`.
    pub detail: Option<&'a str>,
}

/// Where the server writes a backup instead of sending it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupTarget<'a> {
    /// The target: `server`, `blackhole`, or one of an extension.
    pub name: &'a str,
    /// For `server`, the directory.
    pub detail: Option<&'a str>,
}

impl BaseBackup<'_> {
    pub(super) fn text(&self, major: u32) -> Result<String, CommandError> {
        self.check(major)?;
        let has_list = major >= 15;
        let mut options = Vec::new();
        let mut text = |name: &str, what, value: &str| {
            options.push(alloc::format!("{name} {}", literal(what, value)?));
            Ok(())
        };
        text("LABEL", "the label", self.label)?;
        if let Some(target) = self.target {
            text("TARGET", "the target", target.name)?;
            if let Some(detail) = target.detail {
                text("TARGET_DETAIL", "the target's detail", detail)?;
            }
        }
        if let Some(compression) = self.compression {
            text("COMPRESSION", "the compression", compression.method)?;
            if let Some(detail) = compression.detail {
                text("COMPRESSION_DETAIL", "the compression's detail", detail)?;
            }
        }
        if let Some(manifest) = self.manifest {
            let kind = if manifest.force_encode {
                "force-encode"
            } else {
                "yes"
            };
            text("MANIFEST", "the manifest", kind)?;
            let checksums = manifest.checksums.name();
            text("MANIFEST_CHECKSUMS", "the checksums", checksums)?;
        }
        for (is_on, old, new) in [
            (self.progress, "PROGRESS", "PROGRESS"),
            (
                self.checkpoint == BackupCheckpoint::Fast,
                "FAST",
                "CHECKPOINT 'fast'",
            ),
            (self.wal, "WAL", "WAL"),
            (!self.wait, "NOWAIT", "WAIT false"),
            (self.tablespace_map, "TABLESPACE_MAP", "TABLESPACE_MAP"),
            (
                !self.verify_checksums,
                "NOVERIFY_CHECKSUMS",
                "VERIFY_CHECKSUMS false",
            ),
            (self.incremental, "INCREMENTAL", "INCREMENTAL"),
        ] {
            if is_on {
                options.push(if has_list { new } else { old }.to_string());
            }
        }
        if let Some(rate) = self.max_rate {
            options.push(alloc::format!("MAX_RATE {rate}"));
        }
        Ok(if has_list {
            alloc::format!("BASE_BACKUP ({})", options.join(", "))
        } else {
            alloc::format!("BASE_BACKUP {}", options.join(" "))
        })
    }

    fn check(&self, major: u32) -> Result<(), CommandError> {
        if self.compression.is_some() {
            require(major, 15, "COMPRESSION of BASE_BACKUP")?;
        }
        if self.target.is_some() {
            require(major, 15, "TARGET of BASE_BACKUP")?;
        }
        if self.incremental {
            require(major, 17, "INCREMENTAL of BASE_BACKUP")?;
        }
        if (self.max_rate).is_some_and(|rate| rate != 0 && !RATES.contains(&rate)) {
            return Err(CommandError::OutOfRange {
                what: "MAX_RATE of BASE_BACKUP",
                allowed: "0, or 32 to 1048576 kB a second",
            });
        }
        Ok(())
    }
}

/// The rates that servers take, in kB a second.
const RATES: core::ops::RangeInclusive<u32> = 32..=1_048_576;

#[cfg(test)]
mod tests {
    use super::*;

    fn everything<'a>() -> BaseBackup<'a> {
        BaseBackup {
            progress: true,
            checkpoint: BackupCheckpoint::Fast,
            wal: true,
            wait: false,
            max_rate: Some(32),
            tablespace_map: true,
            verify_checksums: false,
            manifest: Some(BackupManifest {
                force_encode: true,
                checksums: ManifestChecksums::Sha512,
            }),
            ..BaseBackup::new("it's")
        }
    }

    #[test]
    fn old_servers_have_keywords_new_ones_a_list() {
        let backup = everything();
        assert_eq!(
            backup.text(14).unwrap(),
            "BASE_BACKUP LABEL 'it''s' MANIFEST 'force-encode' MANIFEST_CHECKSUMS 'SHA512' PROGRESS \
             FAST WAL NOWAIT TABLESPACE_MAP NOVERIFY_CHECKSUMS MAX_RATE 32"
        );
        assert_eq!(
            backup.text(15).unwrap(),
            "BASE_BACKUP (LABEL 'it''s', MANIFEST 'force-encode', MANIFEST_CHECKSUMS 'SHA512', \
             PROGRESS, CHECKPOINT 'fast', WAL, WAIT false, TABLESPACE_MAP, VERIFY_CHECKSUMS false, \
             MAX_RATE 32)"
        );
    }

    #[test]
    fn options_are_refused_before_their_version() {
        let gzip = BackupCompression {
            method: "gzip",
            detail: Some("level=5"),
        };
        let target = BackupTarget {
            name: "server",
            detail: Some("/b"),
        };
        let mut backup = BaseBackup::new("");
        (backup.compression, backup.target) = (Some(gzip), Some(target));
        assert_eq!(
            backup.text(15).unwrap(),
            "BASE_BACKUP (LABEL '', TARGET 'server', TARGET_DETAIL '/b', COMPRESSION 'gzip', \
             COMPRESSION_DETAIL 'level=5')"
        );
        backup.incremental = true;
        let since = |backup: &BaseBackup<'_>, major| match backup.text(major) {
            Err(CommandError::Unsupported { since, what, .. }) => (since, what),
            other => panic!("{other:?}"),
        };
        assert_eq!(since(&backup, 14), (15, "COMPRESSION of BASE_BACKUP"));
        backup.compression = None;
        assert_eq!(since(&backup, 14), (15, "TARGET of BASE_BACKUP"));
        assert_eq!(since(&backup, 16), (17, "INCREMENTAL of BASE_BACKUP"));
        assert!(backup.text(17).unwrap().ends_with("INCREMENTAL)"));
    }

    #[test]
    fn impossible_values_are_refused() {
        for rate in [1, 31, 1_048_577, u32::MAX] {
            let mut backup = BaseBackup::new("");
            backup.max_rate = Some(rate);
            let error = backup.text(18).unwrap_err().to_string();
            assert_eq!(
                error,
                "MAX_RATE of BASE_BACKUP must be 0, or 32 to 1048576 kB a second"
            );
        }
        let mut backup = BaseBackup::new("");
        backup.max_rate = Some(0);
        assert_eq!(
            backup.text(18).unwrap(),
            "BASE_BACKUP (LABEL '', MAX_RATE 0)"
        );
        let error = BaseBackup::new("a\0").text(18).unwrap_err().to_string();
        assert!(error.starts_with("the label contains a NUL"), "{error}");
    }
}
