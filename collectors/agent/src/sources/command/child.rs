//! Starts a program without a copy of the agent. After a fork the kernel has to copy what says where the agent's pages lie, and then each page that it writes
//! to, which together takes longer than all else that is done for a program. So the child runs in the agent's memory (`CLONE_VM`) until it is the
//! program, and the thread that started it stands still so long (`CLONE_VFORK`).

use crate::sys;
use std::ffi::{c_char, c_int, c_void, CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::ptr;

/// All that a program has of an environment.
const ENVIRONMENT: [&CStr; 2] = [c"PATH=/usr/sbin:/usr/bin:/sbin:/bin", c"LC_ALL=C"];
/// What the child stands on. It makes system calls only.
const STACK_BYTES: usize = 16 << 10;
/// The highest signal of the kernel's.
const SIGNAL_MAX: c_int = 64;

/// A program that was started, in a group of its own. Whoever has it waits for it.
pub struct Child(libc::pid_t);

/// What the child has to know, in memory of the agent's.
struct Plan<'a> {
    program: &'a CStr,
    arguments: &'a [*const c_char],
    environment: &'a [*const c_char],
    input: c_int,
    output: c_int,
    agent: u32,
    /// Why it is no program.
    fault: c_int,
}

impl Child {
    /// Starts a program, an absolute path, without a shell; answers it, and what it prints, of which reads never wait.
    pub fn start(program: &Path, arguments: &[&str]) -> io::Result<(Child, File)> {
        let program = c_string(program.as_os_str())?;
        let arguments: io::Result<Vec<CString>> = arguments
            .iter()
            .map(|argument| c_string(OsStr::new(argument)))
            .collect();
        let arguments = arguments?;
        let rest = arguments.iter().map(|argument| argument.as_ptr());
        let arguments: Vec<_> = [program.as_ptr()]
            .into_iter()
            .chain(rest)
            .chain([ptr::null()])
            .collect();
        let [path, locale] = ENVIRONMENT.map(CStr::as_ptr);
        let (printed, output) = sys::pipe()?;
        sys::set_nonblocking(&printed)?;
        let nothing = File::options().read(true).write(true).open("/dev/null")?;
        let mut plan = Plan {
            program: &program,
            arguments: &arguments,
            environment: &[path, locale, ptr::null()],
            input: nothing.as_raw_fd(),
            output: output.as_raw_fd(),
            agent: std::process::id(),
            fault: 0,
        };
        let child = clone(&mut plan)?;
        match plan.fault {
            0 => Ok((child, File::from(printed))),
            fault => {
                child.wait(0)?; // it has ended
                Err(io::Error::from_raw_os_error(fault))
            }
        }
    }

    pub fn id(&self) -> u32 {
        self.0 as u32
    }

    /// How it ended; it is no more then. `None`: it is under way.
    pub fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        self.wait(libc::WNOHANG)
    }

    fn wait(&self, flags: c_int) -> io::Result<Option<ExitStatus>> {
        let mut status = 0;
        loop {
            // SAFETY: `status` is there to be written to.
            match unsafe { libc::waitpid(self.0, &mut status, flags) } {
                0 => return Ok(None),
                pid if pid > 0 => return Ok(Some(ExitStatus::from_raw(status))),
                _ => {}
            }
            let e = io::Error::last_os_error();
            if e.kind() != io::ErrorKind::Interrupted {
                return Err(e);
            }
        }
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

/// Has a child follow the plan. Comes back when it is a program, or has ended.
fn clone(plan: &mut Plan) -> io::Result<Child> {
    let mut stack: Vec<u128> = Vec::with_capacity(STACK_BYTES / size_of::<u128>());
    let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
    // SAFETY: a zeroed `sigset_t` is a valid one. The child has a stack of its own, whose top is aligned to 16 bytes; stack and plan outlive it, since this thread
    // stands still until it is gone from this memory. No signal is handled meanwhile: a handler in the child would act for the agent.
    let pid = unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let pid = libc::clone(follow, top.cast(), flags, ptr::from_mut(plan).cast());
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
        sys::check(pid).map_err(|_| error)?
    };
    Ok(Child(pid))
}

/// What the child does. It takes nothing from the heap, which the agent's other threads go on to use.
extern "C" fn follow(plan: *mut c_void) -> c_int {
    // SAFETY: `clone` passes a plan, which nobody else uses meanwhile.
    let plan = unsafe { &mut *plan.cast::<Plan>() };
    let Err(e) = become_program(plan);
    plan.fault = e.raw_os_error().unwrap_or(libc::EIO);
    // SAFETY: ends the child only, and runs nothing of the agent's.
    unsafe { libc::_exit(1) }
}

fn become_program(plan: &Plan) -> io::Result<std::convert::Infallible> {
    // SAFETY: system calls, with pointers to what the plan holds; the lists end with a null, a zeroed `sigaction` has signals do what they usually do.
    unsafe {
        let usual: libc::sigaction = std::mem::zeroed();
        for signal in 1..=SIGNAL_MAX {
            // Some cannot be set, and need not be.
            libc::sigaction(signal, &usual, ptr::null_mut());
        }
        for (own, fd) in [(plan.input, 0), (plan.output, 1), (plan.input, 2)] {
            sys::check(libc::dup2(own, fd))?;
        }
        sys::check(libc::setpgid(0, 0))?;
        sys::check(libc::chdir(c"/".as_ptr()))?;
        sys::end_with_parent(plan.agent)?;
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        sys::check(libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut()))?;
        let (arguments, environment) = (plan.arguments.as_ptr(), plan.environment.as_ptr());
        libc::execvpe(plan.program.as_ptr(), arguments, environment);
        Err(io::Error::last_os_error())
    }
}
