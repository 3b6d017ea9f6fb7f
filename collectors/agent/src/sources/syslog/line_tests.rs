use super::*;

fn said(line: &str) -> (Option<u8>, &str, &str, u64) {
    let line = parse(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    (
        line.severity,
        text(line.program),
        text(line.text),
        line.count,
    )
}

fn when(line: &str) -> Option<When> {
    parse(line.as_bytes()).map(|line| line.when)
}

#[test]
fn every_form_is_read() {
    for (line, severity, program, text) in [
        (
            "Nov 23 00:31:16 oss1 kernel: md0: done",
            None,
            "kernel",
            "md0: done",
        ),
        (
            "Nov  3 00:31:16 oss1 kernel: [12345.678901] md: x",
            None,
            "kernel",
            "md: x",
        ),
        (
            "<3>Nov 23 00:31:16 oss1 sshd[12]: a: b",
            Some(3),
            "sshd",
            "a: b",
        ),
        (
            "2026-11-23T00:31:16.123+01:00 oss1 CRON[7]: (root)",
            None,
            "CRON",
            "(root)",
        ),
        (
            "<29>2026-11-23T00:31:16Z oss1 no tag here",
            Some(5),
            "",
            "no tag here",
        ),
        (
            "<165>1 2026-11-23T00:31:16.003Z oss1 app 1 ID47 [a b=\"]\\\"\"][c] \u{feff}said",
            Some(5),
            "app",
            "said",
        ),
        (
            "<0>1 2026-11-23T00:31:16Z oss1 - - - - said",
            Some(0),
            "",
            "said",
        ),
        (
            "[    0.000000] Linux version",
            None,
            "kernel",
            "Linux version",
        ),
        ("<4>[45097.023734] kmsg", Some(4), "kernel", "kmsg"),
        ("Nov 23 00:31:16 oss1 [odd] tag", None, "", "[odd] tag"),
        ("Nov 23 00:31:16 oss1 a[b: c", None, "", "a[b: c"),
    ] {
        assert_eq!(said(line), (severity, program, text, 1), "{line}");
    }
    let line = "Nov 23 00:31:16 oss1 app: message repeated 5 times: [ again]";
    assert_eq!(said(line), (None, "app", "again", 5));
    // Only the kernel's own stamp is left out.
    let line = "Nov 23 00:31:16 oss1 app: [12.5] said";
    assert_eq!(said(line).2, "[12.5] said");
}

#[test]
fn times_are_those_of_the_form() {
    let at = 1_795_393_876; // 2026-11-23 00:31:16 UTC
    for (stamp, ns) in [
        ("2026-11-23T00:31:16Z", at * NS_PER_S),
        ("2026-11-23T01:31:16.5+01:00", at * NS_PER_S + 500_000_000),
        (
            "2026-11-22T19:01:16.123456789-0530",
            at * NS_PER_S + 123_456_789,
        ),
    ] {
        let found = when(&format!("{stamp} h p: t"));
        assert_eq!(found, Some(When::Utc(ns)), "{stamp}");
    }
    assert_eq!(when("[ 7.25] t"), Some(When::Uptime(7_250_000_000)));
    let rest = *b" 23 00:31:16";
    let expected = When::Yearless { month: 11, rest };
    assert_eq!(when("Nov 23 00:31:16 h p: t"), Some(expected));
    let (stamp, ns) = (*b"2026-11-23 00:31:16", 250_000_000);
    let local = "2026-11-23T00:31:16.25 h p: t";
    assert_eq!(when(local), Some(When::Local { stamp, ns }));
}

#[test]
fn what_is_no_message_is_none() {
    for line in [
        "",
        "<",
        "<192>Nov 23 00:31:16 h p: t",
        "<x>Nov 23 00:31:16 h p: t",
        "Nov 23 00:31:16",
        "Nov 23 00:31:16 h",
        "Nov 23 00:31:16 h p:",
        "Now 23 00:31:16 h p: t",
        "2026-13-23T00:31:16Z h p: t",
        "2026-11-23T00:31:16.Z h p: t",
        "<1>1 - h p 1 - - t",
        "<1>1 2026-11-23T00:31:16Z h p 1 - [open t",
        "[12345] t",
        "[.5] t",
        "[9999999999.5] t",
    ] {
        assert_eq!(parse(line.as_bytes()), None, "{line}");
    }
}
