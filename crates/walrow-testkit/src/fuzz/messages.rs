//! Reads arbitrary bytes as one message of pgoutput.

use crate::OwnedMessage;
use walrow_wire::Message;

/// A message that parses has the same bytes from both encoders. All other input is an error with an
/// offset inside it.
pub fn messages(data: &[u8]) {
    for in_stream in [false, true] {
        match Message::parse(data, in_stream) {
            Ok(message) => {
                let mut again = Vec::new();
                message.encode(&mut again);
                assert_eq!(again, data);
                assert_eq!(OwnedMessage::from(&message).bytes(), data);
                assert!(!message.name().is_empty() && !format!("{message:?}").is_empty());
            }
            Err(error) => {
                assert!(error.offset <= data.len(), "{error}");
                assert!(!error.to_string().is_empty());
            }
        }
    }
}
