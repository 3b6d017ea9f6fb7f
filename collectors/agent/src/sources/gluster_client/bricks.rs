//! The bricks of this host, from the files that glusterd keeps of its volumes.

use crate::sources::samples::text::{self, quote};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

const VOLUMES_MAX: usize = 256;
/// Bricks of all volumes, on all hosts.
const BRICKS_MAX: usize = 16_384;
/// Bricks of this host.
const OWN_BRICKS_MAX: usize = 256;
const FILE_BYTES_MAX: usize = 64 << 10;
const NAME_BYTES_MAX: usize = 255;
/// How glusterd writes that a volume was started.
const STARTED: &[u8] = b"1";

type Values = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Brick {
    pub volume: String,
    pub host: String,
    pub path: String,
}

impl Brick {
    /// As its statistics call it.
    pub fn instance(&self) -> String {
        self.path.replace('/', "_")
    }

    /// As commands call it.
    pub fn name(&self) -> String {
        format!("{}:{}", self.host, self.path)
    }
}

/// Those of started volumes, in order. No glusterd: none. An error says which file cannot be.
pub fn own(glusterd: &Path) -> Result<Vec<Brick>, String> {
    let mut found = Vec::new();
    let Some(info) = values(&glusterd.join("glusterd.info"))? else {
        return Ok(found);
    };
    let own = info.get(&b"UUID"[..]).ok_or_else(|| {
        let dir = glusterd.display();
        format!("{dir}/glusterd.info: expected a line UUID=…; glusterd writes it when it starts")
    })?;
    let mut seen = 0;
    for volume in names(&glusterd.join("vols"), VOLUMES_MAX)? {
        let dir = glusterd.join("vols").join(&volume);
        let info = values(&dir.join("info"))?.unwrap_or_default();
        if info
            .get(&b"status"[..])
            .is_none_or(|status| status != STARTED)
        {
            continue;
        }
        let files = names(&dir.join("bricks"), BRICKS_MAX - seen)?;
        seen += files.len();
        for file in files {
            let path = dir.join("bricks").join(file);
            // One that goes while we look is none.
            let Some(mut values) = values(&path)? else {
                continue;
            };
            if values.get(&b"uuid"[..]) != Some(own) {
                continue;
            }
            let mut take = |key: &[u8]| {
                String::from_utf8(values.remove(key).unwrap_or_default()).unwrap_or_default()
            };
            let brick = Brick {
                volume: volume.clone(),
                host: take(b"hostname"),
                path: take(b"path"),
            };
            if !brick.path.starts_with('/')
                || ![&brick.volume, &brick.host, &brick.path]
                    .into_iter()
                    .all(|word| is_word(word))
            {
                return Err(format!("{}: its hostname or path is none", path.display()));
            }
            found.push(brick);
        }
    }
    if found.len() > OWN_BRICKS_MAX {
        return Err(format!(
            "{}: {} bricks are more than {OWN_BRICKS_MAX}",
            glusterd.display(),
            found.len()
        ));
    }
    found.sort();
    Ok(found)
}

/// What can be an argument, and a name.
fn is_word(word: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&word.len())
        && !word.starts_with('-')
        && !word.contains(char::is_control)
}

/// Names in a folder. No folder: none.
fn names(dir: &Path, max: usize) -> Result<Vec<String>, String> {
    let error = |e: std::io::Error| format!("{}: {e}", dir.display());
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(error)?,
    };
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().into_string());
    let names: Vec<String> = names.flatten().take(max + 1).collect();
    match names.len() > max {
        true => Err(format!("{}: more than {max} are there", dir.display())),
        false => Ok(names),
    }
}

/// The lines KEY=VALUE of a file. `None`: there is no such file.
fn values(path: &Path) -> Result<Option<Values>, String> {
    let mut bytes = Vec::new();
    match text::read(path, FILE_BYTES_MAX, &mut bytes) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|e| format!("{}: {e}", path.display()))?,
    }
    let mut all = BTreeMap::new();
    for (row, line, _) in text::lines(&bytes) {
        let Some(at) = line.iter().position(|b| *b == b'=') else {
            return Err(format!(
                "{}: line {row}: expected KEY=VALUE, found {}",
                path.display(),
                quote(line)
            ));
        };
        all.insert(line[..at].to_vec(), line[at + 1..].to_vec());
    }
    Ok(Some(all))
}

#[cfg(test)]
#[path = "bricks_tests.rs"]
mod tests;
