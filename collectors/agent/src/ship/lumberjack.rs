//! The lumberjack v2 client: sends the spool's windows, a few at a time, and takes acknowledgements.

use super::acks::{Acks, Open, Windows};
use super::connect::{Connector, Stream};
use super::reader::{Position, Reader};
use super::shared::Shared;
use crate::counters::Counters;
use crate::{info, sys, warn};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Windows sent ahead of their acknowledgement.
const OPEN_WINDOWS_MAX: usize = 4;
/// How often the certificates are looked at during a connection.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const IDLE_WAIT: Duration = Duration::from_secs(1);
/// A window buffer that grew beyond this gives its memory back.
const KEEP_BYTES: usize = 512 << 10;

pub struct Settings {
    pub reconnect_min: Duration,
    pub reconnect_max: Duration,
    pub ack_timeout: Duration,
}

/// Why a connection came to its end without an error.
enum End {
    /// Asked to stop, and all is acknowledged.
    Stopped,
    /// There are new certificates, and nothing is open on the connection with the old ones.
    Renew,
}

pub struct Shipper {
    settings: Settings,
    connector: Connector,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    reader: Reader,
    /// Where the first window that is not acknowledged begins.
    safe: Position,
    body: Vec<u8>,
    random: u64,
    /// A loss of the server was told, and its return was not.
    told: bool,
}

/// Whether nobody listens there, be it for now.
fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
    )
}

impl Shipper {
    pub fn new(
        settings: Settings,
        connector: Connector,
        shared: Arc<Shared>,
        counters: Arc<Counters>,
    ) -> Shipper {
        let reader = Reader::new(shared.clone());
        let random = sys::random_u64().unwrap_or(1) | 1;
        Shipper {
            settings,
            connector,
            shared,
            counters,
            reader,
            safe: Position::default(),
            body: Vec::new(),
            random,
            told: false,
        }
    }

    /// Ships until asked to stop. When stopping: until all is acknowledged or the server fails once.
    pub fn run(&mut self) {
        let mut pause = self.settings.reconnect_min;
        let mut tried = false;
        loop {
            let acknowledged = self.counters.acknowledged.get();
            let result = self.connector.connect(&self.shared);
            let connected = result.is_ok();
            let e = match result.and_then(|stream| self.session(stream)) {
                Ok(End::Stopped) => break,
                Ok(End::Renew) => continue,
                Err(e) => e,
            };
            self.counters.reconnects.add(1);
            if self.counters.acknowledged.get() > acknowledged {
                pause = self.settings.reconnect_min;
            }
            let (server, ms) = (self.connector.server(), pause.as_millis());
            let first = !std::mem::replace(&mut tried, true) && !connected;
            if first && is_absence(&e) {
                // Agent and server are often started together, in any order.
                info!(
                    "no server yet",
                    "server {server}: {e}; tried again in {ms} ms"
                );
            } else {
                let why = self.connector.explain(&e);
                warn!(
                    "server",
                    "server {server}: {why}; records wait in the spool, next try in {ms} ms"
                );
            }
            self.told = true;
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

    fn session(&mut self, mut stream: Box<dyn Stream>) -> io::Result<End> {
        self.reader.seek(self.safe);
        let mut open = Windows::default();
        let mut acks = Acks::new();
        let mut heard = Instant::now();
        let (mut looked, mut renew) = (Instant::now(), false);
        loop {
            if !renew && looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                renew = self.connector.look();
            }
            // Looked at first: what was appended before the stop is then seen below.
            let stopping = self.shared.stopping();
            while !renew && open.len() < OPEN_WINDOWS_MAX {
                let Some(window) = self.reader.next(&mut self.body, &self.counters)? else {
                    break;
                };
                stream.write_all(&self.body)?;
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
                if renew {
                    return Ok(End::Renew);
                }
                if stopping {
                    return Ok(End::Stopped);
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
                    if std::mem::take(&mut self.told) {
                        // Not before: with TLS 1.3 a server refuses after the handshake.
                        info!(
                            "connected",
                            "{} takes records again",
                            self.connector.server()
                        );
                    }
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
