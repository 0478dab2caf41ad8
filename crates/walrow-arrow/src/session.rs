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
/// use walrow_arrow::{DecoderBuilder, SessionSettings};
/// let mut session = SessionSettings::default();
/// session.set("DateStyle", "SQL, DMY")?;
/// session.set("client_encoding", "LATIN1")?;
/// let decoder = DecoderBuilder::new().with_session(session).build()?;
/// # Ok::<(), walrow_arrow::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionSettings {
    /// None for ISO.
    pub(crate) date_style: Option<DateStyle>,
    /// None for `postgres` and for `iso_8601`, which its own shape tells.
    pub(crate) interval_style: Option<IntervalStyle>,
    pub(crate) latin1: bool,
    /// Whether `UTC` behind a time means that.
    pub(crate) is_utc: bool,
}

impl SessionSettings {
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
    /// `bytea_output`, are checked for what they can be and change nothing.
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
                // Any other text may be a zone's name.
                if word.is_empty() || value.contains(char::is_control) {
                    return Err(bad(name, value));
                }
                let zone = word.strip_prefix("etc/").unwrap_or(&word);
                self.is_utc = matches!(
                    zone,
                    "utc" | "gmt" | "uct" | "zulu" | "universal" | "greenwich"
                );
            }
            "bytea_output" if matches!(&*word, "hex" | "escape") => {}
            "extra_float_digits" if matches!(word.parse(), Ok(-15..=3)) => {}
            "bytea_output" | "extra_float_digits" => return Err(bad(name, value)),
            "lc_monetary" | "search_path" | "quote_all_identifiers" | "server_encoding" => {}
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

/// A style, none for ISO; or an error for what is no style, or not all of it. As for PostgreSQL, words may say the
/// same twice, but not one thing and another.
fn date_style(value: &str) -> Result<Option<DateStyle>, ()> {
    let (mut format, mut order) = (None, None);
    for word in value.split(',').map(str::trim) {
        let (style, days) = match word {
            "iso" => (Some(None), None),
            "sql" => (Some(Some(DateFormat::Sql)), None),
            "german" => (Some(Some(DateFormat::German)), None),
            "postgres" => (Some(Some(DateFormat::Postgres)), None),
            "dmy" | "euro" | "european" => (None, Some(Order::Dmy)),
            "mdy" | "us" | "noneuro" | "noneuropean" => (None, Some(Order::Mdy)),
            "ymd" => (None, Some(Order::Ymd)),
            _ => return Err(()),
        };
        let other_style = style.is_some_and(|it| format.replace(it).is_some_and(|old| old != it));
        let other_order = days.is_some_and(|it| order.replace(it).is_some_and(|old| old != it));
        if other_style || other_order {
            return Err(());
        }
    }
    let format = format.ok_or(())?;
    if let (Some(DateFormat::Sql | DateFormat::Postgres), None) = (format, order) {
        // 03/02/2024 may be either.
        return Err(());
    }
    // Years never come first in formats other than ISO.
    let day_first = order == Some(Order::Dmy);
    Ok(format.map(|format| DateStyle { format, day_first }))
}

/// How days, months and years follow each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Dmy,
    Mdy,
    Ymd,
}

fn bad(name: &str, value: &str) -> Error {
    let choices = match &*name.to_ascii_lowercase() {
        "datestyle" => {
            "\"ISO\", \"German\", or one of \"SQL\" and \"Postgres\" with \", MDY\" or \", DMY\", as \
             SHOW says it"
        }
        "intervalstyle" => "postgres, postgres_verbose, sql_standard or iso_8601",
        "timezone" => "a time zone's name",
        "bytea_output" => "hex or escape",
        "extra_float_digits" => "a number from -15 to 3",
        _ => "UTF8, SQL_ASCII or LATIN1; the server translates others if it is asked for UTF8",
    };
    let text = format!("session: {name} {value:?} is none that is read: {choices}");
    Error::new(ErrorKind::Options(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_agree_are_one_style() {
        let style = |format, day_first| Some(DateStyle { format, day_first });
        for (value, expected) in [
            ("ISO", None),
            ("ISO, DMY", None),
            ("iso, YMD", None),
            ("SQL, DMY", style(DateFormat::Sql, true)),
            ("sql,European, sql, DMY", style(DateFormat::Sql, true)),
            ("DMY, SQL", style(DateFormat::Sql, true)),
            ("SQL, YMD", style(DateFormat::Sql, false)),
            ("German, DMY", style(DateFormat::German, true)),
            ("German", style(DateFormat::German, false)),
            ("German, MDY", style(DateFormat::German, false)),
            ("Postgres, US", style(DateFormat::Postgres, false)),
        ] {
            let mut session = SessionSettings::default();
            session.set("DateStyle", value).unwrap();
            assert_eq!(session.date_style, expected, "{value}");
        }
    }

    #[test]
    fn what_a_setting_cannot_be_is_refused_by_its_name() {
        for (name, value) in [
            ("DateStyle", ""),
            ("DateStyle", "MDY"),
            ("DateStyle", "SQL"),
            ("DateStyle", "Postgres"),
            ("DateStyle", "ISO, SQL"),
            ("DateStyle", "SQL, ISO"),
            ("DateStyle", "SQL, German"),
            ("DateStyle", "SQL, DMY, MDY"),
            ("DateStyle", "ISO, DMY, YMD"),
            ("DateStyle", "ISO, nonsense"),
            ("TimeZone", ""),
            ("TimeZone", " "),
            ("TimeZone", "Europe/Paris\n"),
            ("TimeZone", "U\0TC"),
            ("bytea_output", "nonsense"),
            ("bytea_output", ""),
            ("extra_float_digits", "-16"),
            ("extra_float_digits", "4"),
            ("extra_float_digits", "many"),
            ("extra_float_digits", "99999999999999999999"),
            ("IntervalStyle", "german"),
            ("client_encoding", "LATIN9"),
        ] {
            let error = SessionSettings::default().set(name, value).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Options(_)), "{error}");
            assert!(error.to_string().contains(name), "{error}");
        }
        for (name, value) in [
            ("timezone", "nonsense zone"),
            ("TimeZone", "<+0530>-05:30"),
            ("bytea_output", "Escape"),
            ("bytea_output", "hex"),
            ("extra_float_digits", "-15"),
            ("extra_float_digits", "0"),
            ("extra_float_digits", "3"),
            ("lc_monetary", ""),
            ("search_path", ""),
        ] {
            SessionSettings::default().set(name, value).unwrap();
        }
    }
}
