use super::super::batch::{open_window, Batch};
use super::super::spool::Spool;
use super::*;
use crate::config::Config;
use crate::event;
use crate::testing::{temp_dir, Random};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

/// Spools `windows` windows of three events each and ships them to whoever listens.
struct Fixture {
    spool: Spool,
    batch: Batch,
    counters: Arc<Counters>,
    listener: TcpListener,
}

impl Fixture {
    fn new(name: &str) -> Fixture {
        let counters = Arc::new(Counters::default());
        let spool = Spool::open(&temp_dir(name), 1 << 30, 4000, &counters, |_, _| ()).unwrap();
        let batch = Batch::new("n", spool.boot(), 1, 100, 1 << 20);
        Fixture {
            spool,
            batch,
            counters,
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
        }
    }

    fn append(&mut self, windows: u64) {
        for _ in 0..windows {
            for i in 0..3 {
                assert!(self.batch.push("x", |out| event::integer(out, "i", i)));
            }
            self.spool
                .append(&self.batch.finish().unwrap(), |_, _| ())
                .unwrap();
            self.batch.restart(self.spool.next_seq());
        }
    }

    fn ship(&self) -> thread::JoinHandle<()> {
        let settings = Settings {
            reconnect_min: Duration::from_millis(2),
            reconnect_max: Duration::from_millis(10),
            ack_timeout: Duration::from_millis(400),
        };
        let connector = connector(self.listener.local_addr().unwrap());
        let (shared, counters) = (self.spool.shared(), self.counters.clone());
        let mut shipper = Shipper::new(settings, connector, shared, counters);
        thread::spawn(move || shipper.run())
    }
}

fn connector(address: SocketAddr) -> Connector {
    let config = Config {
        server: address.to_string(),
        ack_timeout_s: 1,
        ..Config::default()
    };
    Connector::new(&config).unwrap()
}

fn read_window(stream: &mut TcpStream) -> io::Result<Vec<u64>> {
    let mut bytes = vec![0; 12];
    stream.read_exact(&mut bytes)?;
    let length = u32::from_be_bytes(bytes[8..12].try_into().unwrap()) as usize;
    bytes.resize(12 + length, 0);
    stream.read_exact(&mut bytes[12..])?;
    Ok(open_window(&bytes)
        .iter()
        .map(|e| e["seq"].as_u64().unwrap())
        .collect())
}

fn ack(stream: &mut TcpStream, number: u32) -> io::Result<()> {
    let mut frame = b"2A".to_vec();
    frame.extend(number.to_be_bytes());
    stream.write_all(&frame)
}

/// A server that keeps nothing it has not acknowledged, misbehaves at random, and drops duplicates.
#[test]
fn nothing_is_lost_to_a_server_that_drops_connections_and_acknowledges_in_parts() {
    const WINDOWS: u64 = 120;
    let mut f = Fixture::new("drops");
    f.append(WINDOWS / 2);
    let listener = f.listener.try_clone().unwrap();
    let (done, finished) = mpsc::channel();
    let server = thread::spawn(move || {
        let mut random = Random::new(3);
        let mut high_water = 0;
        while high_water < WINDOWS * 3 {
            let (mut stream, _) = listener.accept().unwrap();
            while let Ok(seqs) = read_window(&mut stream) {
                if random.below(8) == 0 {
                    break; // without having stored it
                }
                assert!(
                    seqs[0] <= high_water + 1,
                    "a gap: {} after {high_water}",
                    seqs[0]
                );
                high_water = high_water.max(seqs[2]);
                let result = match random.below(6) {
                    0 => break, // stored, not acknowledged
                    1 => ack(&mut stream, 0)
                        .and(ack(&mut stream, 2))
                        .and(ack(&mut stream, 3)),
                    2 => ack(&mut stream, 1).and(Err(io::ErrorKind::Other.into())),
                    3 => {
                        // In crumbs.
                        let frame = [b'2', b'A', 0, 0, 0, 3];
                        frame.iter().try_for_each(|b| stream.write_all(&[*b]))
                    }
                    _ => ack(&mut stream, 3),
                };
                if result.is_err() || high_water >= WINDOWS * 3 {
                    break;
                }
            }
            // A connection that ended in the middle of the last window must not count as an acknowledgement.
        }
        done.send(()).unwrap();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            while read_window(&mut stream).is_ok() {
                ack(&mut stream, 3).unwrap();
            }
        }
    });
    let shipper = f.ship();
    f.append(WINDOWS / 2);
    finished
        .recv_timeout(Duration::from_secs(30))
        .expect("everything arrives");
    // Not stopped before: a shipper that is to stop takes one lost connection for reason enough.
    let until = Instant::now() + Duration::from_secs(20);
    while f.counters.acknowledged.get() < WINDOWS * 3 && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    f.spool.shared().stop();
    assert!(f.spool.shared().wait_for_end(Duration::from_secs(20)));
    shipper.join().unwrap();
    assert_eq!(f.counters.acknowledged.get(), WINDOWS * 3);
    assert!(f.counters.sent.get() > WINDOWS * 3, "some were sent twice");
    assert!(f.counters.reconnects.get() > 0);
    drop(server); // it waits for a connection that never comes, and ends with the process
}

#[test]
fn a_hostile_or_silent_peer_is_left_and_never_counts_as_an_acknowledgement() {
    let mut f = Fixture::new("hostile");
    f.append(1);
    let shipper = f.ship();
    let answers: [&[u8]; 8] = [
        b"2A\0\0\0\x04",                 // more than was sent
        b"2A\xff\xff\xff\xff",           // much more
        b"1A\0\0\0\x03",                 // another version
        b"HTTP/1.1 400 Bad Request\r\n", // another protocol
        b"\x15\x03\x03\0\x02\x02\x46",   // TLS
        b"2A\0\0\0\x02\x32A\0\0\0\x01",  // going back
        b"2A\0\0",                       // cut off
        b"",                             // nothing: the time runs out
    ];
    for answer in answers {
        let (mut stream, _) = f.listener.accept().unwrap();
        assert_eq!(read_window(&mut stream).unwrap(), [1, 2, 3]);
        stream.write_all(answer).unwrap();
        if answer.len() == 4 {
            continue;
        }
        // It hangs up by itself.
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let hung_up = stream
            .read(&mut [0; 1])
            .map_or_else(|e| e.kind() != io::ErrorKind::WouldBlock, |n| n == 0);
        assert!(hung_up, "{answer:?}");
        assert_eq!(f.counters.acknowledged.get(), 0);
    }
    let (mut stream, _) = f.listener.accept().unwrap();
    read_window(&mut stream).unwrap();
    ack(&mut stream, 3).unwrap();
    f.spool.shared().stop();
    assert!(f.spool.shared().wait_for_end(Duration::from_secs(10)));
    shipper.join().unwrap();
    assert_eq!(f.counters.reconnects.get(), answers.len() as u64);
}

#[test]
fn a_stop_without_a_server_ends_at_once() {
    let mut f = Fixture::new("away");
    f.append(1);
    let address = f.listener.local_addr().unwrap();
    f.listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let settings = Settings {
        reconnect_min: Duration::from_secs(30),
        reconnect_max: Duration::from_secs(30),
        ack_timeout: Duration::from_secs(30),
    };
    let (shared, counters) = (f.spool.shared(), f.counters.clone());
    let mut shipper = Shipper::new(settings, connector(address), shared, counters);
    let thread = thread::spawn(move || shipper.run());
    let begin = Instant::now();
    f.spool.shared().stop();
    assert!(
        !f.spool.shared().wait_for_end(Duration::from_secs(20)),
        "nobody acknowledged"
    );
    assert!(begin.elapsed() < Duration::from_secs(10));
    thread.join().unwrap();
}

#[test]
fn all_addresses_of_a_name_are_tried() {
    let f = Fixture::new("names");
    // What localhost is differs by machine: one of them answers at its first address, the other at its second.
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(address) else {
            continue; // no IPv6 here
        };
        let here = listener.local_addr().unwrap();
        let known = crate::config::resolve("localhost", here.port()).unwrap();
        if !known.contains(&here) {
            continue;
        }
        let config = Config {
            server: format!("localhost:{}", here.port()),
            ..Config::default()
        };
        let mut connector = Connector::new(&config).unwrap();
        assert!(connector.connect(&f.spool.shared()).is_ok(), "{here}");
        drop(listener);
        let gone = connector.connect(&f.spool.shared()).err().unwrap();
        assert!(is_absence(&gone), "{gone}");
    }
}
