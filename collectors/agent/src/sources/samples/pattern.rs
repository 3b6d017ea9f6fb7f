//! Which names a source looks at, as the settings say: patterns with `*` and `?`, those that begin with `!` take away again.

use std::collections::BTreeMap;

/// Names of which it is remembered whether they are wanted.
const NAMES_MAX: usize = 4096;
/// Of a setting.
const PATTERNS_MAX: usize = 64;

/// Refuses what cannot be a list of patterns.
pub fn check(name: &str, patterns: &[String]) -> Result<(), String> {
    let is_bad = |p: &String| p.trim_start_matches('!').is_empty() || p.len() > 255;
    if patterns.len() > PATTERNS_MAX || patterns.iter().any(is_bad) {
        return Err(format!(
            "{name}: expected at most {PATTERNS_MAX} patterns of 1 to 255 characters; see agent.sample.toml"
        ));
    }
    Ok(())
}

/// Whether the last pattern that fits the name does not take it away.
pub fn is_wanted(patterns: &[String], name: &str) -> bool {
    let fitting = patterns.iter().rev().find_map(|pattern| {
        let (takes, glob) = match pattern.strip_prefix('!') {
            Some(glob) => (false, glob),
            None => (true, pattern.as_str()),
        };
        fits(glob.as_bytes(), name.as_bytes()).then_some(takes)
    });
    fitting.unwrap_or(false)
}

/// In time that the product of both lengths bounds.
fn fits(glob: &[u8], name: &[u8]) -> bool {
    let (mut g, mut n) = (0, 0);
    // The last star, and how far what it stands for goes.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match glob.get(g) {
            Some(b'*') => {
                star = Some((g, n));
                g += 1;
            }
            Some(&own) if own == b'?' || own == name[n] => (g, n) = (g + 1, n + 1),
            _ => match star {
                Some((at, end)) => {
                    star = Some((at, end + 1));
                    (g, n) = (at + 1, end + 1);
                }
                None => return false,
            },
        }
    }
    glob[g..].iter().all(|b| *b == b'*')
}

/// Remembers which names are wanted, since to find out may take a system call.
#[derive(Default)]
pub struct Chosen {
    known: BTreeMap<String, bool>,
}

impl Chosen {
    pub fn is(&mut self, name: &str, find_out: impl FnOnce(&str) -> bool) -> bool {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        if self.known.len() >= NAMES_MAX {
            self.known.clear();
        }
        let is_wanted = find_out(name);
        self.known.insert(name.to_string(), is_wanted);
        is_wanted
    }

    /// What stands under a name may be another thing by now.
    pub fn forget(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// The slow way.
    fn naive(glob: &[u8], name: &[u8]) -> bool {
        match glob.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|skip| naive(rest, &name[skip..])),
            Some((own, rest)) => name
                .split_first()
                .is_some_and(|(n, name)| (*own == b'?' || own == n) && naive(rest, name)),
        }
    }

    #[test]
    fn patterns_fit_as_the_slow_way_says() {
        let mut random = Random::new(5);
        let mut fitting = 0;
        for _ in 0..100_000 {
            let mut word = |letters: &[u8], most: u64| -> Vec<u8> {
                let length = random.below(most);
                let mut letter = || letters[random.below(letters.len() as u64) as usize];
                (0..length).map(|_| letter()).collect()
            };
            let (glob, name) = (word(b"ab**?", 8), word(b"ab", 9));
            let expected = naive(&glob, &name);
            fitting += expected as u32;
            assert_eq!(fits(&glob, &name), expected, "{glob:?} {name:?}");
        }
        assert!(fitting > 10_000, "{fitting}");
        // Which a simple way would never come to the end of.
        assert!(!fits(&b"*a".repeat(100), &[b'a'; 10_000][..99]));
    }

    #[test]
    fn the_last_pattern_that_fits_decides() {
        let list = |text: &str| -> Vec<String> { text.split(' ').map(String::from).collect() };
        let devices = list("* !loop* !ram* loop7");
        for (name, expected) in [("sda", true), ("loop1", false), ("loop7", true)] {
            assert_eq!(is_wanted(&devices, name), expected, "{name}");
        }
        assert!(!is_wanted(&[], "sda") && !is_wanted(&list("!sd*"), "vda"));
        assert!(check("devices", &devices).is_ok());
        assert!(check("devices", &list("!")).is_err());
        assert!(check("devices", &vec!["*".to_string(); 65]).is_err());
    }

    #[test]
    fn a_name_is_found_out_about_once() {
        let mut chosen = Chosen::default();
        assert!(chosen.is("sda", |_| true) && chosen.is("sda", |_| false));
        for n in 0..2 * NAMES_MAX {
            chosen.is(&format!("{n}"), |_| true);
        }
        assert!(chosen.known.len() <= NAMES_MAX);
        chosen.forget();
        assert!(!chosen.is("sda", |_| false));
    }
}
