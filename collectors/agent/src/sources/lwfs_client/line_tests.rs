//! Tables of lines.

use super::*;

const STAMP: &str = "[2016-07-27 15:34:33] ";

fn told(text: &str) -> Option<(u64, String)> {
    told_bytes(&[STAMP.as_bytes(), text.as_bytes()].concat())
}

fn told_bytes(line: &[u8]) -> Option<(u64, String)> {
    let line = parse(line)?;
    assert_eq!(line.stamp, b"2016-07-27 15:34:33");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let what = match line.what {
        What::Data(d) => format!(
            "{:?} {:x} {}+{}x{}",
            d.op, d.handle, d.offset, d.size, d.count
        ),
        What::Meta {
            op,
            directory,
            path,
        } => {
            let mark = if directory { "/" } else { "" };
            format!("{op:?}{mark} {}", path.map_or("-".into(), text))
        }
        What::Opened { path, handle } => format!("opened {handle:x} {}", text(path)),
        What::Release { directory, handle } => format!("release {handle:x} {directory}"),
        What::Reply(Outcome::Bytes(bytes)) => format!("bytes {bytes}"),
        What::Reply(Outcome::Failed(errno)) => format!("errno {errno}"),
        What::Done => "done".into(),
        What::Other => "other".into(),
    };
    Some((line.id, what))
}

#[track_caller]
fn says(text: &str, id: u64, what: &str) {
    assert_eq!(told(text), Some((id, what.to_string())), "{text}");
}

#[track_caller]
fn is_bad(text: &str) {
    assert_eq!(told(text), None, "{text}");
}

#[test]
fn reads_and_writes() {
    let write = "T [fuse-bridge.c:1967:fuse_writev] lwfs-fuse: 18049: WRITE (0x1200bd3f0, size=131072, offset=2096496640)";
    says(write, 18049, "Write 1200bd3f0 2096496640+131072x1");
    says(
        &format!("{write}\r"),
        18049,
        "Write 1200bd3f0 2096496640+131072x1",
    );
    says(
        "T [fuse-bridge.c:1700:fuse_readv] glusterfs-fuse: 7: READ (0xFfff888800000010, size=0, offset=9223372036854775807)",
        7,
        "Read ffff888800000010 9223372036854775807+0x1",
    );
    says("T READ (0x0, size=1, offset=0)", 0, "Read 0 0+1x1");
    says(
        "T READ 0x1200bd3f0 size=131072 offset=2096496640 count=3",
        0,
        "Read 1200bd3f0 2096234496+131072x3",
    );
    says("T WRITE 0x1 size=5 offset=0 count=1", 0, "Write 1 0+5x1");
    says(
        "T WRITE 0x1 size=0 offset=9 count=9223372036854775807",
        0,
        "Write 1 9+0x9223372036854775807",
    );
}

#[test]
fn replies() {
    let cbk = "T [fuse-bridge.c:1967:fuse_writev_cbk] lwfs-fuse: 18049: ";
    let say = |text: &str, what: &str| says(&format!("{cbk}{text}"), 18049, what);
    say("WRITE => 131072/131072,2096627712/2096627712", "done");
    say("WRITE => 4096/131072,2096627712/2096627712", "bytes 4096");
    say("READ => 0/131072,0/0", "bytes 0");
    say("READ => -1 (Input/output error)", "errno 5");
    say("READ => -1/131072,0/0", "errno 65535");
    say("WRITE => -28/131072,0/0", "errno 28");
    say("WRITE => -1", "errno 65535");
    say("WRITE => -1 (Nobody knows)", "errno 65535");
    for bad in [
        "WRITE => 131072",
        "WRITE => 131072/131",
        "WRITE => 131072/13,1/1",
        "WRITE => 0/131072",
        "WRITE => -1 (Input/outp",
        "WRITE => -",
        "WRITE => -0",
        "WRITE => x/1,1/1",
    ] {
        is_bad(&format!("{cbk}{bad}"));
    }
}

#[test]
fn opens_name_their_handle() {
    says(
        "T OPEN() /User146/6596814368836924247/-1160749754054947605 => 0x1200bd3f0",
        0,
        "opened 1200bd3f0 /User146/6596814368836924247/-1160749754054947605",
    );
    says("T OPEN() /a", 0, "Open /a");
    says("T OPEN /a", 0, "Open /a");
    says("T OPEN /a => 0x1", 0, "opened 1 /a");
    says("T OPEN() /a => -1 (Permission denied)", 0, "errno 13");
    let request = "T [fuse-bridge.c:800:fuse_open] lwfs-fuse: 5: ";
    let cbk = "T [fuse-bridge.c:700:fuse_fd_cbk] lwfs-fuse: 5: ";
    says(&format!("{request}OPEN /a"), 5, "Open /a");
    // A request has no result: this is a name.
    says(&format!("{request}OPEN /a => 0x1"), 5, "Open /a => 0x1");
    says(&format!("{cbk}OPEN() /a => 0x1"), 5, "opened 1 /a");
    says(
        &format!("{cbk}OPEN() /a => -1 (No such file or directory)"),
        5,
        "errno 2",
    );
    says(
        &format!("{cbk}CREATE() /a => 0x7 (ino=4)"),
        5,
        "opened 7 /a",
    );
    says(&format!("{cbk}OPENDIR() /a => 0x9"), 5, "opened 9 /a");
    says(&format!("{request}OPENDIR /a"), 5, "Open/ /a");
    is_bad(&format!("{cbk}OPEN() /a"));
    is_bad(&format!("{request}OPEN "));
    is_bad("T OPEN()");
}

#[test]
fn a_name_is_never_an_operation() {
    for name in [
        "/READ size=",
        "/WRITE (0x1, size=1, offset=0)",
        "/a => 0x2 => b",
        "/[2016-07-27 15:34:33] T READ 0x1 size=1 offset=0 count=1",
        "/x] lwfs-fuse: 5: WRITE (0x1, size=1, offset=0)",
        "/a\tb\u{0}c é",
    ] {
        says(
            &format!("T OPEN() {name} => 0x77"),
            0,
            &format!("opened 77 {name}"),
        );
        says(
            &format!("T [fuse-bridge.c:800:fuse_open] lwfs-fuse: 5: OPEN {name}"),
            5,
            &format!("Open {name}"),
        );
        says(
            &format!("T [fuse-bridge.c:1:fuse_lookup] lwfs-fuse: 5: LOOKUP {name}"),
            5,
            "Stat -",
        );
    }
    let not_text = told_bytes(b"[2016-07-27 15:34:33] T OPEN() /\xff\xfe => 0x1").unwrap();
    assert_eq!(not_text.1, "opened 1 /\u{fffd}\u{fffd}");
}

#[test]
fn metadata_operations_count_as_ours() {
    for (name, op) in [
        ("LOOKUP", "Stat"),
        ("STAT", "Stat"),
        ("GETATTR", "Stat"),
        ("GETXATTR", "Stat"),
        ("SETXATTR", "Stat"),
        ("ACCESS", "Access"),
        ("UNLINK", "Unlink"),
        ("RENAME", "Rename"),
        ("MKDIR", "Mkdir"),
        ("RMDIR", "Rmdir"),
        ("LINK", "Link"),
        ("SYMLINK", "Link"),
        ("TRUNCATE", "Truncate"),
        ("FSYNC", "Sync"),
    ] {
        let place = "[fuse-bridge.c:300:fuse_some] lwfs-fuse: 9: ";
        let cbk = "[fuse-bridge.c:300:fuse_some_cbk] lwfs-fuse: 9: ";
        says(&format!("T {name} /a"), 0, &format!("{op} -"));
        says(&format!("T {place}{name} /a => 4"), 9, &format!("{op} -"));
        says(&format!("T {cbk}{name}() /a => 4"), 9, "done");
        says(
            &format!("W {cbk}{name}() /a => -1 (Stale file handle)"),
            9,
            "errno 116",
        );
        says(&format!("T {name}() /a => 123"), 0, "done");
        is_bad(&format!("T {cbk}{name}() /a"));
        is_bad(&format!("T {name} "));
        is_bad(&format!("T {name}"));
    }
    says("T READDIR (0x12, size=4096, offset=0)", 0, "Readdir/ -");
    says("T READDIR => 5/4096,0", 0, "done");
    says("T FLUSH 0x12", 0, "other");
    says("T STATFS /", 0, "other");
    says("T FLUSH() /a => 0", 0, "done");
    says("T RELEASE 0x1200bd3f0", 0, "release 1200bd3f0 false");
    says("T RELEASE (0x1200bd3f0)", 0, "release 1200bd3f0 false");
    says("T RELEASE() 0x1200bd3f0", 0, "release 1200bd3f0 false");
    says("T RELEASEDIR 0x5", 0, "release 5 true");
    is_bad("T RELEASE /a");
    is_bad("T RELEASE 0x5 6");
}

#[test]
fn what_is_cut_or_garbled_is_not_understood() {
    for bad in [
        "",
        "T",
        "T ",
        "t READ 0x1 size=1 offset=0 count=1",
        "T hello world",
        "T X y",
        "T [",
        "T []",
        "T [a] b",
        "T [a] b: ",
        "T [a] b: 5",
        "T [a] b: 5: ",
        "T [a] b c: 5: READ (0x1, size=1, offset=0)",
        "T READ (0x1, size=1, offset=0",
        "T READ (0x1, size=1, offset=0) ",
        "T READ (0x1, size=1, offset=)",
        "T READ (0x1, size=-1, offset=0)",
        "T READ (1, size=1, offset=0)",
        "T READ (0x, size=1, offset=0)",
        "T READ (0x11111111111111111, size=1, offset=0)",
        "T READ (0x1, size=1, offset=9223372036854775807)",
        "T READ (0x1, size=9223372036854775808, offset=0)",
        "T READ (0x1, size=99999999999999999999999999, offset=0)",
        "T READ 0x1 size=2 offset=0 count=2",
        "T READ 0x1 size=2 offset=2 count=0",
        "T READ 0x1 size=2 offset=2 count=",
        "T READ 0x1 size=9223372036854775807 offset=0 count=9223372036854775807",
        "T READ 0x1 size=1 offset=1 count=1 ",
    ] {
        is_bad(bad);
    }
    assert_eq!(parse(b""), None);
    assert_eq!(parse(b"[2016-07-27 15:34:33]"), None);
    assert_eq!(
        parse(b"2016-07-27 15:34:33 T READ (0x1, size=1, offset=0)"),
        None
    );
}

/// Whatever prefix is left of a request or a reply, it is never taken for another.
#[test]
fn no_cut_of_a_data_line_is_an_operation() {
    for text in [
        "T [fuse-bridge.c:1967:fuse_writev] lwfs-fuse: 18049: WRITE (0x1200bd3f0, size=131072, offset=2096496640)",
        "T [fuse-bridge.c:1967:fuse_writev_cbk] lwfs-fuse: 18049: WRITE => 131072/131072,2096627712/2096627712",
    ] {
        let line = format!("{STAMP}{text}");
        for end in 0..line.len() {
            let cut = parse(&line.as_bytes()[..end]);
            assert!(cut.is_none_or(|l| l.what == What::Done), "{}", &line[..end]);
        }
    }
}

#[test]
fn numbers_are_what_the_standard_library_says() {
    let mut random = crate::testing::Random::new(9);
    for _ in 0..100_000 {
        let length = random.below(24) as usize;
        let mut text: Vec<u8> = (0..length).map(|_| b'0' + random.below(10) as u8).collect();
        if random.below(3) > 0 {
            text.push([b')', b'/', b':', 0, 0x80, 0xff, b' ', 0xb5][random.below(8) as usize]);
            (0..random.below(12)).for_each(|_| text.push(random.number() as u8));
        }
        let end = text
            .iter()
            .position(|b| !b.is_ascii_digit())
            .unwrap_or(text.len());
        let number = std::str::from_utf8(&text[..end])
            .unwrap()
            .parse::<i64>()
            .ok()
            .filter(|_| end <= 19);
        let found = decimal(&text);
        assert_eq!(found.map(|f| f.0), number.map(|n| n as u64), "{text:?}");
        assert!(found.is_none_or(|f| f.1 == &text[end..]));
    }
}
