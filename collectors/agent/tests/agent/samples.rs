//! Samples of this machine, as a server gets them.

use crate::harness::*;
use serde_json::Value;
use std::fs;

fn time(sample: &Value, key: &str) -> i64 {
    sample[key].as_i64().unwrap()
}

/// They follow each other without a gap or an overlap, also where the agent was killed between two of them.
fn follow_each_other(samples: &[Value]) {
    for pair in samples.windows(2) {
        assert!(time(&pair[0], "start") < time(&pair[0], "end"), "{pair:?}");
        assert_eq!(time(&pair[0], "end"), time(&pair[1], "start"), "{pair:?}");
    }
}

#[test]
fn what_the_machine_does_is_told_each_second_over_a_kill() {
    let dir = temp_dir("machine");
    fs::create_dir(dir.join("rings")).unwrap();
    let server = Server::start();
    // Looks at rings are so rare that only the sources' own time can be kept.
    let config = dir.join("agent.toml");
    fs::write(&config, "poll_min_ms = 10000\npoll_max_ms = 10000\n").unwrap();
    let config = ["--config", config.to_str().unwrap()];
    let mut child = agent(&dir, &server.address, &config).spawn().unwrap();
    until("samples", || server.samples("node").len() >= 3);
    child.kill().unwrap();
    child.wait().unwrap();
    let before = server.samples("node").len();
    let mut child = agent(&dir, &server.address, &config).spawn().unwrap();
    until("more samples", || {
        server.samples("node").len() >= before + 3
    });
    assert_eq!(terminate(&mut child), Some(0));

    let samples = server.samples("node");
    follow_each_other(&samples);
    for sample in &samples {
        assert_eq!(sample["instance"], "n1");
        // All of a processor's time is in one of its states, to a tick or two of each.
        let values = sample["values"].as_object().unwrap();
        let of_cpu = values.iter().filter(|(name, _)| name.starts_with("cpu_"));
        let cpu_ns: i64 = of_cpu.map(|(_, value)| value.as_i64().unwrap()).sum();
        let whole = time(sample, "end") - time(sample, "start");
        assert!(cpu_ns > whole / 2, "{sample}");
    }
    let length = time(samples.last().unwrap(), "end") - time(&samples[0], "start");
    // Never more than one a second, and two where an agent begins or ends.
    let seconds = length / 1_000_000_000;
    assert!(samples.len() as i64 <= seconds + 3, "{samples:?}");
    for sample in server.samples("block_device") {
        assert!(sample["values"]["busy_ns"].is_u64(), "{sample}");
    }
}

#[test]
fn captures_of_lustres_parameters_are_printed_as_samples() {
    let dir = temp_dir("lctl");
    let capture = |name: &str, time: u64, reads: u64| {
        let path = dir.join(name);
        let text = format!(
            "obdfilter.fs-OST0000.stats=\nsnapshot_time {time}.5 secs.nsecs\nread_bytes {reads} samples [bytes] 1 4096 {}\n\
             obdfilter.fs-OST0000.num_exports=7\n\
             obdfilter.fs-OST0000.job_stats=\njob_stats:\n- job_id: 4711\n  snapshot_time: {time}\n  read_bytes: {{ samples: {reads}, unit: bytes, sum: 90 }}\n\
             obdfilter.fs-OST0000.exports.10.0.0.1@tcp.stats=\nsnapshot_time {time}.5 secs.nsecs\nread_bytes {reads} samples [bytes] 1 9 90\n",
            4096 * reads
        );
        fs::write(&path, text).unwrap();
        path
    };
    let (first, second) = (
        capture("first", 1_700_000_000, 5),
        capture("second", 1_700_000_010, 8),
    );
    let run = |args: &[&std::ffi::OsStr]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bellrock-agent"));
        command.args(args).output().unwrap()
    };
    let (lctl, print) = ("--lctl".as_ref(), "--print".as_ref());
    let output = run(&[lctl, first.as_ref(), lctl, second.as_ref(), print]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let samples: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (component, instance) in [
        ("lustre_ost", "fs-OST0000"),
        ("lustre_job", "fs-OST0000 4711"),
        ("lustre_export", "fs-OST0000 10.0.0.1@tcp"),
    ] {
        let own = samples
            .iter()
            .filter(|sample| sample["component"] == component && sample["instance"] == instance);
        let told: Vec<_> = own
            .map(|sample| {
                (
                    time(sample, "end") - time(sample, "start"),
                    sample["values"]["reads"].as_u64().unwrap(),
                )
            })
            .collect();
        assert_eq!(told, [(0, 5), (10_000_000_000, 3)], "{component}");
    }
    let none = dir.join("none");
    fs::write(&none, "no capture\n").unwrap();
    for (args, code, told) in [
        (vec![lctl, first.as_ref()], 2, "--print"),
        (vec![lctl, none.as_ref(), print], 1, "lctl get_param"),
        (
            vec![lctl, "/nonexistent".as_ref(), print],
            1,
            "/nonexistent",
        ),
    ] {
        let output = run(&args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(told), "{error}");
    }
}
