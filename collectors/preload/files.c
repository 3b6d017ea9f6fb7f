/* Opening, closing and duplicating descriptors. */
#define _GNU_SOURCE
#include "preload.h"
#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>

/* The call has just been answered. */
static void opened(int directory_fd, const char *path, int fd, int flags, uint64_t start)
{
    uint64_t end = now_ticks();
    if (outside())
        return;
    int error = errno;
    struct file f = file_called(directory_fd, path, fd < 0);
    uint8_t directory = flags & O_DIRECTORY && (flags & O_TMPFILE) != O_TMPFILE ? TP_DIRECTORY : 0;
    if (f.id)
        record(TP_OPEN, fd, f.id, 0, 0, start, end, fd < 0 ? error : 0, directory);
    if (fd >= 0) /* where an append goes is not known without asking: offsets then count from the opening */
        descriptor_opened(fd, f, directory | (flags & O_APPEND ? TP_OFFSET_UNSURE | APPENDS : 0));
    errno = error;
}

/* The mode, which is there only if the call creates. */
#define MODE_ARGUMENT(last)                                                                                                  \
    mode_t mode = 0;                                                                                                         \
    if (flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) {                                                                    \
        va_list arguments;                                                                                                   \
        va_start(arguments, last);                                                                                           \
        mode = va_arg(arguments, mode_t);                                                                                    \
        va_end(arguments);                                                                                                   \
    }

#define OPEN(name)                                                                                                           \
    REAL(int, name, const char *, int, ...)                                                                                  \
    WRAP int name(const char *path, int flags, ...)                                                                          \
    {                                                                                                                        \
        MODE_ARGUMENT(flags)                                                                                                 \
        uint64_t start = now_ticks();                                                                                        \
        int fd = CALL(name)(path, flags, mode);                                                                              \
        opened(AT_FDCWD, path, fd, flags, start);                                                                                         \
        return fd;                                                                                                           \
    }
#define OPENAT(name)                                                                                                         \
    REAL(int, name, int, const char *, int, ...)                                                                             \
    WRAP int name(int directory, const char *path, int flags, ...)                                                           \
    {                                                                                                                        \
        MODE_ARGUMENT(flags)                                                                                                 \
        uint64_t start = now_ticks();                                                                                        \
        int fd = CALL(name)(directory, path, flags, mode);                                                                   \
        opened(directory, path, fd, flags, start);                                                                                         \
        return fd;                                                                                                           \
    }
#define OPEN_AS(name, flag_bits, directory, parameters, ...)                                                                 \
    REAL(int, name, parameters)                                                                                              \
    WRAP int name(parameters)                                                                                                \
    {                                                                                                                        \
        uint64_t start = now_ticks();                                                                                        \
        int fd = CALL(name)(__VA_ARGS__);                                                                                    \
        opened(directory, path, fd, flag_bits, start);                                                                                     \
        return fd;                                                                                                           \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
OPEN_AS(creat, 0, AT_FDCWD, const char *path COMMA mode_t mode, path, mode)
OPEN_AS(creat64, 0, AT_FDCWD, const char *path COMMA mode_t mode, path, mode)
OPEN_AS(__open_2, flags, AT_FDCWD, const char *path COMMA int flags, path, flags)
OPEN_AS(__open64_2, flags, AT_FDCWD, const char *path COMMA int flags, path, flags)
OPEN_AS(__openat_2, flags, directory, int directory COMMA const char *path COMMA int flags, directory, path, flags)
OPEN_AS(__openat64_2, flags, directory, int directory COMMA const char *path COMMA int flags, directory, path, flags)

/* These choose the name, so it is known only afterwards. */
#define OPEN_TEMPORARY(name, parameters, ...)                                                                                \
    REAL(int, name, parameters)                                                                                              \
    WRAP int name(parameters)                                                                                                \
    {                                                                                                                        \
        uint64_t start = now_ticks();                                                                                        \
        int fd = CALL(name)(__VA_ARGS__);                                                                                    \
        if (fd >= 0)                                                                                                         \
            opened(AT_FDCWD, path, fd, 0, start);                                                                   \
        return fd;                                                                                                           \
    }
OPEN_TEMPORARY(mkstemp, char *path, path)
OPEN_TEMPORARY(mkstemp64, char *path, path)
OPEN_TEMPORARY(mkostemp, char *path COMMA int flags, path, flags)
OPEN_TEMPORARY(mkostemp64, char *path COMMA int flags, path, flags)
OPEN_TEMPORARY(mkstemps, char *path COMMA int end, path, end)
OPEN_TEMPORARY(mkstemps64, char *path COMMA int end, path, end)
OPEN_TEMPORARY(mkostemps, char *path COMMA int end COMMA int flags, path, end, flags)
OPEN_TEMPORARY(mkostemps64, char *path COMMA int end COMMA int flags, path, end, flags)

REAL(int, close, int)
WRAP int close(int fd)
{
    struct descriptor *d = outside() ? NULL : watched(fd);
    uint64_t file = d ? atomic_load_explicit(&d->file, memory_order_relaxed) : 0, start = d ? now_ticks() : 0;
    uint8_t directory = d ? directory_flag(d) : 0;
    if (!outside())
        descriptor_closed(fd); /* first: another thread may get the number at once */
    int r = CALL(close)(fd);
    if (d)
        record_descriptor(TP_CLOSE, fd, file, directory, start, r != 0);
    return r;
}

REAL(int, close_range, unsigned, unsigned, int)
WRAP int close_range(unsigned first, unsigned last, int flags)
{
    int r = CALL(close_range)(first, last, flags);
    if (r == 0 && !(flags & 4 /* CLOSE_RANGE_CLOEXEC: closes at exec */) && !outside())
        descriptors_closed(first, last);
    return r;
}
#if __GLIBC_PREREQ(2, 34)
REAL(void, closefrom, int)
WRAP void closefrom(int first)
{
    if (!outside())
        descriptors_closed(first < 0 ? 0 : (unsigned)first, FDS - 1);
    CALL(closefrom)(first);
}
#endif

static inline int copied(int from, int to)
{
    if (to >= 0 && !outside()) {
        int error = errno;
        descriptor_copied(from, to);
        errno = error;
    }
    return to;
}
REAL(int, dup, int)
WRAP int dup(int fd)
{
    return copied(fd, CALL(dup)(fd));
}
REAL(int, dup2, int, int)
WRAP int dup2(int fd, int to)
{
    return copied(fd, CALL(dup2)(fd, to));
}
REAL(int, dup3, int, int, int)
WRAP int dup3(int fd, int to, int flags)
{
    return copied(fd, CALL(dup3)(fd, to, flags));
}

/* The third argument is a number or a pointer, or missing; passing on what the register holds is right for all three. */
#define FCNTL(name)                                                                                                          \
    REAL(int, name, int, int, ...)                                                                                           \
    WRAP int name(int fd, int command, ...)                                                                                  \
    {                                                                                                                        \
        va_list arguments;                                                                                                   \
        va_start(arguments, command);                                                                                        \
        void *argument = va_arg(arguments, void *);                                                                          \
        va_end(arguments);                                                                                                   \
        int r = CALL(name)(fd, command, argument);                                                                           \
        return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(fd, r) : r;                                         \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

REAL(int, chdir, const char *)
WRAP int chdir(const char *path)
{
    int r = CALL(chdir)(path);
    if (r == 0 && !outside())
        directory_changed();
    return r;
}
REAL(int, fchdir, int)
WRAP int fchdir(int fd)
{
    int r = CALL(fchdir)(fd);
    if (r == 0 && !outside())
        directory_changed();
    return r;
}

/* --- directories ---------------------------------------------------------------------------------------------------------------- */

REAL(DIR *, opendir, const char *)
WRAP DIR *opendir(const char *path)
{
    uint64_t start = now_ticks();
    DIR *r = CALL(opendir)(path);
    opened(AT_FDCWD, path, r ? dirfd(r) : -1, O_DIRECTORY, start);
    return r;
}
REAL(int, closedir, DIR *)
WRAP int closedir(DIR *directory)
{
    int fd = is_null(directory) ? -1 : dirfd(directory);
    struct descriptor *d = fd < 0 || outside() ? NULL : watched(fd);
    uint64_t file = d ? atomic_load_explicit(&d->file, memory_order_relaxed) : 0, start = d ? now_ticks() : 0;
    if (fd >= 0 && !outside())
        descriptor_closed(fd);
    int r = CALL(closedir)(directory);
    if (d)
        record_descriptor(TP_CLOSE, fd, file, TP_DIRECTORY, start, r != 0);
    return r;
}
/* NULL with errno left as it was is the end of the directory, no failure. */
#define READDIR(name, type)                                                                                                  \
    REAL(type *, name, DIR *)                                                                                                \
    WRAP type *name(DIR *directory)                                                                                          \
    {                                                                                                                        \
        int fd = is_null(directory) ? -1 : dirfd(directory), before = errno;                                                          \
        struct descriptor *d = fd < 0 ? NULL : watched(fd);                                                                  \
        if (!d)                                                                                                              \
            return CALL(name)(directory);                                                                                    \
        uint64_t start = now_ticks();                                                                                        \
        errno = 0;                                                                                                           \
        type *r = CALL(name)(directory);                                                                                     \
        bool failed = !r && errno;                                                                                           \
        if (!failed)                                                                                                         \
            errno = before;                                                                                                  \
        record_descriptor(TP_READDIR, fd, atomic_load_explicit(&d->file, memory_order_relaxed), TP_DIRECTORY, start, failed);              \
        return r;                                                                                                            \
    }
READDIR(readdir, struct dirent)
READDIR(readdir64, struct dirent64)

/* They answer with the error, and put NULL there at the end. */
#define READDIR_R(name, type)                                                                                                \
    REAL(int, name, DIR *, type *, type **)                                                                                  \
    WRAP int name(DIR *directory, type *entry, type **result)                                                                \
    {                                                                                                                        \
        int fd = is_null(directory) ? -1 : dirfd(directory);                                                                 \
        struct descriptor *d = fd < 0 ? NULL : watched(fd);                                                                  \
        uint64_t start = d ? now_ticks() : 0;                                                                                \
        int r = CALL(name)(directory, entry, result);                                                                        \
        if (d)                                                                                                               \
            record(TP_READDIR, fd, atomic_load_explicit(&d->file, memory_order_relaxed), 0, 0, start, now_ticks(), r, TP_DIRECTORY); \
        return r;                                                                                                            \
    }
READDIR_R(readdir_r, struct dirent)
READDIR_R(readdir64_r, struct dirent64)

REAL(ssize_t, getdents64, int, void *, size_t)
WRAP ssize_t getdents64(int fd, void *buffer, size_t size)
{
    struct descriptor *d = watched(fd);
    uint64_t start = d ? now_ticks() : 0;
    ssize_t n = CALL(getdents64)(fd, buffer, size);
    if (d)
        record_descriptor(TP_READDIR, fd, atomic_load_explicit(&d->file, memory_order_relaxed), TP_DIRECTORY, start, n < 0);
    return n;
}

/* A whole directory in one call, which counts as one: what the C library does for it passes by. */
#define SCANDIR(name, directory, parameters, ...)                                                                            \
    REAL(int, name, parameters)                                                                                              \
    WRAP int name(parameters)                                                                                                \
    {                                                                                                                        \
        uint64_t start = now_ticks();                                                                                        \
        int r = CALL(name)(__VA_ARGS__);                                                                                     \
        uint64_t end = now_ticks();                                                                                          \
        record_path(TP_READDIR, file_called(directory, path, r < 0), start, end, r < 0, TP_DIRECTORY);                       \
        return r;                                                                                                            \
    }
#define CHOICE(entry) int (*choose)(const entry *) COMMA int (*compare)(const entry **, const entry **)
SCANDIR(scandir, AT_FDCWD, const char *path COMMA struct dirent ***list COMMA CHOICE(struct dirent), path, list, choose, compare)
SCANDIR(scandir64, AT_FDCWD, const char *path COMMA struct dirent64 ***list COMMA CHOICE(struct dirent64), path, list, choose, compare)
SCANDIR(scandirat, directory, int directory COMMA const char *path COMMA struct dirent ***list COMMA CHOICE(struct dirent), directory, path, list, choose, compare)
SCANDIR(scandirat64, directory, int directory COMMA const char *path COMMA struct dirent64 ***list COMMA CHOICE(struct dirent64), directory, path, list, choose, compare)
