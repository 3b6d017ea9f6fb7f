/* Who this process is, and what becomes of it in fork and vfork. */
#define _GNU_SOURCE
#include "process.h"
#include <stdlib.h>
#include <string.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

bool started;

/* --- who it is ---------------------------------------------------------------------------------------------------------- */

static const char *first_of(const char *const *names)
{
    for (; *names; names++) {
        const char *value = secure_getenv(*names);
        if (value && *value)
            return value;
    }
    return NULL;
}

static int rank_of(void)
{
    static const char *const names[] = {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", NULL};
    const char *text = first_of(names);
    if (!text)
        return -1;
    char *end;
    long rank = strtol(text, &end, 10);
    return *end || rank < 0 || rank > INT32_MAX ? -1 : (int)rank;
}

/* The job's id, as its batch system shows it: LSF alone keeps the index of an array's task apart, and says 0 where there is none. */
static void job_of(char *job, size_t room)
{
    static const char *const names[] = {"BELLROCK_JOB", "SLURM_JOB_ID", "PBS_JOBID", NULL};
    static const char *const lsf[] = {"LSB_JOBID", NULL}, *const lsf_index[] = {"LSB_JOBINDEX", NULL};
    const char *id = first_of(names), *index = NULL;
    if (!id && (id = first_of(lsf)))
        index = first_of(lsf_index);
    if (index && !index[strspn(index, "0123456789")] && index[strspn(index, "0")])
        snprintf(job, room, "%s[%s]", id, index);
    else
        snprintf(job, room, "%s", id ? id : "");
}

bool process_facts(struct process_facts *f)
{
    memset(f, 0, sizeof *f);
    job_of(f->job, sizeof f->job);
    ssize_t n = syscall(SYS_readlink, "/proc/self/exe", f->program, sizeof f->program - 1);
    if (n < 0)
        f->program[0] = 0;
    /* Field 22 of /proc/self/stat; the second one, the name in parentheses, may hold anything. */
    char *stat = f->stat;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    n = syscall(SYS_read, fd, stat, sizeof f->stat - 1);
    syscall(SYS_close, fd);
    if (n <= 0)
        return false;
    stat[n] = 0;
    char *at = strrchr(stat, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at)
        return false;
    struct stat namespace;
    if (syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/pid", &namespace, 0) != 0)
        namespace.st_ino = 0;
    f->identity = (struct tp_identity){
        .pid = (uint32_t)syscall(SYS_getpid),
        .parent_pid = (uint32_t)syscall(SYS_getppid),
        .uid = (uint32_t)syscall(SYS_geteuid),
        .rank = rank_of(),
        .pid_namespace = namespace.st_ino,
        .pid_start_ticks = strtoull(at + 1, NULL, 10),
        .job = f->job,
        .job_length = strlen(f->job),
        .program = f->program,
        .program_length = strlen(f->program),
    };
    return true;
}

int ring_file_create(const struct process_facts *f, char *path, size_t room, uint32_t nonce)
{
    const char *base = secure_getenv("BELLROCK_RINGS");
    if (!base || base[0] != '/')
        base = "/dev/shm/bellrock";
    int n = snprintf(path, room, "%s/%u", base, f->identity.uid);
    if (n < 0 || (size_t)n + 64 > room)
        return -1;
    /* The base directory is for all users; each has one of their own in it. One that belongs to somebody else is refused. */
    if (syscall(SYS_mkdir, base, 01777) == 0)
        syscall(SYS_chmod, base, 01777);
    syscall(SYS_mkdir, path, 0700);
    struct stat st;
    if (syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode) ||
        st.st_uid != f->identity.uid)
        return -1;
    snprintf(path + n, room - (size_t)n, "/%u-%llu-%08x.ring", f->identity.pid, (unsigned long long)f->identity.pid_start_ticks, nonce);
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* --- fork and vfork ----------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
/* The child of vfork runs on the parent's memory, so what it does to descriptors must not be taken for the parent's doing. A C function
 * cannot wrap vfork (it would return twice from one frame); this keeps the return address in a register, as the C library does. */
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, @function\n"
        "vfork:\n"
        "    endbr64\n"
        "    popq %rdi\n"
        "    movl $58, %eax\n" /* SYS_vfork */
        "    syscall\n"
        "    pushq %rdi\n"
        "    movq bellrock_borrowed@gottpoff(%rip), %rcx\n"
        "    testl %eax, %eax\n"
        "    sete %dl\n"
        "    movzbl %dl, %edx\n"
        "    movl %edx, %fs:(%rcx)\n" /* 1 in the child, 0 when the parent goes on */
        "    cmpl $-4095, %eax\n"
        "    jae 1f\n"
        "    testl %eax, %eax\n"
        "    jz 2f\n"
        "    pushq %rax\n"
        "    call bellrock_vforked\n"
        "    popq %rax\n"
        "2:  ret\n"
        "1:  negl %eax\n"
        "    movl %eax, %edi\n"
        "    subq $8, %rsp\n"
        "    call bellrock_set_errno\n"
        "    addq $8, %rsp\n"
        "    movl $-1, %eax\n"
        "    ret\n"
        ".size vfork, .-vfork\n");
__attribute__((visibility("hidden"), used)) void bellrock_set_errno(int error)
{
    errno = error;
}
#else
WRAP pid_t vfork(void) /* elsewhere a fork, as POSIX lets it be */
{
    return fork();
}
#endif

/* A program that forbids itself system calls forbids them us, at the price of its life: from here on it is not watched. Descriptors bear
 * another tag now, so that each operation asks `outside`, which says no more. */
REAL(int, prctl, int, ...)
WRAP int prctl(int option, ...)
{
    va_list list;
    va_start(list, option);
    unsigned long a = va_arg(list, unsigned long), b = va_arg(list, unsigned long), c = va_arg(list, unsigned long), d = va_arg(list, unsigned long);
    va_end(list);
    int (*call)(int, ...) = CALL(prctl);
    if (option == PR_SET_SECCOMP) {
        started = false;
        core_sealed();
    }
    return call(option, a, b, c, d);
}

/* Not in musl, into whose programs we are loaded all the same: there we lie still, every call goes on to the real one. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));
/* What pthread_atfork calls; weak, since musl's loader must find every name. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *) __attribute__((weak));
extern void *__dso_handle;

__attribute__((constructor)) static void start(void)
{
    int error = errno;
    reals_find();
    if (!gnu_get_libc_version || !__register_atfork) {
        errno = error;
        return;
    }
    watching_start();
    __register_atfork(NULL, NULL, core_forked, &__dso_handle);
    const char *window = secure_getenv("BELLROCK_WINDOW_MS");
    started = true;
    core_start(window ? strtoull(window, NULL, 10) * 1000000 : 0, rank_of() >= 0);
    errno = error;
}
