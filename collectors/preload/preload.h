/* What the parts of libbellrock.so share. Hidden from the watched program, like everything but the wrappers. */
#ifndef PRELOAD_H
#define PRELOAD_H
#include "tracepack.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define WRAP __attribute__((visibility("default")))
/* Kept away from what runs at every call: after a system call the instruction cache is cold. */
#define COLD __attribute__((cold))
#define COMMA ,
/* Whether a pointer is one, also where the C library's headers promise the compiler that it is: programs pass NULL all the same. */
static inline bool is_null(const void *pointer)
{
    __asm__("" : "+r"(pointer));
    return !pointer;
}
#define RARE(condition) __builtin_expect(!!(condition), 0)

/* What follows is ours alone: without this the compiler reaches data of other files through the global offset table. */
#pragma GCC visibility push(hidden)

/* The real functions. All are looked up as the library is loaded (`reals_find`): to look one up takes locks, which the child of a threaded
 * program's fork, or a signal handler, might wait for in vain. Other libraries' constructors may call us before: then it is looked up at
 * its first use, or is a bare system call (see reals.c). Where the C library has none (a newer program asked whether it does, and found
 * ours), one that fails with ENOSYS, as a system call does that the kernel does not have. What is no system call, nobody expects to fail so:
 * it is wrapped only where the C library has it (__GLIBC_PREREQ). */
struct real {
    const char *name;
    void *call;
} __attribute__((aligned(2 * sizeof(void *)))); /* as they lie side by side */
COLD void *real_symbol(struct real *);
void reals_find(void);
long not_implemented(void);
#define REAL(ret, name, ...)                                                                                                 \
    static struct real real_##name __attribute__((section("bellrock_reals"))) = {#name, NULL};                               \
    static inline ret (*real_##name##_get(void))(__VA_ARGS__)                                                                \
    {                                                                                                                        \
        return (ret(*)(__VA_ARGS__))(RARE(!real_##name.call) ? real_symbol(&real_##name) : real_##name.call);                \
    }
#define CALL(name) real_##name##_get()
#define IS_THERE(name) ((void *)CALL(name) != (void *)not_implemented)

/* --- clock ---------------------------------------------------------------------------------------------------------- */
extern uint32_t clock_kind; /* TP_CLOCK_* */

static inline uint64_t monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static inline uint64_t now_ticks(void)
{
#if defined(__x86_64__)
    if (!RARE(clock_kind == TP_CLOCK_MONOTONIC))
        return __rdtsc();
#endif
    return monotonic_ns();
}

/* --- descriptors ------------------------------------------------------------------------------------------------------ */
#define FDS 65536 /* bound: descriptors beyond it are not watched, their operations are counted as lost */

/* State of a descriptor: UNKNOWN (made by a call that we do not see, or before us: asked of /proc at its first use), IGNORED,
 * or watched by this process image: any other value, equal to watched_tag unless it was inherited by fork. */
enum { FD_UNKNOWN = 0, FD_IGNORED = 1 };
extern uint32_t watched_tag;

struct descriptor {
    _Atomic uint32_t tag;
    _Atomic uint32_t position; /* index into the open file descriptions below, which dup()ed descriptors share */
    _Atomic uint64_t file;
    const char *_Atomic name; /* in the names area of this process image or, inherited, of its parent */
    _Atomic uint32_t name_length;
};
struct position {
    _Atomic uint64_t offset;
    _Atomic int32_t users;
    _Atomic uint8_t flags; /* TP_OFFSET_UNSURE where the offset is a guess, TP_DIRECTORY, APPENDS */
};
/* Writes go to the end, wherever that is. Not a flag of a record. */
enum { APPENDS = 1 };
extern struct descriptor descriptors[FDS];
extern struct position positions[FDS];

COLD struct descriptor *descriptor_resolve(int fd);
COLD void descriptor_beyond(int fd);

/* The descriptor if its file is watched, else NULL. Leaves errno alone. */
static inline struct descriptor *watched(int fd)
{
    if (RARE((unsigned)fd >= FDS)) {
        if (fd >= 0)
            descriptor_beyond(fd);
        return NULL;
    }
    struct descriptor *d = &descriptors[fd];
    uint32_t tag = atomic_load_explicit(&d->tag, memory_order_acquire);
    if (tag == watched_tag)
        return d;
    if (tag == FD_IGNORED)
        return NULL;
    return descriptor_resolve(fd);
}
void descriptor_closed(int fd);
void descriptor_copied(int from, int to);
void descriptors_closed(unsigned first, unsigned last);
static inline struct position *position_of(struct descriptor *d)
{
    return &positions[atomic_load_explicit(&d->position, memory_order_relaxed) % FDS];
}
static inline uint8_t directory_flag(struct descriptor *d)
{
    return position_of(d)->flags & TP_DIRECTORY;
}

/* --- files ------------------------------------------------------------------------------------------------------------ */
struct file {
    uint64_t id; /* 0: not watched */
    const char *name;
    uint32_t name_length;
};
/* Which file a call with (directory, path) means, none before our constructor or after vfork; asks the system nothing unless the directory
 * is one we have not seen opened. */
struct file file_of(int directory, const char *path);
/* The same after the call: a path that the system could not read must not be read here either. */
static inline struct file file_called(int directory, const char *path, bool failed)
{
    return RARE(failed && errno == EFAULT) ? (struct file){0} : file_of(directory, path);
}
/* The file of an absolute path, watched or not. */
struct file file_unwatched(const char *path);
/* Room for a path; NULL where all is taken. */
enum { PATH_ROOM = 4096 };
char *scratch_take(void);
void scratch_give(char *scratch);
/* What /proc says that a descriptor stands for; its length, -1 where that is no path. No zero byte ends it. */
int descriptor_path(int fd, char *out);
void descriptor_opened(int fd, struct file f, uint8_t flags);
void directory_changed(void);
bool path_is_watched(const char *path, size_t length);

/* --- recording -------------------------------------------------------------------------------------------------------- */
struct thread {
    void *segment;
    uint64_t retry_at;     /* ticks: when a thread with a full ring looks for another segment again */
    volatile uint32_t busy; /* a signal handler's operation amid one of ours is counted as lost, not recorded */
};
extern __thread struct thread self __attribute__((tls_model("initial-exec")));
/* 1 between vfork() and exec: the memory is the parent's, the descriptors are not. */
extern __thread volatile uint32_t bellrock_borrowed __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* On a page that a fork without our handler (_Fork, clone) wipes: a window of 0 means that segment and process are no more ours. */
extern struct wiped {
    struct tp_limits limits;
    char rest[4096 - sizeof(struct tp_limits)];
} wiped;
static inline bool is_wiped(void)
{
    return RARE(!atomic_load_explicit(&wiped.limits.window, memory_order_relaxed));
}
/* The operation did not go straight into a segment: `outcome` says why (TP_RECORDED: the thread has none yet). Keeps errno. */
COLD void record_rarely(const struct tp_operation *, uint32_t outcome);
COLD void record_lost(void);

/* Leaves errno alone. Inlined where every nanosecond counts; `record` is the same out of line. */
static inline __attribute__((always_inline)) void record_inline(uint8_t op, int handle, uint64_t file, uint64_t offset, uint64_t size,
                                                                uint64_t start, uint64_t end, int error, uint8_t flags)
{
    struct tp_operation o = {file, offset, size, start, end, handle, (uint16_t)error, op, flags};
    if (RARE(self.busy)) {
        record_lost();
        return;
    }
    self.busy = 1;
    atomic_signal_fence(memory_order_seq_cst);
    uint32_t outcome = TP_RECORDED;
    if (RARE(!self.segment || is_wiped()) || RARE((outcome = tp_record(self.segment, &o, &wiped.limits)) != TP_RECORDED))
        record_rarely(&o, outcome);
    atomic_signal_fence(memory_order_seq_cst);
    self.busy = 0;
}
void record(uint8_t op, int handle, uint64_t file, uint64_t offset, uint64_t size, uint64_t start, uint64_t end, int error,
            uint8_t flags);

/* A metadata operation on a path. `flags`: TP_DIRECTORY or 0. */
static inline void record_path(uint8_t op, struct file f, uint64_t start, uint64_t end, bool failed, uint8_t flags)
{
    if (f.id)
        record(op, -1, f.id, 0, 0, start, end, failed ? errno : 0, flags);
}
/* A metadata operation on a descriptor. `flags`: TP_DIRECTORY or 0. */
static inline void record_descriptor(uint8_t op, int fd, uint64_t file, uint8_t flags, uint64_t start, bool failed)
{
    record(op, fd, file, 0, 0, start, now_ticks(), failed ? errno : 0, flags);
}
/* A call on a descriptor that moves no data. */
#define ON_DESCRIPTOR(op, name, fd, parameters, ...)                                                                         \
    REAL(int, name, parameters)                                                                                              \
    WRAP int name(parameters)                                                                                                \
    {                                                                                                                        \
        struct descriptor *d = watched(fd);                                                                                  \
        uint64_t start = d ? now_ticks() : 0;                                                                                \
        int r = CALL(name)(__VA_ARGS__);                                                                                     \
        if (d)                                                                                                               \
            record_descriptor(op, fd, atomic_load_explicit(&d->file, memory_order_relaxed), directory_flag(d), start, r != 0); \
        return r;                                                                                                            \
    }

/* Not to be looked at: before our constructor has run (other libraries' constructors), or between vfork and exec. */
extern bool started;
static inline bool outside(void)
{
    return RARE(!started || bellrock_borrowed);
}
#pragma GCC visibility pop
#endif
