//! Connections to the server: a Unix socket, TCP on this machine, or TLS to any.

use super::shared::Shared;
use super::tls::Tls;
use crate::config::{Config, Server};
use crate::sys;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a read waits before it looks for new windows.
const READ_TIMEOUT: Duration = Duration::from_millis(50);

/// A connection. A read waits for a moment only, and answers `WouldBlock` or `TimedOut` then.
pub trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// Whether the other side closed the connection.
pub fn is_hang_up(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(
        error.kind(),
        UnexpectedEof | ConnectionReset | BrokenPipe | ConnectionAborted
    )
}

/// Makes connections. Owned by the shipper.
pub struct Connector {
    server: Server,
    /// Only where it is configured: what belongs to TLS takes memory.
    tls: Option<Tls>,
    write_timeout: Duration,
}

impl Connector {
    /// By the settings; reads the certificates where there are any.
    pub fn new(config: &Config) -> Result<Connector, String> {
        let server = config.server()?;
        let tls = match &server {
            Server::Tcp { host, .. } if config.tls.is_set() => {
                Some(Tls::open(&config.tls, host, &config.node)?)
            }
            _ => None,
        };
        Ok(Connector {
            server,
            tls,
            write_timeout: Duration::from_secs(config.ack_timeout_s),
        })
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Takes over certificates that changed. Answers whether a connection should be made anew for them.
    pub fn look(&mut self) -> bool {
        self.tls.as_mut().is_some_and(Tls::look)
    }

    /// Why a connection failed, and what to do.
    pub fn explain(&self, error: &io::Error) -> String {
        if let Some(text) = self.tls.as_ref().and_then(|tls| tls.explain(error)) {
            return text;
        }
        let plain = matches!(self.server, Server::Tcp { .. }) && self.tls.is_none();
        let hint = match plain && is_hang_up(error) {
            true => ", and whether it wants TLS",
            false => "",
        };
        format!("{error}; check that `bellrock server` runs{hint}")
    }

    /// Connects. A name is looked up each time, since a server may move, and all its addresses are tried.
    pub fn connect(&mut self, shared: &Shared) -> io::Result<Box<dyn Stream>> {
        self.look();
        let addresses = match &self.server {
            Server::Unix(path) => {
                let stream = sys::connect_unix(path)?;
                stream.set_read_timeout(Some(READ_TIMEOUT))?;
                stream.set_write_timeout(Some(self.write_timeout))?;
                return Ok(Box::new(stream));
            }
            Server::Tcp { host, port } => crate::config::resolve(host, *port)?,
        };
        // Without TLS a name must not lead elsewhere later on.
        let allowed = |a: &SocketAddr| self.tls.is_some() || a.ip().is_loopback();
        let mut last = io::Error::new(
            io::ErrorKind::AddrNotAvailable,
            "its name has no address that may be used; without [tls] only one of this machine may",
        );
        for address in addresses.iter().filter(|a| allowed(a)) {
            match self.connect_to(address, shared) {
                Ok(stream) => return Ok(stream),
                Err(e) => last = e,
            }
            if shared.stopping() {
                break;
            }
        }
        Err(last)
    }

    fn connect_to(&self, address: &SocketAddr, shared: &Shared) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect_timeout(address, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_write_timeout(Some(self.write_timeout))?;
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some(tls) => Ok(Box::new(tls.shake_hands(stream, shared)?)),
        }
    }
}
