/* The process's ring file, its threads' segments, and the recording of one operation.
 *
 * Nothing here locks: whoever loses a race gives its own attempt back. The system is asked only when a process or thread does its
 * first watched operation, and when a ring or the names area is full. */
#define _GNU_SOURCE
#include "preload.h"
#include "process.h"
#include <linux/falloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

__thread struct thread self __attribute__((tls_model("initial-exec")));
__thread volatile uint32_t bellrock_borrowed __attribute__((tls_model("initial-exec"), visibility("hidden")));
uint32_t watched_tag = 2;

/* One process image's ring file as mapped. Made whole, then published by one compare-and-swap; never unmapped, because names in it
 * stay in use in children. */
enum { SEGMENTS = 1024 }; /* TP_SEGMENTS_MAX, which the first pass holds the count to */
struct image {
    struct tp_header *header;
    char *names;
    void *_Atomic segments[SEGMENTS];
    _Atomic uint64_t names_ready; /* here, not in the file: what others write there must not lead us astray */
    char path[256];
    uint32_t pid;
    struct process_facts facts;
};
static struct image *_Atomic image;
static _Atomic uint64_t retry_at_ns; /* no ring could be had: until then the program runs unwatched */
static _Atomic uint64_t missed;      /* operations meanwhile; they go into the next ring's count of lost ones */
struct wiped wiped __attribute__((aligned(4096)));
static uint64_t window_ns = 1000000000;
static pthread_key_t thread_key;
static bool have_thread_key;

/* Calls of our own go past the wrappers. */
static int own_open(const char *path, int flags, int mode)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC | O_NOFOLLOW, mode);
}
static void own_close(int fd)
{
    syscall(SYS_close, fd);
}

static void *own_map(size_t length, int fd, uint64_t offset)
{
    return (void *)syscall(SYS_mmap, NULL, length, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_NORESERVE,
                           fd, offset);
}

static void limits_set(void)
{
    tp_limits_set(&wiped.limits, clock_rate(), window_ns);
}

/* Room for [offset, offset + length) in the file, unless that would leave others too little of the file system: MPI libraries live
 * there too. Reserved now, because a store into a page that the file system cannot supply would kill the program. */
static bool make_room(int fd, uint64_t offset, uint64_t length)
{
    struct rlimit limit; /* of a file's size: beyond it fallocate would kill the program */
    if (syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) != 0 || offset + length > limit.rlim_cur)
        return false;
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0)
        return false;
    uint64_t free_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize, all = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
    if (free_bytes < all / 8 + 8 * length)
        return false;
    return syscall(SYS_fallocate, fd, 0, (long)offset, (long)length) == 0;
}

static struct image *image_make(void)
{
    static _Atomic unsigned serial;
    /* Mapped with room for what is needed on the way: we may be on a signal handler's small stack. */
    struct image *im = own_map(sizeof *im, -1, 0);
    if (im == MAP_FAILED)
        return NULL;
    struct process_facts *facts = &im->facts;
    if (!process_facts(facts))
        goto no_file;
    im->pid = facts->identity.pid;
    struct instant anchor = instant_now();
    facts->identity.clock = clock_kind;
    facts->identity.anchor_ticks = anchor.ticks;
    facts->identity.anchor_monotonic_ns = anchor.ns;
    int fd = ring_file_create(facts, im->path, sizeof im->path, (uint32_t)(anchor.ns ^ (atomic_fetch_add(&serial, 1) << 28)));
    if (fd < 0)
        goto no_file;
    if (!make_room(fd, 0, TP_NAMES_AT + TP_NAMES_STEP))
        goto no_room;
    im->header = own_map(TP_NAMES_AT, fd, 0);
    im->names = own_map(TP_NAMES_CAPACITY, fd, TP_NAMES_AT);
    if (im->header == MAP_FAILED || im->names == MAP_FAILED)
        goto no_room;
    own_close(fd);
    im->names_ready = TP_NAMES_STEP;
    clock_measure();
    limits_set(); /* also where another thread has measured, and may not have come so far */
    tp_header_init(im->header, &facts->identity, &wiped.limits, TP_NAMES_STEP);
    return im;
no_room:
    own_close(fd);
    syscall(SYS_unlink, im->path);
no_file:
    munmap(im, sizeof *im);
    return NULL;
}

enum { RETRY_NS = 1000000000 };
static struct image *image_get(void)
{
    struct image *im = atomic_load_explicit(&image, memory_order_acquire);
    if (im)
        return im;
    uint64_t retry = atomic_load_explicit(&retry_at_ns, memory_order_relaxed), now = retry ? monotonic_ns() : 0;
    if (now < retry)
        return NULL;
    struct image *mine = image_make(), *none = NULL;
    if (!mine) {
        atomic_store(&retry_at_ns, (retry ? now : monotonic_ns()) + RETRY_NS);
        return NULL;
    }
    if (!atomic_compare_exchange_strong(&image, &none, mine)) {
        syscall(SYS_unlink, mine->path);
        return none;
    }
    tp_lost_operations(mine->header, atomic_exchange(&missed, 0));
    return mine;
}

/* A free segment, or a new one. `spare`: for a thread whose ring is full, from a smaller supply. */
static void *segment_get(struct image *im, bool spare)
{
    for (;;) {
        uint32_t count = tp_segments(im->header), limit = spare ? TP_SEGMENTS_SPARE : TP_SEGMENTS_MAX;
        for (uint32_t i = 0; i < count && i < SEGMENTS; i++) {
            void *s = atomic_load_explicit(&im->segments[i], memory_order_acquire);
            if (s && tp_segment_take(s))
                return s;
        }
        if (count >= limit)
            return NULL;
        uint64_t at = TP_SEGMENTS_AT + (uint64_t)count * TP_SEGMENT_SIZE;
        int fd = own_open(im->path, O_RDWR, 0);
        if (fd < 0)
            return NULL;
        void *s = MAP_FAILED;
        if (make_room(fd, at, TP_SEGMENT_SIZE))
            s = own_map(TP_SEGMENT_SIZE, fd, at);
        own_close(fd);
        if (s == MAP_FAILED)
            return NULL;
        if (!tp_segment_publish(im->header, count)) {
            munmap(s, TP_SEGMENT_SIZE);
            continue;
        }
        /* Takers need the mapping, which they do not have yet. */
        bool mine = tp_segment_take(s);
        atomic_store_explicit(&im->segments[count], s, memory_order_release);
        if (mine)
            return s;
    }
}

static void *thread_attach(void)
{
    struct image *im = image_get();
    if (!im)
        return NULL;
    self.segment = segment_get(im, false);
    if (self.segment && have_thread_key)
        pthread_setspecific(thread_key, self.segment);
    return self.segment;
}

static void thread_ended(void *segment)
{
    (void)segment; /* a thread may have moved on to another one */
    void *last = self.segment;
    self.segment = NULL;
    if (last)
        tp_segment_release(last);
}

void record_rarely(const struct tp_operation *o, uint32_t outcome)
{
    int error = errno;
    if (is_wiped()) {
        core_forked();
        self.busy = 1;
    }
    if (!self.segment) {
        if (!thread_attach()) {
            record_lost();
            errno = error;
            return;
        }
        outcome = tp_record(self.segment, o, &wiped.limits);
    }
    struct image *im = atomic_load_explicit(&image, memory_order_acquire);
    if (outcome == TP_FULL && o->end >= self.retry_at) {
        void *other = segment_get(im, true);
        if (other) {
            tp_segment_release(self.segment);
            self.segment = other;
            outcome = tp_record(other, o, &wiped.limits);
        } else {
            self.retry_at = o->end + wiped.limits.window / 64;
        }
    }
    if (outcome == TP_FULL)
        tp_record_folding(self.segment, o, &wiped.limits);
    errno = error;
}

void record_lost(void)
{
    struct image *im = atomic_load_explicit(&image, memory_order_acquire);
    if (im)
        tp_lost_operations(im->header, 1);
    else
        atomic_fetch_add(&missed, 1);
}

void record(uint8_t op, int handle, uint64_t file, uint64_t offset, uint64_t size, uint64_t start, uint64_t end, int error,
            uint8_t flags)
{
    record_inline(op, handle, file, offset, size, start, end, error, flags);
}

/* The path as kept in this image's names, or NULL: the file is then known by its id alone. */
const char *name_keep(uint64_t file, const char *path, size_t length)
{
    enum { SEEN = 8192 };
    static struct {
        _Atomic uint64_t file;
        const char *_Atomic name;
        _Atomic uint32_t length;
    } seen[SEEN]; /* what was kept lately; a name that falls out of it is kept once more, which harms nobody */
    struct image *im = image_get();
    if (!im)
        return NULL;
    unsigned at = (unsigned)((file ^ file >> 32 ^ watched_tag) % SEEN);
    const char *name = atomic_load_explicit(&seen[at].name, memory_order_acquire);
    if (name && atomic_load_explicit(&seen[at].file, memory_order_relaxed) == file && name >= im->names &&
        name < im->names + TP_NAMES_CAPACITY && atomic_load_explicit(&seen[at].length, memory_order_relaxed) == length &&
        !memcmp(name, path, length))
        return name;
    uint64_t need = 0;
    while (!(name = tp_name_add(im->header, im->names, im->names_ready, file, path, length, &need))) {
        uint64_t ready = (need + TP_NAMES_STEP - 1) / TP_NAMES_STEP * TP_NAMES_STEP;
        int fd = need ? own_open(im->path, O_RDWR, 0) : -1;
        bool grown = fd >= 0 && make_room(fd, TP_NAMES_AT, ready);
        if (fd >= 0)
            own_close(fd);
        if (!grown) {
            tp_lost_name(im->header);
            return NULL;
        }
        uint64_t known = im->names_ready;
        while (known < ready && !atomic_compare_exchange_weak(&im->names_ready, &known, ready))
            ;
        tp_names_grown(im->header, ready);
    }
    atomic_store_explicit(&seen[at].file, file, memory_order_relaxed);
    atomic_store_explicit(&seen[at].length, (uint32_t)length, memory_order_relaxed);
    atomic_store_explicit(&seen[at].name, name, memory_order_release);
    return name;
}

/* After fork, or at the first operation after one that passed our handler by: the child is a process of its own. It goes on with its parent's names and descriptors, not with its segments. */
void core_forked(void)
{
    atomic_store(&image, NULL);
    atomic_store(&retry_at_ns, 0);
    atomic_store(&missed, 0);
    limits_set();
    self.segment = NULL;
    self.busy = 0;
    self.retry_at = 0;
    if (started)
        watched_tag = watched_tag < UINT32_MAX - 1 ? watched_tag + 1 : 2;
}

/* No descriptor is watched any more. */
void core_sealed(void)
{
    watched_tag = UINT32_MAX;
}

/* Once, when the library is loaded. `eager`: the process is known to be part of a job even if it does no I/O. */
void core_start(uint64_t window, bool eager)
{
    if (window)
        window_ns = window;
    madvise(&wiped, sizeof wiped, MADV_WIPEONFORK); /* where the kernel can't, forks past our handler write into the parent's ring */
    clock_start();
    limits_set();
    have_thread_key = pthread_key_create(&thread_key, thread_ended) == 0;
    if (eager)
        image_get();
}
