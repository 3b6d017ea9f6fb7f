//! Keeps the agent small: its heap, and the pages of its code.

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
            libc::mallopt(libc::M_TRIM_THRESHOLD, 256 << 10);
            libc::mallopt(libc::M_MMAP_THRESHOLD, 256 << 10);
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

/// Lets go of the pages of the program and its libraries, most of which only its start needed: they stay in the system's cache for
/// as long as it likes, and those that are touched again come back. Only segments that cannot be written: they hold what the files hold.
pub fn drop_file_pages() {
    unsafe extern "C" fn each(
        object: *mut libc::dl_phdr_info,
        _: libc::size_t,
        _: *mut libc::c_void,
    ) -> libc::c_int {
        let page = libc::sysconf(libc::_SC_PAGESIZE).max(1) as usize;
        let object = &*object;
        let count = object.dlpi_phnum as usize;
        for segment in std::slice::from_raw_parts(object.dlpi_phdr, count) {
            if segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_W == 0 {
                let from = object.dlpi_addr as usize + segment.p_vaddr as usize;
                let to = (from + segment.p_memsz as usize) / page * page;
                let from = from.next_multiple_of(page);
                // Where it is refused (the kernel's own pages), they stay.
                libc::madvise(from as *mut _, to.saturating_sub(from), libc::MADV_DONTNEED);
            }
        }
        0
    }
    // SAFETY: the loader's list is valid during the call; the pages of read-only segments are clean copies of their files, so to drop them
    // changes no byte, whoever executes or reads them.
    unsafe { libc::dl_iterate_phdr(Some(each), std::ptr::null_mut()) };
}
