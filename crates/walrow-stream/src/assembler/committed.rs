//! A committed transaction as a value.

use super::Core;
use crate::error::Error;

/// todo
#[derive(Debug)]
pub struct Committed {
    core: Box<Core>,
    failure: Option<Error>,
}
