//! The texts of a block that is read, each once a column.

use std::collections::HashMap;

use super::names::{Name, Templates, NO_TEXT};
use super::table::{Strings, Text, NO_CODE, TEXTS, TEXT_BYTES_MAX, TEXT_BYTES_TOLD_MAX};
use super::wire::Damage;
use crate::ring::file_id;

#[derive(Default)]
pub struct Pools {
    pub texts: [Strings; TEXTS.len()],
    /// By hash, as `file_id` makes it, the first text that has it. Who names files may choose names whose hashes are alike, in part or wholly: so they are hashed with a secret.
    codes: [HashMap<u64, i32>; TEXTS.len()],
    /// The later ones by themselves.
    others: [HashMap<Box<[u8]>, i32>; TEXTS.len()],
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
    pub fn code_of(&mut self, text: Text, bytes: &[u8], hash: u64) -> Result<i32, Damage> {
        let column = text as usize;
        let first = self.codes[column].get(&hash).copied();
        let known = match first {
            Some(code) if self.texts[column][code as usize] != *bytes => {
                self.others[column].get(bytes).copied()
            }
            first => first,
        };
        let code = match known {
            Some(code) => code,
            None => {
                let code = self.add(text, bytes)?;
                if first.is_none() {
                    self.codes[column].insert(hash, code);
                } else {
                    self.others[column].insert(bytes.into(), code);
                }
                code
            }
        };
        self.tell(text, code)
    }

    /// A text that was not there.
    fn add(&mut self, text: Text, bytes: &[u8]) -> Result<i32, Damage> {
        self.bytes += bytes.len();
        if self.bytes > TEXT_BYTES_MAX {
            return Err(Damage("its texts are longer than a block's may be"));
        }
        if std::str::from_utf8(bytes).is_err() {
            return Err(Damage("a text is not UTF-8"));
        }
        let texts = &mut self.texts[text as usize];
        texts.push(bytes);
        Ok(texts.len() as i32 - 1)
    }

    /// Counts what a record says.
    fn tell(&mut self, text: Text, code: i32) -> Result<i32, Damage> {
        self.pass(self.texts[text as usize][code as usize].len())?;
        Ok(code)
    }

    /// Counts the bytes of a text that is made, be it kept or not.
    pub fn pass(&mut self, bytes: usize) -> Result<(), Damage> {
        self.told += bytes;
        if self.told > TEXT_BYTES_TOLD_MAX {
            return Err(Damage(
                "its records' texts are longer than a block's may be",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_one_hash_are_told_apart() {
        let mut pools = Pools::default();
        let mut code = |text: &str| pools.code_of(Text::File, text.as_bytes(), 7).unwrap();
        let all: Vec<_> = (0..1000).map(|at| code(&format!("/a/{at}"))).collect();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
        let again: Vec<_> = (0..1000).map(|at| code(&format!("/a/{at}"))).collect();
        assert_eq!(again, all);
        assert_eq!(pools.texts[Text::File as usize].len(), 1000);
    }
}
