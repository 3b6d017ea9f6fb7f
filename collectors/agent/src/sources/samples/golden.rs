//! Fixtures of samples: `tests/fixtures/<component>/<version>/` holds a machine's files at some instants, a second apart, each in a folder called
//! 1, 2, …, and in `expected.jsonl` what the agent says of it, line by line. BELLROCK_UPDATE=1 writes that anew.
//!
//! What is said is also held to `pipeline/schema/components.toml`, and what stands there to what is said.

use super::crowd;
use super::crowd::members::Members;
use super::reading::{Found, What};
use super::tests::Site;
use super::Probe;
use crate::config::Config;
use crate::testing::temp_dir;
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const S: i64 = 1_000_000_000;

#[derive(Deserialize)]
struct File {
    component: Vec<Component>,
}

/// What is of the server alone, its own tests read.
#[derive(Deserialize)]
struct Component {
    name: String,
    value: Vec<Value>,
}

#[derive(Deserialize)]
struct Value {
    name: String,
    kind: String,
}

/// What a component's samples may say: name → kind.
pub struct Defined(BTreeMap<String, String>);

impl Defined {
    pub fn of(component: &str) -> Defined {
        let path = repository().join("pipeline/schema/components.toml");
        let file: File = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let mut all = file.component.into_iter().filter(|c| c.name == component);
        let found = all
            .next()
            .unwrap_or_else(|| panic!("no component {component}"));
        assert!(all.next().is_none());
        let values = found.value.into_iter().map(|v| (v.name, v.kind));
        Defined(values.collect())
    }

    /// The defined value that a name on the wire is of, and its kind.
    pub fn find(&self, name: &str) -> (&str, &str) {
        let whole = name
            .rsplit_once("_to_")
            .filter(|(_, bound)| *bound == "inf" || bound.bytes().all(|b| b.is_ascii_digit()));
        let histogram = whole.and_then(|(name, _)| self.0.get_key_value(name));
        let histogram = histogram.filter(|(_, kind)| *kind == "histogram");
        let found = histogram.or_else(|| {
            self.0
                .get_key_value(name)
                .filter(|(_, kind)| *kind != "histogram")
        });
        let (name, kind) = found.unwrap_or_else(|| panic!("{name}: not in components.toml"));
        (name, kind)
    }

    /// Panics unless these are all that are defined.
    pub fn are_all(&self, told: &BTreeSet<String>) {
        let missing: Vec<&String> = self.0.keys().filter(|name| !told.contains(*name)).collect();
        assert!(missing.is_empty(), "no fixture tells of {missing:?}");
    }
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folders in a folder, in order.
fn folders(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    all.sort();
    all
}

/// Reads each fixture of a component.
pub fn check(component: &'static str, make: fn(&Config) -> Box<dyn Probe>) {
    check_with(component, make, |_, _| ());
}

/// The same with settings that a fixture needs.
pub fn check_with(
    component: &'static str,
    make: fn(&Config) -> Box<dyn Probe>,
    set: fn(&str, &mut Config),
) {
    let defined = Defined::of(component);
    let mut told = BTreeSet::new();
    let all = folders(&repository().join("tests/fixtures").join(component));
    assert!(!all.is_empty());
    for fixture in all {
        let dir = temp_dir("fixture");
        let now = dir.join("now");
        let mut config = Config {
            root: now.clone(),
            node: "n1".into(),
            ..Config::default()
        };
        set(fixture.file_name().unwrap().to_str().unwrap(), &mut config);
        let probed = config.clone();
        let mut site = Site::new(move || make(&probed));
        for root in folders(&fixture) {
            let _ = fs::remove_file(&now);
            symlink(&root, &now).unwrap();
            site.look_after(S);
            told.extend(kinds_hold(make(&config), &defined));
        }
        is_as_written(&fixture, &site.events);
        let names = site
            .events
            .iter()
            .flat_map(|event| event["values"].as_object().unwrap().keys());
        names.for_each(|name| assert!(!defined.find(name).0.is_empty()));
    }
    defined.are_all(&told);
}

/// The same of a source of many instances. What it may say is held to the definition as it stands; not each is said in a fixture.
pub fn check_members(component: &'static str, make: fn(&Config) -> Box<dyn Members>) {
    let defined = Defined::of(component);
    let all = folders(&repository().join("tests/fixtures").join(component));
    assert!(!all.is_empty());
    for fixture in all {
        let now = temp_dir("fixture").join("now");
        let config = Config {
            root: now.clone(),
            ..Config::default()
        };
        let members = make(&config);
        let mut columns = BTreeSet::new();
        for column in members.columns() {
            let (name, kind) = defined.find(&column.name);
            assert_eq!(column.scale.is_none(), kind == "gauge", "{name}");
            columns.insert(name.to_string());
        }
        defined.are_all(&columns);
        let mut site = crowd::tests::Site::new(members);
        for root in folders(&fixture) {
            let _ = fs::remove_file(&now);
            symlink(&root, &now).unwrap();
            site.look();
        }
        is_as_written(&fixture, &site.events);
    }
}

/// Whether events are those that a fixture's file holds.
fn is_as_written(fixture: &Path, events: &[Json]) {
    let lines: String = events.iter().map(bare).collect();
    let expected = fixture.join("expected.jsonl");
    if std::env::var_os("BELLROCK_UPDATE").is_some() {
        fs::write(&expected, &lines).unwrap();
    }
    let path = expected.display();
    let written = fs::read_to_string(&expected).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert_eq!(lines, written, "{path}; BELLROCK_UPDATE=1 writes it anew");
}

/// Whether what a probe reads is of the kinds that are defined; answers the names.
fn kinds_hold(mut probe: Box<dyn Probe>, defined: &Defined) -> Vec<String> {
    let mut found = Found::default();
    probe.read(&mut found);
    let values = found.readings.iter().flat_map(|reading| &reading.values);
    let hold = |value: &super::reading::Value| {
        let (name, kind) = defined.find(&value.name);
        let is_gauge = matches!(value.what, What::Gauge(_));
        assert_eq!(is_gauge, kind == "gauge", "{name}");
        name.to_string()
    };
    values.map(hold).collect()
}

/// A sample without what is the same in each.
fn bare(event: &Json) -> String {
    let mut event = event.clone();
    let fields = event.as_object_mut().unwrap();
    for key in ["kind", "node", "boot", "seq"] {
        fields.remove(key).unwrap();
    }
    format!("{event}\n")
}
