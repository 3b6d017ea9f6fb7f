//! Bounds: rings, open files, cursors and turns of a user.

use super::*;

#[test]
fn more_rings_than_the_bound_leave_the_user_unfinished() {
    let mut f = Fixture::new("many");
    let rings: Vec<RingFile> = (0..25).map(|i| RingFile::new(&f.dir, 4194304, i)).collect();
    for ring in &rings {
        ring.record(0, &write(0, 1));
    }
    let mut pass = Pass::new(Clock::start().now(), true);
    f.source.begin(&mut pass);
    let mut batch = Batch::new("n", 1, 1, 1000, 1 << 20);
    assert_eq!(f.source.read(&mut pass, &mut batch), Progress::Done);
    assert!(pass.unfinished.contains(&own_uid()));
    f.source.committed();
    let (starts, operations) = counts(&f.pass(true));
    assert_eq!((starts, operations), (5, 5));
    assert_eq!(fs::read_dir(&f.dir).unwrap().count(), 0);
}

/// A program ends, leaves its ring, and then its job's end: whoever sees the end must have seen the ring.
#[test]
fn a_user_who_was_not_listed_is_not_settled() {
    let mut f = Fixture::new("unlisted");
    let mut batch = Batch::new("n", 1, 1, 1000, 1 << 20);
    let mut unfinished = |f: &mut Fixture, uid: u32| {
        let mut pass = Pass::new(Clock::start().now(), false);
        f.source.begin(&mut pass);
        pass.settle.insert(uid);
        assert_eq!(f.source.read(&mut pass, &mut batch), Progress::Done);
        pass.unfinished.contains(&uid)
    };
    assert!(!unfinished(&mut f, own_uid()));
    assert!(unfinished(&mut f, own_uid() + 1));
}

/// Commits close files between two looks at the same ring.
#[test]
fn more_rings_than_files_are_kept_open_are_read_whole() {
    let mut f = Fixture::new("many-open");
    f.config.rings_per_user_max = 1000;
    f.restart(&[]);
    let (mut child, ticks) = living();
    let _idle: Vec<RingFile> = (0..OPEN_FILES_MAX)
        .map(|_| RingFile::new(&f.dir, child.id(), ticks))
        .collect();
    f.pass(true);
    let ended = RingFile::new(&f.dir, 4194304, 1);
    (0..10).for_each(|i| ended.record(0, &write(i * i, 1)));
    assert_eq!(counts(&f.pass(true)), (1, 10));
    assert!(!ended.path.exists());
    end(&mut child);
}

/// Headers that claim 1,024 segments, over holes.
#[test]
fn segments_without_runs_take_no_room_in_the_spool() {
    let mut f = Fixture::new("holes");
    f.config.rings_per_user_max = 100;
    f.restart(&[]);
    let (mut child, ticks) = living();
    let rings: Vec<RingFile> = (0..80)
        .map(|_| RingFile::new(&f.dir, child.id(), ticks))
        .collect();
    rings.iter().for_each(|r| r.grow(1024));
    f.pass(true);
    // Nor in a pass.
    let mut pass = f.new_pass(false);
    f.source.begin(&mut pass);
    let mut batch = Batch::new("n", 1, 1, 1000, 1 << 20);
    assert_eq!(f.source.read(&mut pass, &mut batch), Progress::Done);
    assert!(!pass.more);
    f.source.committed();
    assert!(f.saved().len() < 80 * 100, "{} bytes", f.saved().len());
    rings[3].set_head(1000, 1);
    f.pass(true);
    assert!(f.saved().len() < 80 * 100 + 100);
    assert_eq!(rings[3].tail(1000), 1);
    end(&mut child);
    f.pass(true);
    assert!(f.saved().is_empty());
    assert_eq!(f.counters.bad_rings.get(), 0);
}

#[test]
fn a_users_cursors_are_bounded_and_what_waits_is_not_lost() {
    let mut f = Fixture::new("room");
    f.config.spool_max_bytes = 1 << 20;
    f.restart(&[]);
    f.batch = Batch::new("n", 1, 1, 4096, 1 << 20);
    let (mut child, ticks) = living();
    let mut rings: Vec<RingFile> = (0..4)
        .map(|_| RingFile::new(&f.dir, child.id(), ticks))
        .collect();
    let second = 1_000_000_000;
    for ring in &mut rings {
        ring.grow(20);
        for handle in 0..32 {
            let mut o = write(7, 1);
            (o.handle, o.start, o.end) = (handle, o.start - 5 * second, o.end - 5 * second);
            ring.record(0, &o);
        }
        (1..20).for_each(|to| ring.copy_segment(to));
    }
    let bound = cursors::bytes_max(f.config.spool_max_bytes);
    let (_, mut done) = counts(&f.pass(true));
    assert!((1000..4 * 20 * 32).contains(&done), "{done}");
    assert!(f.saved().len() <= bound + 16, "{} bytes", f.saved().len());
    assert!(f.counters.waiting_rings.get() > 0);
    let waiting = f.counters.waiting_rings.get();
    done += counts(&f.pass(true)).1;
    assert_eq!(f.counters.waiting_rings.get(), waiting, "counted once");
    // Another agent takes up the cursors, and the process's end makes room.
    let saved = f.saved();
    f.restart(&saved);
    end(&mut child);
    done += counts(&f.pass(true)).1;
    assert_eq!(done, 4 * 20 * 32);
    assert!(rings.iter().all(|r| !r.path.exists()));
    assert!(f.saved().is_empty());
}

/// A commit of one program's many threads writes the few whose segments changed.
#[test]
fn only_the_segments_that_changed_go_into_the_next_entry() {
    let mut f = Fixture::new("delta");
    f.batch = Batch::new("n", 1, 1, 4096, 1 << 20);
    let (mut child, ticks) = living();
    let mut ring = RingFile::new(&f.dir, child.id(), ticks);
    ring.grow(50);
    (0..10).for_each(|i| ring.record(0, &write(i * i, 1)));
    (1..50).for_each(|to| ring.copy_segment(to));
    f.pass(true);
    let all = f.saved();
    (10..20).for_each(|i| ring.record(0, &write(i * i, 1)));
    f.pass(false);
    let changed = blocks_of(&f.source, false);
    assert!((1..all.len() / 10).contains(&changed.len()));
    let now = f.saved();
    f.restart(&all);
    assert_eq!(restore_one(&mut f.source, false, &changed), 0);
    assert_eq!(f.saved(), now);
    // What ended needs no cursor, in whatever entry that is said.
    end(&mut child);
    f.pass(true);
    assert!(f.saved().is_empty());
    let mut whole = Cursor::read(&mut Reader(&now[4..])).unwrap().2;
    let ended = Cursor {
        ended: 48,
        started: true,
        ..Cursor::default()
    };
    whole.merge(ended);
    let left: Vec<u32> = whole.segments.iter().map(|s| s.index).collect();
    assert_eq!((whole.ended, &left[..]), (48, &[48, 49][..]));
}

#[test]
fn whoever_has_less_than_a_share_finds_room_although_others_took_it_all() {
    let mut f = Fixture::new("share");
    let other = own_uid() + 1;
    let dir = f.config.rings.join(other.to_string());
    fs::create_dir(&dir).unwrap();
    if std::os::unix::fs::chown(&dir, Some(other), None).is_err() {
        return; // only root can make other users' files
    }
    f.config.spool_max_bytes = 1 << 20;
    f.restart(&[]);
    let (mut child, ticks) = living();
    let greedy: Vec<RingFile> = (0..20)
        .map(|_| RingFile::new(&f.dir, child.id(), ticks))
        .collect();
    for ring in &greedy {
        ring.grow(1024);
        (0..1024).for_each(|index| ring.set_head(index, 1));
    }
    f.pass(true);
    assert!(f.counters.waiting_rings.get() > 0);
    let ring = RingFile::with_header(&dir, child.id(), ticks, |h| h.uid = other);
    std::os::unix::fs::chown(&ring.path, Some(other), None).unwrap();
    for i in 0..10 {
        ring.record(0, &write(i * i, 1));
    }
    std::thread::sleep(Duration::from_millis(600)); // the users are listed again
    f.pass(true);
    assert!(ring.tail(0) > 0);
    end(&mut child);
}

#[test]
fn a_user_gets_a_part_of_a_pass_and_every_ring_its_turn() {
    let mut f = Fixture::new("turns");
    let (mut child, ticks) = living();
    let rings: Vec<RingFile> = (0..3)
        .map(|_| RingFile::new(&f.dir, child.id(), ticks))
        .collect();
    // What stands there makes no sense and costs time all the same.
    let heads = |ring: &RingFile, runs: u64| {
        ring.grow(80);
        (0..80).for_each(|index| ring.set_head(index, runs));
    };
    f.pass(true);
    rings.iter().for_each(|r| heads(r, 960));
    let read = |ring: &RingFile| (0..80).filter(|&index| ring.tail(index) > 0).count();
    let mut batch = Batch::new("n", 1, 1, 1000, 1 << 20);
    let mut bad = 0;
    for round in 0..4 {
        let mut pass = f.new_pass(false);
        f.source.begin(&mut pass);
        pass.settle.insert(own_uid());
        assert_eq!(f.source.read(&mut pass, &mut batch), Progress::Done);
        f.source.committed();
        let steps = f.counters.bad_runs.get() - bad;
        assert!(steps <= TURN_STEPS_MAX, "{steps} runs in one pass");
        bad += steps;
        assert_eq!(pass.more, round < 3, "round {round}");
        // A living process keeps no job waiting.
        assert!(!pass.unfinished.contains(&own_uid()));
        assert!(round == 0 || rings.iter().filter(|r| read(r) > 0).count() > round.min(2));
    }
    assert_eq!((bad, rings.iter().map(read).sum::<usize>()), (230_400, 240));
    // The last pass goes on until all is read.
    rings.iter().for_each(|r| heads(r, 1920));
    let mut pass = f.new_pass(true);
    f.source.begin(&mut pass);
    assert_eq!(f.source.read(&mut pass, &mut batch), Progress::Done);
    assert_eq!(f.counters.bad_runs.get(), 460_800);
    end(&mut child);
}
