//! The few system calls that the standard library does not have.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// What a system call answers, or why it failed.
pub fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

fn open_with(dir: RawFd, name: &OsStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    let name = c_string(name)?;
    // SAFETY: `name` is NUL-terminated and outlives the call; the descriptor that comes back is ours alone.
    unsafe {
        let fd = check(libc::openat(dir, name.as_ptr(), flags | libc::O_CLOEXEC))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Opens a directory; a symbolic link in its last component is an error.
pub fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    open_with(
        libc::AT_FDCWD,
        path.as_os_str(),
        libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW,
    )
}

/// Opens a directory in `dir`, never through a symbolic link.
pub fn open_dir_at(dir: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    open_with(
        dir.as_raw_fd(),
        OsStr::new(name),
        libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW,
    )
}

/// Opens a file in `dir`, never through a symbolic link, never waiting for a FIFO's other end.
pub fn open_file_at(dir: &OwnedFd, name: &str, write: bool) -> io::Result<File> {
    let access = if write { libc::O_RDWR } else { libc::O_RDONLY };
    let flags = access | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    Ok(File::from(open_with(
        dir.as_raw_fd(),
        OsStr::new(name),
        flags,
    )?))
}

/// Opens a path below a folder, through symbolic links as a path from the root would be.
pub fn open_below(folder: &File, path: &str, flags: libc::c_int) -> io::Result<File> {
    open_with(folder.as_raw_fd(), OsStr::new(path), flags).map(File::from)
}

/// Connects to a Unix socket, by way of its directory's descriptor: an address holds 107 bytes, a path may be longer.
pub fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let (dir, name) = (path.parent(), path.file_name());
    let dir = dir.ok_or_else(invalid)?.as_os_str();
    let dir = open_with(libc::AT_FDCWD, dir, libc::O_PATH | libc::O_DIRECTORY)?;
    let short = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string());
    UnixStream::connect(short.join(name.ok_or_else(invalid)?))
}

/// Removes a file's name from `dir`.
pub fn unlink_at(dir: &OwnedFd, name: &str) -> io::Result<()> {
    let name = c_string(OsStr::new(name))?;
    // SAFETY: `name` is NUL-terminated and outlives the call.
    check(unsafe { libc::unlinkat(dir.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
}

/// Renames a file within `dir`.
pub fn rename_at(dir: &OwnedFd, from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (c_string(OsStr::new(from))?, c_string(OsStr::new(to))?);
    // SAFETY: both names are NUL-terminated and outlive the call.
    check(unsafe { libc::renameat(dir.as_raw_fd(), from.as_ptr(), dir.as_raw_fd(), to.as_ptr()) })
        .map(drop)
}

/// What `fstat` tells of a descriptor.
pub fn stat(fd: &impl AsRawFd) -> io::Result<libc::stat> {
    // SAFETY: a zeroed `stat` is a valid one, and the call fills it.
    unsafe {
        let mut st: libc::stat = std::mem::zeroed();
        check(libc::fstat(fd.as_raw_fd(), &mut st))?;
        Ok(st)
    }
}

/// Whether `st` is a regular file.
pub fn is_regular(st: &libc::stat) -> bool {
    st.st_mode & libc::S_IFMT == libc::S_IFREG
}

/// Where a file has data at `from` or after it: past holes. `None`: nowhere. A file system that knows no holes has data everywhere.
pub fn next_data(file: &File, from: u64) -> Option<u64> {
    // SAFETY: only moves the descriptor's position, which nobody uses.
    let found = unsafe { libc::lseek(file.as_raw_fd(), from as libc::off_t, libc::SEEK_DATA) };
    if found >= 0 {
        return Some(found as u64);
    }
    let error = io::Error::last_os_error().raw_os_error();
    (error != Some(libc::ENXIO)).then_some(from)
}

/// Calls `each` with the name of each entry of `dir` until it answers false. Names that are no UTF-8 are passed over.
pub fn list(dir: &OwnedFd, mut each: impl FnMut(&str) -> bool) -> io::Result<()> {
    // A description of its own: a directory's position belongs to the description, not to the descriptor.
    let own = open_dir_at(dir, ".")?;
    // SAFETY: `fdopendir` takes the descriptor over where it succeeds; entries are used before the next `readdir`.
    unsafe {
        let stream = libc::fdopendir(own.as_raw_fd());
        if stream.is_null() {
            return Err(io::Error::last_os_error());
        }
        std::mem::forget(own);
        loop {
            let entry = libc::readdir(stream);
            if entry.is_null() {
                break;
            }
            if let Ok(name) = CStr::from_ptr((*entry).d_name.as_ptr()).to_str() {
                if !name.starts_with('.') && !each(name) {
                    break;
                }
            }
        }
        libc::closedir(stream);
    }
    Ok(())
}

/// Takes the lock of a file; false: somebody else holds it.
pub fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: only a descriptor is passed.
    match check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(e) => Err(e),
    }
}

/// Nanoseconds on a clock of the system.
pub fn clock_ns(clock: libc::clockid_t) -> i64 {
    // SAFETY: a zeroed `timespec` is a valid one, and the call fills it.
    unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(clock, &mut t);
        t.tv_sec * 1_000_000_000 + t.tv_nsec
    }
}

/// Seconds since the epoch as date and time in UTC.
pub fn utc(s: u64) -> String {
    let time = s.min(libc::time_t::MAX as u64) as libc::time_t;
    // SAFETY: a zeroed `tm` is a valid one, and the call fills it; where it cannot, the year is too large to matter.
    let t = unsafe {
        let mut t: libc::tm = std::mem::zeroed();
        libc::gmtime_r(&time, &mut t);
        t
    };
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC",
        i64::from(t.tm_year) + 1900,
        t.tm_mon + 1,
        t.tm_mday,
        t.tm_hour,
        t.tm_min,
        t.tm_sec
    )
}

/// Clock ticks a second in /proc.
pub fn ticks_per_second() -> i64 {
    // SAFETY: no arguments that could be wrong.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1)
}

/// The user that this process acts as.
pub fn effective_uid() -> u32 {
    // SAFETY: no arguments that could be wrong.
    unsafe { libc::geteuid() }
}

/// Processor time of this process, seconds.
pub fn cpu_s() -> f64 {
    // SAFETY: a zeroed `rusage` is a valid one, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// The machine's name.
pub fn host_name() -> String {
    let mut name = [0u8; 256];
    // SAFETY: one byte is kept for the NUL.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let text = name.split(|&b| b == 0).next().unwrap_or(&[]);
    String::from_utf8_lossy(text).into_owned()
}

/// A random number from the kernel.
pub fn random_u64() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer has the length that is passed.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got != bytes.len() as isize {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::from_ne_bytes(bytes))
}

/// In a child that is no program yet: has this process killed when the thread that started it ends, and be of low priority. `parent`: its process.
pub fn end_with_parent(parent: u32) -> io::Result<()> {
    const LOW_PRIORITY: libc::c_int = 10;
    // SAFETY: system calls without pointers.
    unsafe {
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        if libc::getppid() as u32 != parent {
            libc::_exit(1); // it ended before that
        }
        check(libc::setpriority(libc::PRIO_PROCESS, 0, LOW_PRIORITY)).map(drop)
    }
}

/// Whether a child has ended; it stays to be waited for.
pub fn has_ended(pid: u32) -> bool {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: a zeroed `siginfo_t` is a valid one, and the call fills it; of one that is under way it has no pid.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let result = libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, flags);
        result == 0 && info.si_pid() != 0
    }
}

/// Kills a group of processes.
pub fn kill_group(leader: u32) {
    // SAFETY: only numbers are passed. That there is none any more is no error.
    unsafe { libc::kill(-(leader as libc::pid_t), libc::SIGKILL) };
}

/// The reading and the writing end of a pipe; no program that is started gets either.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: there is room for two descriptors, which are ours alone.
    unsafe {
        check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Has reads of a pipe answer at once.
pub fn set_nonblocking(fd: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: only numbers are passed.
    unsafe {
        let flags = check(libc::fcntl(fd.as_raw_fd(), libc::F_GETFL))?;
        check(libc::fcntl(
            fd.as_raw_fd(),
            libc::F_SETFL,
            flags | libc::O_NONBLOCK,
        ))
        .map(drop)
    }
}

static STOP: AtomicBool = AtomicBool::new(false);
static WAKE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_signal(_: libc::c_int) {
    STOP.store(true, Ordering::SeqCst);
    let one = 1u64;
    // SAFETY: write() is safe in a signal handler; the descriptor is never closed.
    unsafe { libc::write(WAKE.load(Ordering::SeqCst), (&one as *const u64).cast(), 8) };
}

/// Makes SIGTERM and SIGINT ask for a stop.
pub fn catch_signals() -> io::Result<()> {
    // SAFETY: the handler does only what a handler may; a zeroed `sigaction` is a valid one.
    unsafe {
        WAKE.store(
            check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?,
            Ordering::SeqCst,
        );
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int) = on_signal;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_RESTART;
        for signal in [libc::SIGTERM, libc::SIGINT] {
            check(libc::sigaction(signal, &action, std::ptr::null_mut()))?;
        }
    }
    Ok(())
}

/// Whether a signal asked for a stop.
pub fn stop_asked() -> bool {
    STOP.load(Ordering::SeqCst)
}

/// Waits until a descriptor can be read, or has come to its end. False: a signal ended the wait.
pub fn wait_for_input(fd: BorrowedFd) -> bool {
    let poll = |fd: libc::c_int| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    while !stop_asked() {
        let mut both = [poll(WAKE.load(Ordering::SeqCst)), poll(fd.as_raw_fd())];
        // SAFETY: two valid pollfds; a negative descriptor in them is passed over.
        if unsafe { libc::poll(both.as_mut_ptr(), 2, -1) } > 0 && both[1].revents != 0 {
            return !stop_asked();
        }
    }
    false
}

/// Whether nobody holds the other end of a pipe any more: nothing comes but what is in it.
pub fn is_abandoned(fd: BorrowedFd) -> bool {
    let mut one = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: 0,
        revents: 0,
    };
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&mut one, 1, 0) > 0 && one.revents & libc::POLLHUP != 0 }
}

/// Waits; a signal ends the wait.
pub fn wait(time: std::time::Duration) {
    let ms = time.as_millis().clamp(1, 60_000) as libc::c_int;
    let mut wake = libc::pollfd {
        fd: WAKE.load(Ordering::SeqCst),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one valid pollfd; a negative descriptor in it is passed over.
    unsafe { libc::poll(&mut wake, 1, ms) };
}
