/* Which programs the loader will not load this library into, and what of a program that it is loaded into passes by all the same.
 *
 * A program is looked at as the kernel and the loader will look at it: `#!` lines are followed, and of an ELF file the header and the
 * program headers are read. All is bounded, nothing is allocated, and what cannot be read counts as seen: it could hardly be run. */
#define _GNU_SOURCE
#include "unseen.h"
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

enum {
    SCRIPTS = 4,      /* bound: interpreters that are scripts themselves, as the kernel has it */
    SEGMENTS = 64,    /* bound: program headers that are looked at */
    DYNAMIC = 256,    /* bound: entries of the dynamic section */
    NOTES = 4,        /* bound: of a segment with notes */
    HEAD_BYTES = 512, /* read at once; most programs' headers lie in it */
    LINE_BYTES = 256, /* of a `#!` line the kernel reads no more */
};

#if defined(__x86_64__)
enum { OWN_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { OWN_MACHINE = EM_AARCH64 };
#elif defined(__powerpc64__)
enum { OWN_MACHINE = EM_PPC64 };
#elif defined(__riscv)
enum { OWN_MACHINE = EM_RISCV };
#elif defined(__s390x__)
enum { OWN_MACHINE = EM_S390 };
#else
#error "which e_machine has this architecture?"
#endif
enum {
    OWN_CLASS = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32,
    OWN_ORDER = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB,
};

/* A file that is looked at, and its first bytes. */
struct look {
    int fd;
    size_t length;
    char head[HEAD_BYTES];
};

static bool read_at(const struct look *l, uint64_t offset, void *out, size_t size)
{
    if (offset <= l->length && size <= l->length - offset) {
        memcpy(out, l->head + offset, size);
        return true;
    }
    return syscall(SYS_pread64, l->fd, out, size, offset) == (long)size;
}

/* A loader that knows no LD_PRELOAD of ours: musl's relocates the library, which then lies still (see `start`). */
static bool is_foreign_loader(const struct look *l, const ElfW(Phdr) *p)
{
    char end[64]; /* of the loader's path: its name lies there */
    size_t n = p->p_filesz < sizeof end ? p->p_filesz : sizeof end - 1;
    if (!n || !read_at(l, p->p_offset + p->p_filesz - n, end, n))
        return false;
    end[n] = 0;
    const char *slash = strrchr(end, '/'), *name = slash ? slash + 1 : end;
    return strstr(name, "musl") || strstr(name, "uClibc") || !strncmp(name, "linker", 6); /* Android's */
}

/* Go's own runtime calls the kernel past every C library. */
static bool is_go_note(const struct look *l, const ElfW(Phdr) *p)
{
    struct {
        ElfW(Nhdr) note;
        char name[4];
    } n;
    uint64_t at = 0; /* no sum below can wrap: sizes are of 32 bits */
    for (int i = 0; i < NOTES && at + sizeof n <= p->p_filesz && read_at(l, p->p_offset + at, &n, sizeof n); i++) {
        if (n.note.n_namesz == 4 && !memcmp(n.name, "Go\0", 4))
            return true;
        at += sizeof n.note + (((uint64_t)n.note.n_namesz + 3) & ~3u) + (((uint64_t)n.note.n_descsz + 3) & ~3u);
    }
    return false;
}

/* Tells a library that can be run, the loader itself above all, from a program that needs none. */
static bool has_soname(const struct look *l, const ElfW(Phdr) *p)
{
    ElfW(Dyn) d;
    for (unsigned i = 0; i < DYNAMIC && (i + 1) * sizeof d <= p->p_filesz && read_at(l, p->p_offset + i * sizeof d, &d, sizeof d); i++) {
        if (d.d_tag == DT_SONAME)
            return true;
        if (d.d_tag == DT_NULL)
            break;
    }
    return false;
}

static int elf_reason(const struct look *l)
{
    ElfW(Ehdr) e;
    if (!read_at(l, 0, &e, sizeof e))
        return 0;
    if (e.e_ident[EI_CLASS] != OWN_CLASS || e.e_ident[EI_DATA] != OWN_ORDER || e.e_machine != OWN_MACHINE)
        return TP_FOREIGN;
    bool is_library = false, is_go = false, is_dynamic = false;
    for (unsigned i = 0; i < e.e_phnum && i < SEGMENTS; i++) {
        ElfW(Phdr) p;
        if (!read_at(l, e.e_phoff + i * sizeof p, &p, sizeof p))
            return 0;
        if (p.p_type == PT_INTERP && is_foreign_loader(l, &p))
            return TP_FOREIGN;
        is_dynamic |= p.p_type == PT_INTERP;
        is_go |= p.p_type == PT_NOTE && is_go_note(l, &p);
        is_library |= p.p_type == PT_DYNAMIC && has_soname(l, &p);
    }
    if (is_dynamic)
        return is_go ? TP_FOREIGN : 0;
    return e.e_type == ET_EXEC || (e.e_type == ET_DYN && !is_library) ? TP_STATIC : 0;
}

/* Whether running the file gives rights that the caller does not have: the loader then drops the library. `fd`: -1 where it may be
 * run but not read. */
static bool is_privileged(int fd, const struct stat *st)
{
    long uid = syscall(SYS_getuid);
    bool gains = ((st->st_mode & S_ISUID) && (long)st->st_uid != uid) ||
                 ((st->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && (long)st->st_gid != syscall(SYS_getgid)) ||
                 (uid && fd >= 0 && syscall(SYS_fgetxattr, fd, "security.capability", NULL, 0) > 0);
    if (!gains || syscall(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        return false;
    struct statfs fs;
    enum { NO_SUID = 2 }; /* the mount's flag, as statfs gives it */
    return fd < 0 || syscall(SYS_fstatfs, fd, &fs) != 0 || !(fs.f_flags & NO_SUID);
}

/* The interpreter that a `#!` line names, at the head's place. */
static const char *interpreter(struct look *l)
{
    char *at = l->head + 2, *end = l->head + (l->length < LINE_BYTES ? l->length : LINE_BYTES);
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    char *name = at;
    while (at < end && *at != ' ' && *at != '\t' && *at != '\n' && *at)
        at++;
    if (at == end || at == name)
        return NULL;
    *at = 0;
    return name;
}

int unseen_reason(int directory, const char *path)
{
    struct look l;
    for (int i = 0; i <= SCRIPTS; i++) {
        struct stat st; /* asked first: to open a device or a pipe would do something */
        if (syscall(SYS_newfstatat, directory, path, &st, 0) != 0 || !S_ISREG(st.st_mode) || !(st.st_mode & 0111))
            return 0;
        l.fd = (int)syscall(SYS_openat, directory, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
        if (l.fd < 0)
            return is_privileged(-1, &st) ? TP_PRIVILEGED : 0;
        long n = syscall(SYS_read, l.fd, l.head, sizeof l.head);
        l.length = n > 0 ? (size_t)n : 0;
        bool is_script = n > 2 && !memcmp(l.head, "#!", 2);
        int reason = 0;
        if (n >= SELFMAG && !memcmp(l.head, ELFMAG, SELFMAG) && !(reason = elf_reason(&l)) && is_privileged(l.fd, &st))
            reason = TP_PRIVILEGED;
        syscall(SYS_close, l.fd);
        if (!is_script)
            return reason;
        directory = AT_FDCWD;
        path = interpreter(&l); /* in `l`, and read once more before that is filled anew */
        if (!path)
            return 0;
    }
    return 0;
}

void unseen_record(int reason, const char *path)
{
    struct file f = file_unwatched(path);
    uint64_t now = now_ticks();
    if (f.id)
        record(TP_UNSEEN, reason, f.id, 0, 0, now, now, 0, 0);
}

/* --- io_uring ----------------------------------------------------------------------------------------------------------------- */

/* The set-up of a ring, where a program asks for it through the C library: what it then does passes by. What asks the kernel itself
 * (liburing) the agent finds among the process's descriptors. */
static void io_uring_set_up(void)
{
    int error = errno;
    char *path = scratch_take();
    long n = path ? syscall(SYS_readlink, "/proc/self/exe", path, (size_t)PATH_ROOM - 1) : 0;
    if (n > 0) {
        path[n] = 0;
        unseen_record(TP_IO_URING, path);
    }
    if (path)
        scratch_give(path);
    errno = error;
}

/* `syscall`: what is not looked at passes with a jump, since a child may come back on another stack (clone). Before our constructor has run
 * there is no real one to jump to, nor may one be looked up: an allocator may call it from malloc. Only on x86-64 does it then ask the kernel
 * itself; elsewhere the first call looks the real one up all the same. */
struct real bellrock_syscall __attribute__((section("bellrock_reals"), used)) = {"syscall", NULL};
#define REAL_SYSCALL ((long (*)(long, long, long, long, long, long, long))bellrock_syscall.call)

/* Whoever passes fewer arguments leaves the rest as it happens to be, which harms nobody. */
__attribute__((visibility("hidden"), used)) long bellrock_io_uring_setup(long number, long a, long b, long c, long d, long e, long f)
{
    if (!REAL_SYSCALL)
        real_symbol(&bellrock_syscall);
    long r = REAL_SYSCALL(number, a, b, c, d, e, f);
    if (number == SYS_io_uring_setup && r >= 0 && !outside())
        io_uring_set_up();
    return r;
}
#if defined(__x86_64__)
_Static_assert(SYS_io_uring_setup == 425 && offsetof(struct real, call) == 8, "as they stand below");
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        "    endbr64\n"
        "    cmpq $425, %rdi\n" /* SYS_io_uring_setup */
        "    je bellrock_io_uring_setup\n"
        "    movq bellrock_syscall+8(%rip), %rax\n"
        "    testq %rax, %rax\n"
        "    jz 1f\n"
        "    jmp *%rax\n"
        "1:  movq %rdi, %rax\n"
        "    movq %rsi, %rdi\n"
        "    movq %rdx, %rsi\n"
        "    movq %rcx, %rdx\n"
        "    movq %r8, %r10\n"
        "    movq %r9, %r8\n"
        "    movq 8(%rsp), %r9\n"
        "    syscall\n"
        "    cmpq $-4095, %rax\n"
        "    jae 2f\n"
        "    ret\n"
        "2:  negl %eax\n"
        "    movl %eax, %edi\n"
        "    subq $8, %rsp\n"
        "    call bellrock_set_errno\n"
        "    addq $8, %rsp\n"
        "    movq $-1, %rax\n"
        "    ret\n"
        ".size syscall, .-syscall\n");
#else
#if defined(__has_attribute) && __has_attribute(musttail)
#define JUMP __attribute__((musttail)) return
#elif defined(__OPTIMIZE__)
#define JUMP return
#else
#error "without optimisation this compiler passes `syscall` on with a call, after which a clone's child comes back without a stack: use -O2"
#endif
/* The C name is not the header's, whose dots would not let the arguments be passed on. */
WRAP long program_syscall(long number, long a, long b, long c, long d, long e, long f) __asm__("syscall");
WRAP long program_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (RARE(!REAL_SYSCALL || number == SYS_io_uring_setup))
        JUMP bellrock_io_uring_setup(number, a, b, c, d, e, f);
    JUMP REAL_SYSCALL(number, a, b, c, d, e, f);
}
#endif
