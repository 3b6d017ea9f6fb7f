//! The agent: looks at the sources, spools what they gave, sleeps. A second thread ships.

mod steps;
mod turns;

use self::steps::Steps;
use crate::clock::Clock;
use crate::config::Config;
use crate::counters::{Counters, Sampler};
use crate::ship::batch::{Batch, RAW_BYTES_MAX};
use crate::ship::connect::Connector;
use crate::ship::lumberjack::{Settings, Shipper};
use crate::ship::overflow::Overflow;
use crate::ship::spool::{OpenError, Spool};
use crate::sources::{self, cursors, Source};
use crate::{info, log, metrics, sys};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const EXIT_FAILED: u8 = 1;
pub const EXIT_USAGE: u8 = 2;
pub const EXIT_LOCKED: u8 = 3;
pub const EXIT_NOT_SHIPPED: u8 = 4;

const SHIPPER_STACK_BYTES: usize = 256 << 10;

struct Agent {
    config: Config,
    counters: Arc<Counters>,
    clock: Clock,
    sources: Vec<Box<dyn Source>>,
    spool: Spool,
    overflow: Overflow,
    batch: Batch,
    sampler: Sampler,
    sampled: Option<Instant>,
    /// When a record was last spooled.
    worked: Instant,
    /// Losses, and seconds of a full spool, that the last sample told of.
    lost_sampled: u64,
    mode: Mode,
    /// Since when it is known that no more steps come.
    no_more_since: Option<Instant>,
}

/// How an agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Until a signal.
    Watch,
    /// Until all that is there was shipped.
    Once,
    /// At the instants that standard input tells, and until all of that was shipped.
    Steps,
}

/// Says what is wrong with the server's address or the certificates.
pub fn check(config: &Config) -> Result<(), String> {
    Connector::new(config).map(drop)
}

/// Runs to its end.
pub fn run(config: Config, mode: Mode) -> ExitCode {
    let connector = match Connector::new(&config) {
        Ok(connector) => connector,
        Err(e) => return fail(EXIT_USAGE, &e),
    };
    if let Err(e) = sys::catch_signals() {
        return fail(EXIT_FAILED, &format!("signals: {e}"));
    }
    let counters = Arc::new(Counters::default());
    let mut sources = sources::all(&config, &counters);
    let spool = Spool::open(
        &config.spool,
        config.spool_max_bytes,
        config.segment_max_bytes,
        &counters,
        |all, bytes| cursors::restore(&mut sources, all, bytes, &counters),
    );
    let spool = match spool {
        Ok(spool) => spool,
        Err(OpenError::Locked(pid)) => {
            let dir = config.spool.display();
            return fail(EXIT_LOCKED, &format!("spool {dir}: the agent with pid {pid} uses it; stop that one, or give another --spool DIR"));
        }
        Err(OpenError::Io(e)) => {
            return fail(
                EXIT_FAILED,
                &format!("spool: {e}; give a directory of yours with --spool DIR"),
            )
        }
    };
    // A capture is read as it is.
    if config.root.as_os_str().is_empty() {
        if let Err(e) = sources::prepare_base(&config.rings, sys::effective_uid()) {
            return fail(EXIT_FAILED, &format!("rings: {e}"));
        }
    }
    info!(
        "start",
        "node {}, rings {}, server {}, spool {} (boot {:016x}, next record {}, {} bytes)",
        config.node,
        config.under_root(&config.rings).display(),
        config.server,
        config.spool.display(),
        spool.boot(),
        spool.next_seq(),
        spool.bytes()
    );
    let settings = Settings {
        reconnect_min: Duration::from_millis(config.reconnect_min_ms),
        reconnect_max: Duration::from_millis(config.reconnect_max_ms),
        ack_timeout: Duration::from_secs(config.ack_timeout_s),
    };
    let shared = spool.shared();
    let mut shipper = Shipper::new(settings, connector, shared.clone(), counters.clone());
    let thread = std::thread::Builder::new()
        .name("ship".into())
        .stack_size(SHIPPER_STACK_BYTES);
    // Not joined: at the end it is waited for through the spool, for a bounded time.
    if let Err(e) = thread.spawn(move || shipper.run()) {
        return fail(EXIT_FAILED, &format!("cannot start a thread: {e}"));
    }
    if let (Ok(Some(address)), Mode::Watch) = (config.metrics(), mode) {
        // Records matter more than figures about them.
        if let Err(e) = metrics::start(address, counters.clone()) {
            log::error(&format!("metrics: no figures are told at {address}: {e}; give another address, or end what listens there"));
        }
    }
    let mut clock = Clock::start();
    let mut steps = None;
    if mode == Mode::Steps {
        match Steps::begin(&mut clock) {
            Ok(Some(begun)) => steps = Some(begun),
            // There is no time at which it could look.
            Ok(None) => return turns::ship_out(&shared, &counters, mode, true),
            Err((code, why)) => return fail(code, &why),
        }
    }
    let mut agent = Agent::new(config, counters, clock, sources, spool, mode);
    if mode == Mode::Watch {
        agent.watch();
    }
    if let Some(Err((code, why))) = steps.map(|steps| agent.walk(steps)) {
        // What was spooled waits there.
        return fail(code, &why);
    }
    agent.end(&shared)
}

impl Agent {
    fn new(
        config: Config,
        counters: Arc<Counters>,
        clock: Clock,
        sources: Vec<Box<dyn Source>>,
        spool: Spool,
        mode: Mode,
    ) -> Agent {
        let now_ns = clock.now().utc_ns();
        let batch = Batch::new(
            &config.node,
            spool.boot(),
            spool.next_seq(),
            config.batch_max_events,
            RAW_BYTES_MAX.min((config.spool_max_bytes / 8) as usize),
        );
        Agent {
            overflow: Overflow::open(&config.spool, now_ns),
            sampler: Sampler::new(now_ns),
            config,
            counters,
            clock,
            sources,
            spool,
            batch,
            sampled: None,
            worked: Instant::now(),
            lost_sampled: 0,
            mode,
            no_more_since: None,
        }
    }
}

fn fail(code: u8, text: &str) -> ExitCode {
    log::error(text);
    ExitCode::from(code)
}
