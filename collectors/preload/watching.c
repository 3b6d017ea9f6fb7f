/* Which paths are watched: what the environment asks for, and what is built in. */
#define _GNU_SOURCE
#include "process.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

/* A path is watched unless the longest prefix that fits it is one to ignore. A prefix fits whole components; a trailing '*' lets it
 * end anywhere. What was asked for explicitly beats what is built in. */
struct prefix {
    const char *text;
    uint16_t length;
    bool open_end, watch;
};
enum { PREFIXES = 128 };
static struct prefix asked[PREFIXES];
static unsigned asked_count;
static bool only_asked; /* BELLROCK_WATCH was given: nothing else is watched */
static char asked_text[8192], own_prefixes[4][1024];

static const char *const built_in_ignored[] = {
    "/proc", "/sys", "/dev", "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/run", "/var", "/opt", "/boot",
    /* Open MPI's and PMIx's own files */
    "/tmp/ompi.*", "/tmp/openmpi-sessions-*", "/tmp/pmix*", "/tmp/prte.*", "/dev/shm/vader_segment*", "/dev/shm/sm_segment*",
    "/dev/shm/osc_*", "/dev/shm/ucx_*", "/dev/shm/psm*", "/dev/shm/bellrock*",
};
static const char *const built_in_watched[] = {"/dev/shm", "/var/tmp"};
static struct prefix built_in[64];
static unsigned built_in_count;
static bool is_python;

static bool is_command(const char *path, size_t length);

static struct prefix prefix_of(const char *text, size_t length, bool watch)
{
    bool open_end = length && text[length - 1] == '*';
    length -= open_end;
    while (length > 1 && !open_end && text[length - 1] == '/')
        length--;
    return (struct prefix){text, (uint16_t)length, open_end, watch};
}

static bool fits(const struct prefix *p, const char *path, size_t length)
{
    if (length < p->length || memcmp(path, p->text, p->length))
        return false;
    return p->open_end || length == p->length || path[p->length] == '/' || p->length == 1;
}

static const struct prefix *longest(const struct prefix *list, unsigned count, const char *path, size_t length)
{
    const struct prefix *best = NULL;
    for (unsigned i = 0; i < count; i++)
        if ((!best || list[i].length > best->length) && fits(&list[i], path, length))
            best = &list[i];
    return best;
}

static bool ends_with(const char *path, size_t length, const char *end)
{
    size_t n = strlen(end);
    return length >= n && !memcmp(path + length - n, end, n);
}

bool path_is_watched(const char *path, size_t length)
{
    if (!length || path[0] != '/')
        return false;
    const struct prefix *p = longest(asked, asked_count, path, length);
    if (p)
        return p->watch;
    if (only_asked)
        return false;
    p = longest(built_in, built_in_count, path, length);
    if ((p && !p->watch) || is_command(path, length))
        return false;
    /* An interpreter's reading of its program is not the program's I/O. */
    return !(is_python && (ends_with(path, length, ".py") || ends_with(path, length, ".pyc") || ends_with(path, length, "/pyvenv.cfg") ||
                          memmem(path, length, "/lib/python3", 12)));
}

static void ask_list(const char *list, bool watch, size_t *used)
{
    while (list && *list) {
        const char *end = strchrnul(list, ':');
        size_t length = (size_t)(end - list);
        if (length && list[0] == '/' && asked_count < PREFIXES && *used + length < sizeof asked_text) {
            memcpy(asked_text + *used, list, length); /* the program may change its environment */
            asked[asked_count++] = prefix_of(asked_text + *used, length, watch);
            *used += length;
        }
        list = *end ? end + 1 : end;
    }
}

/* The installation that the program itself belongs to (PREFIX/bin/program) is not its data. */
static void ignore_installation(const char *program, unsigned *own)
{
    const char *bin = NULL;
    for (const char *at = program; (at = strstr(at, "/bin/")); at++)
        bin = at;
    if (!bin || bin == program || bin - program > 900 || strchr(bin + 5, '/'))
        return;
    static const char *const parts[] = {"/bin", "/lib"};
    for (unsigned i = 0; i < 2 && *own < 4; i++) {
        int n = snprintf(own_prefixes[*own], sizeof own_prefixes[0], "%.*s%s", (int)(bin - program), program, parts[i]);
        built_in[built_in_count++] = prefix_of(own_prefixes[(*own)++], (size_t)n, false);
    }
}

/* Where commands are looked for: looking for one, or reading a script as a program, is not the program's I/O. */
static const char *command_directories[32];
static uint16_t command_directory_lengths[32];
static unsigned command_directory_count;
static char command_directory_text[4096];

static void note_command_directories(void)
{
    const char *list = secure_getenv("PATH");
    size_t used = 0;
    while (list && *list) {
        const char *end = strchrnul(list, ':');
        size_t length = (size_t)(end - list);
        while (length > 1 && list[length - 1] == '/')
            length--;
        if (length > 1 && list[0] == '/' && command_directory_count < 32 && used + length < sizeof command_directory_text) {
            memcpy(command_directory_text + used, list, length);
            command_directories[command_directory_count] = command_directory_text + used;
            command_directory_lengths[command_directory_count++] = (uint16_t)length;
            used += length;
        }
        list = *end ? end + 1 : end;
    }
}

static bool is_command(const char *path, size_t length)
{
    const char *name = memrchr(path, '/', length);
    for (unsigned i = 0; i < command_directory_count; i++)
        if ((size_t)(name - path) == command_directory_lengths[i] && !memcmp(path, command_directories[i], command_directory_lengths[i]))
            return true;
    return false;
}

void watching_start(void)
{
    size_t used = 0;
    const char *watch = secure_getenv("BELLROCK_WATCH");
    only_asked = watch && *watch;
    ask_list(watch, true, &used);
    ask_list(secure_getenv("BELLROCK_IGNORE"), false, &used);
    for (size_t i = 0; i < sizeof built_in_ignored / sizeof *built_in_ignored; i++)
        built_in[built_in_count++] = prefix_of(built_in_ignored[i], strlen(built_in_ignored[i]), false);
    for (size_t i = 0; i < sizeof built_in_watched / sizeof *built_in_watched; i++)
        built_in[built_in_count++] = prefix_of(built_in_watched[i], strlen(built_in_watched[i]), true);
    note_command_directories();
    unsigned own = 0;
    char program[1024];
    ssize_t n = syscall(SYS_readlink, "/proc/self/exe", program, sizeof program - 1);
    if (n > 0) {
        program[n] = 0;
        ignore_installation(program, &own);
        const char *name = strrchr(program, '/');
        is_python = name && !strncmp(name, "/python", 7);
    }
    const char *called = (const char *)getauxval(AT_EXECFN); /* a virtual environment is a link to another place */
    if (called && called[0] == '/')
        ignore_installation(called, &own);
    else if (called && strstr(called, "/bin/") && (n = syscall(SYS_getcwd, program, sizeof program)) > 0 &&
             (size_t)n + strlen(called) + 1 < sizeof program) {
        program[n - 1] = '/';
        strcpy(program + n, called[0] == '.' && called[1] == '/' ? called + 2 : called);
        ignore_installation(program, &own);
    }
}
