//! The agent's settings: a TOML file, then flags. `agent.sample.toml` documents each.

use crate::sys;
use serde::Deserialize;
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// Smallest spool and segment that make sense.
pub const SPOOL_BYTES_MIN: u64 = 1 << 20;
pub const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// What `server` begins with where a Unix socket's path follows.
const UNIX_PREFIX: &str = "unix:";
/// Longest name of a Unix socket within its directory, bytes: with `/proc/self/fd/N/` before it, it must fit `sun_path`.
const SOCKET_NAME_BYTES_MAX: usize = 80;

/// Where records go.
#[derive(Clone, Debug, PartialEq)]
pub enum Server {
    Tcp(Vec<SocketAddr>),
    /// Only who may enter the socket's directory can be there, or pretend to be.
    Unix(PathBuf),
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Server::Tcp(addresses) => addresses.iter().take(1).try_for_each(|a| a.fmt(f)),
            Server::Unix(path) => write!(f, "{UNIX_PREFIX}{}", path.display()),
        }
    }
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub node: String,
    pub rings: PathBuf,
    pub spool: PathBuf,
    pub spool_max_bytes: u64,
    pub segment_max_bytes: u64,
    pub server: String,
    pub window_ms: u64,
    pub poll_min_ms: u64,
    pub poll_max_ms: u64,
    pub sample_period_s: u64,
    pub batch_max_events: u32,
    pub reconnect_min_ms: u64,
    pub reconnect_max_ms: u64,
    pub ack_timeout_s: u64,
    pub users_max: usize,
    pub rings_per_user_max: usize,
    /// Not a setting of the file: `--root`.
    #[serde(skip)]
    pub root: PathBuf,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            node: String::new(),
            rings: "/dev/shm/bellrock".into(),
            spool: "/var/lib/bellrock/spool".into(),
            spool_max_bytes: 256 << 20,
            segment_max_bytes: 8 << 20,
            server: "127.0.0.1:5044".into(),
            window_ms: 1000,
            poll_min_ms: 10,
            poll_max_ms: 200,
            sample_period_s: 10,
            batch_max_events: 4096,
            reconnect_min_ms: 100,
            reconnect_max_ms: 10_000,
            ack_timeout_s: 60,
            users_max: 1024,
            rings_per_user_max: 8192,
            root: PathBuf::new(),
        }
    }
}

impl Config {
    /// Reads a file; without one, the defaults.
    pub fn load(path: Option<&Path>) -> Result<Config, String> {
        let Some(path) = path else {
            return Ok(Config::default());
        };
        let text = std::fs::read_to_string(path).map_err(|e| {
            format!(
                "{}: {e}; check the path given with --config",
                path.display()
            )
        })?;
        toml::from_str(&text).map_err(|e| {
            format!(
                "{}: {}; compare it with agent.sample.toml",
                path.display(),
                e.to_string().trim().replace('\n', " ")
            )
        })
    }

    /// Fills what depends on the machine, and refuses what cannot work.
    pub fn finish(&mut self) -> Result<(), String> {
        if self.node.is_empty() {
            self.node = sys::host_name();
        }
        if self.node.is_empty()
            || self.node.chars().count() > 255
            || self.node.chars().any(char::is_control)
        {
            return Err(
                "node: expected 1 to 255 printable characters; set `node` or give --node NAME"
                    .into(),
            );
        }
        if self.spool.as_os_str().is_empty() || !self.rings.is_absolute() {
            return Err("rings and spool: expected paths, `rings` an absolute one".into());
        }
        let bounds = [
            (
                "segment_max_bytes",
                self.segment_max_bytes,
                SEGMENT_BYTES_MIN,
                1 << 30,
            ),
            (
                "spool_max_bytes",
                self.spool_max_bytes,
                SPOOL_BYTES_MIN,
                1 << 40,
            ),
            ("window_ms", self.window_ms, 10, 3_600_000),
            ("poll_min_ms", self.poll_min_ms, 1, 60_000),
            ("poll_max_ms", self.poll_max_ms, self.poll_min_ms, 60_000),
            ("sample_period_s", self.sample_period_s, 1, 86_400),
            ("batch_max_events", self.batch_max_events.into(), 1, 65_536),
            ("reconnect_min_ms", self.reconnect_min_ms, 10, 600_000),
            (
                "reconnect_max_ms",
                self.reconnect_max_ms,
                self.reconnect_min_ms,
                600_000,
            ),
            ("ack_timeout_s", self.ack_timeout_s, 1, 3600),
            ("users_max", self.users_max as u64, 1, 65_536),
            (
                "rings_per_user_max",
                self.rings_per_user_max as u64,
                1,
                1 << 20,
            ),
        ];
        for (name, value, low, high) in bounds {
            if !(low..=high).contains(&value) {
                return Err(format!(
                    "{name}: {value} is not between {low} and {high}; see agent.sample.toml"
                ));
            }
        }
        // A full spool must get room from acknowledgements: they free whole segments.
        self.segment_max_bytes = self.segment_max_bytes.min(self.spool_max_bytes / 4);
        self.server().map(drop)
    }

    /// Where the server is: a Unix socket, or `HOST:PORT`. Until there is TLS, only on this machine.
    pub fn server(&self) -> Result<Server, String> {
        let hint = "give --server HOST:PORT, such as 127.0.0.1:5044, or --server unix:/PATH";
        if let Some(path) = self.server.strip_prefix(UNIX_PREFIX) {
            let path = PathBuf::from(path);
            let name = path.file_name().map_or(0, |name| name.len());
            if !path.is_absolute() || !(1..=SOCKET_NAME_BYTES_MAX).contains(&name) {
                return Err(format!("server: {}: expected an absolute path whose last part has at most {SOCKET_NAME_BYTES_MAX} bytes; {hint}", self.server));
            }
            return Ok(Server::Unix(path));
        }
        let found: Vec<SocketAddr> = self
            .server
            .to_socket_addrs()
            .map_err(|e| format!("server: {}: {e}; {hint}", self.server))?
            .collect();
        let is_local = |a: &SocketAddr| match a.ip() {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => ip.is_loopback(),
        };
        if found.is_empty() || !found.iter().all(is_local) {
            return Err(format!(
                "server: {} is not this machine, and the connection is not encrypted; {hint}",
                self.server
            ));
        }
        Ok(Server::Tcp(found))
    }

    /// A path of the watched machine, under `--root`.
    pub fn under_root(&self, path: &Path) -> PathBuf {
        if self.root.as_os_str().is_empty() {
            return path.to_path_buf();
        }
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = include_str!("../agent.sample.toml");

    /// `# key = value` lines of the sample.
    fn commented() -> Vec<&'static str> {
        let is_setting = |l: &&str| {
            let key = l.split('=').next().unwrap_or("").trim();
            l.contains(" = ")
                && !key.is_empty()
                && key.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        };
        SAMPLE
            .lines()
            .filter_map(|l| l.strip_prefix("# "))
            .filter(is_setting)
            .collect()
    }

    #[test]
    fn the_sample_documents_every_setting_with_its_default() {
        let values: Config =
            toml::from_str(&commented().join("\n")).expect("the sample, uncommented, is a config");
        assert_eq!(values, Config::default());
        let documented: Vec<&str> = commented()
            .iter()
            .map(|l| l.split(" = ").next().unwrap())
            .collect();
        // An unknown key makes serde list the ones that there are.
        let error = toml::from_str::<Config>("no_such_key = 1")
            .unwrap_err()
            .to_string();
        let known: Vec<&str> = error
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|k| *k != "no_such_key")
            .collect();
        assert!(known.len() >= 16, "{error}");
        for key in &known {
            assert!(
                documented.contains(key),
                "agent.sample.toml does not document `{key}`"
            );
        }
        assert_eq!(known.len(), documented.len());
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
        refused("rings = 'relative'", "rings");
        let mut config: Config = toml::from_str("server = '[::1]:5044'").unwrap();
        config.finish().unwrap();
        assert!(!config.node.is_empty());
    }

    #[test]
    fn a_server_is_an_address_or_a_socket() {
        let server = |text: &str| {
            let mut config: Config = toml::from_str(&format!("server = '{text}'")).unwrap();
            config.finish().unwrap();
            config.server().unwrap()
        };
        assert_eq!(
            server("unix:/st ate/ingest.sock"),
            Server::Unix("/st ate/ingest.sock".into())
        );
        assert_eq!(server("127.0.0.1:5").to_string(), "127.0.0.1:5");
        assert_eq!(server("unix:/a/b").to_string(), "unix:/a/b");
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
}
