//! The parsers of samples' sources: files of the kernel's and logs of servers, cut, damaged or written into each other.
//!
//! Input: which parser (one byte), then a text, CUT, and the same a while later.

use super::{mutator, reached, stage, Random, Stage, Target};
use crate::counters::Counters;
use crate::ship::batch::{open_window, Batch, RAW_BYTES_MAX};
use crate::sources::gluster_client::{Answer, Brick};
use crate::sources::lwfs_server::line::{self, What};
use crate::sources::samples::reading::{Found, Reading};
use crate::sources::samples::track::{At, To, Track};
use crate::sources::{block_device, gluster_server, lustre, nfs_server, node, switch_port};
use std::collections::BTreeMap;

/// Between the two texts.
const CUT: &[u8] = b"\x00later\x00";
const NUMBER_MAX: f64 = 9007199254740992.0;

type Parse = fn(&[u8], &mut Found);

/// By the input's first byte.
const PARSERS: [(&str, Parse); 11] = [
    ("block_device", |text, found| {
        block_device::parse(text, |name| !name.starts_with("loop"), found)
    }),
    ("node", node::parse_all),
    ("nfs_server", |text, found| {
        nfs_server::parse(text, "n1", found)
    }),
    ("lwfs_server", log),
    (
        "gluster_server",
        |text, found| match gluster_server::parse(text, 1) {
            Ok(reading) => found.readings.extend(reading),
            Err(e) => found.error(|| e),
        },
    ),
    ("gluster_client", answer),
    ("lustre_ost", lustre::fuzz::target),
    ("lustre_service", lustre::fuzz::service),
    ("lustre_job", lustre::fuzz::jobs),
    ("lustre_osc", lustre::fuzz::connection),
    ("switch_port", fabric),
];

/// What the fabric's tools say, which come cut anywhere: the map, then answers of switch 2, wide and narrow, with PART between them.
fn fabric(text: &[u8], found: &mut Found) {
    const PART: u8 = 1;
    let mut parts = text.split(|b| *b == PART);
    let (mut whole, mut cut) = (switch_port::Map::default(), switch_port::Map::default());
    let map = parts.next().unwrap_or_default();
    whole.feed(map);
    map.chunks(1 + map.len() % 7)
        .for_each(|part| cut.feed(part));
    let (switches, fault) = whole.finish();
    assert_eq!(cut.finish(), (switches.clone(), fault.clone()));
    assert!(switches.windows(2).all(|pair| pair[0].guid < pair[1].guid));
    for switch in &switches {
        assert!(switch.name.len() <= 128 && !switch.name.contains(char::is_control));
        assert!(switch.ports.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
    let mut answers = [0, 1].map(|_| switch_port::Answer::of(2, 1..=3));
    for (place, part) in parts.take(2).enumerate() {
        let [whole, cut] = &mut answers;
        whole.begin(place == 0);
        whole.feed(part);
        cut.begin(place == 0);
        part.chunks(1 + part.len() % 7)
            .for_each(|part| cut.feed(part));
    }
    let [whole, cut] = &answers;
    let readings = whole.readings("leaf1");
    assert_eq!(
        (&readings, whole.fault()),
        (&cut.readings("leaf1"), cut.fault())
    );
    assert!(readings.len() <= 3);
    found.readings = readings.into_iter().map(|(_, reading)| reading).collect();
    for fault in fault.into_iter().chain(whole.fault()) {
        found.error(|| fault);
    }
}

/// An answer of Gluster's as it might come: cut anywhere.
fn answer(text: &[u8], found: &mut Found) {
    let brick = Brick {
        volume: "lw".into(),
        host: "h".into(),
        path: "/b".into(),
    };
    let (mut whole, mut cut) = (Answer::of(&brick), Answer::of(&brick));
    whole.feed(text);
    text.chunks(1 + text.len() % 7)
        .for_each(|part| cut.feed(part));
    assert_eq!((whole.fault(), whole.calls()), (cut.fault(), cut.calls()));
    let since = (text.len() % 2 == 0).then(|| At::told(5));
    found.readings = whole.readings(At::told(7), since);
    assert_eq!(found.readings, cut.readings(At::told(7), since));
    for reading in &found.readings {
        assert!(reading.instance.starts_with("_b ") && reading.instance.len() < 140);
    }
    if let Some(fault) = whole.fault() {
        found.error(|| format!("{fault:?}"));
    }
}

/// Each statement of a log as a reading by itself, so that what it says can be seen.
fn log(text: &[u8], found: &mut Found) {
    for line in text.split(|b| *b == b'\n') {
        let mut statements = 0;
        line::parse(line, |said| {
            statements += 1;
            match said.map(|said| said.what) {
                Some(What::Counts { kind, .. }) => assert!(kind < line::KINDS.len()),
                Some(What::QueueLength(length)) => {
                    let mut reading = Reading::new(format!("{}", found.readings.len()));
                    reading.gauge("queue_length", length as f64);
                    found.readings.push(reading);
                }
                None => found.error(|| "a line".into()),
            }
        });
        assert!(statements <= 1 + line.len());
    }
}

const SEEDS: [(u8, &str, &str); 12] = [
    (
        0,
        "   8       0 sda 100 5 2048 4294967290 200 7 4096 900 1 4294967000 4294967295\n   7 0 loop0 1 2 3\n 8 1 sdb 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n",
        "   8       0 sda 110 5 2064 4 210 7 4112 950 0 200 10\n   7 0 loop0 1 2 3\n 8 1 sdb 2 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n",
    ),
    (
        1,
        "cpu  1000 20 300 90000 400 5 6 7 0 0\n\x010.52 0.58 0.59 1/467 12345\n\x01MemTotal:  24684096 kB\nDirty:  370660 kB\n\x01some avg10=0.00 total=8712345\nfull avg10=0.00 total=5\n\x01a\nb\n  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n lo:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n",
        "cpu  1001 20 300 90100 399 5 6 7 0 0\n\x010.50 0.58 0.59 2/468 12346\n\x01MemTotal:  24684096 kB\nDirty:  0 kB\n\x01some avg10=0.00 total=8712399\nfull avg10=0.00 total=6\n\x01a\nb\n  eth0: 9 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n eth1:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n",
    ),
    (
        2,
        "rc 1 2 3\nfh 0 0\nio 4294967290 5\nth 8 0 0.000\nnet 1 2 3 4\nrpc 5 4 3 2 1\nproc3 22 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22\nproc4 2 1 9\nproc4ops 5 0 0 0 7 8\n",
        "rc 1 3 3\nfh 0 0\nio 17 5\nth 8 0 0.000\nnet 2 2 4 4\nrpc 6 4 3 2 1\nproc3 22 1 2 3 4 5 6 7 9 9 10 11 12 13 14 15 16 17 18 19 20 21 22\nproc4 2 1 10\nproc4ops 5 0 0 0 7 9\n",
    ),
    (
        3,
        "[2018-02-25 18:00:12]  [Trace]: Meta exe: 772065 72619 264959 22166 49937 74762 72 0\n[2018-02-25 18:00:12]  [Trace]: queue length: 0\n",
        "[2018-02-25 18:00:13]  [Trace]: Read wait: 1 2 3[2018-02-25 18:00:13]  [Trace]: queue length: 7\n 72 0\n",
    ),
    (3, "[2018-02-25 18:00:12] I other\n", "[Trace]: queue length: 18446744073709551615\n"),
    (4, "{\n\"gluster.brick._b.aggr.read_1b\": 1,\n\"gluster.brick._b.aggr.write_128kb\": 2,\n\"gluster.brick._b.aggr.fds.open_count\": 1,\n\"gluster.brick._b.aggr.fop.read.count\": 3,\n\"gluster.brick._b.aggr.fop.read.latency_ave_usec\": 73926.48,\n\"gluster.brick._b.aggr.HIGH.queue_size\": 2,\n\"gluster.brick._b.aggr.bytes_read\": 3\n}\n{\n", "{\n\"gluster.brick._b.aggr.read_1b\": 1,\n\"gluster.brick._b.aggr.write_128kb\": 3,\n\"gluster.brick._b.aggr.fds.open_count\": 1,\n\"gluster.brick._b.aggr.fop.read.count\": 9,\n\"gluster.brick._b.aggr.fop.read.latency_ave_usec\": 73926.48,\n\"gluster.brick._b.aggr.HIGH.queue_size\": 2,\n\"gluster.brick._b.aggr.bytes_read\": 9\n}\n{\n"),
    (5, "<?xml version=\"1.0\"?>\n<cliOutput><opRet>0</opRet><opErrno>0</opErrno><opErrstr/><volStatus><volumes><volume><node><hostname>h</hostname><path>/b</path><pid>7</pid><clientsStatus><client><hostname>10.0.0.1:5</hostname><bytesRead>100</bytesRead><bytesWrite>9</bytesWrite></client>\n<client><hostname>10.0.0.1:6</hostname><bytesRead>7</bytesRead><bytesWrite>7</bytesWrite></client>\n<client><hostname>c&amp;2:7</hostname><bytesRead>5</bytesRead><bytesWrite>5</bytesWrite></client>\n</clientsStatus><callpoolStatus><count>3</count></callpoolStatus></node></volume></volumes></volStatus></cliOutput>\n", "<?xml version=\"1.0\"?>\n<cliOutput><opRet>0</opRet><opErrno>0</opErrno><opErrstr/><volStatus><volumes><volume><node><hostname>h</hostname><path>/b</path><pid>7</pid><clientsStatus><client><hostname>10.0.0.1:5</hostname><bytesRead>150</bytesRead><bytesWrite>9</bytesWrite></client>\n<client><hostname>10.0.0.1:8</hostname><bytesRead>7</bytesRead><bytesWrite>7</bytesWrite></client>\n<client><hostname>c&amp;2:7</hostname><bytesRead>3</bytesRead><bytesWrite>5</bytesWrite></client>\n</clientsStatus><callpoolStatus><count>3</count></callpoolStatus></node></volume></volumes></volStatus></cliOutput>\n"),
    (6, "snapshot_time 1.5 secs.nsecs\nread_bytes 10 samples [bytes] 1 9 4096 9\nread 10 samples [usecs] 1 9 77 9\npunch 4 samples [reqs]\n\x01snapshot_time: 1.5 (secs.nsecs)\n\n   read | write\npages per bulk r/w rpcs % cum % | rpcs % cum %\n1:\t 5 50 50 | 7 7 7\n1K:\t 5 50 100 | 7 7 100\n\nI/O time (1/1000s) ios % cum % | ios % cum %\n4:\t 5 50 50 | 7 7 7\n", "snapshot_time 1.5 secs.nsecs\nread_bytes 19 samples [bytes] 1 9 8192 9\nread 19 samples [usecs] 1 9 77 9\npunch 4 samples [reqs]\n\x01snapshot_time: 1.5 (secs.nsecs)\n\n   read | write\npages per bulk r/w rpcs % cum % | rpcs % cum %\n1:\t 6 50 50 | 7 7 7\n1K:\t 9 50 100 | 7 7 100\n\nI/O time (1/1000s) ios % cum % | ios % cum %\n4:\t 5 50 50 | 7 7 7\n"),
    (7, "snapshot_time 1.5 secs.nsecs\nreq_waittime 9 samples [usec] 1 9 77 99\nreq_qdepth 9 samples [reqs] 0 3 7 9\nreq_active 9 samples [reqs] 1 4 12 44\nreqbuf_avail 18 samples [bufs] 60 64 900 9\nldlm_bl_callback 5 samples [usecs] 1 2 7 9\n", "snapshot_time 1.5 secs.nsecs\nreq_waittime 12 samples [usec] 1 9 99 99\nreq_qdepth 12 samples [reqs] 0 3 7 9\nreq_active 12 samples [reqs] 1 4 12 44\nreqbuf_avail 18 samples [bufs] 60 64 900 9\nldlm_bl_callback 6 samples [usecs] 1 2 7 9\n"),
    (8, "job_stats:\n- job_id:          4711\n  snapshot_time:   17\n  read_bytes:      { samples: 5, unit: bytes, min: 1, max: 9, sum: 90, sumsq: 9, hist: { 4K: 1 } }\n  punch:           { samples:           1, unit:  reqs }\n- job_id:          \"a b\"\n  snapshot_time:   18.5 secs.nsecs\n  read_bytes:      { samples: 7, unit: bytes, min: 1, max: 9, sum: 90, sumsq: 9, hist: { 4K: 1 } }\n  punch:           { samples:           1, unit:  reqs }\n- job_id:          cp.0\n  snapshot_time:   19\n  read_bytes:      { samples: 1, unit: bytes, min: 1, max: 9, sum: 90, sumsq: 9, hist: { 4K: 1 } }\n  punch:           { samples:           1, unit:  reqs }\n", "job_stats:\n- job_id:          4711\n  snapshot_time:   27\n  read_bytes:      { samples: 9, unit: bytes, min: 1, max: 9, sum: 90, sumsq: 9, hist: { 4K: 1 } }\n  punch:           { samples:           1, unit:  reqs }\n- job_id:          \"a b\"\n  snapshot_time:   18.5 secs.nsecs\n  read_bytes:      { samples: 7, unit: bytes, min: 1, max: 9, sum: 90, sumsq: 9, hist: { 4K: 1 } }\n  punch:           { samples:           1, unit:  reqs }\n- job_id:          cp.0\n  snapshot_time:   29\n  read_bytes:      { samples: 3, unit: bytes, min: 1, max: 9, sum: 90, sumsq: 9, hist: { 4K: 1 } }\n  punch:           { samples:           1, unit:  reqs }\n"),
    (9, "snapshot_time: 1.5 (secs.nsecs)\nread RPCs in flight:  3\nwrite RPCs in flight: 1\npending write pages:  4\npending read pages:   0\n\n\t\t\tread\t\t\twrite\npages per rpc         rpcs   % cum % |       rpcs   % cum %\n1:\t\t 4 4 4 | 4 4 4\n256:\t\t 4 4 4 | 4 4 4\n\nrpcs in flight        rpcs   % cum % |       rpcs   % cum %\n1:\t\t 4 4 4 | 4 4 4\n\x01snapshot_time 1.5 secs.nsecs\nreq_waittime 9 samples [usec] 1 9 77 99\nread_bytes 3 samples [bytes] 1 1 333 3\n", "snapshot_time: 1.5 (secs.nsecs)\nread RPCs in flight:  0\nwrite RPCs in flight: 1\npending write pages:  4\npending read pages:   0\n\n\t\t\tread\t\t\twrite\npages per rpc         rpcs   % cum % |       rpcs   % cum %\n1:\t\t 7 4 4 | 4 4 4\n256:\t\t 4 4 4 | 4 4 4\n\nrpcs in flight        rpcs   % cum % |       rpcs   % cum %\n1:\t\t 7 4 4 | 4 4 4\n\x01snapshot_time 1.5 secs.nsecs\nreq_waittime 9 samples [usec] 1 9 79 99\nread_bytes 3 samples [bytes] 1 1 333 3\n"),
    (10, "switchguid=0x2(2)\nSwitch\t36 \"S-0000000000000002\"\t\t# \"leaf \\\"1\" enhanced port 0 lid 2 lmc 0\n[1]\t\"H-0000000000000006\"[1](7) \t\t# \"cn1 \\\" lid 9 4xEDR\" lid 5 4xEDR\n[2]\t\"S-0000000000000003\"[36]\t\t# \"spine\" lid 3 4xHDR\n\nCa\t1 \"H-0000000000000006\"\t\t# \"cn1\"\n[1](7) \t\"S-0000000000000002\"[1]\t\t# lid 5 lmc 0 \"leaf\" lid 2 4xEDR\n\x01# Port extended counters: Lid 2 port 1 (CapMask: 0x1300 CapMask2: 0x0000000)\nPortSelect:......................1\nPortXmitData:....................9000000001\nPortRcvPkts:.....................9000000000\n# Port extended counters: Lid 2 port 2 (CapMask: 0x1300 CapMask2: 0x0000000)\nPortSelect:......................2\nPortXmitData:....................9000000002\nPortRcvPkts:.....................9000000000\n# Port extended counters: Lid 2 port 3 (CapMask: 0x1300 CapMask2: 0x0000000)\nPortSelect:......................3\nPortXmitData:....................9000000003\nPortRcvPkts:.....................9000000000\n\x01# Port counters: Lid 2 port 1 (CapMask: 0x1300)\nSymbolErrorCounter:..............5\nLinkDownedCounter:...............9\nPortXmitWait:....................5\n# Port counters: Lid 2 port 2 (CapMask: 0x1300)\nSymbolErrorCounter:..............10\nLinkDownedCounter:...............9\nPortXmitWait:....................5\n# Port counters: Lid 2 port 3 (CapMask: 0x1300)\nSymbolErrorCounter:..............15\nLinkDownedCounter:...............9\nPortXmitWait:....................5\n", "switchguid=0x2(2)\nSwitch\t36 \"S-0000000000000002\"\t\t# \"leaf \\\"1\" enhanced port 0 lid 2 lmc 0\n[1]\t\"H-0000000000000006\"[1](7) \t\t# \"cn1 \\\" lid 9 4xEDR\" lid 5 4xEDR\n[2]\t\"S-0000000000000003\"[36]\t\t# \"spine\" lid 3 4xHDR\n\nCa\t1 \"H-0000000000000006\"\t\t# \"cn1\"\n[1](7) \t\"S-0000000000000002\"[1]\t\t# lid 5 lmc 0 \"leaf\" lid 2 4xEDR\n\x01# Port extended counters: Lid 2 port 1 (CapMask: 0x1300 CapMask2: 0x0000000)\nPortSelect:......................1\nPortXmitData:....................9000000778\nPortRcvPkts:.....................9000000777\n# Port extended counters: Lid 2 port 2 (CapMask: 0x1300 CapMask2: 0x0000000)\nPortSelect:......................2\nPortXmitData:....................9000000779\nPortRcvPkts:.....................9000000777\n# Port extended counters: Lid 2 port 3 (CapMask: 0x1300 CapMask2: 0x0000000)\nPortSelect:......................3\nPortXmitData:....................9000000780\nPortRcvPkts:.....................9000000777\n\x01# Port counters: Lid 2 port 1 (CapMask: 0x1300)\nSymbolErrorCounter:..............7\nLinkDownedCounter:...............255\nPortXmitWait:....................7\n# Port counters: Lid 2 port 2 (CapMask: 0x1300)\nSymbolErrorCounter:..............14\nLinkDownedCounter:...............255\nPortXmitWait:....................7\n# Port counters: Lid 2 port 3 (CapMask: 0x1300)\nSymbolErrorCounter:..............21\nLinkDownedCounter:...............255\nPortXmitWait:....................7\n"),
];

pub struct SamplesFuzz {
    counters: Counters,
}

impl SamplesFuzz {
    pub fn new() -> SamplesFuzz {
        SamplesFuzz {
            counters: Counters::default(),
        }
    }
}

const STAGES: [Stage; 5] = [
    stage("a value was read", 50.0),
    stage("something was not", 40.0),
    stage("an instance was there twice", 25.0),
    stage("a sample was told", 25.0),
    stage("a counter moved", 15.0),
];

impl Target for SamplesFuzz {
    fn stages(&self) -> &'static [Stage] {
        &STAGES
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let whole = |(parser, before, after): &(u8, &str, &str)| {
            [&[*parser][..], before.as_bytes(), CUT, after.as_bytes()].concat()
        };
        SEEDS.iter().map(whole).collect()
    }

    fn mutate(&self, random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
        mutator::mutate(random, input, other);
    }

    fn check(&mut self, input: &[u8]) -> u32 {
        let Some((parser, texts)) = input.split_first() else {
            return 0;
        };
        let (component, parse) = PARSERS[*parser as usize % PARSERS.len()];
        let at = memchr::memmem::find(texts, CUT).unwrap_or(texts.len());
        let (before, after) = texts.split_at(at);
        let after = after.strip_prefix(CUT).unwrap_or(after);
        let (mut first, mut second) = (Found::default(), Found::default());
        parse(before, &mut first);
        parse(after, &mut second);
        for found in [&first, &second] {
            assert_eq!(found.errors > 0, found.first_error.is_some());
            let error = found.first_error.as_deref().unwrap_or_default();
            assert!(error.len() < 1000, "{error}");
        }

        let tracks = first.readings.iter();
        let begun = |reading: &Reading| Track::begin(reading, At::told(5));
        let mut tracks: BTreeMap<String, Track> =
            tracks.map(|r| (r.instance.clone(), begun(r))).collect();
        let mut batch = Batch::new("n1", 1, 1, 4096, RAW_BYTES_MAX);
        let mut again = false;
        for reading in &second.readings {
            let Some(track) = tracks.get_mut(&reading.instance) else {
                continue;
            };
            again = true;
            let to = To {
                component,
                counters: &self.counters,
                batch: &mut batch,
            };
            track.go_on(reading, At::told(7), second.errors == 0, to);
        }
        let window = batch.finish().unwrap();
        let events = match window.events {
            0 => Vec::new(),
            _ => open_window(window.payload),
        };
        let mut moved = false;
        for event in &events {
            assert!(event["start"].as_i64() <= event["end"].as_i64());
            for value in event["values"].as_object().unwrap().values() {
                let value = value.as_f64().unwrap();
                assert!((0.0..=NUMBER_MAX).contains(&value), "{event}");
                moved |= value > 0.0;
            }
        }
        let readings = || first.readings.iter().chain(&second.readings);
        let read = readings().any(|reading| !reading.values.is_empty());
        let errors = first.errors + second.errors;
        reached([read, errors > 0, again, !events.is_empty(), moved])
    }
}
