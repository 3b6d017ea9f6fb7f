//! The journal: a program in journalctl's place.

use super::*;

/// What comes after a cursor, as journalctl prints it.
const PRINT: &str = "for a; do last=$a; done
case $last in
--since=*) cat $W/entries;;
*) awk -v c=\"${last#--after-cursor=}\" 'seen; index($0, \"\\\"\" c \"\\\"\") { seen = 1 }' $W/entries;;
esac";

#[test]
fn the_journal_is_asked_for_what_is_new_and_says_who_wrote_it() {
    let mut site = Site::of_journal(PRINT);
    // The entries' day is long over.
    let entries = fs::read_to_string(site.dir.join("entries")).unwrap();
    let now_us = crate::sys::clock_ns(libc::CLOCK_REALTIME) / 1000;
    let fresh = entries.replace("\"17953943", &format!("\"{}", &now_us.to_string()[..8]));
    assert_eq!(fresh.lines().count(), 4);
    fs::write(site.dir.join("entries"), &fresh).unwrap();
    site.ask();
    let fields = ["origin", "event", "severity", "program", "text"];
    let told: Vec<String> = (site.events.iter())
        .map(|event| fields.map(|name| event[name].to_string()).join(" "))
        .collect();
    let expected = [
        r#""root" "raid_disk_failed" 3 "mdadm" "Fail event detected on md device /dev/md0, component device /dev/sdb1""#,
        r#""user" null 0 "kernel" "LustreError: 1:0:(x.c:1:x()) LBUG""#,
        r#""root" null 4 "x" "esc \\x1b[31m bytes \\xff""#,
        r#""kernel" null 3 "kernel" "kmsg test: I/O error, dev sdz, sector 8""#,
    ];
    assert_eq!(told, expected);
    assert!(site.asked()[0].contains("--output=json --output-fields=MESSAGE,PRIORITY"));
    // Killed or not, nothing comes twice.
    for _ in 0..2 {
        site.restart();
        site.ask();
        assert_eq!(site.events.len(), 4);
    }
    assert!(
        site.asked()[2].ends_with("x=ede5ae932fa7212a"),
        "{:?}",
        site.asked()
    );
}

#[test]
fn a_journal_that_cannot_be_read_is_asked_for_less_often() {
    // What prints no entry is asked for a short field of one at once.
    let endless = "exec yes '{}' | head -c 9000000; exit 1";
    for (text, asked_at_once) in [("exit 1", 1), (endless, 2)] {
        let mut site = Site::of_journal(text);
        for _ in 0..asked_at_once {
            site.ask();
        }
        let first = Instant::now();
        site.ask();
        assert!(first.elapsed() > Duration::from_secs(1), "{text}");
        assert_eq!(site.events.len(), 0);
    }
}

/// An entry of so many bytes, if it is printed whole.
fn entry(number: u32, text: &str, length: usize) -> String {
    let now_us = crate::sys::clock_ns(libc::CLOCK_REALTIME) / 1000;
    let message = text.to_owned() + &"x".repeat(length);
    format!("{{\"__CURSOR\":\"s=6a;i={number}\",\"__REALTIME_TIMESTAMP\":\"{now_us}\",\"_UID\":\"65534\",\"PRIORITY\":\"3\",\"MESSAGE\":\"{message}\"}}\n")
}

/// A journal whose entries are short where only a short field is asked for.
fn of_long_entries(entries: &[(&str, usize)]) -> Site {
    let text = PRINT.replace("$W/entries", "$entries");
    let asked =
        "entries=$W/entries; case \"$*\" in *--output-fields=_UID*) entries=$W/short;; esac";
    let site = Site::of_journal(&format!("{asked}\n{text}"));
    let print = |limit: usize| -> String {
        let numbered = entries.iter().enumerate();
        numbered
            .map(|(n, (text, length))| entry(n as u32, text, *length.min(&limit)))
            .collect()
    };
    fs::write(site.dir.join("entries"), print(usize::MAX)).unwrap();
    fs::write(site.dir.join("short"), print(0)).unwrap();
    site
}

/// Anyone can write an entry of any length. What comes after it must be told.
#[test]
fn an_entry_that_is_too_long_silences_nothing() {
    const MIB: usize = 1 << 20;
    for (entries, asked) in [
        // Longer than what is read of a command; alone, after others and before.
        (&[("long", 5 * MIB), ("after", 0)][..], 3),
        (&[("before", 0), ("long", 5 * MIB), ("after", 0)], 4),
        // One is passed over in reading; of the last one no cursor is known.
        (&[("before", 0), ("long", MIB), ("after", 0)], 1),
        (&[("before", 0), ("after", 0), ("long", MIB)], 2),
    ] {
        let mut site = of_long_entries(entries);
        for _ in 0..asked {
            site.ask();
        }
        let told: Vec<String> = site.counts().into_keys().collect();
        let short = entries.iter().filter(|(_, length)| *length == 0);
        let mut expected: Vec<&str> = short.map(|(text, _)| *text).collect();
        expected.sort_unstable();
        assert_eq!(told, expected, "{:?}", site.asked());
        assert_eq!(site.counters.bad_lines.get(), 1);
        // It is over: also for the agent's next start.
        site.restart();
        site.ask();
        assert_eq!(site.counters.bad_lines.get(), 1);
        assert_eq!(site.events.len(), expected.len());
        let last = site.asked().pop().unwrap();
        assert!(
            !last.contains("fields=_UID") && last.contains("--after-cursor"),
            "{last}"
        );
    }
}

/// Such as one that was ended for its time.
#[test]
fn a_command_that_fails_amid_entries_is_asked_on_at_once() {
    let mut site = of_long_entries(&[("one", 0), ("two", 0)]);
    let path = site.dir.join("journalctl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text + "exit 1\n").unwrap();
    site.config.syslog_journal_period_s = 60;
    site.restart();
    let began = Instant::now();
    site.ask();
    site.ask();
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_eq!(site.events.len(), 2);
    // Nothing was new: that is a failure.
    for _ in 0..10 {
        site.pass(false, 4096, usize::MAX);
    }
    assert_eq!(site.asked().len(), 2);
}
