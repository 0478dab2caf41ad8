//! Backend messages and the payloads of CopyData, owned, and their bytes.

use crate::OwnedMessage;
use crate::message::{Bytes, PgText, list};
use arbitrary::{Arbitrary, Result, Unstructured};
use walrow_wire::{BackendMessage, CopyData};

/// A backend message.
#[derive(Clone, Debug, PartialEq, Eq, Arbitrary)]
#[expect(
    missing_docs,
    reason = "the fields are those of walrow_wire's messages"
)]
pub enum OwnedFrame {
    CopyData(OwnedCopyData),
    CopyBothResponse {
        #[arbitrary(with = |u: &mut Unstructured<'_>| u.int_in_range(0..=1))]
        format: u8,
        #[arbitrary(with = |u: &mut Unstructured<'_>| list(u, 3))]
        columns: Vec<u16>,
    },
    CopyOutResponse {
        #[arbitrary(with = |u: &mut Unstructured<'_>| u.int_in_range(0..=1))]
        format: u8,
        #[arbitrary(with = |u: &mut Unstructured<'_>| list(u, 3))]
        columns: Vec<u16>,
    },
    CopyInResponse {
        #[arbitrary(with = |u: &mut Unstructured<'_>| u.int_in_range(0..=1))]
        format: u8,
        #[arbitrary(with = |u: &mut Unstructured<'_>| list(u, 3))]
        columns: Vec<u16>,
    },
    Authentication {
        request: u32,
        data: Vec<u8>,
    },
    BackendKeyData {
        process_id: u32,
        secret: Vec<u8>,
    },
    NoticeResponse(#[arbitrary(with = fields)] Vec<(u8, PgText)>),
    ErrorResponse(#[arbitrary(with = fields)] Vec<(u8, PgText)>),
    ParameterStatus {
        name: PgText,
        value: PgText,
    },
    NotificationResponse {
        process_id: u32,
        channel: PgText,
        payload: PgText,
    },
    CopyDone,
    CommandComplete(PgText),
    ReadyForQuery(u8),
    RowDescription(#[arbitrary(with = |u: &mut Unstructured<'_>| list(u, 3))] Vec<RowField>),
    DataRow(#[arbitrary(with = |u: &mut Unstructured<'_>| list(u, 3))] Vec<Option<Vec<u8>>>),
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq, Arbitrary)]
#[expect(missing_docs, reason = "the fields are those of walrow_wire::RowField")]
pub struct RowField {
    pub name: PgText,
    pub table: u32,
    pub attribute: i16,
    pub type_oid: u32,
    pub type_size: i16,
    pub type_modifier: i32,
    pub format: u16,
}

/// The payload of a CopyData.
#[derive(Clone, Debug, PartialEq, Eq, Arbitrary)]
#[expect(missing_docs, reason = "the fields are those of walrow_wire's types")]
pub enum OwnedCopyData {
    XLogData {
        start: u64,
        end: u64,
        clock: i64,
        message: OwnedMessage,
    },
    PrimaryKeepalive {
        end: u64,
        clock: i64,
        reply_requested: bool,
    },
    StandbyStatusUpdate {
        write: u64,
        flush: u64,
        apply: u64,
        clock: i64,
        reply_requested: bool,
    },
    HotStandbyFeedback {
        clock: i64,
        xmin: u32,
        xmin_epoch: u32,
        catalog_xmin: u32,
        catalog_xmin_epoch: u32,
    },
}

impl OwnedFrame {
    /// The frame's bytes: tag, length and body.
    pub fn bytes(&self) -> Vec<u8> {
        let mut body = Bytes::default();
        let tag = match self {
            Self::CopyData(data) => {
                body.all(&data.bytes());
                b'd'
            }
            Self::CopyBothResponse { format, columns }
            | Self::CopyOutResponse { format, columns }
            | Self::CopyInResponse { format, columns } => {
                body.byte(*format).count(columns.len());
                for column in columns {
                    body.u16(*column);
                }
                match self {
                    Self::CopyOutResponse { .. } => b'H',
                    Self::CopyInResponse { .. } => b'G',
                    _ => b'W',
                }
            }
            Self::Authentication { request, data } => {
                body.u32(*request).all(data);
                b'R'
            }
            Self::BackendKeyData { process_id, secret } => {
                body.u32(*process_id).all(secret);
                b'K'
            }
            Self::NoticeResponse(fields) | Self::ErrorResponse(fields) => {
                for (code, text) in fields {
                    body.byte(*code).text(text);
                }
                body.byte(0);
                if matches!(self, Self::NoticeResponse(_)) {
                    b'N'
                } else {
                    b'E'
                }
            }
            Self::ParameterStatus { name, value } => {
                body.text(name).text(value);
                b'S'
            }
            Self::NotificationResponse {
                process_id,
                channel,
                payload,
            } => {
                body.u32(*process_id).text(channel).text(payload);
                b'A'
            }
            Self::CopyDone => b'c',
            Self::CommandComplete(tag) => {
                body.text(tag);
                b'C'
            }
            Self::ReadyForQuery(status) => {
                body.byte(*status);
                b'Z'
            }
            Self::RowDescription(fields) => {
                body.count(fields.len());
                for field in fields {
                    body.text(&field.name).u32(field.table);
                    body.all(&field.attribute.to_be_bytes());
                    body.u32(field.type_oid);
                    body.all(&field.type_size.to_be_bytes());
                    body.i32(field.type_modifier).u16(field.format);
                }
                b'T'
            }
            Self::DataRow(values) => {
                body.count(values.len());
                for value in values {
                    match value {
                        None => body.i32(-1),
                        Some(value) => body.length(value.len()).all(value),
                    };
                }
                b'D'
            }
        };
        let mut out = Bytes::default();
        out.byte(tag).length(body.0.len() + 4).all(&body.0);
        out.0
    }
}

impl OwnedCopyData {
    /// The payload's bytes, without a frame.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Bytes::default();
        match self {
            Self::XLogData {
                start,
                end,
                clock,
                message,
            } => {
                out.byte(b'w').u64(*start).u64(*end).i64(*clock);
                out.all(&message.bytes());
            }
            Self::PrimaryKeepalive {
                end,
                clock,
                reply_requested,
            } => {
                out.byte(b'k').u64(*end).i64(*clock);
                out.byte(u8::from(*reply_requested));
            }
            Self::StandbyStatusUpdate {
                write,
                flush,
                apply,
                clock,
                reply_requested,
            } => {
                out.byte(b'r').u64(*write).u64(*flush).u64(*apply);
                out.i64(*clock).byte(u8::from(*reply_requested));
            }
            Self::HotStandbyFeedback {
                clock,
                xmin,
                xmin_epoch,
                catalog_xmin,
                catalog_xmin_epoch,
            } => {
                out.byte(b'h').i64(*clock).u32(*xmin).u32(*xmin_epoch);
                out.u32(*catalog_xmin).u32(*catalog_xmin_epoch);
            }
        }
        out.0
    }

    /// Copies a parsed payload's fields. `in_stream` says whether its message is in a stream block.
    pub fn read(
        data: &CopyData<'_>,
        in_stream: bool,
    ) -> core::result::Result<Self, walrow_wire::Error> {
        Ok(match data {
            CopyData::XLogData(data) => Self::XLogData {
                start: data.start.0,
                end: data.end.0,
                clock: data.clock.0,
                message: OwnedMessage::from(&data.message(in_stream)?),
            },
            CopyData::PrimaryKeepalive(data) => Self::PrimaryKeepalive {
                end: data.end.0,
                clock: data.clock.0,
                reply_requested: data.reply_requested,
            },
            CopyData::StandbyStatusUpdate(data) => Self::StandbyStatusUpdate {
                write: data.write.0,
                flush: data.flush.0,
                apply: data.apply.0,
                clock: data.clock.0,
                reply_requested: data.reply_requested,
            },
            CopyData::HotStandbyFeedback(data) => Self::HotStandbyFeedback {
                clock: data.clock.0,
                xmin: data.xmin,
                xmin_epoch: data.xmin_epoch,
                catalog_xmin: data.catalog_xmin,
                catalog_xmin_epoch: data.catalog_xmin_epoch,
            },
        })
    }
}

impl OwnedFrame {
    /// Copies a parsed message's fields; see [`OwnedCopyData::read`].
    pub fn read(
        message: &BackendMessage<'_>,
        in_stream: bool,
    ) -> core::result::Result<Self, walrow_wire::Error> {
        let owned = |fields: &walrow_wire::ErrorFields<'_>| {
            let owned: Vec<_> = fields
                .iter()
                .map(|(code, text)| (code, text.into()))
                .collect();
            for (code, _) in fields.iter() {
                let first = owned.iter().find(|(c, _)| *c == code).map(|(_, text)| text);
                assert_eq!(fields.get(code).map(PgText::from).as_ref(), first);
            }
            owned
        };
        Ok(match message {
            BackendMessage::CopyData(data) => Self::CopyData(OwnedCopyData::read(data, in_stream)?),
            BackendMessage::CopyBothResponse(response) => Self::CopyBothResponse {
                format: response.format,
                columns: response.columns().collect(),
            },
            BackendMessage::CopyOutResponse(response) => Self::CopyOutResponse {
                format: response.format,
                columns: response.columns().collect(),
            },
            BackendMessage::CopyInResponse(response) => Self::CopyInResponse {
                format: response.format,
                columns: response.columns().collect(),
            },
            BackendMessage::Authentication(step) => Self::Authentication {
                request: step.request,
                data: step.data.to_vec(),
            },
            BackendMessage::BackendKeyData(key) => Self::BackendKeyData {
                process_id: key.process_id,
                secret: key.secret.to_vec(),
            },
            BackendMessage::NoticeResponse(fields) => Self::NoticeResponse(owned(fields)),
            BackendMessage::ErrorResponse(fields) => Self::ErrorResponse(owned(fields)),
            BackendMessage::ParameterStatus(status) => Self::ParameterStatus {
                name: status.name.into(),
                value: status.value.into(),
            },
            BackendMessage::NotificationResponse(notification) => Self::NotificationResponse {
                process_id: notification.process_id,
                channel: notification.channel.into(),
                payload: notification.payload.into(),
            },
            BackendMessage::CopyDone => Self::CopyDone,
            BackendMessage::CommandComplete(tag) => Self::CommandComplete((*tag).into()),
            BackendMessage::ReadyForQuery(status) => Self::ReadyForQuery(*status),
            BackendMessage::RowDescription(row) => Self::RowDescription(
                row.fields()
                    .iter()
                    .map(|field| RowField {
                        name: field.name.into(),
                        table: field.table,
                        attribute: field.attribute,
                        type_oid: field.type_oid,
                        type_size: field.type_size,
                        type_modifier: field.type_modifier,
                        format: field.format,
                    })
                    .collect(),
            ),
            BackendMessage::DataRow(row) => Self::DataRow(
                row.values()
                    .iter()
                    .map(|value| value.map(<[u8]>::to_vec))
                    .collect(),
            ),
        })
    }

    /// Whether the frame holds a message that must be parsed as one of a stream block.
    pub const fn in_stream(&self) -> bool {
        match self {
            Self::CopyData(OwnedCopyData::XLogData { message, .. }) => message.in_stream(),
            _ => false,
        }
    }
}

/// Codes are letters. A zero would end the fields.
fn fields(u: &mut Unstructured<'_>) -> Result<Vec<(u8, PgText)>> {
    let mut fields: Vec<(u8, PgText)> = list(u, 4)?;
    for (code, _) in &mut fields {
        *code = b'A' + *code % 26;
    }
    Ok(fields)
}
