//! Cells of every type family, as PostgreSQL writes and sends them.
//!
//! Values of the most frequent types differ from cell to cell in the way that a real column's do: numbers mostly have
//! as many digits as their neighbours, text is as long as its neighbours. Those of all other types are the type cases
//! that tests read too.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "made-up values are small; what does not fit is cut on purpose"
)]

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};
use walrow::{Catalog, DecoderBuilder};
use walrow_testkit::{Stream, TypeCases, binary, text, type_cases, type_catalog};
use walrow_wire::ReplicaIdentity;

/// The OID of `vector` in the catalog of the type cases.
const VECTOR: u32 = 20_012;

/// How many columns of its type a table has, so that a row costs next to nothing beside its cells.
const COLUMNS: usize = 50;

/// A type and values of it.
#[derive(Debug)]
pub struct Family {
    /// What the results are called by.
    pub name: String,
    /// The type's OID.
    oid: u32,
    /// The type modifier.
    typmod: i32,
    values: Values,
}

/// Where a family's values come from.
#[derive(Debug)]
enum Values {
    /// They differ as those of a real column do.
    Generated(fn(&mut Random) -> Value),
    /// One of the type cases, at random.
    Cases(Vec<Value>),
}

/// A type whose values are generated: its name, OID and modifier.
type Generated = (&'static str, u32, i32, fn(&mut Random) -> Value);

/// A value as the type's output function writes it, and as its send function does.
pub type Value = (String, Vec<u8>);

/// Cells of one type.
#[derive(Clone, Debug)]
pub struct Cells {
    /// A capture of rows whose cells are text.
    pub text: Vec<u8>,
    /// The same rows with binary cells.
    pub binary: Vec<u8>,
    /// The texts alone, for other parsers.
    pub values: Vec<String>,
}

impl Family {
    /// About so many bytes of cells, at most 400,000.
    #[must_use]
    pub fn cells(&self, bytes: usize) -> Cells {
        let mut random = Random(1);
        let bytes = match self.values {
            Values::Generated(_) => bytes,
            // They repeat, so fewer are enough.
            Values::Cases(_) => bytes / 10,
        };
        let samples = (0..16).map(|_| self.value(&mut random));
        let sizes = samples.map(|(text, sent)| text.len().max(sent.len()) + 5);
        let each = sizes.sum::<usize>() / 16;
        let columns = COLUMNS.min(bytes / each).max(1);
        let rows = (bytes / each / columns).clamp(1, 400_000 / columns);
        let values: Vec<_> = (0..rows * columns)
            .map(|_| self.value(&mut random))
            .collect();
        Cells {
            text: self.capture(columns, &values, |(value, _)| text(value)),
            binary: self.capture(columns, &values, |(_, value)| binary(value)),
            values: values.into_iter().map(|(value, _)| value).collect(),
        }
    }

    fn value(&self, random: &mut Random) -> Value {
        match &self.values {
            Values::Generated(make) => make(random),
            Values::Cases(cases) => cases[random.below(cases.len() as u64) as usize].clone(),
        }
    }

    fn capture(
        &self,
        columns: usize,
        values: &[Value],
        form: fn(&Value) -> walrow_testkit::OwnedCell,
    ) -> Vec<u8> {
        let names: Vec<_> = (1..=columns).map(|column| format!("c{column}")).collect();
        let columns: Vec<_> = names
            .iter()
            .map(|name| (name.as_str(), self.oid, self.typmod, false))
            .collect();
        let mut stream = Stream::new().session().begin(0x1000, 700);
        stream = stream.relation(1, "public", "t", ReplicaIdentity::Default, &columns);
        for row in values.chunks(columns.len()) {
            let cells: Vec<_> = row.iter().map(form).collect();
            stream = stream.insert(1, &cells);
        }
        stream.commit().copy_done().bytes()
    }
}

/// Every family: those that have targets or sizes, then all other types of `tests/type_cases`.
pub fn families() -> Vec<Family> {
    let generated = GENERATED.iter().map(|(name, oid, typmod, make)| Family {
        name: (*name).to_owned(),
        oid: *oid,
        typmod: *typmod,
        values: Values::Generated(*make),
    });
    let is_other = |of: &TypeCases| !of.is_asked && GENERATED.iter().all(|it| it.1 != of.oid);
    let others = type_cases().into_iter().filter(is_other);
    let others = others.filter_map(|of| {
        let values = of.cases.into_iter().filter(|case| {
            let is_held = case.only.as_ref().is_none_or(|it| it == "arrow");
            case.is_pinned && is_held
        });
        let values = values.filter_map(|case| Some((case.text, case.binary?)));
        let values: Vec<_> = values.collect();
        (values.len() > 1).then_some(Family {
            name: of.name,
            oid: of.oid,
            typmod: of.typmod,
            values: Values::Cases(values),
        })
    });
    generated.chain(others).collect()
}

/// The options that decode all families.
///
/// # Panics
/// If the catalog of the type cases is invalid.
#[must_use]
pub fn builder() -> DecoderBuilder {
    static CATALOG: LazyLock<Arc<Catalog>> = LazyLock::new(|| {
        let catalog = Catalog::from_json(&type_catalog());
        Arc::new(catalog.expect("the file is valid"))
    });
    let builder = DecoderBuilder::new().with_catalog(Arc::clone(&CATALOG));
    builder.with_metadata([])
}

const GENERATED: &[Generated] = &[
    ("int2", 21, -1, |random| {
        let value = random.below(10_000) as i16;
        (value.to_string(), value.to_be_bytes().to_vec())
    }),
    ("int4", 23, -1, int4),
    ("int8", 20, -1, |random| {
        let value = random.signed(1_000_000_000_000);
        (value.to_string(), value.to_be_bytes().to_vec())
    }),
    ("float8", 701, -1, float8),
    ("numeric(12,2)", 1700, numeric_typmod(12, 2), |random| {
        let cents = random.signed(1_000_000_000);
        let fraction = cents.unsigned_abs() % 100;
        numeric(
            cents < 0,
            u128::from(cents.unsigned_abs()) / 100,
            &format!("{fraction:02}"),
        )
    }),
    ("numeric(38,10)", 1700, numeric_typmod(38, 10), |random| {
        let integer = u128::from(random.below(10_u64.pow(14))) * 10_u128.pow(14)
            + u128::from(random.below(10_u64.pow(14)));
        let fraction = random.below(10_000_000_000);
        numeric(random.below(16) == 0, integer, &format!("{fraction:010}"))
    }),
    ("text 16 B", 25, -1, |random| same(random.ascii(16))),
    ("varchar 200 B", 1043, 204, |random| same(random.ascii(200))),
    ("text 16 B not ASCII", 25, -1, |random| {
        same(random.ascii(13) + "\u{20ac}")
    }),
    ("bytea 32 B", 17, -1, |random| random.bytea(32)),
    ("bytea 4 KiB", 17, -1, |random| random.bytea(4096)),
    ("uuid", 2950, -1, |random| {
        let bytes = random.bytes(16);
        let mut text = hex(&bytes);
        for place in [20, 16, 12, 8] {
            text.insert(place, '-');
        }
        (text, bytes)
    }),
    ("json", 114, -1, |random| same(random.json())),
    ("date", 1082, -1, |random| {
        let (text, days) = random.date();
        (text, (days as i32).to_be_bytes().to_vec())
    }),
    ("timestamp", 1114, -1, |random| random.timestamp("")),
    ("timestamptz", 1184, -1, |random| random.timestamp("+00")),
    ("int4[] of 10", 1007, -1, |random| array(23, random, int4)),
    ("text[] of 10", 1009, -1, |random| {
        array(25, random, |random| same(random.word(8)))
    }),
    ("text[] of 10 quoted", 1009, -1, |random| {
        array(25, random, |random| {
            same(random.word(4) + " " + &random.word(4))
        })
    }),
    ("numeric[] of 10", 1231, -1, |random| {
        array(1700, random, |random| {
            let fraction = random.below(100);
            numeric(
                false,
                random.below(1_000_000).into(),
                &format!("{fraction:02}"),
            )
        })
    }),
    ("vector(128)", VECTOR, 128, |random| {
        let numbers: Vec<_> = (0..128)
            .map(|_| random.fraction() as f32 - 0.5)
            .filter(|number| number.abs() > 0.0001)
            .collect();
        let numbers: Vec<_> = numbers.iter().copied().cycle().take(128).collect();
        let texts: Vec<_> = numbers.iter().map(f32::to_string).collect();
        let mut sent = vec![0, 128, 0, 0];
        sent.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
        (format!("[{}]", texts.join(",")), sent)
    }),
];

const fn numeric_typmod(precision: i32, scale: i32) -> i32 {
    (precision << 16 | scale) + 4
}

fn same(text: String) -> Value {
    let sent = text.clone().into_bytes();
    (text, sent)
}

fn int4(random: &mut Random) -> Value {
    let value = random.signed(100_000_000) as i32;
    (value.to_string(), value.to_be_bytes().to_vec())
}

fn float8(random: &mut Random) -> Value {
    let value = random.fraction() * 1000.0 + 1.0;
    (value.to_string(), value.to_be_bytes().to_vec())
}

/// A number of so many digits after the point.
fn numeric(negative: bool, integer: u128, fraction: &str) -> Value {
    let integer = integer.to_string();
    let zero = integer == "0" && fraction.bytes().all(|digit| digit == b'0');
    let sign = if negative && !zero { "-" } else { "" };
    let text = format!("{sign}{integer}.{fraction}");
    let mut digits = "0".repeat((4 - integer.len() % 4) % 4) + &integer;
    let mut weight = (digits.len() / 4) as i16 - 1;
    digits += fraction;
    digits += &"0".repeat((4 - digits.len() % 4) % 4);
    let (fours, _) = digits.as_bytes().as_chunks::<4>();
    let group = |four: &[u8; 4]| {
        four.iter()
            .fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'))
    };
    let groups: Vec<_> = fours.iter().map(group).collect();
    let leading = groups.iter().take_while(|group| **group == 0).count();
    let end = groups
        .iter()
        .rposition(|group| *group != 0)
        .map_or(leading, |last| last + 1);
    let groups = groups.get(leading..end).unwrap_or_default();
    weight -= leading as i16;
    if groups.is_empty() {
        weight = 0;
    }
    let sign = if sign.is_empty() { 0 } else { 0x4000 };
    let head = [
        groups.len() as u16,
        weight as u16,
        sign,
        fraction.len() as u16,
    ];
    let sent = head
        .iter()
        .chain(groups)
        .flat_map(|word| word.to_be_bytes());
    (text, sent.collect())
}

fn array(oid: u32, random: &mut Random, element: fn(&mut Random) -> Value) -> Value {
    let mut sent: Vec<_> = [1, 0, oid, 10, 1]
        .into_iter()
        .flat_map(u32::to_be_bytes)
        .collect();
    let mut texts = Vec::new();
    for _ in 0..10 {
        let (text, bytes) = element(random);
        texts.push(if text.contains(' ') {
            format!("\"{text}\"")
        } else {
            text
        });
        sent.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        sent.extend(bytes);
    }
    (format!("{{{}}}", texts.join(",")), sent)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The same values in every run: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// One in sixteen is negative.
    fn signed(&mut self, end: u64) -> i64 {
        let value = self.below(end).cast_signed();
        if self.below(16) == 0 { -value } else { value }
    }

    /// From 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    fn fraction(&mut self) -> f64 {
        self.below(1 << 53) as f64 / (1_u64 << 53) as f64
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    fn bytea(&mut self, count: usize) -> Value {
        let bytes = self.bytes(count);
        (format!("\\x{}", hex(&bytes)), bytes)
    }

    fn word(&mut self, count: usize) -> String {
        (0..count)
            .map(|_| char::from(b'a' + self.below(26) as u8))
            .collect()
    }

    /// Letters, digits and spaces.
    fn ascii(&mut self, count: usize) -> String {
        (0..count)
            .map(|_| char::from(b"abcdefghijklmnop0123456789 ABCDE"[self.below(32) as usize]))
            .collect()
    }

    fn json(&mut self) -> String {
        format!(
            "{{\"id\": {}, \"name\": \"{}\", \"tags\": [\"{}\", \"{}\"]}}",
            self.below(1_000_000),
            self.word(8),
            self.word(5),
            self.word(5)
        )
    }

    /// A day of this century's first years, and how many days from 2000 that is.
    fn date(&mut self) -> (String, i64) {
        let (year, month, day) = (self.below(30) as i64, self.below(12), self.below(28) as i64);
        let lengths = [
            31,
            28 + i64::from(year % 4 == 0),
            31,
            30,
            31,
            30,
            31,
            31,
            30,
            31,
            30,
            31,
        ];
        let months: i64 = lengths.iter().take(month as usize).sum();
        let days = year * 365 + (year + 3) / 4 + months + day;
        (
            format!("{}-{:02}-{:02}", 2000 + year, month + 1, day + 1),
            days,
        )
    }

    /// A time of day with six digits of fraction.
    fn time(&mut self) -> (String, i64) {
        let (seconds, micros) = (
            self.below(86_400) as i64,
            self.below(999_999) as i64 / 10 * 10 + 1,
        );
        let text = format!(
            "{:02}:{:02}:{:02}.{micros:06}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        );
        (text, seconds * 1_000_000 + micros)
    }

    fn timestamp(&mut self, zone: &str) -> Value {
        let ((date, days), (time, micros)) = (self.date(), self.time());
        let sent = days * 86_400_000_000 + micros;
        (format!("{date} {time}{zone}"), sent.to_be_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bench of cells that say different things in text and in binary would compare nothing.
    #[test]
    fn both_forms_of_every_family_give_the_same_arrays() {
        let families = families();
        assert!(
            families.len() > GENERATED.len() + 50,
            "the type cases are there"
        );
        for family in &families {
            let cells = family.cells(20_000);
            let [from_text, from_binary] = [cells.text, cells.binary].map(|bytes| {
                let mut decoder = builder().build().unwrap();
                let mut rest = &*bytes;
                let mut batches = Vec::new();
                while !rest.is_empty() || !decoder.wants_input() {
                    batches.extend(std::iter::from_fn(|| decoder.next_batch().ok().flatten()));
                    let consumed = decoder.decode(rest).unwrap();
                    rest = &rest[consumed..];
                }
                decoder.finish().unwrap();
                batches.extend(std::iter::from_fn(|| decoder.next_batch().ok().flatten()));
                assert_eq!(batches.len(), 1, "{}", family.name);
                batches[0].record_batch().clone()
            });
            assert_eq!(from_text, from_binary, "{}", family.name);
            let cells = from_text.num_rows() * from_text.num_columns();
            assert_eq!(cells, cells_of(family), "{}", family.name);
        }
    }

    fn cells_of(family: &Family) -> usize {
        family.cells(20_000).values.len()
    }
}
