//! What the spool holds of a log, and what comes back of it.

use super::*;

#[test]
fn a_log_that_is_no_longer_to_be_read_ends_well() {
    let mut site = Site::new("retired");
    site.append("[2018-09-10 14:00:00] T WRITE (0x1, size=10, offset=0)\n[2018-09-10 14:00:30] T WRITE (0x2, size=10, offset=0)\n");
    site.append("[2018-09-10 14:00:31] T WRITE (0x2, size=10, offset=10)\n[2018-09-10 14:00:50] T STAT /a\n");
    site.look();
    let before = site.events.len();
    site.config.lwfs_client_logs = vec![site.dir.join("another")];
    site.restart();
    site.look();
    let shipped = site.operations();
    assert!(
        site.events.len() >= before && shipped.iter().any(|o| o.starts_with("write 2")),
        "{shipped:?}"
    );
    let after = site.events.len();
    site.restart();
    site.end();
    assert_eq!(site.events.len(), after, "only once");
}

/// The spool's bytes are checked by a checksum, but what they say is not believed either.
#[test]
fn cursors_cut_or_changed_do_no_harm() {
    let mut site = Site::new("cursors");
    let mut random = Random::new(5);
    let text = part(&mut random, &mut 0, 60);
    site.append(&text);
    site.look();
    let cursors = blocks_of(&site.source, true);
    for at in (0..cursors.len()).step_by(7) {
        let mut changed = cursors.clone();
        changed[at] ^= 1 << random.below(8);
        for bytes in [&cursors[..at], &changed] {
            let mut other = super::super::new(&site.config, site.counters.clone());
            restore_one(&mut other, false, bytes);
            let mut pass = Pass::new(now(), true);
            let mut batch = Batch::new("n1", 1, 1, 4096, RAW_BYTES_MAX);
            other.begin(&mut pass);
            assert_eq!(other.read(&mut pass, &mut batch), Progress::Done);
        }
    }
    // A small spool gets small cursors, however many handles there are.
    site.config.spool_max_bytes = 1 << 20;
    site.restart();
    (0..3000).for_each(|i| site.append(format!("[2018-09-10 14:59:00] T OPEN() /{i} => {i:#x}\n[2018-09-10 14:59:00] T READ ({i:#x}, size=1, offset=0)\n")));
    site.look();
    let cursors = blocks_of(&site.source, true);
    assert!(cursors.len() < (1 << 20) / 16, "{}", cursors.len());
}

/// A place that no table has makes the log's whole cursor bad, and changes nothing.
#[test]
fn a_place_beyond_the_tables_is_told() {
    let mut site = Site::new("beyond");
    site.append("[2018-09-10 14:00:00] T OPEN() /a => 0x1\n[2018-09-10 14:00:30] T STAT /a\n");
    site.look();
    let mut cursors = blocks_of(&site.source, true);
    let path = site.config.lwfs_client_logs[0].as_os_str().len();
    // Block's length, path, six numbers, length of the print, flags, how far is counted; then how many handles, and the first's place.
    let at = 4 + 2 + path + 6 * 8 + 4 + 1 + 8;
    assert_eq!(cursors[at..at + 8], [1, 0, 0, 0, 0, 0, 0, 0]);
    for (place, bad) in [(table::PLACES_MAX, 0), (table::PLACES_MAX + 1, 1)] {
        cursors[at + 4..at + 8].copy_from_slice(&(place as u32).to_le_bytes());
        let mut of_log = super::super::new(&site.config, site.counters.clone());
        assert_eq!(restore_one(&mut of_log, false, &cursors), bad);
        // Nor does a log that is read no longer come of it.
        site.config.lwfs_client_logs.clear();
        let mut of_none = super::super::new(&site.config, site.counters.clone());
        assert_eq!(restore_one(&mut of_none, false, &cursors), bad);
        assert_eq!(of_none.log_count() as u64, 1 - bad);
        site.config.lwfs_client_logs.push(site.dir.join("log"));
    }
}

#[test]
fn runs_closed_without_a_line_are_not_open_in_the_spool() {
    let mut site = Site::new("closed");
    let log = "[2018-09-10 14:00:00] T WRITE (0x1, size=10, offset=0)\n\
        [2018-09-10 14:00:00] T WRITE (0x2, size=10, offset=0)\n";
    site.append(log);
    site.look();
    // Nothing waits for its reply in a log that was left.
    site.rotate();
    site.append("garbage\n");
    site.look();
    assert_eq!(site.events.len(), 0);
    // Another source has filled the batch.
    let mut pass = Pass::new(now(), true);
    site.source.begin(&mut pass);
    let mut batch = Batch::new("n1", 1, 1, 1, RAW_BYTES_MAX);
    assert!(batch.push("run", |_| {}));
    assert_eq!(site.source.read(&mut pass, &mut batch), Progress::More);
    site.commit(Batch::new("n1", 1, 1, 1, RAW_BYTES_MAX));
    let mut batch = Batch::new("n1", 1, 1, 9, RAW_BYTES_MAX);
    assert_eq!(site.source.read(&mut pass, &mut batch), Progress::Done);
    site.commit(batch);
    site.restart();
    site.end();
    site.expect(log.as_bytes());
}

#[test]
fn open_runs_that_a_smaller_spool_has_no_room_for_are_shipped() {
    let mut site = Site::new("smaller");
    let lines =
        (0..300).map(|i| format!("[2018-09-10 14:00:00] T WRITE ({i:#x}, size=10, offset=0)\n"));
    let mut log = lines.collect::<Vec<_>>().concat();
    // They wait no longer, and are open.
    log += "[2018-09-10 14:00:11] T STAT /a\n";
    site.append(&log);
    site.look();
    assert!(site.events.is_empty());
    site.config.spool_max_bytes = 1 << 20;
    site.restart();
    site.look();
    assert!(site.events.len() > 200);
    site.restart();
    site.end();
    site.expect(log.as_bytes());
}
