//! Sources: what the agent reads. Each is one module; a line in `all` makes it exist.

mod back_off;
pub(crate) mod block_device;
mod command;
pub(crate) mod cursors;
pub(crate) mod fabric_port;
pub(crate) mod gluster_client;
pub(crate) mod gluster_server;
mod jobs;
pub mod log_file;
pub mod lustre;
pub mod lwfs_client;
pub mod lwfs_server;
pub(crate) mod nfs_server;
pub(crate) mod node;
mod own_file;
pub(crate) mod preload;
pub mod samples;
pub(crate) mod switch_port;
pub mod syslog;
mod user_dirs;

pub use user_dirs::prepare_base;

use self::cursors::{Pieces, Reader};
use self::samples::crowd::members::Members;
use self::samples::crowd::Crowd;
use self::samples::{Probe, Sampled};
use crate::clock::Now;
use crate::config::Config;
use crate::counters::Counters;
use crate::ship::batch::Batch;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// Sources with tables of many instances; each may take an equal share of what the spool keeps of all.
const CROWDS: usize = 3;

/// Every source, in the order in which they are read.
pub fn all(config: &Config, counters: &Arc<Counters>) -> Vec<Box<dyn Source>> {
    let mut all = sampled(config, counters);
    let others: [Box<dyn Source>; 5] = [
        Box::new(syslog::new(config, counters.clone())),
        Box::new(preload::Preload::new(config, counters.clone())),
        Box::new(lwfs_client::new(config, counters.clone())),
        Box::new(lwfs_server::new(config, counters.clone())),
        // After the others: a job's end follows what its processes did.
        Box::new(jobs::Jobs::new(config, counters.clone())),
    ];
    all.extend(others);
    all
}

/// Those that look at the machine itself: first, since their samples say when that was. The number is the tag of their cursors.
fn sampled(config: &Config, counters: &Arc<Counters>) -> Vec<Box<dyn Source>> {
    let boot = samples::kernel_boot(config);
    let mut all: Vec<Box<dyn Source>> = Vec::new();
    let mut add = |probe: Box<dyn Probe>, tag: u8, period_s: u64| {
        if period_s > 0 {
            all.push(Box::new(Sampled::new(probe, tag, period_s, boot, counters)));
        }
    };
    add(Box::new(node::Node::new(config)), 16, config.node_period_s);
    let devices = block_device::BlockDevice::new(config);
    add(Box::new(devices), 17, config.block_device_period_s);
    let nfs_server = nfs_server::NfsServer::new(config);
    add(Box::new(nfs_server), 18, config.nfs_server_period_s);
    let fabric_port = fabric_port::FabricPort::new(config);
    add(Box::new(fabric_port), 30, config.fabric_port_period_s);
    let calls = gluster_client::Calls::default();
    let gluster_server = gluster_server::GlusterServer::new(config, &calls);
    add(Box::new(gluster_server), 20, config.gluster_server_period_s);
    let params = lustre::params::Params::new(config);
    let server_s = config.lustre_server_period_s;
    add(Box::new(lustre::ost::Ost::new(&params)), 22, server_s);
    add(
        Box::new(lustre::service::Service::new(&params)),
        23,
        server_s,
    );
    add(Box::new(lustre::mdt::Mdt::new(&params)), 24, server_s);
    let mounts = lustre::llite::Llite::new(&params);
    add(Box::new(mounts), 27, config.lustre_client_period_s);
    // A capture has nothing that could be asked.
    let switch_port: Box<dyn Probe> = if config.root.as_os_str().is_empty() {
        let gluster_client = gluster_client::GlusterClient::new(config, &calls);
        add(Box::new(gluster_client), 21, config.gluster_client_period_s);
        Box::new(switch_port::SwitchPort::new(config))
    } else {
        Box::new(switch_port::Capture::new(config))
    };
    add(switch_port, 31, config.switch_port_period_s);
    let spool = (boot, cursors::bytes_max(config.spool_max_bytes) / CROWDS);
    let mut add = |members: Box<dyn Members>, tag: u8, period_s: u64| {
        if period_s > 0 {
            all.push(Box::new(Crowd::new(
                members, tag, period_s, spool, counters,
            )));
        }
    };
    let jobs = lustre::job_stats::JobStats::new(&params);
    add(Box::new(jobs), 25, config.lustre_job_period_s);
    let exports = lustre::exports::Exports::new(&params);
    add(Box::new(exports), 26, config.lustre_export_period_s);
    let osc = lustre::osc::Osc::new(&params);
    add(Box::new(osc), 28, config.lustre_client_period_s);
    all
}

/// Those of which reading changes nothing: logs.
pub fn logs(config: &Config, counters: &Arc<Counters>) -> Vec<Box<dyn Source>> {
    vec![
        Box::new(lwfs_client::of_anyone(config, counters.clone())),
        Box::new(lwfs_server::of_anyone(config, counters.clone())),
        Box::new(syslog::of_files(config, counters.clone())),
    ]
}

/// Those of Lustre, of captures: each look is at the one that `params` has then, and the first tells all that was counted.
pub fn captured(params: &lustre::params::Params, counters: &Arc<Counters>) -> Vec<Box<dyn Source>> {
    let probes: [Box<dyn Probe>; 4] = [
        Box::new(lustre::ost::Ost::new(params)),
        Box::new(lustre::service::Service::new(params)),
        Box::new(lustre::mdt::Mdt::new(params)),
        Box::new(lustre::llite::Llite::new(params)),
    ];
    let crowds: [Box<dyn Members>; 3] = [
        Box::new(lustre::job_stats::JobStats::new(params)),
        Box::new(lustre::exports::Exports::new(params)),
        Box::new(lustre::osc::Osc::new(params)),
    ];
    let mut all: Vec<Box<dyn Source>> = Vec::new();
    for probe in probes {
        all.push(Box::new(Sampled::new(probe, 0, 0, 0, counters).from_zero()));
    }
    for members in crowds {
        let crowd = Crowd::new(members, 0, 0, (0, 0), counters);
        all.push(Box::new(crowd.from_zero()));
    }
    all
}

/// One look at everything.
pub struct Pass {
    pub now: Now,
    /// The last one: ship what is open, too.
    pub last: bool,
    /// Users of whom a job event waits: what their ended processes left must be read whole in this pass.
    pub settle: BTreeSet<u32>,
    /// Users of whom something was left for the next pass.
    pub unfinished: BTreeSet<u32>,
    /// Something that is there already was left: the next pass should come soon.
    pub more: bool,
    /// How full the fullest ring was, 0 to 1.
    pub fill: f64,
}

impl Pass {
    pub fn new(now: Now, last: bool) -> Pass {
        Pass {
            now,
            last,
            settle: BTreeSet::new(),
            unfinished: BTreeSet::new(),
            more: false,
            fill: 0.0,
        }
    }
}

/// How a source's reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has nothing more in this pass.
    Done,
    /// The batch is full: commit it and go on reading.
    More,
}

/// A source reads into batches. The spool keeps its cursors with what it read; after a kill it goes on from there.
pub trait Source {
    /// Tag of its cursors in the spool.
    fn tag(&self) -> u8;

    /// Begins a pass, before any source reads.
    fn begin(&mut self, pass: &mut Pass);

    /// Reads until the batch is full or there is nothing more.
    fn read(&mut self, pass: &mut Pass, batch: &mut Batch) -> Progress;

    /// Hands its cursors over, a block each: all, or those that changed since the last commit.
    fn cursors(&self, all: bool, out: &mut Pieces);

    /// Forgets what was restored.
    fn forget(&mut self);

    /// Takes back what one block holds. `None`: it breaks off or makes no sense, and nothing was changed.
    fn restore(&mut self, cursor: &mut Reader) -> Option<()>;

    /// What was read so far is in the spool.
    fn committed(&mut self);

    /// When it will have something to do that no ring tells of.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Files that it is reading.
    fn open_files(&self) -> u64 {
        0
    }
}
