//! Whether an event is what pipeline/schema/ says of its kind.

use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

const HISTOGRAM_BINS: usize = 8;

#[derive(Deserialize)]
struct File {
    field: Vec<Field>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    nullable: bool,
    min: Option<i64>,
    values: Option<Vec<String>>,
}

impl Field {
    fn holds(&self, value: &Value) -> bool {
        let within = |low: i64, high: i64| {
            let low = self.min.map_or(low, |min| min.max(low));
            value.as_i64().is_some_and(|v| (low..=high).contains(&v))
        };
        match self.kind.as_str() {
            _ if value.is_null() => self.nullable,
            "int32" => within(i32::MIN.into(), i32::MAX.into()),
            "int64" => within(i64::MIN, i64::MAX),
            "uint16" => within(0, u16::MAX.into()),
            "uint32" => within(0, u32::MAX.into()),
            "string" => value.as_str().is_some_and(|text| {
                let known = self.values.as_ref();
                known.is_none_or(|known| known.iter().any(|k| k == text))
            }),
            "hex64" => value.as_str().is_some_and(|text| {
                text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit())
            }),
            "histogram" => value.as_array().is_some_and(|counts| {
                let is_count = |v: &Value| v.as_i64().is_some_and(|v| v >= 0);
                counts.len() == HISTOGRAM_BINS && counts.iter().all(is_count)
            }),
            other => panic!("{}: no check for type {other} yet", self.name),
        }
    }
}

/// The fields of a record kind.
pub struct Schema(Vec<Field>);

impl Schema {
    pub fn of(kind: &str) -> Schema {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipeline/schema");
        let path = folder.join(format!("{kind}.toml"));
        let text = std::fs::read_to_string(&path).unwrap();
        Schema(toml::from_str::<File>(&text).unwrap().field)
    }

    /// Panics unless every field is there and within its bounds.
    pub fn check(&self, event: &Value) {
        for field in &self.0 {
            let value = event.get(&field.name).unwrap_or(&Value::Null);
            assert!(field.holds(value), "{}: {value} in {event}", field.name);
        }
    }
}
