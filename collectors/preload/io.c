/* Reads, writes, and what moves or shares a file's position. */
#define _GNU_SOURCE
#include "preload.h"
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#undef _FORTIFY_SOURCE

/* Recording leaves errno alone (see `record`).
 *
 * The result of a call that moved `n` bytes (or failed) at the descriptor's own position. */
static inline void moved(uint8_t op, int fd, struct descriptor *d, uint64_t start, ssize_t n)
{
    uint64_t end = now_ticks(), file = atomic_load_explicit(&d->file, memory_order_relaxed);
    struct position *p = position_of(d);
    uint64_t size = n > 0 ? (uint64_t)n : 0;
    uint64_t offset = size ? atomic_fetch_add_explicit(&p->offset, size, memory_order_relaxed)
                           : atomic_load_explicit(&p->offset, memory_order_relaxed);
    record_inline(op, fd, file, offset, size, start, end, RARE(n < 0) ? errno : 0, p->flags & (uint8_t)~APPENDS);
}
/* The same at a given offset. */
static inline void moved_at(uint8_t op, int fd, struct descriptor *d, uint64_t offset, uint64_t start, ssize_t n)
{
    uint64_t end = now_ticks();
    record_inline(op, fd, atomic_load_explicit(&d->file, memory_order_relaxed), offset, n > 0 ? (uint64_t)n : 0, start, end,
           RARE(n < 0) ? errno : 0, 0);
}

/* Next to each other and to the first pass in memory: after a system call the instruction cache is cold. */
#define HOT __attribute__((hot))
/* A call on `fd` whose answer n is the bytes that it moved; `then` records it. */
#define MOVES_DATA(name, then, parameters, ...)                                                                              \
    REAL(ssize_t, name, int fd, parameters)                                                                                  \
    HOT WRAP ssize_t name(int fd, parameters)                                                                                \
    {                                                                                                                        \
        struct descriptor *d = watched(fd);                                                                                  \
        if (!d)                                                                                                              \
            return CALL(name)(fd, __VA_ARGS__);                                                                              \
        uint64_t start = now_ticks();                                                                                        \
        ssize_t n = CALL(name)(fd, __VA_ARGS__);                                                                             \
        then;                                                                                                                \
        return n;                                                                                                            \
    }
#define AT_POSITION(op) moved(op, fd, d, start, n)
#define AT_OFFSET(op) moved_at(op, fd, d, (uint64_t)offset, start, n)
#define AT_EITHER(op) offset == -1 ? AT_POSITION(op) : AT_OFFSET(op) /* -1 means the descriptor's position here */

MOVES_DATA(read, AT_POSITION(TP_READ), void *buffer COMMA size_t size, buffer, size)
MOVES_DATA(write, AT_POSITION(TP_WRITE), const void *buffer COMMA size_t size, buffer, size)
MOVES_DATA(readv, AT_POSITION(TP_READ), const struct iovec *parts COMMA int count, parts, count)
MOVES_DATA(writev, AT_POSITION(TP_WRITE), const struct iovec *parts COMMA int count, parts, count)
MOVES_DATA(__read_chk, AT_POSITION(TP_READ), void *buffer COMMA size_t size COMMA size_t room, buffer, size, room)

MOVES_DATA(pread, AT_OFFSET(TP_READ), void *buffer COMMA size_t size COMMA off_t offset, buffer, size, offset)
MOVES_DATA(pread64, AT_OFFSET(TP_READ), void *buffer COMMA size_t size COMMA off64_t offset, buffer, size, offset)
MOVES_DATA(__pread_chk, AT_OFFSET(TP_READ), void *buffer COMMA size_t size COMMA off_t offset COMMA size_t room, buffer, size, offset, room)
MOVES_DATA(__pread64_chk, AT_OFFSET(TP_READ), void *buffer COMMA size_t size COMMA off64_t offset COMMA size_t room, buffer, size, offset, room)
MOVES_DATA(pwrite, AT_OFFSET(TP_WRITE), const void *buffer COMMA size_t size COMMA off_t offset, buffer, size, offset)
MOVES_DATA(pwrite64, AT_OFFSET(TP_WRITE), const void *buffer COMMA size_t size COMMA off64_t offset, buffer, size, offset)
MOVES_DATA(preadv, AT_OFFSET(TP_READ), const struct iovec *parts COMMA int count COMMA off_t offset, parts, count, offset)
MOVES_DATA(preadv64, AT_OFFSET(TP_READ), const struct iovec *parts COMMA int count COMMA off64_t offset, parts, count, offset)
MOVES_DATA(pwritev, AT_OFFSET(TP_WRITE), const struct iovec *parts COMMA int count COMMA off_t offset, parts, count, offset)
MOVES_DATA(pwritev64, AT_OFFSET(TP_WRITE), const struct iovec *parts COMMA int count COMMA off64_t offset, parts, count, offset)
MOVES_DATA(preadv2, AT_EITHER(TP_READ), const struct iovec *parts COMMA int count COMMA off_t offset COMMA int flags, parts, count, offset, flags)
MOVES_DATA(preadv64v2, AT_EITHER(TP_READ), const struct iovec *parts COMMA int count COMMA off64_t offset COMMA int flags, parts, count, offset, flags)
MOVES_DATA(pwritev2, AT_EITHER(TP_WRITE), const struct iovec *parts COMMA int count COMMA off_t offset COMMA int flags, parts, count, offset, flags)
MOVES_DATA(pwritev64v2, AT_EITHER(TP_WRITE), const struct iovec *parts COMMA int count COMMA off64_t offset COMMA int flags, parts, count, offset, flags)

/* --- from one descriptor to another: a read and a write at once ---------------------------------------------------------- */

/* `n` bytes went from `in` to `out`; an offset is that after the call, NULL where the descriptor's own position counts. A failure counts once. */
static void transferred(int in, const off64_t *in_offset, int out, const off64_t *out_offset, uint64_t start, ssize_t n)
{
    struct descriptor *from = watched(in), *to = watched(out);
    uint64_t moved_bytes = n > 0 ? (uint64_t)n : 0;
    if (RARE(n < 0 && errno == EFAULT))
        in_offset = out_offset = NULL; /* not to be read */
    if (from && in_offset)
        moved_at(TP_READ, in, from, (uint64_t)*in_offset - moved_bytes, start, n);
    else if (from)
        moved(TP_READ, in, from, start, n);
    if (!to || (from ? n <= 0 : n == 0))
        return;
    if (out_offset)
        moved_at(TP_WRITE, out, to, (uint64_t)*out_offset - moved_bytes, start, n);
    else
        moved(TP_WRITE, out, to, start, n);
}

#define SENDFILE(name, type)                                                                                                 \
    REAL(ssize_t, name, int, int, type *, size_t)                                                                            \
    WRAP ssize_t name(int out, int in, type *offset, size_t count)                                                           \
    {                                                                                                                        \
        uint64_t start = now_ticks();                                                                                        \
        ssize_t n = CALL(name)(out, in, offset, count);                                                                      \
        transferred(in, (off64_t *)offset, out, NULL, start, n);                                                             \
        return n;                                                                                                            \
    }
SENDFILE(sendfile, off_t)
SENDFILE(sendfile64, off64_t)

#define COPY(name)                                                                                                           \
    REAL(ssize_t, name, int, off64_t *, int, off64_t *, size_t, unsigned)                                                    \
    WRAP ssize_t name(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t size, unsigned flags)                 \
    {                                                                                                                        \
        uint64_t start = now_ticks();                                                                                        \
        ssize_t n = CALL(name)(in, in_offset, out, out_offset, size, flags);                                                 \
        transferred(in, in_offset, out, out_offset, start, n);                                                               \
        return n;                                                                                                            \
    }
COPY(copy_file_range)
COPY(splice) /* the side that is a pipe is not watched */

/* --- positions -------------------------------------------------------------------------------------------------------------- */

#define SEEK(name, type)                                                                                                     \
    REAL(type, name, int, type, int)                                                                                         \
    WRAP type name(int fd, type offset, int whence)                                                                          \
    {                                                                                                                        \
        type now = CALL(name)(fd, offset, whence);                                                                           \
        struct descriptor *d = now >= 0 ? watched(fd) : NULL;                                                                \
        if (d) {                                                                                                             \
            struct position *p = position_of(d);                                                                             \
            atomic_store_explicit(&p->offset, (uint64_t)now, memory_order_relaxed);                                          \
            if (!(p->flags & APPENDS))                                                                                       \
                p->flags &= (uint8_t)~TP_OFFSET_UNSURE;                                                                      \
        }                                                                                                                    \
        return now;                                                                                                          \
    }
SEEK(lseek, off_t)
SEEK(lseek64, off64_t)

/* --- sync, truncate, map ------------------------------------------------------------------------------------------------------ */

ON_DESCRIPTOR(TP_SYNC, fsync, fd, int fd, fd)
ON_DESCRIPTOR(TP_SYNC, fdatasync, fd, int fd, fd)
ON_DESCRIPTOR(TP_SYNC, syncfs, fd, int fd, fd)
ON_DESCRIPTOR(TP_SYNC, sync_file_range, fd, int fd COMMA off64_t offset COMMA off64_t size COMMA unsigned flags, fd, offset, size, flags)
ON_DESCRIPTOR(TP_TRUNCATE, ftruncate, fd, int fd COMMA off_t length, fd, length)
ON_DESCRIPTOR(TP_TRUNCATE, ftruncate64, fd, int fd COMMA off64_t length, fd, length)
/* What gives a file room, or takes it, counts as what sets its length. */
ON_DESCRIPTOR(TP_TRUNCATE, fallocate, fd, int fd COMMA int mode COMMA off_t offset COMMA off_t size, fd, mode, offset, size)
ON_DESCRIPTOR(TP_TRUNCATE, fallocate64, fd, int fd COMMA int mode COMMA off64_t offset COMMA off64_t size, fd, mode, offset, size)
/* Its answer is the error. */
#define POSIX_FALLOCATE(name, type)                                                                                          \
    REAL(int, name, int, type, type)                                                                                         \
    WRAP int name(int fd, type offset, type size)                                                                            \
    {                                                                                                                        \
        struct descriptor *d = watched(fd);                                                                                  \
        uint64_t start = d ? now_ticks() : 0;                                                                                \
        int r = CALL(name)(fd, offset, size);                                                                                \
        if (d)                                                                                                               \
            record(TP_TRUNCATE, fd, atomic_load_explicit(&d->file, memory_order_relaxed), 0, 0, start, now_ticks(), r, 0);   \
        return r;                                                                                                            \
    }
POSIX_FALLOCATE(posix_fallocate, off_t)
POSIX_FALLOCATE(posix_fallocate64, off64_t)

#define MAP(name, type)                                                                                                      \
    REAL(void *, name, void *, size_t, int, int, int, type)                                                                  \
    WRAP void *name(void *address, size_t length, int protection, int flags, int fd, type offset)                           \
    {                                                                                                                        \
        if (fd < 0 || (flags & MAP_ANONYMOUS))                                                                               \
            return CALL(name)(address, length, protection, flags, fd, offset);                                               \
        struct descriptor *d = watched(fd);                                                                                  \
        uint64_t start = d ? now_ticks() : 0;                                                                                \
        void *r = CALL(name)(address, length, protection, flags, fd, offset);                                                \
        if (d) {                                                                                                             \
            bool failed = r == MAP_FAILED;                                                                                   \
            record(TP_MMAP, fd, atomic_load_explicit(&d->file, memory_order_relaxed), (uint64_t)offset, failed ? 0 : length, \
                   start, now_ticks(), failed ? errno : 0, TP_PARTLY_SEEN);                                                  \
        }                                                                                                                    \
        return r;                                                                                                            \
    }
MAP(mmap, off_t)
MAP(mmap64, off64_t)
