//! What the settings' numbers lie between, and which programs must be named by whole paths.

use super::Config;

/// Smallest spool and segment that make sense.
const SPOOL_BYTES_MIN: u64 = 1 << 20;
const SEGMENT_BYTES_MIN: u64 = 64 << 10;

/// Refuses a number out of bounds, and a program whose path is not absolute.
pub fn check(config: &Config) -> Result<(), String> {
    #[rustfmt::skip]
    let bounds = [
        ("segment_max_bytes", config.segment_max_bytes, SEGMENT_BYTES_MIN, 1 << 30),
        ("spool_max_bytes", config.spool_max_bytes, SPOOL_BYTES_MIN, 1 << 40),
        ("window_ms", config.window_ms, 10, 3_600_000),
        ("poll_min_ms", config.poll_min_ms, 1, 60_000),
        ("poll_max_ms", config.poll_max_ms, config.poll_min_ms, 60_000),
        ("sample_period_s", config.sample_period_s, 1, 86_400),
        ("batch_max_events", config.batch_max_events.into(), 1, 65_536),
        ("reconnect_min_ms", config.reconnect_min_ms, 10, 600_000),
        ("reconnect_max_ms", config.reconnect_max_ms, config.reconnect_min_ms, 600_000),
        ("ack_timeout_s", config.ack_timeout_s, 1, 3600),
        ("users_max", config.users_max as u64, 1, 65_536),
        ("rings_per_user_max", config.rings_per_user_max as u64, 1, 1 << 20),
        ("lwfs_client_window_s", config.lwfs_client_window_s, 1, 3600),
        ("node_period_s", config.node_period_s, 0, 3600),
        ("block_device_period_s", config.block_device_period_s, 0, 3600),
        ("nfs_server_period_s", config.nfs_server_period_s, 0, 3600),
        ("gluster_server_period_s", config.gluster_server_period_s, 0, 3600),
        ("gluster_server_latency_ns", config.gluster_server_latency_ns.into(), 1, 1_000_000),
        ("gluster_client_period_s", config.gluster_client_period_s, 0, 3600),
        ("gluster_client_timeout_s", config.gluster_client_timeout_s, 1, 120),
        ("fabric_port_period_s", config.fabric_port_period_s, 0, 3600),
        ("switch_port_period_s", config.switch_port_period_s, 0, 3600),
        ("switch_port_partitions", config.switch_port_partitions, 1, 1024),
        ("switch_port_partition", config.switch_port_partition, 1, config.switch_port_partitions),
        ("switch_port_discover_s", config.switch_port_discover_s, 10, 86_400),
        ("switch_port_timeout_s", config.switch_port_timeout_s, 1, 120),
        ("lustre_server_period_s", config.lustre_server_period_s, 0, 3600),
        ("lustre_job_period_s", config.lustre_job_period_s, 0, 3600),
        ("lustre_export_period_s", config.lustre_export_period_s, 0, 3600),
        ("lustre_client_period_s", config.lustre_client_period_s, 0, 3600),
        ("syslog_journal_period_s", config.syslog_journal_period_s, 0, 3600),
        ("syslog_per_minute", config.syslog_per_minute.into(), 1, 10_000),
    ];
    for (name, value, low, high) in bounds {
        if !(low..=high).contains(&value) {
            return Err(format!(
                "{name}: {value} is not between {low} and {high}; see agent.sample.toml"
            ));
        }
    }
    #[rustfmt::skip]
    let programs = [
        ("gluster_client_command", &config.gluster_client_command),
        ("switch_port_ibnetdiscover", &config.switch_port_ibnetdiscover),
        ("switch_port_perfquery", &config.switch_port_perfquery),
        ("syslog_journal_command", &config.syslog_journal_command),
    ];
    for (name, program) in programs {
        if !program.is_absolute() {
            return Err(format!(
                "{name}: {}: expected an absolute path; see agent.sample.toml",
                program.display()
            ));
        }
    }
    Ok(())
}
