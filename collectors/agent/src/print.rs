//! `--print`: what logs, and captures of Lustre's parameters, hold, as JSON lines on standard output. Reads them to their end; nothing is spooled or
//! shipped.

use crate::agent::{EXIT_FAILED, EXIT_USAGE};
use crate::clock::Clock;
use crate::config::Config;
use crate::counters::{Counters, Gauges, Sampler};
use crate::log;
use crate::ship::batch::{Batch, RAW_BYTES_MAX};
use crate::sources::log_file::place::modified_ns;
use crate::sources::lustre::capture::Capture;
use crate::sources::lustre::params::Params;
use crate::sources::samples::text;
use crate::sources::{self, Pass, Progress, Source};
use flate2::read::ZlibDecoder;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;

/// Of a capture of `lctl get_param`.
const CAPTURE_BYTES_MAX: usize = 512 << 20;

/// Prints the records, and last a sample with what was counted.
pub fn run(config: Config) -> ExitCode {
    let fail = |code: u8, text: &str| {
        log::error(text);
        ExitCode::from(code)
    };
    let logs = || {
        config
            .lwfs_client_logs
            .iter()
            .chain(&config.lwfs_server_logs)
            .chain(&config.syslog_logs)
    };
    if logs().next().is_none() && config.lctl.is_empty() {
        return fail(
            EXIT_USAGE,
            "--print: nothing to read; give --lwfs-log FILE or --lctl FILE, or name logs in --config FILE",
        );
    }
    let mut captures = Vec::new();
    for path in &config.lctl {
        match capture(path) {
            Ok(capture) => captures.push(capture),
            Err(why) => return fail(EXIT_FAILED, &format!("--lctl {}: {why}", path.display())),
        }
    }
    for log in logs() {
        let log = config.under_root(log);
        if let Err(why) = readable(&log) {
            return fail(
                EXIT_FAILED,
                &format!("{}: {why}; check with: ls -l {0}", log.display()),
            );
        }
    }
    match print(&config, captures, &mut BufWriter::new(io::stdout().lock())) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has seen enough.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => fail(EXIT_FAILED, &format!("standard output: {e}")),
    }
}

/// Whether a log can be read. `Err`: why not. A FIFO is not opened: nobody may ever write to it.
fn readable(log: &Path) -> Result<(), String> {
    let seen = log.metadata().map_err(|e| e.to_string())?;
    if !seen.is_file() {
        return Err("it is no regular file".into());
    }
    File::open(log).map(drop).map_err(|e| e.to_string())
}

/// A capture, and when it was made: as it says itself, or else its file. `Err`: what is wrong with it.
fn capture(path: &Path) -> Result<(Capture, i64), String> {
    let mut bytes = Vec::new();
    let seen = path.metadata().map_err(|e| e.to_string())?;
    readable(path)?;
    text::read(path, CAPTURE_BYTES_MAX, &mut bytes).map_err(|e| e.to_string())?;
    let capture = Capture::new(bytes);
    if capture.is_empty() {
        return Err("it holds no line NAME=; make one with: lctl get_param -R '*' > FILE".into());
    }
    let time_ns = capture.time_ns();
    Ok((capture, time_ns.unwrap_or_else(|| modified_ns(&seen))))
}

fn print(config: &Config, captures: Vec<(Capture, i64)>, out: &mut impl Write) -> io::Result<()> {
    let counters = Arc::new(Counters::default());
    let clock = Clock::start();
    let mut sampler = Sampler::new(clock.now().utc_ns());
    let mut batch = Batch::new(&config.node, 0, 1, config.batch_max_events, RAW_BYTES_MAX);
    let mut next = 1;
    let mut pass = Pass::new(clock.now(), true);
    let mut read = |sources: &mut [Box<dyn Source>], pass: &mut Pass| -> io::Result<()> {
        for source in sources {
            source.begin(pass);
            loop {
                let progress = source.read(pass, &mut batch);
                write_out(&mut batch, &mut next, out)?;
                source.committed();
                if progress == Progress::Done {
                    break;
                }
            }
        }
        Ok(())
    };
    read(&mut sources::logs(config, &counters), &mut pass)?;
    let now = Rc::new(RefCell::new(Capture::default()));
    let mut captured = sources::captured(&Params::Capture(now.clone()), &counters);
    for (capture, time_ns) in captures {
        now.replace(capture);
        pass.now = pass.now.told(time_ns);
        read(&mut captured, &mut pass)?;
    }
    let gauges = Gauges {
        spool_bytes: 0,
        rings: 0,
        ended: true,
    };
    let now_ns = clock.now().utc_ns();
    batch.push("sample", |out| {
        sampler.write(out, &config.node, now_ns, &counters, &gauges)
    });
    write_out(&mut batch, &mut next, out)?;
    out.flush()
}

/// Writes a batch's events, one a line, and begins the next batch.
fn write_out(batch: &mut Batch, next: &mut u64, out: &mut impl Write) -> io::Result<()> {
    let window = batch.finish()?;
    *next += window.events as u64;
    if window.events > 0 {
        // `2 W count 2 C length`, and of each event `2 J number length json`.
        let mut frames = BufReader::new(ZlibDecoder::new(&window.payload[12..]));
        while !frames.fill_buf()?.is_empty() {
            let mut head = [0; 10];
            frames.read_exact(&mut head)?;
            let [.., a, b, c, d] = head;
            let length = u32::from_be_bytes([a, b, c, d]).into();
            io::copy(&mut (&mut frames).take(length), out)?;
            out.write_all(b"\n")?;
        }
    }
    batch.restart(*next);
    Ok(())
}
