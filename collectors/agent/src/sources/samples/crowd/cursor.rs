//! How the spool keeps the tables. Blocks, each of which says what it is of and is one of: the instants of looks, a group with its members, or some of them, the name of
//! a group that went, or that nothing is kept since it is too much.

use super::super::INSTANCE_BYTES_MAX;
use super::table::read_members;
use super::{Crowd, Group};
use crate::sources::cursors::{Pieces, Reader, PIECE_BYTES};
use crate::sources::Source;
use crate::warn;
use tracepack::ring::file_id;

/// Looks; what was restored before stays.
const LOOKS: u8 = 1;
/// Looks; what was restored before goes.
const ALL: u8 = 2;
const GROUP: u8 = 3;
const GROUP_GONE: u8 = 4;
const NOT_KEPT: u8 = 5;
/// Of a block, before its members.
const BLOCK_BYTES: usize = 64 + INSTANCE_BYTES_MAX;

impl Crowd {
    fn groups_and_names(&self) -> impl Iterator<Item = (&String, &Group)> {
        let look = self.look.iter().flat_map(|look| &look.now);
        let now = look.map(|reading| (&reading.name, &reading.group));
        self.groups.iter().chain(now)
    }

    /// Whether the spool has room for all. Once it had not, it is asked for some to spare.
    fn is_to_be_kept(&self) -> bool {
        let groups = self.groups_and_names();
        let blocks = |bytes: usize| bytes + (1 + bytes / PIECE_BYTES) * BLOCK_BYTES;
        let groups = groups.map(|(_, group)| blocks(group.table.kept_bytes()));
        let bytes = self.looks.bytes() + groups.sum::<usize>();
        match self.is_kept {
            true => bytes <= self.cursors_bytes_max,
            false => bytes <= self.cursors_bytes_max / 4 * 3,
        }
    }

    /// Names the columns, and how their numbers come about: those of another agent may mean something else.
    fn shape(&self) -> u64 {
        let names: Vec<&str> = self.columns.iter().map(|column| &*column.name).collect();
        file_id(names.join(" ").as_bytes())
    }

    fn block(&self, kind: u8, out: &mut Pieces, write: impl FnOnce(&mut Vec<u8>)) {
        out.block(|out| {
            for number in [self.kernel_boot, self.shape(), self.key[0], self.key[1]] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.push(kind);
            write(out);
        });
    }

    pub(super) fn write_cursors(&self, all: bool, out: &mut Pieces) {
        if !all && !self.has_changed {
            return;
        }
        if !self.is_to_be_kept() {
            if all || self.is_kept {
                self.block(NOT_KEPT, out, |_| ());
            }
            return;
        }
        let is_whole = all || !self.is_kept;
        // Without groups no other look matters.
        let has_groups = self.groups_and_names().next().is_some();
        let from = match is_whole {
            true if has_groups => 0,
            true => match self.listed {
                Some(listed) => listed,
                None => return,
            },
            false => self.looks.committed,
        };
        self.block(if is_whole { ALL } else { LOOKS }, out, |out| {
            put_look(self.listed, out);
            let groups = self.groups_and_names().count() as u32;
            out.extend_from_slice(&groups.to_le_bytes());
            self.looks.write(from, out);
        });
        for name in self.gone.iter().filter(|_| !is_whole) {
            self.block(GROUP_GONE, out, |out| put_name(name, out));
        }
        let groups = self.groups_and_names();
        for (name, group) in groups.filter(|(_, group)| is_whole || group.has_changed) {
            let mut gone = if is_whole { &[] } else { &group.gone[..] };
            let mut rest = Some(0);
            while let Some(from) = rest {
                self.block(GROUP, out, |out| {
                    put_name(name, out);
                    put_look(group.whole, out);
                    out.extend_from_slice(&(gone.len() as u32).to_le_bytes());
                    gone.iter()
                        .for_each(|hash| out.extend_from_slice(&hash.to_le_bytes()));
                    rest = group.table.write(is_whole, from, PIECE_BYTES, out);
                });
                gone = &[];
            }
        }
    }

    pub(super) fn has_committed(&mut self) {
        if !self.has_changed {
            return;
        }
        let is_kept = self.is_to_be_kept();
        if self.is_kept && !is_kept {
            self.counters.unkept_tables.add(1);
            warn!(
                "table not kept",
                "{}: what is known of its instances takes more than the spool keeps ({} bytes); what they do while no agent runs is not told; raise spool_max_bytes",
                self.members.component(),
                self.cursors_bytes_max
            );
        }
        self.is_kept = is_kept;
        self.has_changed = false;
        self.gone.clear();
        self.looks.committed();
        let look = self.look.iter_mut().flat_map(|look| &mut look.now);
        let now = look.map(|reading| &mut reading.group);
        for group in self.groups.values_mut().chain(now) {
            if std::mem::take(&mut group.has_changed) {
                group.table.committed();
                group.gone = Vec::new();
            }
        }
    }

    /// `None`: it breaks off or makes no sense.
    pub(super) fn read_cursor(&mut self, cursor: &mut Reader) -> Option<()> {
        let [boot, shape] = cursor.u64s()?;
        let key = cursor.u64s()?;
        let kind = cursor.u8()?;
        if boot != self.kernel_boot || shape != self.shape() {
            // Where either cannot be told, nobody knows.
            let is_told = ![boot, self.kernel_boot].contains(&file_id(b""));
            self.forget();
            self.was_rebooted = boot != self.kernel_boot && is_told;
            cursor.0 = &[];
            return Some(());
        }
        let is_first = self.looks.is_empty();
        if kind == ALL || kind == NOT_KEPT {
            self.forget();
        }
        if is_first || kind == ALL || kind == NOT_KEPT {
            self.key = key;
        }
        (key == self.key).then_some(())?;
        self.was_rebooted = false;
        match kind {
            ALL | LOOKS => {
                let listed = take_look(cursor)?;
                let groups = cursor.u32()? as usize;
                self.looks.restore(cursor)?;
                (self.listed, self.restored) = (listed, Some(groups));
            }
            GROUP => {
                let name = take_name(cursor)?;
                let whole = take_look(cursor)?;
                let mut gone = Vec::new();
                for _ in 0..cursor.u32()? {
                    gone.push(cursor.u64()?);
                }
                let members = read_members(cursor, self.columns.len() + 1)?;
                let group = self.groups.entry(name).or_default();
                group.whole = whole;
                group.table.restore(&gone, &members).then_some(())?;
            }
            GROUP_GONE => {
                let name = take_name(cursor)?;
                self.groups.remove(&name);
            }
            NOT_KEPT => {}
            _ => return None,
        }
        Some(())
    }
}

fn put_look(look: Option<u32>, out: &mut Vec<u8>) {
    out.extend_from_slice(&look.map_or(0, |look| look + 1).to_le_bytes());
}

fn take_look(cursor: &mut Reader) -> Option<Option<u32>> {
    Some(cursor.u32()?.checked_sub(1))
}

fn put_name(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(name.len() as u16).to_le_bytes());
    out.extend_from_slice(name.as_bytes());
}

fn take_name(cursor: &mut Reader) -> Option<String> {
    let length = cursor.u16()? as usize;
    let name = std::str::from_utf8(cursor.take(length)?).ok()?;
    Some(name.into())
}
