/* Who this process is, what its environment asks us to watch, and what becomes of it in fork and vfork. */
#define _GNU_SOURCE
#include "process.h"
#include <stdlib.h>
#include <string.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

bool started;

/* --- what is watched -------------------------------------------------------------------------------------------------- */

/* A path is watched unless the longest prefix that fits it is one to ignore. A prefix fits whole components; a trailing '*' lets it
 * end anywhere. What was asked for explicitly beats what is built in. */
struct prefix {
    const char *text;
    uint16_t length;
    bool open_end, watch;
};
enum { PREFIXES = 128 };
static struct prefix asked[PREFIXES];
static unsigned asked_count;
static bool only_asked; /* BELLROCK_WATCH was given: nothing else is watched */
static char asked_text[8192], own_prefixes[4][1024];

static const char *const built_in_ignored[] = {
    "/proc", "/sys", "/dev", "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/run", "/var", "/opt", "/boot",
    /* Open MPI's and PMIx's own files */
    "/tmp/ompi.*", "/tmp/openmpi-sessions-*", "/tmp/pmix*", "/tmp/prte.*", "/dev/shm/vader_segment*", "/dev/shm/sm_segment*",
    "/dev/shm/osc_*", "/dev/shm/ucx_*", "/dev/shm/psm*", "/dev/shm/bellrock*",
};
static const char *const built_in_watched[] = {"/dev/shm", "/var/tmp"};
static struct prefix built_in[64];
static unsigned built_in_count;
static bool is_python;

static bool is_command(const char *path, size_t length);

static struct prefix prefix_of(const char *text, size_t length, bool watch)
{
    bool open_end = length && text[length - 1] == '*';
    length -= open_end;
    while (length > 1 && !open_end && text[length - 1] == '/')
        length--;
    return (struct prefix){text, (uint16_t)length, open_end, watch};
}

static bool fits(const struct prefix *p, const char *path, size_t length)
{
    if (length < p->length || memcmp(path, p->text, p->length))
        return false;
    return p->open_end || length == p->length || path[p->length] == '/' || p->length == 1;
}

static const struct prefix *longest(const struct prefix *list, unsigned count, const char *path, size_t length)
{
    const struct prefix *best = NULL;
    for (unsigned i = 0; i < count; i++)
        if ((!best || list[i].length > best->length) && fits(&list[i], path, length))
            best = &list[i];
    return best;
}

static bool ends_with(const char *path, size_t length, const char *end)
{
    size_t n = strlen(end);
    return length >= n && !memcmp(path + length - n, end, n);
}

bool path_is_watched(const char *path, size_t length)
{
    if (!length || path[0] != '/')
        return false;
    const struct prefix *p = longest(asked, asked_count, path, length);
    if (p)
        return p->watch;
    if (only_asked)
        return false;
    p = longest(built_in, built_in_count, path, length);
    if ((p && !p->watch) || is_command(path, length))
        return false;
    /* An interpreter's reading of its program is not the program's I/O. */
    return !(is_python && (ends_with(path, length, ".py") || ends_with(path, length, ".pyc") || ends_with(path, length, "/pyvenv.cfg") ||
                          memmem(path, length, "/lib/python3", 12)));
}

static void ask_list(const char *list, bool watch, size_t *used)
{
    while (list && *list) {
        const char *end = strchrnul(list, ':');
        size_t length = (size_t)(end - list);
        if (length && list[0] == '/' && asked_count < PREFIXES && *used + length < sizeof asked_text) {
            memcpy(asked_text + *used, list, length); /* the program may change its environment */
            asked[asked_count++] = prefix_of(asked_text + *used, length, watch);
            *used += length;
        }
        list = *end ? end + 1 : end;
    }
}

/* The installation that the program itself belongs to (PREFIX/bin/program) is not its data. */
static void ignore_installation(const char *program, unsigned *own)
{
    const char *bin = NULL;
    for (const char *at = program; (at = strstr(at, "/bin/")); at++)
        bin = at;
    if (!bin || bin == program || bin - program > 900 || strchr(bin + 5, '/'))
        return;
    static const char *const parts[] = {"/bin", "/lib"};
    for (unsigned i = 0; i < 2 && *own < 4; i++) {
        int n = snprintf(own_prefixes[*own], sizeof own_prefixes[0], "%.*s%s", (int)(bin - program), program, parts[i]);
        built_in[built_in_count++] = prefix_of(own_prefixes[(*own)++], (size_t)n, false);
    }
}

/* Where commands are looked for: looking for one, or reading a script as a program, is not the program's I/O. */
static const char *command_directories[32];
static uint16_t command_directory_lengths[32];
static unsigned command_directory_count;
static char command_directory_text[4096];

static void note_command_directories(void)
{
    const char *list = secure_getenv("PATH");
    size_t used = 0;
    while (list && *list) {
        const char *end = strchrnul(list, ':');
        size_t length = (size_t)(end - list);
        while (length > 1 && list[length - 1] == '/')
            length--;
        if (length > 1 && list[0] == '/' && command_directory_count < 32 && used + length < sizeof command_directory_text) {
            memcpy(command_directory_text + used, list, length);
            command_directories[command_directory_count] = command_directory_text + used;
            command_directory_lengths[command_directory_count++] = (uint16_t)length;
            used += length;
        }
        list = *end ? end + 1 : end;
    }
}

static bool is_command(const char *path, size_t length)
{
    const char *name = memrchr(path, '/', length);
    for (unsigned i = 0; i < command_directory_count; i++)
        if ((size_t)(name - path) == command_directory_lengths[i] && !memcmp(path, command_directories[i], command_directory_lengths[i]))
            return true;
    return false;
}

static void configure(void)
{
    size_t used = 0;
    const char *watch = secure_getenv("BELLROCK_WATCH");
    only_asked = watch && *watch;
    ask_list(watch, true, &used);
    ask_list(secure_getenv("BELLROCK_IGNORE"), false, &used);
    for (size_t i = 0; i < sizeof built_in_ignored / sizeof *built_in_ignored; i++)
        built_in[built_in_count++] = prefix_of(built_in_ignored[i], strlen(built_in_ignored[i]), false);
    for (size_t i = 0; i < sizeof built_in_watched / sizeof *built_in_watched; i++)
        built_in[built_in_count++] = prefix_of(built_in_watched[i], strlen(built_in_watched[i]), true);
    note_command_directories();
    unsigned own = 0;
    char program[1024];
    ssize_t n = syscall(SYS_readlink, "/proc/self/exe", program, sizeof program - 1);
    if (n > 0) {
        program[n] = 0;
        ignore_installation(program, &own);
        const char *name = strrchr(program, '/');
        is_python = name && !strncmp(name, "/python", 7);
    }
    const char *called = (const char *)getauxval(AT_EXECFN); /* a virtual environment is a link to another place */
    if (called && called[0] == '/')
        ignore_installation(called, &own);
    else if (called && strstr(called, "/bin/") && (n = syscall(SYS_getcwd, program, sizeof program)) > 0 &&
             (size_t)n + strlen(called) + 1 < sizeof program) {
        program[n - 1] = '/';
        strcpy(program + n, called[0] == '.' && called[1] == '/' ? called + 2 : called);
        ignore_installation(program, &own);
    }
}

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

bool process_facts(struct process_facts *f)
{
    static const char *const job_names[] = {"BELLROCK_JOB", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", NULL};
    memset(f, 0, sizeof *f);
    const char *job = first_of(job_names);
    snprintf(f->job, sizeof f->job, "%s", job ? job : "");
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
    configure();
    __register_atfork(NULL, NULL, core_forked, &__dso_handle);
    const char *window = secure_getenv("BELLROCK_WINDOW_MS");
    started = true;
    core_start(window ? strtoull(window, NULL, 10) * 1000000 : 0, rank_of() >= 0);
    errno = error;
}
