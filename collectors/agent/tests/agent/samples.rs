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
