//! The server's messages on a replication connection, and the frames they come in.
//!
//! ```text
//! ┌─────┬────────────────┬─────────────────┐
//! │ tag │ length (4)     │ body            │   length counts itself, not the tag
//! └─────┴────────────────┴─────────────────┘
//! ```
//! Manual: [Message Formats](https://www.postgresql.org/docs/current/protocol-message-formats.html).

use crate::copy_data::CopyData;
use crate::cursor::Cursor;
use crate::encode::Put;
use crate::error::{Error, ErrorKind};
use crate::{Oid, PgString};
use alloc::vec::Vec;

/// One message of the server as it arrives on the connection. Its body is not parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The message's type byte.
    pub tag: u8,
    /// The bytes after tag and length.
    pub body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Bytes before the body: tag and length.
    pub const HEADER: usize = 5;

    /// A slice that is exactly one frame, as [`Frame::size`] found it. `None` if it has no whole
    /// header.
    #[inline]
    pub const fn new(frame: &'a [u8]) -> Option<Self> {
        match frame {
            [tag, _, _, _, _, body @ ..] => Some(Self { tag: *tag, body }),
            _ => None,
        }
    }

    /// Returns the first frame of `input` and its size in bytes, or `Ok(None)` if more bytes are
    /// needed.
    ///
    /// # Errors
    /// As [`Frame::size`].
    #[inline]
    pub fn parse(input: &'a [u8]) -> Result<Option<(Self, usize)>, Error> {
        let Some(size) = Self::size(input)? else {
            return Ok(None);
        };
        let frame = input.get(..size).and_then(Self::new);
        Ok(frame.map(|frame| (frame, size)))
    }

    /// The size in bytes of the first frame of `input`, including its header. `None` if the header
    /// is incomplete.
    ///
    /// # Errors
    /// A tag that no server sends on a replication connection, or an impossible length. Neither needs the body.
    #[inline]
    pub fn size(input: &[u8]) -> Result<Option<usize>, Error> {
        let Some(([tag, length @ ..], _)) = input.split_first_chunk::<{ Frame::HEADER }>() else {
            return match input.first() {
                Some(&tag) if !Self::is_known(tag) => Err(unknown_tag(tag)),
                _ => Ok(None),
            };
        };
        if !Self::is_known(*tag) {
            return Err(unknown_tag(*tag));
        }
        let length = u32::from_be_bytes(*length);
        if !(4..=MAX_LENGTH).contains(&length) {
            return Err(impossible_length(length));
        }
        // At most 1 GiB and one byte, and a usize has at least 32 bits.
        Ok(Some((length as usize).saturating_add(1)))
    }

    /// Whether a server sends frames with this tag on a replication connection.
    pub(crate) const fn is_known(tag: u8) -> bool {
        matches!(
            tag,
            b'd' | b'W' | b'N' | b'S' | b'E' | b'c' | b'C' | b'Z' | b'T' | b'D' | b'A'
        ) || matches!(tag, b'H' | b'G' | b'R' | b'K')
    }

    /// Appends the frame's bytes: the exact inverse of [`Frame::parse`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.tag);
        out.put_length(self.body.len().saturating_add(4));
        out.put_bytes(self.body);
    }

    /// Appends a frame whose body `encode` appends.
    #[inline]
    pub(crate) fn encode_with(tag: u8, out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.put_u8(tag);
        out.put_u32(0);
        encode(out);
        Self::set_length(out.get_mut(start..).unwrap_or_default());
    }

    /// Writes the length of a frame whose body was appended after its header. `frame` is exactly
    /// this frame.
    #[inline]
    pub fn set_length(frame: &mut [u8]) {
        let length = frame.len().saturating_sub(1);
        let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
        if let Some(place) = frame.get_mut(1..Self::HEADER) {
            place.copy_from_slice(&length);
        }
    }
}

/// 1 GiB: PostgreSQL cannot build a larger message.
pub(crate) const MAX_LENGTH: u32 = 1 << 30;

#[cold]
const fn unknown_tag(tag: u8) -> Error {
    Error {
        kind: ErrorKind::UnknownKind(tag),
        offset: 0,
        message: "frame",
        field: "type byte",
    }
}

#[cold]
fn impossible_length(length: u32) -> Error {
    Error {
        kind: ErrorKind::InvalidLength(length.cast_signed().into()),
        offset: 1,
        message: "frame",
        field: "length",
    }
}

/// A parsed message of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendMessage<'a> {
    /// `d`.
    CopyData(CopyData<'a>),
    /// `W`, the response to `START_REPLICATION`: a new session begins.
    CopyBothResponse(CopyBothResponse<'a>),
    /// `H`, the response to `BASE_BACKUP`: the server sends data.
    CopyOutResponse(CopyBothResponse<'a>),
    /// `G`, the response to `UPLOAD_MANIFEST`: the server waits for data.
    CopyInResponse(CopyBothResponse<'a>),
    /// `R`, a step of the authentication.
    Authentication(Authentication<'a>),
    /// `K`, what a [`CancelRequest`](crate::FrontendMessage::CancelRequest) needs.
    BackendKeyData(BackendKeyData<'a>),
    /// `N`, a warning or notice.
    NoticeResponse(ErrorFields<'a>),
    /// `E`, an error that ends the stream.
    ErrorResponse(ErrorFields<'a>),
    /// `S`, a setting's new value.
    ParameterStatus(ParameterStatus<'a>),
    /// `A`, a notification for LISTEN.
    NotificationResponse(NotificationResponse<'a>),
    /// `c`, the server ended the COPY.
    CopyDone,
    /// `C`, with the command's tag.
    CommandComplete(PgString<'a>),
    /// `Z`, with the transaction status: `I`, `T` or `E`.
    ReadyForQuery(u8),
    /// `T`, the columns of a result: of `IDENTIFY_SYSTEM`, of a timeline's end.
    RowDescription(RowDescription<'a>),
    /// `D`, a row of a result.
    DataRow(DataRow<'a>),
}

/// The format of the COPY data, in `W`, `H` and `G`. For a stream of replication: text, no columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyBothResponse<'a> {
    /// 0 text, 1 binary.
    pub format: u8,
    /// Two bytes per column, as received.
    columns: &'a [u8],
}

impl CopyBothResponse<'_> {
    /// The columns' formats.
    pub fn columns(&self) -> impl Iterator<Item = u16> + '_ {
        self.columns
            .as_chunks::<2>()
            .0
            .iter()
            .map(|bytes| u16::from_be_bytes(*bytes))
    }
}

/// A step of the authentication.
///
/// Manual: [Message Formats, Authentication…](https://www.postgresql.org/docs/current/protocol-message-formats.html).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authentication<'a> {
    /// 0 `Ok`, 3 `CleartextPassword`, 5 `MD5Password`, 7 `GSS`, 8 `GSSContinue`, 9 `SSPI`, 10 `SASL`, 11
    /// `SASLContinue`, 12 `SASLFinal`.
    pub request: u32,
    /// The rest of the message: a salt, the names of mechanisms, or data of the mechanism.
    pub data: &'a [u8],
}

/// The process that serves the connection, and its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendKeyData<'a> {
    /// The process.
    pub process_id: u32,
    /// The key: 4 bytes in protocol 3.0, up to 256 from 3.2.
    pub secret: &'a [u8],
}

/// The fields of an error or notice: a code byte and a text each.
///
/// Manual: [Error and Notice Message Fields](https://www.postgresql.org/docs/current/protocol-error-fields.html).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorFields<'a>(Vec<(u8, PgString<'a>)>);

impl<'a> ErrorFields<'a> {
    /// The text of the field with this code: `S` is the severity.
    pub fn get(&self, code: u8) -> Option<PgString<'a>> {
        self.0
            .iter()
            .find(|(c, _)| *c == code)
            .map(|(_, text)| *text)
    }

    /// The SQLSTATE. Servers always send one.
    pub fn sqlstate(&self) -> Option<PgString<'a>> {
        self.get(b'C')
    }

    /// All fields in order.
    pub fn iter(&self) -> impl Iterator<Item = (u8, PgString<'a>)> + '_ {
        self.0.iter().copied()
    }
}

/// A setting's new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterStatus<'a> {
    /// `DateStyle`, `TimeZone`, ….
    pub name: PgString<'a>,
    /// Its value.
    pub value: PgString<'a>,
}

/// A notification from NOTIFY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotificationResponse<'a> {
    /// The notifying backend's process.
    pub process_id: u32,
    /// The channel.
    pub channel: PgString<'a>,
    /// The payload.
    pub payload: PgString<'a>,
}

/// The columns of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowDescription<'a>(Vec<RowField<'a>>);

impl<'a> RowDescription<'a> {
    /// The columns in order.
    pub fn fields(&self) -> &[RowField<'a>] {
        &self.0
    }
}

/// A column of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowField<'a> {
    /// Its name.
    pub name: PgString<'a>,
    /// Its table, or 0.
    pub table: Oid,
    /// Its attribute number there, or 0.
    pub attribute: i16,
    /// Its type.
    pub type_oid: Oid,
    /// The type's size in bytes; negative for variable sizes.
    pub type_size: i16,
    /// The type modifier, or -1.
    pub type_modifier: i32,
    /// 0 text, 1 binary.
    pub format: u16,
}

/// A row of a result: for each column its value, or `None` for NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataRow<'a>(Vec<Option<&'a [u8]>>);

impl<'a> DataRow<'a> {
    /// The values in order.
    pub fn values(&self) -> &[Option<&'a [u8]>] {
        &self.0
    }
}

impl<'a> BackendMessage<'a> {
    /// Parses a frame's body. Error offsets count from the frame's first byte.
    pub fn parse(frame: Frame<'a>) -> Result<Self, Error> {
        let body = frame.body;
        match frame.tag {
            b'd' => CopyData::parse(body).map(Self::CopyData),
            b'W' => {
                copy_response(Cursor::new(body, "CopyBothResponse")).map(Self::CopyBothResponse)
            }
            b'H' => copy_response(Cursor::new(body, "CopyOutResponse")).map(Self::CopyOutResponse),
            b'G' => copy_response(Cursor::new(body, "CopyInResponse")).map(Self::CopyInResponse),
            b'R' => whole(Cursor::new(body, "Authentication"), |cursor| {
                Ok(Self::Authentication(Authentication {
                    request: cursor.u32("request")?,
                    data: cursor.bytes(cursor.rest().len(), "data")?,
                }))
            }),
            b'K' => whole(Cursor::new(body, "BackendKeyData"), |cursor| {
                Ok(Self::BackendKeyData(BackendKeyData {
                    process_id: cursor.u32("process ID")?,
                    secret: cursor.bytes(cursor.rest().len(), "key")?,
                }))
            }),
            b'N' => fields(Cursor::new(body, "NoticeResponse")).map(Self::NoticeResponse),
            b'E' => fields(Cursor::new(body, "ErrorResponse")).map(Self::ErrorResponse),
            b'S' => whole(Cursor::new(body, "ParameterStatus"), |cursor| {
                Ok(Self::ParameterStatus(ParameterStatus {
                    name: cursor.string("name")?,
                    value: cursor.string("value")?,
                }))
            }),
            b'A' => whole(Cursor::new(body, "NotificationResponse"), |cursor| {
                Ok(Self::NotificationResponse(NotificationResponse {
                    process_id: cursor.u32("process ID")?,
                    channel: cursor.string("channel")?,
                    payload: cursor.string("payload")?,
                }))
            }),
            b'c' => whole(Cursor::new(body, "CopyDone"), |_| Ok(Self::CopyDone)),
            b'C' => whole(Cursor::new(body, "CommandComplete"), |cursor| {
                cursor.string("command tag").map(Self::CommandComplete)
            }),
            b'Z' => whole(Cursor::new(body, "ReadyForQuery"), |cursor| {
                cursor.u8("transaction status").map(Self::ReadyForQuery)
            }),
            b'T' => row_description(body).map(Self::RowDescription),
            b'D' => data_row(body).map(Self::DataRow),
            tag => return Err(unknown_tag(tag)),
        }
        .map_err(|error| error.at(Frame::HEADER))
    }

    /// Appends the message in its frame: the exact inverse of [`BackendMessage::parse`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        Frame::encode_with(self.tag(), out, |out| self.encode_body(out));
    }

    /// The message's type byte.
    pub const fn tag(&self) -> u8 {
        match self {
            Self::CopyData(_) => b'd',
            Self::CopyBothResponse(_) => b'W',
            Self::CopyOutResponse(_) => b'H',
            Self::CopyInResponse(_) => b'G',
            Self::Authentication(_) => b'R',
            Self::BackendKeyData(_) => b'K',
            Self::NoticeResponse(_) => b'N',
            Self::ErrorResponse(_) => b'E',
            Self::ParameterStatus(_) => b'S',
            Self::NotificationResponse(_) => b'A',
            Self::CopyDone => b'c',
            Self::CommandComplete(_) => b'C',
            Self::ReadyForQuery(_) => b'Z',
            Self::RowDescription(_) => b'T',
            Self::DataRow(_) => b'D',
        }
    }

    /// The letter that names the message: the kind of the payload for CopyData, otherwise the tag.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::CopyData(data) => data.kind(),
            other => other.tag(),
        }
    }

    /// The message's name in the manual: that of the payload for CopyData.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CopyData(data) => data.name(),
            Self::CopyBothResponse(_) => "CopyBothResponse",
            Self::CopyOutResponse(_) => "CopyOutResponse",
            Self::CopyInResponse(_) => "CopyInResponse",
            Self::Authentication(_) => "Authentication",
            Self::BackendKeyData(_) => "BackendKeyData",
            Self::NoticeResponse(_) => "NoticeResponse",
            Self::ErrorResponse(_) => "ErrorResponse",
            Self::ParameterStatus(_) => "ParameterStatus",
            Self::NotificationResponse(_) => "NotificationResponse",
            Self::CopyDone => "CopyDone",
            Self::CommandComplete(_) => "CommandComplete",
            Self::ReadyForQuery(_) => "ReadyForQuery",
            Self::RowDescription(_) => "RowDescription",
            Self::DataRow(_) => "DataRow",
        }
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::CopyData(data) => data.encode(out),
            Self::CopyBothResponse(response)
            | Self::CopyOutResponse(response)
            | Self::CopyInResponse(response) => {
                out.put_u8(response.format);
                out.put_count(response.columns.len() / 2);
                out.put_bytes(response.columns);
            }
            Self::NoticeResponse(fields) | Self::ErrorResponse(fields) => {
                for (code, text) in fields.iter() {
                    out.put_u8(code);
                    out.put_string(text);
                }
                out.put_u8(0);
            }
            Self::Authentication(step) => {
                out.put_u32(step.request);
                out.put_bytes(step.data);
            }
            Self::BackendKeyData(key) => {
                out.put_u32(key.process_id);
                out.put_bytes(key.secret);
            }
            Self::ParameterStatus(status) => {
                out.put_string(status.name);
                out.put_string(status.value);
            }
            Self::NotificationResponse(notification) => {
                out.put_u32(notification.process_id);
                out.put_string(notification.channel);
                out.put_string(notification.payload);
            }
            Self::CopyDone => {}
            Self::CommandComplete(tag) => out.put_string(*tag),
            Self::ReadyForQuery(status) => out.put_u8(*status),
            Self::RowDescription(RowDescription(fields)) => {
                out.put_count(fields.len());
                for field in fields {
                    out.put_string(field.name);
                    out.put_u32(field.table);
                    out.put_bytes(&field.attribute.to_be_bytes());
                    out.put_u32(field.type_oid);
                    out.put_bytes(&field.type_size.to_be_bytes());
                    out.put_i32(field.type_modifier);
                    out.put_u16(field.format);
                }
            }
            Self::DataRow(DataRow(values)) => {
                out.put_count(values.len());
                for value in values {
                    match value {
                        None => out.put_i32(-1),
                        Some(bytes) => {
                            out.put_length(bytes.len());
                            out.put_bytes(bytes);
                        }
                    }
                }
            }
        }
    }
}

/// Runs `read`, and fails if it leaves bytes unread.
fn whole<'a, T>(
    mut cursor: Cursor<'a>,
    read: impl FnOnce(&mut Cursor<'a>) -> Result<T, Error>,
) -> Result<T, Error> {
    let value = read(&mut cursor)?;
    cursor.finish()?;
    Ok(value)
}

fn copy_response(cursor: Cursor<'_>) -> Result<CopyBothResponse<'_>, Error> {
    whole(cursor, |cursor| {
        let format = u8::from(cursor.flag("format")?);
        let count = usize::from(cursor.u16("number of columns")?);
        let columns = cursor.bytes(count.saturating_mul(2), "column formats")?;
        Ok(CopyBothResponse { format, columns })
    })
}

fn fields(cursor: Cursor<'_>) -> Result<ErrorFields<'_>, Error> {
    whole(cursor, |cursor| {
        let mut fields = Vec::new();
        loop {
            match cursor.u8("field code")? {
                0 => return Ok(ErrorFields(fields)),
                code => fields.push((code, cursor.string("field text")?)),
            }
        }
    })
}

fn row_description(body: &[u8]) -> Result<RowDescription<'_>, Error> {
    whole(Cursor::new(body, "RowDescription"), |cursor| {
        let mut fields = Vec::new();
        for _ in 0..cursor.u16("number of columns")? {
            fields.push(RowField {
                name: cursor.string("column name")?,
                table: cursor.u32("table OID")?,
                attribute: cursor.i16("attribute number")?,
                type_oid: cursor.u32("type OID")?,
                type_size: cursor.i16("type size")?,
                type_modifier: cursor.i32("type modifier")?,
                format: cursor.u16("format")?,
            });
        }
        Ok(RowDescription(fields))
    })
}

fn data_row(body: &[u8]) -> Result<DataRow<'_>, Error> {
    whole(Cursor::new(body, "DataRow"), |cursor| {
        let mut values = Vec::new();
        for _ in 0..cursor.u16("number of columns")? {
            let before = *cursor;
            let length = cursor.i32("value length")?;
            values.push(if length == -1 {
                None
            } else if let Ok(length) = usize::try_from(length) {
                Some(cursor.bytes(length, "value")?)
            } else {
                let kind = ErrorKind::InvalidLength(length.into());
                return Err(before.error(kind, "value length"));
            });
        }
        Ok(DataRow(values))
    })
}
