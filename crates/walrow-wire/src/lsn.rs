//! Log sequence numbers and PostgreSQL's timestamps.

use core::fmt;
use core::str::FromStr;

/// A position in the write-ahead log, in bytes.
///
/// Printed as PostgreSQL prints it: two hexadecimal halves without padding.
///
/// ```
/// use walrow_wire::Lsn;
/// let lsn: Lsn = "16/B374D848".parse()?;
/// assert_eq!(lsn, Lsn(0x16_B374_D848));
/// assert_eq!(lsn.to_string(), "16/B374D848");
/// # Ok::<(), walrow_wire::ParseLsnError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// 0/0, PostgreSQL's invalid LSN: no position.
    pub const INVALID: Self = Self(0);

    /// Whether this is a position, not 0/0.
    pub const fn is_valid(self) -> bool {
        self.0 != 0
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

/// A text that is not an LSN. `{:?}` prints the text of `{}`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ParseLsnError;

impl fmt::Display for ParseLsnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an LSN is two hexadecimal numbers of up to 8 digits, such as 16/B374D848")
    }
}

impl fmt::Debug for ParseLsnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return f.write_str("ParseLsnError");
        }
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for ParseLsnError {}

impl FromStr for Lsn {
    type Err = ParseLsnError;

    fn from_str(text: &str) -> Result<Self, ParseLsnError> {
        let (high, low) = text.split_once('/').ok_or(ParseLsnError)?;
        Ok(Self(u64::from(half(high)?) << 32 | u64::from(half(low)?)))
    }
}

fn half(digits: &str) -> Result<u32, ParseLsnError> {
    // from_str_radix accepts a sign.
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(ParseLsnError);
    }
    u32::from_str_radix(digits, 16).map_err(|_| ParseLsnError)
}

/// A time of the server's clock, in microseconds since 2000-01-01 00:00:00 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Microseconds from the Unix epoch to PostgreSQL's.
    pub const UNIX_EPOCH_OFFSET: i64 = 946_684_800_000_000;

    /// Microseconds since 1970-01-01 00:00:00 UTC, or `None` if an `i64` cannot hold them.
    pub const fn unix_micros(self) -> Option<i64> {
        self.0.checked_add(Self::UNIX_EPOCH_OFFSET)
    }

    /// The time a number of microseconds after 1970-01-01 00:00:00 UTC.
    pub const fn from_unix_micros(micros: i64) -> Self {
        Self(micros.saturating_sub(Self::UNIX_EPOCH_OFFSET))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn lsn_prints_without_padding_and_reads_padded() {
        for (value, text) in [
            (0, "0/0"),
            (0x16_B374_D848, "16/B374D848"),
            (u64::MAX, "FFFFFFFF/FFFFFFFF"),
            (1 << 63, "80000000/0"),
        ] {
            assert_eq!(Lsn(value).to_string(), text);
            assert_eq!(text.parse(), Ok(Lsn(value)));
        }
        assert_eq!("0/0000002a".parse(), Ok(Lsn(42)));
        for wrong in [
            "",
            "/",
            "0",
            "0/",
            "/0",
            "0/+1",
            "1/2/3",
            "0/123456789",
            "0x1/2",
            "g/0",
        ] {
            assert_eq!(wrong.parse::<Lsn>(), Err(ParseLsnError), "{wrong}");
        }
    }

    #[test]
    fn timestamp_past_the_unix_range_is_none() {
        assert_eq!(Timestamp(0).unix_micros(), Some(946_684_800_000_000));
        assert_eq!(Timestamp(i64::MAX).unix_micros(), None);
    }
}
