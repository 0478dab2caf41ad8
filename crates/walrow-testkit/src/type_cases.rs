//! The type cases that Python's tests read too: `tests/type_cases/cases.json`.

use crate::hex;
use serde_json::Value;
use std::path::Path;

/// A type, or another layout of it, and its values. `tests/type_cases/__init__.py` describes the
/// file's keys.
#[derive(Clone, Debug)]
pub struct TypeCases {
    /// Its name in SQL, with the modifier.
    pub name: String,
    /// Its OID. For user types, the OID in [`type_catalog`].
    pub oid: u32,
    /// The OID of its array type, 0 for none.
    pub array: u32,
    /// The type modifier of a column.
    pub typmod: i32,
    /// Whether it uses a layout other than the type's own.
    pub is_asked: bool,
    /// The Arrow type of the column in the `arrow` profile, as pyarrow writes it.
    pub arrow: String,
    /// The type of the column in Spark. `None` for a layout that Spark does not have.
    pub spark: Option<String>,
    /// The values.
    pub cases: Vec<TypeCase>,
}

/// A value, as the server sends it.
#[derive(Clone, Debug)]
pub struct TypeCase {
    /// As text.
    pub text: String,
    /// As binary. `None` if only the text is read.
    pub binary: Option<Vec<u8>>,
    /// The only profile that can represent the value, unless both can.
    pub only: Option<String>,
    /// Whether the server writes this text with walrow's own settings.
    pub is_pinned: bool,
}

/// All type cases.
///
/// # Panics
/// If the file is invalid.
pub fn type_cases() -> Vec<TypeCases> {
    let entries = content()["types"].take();
    let entries = entries.as_array().expect("types are a list");
    assert!(!entries.is_empty());
    entries.iter().map(type_cases_of).collect()
}

/// The catalog of the user types, as JSON.
pub fn type_catalog() -> String {
    serde_json::json!({ "types": content()["catalog"] }).to_string()
}

fn content() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/type_cases/cases.json");
    let text = std::fs::read_to_string(path).expect("the file is there");
    serde_json::from_str(&text).expect("the file is JSON")
}

fn type_cases_of(entry: &Value) -> TypeCases {
    let number = |key: &str| {
        let number = entry[key].as_i64().expect("a number");
        u32::try_from(number).expect("an OID")
    };
    TypeCases {
        name: string(&entry["type"]),
        oid: number("oid"),
        array: number("array"),
        typmod: i32::try_from(entry["typmod"].as_i64().expect("a number")).expect("32 bits"),
        is_asked: entry.get("asked").is_some(),
        arrow: string(&entry["arrow"]),
        spark: entry["spark"].as_str().map(str::to_owned),
        cases: entry["cases"]
            .as_array()
            .expect("cases are a list")
            .iter()
            .map(|case| TypeCase {
                text: string(&case["text"]),
                binary: case["binary"].as_str().map(hex),
                only: case["profiles"][0].as_str().map(str::to_owned),
                is_pinned: case.get("session").is_none(),
            })
            .collect(),
    }
}

fn string(value: &Value) -> String {
    value.as_str().expect("a string").to_owned()
}
