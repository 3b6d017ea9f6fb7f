/* Asynchronous I/O: POSIX's, and the kernel's through libaio.
 *
 * An operation counts when the program is given its result, with the bytes that it says, and lasts from its submission until then, or
 * until the program first learned that it is done. One whose result is never fetched is not known to have moved anything. */
#define _GNU_SOURCE
#include "preload.h"
#include <aio.h>
#include <linux/aio_abi.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* Operations on their way, found by their control block. Bound: what finds no place within PROBES is counted as lost. */
enum { PENDING = 4096, PROBES = 64 };
struct pending {
    _Atomic uintptr_t key; /* the control block; EMPTY or TAKEN */
    uint32_t tag;          /* of the process image: a fork's child does not have its parent's */
    int fd;
    uint64_t file, offset, start;
    _Atomic uint64_t end; /* 0: not known to be done */
    uint8_t op, flags;
};
enum { EMPTY = 0, TAKEN = 1 };
static struct pending pending[PENDING];
static _Atomic int pending_count; /* 0: none is to be looked for */

static struct pending *place(uintptr_t key, unsigned probe)
{
    return &pending[(((key >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32) + probe) % PENDING];
}

/* Looks up the operation of a control block. */
static struct pending *find(const void *block)
{
    uintptr_t key = (uintptr_t)block;
    unsigned probes = atomic_load_explicit(&pending_count, memory_order_acquire) > 0 ? PROBES : 0;
    for (unsigned i = 0; i < probes; i++) {
        struct pending *p = place(key, i);
        if (atomic_load_explicit(&p->key, memory_order_acquire) == key && p->tag == watched_tag)
            return p;
    }
    return NULL;
}

/* Notes an operation that is about to be submitted, if its file is watched. */
static void submit(const void *block, uint8_t op, int fd, uint64_t offset)
{
    int error = errno;
    struct descriptor *d = watched(fd);
    errno = error;
    if (!d)
        return;
    uintptr_t key = (uintptr_t)block;
    for (unsigned i = 0; i < PROBES; i++) {
        struct pending *p = place(key, i);
        uintptr_t seen = atomic_load_explicit(&p->key, memory_order_relaxed);
        bool is_stale = seen > TAKEN && p->tag != watched_tag;
        if ((seen == EMPTY || is_stale) && atomic_compare_exchange_strong(&p->key, &seen, TAKEN)) {
            p->tag = watched_tag;
            p->fd = fd;
            p->file = atomic_load_explicit(&d->file, memory_order_relaxed);
            p->offset = offset;
            p->op = op;
            p->flags = position_of(d)->flags & APPENDS && op == TP_WRITE ? TP_OFFSET_UNSURE : 0;
            atomic_store_explicit(&p->end, 0, memory_order_relaxed);
            if (!is_stale)
                atomic_fetch_add_explicit(&pending_count, 1, memory_order_relaxed);
            p->start = now_ticks();
            atomic_store_explicit(&p->key, key, memory_order_release);
            return;
        }
    }
    record_lost();
}

static bool take(const void *block, struct pending *out)
{
    struct pending *p;
    while ((p = find(block))) {
        uintptr_t key = (uintptr_t)block;
        if (!atomic_compare_exchange_strong(&p->key, &key, TAKEN))
            continue;
        memcpy(out, p, sizeof *out);
        atomic_store_explicit(&p->key, EMPTY, memory_order_release);
        atomic_fetch_sub_explicit(&pending_count, 1, memory_order_relaxed);
        return true;
    }
    return false;
}

/* The operation has moved `n` bytes, or failed with `error`. */
static void finish(const void *block, int64_t n, int error)
{
    struct pending p;
    if (outside() || !take(block, &p))
        return;
    uint64_t end = p.end ? p.end : now_ticks();
    bool moves = p.op == TP_READ || p.op == TP_WRITE;
    record(p.op, p.fd, p.file, p.offset, moves && n > 0 ? (uint64_t)n : 0, p.start, end, error, p.flags);
}

/* --- POSIX ------------------------------------------------------------------------------------------------------------------------ */

/* The two kinds of control block are one. */
_Static_assert(sizeof(struct aiocb) == sizeof(struct aiocb64) && sizeof(off_t) == sizeof(off64_t), "64-bit only");

REAL(int, aio_error, const struct aiocb *)
REAL(ssize_t, aio_return, struct aiocb *)

static ssize_t fetch(struct aiocb *block)
{
    int before = errno, error = CALL(aio_error)(block);
    errno = before;
    ssize_t n = CALL(aio_return)(block);
    if (error != EINPROGRESS)
        finish(block, n, n < 0 ? error : 0);
    return n;
}
/* A program that never asked what became of the block's last operation: it is done, or the block could not be used anew. */
static void begin(struct aiocb *block, uint8_t op, int fd, uint64_t offset)
{
    if (outside())
        return;
    if (find(block))
        fetch(block);
    submit(block, op, fd, offset);
}
static int begun(struct aiocb *block, int r)
{
    if (r != 0)
        finish(block, -1, errno);
    return r;
}

#define AIO(name, type, op, offset, parameters, ...)                                                                         \
    REAL(int, name, parameters)                                                                                              \
    WRAP int name(parameters)                                                                                                \
    {                                                                                                                        \
        begin((struct aiocb *)block, op, block->aio_fildes, offset);                                                         \
        return begun((struct aiocb *)block, CALL(name)(__VA_ARGS__));                                                        \
    }
AIO(aio_read, aiocb, TP_READ, (uint64_t)block->aio_offset, struct aiocb *block, block)
AIO(aio_read64, aiocb64, TP_READ, (uint64_t)block->aio_offset, struct aiocb64 *block, block)
AIO(aio_write, aiocb, TP_WRITE, (uint64_t)block->aio_offset, struct aiocb *block, block)
AIO(aio_write64, aiocb64, TP_WRITE, (uint64_t)block->aio_offset, struct aiocb64 *block, block)
AIO(aio_fsync, aiocb, TP_SYNC, 0, int what COMMA struct aiocb *block, what, block)
AIO(aio_fsync64, aiocb64, TP_SYNC, 0, int what COMMA struct aiocb64 *block, what, block)

WRAP ssize_t aio_return(struct aiocb *block)
{
    return fetch(block);
}
WRAP ssize_t aio_return64(struct aiocb64 *block)
{
    return fetch((struct aiocb *)block);
}

/* The program learns that the operation is done. */
WRAP int aio_error(const struct aiocb *block)
{
    int r = CALL(aio_error)(block);
    struct pending *p = r == EINPROGRESS || outside() ? NULL : find(block);
    uint64_t not_yet = 0;
    if (p)
        atomic_compare_exchange_strong(&p->end, &not_yet, now_ticks());
    return r;
}
WRAP int aio_error64(const struct aiocb64 *block)
{
    return aio_error((const struct aiocb *)block);
}

/* A list that is waited for is done when the call returns; the results may never be asked for. */
static int list(__typeof__(int (*)(int, struct aiocb *const *, int, struct sigevent *)) call, int mode, struct aiocb *const *blocks, int count,
                struct sigevent *event)
{
    for (int i = 0; i < count; i++) {
        struct aiocb *block = blocks[i];
        if (block && (block->aio_lio_opcode == LIO_READ || block->aio_lio_opcode == LIO_WRITE))
            begin(block, block->aio_lio_opcode == LIO_READ ? TP_READ : TP_WRITE, block->aio_fildes, (uint64_t)block->aio_offset);
    }
    int r = call(mode, blocks, count, event), error = errno;
    struct pending none;
    for (int i = 0; (mode == LIO_WAIT || r < 0) && i < count; i++) {
        if (!blocks[i] || !find(blocks[i]))
            continue;
        if (mode == LIO_WAIT)
            fetch(blocks[i]);
        else if (CALL(aio_error)(blocks[i]) != EINPROGRESS)
            take(blocks[i], &none); /* most likely it was not begun: what becomes of the block later is another operation */
    }
    errno = error;
    return r;
}
REAL(int, lio_listio, int, struct aiocb *const *, int, struct sigevent *)
WRAP int lio_listio(int mode, struct aiocb *const *blocks, int count, struct sigevent *event)
{
    return list(CALL(lio_listio), mode, blocks, count, event);
}
REAL(int, lio_listio64, int, struct aiocb *const *, int, struct sigevent *)
WRAP int lio_listio64(int mode, struct aiocb64 *const *blocks, int count, struct sigevent *event)
{
    return list(CALL(lio_listio64), mode, (struct aiocb *const *)blocks, count, event);
}

/* --- libaio -------------------------------------------------------------------------------------------------------------------------- */

/* Not the C library's: where the real ones cannot be found (a library that was loaded for its user alone), the kernel is asked as they
 * would. Their errors are negative answers, errno is left alone. */
static long answer(long r, int error)
{
    long n = r < 0 ? -errno : r;
    errno = error;
    return n;
}

/* Control blocks that are looked at together. */
enum { BLOCKS = 32 };

/* Copies what lies at `from` pieces of `size` bytes, as the kernel would: what the program has no memory for ends it. Says how many whole
 * pieces there are. Where the call is forbidden the memory is read as it is. */
static long copy_pieces(void *out, const struct iovec *from, long count, size_t size)
{
    struct iovec to = {out, (size_t)count * size};
    int error = errno;
    ssize_t n = process_vm_readv(getpid(), &to, 1, from, (unsigned long)count, 0);
    bool is_forbidden = n < 0 && errno != EFAULT;
    errno = error;
    for (long i = 0; is_forbidden && i < count; i++)
        memcpy((char *)out + (size_t)i * size, from[i].iov_base, size);
    return is_forbidden ? count : n < 0 ? 0 : n / (ssize_t)size;
}

/* Notes operations that are about to be submitted, up to the first that cannot be read; says how many. */
static long submit_blocks(struct iocb **blocks, long count)
{
    struct iocb *handed[BLOCKS], copies[BLOCKS];
    struct iovec from[BLOCKS];
    for (long i = 0; i < count; i++)
        from[i] = (struct iovec){&blocks[i], sizeof *blocks};
    count = copy_pieces(handed, from, count, sizeof *handed);
    for (long i = 0; i < count; i++)
        from[i] = (struct iovec){handed[i], sizeof **blocks};
    count = copy_pieces(copies, from, count, sizeof *copies);
    for (long i = 0; i < count; i++) {
        const struct iocb *b = &copies[i];
        switch (b->aio_lio_opcode) {
        case IOCB_CMD_PREAD:
        case IOCB_CMD_PREADV:
            submit(handed[i], TP_READ, (int)b->aio_fildes, (uint64_t)b->aio_offset);
            break;
        case IOCB_CMD_PWRITE:
        case IOCB_CMD_PWRITEV:
            submit(handed[i], TP_WRITE, (int)b->aio_fildes, (uint64_t)b->aio_offset);
            break;
        case IOCB_CMD_FSYNC:
        case IOCB_CMD_FDSYNC:
            submit(handed[i], TP_SYNC, (int)b->aio_fildes, 0);
            break;
        }
    }
    return count;
}

REAL(int, io_submit, aio_context_t, long, struct iocb **)
WRAP int io_submit(aio_context_t context, long count, struct iocb **blocks)
{
    bool is_seen = !outside();
    long noted = 0;
    while (is_seen && noted < count) {
        long wanted = count - noted < BLOCKS ? count - noted : BLOCKS, n = submit_blocks(blocks + noted, wanted);
        noted += n;
        if (n < wanted)
            break;
    }
    int error = errno, r = IS_THERE(io_submit) ? CALL(io_submit)(context, count, blocks)
                                               : (int)answer(syscall(SYS_io_submit, context, count, blocks), error);
    if (r < 0 && noted > 0)
        finish(blocks[0], -1, -r); /* the first one was refused */
    struct pending none;
    for (long i = r < 0 ? 1 : r; i < noted; i++)
        take(blocks[i], &none); /* not looked at: handed in again, they are new */
    return r;
}

static int events_came(int n, const struct io_event *events)
{
    for (int i = 0; i < n; i++) {
        int64_t result = events[i].res;
        finish((const void *)(uintptr_t)events[i].obj, result, result < 0 ? (int)-result : 0);
    }
    return n;
}
REAL(int, io_getevents, aio_context_t, long, long, struct io_event *, struct timespec *)
WRAP int io_getevents(aio_context_t context, long least, long most, struct io_event *events, struct timespec *limit)
{
    int error = errno;
    return events_came(IS_THERE(io_getevents) ? CALL(io_getevents)(context, least, most, events, limit)
                                              : (int)answer(syscall(SYS_io_getevents, context, least, most, events, limit), error),
                       events);
}
REAL(int, io_pgetevents, aio_context_t, long, long, struct io_event *, struct timespec *, sigset_t *)
WRAP int io_pgetevents(aio_context_t context, long least, long most, struct io_event *events, struct timespec *limit, sigset_t *mask)
{
    struct {
        sigset_t *mask;
        size_t bytes;
    } with = {mask, 8}; /* of the kernel's sigset_t */
    int error = errno;
    return events_came(IS_THERE(io_pgetevents) ? CALL(io_pgetevents)(context, least, most, events, limit, mask)
                                               : (int)answer(syscall(SYS_io_pgetevents, context, least, most, events, limit, &with), error),
                       events);
}
