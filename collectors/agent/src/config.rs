//! The agent's settings: a TOML file, then flags. `agent.sample.toml` documents each.

mod bounds;

use crate::sources::lwfs_client;
use crate::sources::lwfs_server;
use crate::sources::samples::pattern;
use crate::sources::switch_port;
use crate::sources::syslog;
use crate::sys;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// What `server` begins with where a Unix socket's path follows.
const UNIX_PREFIX: &str = "unix:";
/// Longest name of a Unix socket within its directory, bytes: with `/proc/self/fd/N/` before it, it must fit `sun_path`.
const SOCKET_NAME_BYTES_MAX: usize = 80;

/// Where records go.
#[derive(Clone, Debug, PartialEq)]
pub enum Server {
    /// A name, or an address without brackets.
    Tcp { host: String, port: u16 },
    /// Only who may enter the socket's directory can be there, or pretend to be.
    Unix(PathBuf),
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Server::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Server::Tcp { host, port } => write!(f, "{host}:{port}"),
            Server::Unix(path) => write!(f, "{UNIX_PREFIX}{}", path.display()),
        }
    }
}

/// The addresses of a name now.
pub fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

/// The `[tls]` section: paths of PEM files.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
    pub server_name: String,
}

impl Tls {
    /// Whether the connection is to be encrypted.
    pub fn is_set(&self) -> bool {
        *self != Tls::default()
    }

    fn check(&self) -> Result<(), String> {
        for (name, path) in [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)] {
            if self.is_set() && !path.is_absolute() {
                return Err(format!(
                    "tls.{name}: {:?}: expected an absolute path; TLS wants all of ca, cert and key, see docs/tls.md",
                    path.display().to_string()
                ));
            }
        }
        Ok(())
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
    pub lwfs_client_logs: Vec<PathBuf>,
    pub lwfs_client_time_zone: String,
    pub lwfs_client_window_s: u64,
    pub lwfs_server_logs: Vec<PathBuf>,
    pub lwfs_server_time_zone: String,
    pub lwfs_server_bounds_us: Vec<u64>,
    pub node_period_s: u64,
    pub node_interfaces: Vec<String>,
    pub block_device_period_s: u64,
    pub block_devices: Vec<String>,
    pub block_device_partitions: bool,
    pub nfs_server_period_s: u64,
    pub gluster_server_period_s: u64,
    pub gluster_server_stats: PathBuf,
    pub gluster_server_latency_ns: u32,
    pub gluster_client_period_s: u64,
    pub gluster_client_command: PathBuf,
    pub gluster_client_timeout_s: u64,
    pub fabric_port_period_s: u64,
    pub switch_port_period_s: u64,
    pub switch_port_switches: Vec<String>,
    pub switch_port_partition: u64,
    pub switch_port_partitions: u64,
    pub switch_port_through: String,
    pub switch_port_discover_s: u64,
    pub switch_port_timeout_s: u64,
    pub switch_port_ibnetdiscover: PathBuf,
    pub switch_port_perfquery: PathBuf,
    pub lustre_server_period_s: u64,
    pub lustre_job_period_s: u64,
    pub lustre_export_period_s: u64,
    pub lustre_client_period_s: u64,
    pub syslog_logs: Vec<PathBuf>,
    pub syslog_time_zone: String,
    pub syslog_journal_period_s: u64,
    pub syslog_journal_command: PathBuf,
    pub syslog_severity: String,
    pub syslog_patterns: BTreeMap<String, String>,
    pub syslog_per_minute: u32,
    pub metrics: String,
    pub tls: Tls,
    /// Not a setting of the file: `--lctl`, captures to print.
    #[serde(skip)]
    pub lctl: Vec<PathBuf>,
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
            lwfs_client_logs: Vec::new(),
            lwfs_client_time_zone: String::new(),
            lwfs_client_window_s: 10,
            lwfs_server_logs: Vec::new(),
            lwfs_server_time_zone: String::new(),
            lwfs_server_bounds_us: (1..8).map(|digits| 10u64.pow(digits)).collect(),
            node_period_s: 1,
            node_interfaces: Vec::new(),
            block_device_period_s: 1,
            block_devices: ["*", "!loop*", "!ram*"].map(String::from).to_vec(),
            block_device_partitions: false,
            nfs_server_period_s: 1,
            gluster_server_period_s: 1,
            gluster_server_stats: "/var/lib/glusterd/stats".into(),
            gluster_server_latency_ns: 1,
            gluster_client_period_s: 0,
            gluster_client_command: "/usr/sbin/gluster".into(),
            gluster_client_timeout_s: 10,
            fabric_port_period_s: 1,
            switch_port_period_s: 0,
            switch_port_switches: vec!["*".into()],
            switch_port_partition: 1,
            switch_port_partitions: 1,
            switch_port_through: String::new(),
            switch_port_discover_s: 3600,
            switch_port_timeout_s: 10,
            switch_port_ibnetdiscover: "/usr/sbin/ibnetdiscover".into(),
            switch_port_perfquery: "/usr/sbin/perfquery".into(),
            lustre_server_period_s: 1,
            lustre_job_period_s: 10,
            lustre_export_period_s: 10,
            lustre_client_period_s: 1,
            syslog_logs: Vec::new(),
            syslog_time_zone: String::new(),
            syslog_journal_period_s: 0,
            syslog_journal_command: "/usr/bin/journalctl".into(),
            syslog_severity: "warning".into(),
            syslog_patterns: BTreeMap::new(),
            syslog_per_minute: 60,
            metrics: String::new(),
            tls: Tls::default(),
            lctl: Vec::new(),
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
        bounds::check(self)?;
        switch_port::check(self)?;
        lwfs_client::check(self)?;
        lwfs_server::check(self)?;
        syslog::check(self)?;
        pattern::check("node_interfaces", &self.node_interfaces)?;
        pattern::check("block_devices", &self.block_devices)?;
        // A full spool must get room from acknowledgements: they free whole segments.
        self.segment_max_bytes = self.segment_max_bytes.min(self.spool_max_bytes / 4);
        self.tls.check()?;
        self.metrics()?;
        self.server().map(drop)
    }

    /// Where the server is: a Unix socket, or `HOST:PORT`, which without TLS must be on this machine.
    pub fn server(&self) -> Result<Server, String> {
        let hint = "give --server HOST:PORT, such as 127.0.0.1:5044, or --server unix:/PATH";
        if let Some(path) = self.server.strip_prefix(UNIX_PREFIX) {
            let path = PathBuf::from(path);
            let name = path.file_name().map_or(0, |name| name.len());
            if !path.is_absolute() || !(1..=SOCKET_NAME_BYTES_MAX).contains(&name) {
                return Err(format!("server: {}: expected an absolute path whose last part has at most {SOCKET_NAME_BYTES_MAX} bytes; {hint}", self.server));
            }
            if self.tls.is_set() {
                return Err(format!(
                    "server: {}: a socket needs no TLS; take [tls] out, or give HOST:PORT",
                    self.server
                ));
            }
            return Ok(Server::Unix(path));
        }
        let parts = self.server.rsplit_once(':');
        let parts = parts.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        let Some((host, port)) = parts.filter(|(host, port)| !host.is_empty() && *port > 0) else {
            return Err(format!(
                "server: {}: expected a name or an address, a colon and a port; {hint}",
                self.server
            ));
        };
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let host = bare.unwrap_or(host).to_string();
        // With TLS whoever listens there must prove who it is, and a name may be unknown for now.
        if !self.tls.is_set() {
            let found = resolve(&host, port)
                .map_err(|e| format!("server: {}: {e}; {hint}", self.server))?;
            if found.is_empty() || !found.iter().all(|a| a.ip().is_loopback()) {
                return Err(format!(
                    "server: {} is not this machine, and the connection is not encrypted; {hint}, or set [tls] (docs/tls.md)",
                    self.server
                ));
            }
        }
        Ok(Server::Tcp { host, port })
    }

    /// Where figures are told; None: nowhere.
    pub fn metrics(&self) -> Result<Option<SocketAddr>, String> {
        if self.metrics.is_empty() {
            return Ok(None);
        }
        match self.metrics.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() && address.port() > 0 => Ok(Some(address)),
            _ => Err(format!(
                "metrics: {}: expected an address of this machine alone and a port, such as 127.0.0.1:9425",
                self.metrics
            )),
        }
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
#[path = "config_tests.rs"]
mod tests;
