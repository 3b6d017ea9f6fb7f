//! The counters in Prometheus's text format, on a loopback port where `metrics` names one.
//!
//! One thread, one connection at a time, none for longer than `TIME_MAX`, and one buffer: whoever holds it up delays figures and nothing else.

use crate::counters::Counters;
use crate::{memory, sys, warn};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

const STACK_BYTES: usize = 64 << 10;
/// Of a connection, from its acceptance to its end.
const TIME_MAX: Duration = Duration::from_secs(2);
/// Of a request; what is beyond is not read.
const ASKED_BYTES_MAX: usize = 1024;
/// After a connection could not be accepted, as without free descriptors.
const PAUSE: Duration = Duration::from_secs(1);

/// Answers at `address` from now on, in a thread that ends with the process.
pub fn start(address: SocketAddr, counters: Arc<Counters>) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    std::thread::Builder::new()
        .name("metrics".into())
        .stack_size(STACK_BYTES)
        .spawn(move || serve(&listener, &counters))
        .map(drop)
}

fn serve(listener: &TcpListener, counters: &Counters) {
    let mut text = String::new();
    loop {
        match listener.accept() {
            // A peer that leaves, or is too slow, is its own affair.
            Ok((stream, _)) => drop(answer(stream, counters, &mut text)),
            Err(e) => {
                warn!("metrics", "cannot accept a connection: {e}");
                std::thread::sleep(PAUSE);
            }
        }
    }
}

fn answer(mut stream: TcpStream, counters: &Counters, text: &mut String) -> io::Result<()> {
    let ends = Instant::now() + TIME_MAX;
    let mut asked = [0; ASKED_BYTES_MAX];
    let mut length = 0;
    while length < asked.len() && !asked[..length].windows(4).any(|w| w == b"\r\n\r\n") {
        stream.set_read_timeout(Some(left(ends)?))?;
        match stream.read(&mut asked[length..])? {
            0 => return Ok(()),
            n => length += n,
        }
    }
    text.clear();
    let is_known = asked.starts_with(b"GET /metrics ") || asked.starts_with(b"GET /metrics?");
    let status = if is_known {
        write_figures(text, counters);
        "200 OK"
    } else {
        text.push_str("there is /metrics only\n");
        "404 Not Found"
    };
    stream.set_write_timeout(Some(left(ends)?))?;
    let length = text.len();
    stream.write_all(
        format!("HTTP/1.0 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    stream.set_write_timeout(Some(left(ends)?))?;
    stream.write_all(text.as_bytes())
}

fn left(ends: Instant) -> io::Result<Duration> {
    let left = ends.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

fn write_figures(out: &mut String, counters: &Counters) {
    let version = env!("CARGO_PKG_VERSION");
    // Writing into a string cannot fail.
    let _ = writeln!(
        out,
        "# TYPE bellrock_agent_build_info gauge\nbellrock_agent_build_info{{version=\"{version}\"}} 1"
    );
    for (name, counter) in counters.each() {
        let value = counter.get();
        let _ = writeln!(
            out,
            "# TYPE bellrock_agent_{name}_total counter\nbellrock_agent_{name}_total {value}"
        );
    }
    let _ = writeln!(
        out,
        "# TYPE bellrock_agent_cpu_seconds_total counter\nbellrock_agent_cpu_seconds_total {:.6}",
        sys::cpu_s()
    );
    if let Some(rss) = memory::rss_bytes() {
        let _ = writeln!(out, "# TYPE bellrock_agent_resident_memory_bytes gauge\nbellrock_agent_resident_memory_bytes {rss}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn served(counters: &Arc<Counters>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let counters = counters.clone();
        std::thread::spawn(move || serve(&listener, &counters));
        address
    }

    #[test]
    fn every_counter_is_told_with_its_value() {
        let counters = Arc::new(Counters::default());
        counters.seen.add(7);
        let text = ask(
            served(&counters),
            b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        );
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 200 OK\r\n"), "{head}");
        assert!(
            head.contains(&format!("Content-Length: {}\r\n", body.len())),
            "{head}"
        );
        assert!(body.contains("\nbellrock_agent_seen_total 7\n"));
        assert!(body.contains("\nbellrock_agent_lost_total 0\n"));
        for (name, _) in counters.each() {
            assert!(body.contains(&format!("\nbellrock_agent_{name}_total ")));
        }
        assert!(body.ends_with('\n'));
    }

    #[test]
    fn other_addresses_and_nonsense_get_nothing() {
        let address = served(&Arc::new(Counters::default()));
        for request in [
            &b"GET / HTTP/1.0\r\n\r\n"[..],
            b"POST /metrics HTTP/1.0\r\n\r\n",
            &[b'x'; ASKED_BYTES_MAX],
        ] {
            assert!(ask(address, request).starts_with("HTTP/1.0 404 "));
        }
    }

    #[test]
    fn who_says_nothing_holds_others_up_for_a_bounded_time() {
        let address = served(&Arc::new(Counters::default()));
        let idle = TcpStream::connect(address).unwrap();
        let begin = Instant::now();
        assert!(
            ask(address, b"GET /metrics HTTP/1.0\r\n\r\n").contains("bellrock_agent_seen_total")
        );
        // As loaded as the machine may be.
        assert!(begin.elapsed() < 15 * TIME_MAX);
        drop(idle);
    }
}
