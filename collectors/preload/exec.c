/* Running programs: those whose calls will not be seen leave a record, so that nobody takes them for idle.
 *
 * exec does not come back, so a program is told of before it runs; one that then cannot be run, although it looks as if it could, is
 * told of all the same. */
#define _GNU_SOURCE
#include "unseen.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { PATH_DIRECTORIES = 128 }; /* bound: where a command is looked for */

/* What a child of vfork is about to run, told by its parent, in whose memory it is: the parent's is the ring. */
static __thread struct {
    char *path; /* a scratch; NULL: nothing */
    int reason;
} noted __attribute__((tls_model("initial-exec")));

static void forget(void)
{
    char *path = noted.path;
    noted.path = NULL;
    if (path)
        scratch_give(path);
}

/* The parent goes on after vfork. */
__attribute__((visibility("hidden"), used)) void bellrock_vforked(void)
{
    if (noted.path && started)
        unseen_record(noted.reason, noted.path);
    forget();
}

/* Puts the absolute path into `out`. */
static bool make_absolute(char *out, int directory, const char *path)
{
    long n = 0;
    if (path[0] != '/') {
        n = directory == AT_FDCWD ? syscall(SYS_getcwd, out, (size_t)PATH_ROOM) - 1 : descriptor_path(directory, out);
        if (n <= 0 || out[0] != '/')
            return false;
        if (*path)
            out[n++] = '/';
    }
    size_t length = strlen(path);
    if ((size_t)n + length >= PATH_ROOM)
        return false;
    memcpy(out + n, path, length + 1);
    return true;
}

/* A program is about to be run: (directory, path), which is opened as `place`. */
static void look_at(int directory, const char *path, int place_directory, const char *place)
{
    int reason = unseen_reason(place_directory, place);
    char *text = reason ? scratch_take() : NULL;
    if (!text)
        return;
    if (!make_absolute(text, directory, path)) {
        scratch_give(text);
    } else if (bellrock_borrowed) {
        forget();
        noted.path = text;
        noted.reason = reason;
    } else {
        unseen_record(reason, text);
        scratch_give(text);
    }
}

void runs(int directory, const char *path)
{
    if (!started)
        return;
    int error = errno;
    struct stat st;
    if (directory == AT_FDCWD || syscall(SYS_newfstatat, directory, path, &st, 0) == 0) {
        look_at(directory, path, directory, path);
    } else if (errno == ENOENT && !*path) { /* the descriptor itself, which has a path for opening */
        char link[40];
        snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
        look_at(directory, path, AT_FDCWD, link);
    }
    errno = error;
}

void runs_command(int directory, const char *name)
{
    if (!started || !name || !*name)
        return;
    if (strchr(name, '/')) {
        runs(directory, name);
        return;
    }
    const char *list = getenv("PATH");
    char *text = scratch_take();
    int error = errno;
    size_t length = strlen(name);
    if (!list)
        list = "/bin:/usr/bin";
    for (int i = 0; text && i < PATH_DIRECTORIES; i++) {
        const char *end = strchrnul(list, ':');
        size_t n = (size_t)(end - list);
        struct stat st;
        if (directory == -1 && list[0] != '/')
            break;
        if (n + length + 2 < PATH_ROOM) {
            memcpy(text, list, n);
            if (n)
                text[n++] = '/';
            memcpy(text + n, name, length + 1);
            if (syscall(SYS_newfstatat, directory, text, &st, 0) == 0 && S_ISREG(st.st_mode) &&
                syscall(SYS_faccessat, directory, text, X_OK) == 0) {
                look_at(directory, text, directory, text);
                break;
            }
        }
        if (!*end)
            break;
        list = end + 1;
    }
    if (text)
        scratch_give(text);
    errno = error;
}

/* exec came back: it failed. What was told of already stays told. */
static int failed(int r)
{
    forget();
    return r;
}

#define EXEC(name, look, parameters, ...)                                                                                    \
    REAL(int, name, parameters)                                                                                              \
    WRAP int name(parameters)                                                                                                \
    {                                                                                                                        \
        look;                                                                                                                \
        return failed(CALL(name)(__VA_ARGS__));                                                                              \
    }
EXEC(execve, runs(AT_FDCWD, path), const char *path COMMA char *const *arguments COMMA char *const *environment, path, arguments, environment)
EXEC(execv, runs(AT_FDCWD, path), const char *path COMMA char *const *arguments, path, arguments)
EXEC(execvp, runs_command(AT_FDCWD, name), const char *name COMMA char *const *arguments, name, arguments)
EXEC(execvpe, runs_command(AT_FDCWD, name), const char *name COMMA char *const *arguments COMMA char *const *environment, name, arguments, environment)
EXEC(fexecve, runs(fd, ""), int fd COMMA char *const *arguments COMMA char *const *environment, fd, arguments, environment)
EXEC(execveat, runs(directory, path),
     int directory COMMA const char *path COMMA char *const *arguments COMMA char *const *environment COMMA int flags, directory, path, arguments, environment, flags)

/* The arguments up to and with the NULL, as a list; `then` may use what comes after them. */
#define LISTED(call, then)                                                                                                   \
    va_list list;                                                                                                            \
    size_t count = 1;                                                                                                        \
    va_start(list, first);                                                                                                   \
    if (!is_null(first))                                                                                                     \
        while (count++, va_arg(list, char *))                                                                                \
            ;                                                                                                                \
    va_end(list);                                                                                                            \
    char *arguments[count];                                                                                                  \
    arguments[0] = (char *)first;                                                                                            \
    va_start(list, first);                                                                                                   \
    for (size_t i = 1; i < count; i++)                                                                                       \
        arguments[i] = va_arg(list, char *);                                                                                 \
    then;                                                                                                                    \
    va_end(list);                                                                                                            \
    return call;
/* Through our own list forms, which look. */
WRAP int execl(const char *path, const char *first, ...)
{
    LISTED(execv(path, arguments), )
}
WRAP int execlp(const char *name, const char *first, ...)
{
    LISTED(execvp(name, arguments), )
}
WRAP int execle(const char *path, const char *first, ...)
{
    LISTED(execve(path, arguments, environment), char *const *environment = va_arg(list, char *const *))
}

/* These run the shell, which tells of what it runs. */
REAL(int, system, const char *)
WRAP int system(const char *command)
{
    if (command)
        runs(AT_FDCWD, "/bin/sh");
    return CALL(system)(command);
}
REAL(FILE *, popen, const char *, const char *)
WRAP FILE *popen(const char *command, const char *mode)
{
    FILE *stream = CALL(popen)(command, mode);
    int error = errno;
    if (stream && !outside()) {
        descriptor_opened(fileno_unlocked(stream), (struct file){0}, 0); /* a pipe */
        runs(AT_FDCWD, "/bin/sh");
    }
    errno = error;
    return stream;
}
REAL(int, pclose, FILE *)
WRAP int pclose(FILE *stream)
{
    if (!is_null(stream) && !outside()) {
        int error = errno;
        descriptor_closed(fileno_unlocked(stream));
        errno = error;
    }
    return CALL(pclose)(stream);
}
