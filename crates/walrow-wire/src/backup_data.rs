//! The payloads of CopyData in a base backup, from server 15.
//!
//! Manual: [Streaming Replication Protocol, BASE_BACKUP](https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-BASE-BACKUP).

use crate::PgString;
use crate::cursor::Cursor;
use crate::encode::Put;
use crate::error::{Error, ErrorKind};
use alloc::vec::Vec;

/// One CopyData payload of a base backup.
///
/// Servers before 15 send the bytes of archives without these messages.
///
/// ```
/// use walrow_wire::BackupData;
/// let BackupData::Archive { name, tablespace } = BackupData::parse(b"nbase.tar\0\0")? else {
///     panic!("not an archive")
/// };
/// assert_eq!((name.0, tablespace.0), (&b"base.tar"[..], &b""[..]));
/// # Ok::<(), walrow_wire::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has no other kind")]
pub enum BackupData<'a> {
    /// `n`: a new archive begins.
    Archive {
        /// Its file name, such as `base.tar` or `16391.tar.gz`.
        name: PgString<'a>,
        /// The tablespace's directory on the server. Empty for the data directory.
        tablespace: PgString<'a>,
    },
    /// `m`: the manifest begins.
    Manifest,
    /// `d`: bytes of the archive or the manifest.
    Data(&'a [u8]),
    /// `p`: how many bytes of the tablespace are done.
    Progress(u64),
}

impl<'a> BackupData<'a> {
    /// Parses one payload. Error offsets count from its first byte.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(payload, "BASE_BACKUP");
        let kind = cursor.u8("kind")?;
        let found = match kind {
            b'n' => {
                cursor = cursor.named("new archive");
                Self::Archive {
                    name: cursor.string("archive name")?,
                    tablespace: cursor.string("tablespace path")?,
                }
            }
            b'm' => Self::Manifest,
            b'd' => return Ok(Self::Data(cursor.rest())),
            b'p' => {
                cursor = cursor.named("progress report");
                Self::Progress(cursor.lsn("bytes done")?.0)
            }
            _ => {
                let kind = ErrorKind::UnknownKind(kind);
                return Err(Cursor::new(payload, "BASE_BACKUP").error(kind, "kind"));
            }
        };
        cursor.finish()?;
        Ok(found)
    }

    /// Appends the payload: the exact inverse of [`BackupData::parse`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Archive { name, tablespace } => {
                out.put_u8(b'n');
                out.put_string(*name);
                out.put_string(*tablespace);
            }
            Self::Manifest => out.put_u8(b'm'),
            Self::Data(bytes) => {
                out.put_u8(b'd');
                out.put_bytes(bytes);
            }
            Self::Progress(done) => {
                out.put_u8(b'p');
                out.put_u64s([*done]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn payloads_and_their_inverse() {
        for (payload, expected) in [
            (
                &b"n16391.tar.gz\0/srv/fast\0"[..],
                BackupData::Archive {
                    name: "16391.tar.gz".into(),
                    tablespace: "/srv/fast".into(),
                },
            ),
            (b"m", BackupData::Manifest),
            (b"d", BackupData::Data(b"")),
            (b"d\0n", BackupData::Data(b"\0n")),
            (b"p\0\0\0\0\0\x01\0\0", BackupData::Progress(65_536)),
        ] {
            assert_eq!(BackupData::parse(payload), Ok(expected));
            let mut out = Vec::new();
            expected.encode(&mut out);
            assert_eq!(out, payload);
        }
    }

    #[test]
    fn damaged_payloads_name_the_field() {
        for (payload, offset, said) in [
            (&b""[..], 0, "kind"),
            (b"w", 0, "kind"),
            (b"nbase.tar", 1, "archive name"),
            (b"nbase.tar\0/srv", 10, "tablespace path"),
            (b"p\0\0", 1, "bytes done"),
            (b"mx", 1, ""),
        ] {
            let error = BackupData::parse(payload).unwrap_err();
            assert_eq!(error.offset, offset, "{error}");
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
