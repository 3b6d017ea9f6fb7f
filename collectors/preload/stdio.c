/* stdio: counted at the stdio call, which is what the program asked for; what the C library then asks of the kernel passes
 * below the wrappers and is not counted again. */
#define _GNU_SOURCE
#undef __NO_INLINE__ /* without optimisation it is there */
#define __NO_INLINE__ /* else the header defines some of what we do */
#include "streams.h"
#include <stdarg.h>
#include <string.h>

/* A call that moved `size` bytes, or failed. */
static inline void moved(uint8_t op, int fd, struct descriptor *d, uint64_t start, uint64_t size, bool failed)
{
    uint64_t end = now_ticks();
    struct position *p = position_of(d);
    uint64_t offset = atomic_fetch_add_explicit(&p->offset, size, memory_order_relaxed);
    record(op, fd, atomic_load_explicit(&d->file, memory_order_relaxed), offset, size, start, end, failed ? (errno ? errno : EIO) : 0,
           TP_STDIO | (p->flags & (uint8_t)~APPENDS));
}

/* Bytes of the line that fgets put into `room` bytes. Where it holds a zero byte, the stream's position tells. */
static uint64_t line_bytes(struct descriptor *d, const char *line, long room, FILE *stream)
{
    if (!line)
        return 0;
    uint64_t length = strlen(line);
    struct position *p = position_of(d);
    if ((length && line[length - 1] == '\n') || (long)length == room - 1 || p->flags & TP_OFFSET_UNSURE)
        return length;
    int error = errno;
    off64_t now = ftello64(stream);
    errno = error;
    uint64_t before = atomic_load_explicit(&p->offset, memory_order_relaxed);
    return now >= 0 && (uint64_t)now >= before + length ? (uint64_t)now - before : length;
}

/* `result` says, from the call's answer r, how many bytes moved; `failed` whether it failed. */
#define ON_STREAM(the_stream, op, type, name, parameters, arguments, result, failed)                                      \
    REAL(type, name, parameters)                                                                                             \
    WRAP type name(parameters)                                                                                               \
    {                                                                                                                        \
        int fd;                                                                                                              \
        struct descriptor *d = stream_watched(the_stream, &fd);                                                              \
        if (!d)                                                                                                              \
            return CALL(name)(arguments);                                                                                    \
        int before = errno;                                                                                                  \
        errno = 0; /* tells a failure from the end of the file: a stream's error mark may be an old one */                   \
        uint64_t start = now_ticks();                                                                                        \
        type r = CALL(name)(arguments);                                                                                      \
        moved(op, fd, d, start, (uint64_t)(result), failed);                                                                 \
        if (!errno)                                                                                                          \
            errno = before;                                                                                                  \
        return r;                                                                                                            \
    }

/* --- blocks, lines, characters --------------------------------------------------------------------------------------------- */
ON_STREAM(stream, TP_READ, size_t, fread, void *buffer COMMA size_t size COMMA size_t n COMMA FILE *stream, buffer COMMA size COMMA n COMMA stream, r *size,
          r < n && errno)
ON_STREAM(stream, TP_READ, size_t, fread_unlocked, void *buffer COMMA size_t size COMMA size_t n COMMA FILE *stream,
          buffer COMMA size COMMA n COMMA stream, r *size, r < n && errno)
ON_STREAM(stream, TP_READ, size_t, __fread_chk, void *buffer COMMA size_t room COMMA size_t size COMMA size_t n COMMA FILE *stream,
          buffer COMMA room COMMA size COMMA n COMMA stream, r *size, r < n && errno)
ON_STREAM(stream, TP_READ, size_t, __fread_unlocked_chk, void *buffer COMMA size_t room COMMA size_t size COMMA size_t n COMMA FILE *stream,
          buffer COMMA room COMMA size COMMA n COMMA stream, r *size, r < n && errno)
ON_STREAM(stream, TP_WRITE, size_t, fwrite, const void *buffer COMMA size_t size COMMA size_t n COMMA FILE *stream, buffer COMMA size COMMA n COMMA stream,
          r *size, r < n)
ON_STREAM(stream, TP_WRITE, size_t, fwrite_unlocked, const void *buffer COMMA size_t size COMMA size_t n COMMA FILE *stream,
          buffer COMMA size COMMA n COMMA stream, r *size, r < n)
ON_STREAM(stream, TP_READ, char *, fgets, char *line COMMA int room COMMA FILE *stream, line COMMA room COMMA stream, line_bytes(d, r, room, stream),
          !r && errno)
ON_STREAM(stream, TP_READ, char *, fgets_unlocked, char *line COMMA int room COMMA FILE *stream, line COMMA room COMMA stream, line_bytes(d, r, room, stream),
          !r && errno)
ON_STREAM(stream, TP_READ, char *, __fgets_chk, char *line COMMA size_t size COMMA int room COMMA FILE *stream, line COMMA size COMMA room COMMA stream,
          line_bytes(d, r, room, stream), !r && errno)
ON_STREAM(stream, TP_READ, char *, __fgets_unlocked_chk, char *line COMMA size_t size COMMA int room COMMA FILE *stream,
          line COMMA size COMMA room COMMA stream, line_bytes(d, r, room, stream), !r && errno)
ON_STREAM(stream, TP_READ, ssize_t, getline, char **line COMMA size_t *room COMMA FILE *stream, line COMMA room COMMA stream, (r > 0 ? r : 0),
          r < 0 && errno)
ON_STREAM(stream, TP_READ, ssize_t, getdelim, char **line COMMA size_t *room COMMA int end COMMA FILE *stream, line COMMA room COMMA end COMMA stream,
          (r > 0 ? r : 0), r < 0 && errno)
ON_STREAM(stream, TP_READ, ssize_t, __getdelim, char **line COMMA size_t *room COMMA int end COMMA FILE *stream, line COMMA room COMMA end COMMA stream,
          (r > 0 ? r : 0), r < 0 && errno)
ON_STREAM(stream, TP_WRITE, int, fputs, const char *text COMMA FILE *stream, text COMMA stream, (r >= 0 ? strlen(text) : 0), r < 0)
ON_STREAM(stream, TP_WRITE, int, fputs_unlocked, const char *text COMMA FILE *stream, text COMMA stream, (r >= 0 ? strlen(text) : 0), r < 0)
#define GET(name) ON_STREAM(stream, TP_READ, int, name, FILE *stream, stream, (r != EOF), r == EOF && errno)
#define PUT(name) ON_STREAM(stream, TP_WRITE, int, name, int c COMMA FILE *stream, c COMMA stream, (r != EOF), r == EOF)
#undef getc
#undef putc
GET(fgetc)
GET(getc)
GET(_IO_getc)
GET(fgetc_unlocked)
GET(getc_unlocked)
PUT(fputc)
PUT(putc)
PUT(_IO_putc)
PUT(fputc_unlocked)
PUT(putc_unlocked)

/* Standard output and input, which may well be files. */
#undef getchar
#undef putchar
#undef getchar_unlocked
#undef putchar_unlocked
ON_STREAM(stdout, TP_WRITE, int, puts, const char *text, text, (r >= 0 ? strlen(text) + 1 : 0), r < 0)
ON_STREAM(stdout, TP_WRITE, int, putchar, int c, c, (r != EOF), r == EOF)
ON_STREAM(stdout, TP_WRITE, int, putchar_unlocked, int c, c, (r != EOF), r == EOF)
ON_STREAM(stdin, TP_READ, int, getchar_unlocked, void, , (r != EOF), r == EOF && errno)
ON_STREAM(stdin, TP_READ, int, getchar, void, , (r != EOF), r == EOF && errno)

/* --- formatted ---------------------------------------------------------------------------------------------------------------- */
ON_STREAM(stream, TP_WRITE, int, vfprintf, FILE *stream COMMA const char *format COMMA va_list list, stream COMMA format COMMA list, (r > 0 ? r : 0), r < 0)
ON_STREAM(stream, TP_WRITE, int, __vfprintf_chk, FILE *stream COMMA int flag COMMA const char *format COMMA va_list list,
          stream COMMA flag COMMA format COMMA list, (r > 0 ? r : 0), r < 0)

/* To a descriptor, without a stream. */
#define ON_NUMBER(name, parameters, arguments)                                                                           \
    REAL(int, name, parameters)                                                                                              \
    WRAP int name(parameters)                                                                                                \
    {                                                                                                                        \
        struct descriptor *d = watched(fd);                                                                                  \
        if (!d)                                                                                                              \
            return CALL(name)(arguments);                                                                                    \
        uint64_t start = now_ticks();                                                                                        \
        int r = CALL(name)(arguments);                                                                                       \
        moved(TP_WRITE, fd, d, start, r > 0 ? (uint64_t)r : 0, r < 0);                                                       \
        return r;                                                                                                            \
    }
ON_NUMBER(vdprintf, int fd COMMA const char *format COMMA va_list list, fd COMMA format COMMA list)
ON_NUMBER(__vdprintf_chk, int fd COMMA int flag COMMA const char *format COMMA va_list list, fd COMMA flag COMMA format COMMA list)

#define VARIADIC(last, call)                                                                                                 \
    va_list list;                                                                                                            \
    va_start(list, last);                                                                                                    \
    int r = call;                                                                                                            \
    va_end(list);                                                                                                            \
    return r;
/* Through our own list forms, which count. */
WRAP int fprintf(FILE *stream, const char *format, ...)
{
    VARIADIC(format, vfprintf(stream, format, list))
}
WRAP int __fprintf_chk(FILE *stream, int flag, const char *format, ...)
{
    VARIADIC(format, __vfprintf_chk(stream, flag, format, list))
}
WRAP int dprintf(int fd, const char *format, ...)
{
    VARIADIC(format, vdprintf(fd, format, list))
}
WRAP int __dprintf_chk(int fd, int flag, const char *format, ...)
{
    VARIADIC(format, __vdprintf_chk(fd, flag, format, list))
}
WRAP int vprintf(const char *format, va_list list)
{
    return vfprintf(stdout, format, list);
}
WRAP int printf(const char *format, ...)
{
    VARIADIC(format, vfprintf(stdout, format, list))
}
WRAP int __vprintf_chk(int flag, const char *format, va_list list)
{
    return __vfprintf_chk(stdout, flag, format, list);
}
WRAP int __printf_chk(int flag, const char *format, ...)
{
    VARIADIC(format, __vfprintf_chk(stdout, flag, format, list))
}

/* How much a scan consumed only the stream's position tells. */
REAL(int, vfscanf, FILE *, const char *, va_list)
static int scan(int (*call)(FILE *, const char *, va_list), FILE *stream, const char *format, va_list list)
{
    int fd;
    struct descriptor *d = stream_watched(stream, &fd);
    if (!d)
        return call(stream, format, list);
    int error = errno;
    off64_t before = ftello64(stream);
    errno = 0;
    uint64_t start = now_ticks();
    int r = call(stream, format, list), failure = errno;
    off64_t after = ftello64(stream);
    errno = failure;
    moved(TP_READ, fd, d, start, before >= 0 && after > before ? (uint64_t)(after - before) : 0, r == EOF && failure);
    if (!failure)
        errno = error;
    return r;
}
REAL(int, __isoc99_vfscanf, FILE *, const char *, va_list)
REAL(int, __isoc23_vfscanf, FILE *, const char *, va_list)
/* Under the names that each edition of the C standard's scans have in the C library. */
#define NAMES(edition, prefix)                                                                                               \
    int edition##_vfscanf(FILE *, const char *, va_list) __asm__(prefix "vfscanf");                                          \
    int edition##_fscanf(FILE *, const char *, ...) __asm__(prefix "fscanf");                                                \
    int edition##_vscanf(const char *, va_list) __asm__(prefix "vscanf");                                                    \
    int edition##_scanf(const char *, ...) __asm__(prefix "scanf");
NAMES(classic, "")
NAMES(c99, "__isoc99_")
NAMES(c23, "__isoc23_")
#define SCANS(edition, real)                                                                                                 \
    WRAP int edition##_vfscanf(FILE *stream, const char *format, va_list list)                                               \
    {                                                                                                                        \
        return scan(CALL(real), stream, format, list);                                                                       \
    }                                                                                                                        \
    WRAP int edition##_fscanf(FILE *stream, const char *format, ...)                                                         \
    {                                                                                                                        \
        VARIADIC(format, scan(CALL(real), stream, format, list))                                                             \
    }                                                                                                                        \
    WRAP int edition##_vscanf(const char *format, va_list list)                                                              \
    {                                                                                                                        \
        return scan(CALL(real), stdin, format, list);                                                                        \
    }                                                                                                                        \
    WRAP int edition##_scanf(const char *format, ...)                                                                        \
    {                                                                                                                        \
        VARIADIC(format, scan(CALL(real), stdin, format, list))                                                              \
    }
SCANS(classic, vfscanf)
SCANS(c99, __isoc99_vfscanf)
SCANS(c23, __isoc23_vfscanf)
