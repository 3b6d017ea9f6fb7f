//! TLS to the server: certificates that are taken over when their files change, the handshake, and what failed in words.

use super::certificates::Certificates;
use super::connect::is_hang_up;
use super::shared::Shared;
use crate::config;
use crate::sys::utc;
use rustls::client::ClientConnection;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Longest handshake, from the first byte.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads from a connection that failed, in search of the peer's reason.
const LAST_READS_MAX: u32 = 16;

/// Characters of a message, which may quote a whole certificate of a server's.
const TEXT_MAX: usize = 1000;

/// How connections are secured. Owned by the shipper.
pub struct Tls {
    certificates: Certificates,
    /// Whom the server's certificate must name.
    name: ServerName<'static>,
}

impl Tls {
    /// Reads the files; `host` is the server's name where the settings have no other.
    pub fn open(settings: &config::Tls, host: &str, node: &str) -> Result<Tls, String> {
        let name = match settings.server_name.as_str() {
            "" => host,
            name => name,
        };
        let name = ServerName::try_from(name.to_string())
            .map_err(|e| format!("tls.server_name: {name:?}: {e}; give a DNS name or an address that the server's certificate has"))?;
        Ok(Tls {
            certificates: Certificates::open(settings, node)?,
            name,
        })
    }

    /// Takes over files that changed; answers whether it did.
    pub fn look(&mut self) -> bool {
        self.certificates.look()
    }

    /// Makes a TCP connection a TLS one.
    pub fn shake_hands(&self, mut tcp: TcpStream, shared: &Shared) -> io::Result<TlsStream> {
        let mut connection =
            ClientConnection::new(self.certificates.config(), self.name.clone()).map_err(failed)?;
        let begin = Instant::now();
        // Step by step, so that a peer that sends a byte now and then does not make it last.
        while connection.is_handshaking() || connection.wants_write() {
            if begin.elapsed() > HANDSHAKE_TIMEOUT {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the TLS handshake took too long; does a TLS server listen there?",
                ));
            }
            if shared.stopping() && begin.elapsed() > HANDSHAKE_TIMEOUT / 10 {
                return Err(io::Error::other("asked to stop during the TLS handshake"));
            }
            if connection.wants_write() {
                connection.write_tls(&mut tcp)?;
            } else {
                receive(&mut connection, &mut tcp).or_else(|e| match e.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(1),
                    _ => Err(e),
                })?;
            }
        }
        Ok(TlsStream { connection, tcp })
    }

    /// What failed and what to do, where TLS has to do with it.
    pub fn explain(&self, error: &io::Error) -> Option<String> {
        let certificates = &self.certificates;
        let own = certificates.cert.display();
        let text = match error.get_ref().and_then(|e| e.downcast_ref::<Error>()) {
            Some(Error::InvalidCertificate(e)) => self.explain_server(e),
            Some(Error::AlertReceived(AlertDescription::CertificateExpired)) => format!(
                "the server finds the certificate {own} expired: it ends at {}; renew it, or compare the clocks of the two machines",
                utc(certificates.end())
            ),
            Some(Error::AlertReceived(AlertDescription::UnknownCA)) => format!(
                "the server does not know the authority of the certificate {own}; its ingest.tls_client_ca must hold that"
            ),
            Some(Error::AlertReceived(
                alert @ (AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateRequired
                | AlertDescription::HandshakeFailure
                | AlertDescription::AccessDenied),
            )) => format!(
                "the server does not take the certificate {own} ({alert:?}); the server's log says why"
            ),
            Some(Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
            )) => {
                "what listens there does not speak TLS; check `server`, and that the server has ingest.tls_cert".into()
            }
            Some(other) => format!("TLS: {other}; the server's log may say why"),
            None if certificates.has_ended() => error.to_string(),
            None if is_hang_up(error) => {
                "the server closed the connection; the server's log says why: a certificate that ended or does not name this node, records of another node".into()
            }
            None => return None,
        };
        let text: String = text.chars().take(TEXT_MAX).collect();
        Some(match certificates.has_ended() {
            true => format!("{text}; this node's own certificate {own} ended at {}: renew it, it is taken over without a restart", utc(certificates.end())),
            false => text,
        })
    }

    fn explain_server(&self, error: &CertificateError) -> String {
        match error {
            CertificateError::ExpiredContext { time, not_after } => format!(
                "the server's certificate, or its authority's, ended at {}, and this node's clock says {}; renew it on the server, or set the clock",
                utc(not_after.as_secs()),
                utc(time.as_secs())
            ),
            CertificateError::NotValidYetContext { time, not_before } => format!(
                "the server's certificate, or its authority's, begins at {}, and this node's clock says {}; set the clock",
                utc(not_before.as_secs()),
                utc(time.as_secs())
            ),
            CertificateError::UnknownIssuer => format!(
                "the server's certificate is of an authority that is not in {}; put that authority's certificate there",
                self.certificates.ca.display()
            ),
            CertificateError::NotValidForNameContext { presented, .. } => format!(
                "the server's certificate is not for {} but for [{}]; set `server` or tls.server_name to one of these, or issue another",
                self.name.to_str(),
                presented.join(", ")
            ),
            other => format!("the server's certificate is not taken: {other}"),
        }
    }
}

fn failed(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Takes what has come; answers how many bytes, and an error at the end.
fn receive(connection: &mut ClientConnection, tcp: &mut TcpStream) -> io::Result<usize> {
    let got = connection.read_tls(tcp)?;
    if let Err(e) = connection.process_new_packets() {
        // The peer is told, if it still listens.
        let _ = connection.write_tls(tcp);
        return Err(failed(e));
    }
    if got == 0 {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the connection was closed",
        ));
    }
    Ok(got)
}

/// A connection after its handshake.
pub struct TlsStream {
    connection: ClientConnection,
    tcp: TcpStream,
}

impl TlsStream {
    fn flush_out(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.tcp)?;
        }
        Ok(())
    }

    /// The peer's reason, where it gave one before it closed the connection; else `error`.
    fn reason(&mut self, error: io::Error) -> io::Error {
        for _ in 0..LAST_READS_MAX {
            match receive(&mut self.connection, &mut self.tcp) {
                Ok(_) => continue,
                Err(e) if e.kind() == io::ErrorKind::InvalidData => return e,
                Err(_) => break,
            }
        }
        error
    }
}

impl Read for TlsStream {
    /// One look at the connection at the most, so that a peer which sends a record byte by byte holds nobody up.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.connection.reader().read(buffer) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
        self.flush_out()?;
        receive(&mut self.connection, &mut self.tcp)?;
        self.connection.reader().read(buffer)
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self
            .flush_out()
            .and_then(|()| self.connection.writer().write(bytes))
            .and_then(|taken| self.flush_out().map(|()| taken));
        written.map_err(|e| self.reason(e))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flush_out()
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        // A courtesy: what was not acknowledged is sent again in any case.
        self.connection.send_close_notify();
        if self.tcp.set_nonblocking(true).is_ok() {
            let _ = self.flush_out();
        }
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
