//! Settings: the sample, what is refused, addresses.

use super::*;

const SAMPLE: &str = include_str!("../agent.sample.toml");

/// The sample's `# key = value` lines, bare, and the lines that begin a section.
fn uncommented() -> Vec<&'static str> {
    let is_setting = |l: &&str| {
        let key = l.split('=').next().unwrap_or("").trim();
        l.contains(" = ")
            && !key.is_empty()
            && key.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    SAMPLE
        .lines()
        .filter_map(|l| match l.starts_with('[') {
            true => Some(l),
            false => l.strip_prefix("# ").filter(is_setting),
        })
        .collect()
}

/// An unknown key makes serde list the ones that there are.
fn known(prefix: &str) -> Vec<String> {
    let text = format!("{prefix}no_such_key = 1");
    let error = toml::from_str::<Config>(&text).unwrap_err().to_string();
    let names = error.split('`').skip(1).step_by(2);
    names
        .filter(|k| *k != "no_such_key")
        .map(String::from)
        .collect()
}

#[test]
fn the_sample_documents_every_setting_with_its_default() {
    let text = uncommented().join("\n");
    let values: Config = toml::from_str(&text).expect("the sample, uncommented, is a config");
    assert_eq!(values, Config::default());
    let (top, tls) = text.split_once("[tls]").unwrap();
    for (mut known, section) in [(known(""), top), (known("[tls]\n"), tls)] {
        let mut documented: Vec<&str> = section
            .lines()
            .filter_map(|l| l.split_once(" = "))
            .map(|(key, _)| key)
            .collect();
        assert!(known.len() >= 4, "{known:?}");
        known.retain(|k| k != "tls");
        known.sort();
        documented.sort();
        assert_eq!(known, documented);
    }
    // As it stands it sets nothing.
    assert_eq!(toml::from_str::<Config>(SAMPLE).unwrap(), Config::default());
}

#[test]
fn bad_settings_are_refused_by_name() {
    assert!(toml::from_str::<Config>("nodes = 'x'")
        .unwrap_err()
        .to_string()
        .contains("nodes"));
    let refused = |text: &str, name: &str| {
        let mut config: Config = toml::from_str(text).unwrap();
        let error = config.finish().unwrap_err();
        assert!(error.starts_with(name), "{error}");
    };
    refused("batch_max_events = 0", "batch_max_events");
    refused("poll_max_ms = 5", "poll_max_ms");
    refused("spool_max_bytes = 1000", "spool_max_bytes");
    refused("server = '192.0.2.7:5044'", "server");
    refused("server = 'nonsense'", "server");
    refused("server = 'unix:ingest.sock'", "server");
    refused("server = 'unix:/'", "server");
    refused(
        &format!("server = 'unix:/state/{}'", "x".repeat(81)),
        "server",
    );
    refused("server = 'localhost:0'", "server");
    refused("server = ':5044'", "server");
    refused("rings = 'relative'", "rings");
    refused(
        "gluster_client_command = 'gluster'",
        "gluster_client_command",
    );
    refused("gluster_client_timeout_s = 0", "gluster_client_timeout_s");
    refused("switch_port_partition = 2", "switch_port_partition");
    refused("switch_port_partitions = 0", "switch_port_partitions");
    refused("switch_port_discover_s = 1", "switch_port_discover_s");
    refused(
        "switch_port_perfquery = 'perfquery'",
        "switch_port_perfquery",
    );
    refused("switch_port_through = 'mlx5_0'", "switch_port_through");
    refused("switch_port_switches = ['!']", "switch_port_switches");
    refused("lwfs_client_logs = ['relative']", "lwfs_client_logs");
    refused("lwfs_client_logs = ['/a', '/a']", "lwfs_client_logs");
    refused(
        "lwfs_client_time_zone = 'Mars/Olympus'",
        "lwfs_client_time_zone",
    );
    refused("lwfs_client_window_s = 0", "lwfs_client_window_s");
    let tls = |server: &str, tls: &str| format!("server = '{server}'\n[tls]\n{tls}");
    refused(&tls("h:1", "ca = '/a'\ncert = '/b'"), "tls.key");
    refused(&tls("h:1", "server_name = 'h'"), "tls.ca");
    refused(&tls("h:1", "ca = '/a'\ncert = 'b'\nkey = '/c'"), "tls.cert");
    let all = "ca = '/a'\ncert = '/b'\nkey = '/c'";
    refused(&tls("unix:/a/b", all), "server");
    let mut config: Config = toml::from_str("server = '[::1]:5044'").unwrap();
    config.finish().unwrap();
    assert!(!config.node.is_empty());
}

#[test]
fn a_server_is_an_address_or_a_socket() {
    let read = |text: &str, more: &str| {
        let mut config: Config = toml::from_str(&format!("server = '{text}'\n{more}")).unwrap();
        config.finish().unwrap();
        config.server().unwrap()
    };
    let server = |text: &str| read(text, "");
    assert_eq!(
        server("unix:/st ate/ingest.sock"),
        Server::Unix("/st ate/ingest.sock".into())
    );
    assert_eq!(server("127.0.0.1:5").to_string(), "127.0.0.1:5");
    assert_eq!(server("[::1]:5").to_string(), "[::1]:5");
    assert_eq!(server("unix:/a/b").to_string(), "unix:/a/b");
    // With TLS on any machine, known yet or not.
    let tls = "[tls]\nca = '/a'\ncert = '/b'\nkey = '/c'";
    let away = |text: &str| read(text, tls).to_string();
    assert_eq!(away("192.0.2.7:5044"), "192.0.2.7:5044");
    assert_eq!(away("no-such-host.invalid:5"), "no-such-host.invalid:5");
}

#[test]
fn root_is_a_prefix() {
    let mut config = Config::default();
    assert_eq!(
        config.under_root(Path::new("/proc/1")),
        Path::new("/proc/1")
    );
    config.root = "/capture".into();
    assert_eq!(
        config.under_root(Path::new("/proc/1")),
        Path::new("/capture/proc/1")
    );
}

#[test]
fn figures_are_told_on_this_machine_alone() {
    let given = |text: &str| {
        let mut config = Config {
            metrics: text.into(),
            ..Config::default()
        };
        config.finish().map(|()| config.metrics().unwrap())
    };
    assert_eq!(given(""), Ok(None));
    assert_eq!(
        given("127.0.0.1:9425"),
        Ok(Some("127.0.0.1:9425".parse().unwrap()))
    );
    for wrong in [
        "0.0.0.0:9425",
        "10.0.0.1:9425",
        "127.0.0.1:0",
        "9425",
        "localhost:9425",
    ] {
        assert!(given(wrong).unwrap_err().contains("metrics: "), "{wrong}");
    }
}
