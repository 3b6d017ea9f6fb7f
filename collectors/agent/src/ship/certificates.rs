//! The certificate that this node shows, its key, and the authorities of servers: read from files, and again when these change.

use crate::config;
use crate::sys::{self, utc};
use crate::{info, warn};
use rustls::client::{ClientConfig, Resumption};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::{Error, RootCertStore};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use webpki::{EndEntityCert, KeyUsage};

const FILE_BYTES_MAX: u64 = 1 << 20;
/// A certificate's end is told when so much of its life is left, or this much time if that is less; and then once a day.
const WARN_LIFE: u64 = 3;
const WARN_S: u64 = 7 * 86_400;
const WARN_EVERY: Duration = Duration::from_secs(86_400);
/// Later than any certificate ends.
const NEVER_S: u64 = 1 << 40;

/// Device, inode, size, and times of the last write and change: they differ once a file was written or replaced.
type Seen = Option<[i64; 7]>;

struct Loaded {
    config: Arc<ClientConfig>,
    /// Begin and end of the own certificate, s since the epoch.
    begin: u64,
    end: u64,
}

pub struct Certificates {
    pub ca: PathBuf,
    pub cert: PathBuf,
    key: PathBuf,
    node: String,
    seen: [Seen; 3],
    loaded: Loaded,
    end_told: Option<Instant>,
}

impl Certificates {
    /// Reads the files; the error says which cannot be used, why, and what to do.
    pub fn open(settings: &config::Tls, node: &str) -> Result<Certificates, String> {
        let (ca, cert, key) = (&settings.ca, &settings.cert, &settings.key);
        // Looked at before they are read: what is written in between is found at the next look.
        let seen = [see(ca), see(cert), see(key)];
        Ok(Certificates {
            loaded: load(ca, cert, key, node)?,
            ca: ca.clone(),
            cert: cert.clone(),
            key: key.clone(),
            node: node.into(),
            seen,
            end_told: None,
        })
    }

    pub fn config(&self) -> Arc<ClientConfig> {
        self.loaded.config.clone()
    }

    /// When the own certificate ends, s since the epoch.
    pub fn end(&self) -> u64 {
        self.loaded.end
    }

    /// Whether the own certificate has ended by this machine's clock.
    pub fn has_ended(&self) -> bool {
        UnixTime::now().as_secs() >= self.loaded.end
    }

    /// Takes over files that changed; answers whether it did. Those that cannot be used may be half written: what was there before is
    /// kept, and they are tried again at the next look.
    pub fn look(&mut self) -> bool {
        let seen = [see(&self.ca), see(&self.cert), see(&self.key)];
        let changed = seen != self.seen;
        if changed {
            match load(&self.ca, &self.cert, &self.key, &self.node) {
                Ok(loaded) => {
                    info!(
                        "certificates",
                        "took over new certificates; {} ends at {}",
                        self.cert.display(),
                        utc(loaded.end)
                    );
                    (self.loaded, self.seen, self.end_told) = (loaded, seen, None);
                    return true;
                }
                Err(e) => warn!("bad certificates", "{e}; the ones before are kept"),
            }
        }
        self.tell_end();
        false
    }

    fn tell_end(&mut self) {
        let Loaded { begin, end, .. } = self.loaded;
        let left = end.saturating_sub(UnixTime::now().as_secs());
        let soon = (end.saturating_sub(begin) / WARN_LIFE).min(WARN_S);
        if left > soon || self.end_told.is_some_and(|t| t.elapsed() < WARN_EVERY) {
            return;
        }
        self.end_told = Some(Instant::now());
        warn!(
            "certificate ends",
            "the certificate {} ends at {}; put a new one and its key there, they are taken over without a restart",
            self.cert.display(),
            utc(end)
        );
    }
}

fn see(path: &Path) -> Seen {
    let m = fs::metadata(path).ok()?;
    Some([
        m.dev() as i64,
        m.ino() as i64,
        m.size() as i64,
        m.mtime(),
        m.mtime_nsec(),
        m.ctime(),
        m.ctime_nsec(),
    ])
}

fn load(ca: &Path, cert: &Path, key: &Path, node: &str) -> Result<Loaded, String> {
    let mut roots = RootCertStore::empty();
    for root in certificates("ca", ca)? {
        roots
            .add(root)
            .map_err(|e| format!("tls.ca: {}: {e}; {}", ca.display(), openssl(ca)))?;
    }
    let chain = certificates("cert", cert)?;
    let (begin, end) = check_own(&chain[0], cert, node)?;
    let key_der = private_key(key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_root_certificates(roots)
                .with_client_auth_cert(chain, key_der)
        });
    let mut config = config.map_err(|e| match e {
        Error::InconsistentKeys(_) => format!(
            "tls.key: {} is not the key of {}; put the two that belong together there",
            key.display(),
            cert.display()
        ),
        e => format!("tls.key: {}: {e}", key.display()),
    })?;
    // A resumed session would be believed without a look at the certificates.
    config.resumption = Resumption::disabled();
    Ok(Loaded {
        config: Arc::new(config),
        begin,
        end,
    })
}

fn openssl(path: &Path) -> String {
    format!(
        "look with: openssl x509 -noout -text -in {}",
        path.display()
    )
}

fn read(setting: &str, path: &Path) -> Result<(fs::Metadata, Vec<u8>), String> {
    let read = || -> io::Result<(fs::Metadata, Vec<u8>)> {
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("no regular file"));
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok((metadata, bytes))
    };
    read().map_err(|e| {
        format!(
            "tls.{setting}: {}: {e}; check with: ls -l {0}",
            path.display()
        )
    })
}

fn certificates(setting: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(setting, path)?.1;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|e| format!("tls.{setting}: {}: {e}", path.display()))?;
    if found.is_empty() {
        return Err(format!(
            "tls.{setting}: {}: no certificate in PEM; {}",
            path.display(),
            openssl(path)
        ));
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let (metadata, bytes) = read("key", path)?;
    if metadata.mode() & 0o027 != 0 {
        return Err(format!(
            "tls.key: {}: others than its owner may read or change it; run: chmod 600 {0}",
            path.display()
        ));
    }
    if ![0, sys::effective_uid()].contains(&metadata.uid()) {
        return Err(format!(
            "tls.key: {}: belongs to user {}; run: chown {} {0}",
            path.display(),
            metadata.uid(),
            sys::effective_uid()
        ));
    }
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|e| {
        format!(
            "tls.key: {}: no private key in PEM without a password: {e}; look with: openssl pkey -noout -in {0}",
            path.display()
        )
    })
}

/// Begin and end of the node's own certificate; refuses one that no server would take. That it has ended is no reason: it will be renewed.
fn check_own(der: &CertificateDer, path: &Path, node: &str) -> Result<(u64, u64), String> {
    let refused = |e: webpki::Error| {
        format!(
            "tls.cert: {}: not a client's certificate: {e}; {}",
            path.display(),
            openssl(path)
        )
    };
    let certificate = EndEntityCert::try_from(der).map_err(refused)?;
    // Asked at the beginning and at the end of time, the verifier tells the period; without any authority it never gets further than that.
    let ask = |s: u64| {
        let time = UnixTime::since_unix_epoch(Duration::from_secs(s));
        let algorithms = webpki::ALL_VERIFICATION_ALGS;
        let usage = KeyUsage::client_auth();
        match certificate.verify_for_usage(algorithms, &[], &[], time, usage, None, None) {
            Ok(_) => webpki::Error::UnknownIssuer,
            Err(e) => e,
        }
    };
    let begin = match ask(0) {
        webpki::Error::CertNotValidYet { not_before, .. } => not_before.as_secs(),
        _ => 0,
    };
    let end = match ask(NEVER_S) {
        webpki::Error::CertExpired { not_after, .. } => not_after.as_secs(),
        e => return Err(refused(e)),
    };
    match ask(begin) {
        webpki::Error::UnknownIssuer => {}
        e => return Err(refused(e)),
    }
    let names: Vec<&str> = certificate.valid_dns_names().collect();
    if !names.is_empty() && !names.contains(&node) {
        warn!(
            "certificate's names",
            "the certificate {} is for [{}], and this node's records are of node {node}: the server will refuse them; set `node`, or issue another",
            path.display(),
            names.join(", ")
        );
    }
    Ok((begin, end))
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
pub(super) mod tests;
