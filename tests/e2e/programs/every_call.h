/* What the parts of every_call.c share: the counts, and the macros that make a call and count it. */
#define _GNU_SOURCE
#include <aio.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ, WRITE, OPEN, CLOSE, STAT, ACCESS, UNLINK, RENAME, MKDIR, RMDIR, READDIR, LINK, TRUNCATE, SYNC, MMAP, KINDS };
static const char *const kinds[KINDS] = {"read",  "write", "open",    "close", "stat",     "access", "unlink", "rename",
                                         "mkdir", "rmdir", "readdir", "link",  "truncate", "sync",   "mmap"};
static long calls[KINDS], bytes[KINDS], errors;
static const char *failed_at;
#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)
#define PLACE __FILE__ ":" TEXT_OF(__LINE__)

/* An answer below 0 is a failed call that must count as one; `size` are the bytes that it moved. */
static long did(const char *place, int kind, long answer, long size)
{
    if (answer < 0) {
        fprintf(stderr, "%s: %s: %s\n", place, kinds[kind], strerror(errno));
        failed_at = place;
    }
    calls[kind]++;
    bytes[kind] += size;
    return answer;
}
#define DID(kind, answer) did(PLACE, kind, (long)(answer), 0)
#define MOVED(kind, answer) moved(PLACE, kind, (long)(answer))
static long moved(const char *place, int kind, long n) { return did(place, kind, n, n < 0 ? 0 : n); }
/* A call that returns a pointer. */
#define GOT(kind, answer) got(PLACE, kind, (void *)(answer))
static void *got(const char *place, int kind, void *p) { did(place, kind, p && p != (void *)-1 ? 0 : -1, 0); return p; }
/* A call that must fail. */
#define FAILS(call) (errno = 0, (long)(call) == -1 && errno ? (void)errors++ : (void)(failed_at = PLACE))
#define MUST(condition) ((condition) ? (void)0 : (void)(fprintf(stderr, "%s: not %s: %s\n", PLACE, #condition, strerror(errno)), failed_at = PLACE))

/* A call that the file system may not have: it then fails. */
#define MAY(kind, answer) may(PLACE, kind, (long)(answer))
static void may(const char *place, int kind, long r)
{
    if (r < 0 && (errno == EOPNOTSUPP || errno == EINVAL))
        errors++;
    else
        did(place, kind, r, 0);
}

/* Names that only programs built with other C libraries or options use. NULL where this C library has none. */
static void *old(const char *name) { return dlsym(RTLD_NEXT, name) ? dlsym(RTLD_DEFAULT, name) : NULL; }
#define OLD(type, name, ...) type (*name)(__VA_ARGS__) = (type (*)(__VA_ARGS__))old(#name)

static int by_list(int (*call)(FILE *, const char *, va_list), FILE *stream, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int r = call(stream, format, list);
    va_end(list);
    return r;
}
static int list_for(int (*call)(const char *, va_list), const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int r = call(format, list);
    va_end(list);
    return r;
}
static int checked_by_list(int (*call)(FILE *, int, const char *, va_list), FILE *stream, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int r = call(stream, 1, format, list);
    va_end(list);
    return r;
}
static int checked_list_for(int (*call)(int, const char *, va_list), int first, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int r = call(first, format, list);
    va_end(list);
    return r;
}
static int list_to(int (*call)(int, const char *, va_list), int fd, const char *format, ...) /* vdprintf */
{
    va_list list;
    va_start(list, format);
    int r = call(fd, format, list);
    va_end(list);
    return r;
}
static int checked_list_to(int (*call)(int, int, const char *, va_list), int fd, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int r = call(fd, 1, format, list);
    va_end(list);
    return r;
}

static char block[8192];
