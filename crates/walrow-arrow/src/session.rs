//! The settings that a stream was written under.

use crate::column::{DateFormat, DateStyle, IntervalStyle};
use crate::error::{Error, ErrorKind};
use walrow_stream::Encoding;

/// The settings of the session that a stream comes from, as far as values are told by them.
///
/// By default those that walrow pins: ISO dates, intervals of style `postgres`, UTF-8. A stream
/// of other settings is malformed where its values show that, never guessed at.
///
/// ```
/// use walrow_arrow::{DecoderBuilder, Session};
/// let mut session = Session::default();
/// session.set("DateStyle", "SQL, DMY")?;
/// session.set("client_encoding", "LATIN1")?;
/// let decoder = DecoderBuilder::new().with_session(session).build()?;
/// # Ok::<(), walrow_arrow::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// None for ISO.
    pub(crate) date_style: Option<DateStyle>,
    /// None for `postgres` and for `iso_8601`, which its own shape tells.
    pub(crate) interval_style: Option<IntervalStyle>,
    pub(crate) latin1: bool,
    /// Whether `UTC` behind a time means that.
    pub(crate) is_utc: bool,
}

impl Session {
    pub(crate) const fn encoding(self) -> Encoding {
        if self.latin1 {
            Encoding::Latin1
        } else {
            Encoding::Utf8
        }
    }

    /// Says what a setting was, by its name and as `SHOW` tells it.
    ///
    /// Settings that values show by themselves or that walrow does not need, such as
    /// `bytea_output`, are taken and change nothing.
    ///
    /// # Errors
    /// A value that the setting does not have or that cannot be read; a setting that says nothing
    /// about values.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let word = value.trim().to_ascii_lowercase();
        match &*name.to_ascii_lowercase() {
            "datestyle" => self.date_style = date_style(&word).map_err(|()| bad(name, value))?,
            "intervalstyle" => {
                self.interval_style = match &*word {
                    "postgres" | "iso_8601" => None,
                    "postgres_verbose" => Some(IntervalStyle::PostgresVerbose),
                    "sql_standard" => Some(IntervalStyle::SqlStandard),
                    _ => return Err(bad(name, value)),
                };
            }
            "client_encoding" => {
                let word: String = word.chars().filter(char::is_ascii_alphanumeric).collect();
                self.latin1 = match &*word {
                    "utf8" | "unicode" | "sqlascii" => false,
                    "latin1" | "iso88591" => true,
                    _ => return Err(bad(name, value)),
                };
            }
            "timezone" => {
                let zone = word.strip_prefix("etc/").unwrap_or(&word);
                self.is_utc = matches!(
                    zone,
                    "utc" | "gmt" | "uct" | "zulu" | "universal" | "greenwich"
                );
            }
            "bytea_output"
            | "extra_float_digits"
            | "lc_monetary"
            | "search_path"
            | "quote_all_identifiers"
            | "server_encoding" => {}
            _ => {
                let text = format!(
                    "session: {name:?} is no setting that values are told by; those are \
                     DateStyle, IntervalStyle, client_encoding and TimeZone"
                );
                return Err(Error::new(ErrorKind::Options(text)));
            }
        }
        Ok(())
    }
}

/// A style, none for ISO; or an error for what is no style.
fn date_style(value: &str) -> Result<Option<DateStyle>, ()> {
    let (mut format, mut day_first) = (None, false);
    for word in value.split(',').map(str::trim) {
        match word {
            "iso" => return Ok(None),
            "sql" => format = Some(DateFormat::Sql),
            "german" => format = Some(DateFormat::German),
            "postgres" => format = Some(DateFormat::Postgres),
            "dmy" | "euro" | "european" => day_first = true,
            // Years never come first in these formats.
            "mdy" | "us" | "noneuro" | "noneuropean" | "ymd" => day_first = false,
            _ => return Err(()),
        }
    }
    let format = format.ok_or(())?;
    Ok(Some(DateStyle { format, day_first }))
}

fn bad(name: &str, value: &str) -> Error {
    let choices = match &*name.to_ascii_lowercase() {
        "datestyle" => {
            "\"ISO\", or \"SQL\", \"German\" or \"Postgres\" with \", MDY\" or \", DMY\""
        }
        "intervalstyle" => "postgres, postgres_verbose, sql_standard or iso_8601",
        _ => "UTF8, SQL_ASCII or LATIN1; the server translates others if it is asked for UTF8",
    };
    let text = format!("session: {name} {value:?} is none that is read: {choices}");
    Error::new(ErrorKind::Options(text))
}
