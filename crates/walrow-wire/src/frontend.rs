//! A client's messages on a connection: written, not parsed.
//!
//! Manual: [Message Formats](https://www.postgresql.org/docs/current/protocol-message-formats.html).

use crate::encode::Put;
use crate::{BackendKeyData, CopyData, Frame, PgString};
use alloc::vec::Vec;

/// A message of a client, in its frame.
///
/// ```
/// use walrow_wire::{FrontendMessage, PgString};
/// let mut out = Vec::new();
/// FrontendMessage::Query(PgString(b"IDENTIFY_SYSTEM")).encode(&mut out);
/// assert_eq!(out, b"Q\0\0\0\x14IDENTIFY_SYSTEM\0");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontendMessage<'a> {
    /// The first message: the protocol's version, such as `0x3_0000` for 3.0, and names and values: `user`,
    /// `database`, `replication`, and settings. A name cannot be empty.
    Startup(u32, &'a [(PgString<'a>, PgString<'a>)]),
    /// Asks for TLS, before the first message. The server answers with one byte.
    SslRequest,
    /// Cancels the command of another connection. A connection with this message has no other one.
    CancelRequest(BackendKeyData<'a>),
    /// `p`: a password, or its MD5 digest.
    Password(PgString<'a>),
    /// `p`: the chosen mechanism, such as `SCRAM-SHA-256`, and its first data if it has any.
    SaslInitialResponse(PgString<'a>, Option<&'a [u8]>),
    /// `p`: further data of the mechanism.
    SaslResponse(&'a [u8]),
    /// `Q`: a replication command, or SQL.
    Query(PgString<'a>),
    /// `d`: a status update, for example.
    CopyData(CopyData<'a>),
    /// `d`: other data, such as a manifest.
    CopyBytes(&'a [u8]),
    /// `c`: the client ends the COPY.
    CopyDone,
    /// `f`: the client breaks the COPY off, for a reason.
    CopyFail(PgString<'a>),
    /// `X`: the client ends the connection.
    Terminate,
}

impl FrontendMessage<'_> {
    /// Appends the message in its frame. The first messages of a connection have no type byte.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let tag = self.tag();
        Frame::encode_with(tag.unwrap_or_default(), out, |out| self.encode_body(out));
        if tag.is_none() && start < out.len() {
            out.remove(start);
        }
    }

    const fn tag(&self) -> Option<u8> {
        Some(match self {
            Self::Startup(..) | Self::SslRequest | Self::CancelRequest(_) => return None,
            Self::Password(_) | Self::SaslInitialResponse(..) | Self::SaslResponse(_) => b'p',
            Self::Query(_) => b'Q',
            Self::CopyData(_) | Self::CopyBytes(_) => b'd',
            Self::CopyDone => b'c',
            Self::CopyFail(_) => b'f',
            Self::Terminate => b'X',
        })
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Startup(protocol, parameters) => {
                out.put_u32(protocol);
                for (name, value) in parameters {
                    out.put_string(*name);
                    out.put_string(*value);
                }
                out.put_u8(0);
            }
            Self::SslRequest => out.put_u32(SSL_REQUEST),
            Self::CancelRequest(key) => {
                out.put_u32(CANCEL_REQUEST);
                out.put_u32(key.process_id);
                out.put_bytes(key.secret);
            }
            Self::Password(text) | Self::Query(text) | Self::CopyFail(text) => out.put_string(text),
            Self::SaslInitialResponse(mechanism, response) => {
                out.put_string(mechanism);
                match response {
                    None => out.put_i32(-1),
                    Some(bytes) => out.put_length(bytes.len()),
                }
                out.put_bytes(response.unwrap_or_default());
            }
            Self::SaslResponse(bytes) | Self::CopyBytes(bytes) => out.put_bytes(bytes),
            Self::CopyData(data) => data.encode(out),
            Self::CopyDone | Self::Terminate => {}
        }
    }
}

/// Codes in the place of a protocol's version.
const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
