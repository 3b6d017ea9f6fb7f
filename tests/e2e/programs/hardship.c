/* usage: hardship signals|memory-before|memory-after|malloc|descriptors|closed|chroot|full|oom FILE: a program that gets into trouble of its
 * own, and must get through it, or not, as it would without a watcher. It writes 1000 times 10 bytes to FILE, and ends with 0 when every
 * call answered as it should. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(condition)                                                                                                      \
    do {                                                                                                                     \
        if (!(condition)) {                                                                                                  \
            dprintf(2, "hardship.c:%d: not %s: %s\n", __LINE__, #condition, strerror(errno));                                \
            _exit(1);                                                                                                        \
        }                                                                                                                    \
    } while (0)

static const char *path;

static int opened(void)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    MUST(fd >= 0);
    return fd;
}
static void write_all(int fd)
{
    for (int i = 0; i < 1000; i++) {
        errno = 4242;
        MUST(write(fd, "0123456789", 10) == 10 && errno == 4242);
    }
}

/* --- no memory: the program's own allocator, which can be told to have none ------------------------------------------------ */
static char arena[64 << 20];
static size_t taken;
static int is_empty;
void *malloc(size_t size)
{
    size_t at = __atomic_fetch_add(&taken, (size + 31) & ~(size_t)15, __ATOMIC_RELAXED);
    if (is_empty || at + size + 32 > sizeof arena) {
        errno = ENOMEM;
        return NULL;
    }
    *(size_t *)(arena + at) = size;
    return arena + at + 16;
}
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t size) { return malloc(n * size); } /* never used before, so zero */
void *realloc(void *p, size_t size)
{
    void *q = malloc(size);
    if (q && p)
        memcpy(q, p, ((size_t *)p)[-2] < size ? ((size_t *)p)[-2] : size);
    return q;
}
static void without_malloc(void)
{
    struct stat st;
    is_empty = 1;
    int fd = opened();
    write_all(fd);
    MUST(pwrite(fd, "x", 1, 0) == 1 && fsync(fd) == 0 && fstat(fd, &st) == 0 && stat(path, &st) == 0 && st.st_size == 10000);
    MUST(stat("/nowhere", &st) == -1 && errno == ENOENT && access(path, R_OK) == 0);
    pid_t child = fork();
    if (child == 0) {
        execl("/nowhere", "nowhere", (char *)NULL);
        _exit(errno == ENOENT ? 7 : 8);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7 && close(fd) == 0);
}

/* --- signals: two timers, whose handlers do I/O amid the program's ---------------------------------------------------------- */
static int aside;
static volatile long ticks;
static void tick(int number)
{
    int error = errno;
    MUST(pwrite(aside, &number, 1, 0) == 1);
    if (++ticks % 16 == 0) {
        int fd = open(path, O_RDONLY);
        MUST(fd >= 0 && close(fd) == 0);
    }
    errno = error;
}
static void under_signals(void)
{
    int fd = opened();
    char name[4096];
    snprintf(name, sizeof name, "%s.aside", path);
    aside = open(name, O_WRONLY | O_CREAT, 0600);
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 150}, {0, 150}}, never = {{0, 0}, {0, 0}};
    MUST(sigaction(SIGALRM, &action, NULL) == 0 && sigaction(SIGPROF, &action, NULL) == 0);
    MUST(setitimer(ITIMER_REAL, &often, NULL) == 0 && setitimer(ITIMER_PROF, &often, NULL) == 0);
    while (ticks < 500)
        MUST(pread(fd, name, 1, 0) >= 0);
    write_all(fd);
    MUST(setitimer(ITIMER_REAL, &never, NULL) == 0 && setitimer(ITIMER_PROF, &never, NULL) == 0);
    printf("%ld\n", ticks);
    fflush(stdout);
}

/* --- no address space --------------------------------------------------------------------------------------------------------- */
static void *in_thread(void *argument)
{
    char byte;
    MUST(pread(*(int *)argument, &byte, 1, 0) == 1);
    return NULL;
}
static void without_memory(int is_before)
{
    int fd = is_before ? -1 : opened();
    unsigned long pages;
    FILE *statm = fopen("/proc/self/statm", "r");
    MUST(statm && fscanf(statm, "%lu", &pages) == 1 && fclose(statm) == 0);
    struct rlimit limit = {pages * 4096 + (1 << 20), RLIM_INFINITY};
    MUST(setrlimit(RLIMIT_AS, &limit) == 0);
    if (is_before)
        fd = opened();
    write_all(fd);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_t threads[10];
    int made = 0;
    while (made < 10 && pthread_create(&threads[made], &small, in_thread, &fd) == 0)
        made++;
    MUST(made > 0);
    while (made)
        pthread_join(threads[--made], NULL);
}

/* --- no descriptor left ----------------------------------------------------------------------------------------------------------- */
static void without_descriptors(void)
{
    struct rlimit limit = {20, 20};
    MUST(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while (dup(2) >= 0)
        ;
    MUST(errno == EMFILE && open(path, O_RDONLY) == -1 && errno == EMFILE);
    MUST(close(19) == 0);
    int fd = opened();
    MUST(fd == 19);
    write_all(fd);
    char *const arguments[] = {"true", NULL};
    MUST(execv("/nowhere", arguments) == -1 && errno == ENOENT && open(path, O_RDONLY) == -1 && errno == EMFILE);
}

/* --- the rings' file system is full ---------------------------------------------------------------------------------------------- */
static void *in_thread_of_its_own(void *argument)
{
    char name[4096];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "%s.%ld.%d.%0200d", path, (long)argument, i, i);
        MUST(access(name, F_OK) == -1 && errno == ENOENT);
    }
    return NULL;
}
static void on_full_rings(void)
{
    int fd = opened();
    MUST(write(fd, "0123456789", 10) == 10 && lseek(fd, 0, SEEK_SET) == 0);
    char name[4096];
    snprintf(name, sizeof name, "%s/fill", getenv("BELLROCK_RINGS"));
    int fill = open(name, O_WRONLY | O_CREAT, 0600);
    static char zeroes[65536];
    while (write(fill, zeroes, sizeof zeroes) > 0)
        ;
    while (write(fill, zeroes, 1) > 0)
        ;
    MUST(fill >= 0 && errno == ENOSPC);
    pthread_t threads[8];
    for (long i = 0; i < 8; i++)
        MUST(pthread_create(&threads[i], NULL, in_thread_of_its_own, (void *)i) == 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    write_all(fd);
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    const char *mode = arguments[1];
    path = arguments[2];
    if (!strcmp(mode, "signals"))
        under_signals();
    else if (!strcmp(mode, "memory-before") || !strcmp(mode, "memory-after"))
        without_memory(!strcmp(mode, "memory-before"));
    else if (!strcmp(mode, "malloc"))
        without_malloc();
    else if (!strcmp(mode, "descriptors"))
        without_descriptors();
    else if (!strcmp(mode, "full"))
        on_full_rings();
    else if (!strcmp(mode, "closed")) {
        int fd = opened();
        if (fd != 0)
            return 3;
        write_all(fd);
        return open("/dev/null", O_RDWR) != 1;
    } else if (!strcmp(mode, "chroot")) { /* the first I/O is where there is no /proc */
        const char *slash = strrchr(path, '/');
        char *folder = strndup(path, (size_t)(slash - path));
        MUST(chroot(folder) == 0 && chdir("/") == 0);
        path = slash;
        write_all(opened());
    } else if (!strcmp(mode, "oom")) {
        write_all(opened());
        for (;;)
            memset(arena, 1, sizeof arena);
    } else
        return 2;
    return 0;
}
