/* Which file each descriptor stands for, and which file a path means. */
#define _GNU_SOURCE
#include "process.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

struct descriptor descriptors[FDS];
struct position positions[FDS];

/* --- paths -------------------------------------------------------------------------------------------------------------- */

/* The thread sanitizer, in programs that have it, sees our calls of memcpy and its like but not our atomics, and would call what we share a
 * race: it is to look away while a path is worked on. */
extern void __tsan_ignore_thread_begin(void) __attribute__((weak));
extern void __tsan_ignore_thread_end(void) __attribute__((weak));

/* Room for paths: a signal handler's stack may be smaller than one of them. Where all are taken the stack must do. */
enum { SCRATCHES = 64 };
static char scratches[SCRATCHES][PATH_ROOM];
static _Atomic uint64_t scratches_taken;
char *scratch_take(void)
{
    uint64_t taken = atomic_load_explicit(&scratches_taken, memory_order_relaxed);
    while (~taken) {
        uint64_t one = ~taken & (taken + 1);
        if (!atomic_compare_exchange_weak_explicit(&scratches_taken, &taken, taken | one, memory_order_acquire, memory_order_relaxed))
            continue;
        if (__tsan_ignore_thread_begin)
            __tsan_ignore_thread_begin();
        return scratches[__builtin_ctzll(one)];
    }
    return NULL;
}
void scratch_give(char *scratch)
{
    if (__tsan_ignore_thread_end)
        __tsan_ignore_thread_end();
    atomic_fetch_and_explicit(&scratches_taken, ~(UINT64_C(1) << (scratch - scratches[0]) / PATH_ROOM), memory_order_release);
}

/* The working directory: two places, so that a reader never sees one half written. */
static char directories[2][PATH_ROOM];
static _Atomic uint32_t directory_version; /* 0: not known; else even, and the text is in directories[version / 2 % 2] */

static const char *working_directory(void)
{
    uint32_t version = atomic_load_explicit(&directory_version, memory_order_acquire);
    if (version)
        return directories[version / 2 % 2];
    directory_changed();
    return directories[atomic_load_explicit(&directory_version, memory_order_acquire) / 2 % 2];
}

void directory_changed(void)
{
    int error = errno;
    uint32_t next = atomic_load_explicit(&directory_version, memory_order_relaxed) + 2;
    if (!next)
        next = 4;
    char *text = directories[next / 2 % 2];
    if (syscall(SYS_getcwd, text, (size_t)PATH_ROOM) <= 0 || text[0] != '/')
        strcpy(text, "/");
    atomic_store_explicit(&directory_version, next, memory_order_release);
    errno = error;
}

/* Appends `path` to the normalised `out[0, length)`, resolving "." and ".." by text (links are not followed). -1: too long. */
static int append(char *out, int length, const char *path)
{
    while (*path) {
        while (*path == '/')
            path++;
        const char *end = strchrnul(path, '/');
        int n = (int)(end - path);
        if (n == 2 && path[0] == '.' && path[1] == '.') {
            while (length > 0 && out[--length] != '/')
                ;
        } else if (n && !(n == 1 && path[0] == '.')) {
            if (length + n + 2 > PATH_ROOM)
                return -1;
            out[length++] = '/';
            memcpy(out + length, path, (size_t)n);
            length += n;
        }
        path = end;
    }
    return length;
}

int descriptor_path(int fd, char *out)
{
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = syscall(SYS_readlink, link, out, (size_t)PATH_ROOM - 1);
    return n > 0 && n < PATH_ROOM - 1 && out[0] == '/' ? (int)n : -1;
}

static struct file keep_any(const char *path, int length)
{
    uint64_t id = tp_file_id(path, (size_t)length);
    return (struct file){id, name_keep(id, path, (size_t)length), (uint32_t)length};
}
static struct file keep(const char *path, int length)
{
    return length > 0 && path_is_watched(path, (size_t)length) ? keep_any(path, length) : (struct file){0};
}

struct file file_unwatched(const char *path)
{
    int error = errno;
    char *text = scratch_take();
    int length = text ? append(text, 0, path) : 0;
    struct file f = length > 0 ? keep_any(text, length) : (struct file){0};
    if (text)
        scratch_give(text);
    errno = error;
    return f;
}

static struct file file_in(char *text, int directory, const char *path)
{
    const struct file none = {0};
    int length = 0;
    if (path[0] != '/') {
        if (directory == AT_FDCWD) {
            length = append(text, 0, working_directory());
        } else {
            struct descriptor *d = watched(directory);
            const char *name = d ? atomic_load_explicit(&d->name, memory_order_acquire) : NULL;
            if (name) {
                length = (int)atomic_load_explicit(&d->name_length, memory_order_relaxed);
                memcpy(text, name, (size_t)length);
            } else {
                length = descriptor_path(directory, text);
            }
        }
        if (length < 0)
            return none;
        if (length == 1)
            length = 0; /* the root */
    }
    length = append(text, length, path);
    return length == 0 ? keep("/", 1) : keep(text, length);
}
static __attribute__((noinline)) struct file file_on_stack(int directory, const char *path)
{
    char text[PATH_ROOM];
    return file_in(text, directory, path);
}

struct file file_of(int directory, const char *path)
{
    if (!path || outside())
        return (struct file){0};
    int error = errno;
    char *text = scratch_take();
    struct file f = text ? file_in(text, directory, path) : file_on_stack(directory, path);
    if (text)
        scratch_give(text);
    errno = error;
    return f;
}

/* --- descriptors ---------------------------------------------------------------------------------------------------------- */

static uint32_t position_new(int fd, uint64_t offset, uint8_t flags)
{
    for (uint32_t i = 0; i < FDS; i++) { /* the descriptor's own number is nearly always free */
        uint32_t at = ((uint32_t)fd + i) % FDS;
        int32_t none = 0;
        if (atomic_compare_exchange_strong(&positions[at].users, &none, 1)) {
            atomic_store_explicit(&positions[at].offset, offset, memory_order_relaxed);
            positions[at].flags = flags;
            return at;
        }
    }
    return (uint32_t)fd; /* as many descriptors as places: cannot be */
}

static void set(int fd, uint32_t tag, struct file f, uint32_t position)
{
    struct descriptor *d = &descriptors[fd];
    atomic_store_explicit(&d->file, f.id, memory_order_relaxed);
    atomic_store_explicit(&d->name, f.name, memory_order_relaxed);
    atomic_store_explicit(&d->name_length, f.name_length, memory_order_relaxed);
    atomic_store_explicit(&d->position, position, memory_order_relaxed);
    atomic_store_explicit(&d->tag, tag, memory_order_release);
}

void descriptor_closed(int fd)
{
    if ((unsigned)fd >= FDS)
        return;
    struct descriptor *d = &descriptors[fd];
    uint32_t tag = atomic_exchange_explicit(&d->tag, FD_UNKNOWN, memory_order_acq_rel);
    if (tag > FD_IGNORED)
        atomic_fetch_sub_explicit(&position_of(d)->users, 1, memory_order_relaxed);
}

void descriptors_closed(unsigned first, unsigned last)
{
    for (unsigned fd = first; fd <= last && fd < FDS; fd++)
        descriptor_closed((int)fd);
}

void descriptor_opened(int fd, struct file f, uint8_t flags)
{
    if ((unsigned)fd >= FDS)
        return;
    descriptor_closed(fd); /* it was closed by a call that we do not see */
    if (!f.id)
        return set(fd, FD_IGNORED, f, 0);
    set(fd, watched_tag, f, position_new(fd, 0, flags));
}

void descriptor_copied(int from, int to)
{
    if (from == to || (unsigned)to >= FDS)
        return;
    descriptor_closed(to);
    struct descriptor *d = watched(from);
    if (!d)
        return;
    uint32_t position = atomic_load_explicit(&d->position, memory_order_relaxed) % FDS;
    atomic_fetch_add_explicit(&positions[position].users, 1, memory_order_relaxed);
    struct file f = {d->file, d->name, d->name_length};
    set(to, watched_tag, f, position);
}

static struct file descriptor_file_in(char *path, int fd, struct stat *st)
{
    int length = descriptor_path(fd, path);
    struct file f = length > 0 ? keep(path, length) : (struct file){0};
    if (f.id && (syscall(SYS_fstat, fd, st) != 0 || !(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))))
        f.id = 0;
    return f;
}
static __attribute__((noinline)) struct file descriptor_file_on_stack(int fd, struct stat *st)
{
    char path[PATH_ROOM];
    return descriptor_file_in(path, fd, st);
}
/* The watched file that a descriptor stands for, asked of the system; none where it is no file or directory. */
static struct file descriptor_file(int fd, struct stat *st)
{
    char *path = scratch_take();
    struct file f = path ? descriptor_file_in(path, fd, st) : descriptor_file_on_stack(fd, st);
    if (path)
        scratch_give(path);
    return f;
}

/* An operation on a descriptor beyond the table: it can only be counted. */
void descriptor_beyond(int fd)
{
    int error = errno;
    struct stat st;
    if (!outside() && descriptor_file(fd, &st).id)
        record_lost();
    errno = error;
}

/* A descriptor that we did not see opened (inherited through exec, made by a call below us), or that fork handed down. */
struct descriptor *descriptor_resolve(int fd)
{
    if (outside())
        return NULL;
    struct descriptor *d = &descriptors[fd];
    uint32_t tag = atomic_load_explicit(&d->tag, memory_order_acquire);
    int error = errno;
    if (tag > FD_IGNORED) { /* from the parent: its name goes into our ring file too; the offset is shared with others now */
        const char *name = atomic_load_explicit(&d->name, memory_order_relaxed);
        uint64_t file = atomic_load_explicit(&d->file, memory_order_relaxed);
        if (name)
            atomic_store_explicit(&d->name, name_keep(file, name, d->name_length), memory_order_relaxed);
        position_of(d)->flags |= TP_OFFSET_UNSURE;
        atomic_store_explicit(&d->tag, watched_tag, memory_order_release);
        errno = error;
        return d;
    }
    struct stat st;
    errno = 0;
    struct file f = descriptor_file(fd, &st);
    if (!f.id) {
        if (errno != ENOENT) /* else it is not open, and may be opened by a call that we do not see */
            set(fd, FD_IGNORED, f, 0);
        errno = error;
        return NULL;
    }
    long offset = syscall(SYS_lseek, fd, 0L, SEEK_CUR);
    set(fd, watched_tag, f,
        position_new(fd, offset > 0 ? (uint64_t)offset : 0, TP_OFFSET_UNSURE | (S_ISDIR(st.st_mode) ? TP_DIRECTORY : 0)));
    errno = error;
    return d;
}
