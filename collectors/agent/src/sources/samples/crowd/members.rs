//! What a source of many instances asks of whoever reads them, and how their columns become values.

use super::super::reading::Found;
use super::super::track::Number;
use crate::event;

/// Columns of a member; their numbers are bytes in the table.
pub const COLUMNS_MAX: usize = 255;
/// Of a column that was not read: it stays as it was.
pub const ABSENT: u64 = u64::MAX;
/// What is told of each member.
#[derive(Clone)]
pub struct Column {
    pub name: String,
    /// What one of it is in the value's unit. `None`: a gauge.
    pub scale: Option<u32>,
}

/// Reads the members of groups, one after the other. It keeps nothing from look to look.
pub trait Members {
    fn component(&self) -> &'static str;

    /// Where it looks, for whoever wonders why nothing comes.
    fn place(&self) -> String;

    fn columns(&self) -> Vec<Column>;

    /// The groups that there are now. One without a name is not part of its members' instances.
    fn groups(&mut self, found: &mut Found) -> Vec<String>;

    /// Begins to read a group.
    fn open(&mut self, group: &str, found: &mut Found);

    /// Goes on to the group's next member. False: there is none, and the group is closed. What cannot be read is an error, and the rest follows.
    fn next(&mut self, now_utc_ns: i64, found: &mut Found) -> bool;

    /// Of the member that was read.
    fn name(&self) -> &[u8];

    /// The same from look to look only if nothing has changed; 0: who knows.
    fn mark(&self) -> u32;

    /// How its columns stand, each ABSENT before. False: it makes no sense, and is an error.
    fn values(&mut self, out: &mut [u64], found: &mut Found) -> bool;
}

/// What was not read (ABSENT) stays as it was `before`; but where a counter has fallen all began anew, and that counts from 0. Answers whether so.
pub fn settle(now: &mut [u64], before: &[u64], is_counter: impl Fn(usize) -> bool) -> bool {
    let mut pairs = now.iter().zip(before).enumerate();
    let is_reset = pairs.any(|(at, (now, before))| {
        is_counter(at) && *now != ABSENT && *before != ABSENT && now < before
    });
    for (now, before) in now.iter_mut().zip(before) {
        if *now == ABSENT {
            *now = if is_reset { 0 } else { *before };
        }
    }
    is_reset
}

/// Writes a member's values: of each column how it stands and how it stood. `is_reset`: its counters began anew; `None`: it did nothing.
pub fn write_values<'a>(
    out: &mut Vec<u8>,
    columns: impl Iterator<Item = (&'a Column, (&'a u64, &'a u64))>,
    is_reset: Option<bool>,
) {
    event::name(out, "values");
    out.push(b'{');
    let begin = out.len();
    for (column, (&now, &base)) in columns {
        let number = match (column.scale, is_reset) {
            (None, None) => Number::whole(base, 1),
            (None, Some(_)) => Number::whole(now, 1),
            // What never happened is left out.
            (Some(_), None) if base == 0 => continue,
            (Some(_), Some(_)) if now == 0 => continue,
            (Some(_), None) => Number::Whole(0),
            (Some(scale), Some(true)) => Number::whole(now, scale),
            (Some(scale), Some(false)) => Number::whole(now - base, scale),
        };
        number.write(out, &column.name);
    }
    if out.len() > begin {
        out.remove(begin); // the first comma
    }
    out.push(b'}');
}
