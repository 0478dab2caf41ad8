//! The errors of one cell.

use std::fmt;

/// The most bytes of one value, however few its cell has. PostgreSQL's own values are never larger.
pub(crate) const MAX_VALUE: usize = if cfg!(test) { 1 << 20 } else { 1 << 30 };

/// Why a cell did not become a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CellError {
    /// Bytes that PostgreSQL never writes for this type under the pinned settings. Contains what was expected.
    Malformed(&'static str),
    /// A legal PostgreSQL value that the Arrow type cannot represent.
    Unrepresentable(Unrepresentable),
}

pub(crate) const NOT_A_DATE: CellError = CellError::Malformed("an ISO date");
pub(crate) const NOT_A_TIMESTAMP: CellError = CellError::Malformed("an ISO timestamp");
pub(crate) const NOT_AN_INTERVAL: CellError =
    CellError::Malformed("an interval of IntervalStyle postgres");

/// A setting that decides how the server writes text. walrow reads one style of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Style {
    /// `DateStyle`: ISO.
    Date,
    /// `IntervalStyle`: `postgres`.
    Interval,
}

/// The reason why the column's Arrow type cannot represent a legal value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unrepresentable {
    /// `infinity` of a date, a timestamp, an interval or a numeric.
    PositiveInfinity,
    /// `-infinity` of a date, a timestamp, an interval or a numeric.
    NegativeInfinity,
    /// `NaN` of a numeric.
    NotANumber,
    /// A timestamp further from 1970 than 64 bits of microseconds.
    OutOfRange,
    /// `24:00:00`, which is not a time within a day.
    EndOfDay,
    /// Digits other than zero beyond the column's scale.
    Scale,
    /// More digits than the column's precision.
    Precision,
    /// An array of more dimensions than the column's lists, or of fewer.
    MultiDimensional,
    /// Text that is not UTF-8.
    InvalidUtf8,
    /// The binary form of a type whose text form the column holds.
    BinaryCell,
    /// The binary form of an unknown type.
    UnknownType,
    /// A value of more than 1 GiB, or more than 2 GiB of one column in one batch.
    TooLarge,
    /// A number too large or too small for a floating-point number.
    FloatRange,
    /// A number too large for 64 bits with a sign.
    SignedRange,
    /// An interval with more microseconds than 64 bits of nanoseconds.
    IntervalRange,
    /// The binary form of money in a column of text.
    MoneyScale,
    /// A geometry of another coordinate system than its column's.
    Srid,
    /// A composite value of other attributes than those in the catalog, which was read before or
    /// after its type was altered.
    AlteredType,
}

impl CellError {
    /// The setting to change, if the server may have written the text under another value of it.
    pub fn style(self) -> Option<Style> {
        match self {
            NOT_A_DATE | NOT_A_TIMESTAMP => Some(Style::Date),
            NOT_AN_INTERVAL => Some(Style::Interval),
            _ => None,
        }
    }

    /// An error only if the cell is malformed: a value that is not representable is legal.
    pub(crate) fn malformed(self) -> Result<(), Self> {
        match self {
            Self::Malformed(_) => Err(self),
            Self::Unrepresentable(_) => Ok(()),
        }
    }
}

impl std::error::Error for CellError {}

impl From<Unrepresentable> for CellError {
    fn from(reason: Unrepresentable) -> Self {
        Self::Unrepresentable(reason)
    }
}

impl fmt::Display for CellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(expected) => write!(f, "expected {expected}"),
            Self::Unrepresentable(reason) => reason.fmt(f),
        }
    }
}

impl fmt::Display for Unrepresentable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PositiveInfinity => "infinity",
            Self::NegativeInfinity => "negative infinity",
            Self::NotANumber => "NaN",
            Self::OutOfRange => "a timestamp beyond 64 bits of microseconds since 1970",
            Self::EndOfDay => "24:00:00, which is not within a day",
            Self::Scale => "more fraction digits than its scale",
            Self::Precision => "more digits than its precision",
            Self::MultiDimensional => "an array with another number of dimensions than its column",
            Self::InvalidUtf8 => "text that is not UTF-8",
            Self::UnknownType => "the binary form of a type that is not in the catalog",
            Self::BinaryCell => "the binary form of a type that is not read, only its text",
            Self::FloatRange => "a number beyond the range of 64-bit floats",
            Self::SignedRange => "a number beyond signed 64 bits",
            Self::IntervalRange => "an interval beyond 64 bits of nanoseconds",
            Self::MoneyScale => {
                "the binary form of money, which does not contain its number of decimals \
                 (most have 2)"
            }
            Self::Srid => "a geometry whose SRID is not its column's",
            Self::AlteredType => "a composite value whose attributes differ from the catalog",
            Self::TooLarge => "more than 1 GiB of one value, or 2 GiB of one batch",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_was_expected_and_why() {
        assert_eq!(
            CellError::Malformed("4 bytes").to_string(),
            "expected 4 bytes"
        );
        let unrepresentable = CellError::from(Unrepresentable::EndOfDay);
        assert_eq!(
            unrepresentable.to_string(),
            "24:00:00, which is not within a day"
        );
    }
}
