/* The real functions that the wrappers stand before. */
#define _GNU_SOURCE
#include "preload.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* All REALs, which the linker puts side by side. */
extern struct real __start_bellrock_reals[], __stop_bellrock_reals[];

static bool all_found;

long not_implemented(void)
{
    errno = ENOSYS;
    return -1;
}

static void *look_up(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    if (!symbol && !strncmp(name, "__isoc23_", 9)) { /* what differs is only how 0b101 is read */
        char older[64] = "__isoc99_";
        strncat(older, name + 9, sizeof older - 10);
        symbol = dlsym(RTLD_NEXT, older);
    }
    if (!symbol)
        dlerror(); /* else the program would be told of what it never asked */
    return symbol ? symbol : (void *)not_implemented;
}

/* --- before our constructor ------------------------------------------------------------------------------------------------ */

/* What an allocator calls from malloc, perhaps with its lock held, before our constructor has run: to look the real one up may itself
 * allocate. So it is on x86-64 alone: elsewhere `syscall` is looked up (see unseen.c). */
static void *map(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}
static mode_t mode_in(int flags, va_list list)
{
    return flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? va_arg(list, mode_t) : 0;
}
static int open_path(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = mode_in(flags, list);
    va_end(list);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
static int open_in(int directory, const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = mode_in(flags, list);
    va_end(list);
    return (int)syscall(SYS_openat, directory, path, flags, mode);
}
static ssize_t read_from(int fd, void *buffer, size_t size)
{
    return syscall(SYS_read, fd, buffer, size);
}
static ssize_t write_to(int fd, const void *buffer, size_t size)
{
    return syscall(SYS_write, fd, buffer, size);
}
static int close_it(int fd)
{
    return (int)syscall(SYS_close, fd);
}
static ssize_t read_link(const char *path, char *out, size_t size)
{
    return syscall(SYS_readlinkat, AT_FDCWD, path, out, size);
}
static int set_process(int option, ...)
{
    va_list list;
    va_start(list, option);
    unsigned long a = va_arg(list, unsigned long), b = va_arg(list, unsigned long), c = va_arg(list, unsigned long), d = va_arg(list, unsigned long);
    va_end(list);
    return (int)syscall(SYS_prctl, option, a, b, c, d);
}
static const struct real bare[] = {
    {"mmap", map},         {"mmap64", map},      {"open", open_path},      {"open64", open_path},    {"openat", open_in},
    {"openat64", open_in}, {"read", read_from},  {"write", write_to},      {"close", close_it},      {"readlink", read_link},
    {"prctl", set_process},
};

void *real_symbol(struct real *real)
{
    for (size_t i = 0; !all_found && i < sizeof bare / sizeof *bare; i++)
        if (!strcmp(real->name, bare[i].name))
            return bare[i].call;
    int error = errno;
    void *symbol = look_up(real->name);
    real->call = symbol;
    errno = error;
    return symbol;
}

void reals_find(void)
{
    for (struct real *r = __start_bellrock_reals; r < __stop_bellrock_reals; r++)
        if (!r->call)
            r->call = look_up(r->name);
    all_found = true;
}
