//! Folders of tests. One stays after its test, for whoever wants to see why it failed, until another process begins one beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Once;

/// A new, empty folder in `base`, which holds nothing else. Those of processes that are gone are removed first.
pub fn folder(base: &Path, name: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| sweep(base));
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = base.join(format!("{name}-{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// Another process may remove the same at the same time, so whatever fails is left as it is.
fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let pid = name.rsplit('-').nth(1).and_then(|p| p.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
