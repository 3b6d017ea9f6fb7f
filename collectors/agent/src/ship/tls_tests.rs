use super::super::certificates::tests::site;
use super::super::spool::Spool;
use super::*;
use crate::counters::Counters;
use crate::testing::temp_dir;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, Stream};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{mpsc, Arc};
use std::thread;

const READ_TIMEOUT: Duration = Duration::from_millis(50);

/// A server that wants certificates of the authority in `dir`.
fn server_config(dir: &Path) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_file(dir.join("ca.crt")).unwrap();
    roots.add(ca).unwrap();
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    let chain = vec![CertificateDer::from_pem_file(dir.join("s.crt")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(dir.join("s.key")).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(chain, key);
    Arc::new(config.unwrap())
}

fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    (client, listener.accept().unwrap().0)
}

fn spool(name: &str) -> Spool {
    let counters = Arc::new(Counters::default());
    Spool::open(&temp_dir(name), 1 << 30, 4000, &counters, |_, _| ()).unwrap()
}

#[test]
fn a_read_waits_for_a_moment_only_even_if_half_a_record_comes() {
    let (dir, settings) = site("tls-stream");
    let tls = Tls::open(&settings, "s", "a").unwrap();
    let (client, mut peer) = connected();
    let (go, gone) = mpsc::channel();
    let server = thread::spawn(move || {
        let mut connection = ServerConnection::new(server_config(&dir)).unwrap();
        let mut got = vec![0; 100_000];
        let mut stream = Stream::new(&mut connection, &mut peer);
        stream.read_exact(&mut got).unwrap();
        assert!(got.iter().all(|b| *b == 7));
        assert_eq!(connection.peer_certificates().unwrap().len(), 1);
        gone.recv().unwrap();
        // A record in two halves, and the end in between.
        connection.writer().write_all(b"2A\0\0\0\x03").unwrap();
        let mut record = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut record).unwrap();
        }
        let (first, second) = record.split_at(record.len() / 2);
        peer.write_all(first).unwrap();
        gone.recv().unwrap();
        peer.write_all(second).unwrap();
        // The client says that it goes.
        let closed = Stream::new(&mut connection, &mut peer).read(&mut [0; 8]);
        assert_eq!(closed.unwrap(), 0);
    });
    let spool = spool("tls-stream-spool");
    let mut stream = tls.shake_hands(client, &spool.shared()).unwrap();
    stream.write_all(&[7; 100_000]).unwrap();
    let mut answer = [0; 384];
    let mut waits = |stream: &mut TlsStream| {
        let e = stream.read(&mut answer).unwrap_err();
        assert!(
            matches!(
                e.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
            ),
            "{e:?}"
        );
    };
    waits(&mut stream);
    go.send(()).unwrap();
    (0..5).for_each(|_| waits(&mut stream));
    go.send(()).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let got = loop {
        match stream.read(&mut answer) {
            Ok(got) => break got,
            Err(e) => assert!(Instant::now() < until, "{e:?}"),
        }
    };
    assert_eq!(&answer[..got], b"2A\0\0\0\x03");
    drop(stream);
    server.join().unwrap();
}

#[test]
fn a_peer_that_answers_byte_by_byte_holds_no_stop_up() {
    let (_, settings) = site("tls-slow");
    let tls = Tls::open(&settings, "s", "a").unwrap();
    let (client, mut peer) = connected();
    // A handshake record of 16 KiB that takes minutes.
    let slow = thread::spawn(move || {
        let header = [22, 3, 3, 64, 0, 2, 0, 63, 252];
        for byte in header.into_iter().chain(std::iter::repeat(0)) {
            if peer.write_all(&[byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    });
    let spool = spool("tls-slow-spool");
    let shared = spool.shared();
    shared.stop();
    let begin = Instant::now();
    let error = tls.shake_hands(client, &shared).err().unwrap();
    assert!(begin.elapsed() < HANDSHAKE_TIMEOUT, "{error}");
    assert!(error.to_string().contains("asked to stop"), "{error}");
    slow.join().unwrap();
}

#[test]
fn a_server_of_another_name_is_told_with_both_names() {
    let (dir, settings) = site("tls-name");
    let tls = Tls::open(&settings, "elsewhere.example", "a").unwrap();
    let (client, mut peer) = connected();
    let server = thread::spawn(move || {
        let mut connection = ServerConnection::new(server_config(&dir)).unwrap();
        let error = Stream::new(&mut connection, &mut peer).read(&mut [0; 8]);
        assert!(error.is_err());
    });
    let spool = spool("tls-name-spool");
    let error = tls.shake_hands(client, &spool.shared()).err().unwrap();
    let text = tls.explain(&error).unwrap();
    assert!(text.contains("not for elsewhere.example but for"), "{text}");
    assert!(text.contains("\"s\""), "{text}");
    server.join().unwrap();
}
