//! The settings of the session that wrote a stream.

use crate::date_style::{DateFormat, DateStyle};
use crate::encoding::{check_utf8, latin1_to_utf8};
use crate::error::CellError;
use crate::interval_style::IntervalStyle;
use std::fmt;

/// The settings of the session that wrote a stream, as far as they affect the text of values.
///
/// The default is the settings that walrow pins: ISO dates, intervals of style `postgres`, UTF-8.
/// Values of another style than the settings name are malformed; walrow never guesses a style.
///
/// ```
/// use walrow_types::SessionSettings;
/// let mut settings = SessionSettings::default();
/// settings.set("DateStyle", "SQL, DMY")?;
/// settings.set("client_encoding", "LATIN1")?;
/// # Ok::<(), walrow_types::SettingError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionSettings {
    /// `None` for ISO.
    pub(crate) date_style: Option<DateStyle>,
    /// `None` for `postgres` and for `iso_8601`, which differ in shape.
    pub(crate) interval_style: Option<IntervalStyle>,
    pub(crate) latin1: bool,
    /// Whether `TimeZone` is UTC, so that `UTC` after a time means it.
    pub(crate) is_utc: bool,
}

impl SessionSettings {
    /// The settings that walrow pins.
    pub const PINNED: Self = Self {
        date_style: None,
        interval_style: None,
        latin1: false,
        is_utc: false,
    };

    /// Whether `client_encoding` is LATIN1, and not UTF8.
    pub const fn is_latin1(self) -> bool {
        self.latin1
    }

    /// Appends text of the session's encoding in UTF-8.
    #[inline]
    pub(crate) fn copy_text(self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        if self.latin1 {
            latin1_to_utf8(cell, out);
            return Ok(());
        }
        check_utf8(cell)?;
        out.extend_from_slice(cell);
        Ok(())
    }

    /// Checks that text is valid in the session's encoding.
    #[inline]
    pub(crate) fn check_text(self, text: &[u8]) -> Result<(), CellError> {
        if self.latin1 {
            return Ok(());
        }
        check_utf8(text)
    }

    /// Sets a setting to a value, both as `SHOW` prints them.
    ///
    /// Settings that walrow does not need, such as `bytea_output`, are checked and change nothing.
    ///
    /// # Errors
    /// The value is unknown or not supported, or the setting does not affect values.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
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
                // Any other text can be the name of a zone.
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
                return Err(SettingError {
                    name: name.to_owned(),
                    value: None,
                    choices: "DateStyle, IntervalStyle, client_encoding, TimeZone",
                });
            }
        }
        Ok(())
    }
}

/// The style, `None` for ISO; an error for an unknown or incomplete style. As in PostgreSQL, words may repeat each other
/// but not contradict.
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
        // 03/02/2024 is ambiguous.
        return Err(());
    }
    // Years never come first in formats other than ISO.
    let day_first = order == Some(Order::Dmy);
    Ok(format.map(|format| DateStyle { format, day_first }))
}

/// The order of day, month and year.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Dmy,
    Mdy,
    Ymd,
}

fn bad(name: &str, value: &str) -> SettingError {
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
    SettingError {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        choices,
    }
}

/// A setting, or a value of one, that walrow does not support.
///
/// `{:?}` prints the text of `{}`, and `{:#?}` the fields.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettingError {
    /// The setting.
    pub name: String,
    /// Its value; `None` if the setting itself is unknown.
    pub value: Option<String>,
    /// The supported values, or settings.
    pub choices: &'static str,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            value,
            choices,
        } = self;
        match value {
            Some(value) => write!(f, "{name} {value:?} is not supported; use {choices}"),
            None => write!(
                f,
                "{name:?} does not affect values; the settings that do: {choices}"
            ),
        }
    }
}

impl fmt::Debug for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        let Self {
            name,
            value,
            choices,
        } = self;
        f.debug_struct("SettingError")
            .field("name", name)
            .field("value", value)
            .field("choices", choices)
            .finish()
    }
}

impl std::error::Error for SettingError {}

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
    fn wrong_values_are_refused_with_the_settings_name() {
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
