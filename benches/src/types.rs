//! Cells of every type family, as PostgreSQL writes and sends them.
//!
//! Values differ from cell to cell in the way that a real column's do: numbers mostly have as many digits as their
//! neighbours, text is as long as its neighbours.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    reason = "made-up values are small; what does not fit is cut on purpose"
)]

use std::fmt::Write as _;
use walrow_testkit::{Stream, binary, text};
use walrow_wire::ReplicaIdentity;

/// How many columns of its type a table has, so that a row costs next to nothing beside its cells.
const COLUMNS: usize = 50;

/// A type and values of it.
#[derive(Clone, Copy)]
#[expect(
    missing_debug_implementations,
    reason = "there is nothing to show of a function"
)]
pub struct Family {
    /// What the results are called by.
    pub name: &'static str,
    /// The type's OID; 0 for a type of an extension.
    oid: u32,
    /// The type modifier.
    typmod: i32,
    make: fn(&mut Random) -> Value,
}

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
        let (sample, sent) = (self.make)(&mut random);
        let each = sample.len().max(sent.len()) + 5;
        let columns = COLUMNS.min(bytes / each).max(1);
        let rows = (bytes / each / columns).clamp(1, 400_000 / columns);
        let values: Vec<_> = (0..rows * columns)
            .map(|_| (self.make)(&mut random))
            .collect();
        Cells {
            text: self.capture(columns, &values, |(value, _)| text(value)),
            binary: self.capture(columns, &values, |(_, value)| binary(value)),
            values: values.into_iter().map(|(value, _)| value).collect(),
        }
    }

    fn capture(
        &self,
        columns: usize,
        values: &[Value],
        form: fn(&Value) -> walrow_testkit::OwnedCell,
    ) -> Vec<u8> {
        let names: Vec<_> = (1..=columns).map(|column| format!("c{column}")).collect();
        let oid = if self.oid == 0 { 20_000 } else { self.oid };
        let columns: Vec<_> = names
            .iter()
            .map(|name| (name.as_str(), oid, self.typmod, false))
            .collect();
        let mut stream = Stream::new().session().begin(0x1000, 700);
        if self.oid == 0 {
            let name = self.name.split('(').next().unwrap_or_default();
            stream = stream.user_type(oid, "public", name);
        }
        stream = stream.relation(1, "public", "t", ReplicaIdentity::Default, &columns);
        for row in values.chunks(columns.len()) {
            let cells: Vec<_> = row.iter().map(form).collect();
            stream = stream.insert(1, &cells);
        }
        stream.commit().copy_done().bytes()
    }
}

/// Every family, scalars first.
pub const FAMILIES: &[Family] = &[
    family("bool", 16, -1, |random| {
        let value = random.below(2);
        let text = if value == 1 { "t" } else { "f" };
        (text.to_owned(), vec![value as u8])
    }),
    family("int2", 21, -1, |random| {
        let value = random.below(10_000) as i16;
        (value.to_string(), value.to_be_bytes().to_vec())
    }),
    family("int4", 23, -1, int4),
    family("int8", 20, -1, |random| {
        let value = random.signed(1_000_000_000_000);
        (value.to_string(), value.to_be_bytes().to_vec())
    }),
    family("oid", 26, -1, |random| {
        let value = random.below(100_000) as u32;
        (value.to_string(), value.to_be_bytes().to_vec())
    }),
    family("xid8", 5069, -1, |random| {
        let value = random.below(1_000_000_000);
        (value.to_string(), value.to_be_bytes().to_vec())
    }),
    family("pg_lsn", 3220, -1, |random| {
        let value = random.below(1 << 40);
        let text = format!("{:X}/{:X}", value >> 32, value & 0xffff_ffff);
        (text, value.to_be_bytes().to_vec())
    }),
    family("float4", 700, -1, |random| {
        let value = random.fraction() as f32 * 1000.0;
        (value.to_string(), value.to_be_bytes().to_vec())
    }),
    family("float8", 701, -1, float8),
    family("numeric(12,2)", 1700, numeric_typmod(12, 2), |random| {
        let cents = random.signed(1_000_000_000);
        let fraction = cents.unsigned_abs() % 100;
        numeric(
            cents < 0,
            u128::from(cents.unsigned_abs()) / 100,
            &format!("{fraction:02}"),
        )
    }),
    family("numeric(38,10)", 1700, numeric_typmod(38, 10), |random| {
        let integer = u128::from(random.below(10_u64.pow(14))) * 10_u128.pow(14)
            + u128::from(random.below(10_u64.pow(14)));
        let fraction = random.below(10_000_000_000);
        numeric(random.below(16) == 0, integer, &format!("{fraction:010}"))
    }),
    family("numeric", 1700, -1, |random| {
        let fraction = random.below(10_000);
        numeric(
            false,
            random.below(100_000_000).into(),
            &format!("{fraction:04}"),
        )
    }),
    family("text 16 B", 25, -1, |random| same(random.ascii(16))),
    family("varchar 200 B", 1043, 204, |random| same(random.ascii(200))),
    family("text 16 B not ASCII", 25, -1, |random| {
        same(random.ascii(13) + "\u{20ac}")
    }),
    family("bpchar(10)", 1042, 14, |random| {
        same(format!("{:<10}", random.ascii(6)))
    }),
    family("bytea 32 B", 17, -1, |random| random.bytea(32)),
    family("bytea 4 KiB", 17, -1, |random| random.bytea(4096)),
    family("uuid", 2950, -1, |random| {
        let bytes = random.bytes(16);
        let mut text = hex(&bytes);
        for place in [20, 16, 12, 8] {
            text.insert(place, '-');
        }
        (text, bytes)
    }),
    family("json", 114, -1, |random| same(random.json())),
    family("jsonb", 3802, -1, |random| {
        let text = random.json();
        let sent = [b"\x01", text.as_bytes()].concat();
        (text, sent)
    }),
    family("date", 1082, -1, |random| {
        let (text, days) = random.date();
        (text, (days as i32).to_be_bytes().to_vec())
    }),
    family("time", 1083, -1, |random| {
        let (text, micros) = random.time();
        (text, micros.to_be_bytes().to_vec())
    }),
    family("timetz", 1266, -1, |random| {
        let (text, micros) = random.time();
        let sent = [&micros.to_be_bytes()[..], &(-19_800_i32).to_be_bytes()].concat();
        (text + "+05:30", sent)
    }),
    family("timestamp", 1114, -1, |random| random.timestamp("")),
    family("timestamptz", 1184, -1, |random| random.timestamp("+00")),
    family("interval", 1186, -1, |random| {
        let (time, micros) = random.time();
        let (months, days) = (random.below(9) as i32 + 2, random.below(28) as i32 + 2);
        let sent = [
            &micros.to_be_bytes()[..],
            &days.to_be_bytes(),
            &months.to_be_bytes(),
        ];
        (format!("{months} mons {days} days {time}"), sent.concat())
    }),
    family("inet", 869, -1, |random| {
        let bytes = random.bytes(4);
        let numbers: Vec<_> = bytes.iter().map(u8::to_string).collect();
        (numbers.join("."), [&[2, 32, 0, 4], &*bytes].concat())
    }),
    family("macaddr", 829, -1, |random| {
        let bytes = random.bytes(6);
        let pairs: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        (pairs.join(":"), bytes)
    }),
    family("bit(16)", 1560, 16, |random| {
        let bits = random.below(1 << 16) as u16;
        let sent = [&16_i32.to_be_bytes()[..], &bits.to_be_bytes()].concat();
        (format!("{bits:016b}"), sent)
    }),
    family("tsvector of 5", 3614, -1, |random| {
        let (mut text, mut sent) = (String::new(), 5_i32.to_be_bytes().to_vec());
        for place in 1..=5_u16 {
            let lexeme = format!("{place}{}", random.word(6));
            let space = if place > 1 { " " } else { "" };
            let _ = write!(text, "{space}'{lexeme}':{place}");
            sent.extend_from_slice(lexeme.as_bytes());
            sent.extend_from_slice(&[0, 0, 1]);
            sent.extend_from_slice(&place.to_be_bytes());
        }
        (text, sent)
    }),
    family("int4[] of 10", 1007, -1, |random| array(23, random, int4)),
    family("text[] of 10", 1009, -1, |random| {
        array(25, random, |random| same(random.word(8)))
    }),
    family("text[] of 10 quoted", 1009, -1, |random| {
        array(25, random, |random| {
            same(random.word(4) + " " + &random.word(4))
        })
    }),
    family("numeric[] of 10", 1231, -1, |random| {
        array(1700, random, |random| {
            let fraction = random.below(100);
            numeric(
                false,
                random.below(1_000_000).into(),
                &format!("{fraction:02}"),
            )
        })
    }),
    family("int4range", 3904, -1, |random| {
        let lower = random.below(1_000_000) as i32;
        let upper = lower + 1000;
        let sent = [
            &[2, 0, 0, 0, 4][..],
            &lower.to_be_bytes(),
            &[0, 0, 0, 4],
            &upper.to_be_bytes(),
        ];
        (format!("[{lower},{upper})"), sent.concat())
    }),
    family("point", 600, -1, point),
    family("polygon of 5", 604, -1, |random| {
        let points: Vec<_> = (0..5).map(|_| point(random)).collect();
        let texts: Vec<_> = points.iter().map(|(text, _)| &**text).collect();
        let mut sent = 5_i32.to_be_bytes().to_vec();
        sent.extend(points.iter().flat_map(|(_, sent)| sent));
        (format!("({})", texts.join(",")), sent)
    }),
    family("hstore", 0, -1, |random| {
        let (mut text, mut sent) = (String::new(), 5_i32.to_be_bytes().to_vec());
        for place in 1..=5 {
            let (key, value) = (format!("key{place}"), random.word(6));
            let comma = if place > 1 { ", " } else { "" };
            let _ = write!(text, "{comma}\"{key}\"=>\"{value}\"");
            for part in [key, value] {
                sent.extend_from_slice(&(part.len() as i32).to_be_bytes());
                sent.extend_from_slice(part.as_bytes());
            }
        }
        (text, sent)
    }),
    family("vector(128)", 0, 128, |random| {
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

const fn family(
    name: &'static str,
    oid: u32,
    typmod: i32,
    make: fn(&mut Random) -> Value,
) -> Family {
    Family {
        name,
        oid,
        typmod,
        make,
    }
}

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

fn point(random: &mut Random) -> Value {
    let ((x, mut sent), (y, more)) = (float8(random), float8(random));
    sent.extend(more);
    (format!("({x},{y})"), sent)
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
    use walrow::DecoderBuilder;

    /// A bench of cells that say different things in text and in binary would compare nothing.
    #[test]
    fn both_forms_of_every_family_give_the_same_arrays() {
        for family in FAMILIES {
            let cells = family.cells(20_000);
            let [from_text, from_binary] = [cells.text, cells.binary].map(|bytes| {
                let mut decoder = DecoderBuilder::new().with_metadata([]).build().unwrap();
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
