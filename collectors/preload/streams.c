/* Opening, closing and moving about in stdio's streams. */
#define _GNU_SOURCE
#include "streams.h"

/* The call has just been answered. */
static FILE *opened(FILE *stream, const char *path, const char *mode, uint64_t start)
{
    uint64_t end = now_ticks();
    if (outside())
        return stream;
    struct file f = file_called(AT_FDCWD, path, !stream);
    int error = errno, fd = stream ? fileno_unlocked(stream) : -1;
    if (f.id)
        record(TP_OPEN, fd, f.id, 0, 0, start, end, stream ? 0 : error, TP_STDIO);
    if (fd >= 0)
        descriptor_opened(fd, f, mode && mode[0] == 'a' ? TP_OFFSET_UNSURE | APPENDS : 0);
    errno = error;
    return stream;
}
#define FOPEN(name)                                                                                                          \
    REAL(FILE *, name, const char *, const char *)                                                                           \
    WRAP FILE *name(const char *path, const char *mode)                                                                      \
    {                                                                                                                        \
        uint64_t start = now_ticks();                                                                                        \
        return opened(CALL(name)(path, mode), path, mode, start);                                                               \
    }
FOPEN(fopen)
FOPEN(fopen64)
/* A file without a name: known by its directory, as one opened with O_TMPFILE. */
#define TMPFILE(name)                                                                                                        \
    REAL(FILE *, name, void)                                                                                                 \
    WRAP FILE *name(void)                                                                                                    \
    {                                                                                                                        \
        uint64_t start = now_ticks();                                                                                        \
        return opened(CALL(name)(), P_tmpdir, "w+", start);                                                                  \
    }
TMPFILE(tmpfile)
TMPFILE(tmpfile64)

static uint64_t closing(FILE *stream, int *fd, uint64_t *file)
{
    struct descriptor *d = outside() ? NULL : stream_watched(stream, fd);
    *file = d ? atomic_load_explicit(&d->file, memory_order_relaxed) : 0;
    if (!outside() && stream) {
        int error = errno;
        *fd = fileno_unlocked(stream);
        errno = error;
        descriptor_closed(*fd);
    }
    return *file ? now_ticks() : 0;
}
REAL(int, fclose, FILE *)
WRAP int fclose(FILE *stream)
{
    int fd = -1;
    uint64_t file, start = closing(stream, &fd, &file);
    int r = CALL(fclose)(stream);
    if (file)
        record_descriptor(TP_CLOSE, fd, file, 0, start, r != 0);
    return r;
}
/* A close and an open in one. Without a path only the mode changes. */
#define FREOPEN(name)                                                                                                        \
    REAL(FILE *, name, const char *, const char *, FILE *)                                                                   \
    WRAP FILE *name(const char *path, const char *mode, FILE *stream)                                                        \
    {                                                                                                                        \
        if (!path)                                                                                                           \
            return CALL(name)(path, mode, stream);                                                                           \
        int fd = -1;                                                                                                         \
        uint64_t file, start = closing(stream, &fd, &file);                                                                  \
        if (file)                                                                                                            \
            record_descriptor(TP_CLOSE, fd, file, 0, start, false);                                                             \
        start = now_ticks();                                                                                                 \
        return opened(CALL(name)(path, mode, stream), path, mode, start);                                                       \
    }
FREOPEN(freopen)
FREOPEN(freopen64)

static void stream_moved_to(struct descriptor *d, off64_t offset)
{
    atomic_store_explicit(&position_of(d)->offset, offset < 0 ? 0 : (uint64_t)offset, memory_order_relaxed);
}
/* Where a stream stands after a seek; from its end only the C library knows. */
#define FSEEK(name, type)                                                                                                    \
    REAL(int, name, FILE *, type, int)                                                                                       \
    WRAP int name(FILE *stream, type offset, int whence)                                                                     \
    {                                                                                                                        \
        int r = CALL(name)(stream, offset, whence), fd;                                                                      \
        struct descriptor *d = r == 0 ? stream_watched(stream, &fd) : NULL;                                                  \
        if (d)                                                                                                               \
            stream_moved_to(d, whence == SEEK_SET ? offset : ftello64(stream));                                              \
        return r;                                                                                                            \
    }
FSEEK(fseek, long)
FSEEK(fseeko, off_t)
FSEEK(fseeko64, off64_t)
#define FSETPOS(name, type)                                                                                                  \
    REAL(int, name, FILE *, const type *)                                                                                    \
    WRAP int name(FILE *stream, const type *to)                                                                              \
    {                                                                                                                        \
        int r = CALL(name)(stream, to), fd;                                                                                  \
        struct descriptor *d = r == 0 ? stream_watched(stream, &fd) : NULL;                                                  \
        if (d)                                                                                                               \
            stream_moved_to(d, ftello64(stream));                                                                            \
        return r;                                                                                                            \
    }
FSETPOS(fsetpos, fpos_t)
FSETPOS(fsetpos64, fpos64_t)
REAL(void, rewind, FILE *)
WRAP void rewind(FILE *stream)
{
    CALL(rewind)(stream);
    int fd;
    struct descriptor *d = stream_watched(stream, &fd);
    if (d)
        stream_moved_to(d, 0);
}
