/* posix_spawn: the child may be sent to another directory before it looks for the program. */
#define _GNU_SOURCE
#include "unseen.h"
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>

/* Where file actions send the child, followed as they are added. */
struct route {
    _Atomic uintptr_t actions; /* 0: free */
    int base;                  /* the descriptor that `text` is relative to, or AT_FDCWD */
    int noted;                 /* actions of these kinds */
    bool is_lost;              /* it leads where we cannot follow: nothing is told of what is looked for there */
    size_t length;
    char text[PATH_ROOM]; /* no zero byte ends it */
};
enum { ROUTES = 16 }; /* bound: file actions that change the directory, at once */
static struct route routes[ROUTES];
static _Atomic bool has_overflowed; /* some were not followed; so it stays until all that are have gone */

static struct route *route_of(const posix_spawn_file_actions_t *actions)
{
    for (int i = 0; i < ROUTES; i++)
        if (atomic_load_explicit(&routes[i].actions, memory_order_acquire) == (uintptr_t)actions)
            return &routes[i];
    return NULL;
}
static void forget(const posix_spawn_file_actions_t *actions)
{
    struct route *r = route_of(actions);
    if (!r)
        return;
    atomic_store_explicit(&r->actions, 0, memory_order_release);
    for (int i = 0; i < ROUTES; i++)
        if (atomic_load_explicit(&routes[i].actions, memory_order_relaxed))
            return;
    has_overflowed = false; /* those that were not followed came after, and are most likely gone, too */
}

/* What a path there means depends on the process that asks. */
static bool is_of_process(const char *path)
{
    return !strncmp(path, "/proc/", 6) || !strncmp(path, "/dev/", 5);
}

/* The directory in which the child looks for the program, as a descriptor to be closed; AT_FDCWD; -1: not known. */
static int directory_of(const posix_spawn_file_actions_t *actions)
{
    const struct route *r = actions ? route_of(actions) : NULL;
    if (!r)
        return actions && actions->__used && has_overflowed ? -1 : AT_FDCWD;
    char *path = r->is_lost ? NULL : scratch_take();
    if (!path)
        return -1;
    memcpy(path, r->text, r->length);
    strcpy(path + r->length, r->length ? "" : ".");
    int fd = (int)syscall(SYS_openat, r->base, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    scratch_give(path);
    return fd;
}

static void spawned(const posix_spawn_file_actions_t *actions, const char *path, void (*tell)(int, const char *))
{
    if (!started || (actions && actions->__used && is_of_process(path)))
        return;
    int error = errno, directory = path[0] == '/' ? AT_FDCWD : directory_of(actions);
    tell(directory, path);
    if (directory >= 0)
        syscall(SYS_close, directory);
    errno = error;
}

/* Known to run by their answer. The child is a process of its own, so the record is of the one that started it. */
#define SPAWN(name, tell)                                                                                                    \
    REAL(int, name, pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *, char *const *) \
    WRAP int name(pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *restrict actions,        \
                  const posix_spawnattr_t *restrict attributes, char *const *restrict arguments, char *const *restrict environment) \
    {                                                                                                                        \
        int r = CALL(name)(pid, path, actions, attributes, arguments, environment);                                          \
        if (r == 0)                                                                                                          \
            spawned(actions, path, tell);                                                                                    \
        return r;                                                                                                            \
    }
SPAWN(posix_spawn, runs)
SPAWN(posix_spawnp, runs_command)

/* --- file actions: they answer with the error ---------------------------------------------------------------------------------- */

#define ACTIONS(name, is_noted, note, parameters, ...)                                                                       \
    REAL(int, name, parameters)                                                                                              \
    WRAP int name(parameters)                                                                                                \
    {                                                                                                                        \
        int r = CALL(name)(__VA_ARGS__);                                                                                     \
        if (is_noted)                                                                                                        \
            note;                                                                                                            \
        return r;                                                                                                            \
    }
ACTIONS(posix_spawn_file_actions_init, true, forget(actions), posix_spawn_file_actions_t *actions, actions)
ACTIONS(posix_spawn_file_actions_destroy, true, forget(actions), posix_spawn_file_actions_t *actions, actions)

#if __GLIBC_PREREQ(2, 29)
static struct route *route_made(const posix_spawn_file_actions_t *actions)
{
    struct route *r = route_of(actions);
    for (int i = 0; !r && i < ROUTES; i++) {
        uintptr_t none = 0;
        if (!atomic_compare_exchange_strong(&routes[i].actions, &none, (uintptr_t)actions))
            continue;
        r = &routes[i];
        r->base = AT_FDCWD;
        r->noted = 0;
        r->is_lost = false;
        r->length = 0;
    }
    if (!r)
        has_overflowed = true;
    return r;
}
static void goes_to(const posix_spawn_file_actions_t *actions, const char *path)
{
    struct route *r = started ? route_made(actions) : NULL;
    if (!r)
        return;
    r->noted++;
    if (path[0] == '/') {
        r->base = AT_FDCWD;
        r->length = 0;
        r->is_lost = is_of_process(path);
    }
    size_t length = strlen(path), slash = r->length > 0;
    if (r->length + slash + length >= PATH_ROOM) {
        r->is_lost = true;
        return;
    }
    if (slash)
        r->text[r->length++] = '/';
    memcpy(r->text + r->length, path, length);
    r->length += length;
}
static void goes_to_descriptor(const posix_spawn_file_actions_t *actions, int fd)
{
    struct route *r = started ? route_made(actions) : NULL;
    if (!r)
        return;
    r->noted++;
    r->base = fd;
    r->length = 0;
    r->is_lost = actions->__used > r->noted; /* another action may have put something else there */
}
ACTIONS(posix_spawn_file_actions_addchdir_np, r == 0, goes_to(actions, path), posix_spawn_file_actions_t *restrict actions COMMA const char *restrict path, actions, path)
ACTIONS(posix_spawn_file_actions_addfchdir_np, r == 0, goes_to_descriptor(actions, fd), posix_spawn_file_actions_t *actions COMMA int fd, actions, fd)
/* The names that POSIX has now; a program asks whether they are there, and finds ours. */
WRAP int posix_spawn_file_actions_addchdir(posix_spawn_file_actions_t *restrict actions, const char *restrict path)
{
    return posix_spawn_file_actions_addchdir_np(actions, path);
}
WRAP int posix_spawn_file_actions_addfchdir(posix_spawn_file_actions_t *actions, int fd)
{
    return posix_spawn_file_actions_addfchdir_np(actions, fd);
}
#endif
