//! What `ibnetdiscover` says, and what a node's own name makes of it.

use super::*;

fn read(text: &[u8]) -> (Vec<Switch>, Option<String>) {
    let mut whole = Map::default();
    whole.feed(text);
    let mut cut = Map::default();
    text.chunks(3).for_each(|part| cut.feed(part));
    let found = whole.finish();
    assert_eq!(cut.finish(), found);
    found
}

const FABRIC: &str = r#"
switchguid=0x200001(200001)
Switch	36 "S-0000000000200001"		# "leaf 1" enhanced port 0 lid 3 lmc 0
[36]	"S-0000000000200000"[1]		# "spine" lid 2 12xHDR
[2]	"H-0000000000100006"[1](100007) 		# "cn2" lid 5 4x???
[7]	"H-0000000000100008"[1](100009) 		# "tca" lid 6 1xSDR s=1 w=1 v=4

Ca	2 "H-0000000000100006"		# "cn2"
[1](100007) 	"S-0000000000200001"[2]		# lid 5 lmc 0 "leaf 1" lid 3 4xSDR

Switch	36 "S-0000000000200000"		# "spine" base port 0 lid 2 lmc 0
"#;

#[test]
fn switches_come_in_the_order_of_their_guids_with_their_links() {
    let (switches, fault) = read(FABRIC.as_bytes());
    assert_eq!(fault, None);
    let [spine, leaf] = &switches[..] else {
        panic!("{switches:?}");
    };
    assert_eq!(
        (spine.guid, spine.lid, &spine.ports[..]),
        (0x200000, 2, &[][..])
    );
    assert_eq!((&*leaf.name, leaf.lid), ("leaf 1", 3));
    assert_eq!(leaf.ports, [(2, 0), (7, 2_000), (36, 600_000)]);
    assert_eq!(leaf.guid_text(), "0x0000000000200001");
}

/// In a name may stand what looks like the rest of the line.
#[test]
fn a_name_forges_nothing() {
    for (name, expected) in [
        (r#"x" lid 9 4xNDR # "y"#, r#"x" lid 9 4xNDR # "y"#),
        (
            r#"x" base port 0 lid 77 lmc 0"#,
            r#"x" base port 0 lid 77 lmc 0"#,
        ),
        (r#"""#, r#"""#),
        ("", ""),
        ("  a  ", "a"),
        ("a\x07b", ""),
        ("Schalter 5ä", "Schalter 5ä"),
    ] {
        let text = FABRIC.replace("\"leaf 1\" enh", &format!("\"{name}\" enh"));
        let text = text.replace("\"tca\"", &format!("\"{name}\""));
        let (switches, fault) = read(text.as_bytes());
        assert_eq!(fault, None, "{name}");
        let leaf = &switches[1];
        assert_eq!((&*leaf.name, leaf.lid), (expected, 3));
        assert_eq!(leaf.ports, [(2, 0), (7, 2_000), (36, 600_000)]);
    }
    let bytes = b"Switch\t1 \"S-01\"\t# \"\xff\xfe\" base port 0 lid 2 lmc 0\n";
    assert_eq!(read(bytes).0[0].name, "");
    let long = format!(
        "Switch\t1 \"S-01\"\t# \"{}\" base port 0 lid 2 lmc 0\n",
        "n".repeat(129)
    );
    assert_eq!(read(long.as_bytes()).0[0].name, "");
}

#[test]
fn a_line_that_makes_no_sense_is_told_and_the_rest_is_read() {
    for (line, ports) in [
        ("[2]\t\"H-1\"[1](7) \t\t# \"cn2\" lid 5", 2),
        ("[0]\t\"H-1\"[1](7) \t\t# \"cn2\" lid 5 4xEDR", 2),
        ("[999]\t\"H-1\"[1](7) \t\t# \"cn2\" lid 5 4xEDR", 2),
        ("[2\t\"H-1\"", 2),
        ("[", 2),
        ("Switch\t36 \"S-\"\t# \"a\" base port 0 lid 3 lmc 0", 1),
        ("Switch\t36 \"S-7\"\t# \"a\" base port 0 lid 0 lmc 0", 1),
        ("Switch\t36 \"S-7\"\t# \"a\" base port 0 lid 65536 lmc 0", 1),
        ("Switch\t", 1),
    ] {
        let other = "[2]\t\"H-0000000000100006\"[1](100007) \t\t# \"cn2\" lid 5 4x???";
        let text = FABRIC.replace(other, line);
        assert_ne!(text, FABRIC);
        let (switches, fault) = read(text.as_bytes());
        assert!(fault.unwrap().starts_with("line 5: expected"), "{line}");
        let told = switches.iter().find(|switch| switch.guid == 0x200001);
        assert_eq!(told.unwrap().ports.len(), ports, "{line}");
    }
    let long = format!("[1]{}\n", "x".repeat(2 * LINE_BYTES_MAX));
    assert_eq!(read(long.as_bytes()), (Vec::new(), None));
    let twice = [FABRIC, FABRIC].concat();
    assert_eq!(read(twice.as_bytes()).0.len(), 2);
    assert_eq!(read(twice.as_bytes()).1.unwrap(), "a switch is there twice");
}

#[test]
fn of_a_text_that_breaks_off_nothing_is_taken_and_there_are_bounds() {
    let (switches, fault) = read(&FABRIC.as_bytes()[..FABRIC.len() - 1]);
    assert!(switches.is_empty());
    assert!(fault.unwrap().contains("expected a line's end"));
    let mut map = Map::default();
    for guid in 0..2 * SWITCHES_MAX {
        let line = format!(
            "Switch\t1 \"S-{:x}\"\t# \"\" base port 0 lid 2 lmc 0\n",
            guid + 1
        );
        map.feed(line.as_bytes());
    }
    for _ in 0..1000 {
        map.feed(b"[1]\t\"H-1\"[1] # \"\" lid 5 4xEDR\n");
    }
    let (switches, fault) = map.finish();
    assert_eq!(switches.len(), SWITCHES_MAX);
    assert!(fault.unwrap().contains("expected at most 16384 switches"));
    let ports = "[1]\t\"H-1\"[1] # \"\" lid 5 4xEDR\n".repeat(300);
    let text = format!("Switch\t1 \"S-1\"\t# \"\" base port 0 lid 2 lmc 0\n{ports}");
    assert!(read(text.as_bytes())
        .1
        .unwrap()
        .contains("at most 254 ports"));
}
