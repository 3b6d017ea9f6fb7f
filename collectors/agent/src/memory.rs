//! Keeps the agent small.

/// Resident memory of this process, bytes; `None` without /proc.
pub fn rss_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    // SAFETY: no arguments that could be wrong.
    Some(pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64)
}

/// Keeps memory small: one heap for both threads, freed memory goes back early, as many open files as the system allows.
pub fn tune() {
    // SAFETY: settings of this process only; nothing else runs yet.
    unsafe {
        #[cfg(target_env = "gnu")]
        {
            libc::mallopt(libc::M_ARENA_MAX, 1);
            // The heap keeps little that it does not use.
            libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 10);
            libc::mallopt(libc::M_TOP_PAD, 16 << 10);
            // Tables and windows, which grow, have pages of their own: they leave no holes, and what they do not use yet takes nothing.
            libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 10);
        }
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// Gives the pages of the heap that hold nothing back to the system.
pub fn trim_heap() {
    // SAFETY: touches only what is free.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
