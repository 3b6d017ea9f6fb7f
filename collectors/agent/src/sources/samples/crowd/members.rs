//! What a source of many instances asks of whoever reads them, and how their columns become values.

use super::super::reading::Found;
use super::super::track::Number;
use crate::event;

/// Columns of a member; their numbers, and that of its identity, are bytes in the table.
pub const COLUMNS_MAX: usize = 255;
/// Of a column that was not read: it stays as it was.
pub const ABSENT: u64 = u64::MAX;

/// What is told of each member.
#[derive(Clone)]
pub struct Column {
    pub name: String,
    /// What one of it is in the value's unit. `None`: a gauge.
    pub scale: Option<u32>,
    /// Counters of a part begin anew together. Below 32.
    pub part: u8,
}

/// Reads the members of groups, one after the other. It keeps nothing from look to look.
pub trait Members {
    fn component(&self) -> &'static str;

    /// Where it looks, for whoever wonders why nothing comes.
    fn place(&self) -> String;

    fn columns(&self) -> Vec<Column>;

    /// The groups that there are now. One without a name is not part of its members' instances.
    fn groups(&mut self, found: &mut Found) -> Vec<String>;

    /// Begins to read a group. False: there is nothing that tells of its members, so that who is missing is not gone.
    fn open(&mut self, group: &str, found: &mut Found) -> bool;

    /// Goes on to the group's next member. False: there is none, and the group is closed. What cannot be read is an error, and the rest follows.
    fn next(&mut self, now_utc_ns: i64, found: &mut Found) -> bool;

    /// Of the member that was read.
    fn name(&self) -> &[u8];

    /// The same from look to look only if nothing has changed; 0: who knows.
    fn mark(&self) -> u32;

    /// Of what its columns are sums, where that may change: one that differs has no base.
    fn identity(&self) -> u64 {
        0
    }

    /// How its columns stand, each ABSENT before. False: it makes no sense, and is an error.
    fn values(&mut self, out: &mut [u64], found: &mut Found) -> bool;
}

/// What was not read (ABSENT) stays as it was `before`; but where a counter has fallen all of its part began anew, and that counts from 0.
/// `part`: of a column; `None`: a gauge. Answers which parts began anew, a bit each.
pub fn settle(now: &mut [u64], before: &[u64], part: impl Fn(usize) -> Option<u8>) -> u32 {
    let bit = |at: usize| part(at).map_or(0, |part| 1 << part);
    let mut reset = 0;
    for (at, (now, before)) in now.iter().zip(before).enumerate() {
        if now < before && *now != ABSENT && *before != ABSENT {
            reset |= bit(at);
        }
    }
    for (at, (now, before)) in now.iter_mut().zip(before).enumerate() {
        if *now == ABSENT {
            *now = if reset & bit(at) != 0 { 0 } else { *before };
        }
    }
    reset
}

/// Writes a member's values: of each column how it stands and how it stood. `reset`: parts whose counters began anew, a bit each; `None`: it did nothing.
pub fn write_values<'a>(
    out: &mut Vec<u8>,
    columns: impl Iterator<Item = (&'a Column, (&'a u64, &'a u64))>,
    reset: Option<u32>,
) {
    event::name(out, "values");
    out.push(b'{');
    let begin = out.len();
    for (column, (&now, &base)) in columns {
        let number = match (column.scale, reset) {
            (None, None) => Number::whole(base, 1),
            (None, Some(_)) => Number::whole(now, 1),
            // What never happened is left out.
            (Some(_), None) if base == 0 => continue,
            (Some(_), Some(_)) if now == 0 => continue,
            (Some(_), None) => Number::Whole(0),
            (Some(scale), Some(reset)) if reset & (1 << column.part) != 0 => {
                Number::whole(now, scale)
            }
            (Some(scale), Some(_)) => Number::whole(now - base, scale),
        };
        number.write(out, &column.name);
    }
    if out.len() > begin {
        out.remove(begin); // the first comma
    }
    out.push(b'}');
}
