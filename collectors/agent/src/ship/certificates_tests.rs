use super::*;
use crate::testing::temp_dir;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/certificates.sh");

pub(crate) fn script(kind: &str, dir: &Path, name: &str, end: &str) {
    let mut command = Command::new(SCRIPT);
    command.args([kind, dir.to_str().unwrap()]).env("END", end);
    if !name.is_empty() {
        command.arg(name);
    }
    let done = command.output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success(),
        "{told} (openssl is needed: apt-get install openssl)"
    );
}

/// An authority with the certificates `a` and `b` of nodes and `s` of a server, and settings that name `a`.
pub(crate) fn site(name: &str) -> (PathBuf, config::Tls) {
    let dir = temp_dir(name);
    script("ca", &dir, "", "");
    script("node", &dir, "a", "20400229120000Z");
    script("node", &dir, "b", "20410101000000Z");
    script("server", &dir, "s", "");
    let settings = config::Tls {
        ca: dir.join("ca.crt"),
        cert: dir.join("a.crt"),
        key: dir.join("a.key"),
        server_name: String::new(),
    };
    (dir, settings)
}

#[test]
fn the_files_of_one_node_are_taken_and_their_end_is_known() {
    let (_, settings) = site("certificates");
    let certificates = Certificates::open(&settings, "a").unwrap();
    assert_eq!(utc(certificates.end()), "2040-02-29 12:00:00 UTC");
    assert!(!certificates.has_ended());
    let now = UnixTime::now().as_secs();
    // The script dates them back by an hour.
    assert!((now - 4000..now - 3000).contains(&certificates.loaded.begin));
    assert!(certificates.config().enable_sni);
}

#[test]
fn what_cannot_work_is_refused_by_name() {
    let (dir, settings) = site("bad-certificates");
    let refused = |message: &str, change: &dyn Fn(&mut config::Tls)| {
        let mut settings = settings.clone();
        change(&mut settings);
        let error = Certificates::open(&settings, "a").err().unwrap();
        assert!(error.contains(message), "{error}");
    };
    refused("tls.ca: /none: ", &|s| s.ca = "/none".into());
    refused("tls.cert: ", &|s| s.cert = dir.clone());
    refused("a.key: no certificate in PEM", &|s| s.cert = s.key.clone());
    refused("tls.key: ", &|s| s.key = s.cert.clone());
    refused("b.key is not the key of", &|s| s.key = dir.join("b.key"));
    refused("not a client's certificate", &|s| {
        (s.cert, s.key) = (dir.join("s.crt"), dir.join("s.key"))
    });
    refused("not a client's certificate", &|s| s.cert = s.ca.clone());
    let bytes = fs::read(&settings.cert).unwrap();
    for cut in [0, 20, bytes.len() / 2, bytes.len() - 5] {
        fs::write(dir.join("cut.crt"), &bytes[..cut]).unwrap();
        refused("cut.crt", &|s| s.cert = dir.join("cut.crt"));
        refused("cut.crt", &|s| s.ca = dir.join("cut.crt"));
    }
    fs::write(
        dir.join("noise.crt"),
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    refused("noise.crt", &|s| s.cert = dir.join("noise.crt"));
    refused("noise.crt", &|s| s.ca = dir.join("noise.crt"));
    for mode in [0o604, 0o620, 0o602, 0o644] {
        fs::set_permissions(&settings.key, fs::Permissions::from_mode(mode)).unwrap();
        refused("run: chmod 600 ", &|_| ());
    }
    fs::set_permissions(&settings.key, fs::Permissions::from_mode(0o640)).unwrap();
    Certificates::open(&settings, "a").unwrap();
}

#[test]
fn new_files_are_taken_over_once_they_are_whole() {
    let (dir, settings) = site("renewed-certificates");
    let mut certificates = Certificates::open(&settings, "a").unwrap();
    let old = certificates.end();
    assert!(!certificates.look());
    let copy = |from: &str, to: &Path| fs::write(to, fs::read(dir.join(from)).unwrap()).unwrap();
    copy("b.key", &settings.key);
    assert!(!certificates.look(), "a key alone");
    let whole = fs::read(dir.join("b.crt")).unwrap();
    fs::write(&settings.cert, &whole[..whole.len() / 2]).unwrap();
    assert!(!certificates.look(), "half a certificate");
    fs::remove_file(&settings.cert).unwrap();
    assert!(!certificates.look(), "no certificate");
    assert_eq!(certificates.end(), old);
    copy("b.crt", &settings.cert);
    assert!(certificates.look());
    assert_eq!(utc(certificates.end()), "2041-01-01 00:00:00 UTC");
    assert!(!certificates.look());
    // By a rename, as a careful renewal does it.
    fs::rename(dir.join("b.crt"), &settings.cert).unwrap();
    assert!(certificates.look());
}

#[test]
fn an_end_is_told_beforehand_and_a_certificate_that_ended_is_kept() {
    let (dir, settings) = site("ended-certificates");
    let mut certificates = Certificates::open(&settings, "a").unwrap();
    certificates.look();
    assert!(certificates.end_told.is_none());
    let past = utc(UnixTime::now().as_secs() - 60);
    let digits = past.chars().filter(char::is_ascii_digit);
    script("node", &dir, "a", &(digits.collect::<String>() + "Z"));
    assert!(!certificates.has_ended());
    assert!(certificates.look());
    assert!(certificates.has_ended());
    certificates.look();
    assert!(certificates.end_told.is_some());
}
