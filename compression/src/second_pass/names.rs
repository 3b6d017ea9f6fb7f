//! Texts as a template with numbers in it, so that `out.0007` and `out.0008` differ by one.

use std::collections::HashMap;

use super::side::{Field, Side};
use super::trend::Trend;
use super::wire::{put_bytes, Damage, Reader};

/// Numbers of a text that are told apart; further ones are part of the template.
pub const NUMBERS_MAX: usize = 12;
/// Digits that always fit into 63 bits.
const DIGITS_MAX: usize = 18;
/// Stands for no text at all.
pub const NO_TEXT: i64 = 0;

/// A text: `template` by number, and so many numbers as that has; those behind are 0.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Name {
    pub template: i64,
    pub numbers: [i64; NUMBERS_MAX],
}

/// As it is told: how many numbers; for each what stands before it and how many digits it has at least; what stands behind the last one.
type Template = Box<[u8]>;

/// All templates of a block, by number from 1.
#[derive(Clone, Default)]
pub struct Templates {
    known: Vec<Template>,
    /// In packing: those that were looked for, and those that there were before.
    numbers: HashMap<Template, i64>,
    /// Those that the block itself has to tell, as they are written.
    pub told: Vec<u8>,
}

impl Templates {
    /// The name of a text; a template that is new is told.
    pub fn name(&mut self, text: Option<&[u8]>) -> Name {
        let mut name = Name::default();
        let Some(text) = text else {
            return name;
        };
        if self.numbers.is_empty() {
            let known = self.known.iter().zip(1..);
            self.numbers
                .extend(known.map(|(template, number)| (template.clone(), number)));
        }
        let packed = split(text, &mut name.numbers);
        name.template = match self.numbers.get(packed.as_slice()) {
            Some(&number) => number,
            None => {
                put_bytes(&mut self.told, &packed);
                let template = packed.into_boxed_slice();
                self.known.push(template.clone());
                let number = self.known.len() as i64;
                self.numbers.insert(template, number);
                number
            }
        };
        name
    }

    /// Reads the templates that a block tells.
    pub fn read(&mut self, told: &[u8], most: usize) -> Result<(), Damage> {
        let mut reader = Reader::new(told);
        let mut left = most;
        while !reader.is_empty() {
            left = left
                .checked_sub(1)
                .ok_or(Damage("it has more texts than rows ask for"))?;
            let packed = reader.bytes()?;
            check(packed)?;
            self.known.push(packed.into());
        }
        Ok(())
    }

    /// None: it is that of no text.
    fn get(&self, number: i64) -> Result<Option<&[u8]>, Damage> {
        if number == NO_TEXT {
            return Ok(None);
        }
        let template = usize::try_from(number)
            .ok()
            .and_then(|number| self.known.get(number - 1));
        let template = template.ok_or(Damage("a text has a template that is not there"))?;
        Ok(Some(template))
    }

    /// How many numbers a template has.
    fn count(&self, number: i64) -> Result<usize, Damage> {
        Ok(self.get(number)?.map_or(0, |template| template[0] as usize))
    }

    /// The text of a name, behind what `out` holds. Returns false for no text.
    pub fn render(&self, name: &Name, out: &mut Vec<u8>) -> Result<bool, Damage> {
        let Some(template) = self.get(name.template)? else {
            return Ok(false);
        };
        let mut reader = Reader::new(&template[1..]);
        for number in &name.numbers[..template[0] as usize] {
            out.extend_from_slice(reader.bytes()?);
            let width = reader.byte()?;
            let mut digits = [b'0'; 20];
            let mut at = digits.len();
            let mut rest = *number as u64;
            while rest > 0 {
                at -= 1;
                digits[at] = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            let least = digits.len() - (width as usize).max(1);
            out.extend_from_slice(&digits[at.min(least)..]);
        }
        out.extend_from_slice(reader.rest());
        Ok(true)
    }
}

/// A text as a template's bytes: how many numbers, before each what precedes it and its width, and what comes behind the last one.
fn split(text: &[u8], numbers: &mut [i64; NUMBERS_MAX]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(text.len() + 8);
    packed.push(0);
    let (mut count, mut from, mut at) = (0, 0, 0);
    while at < text.len() && count < NUMBERS_MAX {
        if !text[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let digits = text[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if digits <= DIGITS_MAX {
            put_bytes(&mut packed, &text[from..at]);
            let is_padded = text[at] == b'0' && digits > 1;
            packed.push(if is_padded { digits as u8 } else { 0 });
            numbers[count] = text[at..at + digits]
                .iter()
                .fold(0, |value, &digit| value * 10 + i64::from(digit - b'0'));
            count += 1;
            from = at + digits;
        }
        at += digits;
    }
    packed[0] = count as u8;
    packed.extend_from_slice(&text[from..]);
    packed
}

fn check(packed: &[u8]) -> Result<(), Damage> {
    let mut reader = Reader::new(packed);
    let count = reader.byte()?;
    if count as usize > NUMBERS_MAX {
        return Err(Damage("a text has too many numbers"));
    }
    for _ in 0..count {
        reader.bytes()?;
        if reader.byte()? as usize > DIGITS_MAX {
            return Err(Damage("a number in a text has too many digits"));
        }
    }
    Ok(())
}

pub fn plus(numbers: &mut [i64; NUMBERS_MAX], more: &[i64; NUMBERS_MAX]) {
    let pairs = numbers.iter_mut().zip(more);
    pairs.for_each(|(number, more)| *number = number.wrapping_add(*more));
}

/// What names will be at one place.
#[derive(Clone, Default)]
pub struct NameTrend {
    template: Trend,
    numbers: Vec<Trend>,
}

impl NameTrend {
    pub fn skip(&mut self, names: i64) {
        self.numbers.iter_mut().for_each(|trend| trend.skip(names));
    }

    /// By how much the next name's numbers are more than those it goes on from.
    pub fn next(&self) -> [i64; NUMBERS_MAX] {
        let mut next = [0; NUMBERS_MAX];
        let trends = self.numbers.iter().zip(&mut next);
        trends.for_each(|(trend, next)| *next = trend.next());
        next
    }

    /// Codes a name: its template, and its numbers.
    pub fn pass<S: Side>(
        &mut self,
        side: &mut S,
        templates: &Templates,
        fields: (Field, Field),
        name: &mut Name,
    ) -> Result<(), Damage> {
        self.pass_from(side, templates, fields, &Name::default(), name)
    }

    /// The same of one whose template and numbers go on from another's.
    pub fn pass_from<S: Side>(
        &mut self,
        side: &mut S,
        templates: &Templates,
        fields: (Field, Field),
        from: &Name,
        name: &mut Name,
    ) -> Result<(), Damage> {
        let foretold = from.template.wrapping_add(self.template.next());
        side.value(fields.0, foretold, &mut name.template)?;
        self.template
            .learn(name.template.wrapping_sub(from.template));
        let count = templates.count(name.template)?;
        name.numbers[count..].fill(0);
        if count == 0 {
            return Ok(());
        }
        if let Some(more @ 1..) = count.checked_sub(self.numbers.len()) {
            // No room to spare: a block may have many of these.
            self.numbers.reserve_exact(more);
            self.numbers.resize(count, Trend::default());
        }
        let mut foretold = [0; NUMBERS_MAX];
        let trends = self.numbers[..count].iter().zip(&from.numbers);
        for (foretold, (trend, from)) in foretold.iter_mut().zip(trends) {
            *foretold = from.wrapping_add(trend.next());
        }
        let values = &mut name.numbers[..count];
        side.numbers(fields.1, &foretold[..count], values)?;
        let trends = self.numbers.iter_mut().zip(values).zip(&from.numbers);
        trends.for_each(|((trend, value), from)| trend.learn(value.wrapping_sub(*from)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::side::Packing;
    use super::*;

    fn read(templates: &Templates) -> Templates {
        let mut read = Templates::default();
        read.read(&templates.told, usize::MAX).unwrap();
        read
    }

    #[test]
    fn texts_are_made_again_from_their_names() {
        let mut templates = Templates::default();
        let digits = |count: usize| "123456789".repeat(5)[..count].to_string();
        let mut texts: Vec<String> = [
            "",
            "a",
            "0",
            "00",
            "007",
            "7",
            "a1b22c",
            "1.2.3.4.5.6.7.8.9.10.11.12.13.014",
            "\u{663}7",
        ]
        .map(Into::into)
        .into();
        texts.extend([17, 18, 19, 40].map(digits));
        texts.extend([18, 19].map(|count| "0".repeat(count)));
        let names: Vec<_> = texts
            .iter()
            .map(|text| templates.name(Some(text.as_bytes())))
            .collect();
        let other = read(&templates);
        for (text, name) in texts.iter().zip(&names) {
            let mut out = Vec::new();
            assert_eq!(other.render(name, &mut out), Ok(true));
            assert_eq!(String::from_utf8(out).unwrap(), *text);
        }
        assert_eq!(templates.name(None), Name::default());
        assert_eq!(other.render(&Name::default(), &mut Vec::new()), Ok(false));
    }

    #[test]
    fn texts_that_differ_by_numbers_have_one_template_in_later_blocks_too() {
        let mut templates = Templates::default();
        let first = templates.name(Some(b"out.0007"));
        assert_eq!(
            templates.name(Some(b"out.0008")),
            Name {
                numbers: {
                    let mut numbers = first.numbers;
                    numbers[0] = 8;
                    numbers
                },
                ..first
            }
        );
        assert_ne!(templates.name(Some(b"out.8")).template, first.template);
        let mut later = read(&templates);
        assert_eq!(later.name(Some(b"out.0007")), first);
        assert!(later.told.is_empty());
    }

    #[test]
    fn a_place_has_no_room_to_spare() {
        let mut templates = Templates::default();
        let (mut trend, mut side) = (NameTrend::default(), Packing::default());
        for count in [3, 11, NUMBERS_MAX] {
            let mut name = templates.name(Some("/1".repeat(count).as_bytes()));
            let fields = (Field::File, Field::FileNumbers);
            trend
                .pass(&mut side, &templates, fields, &mut name)
                .unwrap();
            assert_eq!(
                (trend.numbers.len(), trend.numbers.capacity()),
                (count, count)
            );
            trend = trend.clone();
        }
    }

    #[test]
    fn templates_that_are_none_are_damage() {
        for wrong in [
            &[0][..],
            &[1, 13],
            &[2, 1, 5],
            &[3, 1, 0, 19],
            &[9, 0],
            &[2, 1, 0],
        ] {
            assert!(Templates::default().read(wrong, 9).is_err(), "{wrong:?}");
        }
        assert!(Templates::default().read(&[1, 0, 1, 0], 1).is_err());
        let mut templates = Templates::default();
        templates.read(&[1, 0], 1).unwrap();
        for template in [-1, 2, i64::MIN, i64::MAX] {
            let name = Name {
                template,
                ..Name::default()
            };
            assert!(templates.render(&name, &mut Vec::new()).is_err());
        }
    }
}
