use super::super::batch::{open_window, Batch};
use super::super::reader::{Position, Reader};
use super::*;
use crate::event;
use crate::testing::temp_dir;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const MAX: u64 = 64 << 20;

/// A spool whose cursors are one number: how many appends it has seen.
struct Fixture {
    dir: PathBuf,
    spool: Spool,
    batch: Batch,
    cursor: u64,
    counters: Counters,
}

impl Fixture {
    fn open(dir: &Path, bytes_max: u64, segment_bytes_max: u64) -> Fixture {
        let counters = Counters::default();
        let mut cursor = 0;
        let until = Instant::now() + Duration::from_secs(10);
        let spool = loop {
            match Spool::open(dir, bytes_max, segment_bytes_max, &counters, |_, bytes| {
                if let Ok(bytes) = bytes.try_into() {
                    cursor = u64::from_le_bytes(bytes);
                }
            }) {
                // A child that another test forks holds all our locks until its exec.
                Err(OpenError::Locked(_)) if Instant::now() < until => std::thread::yield_now(),
                opened => break opened.unwrap(),
            }
        };
        let batch = Batch::new("n", spool.boot(), spool.next_seq(), 1000, 1 << 20);
        Fixture {
            dir: dir.to_path_buf(),
            spool,
            batch,
            cursor,
            counters,
        }
    }

    fn new(name: &str, bytes_max: u64, segment_bytes_max: u64) -> Fixture {
        Self::open(&temp_dir(name), bytes_max, segment_bytes_max)
    }

    fn again(self) -> Fixture {
        let dir = self.dir.clone();
        drop(self);
        Self::open(&dir, MAX, 1 << 20)
    }

    /// Appends `events` events; each bears the cursor.
    fn append(&mut self, events: u32) -> Result<(), AppendError> {
        let cursor = self.cursor + 1;
        for _ in 0..events {
            assert!(self
                .batch
                .push("x", |out| event::integer(out, "cursor", cursor as i64)));
        }
        let window = self.batch.finish().unwrap();
        let put = |_, put: &mut dyn FnMut(&[u8])| put(&cursor.to_le_bytes());
        self.spool.append(&window, put)?;
        self.batch.restart(self.spool.next_seq());
        self.cursor = cursor;
        Ok(())
    }

    /// (entry, events) of all that is to be sent.
    fn unsent(&self) -> Vec<(u64, Vec<serde_json::Value>)> {
        let mut reader = Reader::new(self.spool.shared());
        let (mut body, mut found) = (Vec::new(), Vec::new());
        while let Some(window) = reader.next(&mut body, &self.counters).unwrap() {
            found.push((window.number, open_window(&body)));
        }
        found
    }

    fn segments(&self) -> Vec<u64> {
        segment_ids(&self.dir).unwrap()
    }
}

#[test]
fn what_is_appended_is_read_in_order_and_survives_a_restart() {
    let mut f = Fixture::new("order", MAX, 1 << 20);
    let boot = f.spool.boot();
    for events in [3, 0, 2] {
        f.append(events).unwrap();
    }
    for _ in 0..2 {
        let unsent = f.unsent();
        let seqs: Vec<u64> = unsent
            .iter()
            .flat_map(|(_, e)| e.iter().map(|e| e["seq"].as_u64().unwrap()))
            .collect();
        assert_eq!(seqs, [1, 2, 3, 4, 5]);
        assert_eq!(f.cursor, 3);
        f = f.again();
        assert_eq!((f.spool.boot(), f.spool.next_seq()), (boot, 6));
    }
    assert_eq!(f.counters.torn_entries.get(), 0);
}

#[test]
fn a_tail_torn_at_any_byte_loses_only_its_entry_and_its_cursor() {
    let mut f = Fixture::new("torn", MAX, 1 << 20);
    let mut ends = Vec::new();
    for _ in 0..3 {
        f.append(2).unwrap();
        ends.push(f.spool.bytes());
    }
    let path = segment_path(&f.dir, 1);
    let (dir, whole) = (f.dir.clone(), fs::read(&path).unwrap());
    drop(f);
    for cut in 0..=whole.len() as u64 {
        fs::write(&path, &whole[..cut as usize]).unwrap();
        let entries = ends.iter().filter(|&&end| end <= cut).count() as u64;
        let mut f = Fixture::open(&dir, MAX, 1 << 20);
        assert_eq!(
            (f.cursor, f.spool.next_seq()),
            (entries, 1 + 2 * entries),
            "cut at {cut}"
        );
        let is_torn = !ends.contains(&cut) && cut != 0;
        assert_eq!(f.counters.torn_entries.get(), is_torn as u64);
        // It goes on as if the torn entry had never been.
        f.append(1).unwrap();
        assert_eq!(f.unsent().len() as u64, entries + 1);
        drop(f);
        for id in segment_ids(&dir).unwrap().into_iter().filter(|id| *id != 1) {
            fs::remove_file(segment_path(&dir, id)).unwrap();
        }
    }
}

#[test]
fn a_damaged_byte_anywhere_never_panics_and_never_yields_a_false_entry() {
    let mut f = Fixture::new("damaged", MAX, 1 << 20);
    for _ in 0..3 {
        f.append(1).unwrap();
    }
    let path = segment_path(&f.dir, 1);
    let (dir, whole) = (f.dir.clone(), fs::read(&path).unwrap());
    drop(f);
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&path, &bytes).unwrap();
        let f = Fixture::open(&dir, MAX, 1 << 20);
        assert!(
            f.cursor < 3 && f.counters.torn_entries.get() == 1,
            "byte {at}"
        );
        assert_eq!(f.unsent().len() as u64, f.cursor);
    }
}

#[test]
fn segments_rotate_and_go_when_acknowledged_but_numbers_stay() {
    let mut f = Fixture::new("rotate", MAX, 300);
    for _ in 0..20 {
        f.append(1).unwrap();
    }
    assert!(f.segments().len() > 3);
    let shared = f.spool.shared();
    let last = f.unsent().last().unwrap().0;
    shared.acknowledge(last - 1);
    assert_eq!(f.unsent().len(), 1);
    shared.acknowledge(last);
    shared.save();
    assert_eq!(f.segments().len(), 1);
    let boot = f.spool.boot();
    let f = f.again();
    assert_eq!(
        (f.spool.boot(), f.spool.next_seq(), f.cursor),
        (boot, 21, 20)
    );
    assert!(f.unsent().is_empty());
}

#[test]
fn a_segment_torn_at_its_birth_falls_back_on_the_one_before() {
    let mut f = Fixture::new("birth", MAX, 100);
    f.append(1).unwrap();
    f.append(1).unwrap();
    assert_eq!(f.segments(), [1, 2]);
    let (boot, path) = (f.spool.boot(), segment_path(&f.dir, 2));
    let (dir, whole) = (f.dir.clone(), fs::read(&path).unwrap());
    drop(f);
    for cut in (0..whole.len()).step_by(7) {
        fs::write(&path, &whole[..cut]).unwrap();
        let f = Fixture::open(&dir, MAX, 100);
        let next = (f.spool.boot(), f.spool.next_seq(), f.cursor);
        assert_eq!(next, (boot, 2, 1), "cut at {cut}");
        assert_eq!(f.segments(), [1]);
    }
}

/// Numbers must never go back: the server would take what comes under one that it knows for resent, and drop it.
#[test]
fn what_stands_twice_counts_once() {
    let mut f = Fixture::new("twice", MAX, 1 << 20);
    f.append(2).unwrap();
    let once = fs::read(segment_path(&f.dir, 1)).unwrap();
    f.append(3).unwrap();
    let twice = fs::read(segment_path(&f.dir, 1)).unwrap();
    let seq = f.spool.next_seq();
    // A copy of the segment, and of its last entry.
    fs::write(segment_path(&f.dir, 2), &once).unwrap();
    let last = [&twice[..], &twice[once.len()..]].concat();
    fs::write(segment_path(&f.dir, 1), last).unwrap();
    let f = f.again();
    assert_eq!((f.spool.next_seq(), f.cursor), (seq, 2));
    assert_eq!((f.unsent().len(), f.counters.torn_entries.get()), (2, 2));
    assert_eq!(f.segments(), [1]);
}

#[test]
fn a_lost_acknowledgement_file_means_that_all_is_sent_again() {
    let mut f = Fixture::new("acked", MAX, 1 << 20);
    f.append(1).unwrap();
    f.append(1).unwrap();
    f.spool.shared().acknowledge(2);
    f.spool.shared().save();
    f = f.again();
    assert!(f.unsent().is_empty());
    fs::remove_file(f.dir.join("acked")).unwrap();
    assert_eq!(f.again().unsent().len(), 2);
}

#[test]
fn an_acknowledged_number_that_none_can_have_is_not_believed() {
    let mut f = Fixture::new("acked-max", MAX, 1 << 20);
    f.append(1).unwrap();
    for number in [u64::MAX, entry::NUMBER_END] {
        fs::write(f.dir.join("acked"), number.to_string()).unwrap();
        f = f.again();
        assert_eq!((f.unsent().len(), f.spool.next_seq()), (1, 2));
    }
}

#[test]
fn a_full_spool_refuses_and_takes_again_after_acknowledgements() {
    let mut f = Fixture::new("full", 3000, 600);
    let mut appended = 0;
    while f.append(1).is_ok() {
        appended += 1;
        assert!(appended < 100);
    }
    assert!(f.spool.bytes() <= 3000);
    assert!(
        matches!(f.append(0), Err(AppendError::Full(_))),
        "a batch that was refused stays"
    );
    f.spool.shared().acknowledge(f.unsent().last().unwrap().0);
    f.append(0).unwrap();
    assert_eq!(f.spool.next_seq(), f.batch.finish().unwrap().first_seq);
    assert_eq!(f.unsent().len(), 1);
}

/// Whoever waits for room tries again and again: that must not fill the disk with cursors each time.
#[test]
fn an_entry_that_was_refused_is_not_tried_again_until_there_is_room() {
    for segment_bytes_max in [100, 1 << 20] {
        let mut f = Fixture::new("refused", 2000, segment_bytes_max);
        f.append(1).unwrap();
        f.append(1).unwrap();
        assert!(f.batch.push("x", |_| ()));
        let window = f.batch.finish().unwrap();
        // More than there is room for, less than there is without the first segment.
        let cursors = vec![7; 2000 - f.spool.bytes() as usize - window.payload.len()];
        let append = |spool: &mut Spool| {
            let mut asked = 0;
            let appended = spool.append(&window, |_, put| {
                asked += 1;
                cursors.chunks(100).for_each(put);
            });
            (appended.is_ok(), asked)
        };
        assert_eq!(append(&mut f.spool), (false, 1));
        for _ in 0..3 {
            assert_eq!(append(&mut f.spool), (false, 0));
        }
        f.spool.shared().acknowledge(1);
        let is_gone = segment_bytes_max == 100;
        assert_eq!(append(&mut f.spool), (is_gone, is_gone as u32));
        if !is_gone {
            f.spool.shared().acknowledge(2);
            assert_eq!(append(&mut f.spool), (true, 1));
        }
    }
}

#[test]
fn a_spool_without_room_is_not_full_while_there_is_nothing_to_write() {
    for segment_bytes_max in [300, 1 << 20] {
        let mut f = Fixture::new("idle", 1000, segment_bytes_max);
        let window = f.batch.finish().unwrap();
        let spool = &mut f.spool;
        spool.append(&window, |_, put| put(&[7; 930])).unwrap();
        let (bytes, nothing) = (spool.bytes(), |all: bool, put: &mut dyn FnMut(&[u8])| {
            if all {
                put(&[7; 930]);
            }
        });
        assert!(bytes > 1000 - HEADER_BYTES as u64);
        spool.append(&window, nothing).unwrap();
        assert_eq!(spool.bytes(), bytes);
        let refused = spool.append(&window, |_, put| put(&[7; 9]));
        assert!(matches!(refused, Err(AppendError::Full(_))));
    }
}

/// Many cursors and a small spool: waiting would make no room.
#[test]
fn an_entry_that_is_larger_than_the_bound_is_taken_where_nothing_waits() {
    let mut f = Fixture::new("large", 1000, 300);
    let append = |f: &mut Fixture, bytes: usize| {
        let window = f.batch.finish().unwrap();
        f.spool.append(&window, |_, put| put(&vec![7; bytes]))
    };
    append(&mut f, 1200).unwrap();
    assert!(matches!(append(&mut f, 1200), Err(AppendError::Full(_))));
    f.spool.shared().acknowledge(1);
    append(&mut f, 1200).unwrap();
    assert_eq!(f.segments(), [2]);
    // What could never be read back is not written.
    let large = entry::CURSORS_BYTES_MAX as usize;
    f.spool.shared().acknowledge(2);
    assert!(matches!(append(&mut f, large), Err(AppendError::Io(_))));
    append(&mut f, 1).unwrap();
    assert_eq!(f.segments(), [3]);
}

/// Cursors of several MiB never lie in memory together.
#[test]
fn cursors_that_come_in_pieces_are_one_entrys() {
    let mut f = Fixture::new("pieces", 500_000, 1 << 20);
    let append = |f: &mut Fixture, pieces: u8| {
        let window = f.batch.finish().unwrap();
        let piece = |piece: u8| vec![piece; 40_000];
        let spool = &mut f.spool;
        spool.append(&window, |_, put| (0..pieces).for_each(|n| put(&piece(n))))
    };
    append(&mut f, 3).unwrap();
    append(&mut f, 5).unwrap();
    // What is too much is seen only when a part of it is written.
    assert!(matches!(append(&mut f, 9), Err(AppendError::Full(_))));
    let file = File::open(segment_path(&f.dir, 1)).unwrap();
    let end = file.metadata().unwrap().len();
    assert_eq!(f.spool.bytes(), end);
    let (mut body, mut at) = (Vec::new(), 0);
    for (pieces, identity) in [(3, 16), (5, 0)] {
        let header = entry::read(&file, at, end, &mut body).unwrap().unwrap();
        let own: Vec<u8> = (0..pieces).flat_map(|n| vec![n; 40_000]).collect();
        assert!(body[identity..] == own);
        at += header.total_bytes();
    }
    assert_eq!(at, end);
    f.append(1).unwrap();
    assert_eq!(f.again().cursor, 1);
}

#[test]
fn a_failed_write_leaves_the_spool_as_it_was() {
    let mut f = Fixture::new("failed", MAX, 1 << 20);
    f.append(2).unwrap();
    let (bytes, seq) = (f.spool.bytes(), f.spool.next_seq());
    // A descriptor that cannot be written stands for a full disk.
    let path = segment_path(&f.dir, 1);
    f.spool.file = Some(File::open(&path).unwrap());
    assert!(matches!(f.append(1), Err(AppendError::Io(_))));
    assert_eq!(
        (f.spool.bytes(), f.spool.next_seq(), f.cursor),
        (bytes, seq, 1)
    );
    f.spool.file = Some(
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap(),
    );
    f.append(0).unwrap();
    let f = f.again();
    assert_eq!(
        (f.spool.next_seq(), f.cursor, f.unsent().len()),
        (seq + 1, 2, 2)
    );
}

#[test]
fn one_agent_a_spool() {
    let f = Fixture::new("lock", MAX, 1 << 20);
    match Spool::open(&f.dir, MAX, 1 << 20, &f.counters, |_, _| ()) {
        Err(OpenError::Locked(pid)) => assert_eq!(pid, std::process::id().to_string()),
        _ => panic!("the second one was let in"),
    }
}

#[test]
fn another_boot_of_the_machine_is_another_boot_of_the_spool() {
    let mut f = Fixture::new("reboot", MAX, 1 << 20);
    f.spool.kernel_boot ^= 1;
    f.append(2).unwrap();
    let boot = f.spool.boot();
    let mut f = f.again();
    assert!(f.spool.boot() != boot && f.spool.next_seq() == 1);
    f.append(1).unwrap();
    let unsent = f.unsent();
    assert_eq!(unsent.len(), 2);
    assert_eq!(unsent[1].1[0]["seq"], 1);
    assert_ne!(unsent[0].1[0]["boot"], unsent[1].1[0]["boot"]);
    assert_eq!(f.again().spool.next_seq(), 2);
}

#[test]
fn a_boot_is_a_random_number_born_with_the_spool() {
    let (mut ones, mut zeros) = (0, 0);
    for number in 0..64 {
        let mut f = Fixture::new(&format!("random-{number}"), MAX, 1 << 20);
        ones |= f.spool.boot();
        zeros |= !f.spool.boot();
        f.append(1).unwrap();
        let boot = f.spool.boot();
        assert_eq!(f.again().spool.boot(), boot);
    }
    // Each bit is 0 in one spool and 1 in another, but once in 10^17 runs.
    assert_eq!((ones, zeros), (u64::MAX, u64::MAX));
}

#[test]
fn a_copy_of_a_spool_is_another_boot_and_both_send_what_waited_as_it_was() {
    let mut f = Fixture::new("original", MAX, 1 << 20);
    f.append(2).unwrap();
    let copy = temp_dir("copy");
    for found in fs::read_dir(&f.dir).unwrap() {
        let path = found.unwrap().path();
        fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    let mut clone = Fixture::open(&copy, MAX, 1 << 20);
    let mut f = f.again();
    assert_ne!(f.spool.boot(), clone.spool.boot());
    assert_eq!((f.spool.next_seq(), clone.spool.next_seq()), (3, 1));
    assert_eq!(clone.cursor, f.cursor);
    assert_eq!(f.unsent(), clone.unsent());
    f.append(1).unwrap();
    clone.append(1).unwrap();
    assert_ne!(f.unsent()[1].1[0]["boot"], clone.unsent()[1].1[0]["boot"]);
}

#[test]
fn an_acknowledged_end_that_is_lost_is_another_boot() {
    let mut f = Fixture::new("acked-end", MAX, 1 << 20);
    f.append(2).unwrap();
    let keep = f.spool.bytes();
    f.append(2).unwrap();
    f.append(2).unwrap();
    let boot = f.spool.boot();
    f.spool.shared().acknowledge(2);
    f.spool.shared().save();
    let path = segment_path(&f.dir, 1);
    let cut = |length: u64| {
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(length).unwrap();
    };
    // Only what was not acknowledged is lost: its numbers are free.
    cut(f.spool.bytes() - 1);
    f = f.again();
    assert_eq!((f.spool.boot(), f.spool.next_seq()), (boot, 5));
    // Numbers 3 and 4 are the server's.
    cut(keep + 1);
    f = f.again();
    assert!(f.spool.boot() != boot && f.spool.next_seq() == 1);
    f.append(1).unwrap();
    let unsent = f.unsent();
    assert_eq!(unsent.len(), 1);
    assert_eq!(unsent[0].1[0]["seq"], 1);
    assert_eq!(f.again().spool.next_seq(), 2);
}

#[test]
fn a_damaged_middle_is_passed_over_while_shipping() {
    let mut f = Fixture::new("middle", MAX, 300);
    for _ in 0..9 {
        f.append(1).unwrap();
    }
    let total = f.unsent().len();
    let path = segment_path(&f.dir, 2);
    let mut bytes = fs::read(&path).unwrap();
    bytes[60] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let mut reader = Reader::new(f.spool.shared());
    let start = Position::default();
    let mut left = 0;
    for _ in 0..2 {
        let mut body = Vec::new();
        left = 0;
        while reader.next(&mut body, &f.counters).unwrap().is_some() {
            left += 1;
        }
        assert!(left < total && left > 0);
        // What is sent again is not lost again.
        assert_eq!(f.counters.lost_records.get(), (total - left) as u64);
        reader.seek(start);
    }
    fs::remove_file(&path).unwrap();
    assert!(f.unsent().len() <= left);
    // Cut off at the next start, and lost all the same.
    bytes.truncate(70);
    fs::write(&path, &bytes).unwrap();
    let f = f.again();
    let left = f.unsent().len();
    assert_eq!(f.counters.lost_records.get(), (total - left) as u64);
}

#[test]
fn what_was_acknowledged_before_it_was_damaged_is_not_lost() {
    let mut f = Fixture::new("delivered", MAX, 150);
    for _ in 0..6 {
        f.append(1).unwrap();
    }
    assert_eq!(f.segments().len(), 6);
    // The acknowledgement is kept, the segments' removal is not.
    fs::write(f.dir.join("acked"), "3\n").unwrap();
    let path = segment_path(&f.dir, 2);
    let mut bytes = fs::read(&path).unwrap();
    bytes[60] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let mut f = f.again();
    assert_eq!(f.unsent().len(), 3);
    assert_eq!(f.counters.lost_records.get(), 0);
    // Another boot's numbers begin anew: no gap.
    f.spool.kernel_boot ^= 1;
    f.append(1).unwrap();
    let mut f = f.again();
    f.append(1).unwrap();
    f.append(1).unwrap();
    assert_eq!(f.unsent().len(), 6);
    assert_eq!(f.counters.lost_records.get(), 0);
}
