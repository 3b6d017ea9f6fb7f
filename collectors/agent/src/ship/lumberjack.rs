//! The lumberjack v2 client: sends the spool's windows, a few at a time, and takes acknowledgements.

use super::acks::{Acks, Open, Windows};
use super::reader::{Position, Reader};
use super::shared::Shared;
use crate::config::Server;
use crate::counters::Counters;
use crate::{info, sys, warn};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Windows sent ahead of their acknowledgement.
const OPEN_WINDOWS_MAX: usize = 4;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a read waits before it looks for new windows.
const READ_TIMEOUT: Duration = Duration::from_millis(50);
const IDLE_WAIT: Duration = Duration::from_secs(1);
/// A window buffer that grew beyond this gives its memory back.
const KEEP_BYTES: usize = 512 << 10;

pub struct Settings {
    pub server: Server,
    pub reconnect_min: Duration,
    pub reconnect_max: Duration,
    pub ack_timeout: Duration,
}

/// A connection, be it TCP or a Unix socket.
trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

pub struct Shipper {
    settings: Settings,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    reader: Reader,
    /// Where the first window that is not acknowledged begins.
    safe: Position,
    body: Vec<u8>,
    random: u64,
}

impl Shipper {
    pub fn new(settings: Settings, shared: Arc<Shared>, counters: Arc<Counters>) -> Shipper {
        let reader = Reader::new(shared.clone());
        let random = sys::random_u64().unwrap_or(1) | 1;
        Shipper {
            settings,
            shared,
            counters,
            reader,
            safe: Position::default(),
            body: Vec::new(),
            random,
        }
    }

    /// Ships until asked to stop. When stopping: until all is acknowledged or the server fails once.
    pub fn run(&mut self) {
        let mut pause = self.settings.reconnect_min;
        let (mut told, mut tried) = (false, false);
        loop {
            let acknowledged = self.counters.acknowledged.get();
            let result = self.connect().and_then(|stream| {
                tried = true;
                if told {
                    info!("connected", "connected to {} again", self.settings.server);
                    told = false;
                }
                self.session(stream)
            });
            let Err(e) = result else { break };
            self.counters.reconnects.add(1);
            if self.counters.acknowledged.get() > acknowledged {
                pause = self.settings.reconnect_min;
            }
            let (server, ms) = (&self.settings.server, pause.as_millis());
            if !std::mem::replace(&mut tried, true) {
                // Agent and server are often started together, in any order.
                info!(
                    "no server yet",
                    "server {server}: {e}; tried again in {ms} ms"
                );
            } else {
                warn!(
                    "server",
                    "server {server}: {e}; records wait in the spool, next try in {ms} ms; check that `bellrock server` runs"
                );
            }
            told = true;
            if self.shared.stopping() {
                break;
            }
            self.back_off(pause);
            pause = (pause * 2).min(self.settings.reconnect_max);
        }
        self.shared.save();
        self.shared.ended();
    }

    /// Waits between `pause` and half as long again, so that agents that lost their server together do not return together.
    fn back_off(&mut self, pause: Duration) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.shared
            .wait_for_stop(pause + pause.mul_f64((self.random % 1000) as f64 / 2000.0));
    }

    fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let addresses = match &self.settings.server {
            Server::Unix(path) => {
                let stream = sys::connect_unix(path)?;
                stream.set_read_timeout(Some(READ_TIMEOUT))?;
                stream.set_write_timeout(Some(self.settings.ack_timeout))?;
                return Ok(Box::new(stream));
            }
            Server::Tcp(addresses) => addresses,
        };
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            match TcpStream::connect_timeout(address, CONNECT_TIMEOUT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(READ_TIMEOUT))?;
                    stream.set_write_timeout(Some(self.settings.ack_timeout))?;
                    return Ok(Box::new(stream));
                }
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// `Ok`: asked to stop, and all is acknowledged.
    fn session(&mut self, mut stream: Box<dyn Stream>) -> io::Result<()> {
        self.reader.seek(self.safe);
        let mut open = Windows::default();
        let mut acks = Acks::new();
        let mut heard = Instant::now();
        loop {
            // Looked at first: what was appended before the stop is then seen below.
            let stopping = self.shared.stopping();
            while open.len() < OPEN_WINDOWS_MAX {
                let Some((window, at)) = self.reader.next(&mut self.body, &self.counters)? else {
                    break;
                };
                stream.write_all(&self.body[at..])?;
                if open.is_empty() {
                    heard = Instant::now();
                }
                self.counters.sent.add(window.events as u64);
                open.push(Open {
                    events: window.events,
                    number: window.number,
                    after: window.after,
                });
            }
            if self.body.capacity() > KEEP_BYTES {
                self.body = Vec::new();
            }
            if open.is_empty() {
                self.shared.acknowledge(self.reader.passed);
                if stopping {
                    return Ok(());
                }
                self.shared.wait_for_more(self.reader.passed, IDLE_WAIT);
                continue;
            }
            match acks.fill(&mut stream) {
                Ok(()) => heard = Instant::now(),
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    if heard.elapsed() > self.settings.ack_timeout {
                        return Err(io::Error::new(
                            io::ErrorKind::TimedOut,
                            "no acknowledgement in time",
                        ));
                    }
                }
                Err(e) => return Err(e),
            }
            while let Some(number) = acks.next()? {
                if let Some(done) = open.acknowledge(number)? {
                    self.counters.acknowledged.add(done.events as u64);
                    self.safe = done.after;
                    self.shared.acknowledge(done.number);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "lumberjack_tests.rs"]
mod tests;
