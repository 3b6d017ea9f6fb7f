//! Samples: what one component did in an interval, read again and again.
//!
//! A `Probe` reads one kind of component; a `Sampled` makes a source of it. Counters become what they moved since the last sample. An instance that
//! stands still is passed over, but told once in QUIET_MAX: by a sample of the stretch, which lies before that of the next change, so that one
//! instance's samples follow each other without a gap.

pub mod crowd;
#[cfg(test)]
pub mod golden;
pub mod pattern;
pub mod reading;
mod said;
pub mod schedule;
pub mod text;
pub mod track;

use self::reading::{Found, Reading};
use self::said::Said;
use self::schedule::Schedule;
use self::track::{At, To, Track};
use super::cursors::{Pieces, Reader};
use super::{Pass, Progress, Source};
use crate::clock::Now;
use crate::config::Config;
use crate::counters::Counters;
use crate::ship::batch::Batch;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracepack::ring::file_id;

/// Instances of one source.
pub const INSTANCES_MAX: usize = 4096;
const INSTANCE_BYTES_MAX: usize = 255;
/// Pause before what was not there is looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Reads one kind of component. It keeps nothing that a restart of the agent would miss.
pub trait Probe {
    /// The component that its samples are of.
    fn component(&self) -> &'static str;

    /// Where it looks, for whoever wonders why nothing comes.
    fn place(&self) -> String;

    /// Whether `read` has something to tell. One that asks a program begins to do so here, and says no until it has the answer. Never waits.
    fn is_ready(&mut self, _pass: &Pass) -> bool {
        true
    }

    /// While it is not ready: when it is to be asked again.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// What there is now. Never waits.
    fn read(&mut self, found: &mut Found);
}

/// Names this start of the machine: counters of another one begin anew.
pub fn kernel_boot(config: &Config) -> u64 {
    let path = config.under_root(Path::new("/proc/sys/kernel/random/boot_id"));
    let mut text = Vec::new();
    // Without it the counters themselves must tell: all count from 0 then.
    let _ = text::read(&path, 64, &mut text);
    file_id(&text)
}

/// What was read and is not told yet, since the batch was full.
struct Waiting {
    readings: std::vec::IntoIter<Reading>,
    at: At,
    /// Nothing is missing: an instance that is not among them is gone.
    is_whole: bool,
}

/// Owned by the agent's thread. Bounded by INSTANCES_MAX; at a kill the spool has it as of the last sample.
pub struct Sampled {
    probe: Box<dyn Probe>,
    tag: u8,
    counters: Arc<Counters>,
    kernel_boot: u64,
    schedule: Schedule,
    tracks: BTreeMap<String, Track>,
    /// The first and the last instance that the spool does not have as it is: of a fabric's thousands of ports a look tells one switch's.
    changed: Option<[String; 2]>,
    /// How many there were.
    looks: u64,
    /// The last one was not the whole look.
    is_looking: bool,
    waiting: Option<Waiting>,
    said: Said,
    /// `from_zero` was asked for.
    from_zero: bool,
}

impl Sampled {
    /// `tag`: of its cursors in the spool, its alone for ever.
    pub fn new(
        probe: Box<dyn Probe>,
        tag: u8,
        period_s: u64,
        kernel_boot: u64,
        counters: &Arc<Counters>,
    ) -> Sampled {
        Sampled {
            probe,
            tag,
            counters: counters.clone(),
            kernel_boot,
            schedule: Schedule::every(Duration::from_secs(period_s)),
            tracks: BTreeMap::new(),
            changed: None,
            looks: 0,
            is_looking: false,
            waiting: None,
            said: Said::default(),
            from_zero: false,
        }
    }

    /// The first look tells all, as if it had counted from 0 then: of a capture there may be no other.
    pub fn from_zero(mut self) -> Sampled {
        self.from_zero = true;
        self
    }

    fn look(&mut self, now: &Now) {
        let at = At::of(now);
        let mut found = Found::at(now.instant);
        self.probe.read(&mut found);
        if self.from_zero {
            found
                .readings
                .iter_mut()
                .for_each(|reading| reading.since = Some(at));
        }
        self.looks += !self.is_looking as u64;
        self.is_looking = found.more;
        if found.more {
            // What went wrong is told at its end.
        } else if found.readings.is_empty() && found.errors == 0 {
            self.schedule.rest(now.later(), LOOK_AGAIN);
            self.tracks.clear();
        } else {
            self.schedule.done(now.later());
        }
        // Two that say they are the same, and what the spool could not know again.
        found.readings.sort_by(|a, b| a.instance.cmp(&b.instance));
        let mut refused = 0;
        let mut last: Option<String> = None;
        found.readings.retain(|reading| {
            let is_new = last.as_ref() != Some(&reading.instance);
            let is_good = is_new && reading.instance.len() <= INSTANCE_BYTES_MAX;
            refused += !is_good as u64;
            if is_good {
                last = Some(reading.instance.clone());
            }
            is_good
        });
        let beyond = found.readings.len().saturating_sub(INSTANCES_MAX) as u64;
        found.readings.truncate(INSTANCES_MAX);
        if refused + beyond > 0 {
            found.error(|| format!("{refused} instances have a name that another has, or one of more than {INSTANCE_BYTES_MAX} bytes, and {beyond} are more than {INSTANCES_MAX}; they are not told"));
        }
        if !found.more {
            let (probe, is_empty) = (&self.probe, found.readings.is_empty());
            self.said
                .say(probe.component(), || probe.place(), &found, is_empty);
        }
        self.counters.failed_reads.add(found.errors);
        self.waiting = Some(Waiting {
            is_whole: found.errors == 0 && !found.more,
            readings: found.readings.into_iter(),
            at,
        });
    }

    /// Tells one reading. False: the batch has no room.
    fn tell(&mut self, reading: &Reading, at: At, is_whole: bool, batch: &mut Batch) -> bool {
        // A time that is still to come is none.
        let own = reading.time_ns.filter(|own| *own <= at.utc_ns);
        let mut at = own.map_or(at, |own| at.before(own));
        if !self.tracks.contains_key(&reading.instance) {
            if self.tracks.len() >= INSTANCES_MAX {
                // Kept only because they might have been there, unread.
                self.tracks.retain(|_, track| track.look == self.looks);
            }
            let mut track = match reading.since {
                Some(since) => Track::born(since),
                None => Track::begin(reading, at),
            };
            track.look = self.looks;
            self.tracks.insert(reading.instance.clone(), track);
            if reading.since.is_none() {
                self.has_changed(&reading.instance);
                return true;
            }
        }
        let Some(track) = self.tracks.get_mut(&reading.instance) else {
            return true;
        };
        track.look = self.looks;
        if own.is_some() && at.utc_ns == track.seen.utc_ns {
            at = track.seen; // the same once more
        }
        let to = To {
            component: self.probe.component(),
            counters: &self.counters,
            batch,
        };
        let is_told = track.go_on(reading, at, is_whole, to);
        if track.has_changed {
            self.has_changed(&reading.instance);
        }
        is_told
    }

    fn has_changed(&mut self, instance: &str) {
        match &mut self.changed {
            None => self.changed = Some([instance; 2].map(String::from)),
            Some([first, _]) if **first > *instance => instance.clone_into(first),
            Some([_, last]) if **last < *instance => instance.clone_into(last),
            Some(_) => {}
        }
    }

    /// Tells what waits. False: the batch is full.
    fn tell_all(&mut self, batch: &mut Batch) -> bool {
        let Some(mut waiting) = self.waiting.take() else {
            return true;
        };
        while let Some(reading) = waiting.readings.as_slice().first() {
            if !self.tell(reading, waiting.at, waiting.is_whole, batch) {
                self.waiting = Some(waiting);
                return false;
            }
            waiting.readings.next();
        }
        if waiting.is_whole {
            // Those that were not read are gone: what comes under their names is another thing.
            self.tracks.retain(|_, track| track.look == self.looks);
        }
        true
    }
}

impl Source for Sampled {
    fn tag(&self) -> u8 {
        self.tag
    }

    fn begin(&mut self, _pass: &mut Pass) {}

    fn read(&mut self, pass: &mut Pass, batch: &mut Batch) -> Progress {
        if self.waiting.is_none()
            && self.schedule.is_due(pass.now.instant)
            && self.probe.is_ready(pass)
        {
            self.look(&pass.now);
        }
        match self.tell_all(batch) {
            true => Progress::Done,
            false => Progress::More,
        }
    }

    fn due(&self) -> Option<Instant> {
        let due = self.schedule.next();
        Some(self.probe.due().map_or(due, |own| own.max(due)))
    }

    fn cursors(&self, all: bool, out: &mut Pieces) {
        let mut write = |instance: &String, track: &Track| {
            out.block(|out| {
                out.extend_from_slice(&self.kernel_boot.to_le_bytes());
                out.push(instance.len() as u8);
                out.extend_from_slice(instance.as_bytes());
                track.write_cursor(out);
            });
        };
        if all {
            let tracks = self.tracks.iter();
            return tracks.for_each(|(instance, track)| write(instance, track));
        }
        let Some([first, last]) = &self.changed else {
            return;
        };
        for (instance, track) in self.tracks.range::<String, _>(first..=last) {
            if track.has_changed {
                write(instance, track);
            }
        }
    }

    fn forget(&mut self) {
        self.tracks.clear();
    }

    fn restore(&mut self, cursor: &mut Reader) -> Option<()> {
        let boot = cursor.u64()?;
        let length = cursor.u8()? as usize;
        let instance = std::str::from_utf8(cursor.take(length)?).ok()?;
        let track = Track::read_cursor(cursor)?;
        // Counters of another start of the machine say nothing of this one's.
        let has_room = self.tracks.len() < INSTANCES_MAX || self.tracks.contains_key(instance);
        if boot == self.kernel_boot && has_room {
            self.tracks.insert(instance.to_string(), track);
        }
        Some(())
    }

    fn committed(&mut self) {
        if let Some([first, last]) = self.changed.take() {
            let tracks = self.tracks.range_mut::<String, _>(first..=last);
            tracks.for_each(|(_, track)| track.has_changed = false);
        }
    }
}

#[cfg(test)]
#[path = "samples_tests.rs"]
mod tests;
