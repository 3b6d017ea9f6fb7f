//! The texts of a block that is read, each once a column.

use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::names::{Name, Templates, NO_TEXT};
use super::table::{Strings, Text, NO_CODE, TEXTS, TEXT_BYTES_MAX, TEXT_BYTES_TOLD_MAX};
use super::wire::Damage;
use crate::ring::file_id;

#[derive(Default)]
pub struct Pools {
    pub texts: [Strings; TEXTS.len()],
    /// By hash, as `file_id` makes it; of texts that have the same one the later ones by the next that is free.
    codes: [HashMap<u64, i32, BuildHasherDefault<Hashed>>; TEXTS.len()],
    /// What was looked for last: most processes are in most called as the one before.
    last: [(Name, i32); TEXTS.len()],
    /// Of the texts, and of all that were looked for.
    bytes: usize,
    told: usize,
    buffer: Vec<u8>,
}

impl Pools {
    /// The code of a name's text.
    pub fn code(&mut self, text: Text, templates: &Templates, name: &Name) -> Result<i32, Damage> {
        let (last, code) = &self.last[text as usize];
        if last == name && name.template != NO_TEXT {
            return self.tell(text, *code);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let mut code = NO_CODE;
        if templates.render(name, &mut buffer)? {
            code = self.code_of(text, &buffer, file_id(&buffer))?;
            self.last[text as usize] = (*name, code);
        }
        self.buffer = buffer;
        Ok(code)
    }

    /// That of a text, with its hash.
    pub fn code_of(&mut self, text: Text, bytes: &[u8], mut hash: u64) -> Result<i32, Damage> {
        let (texts, codes) = (
            &mut self.texts[text as usize],
            &mut self.codes[text as usize],
        );
        let code = loop {
            match codes.entry(hash) {
                Entry::Occupied(known) if texts[*known.get() as usize] == *bytes => {
                    break *known.get()
                }
                Entry::Occupied(_) => hash = hash.wrapping_add(1),
                Entry::Vacant(free) => {
                    self.bytes += bytes.len();
                    if self.bytes > TEXT_BYTES_MAX {
                        return Err(Damage("its texts are longer than a block's may be"));
                    }
                    if std::str::from_utf8(bytes).is_err() {
                        return Err(Damage("a text is not UTF-8"));
                    }
                    texts.push(bytes);
                    break *free.insert(texts.len() as i32 - 1);
                }
            }
        };
        self.tell(text, code)
    }

    /// Counts what a record says.
    fn tell(&mut self, text: Text, code: i32) -> Result<i32, Damage> {
        self.told += self.texts[text as usize][code as usize].len();
        if self.told > TEXT_BYTES_TOLD_MAX {
            return Err(Damage(
                "its records' texts are longer than a block's may be",
            ));
        }
        Ok(code)
    }
}

/// Takes the one number that it is given, which is a hash already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = file_id(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
