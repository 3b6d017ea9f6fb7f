/* usage: hammer DIRECTORY TRUTH PROCESSES THREADS OPERATIONS PAUSE_US [RANDOM]
 *
 * Each of PROCESSES forked processes runs THREADS threads; each thread opens a file of its own in DIRECTORY, does OPERATIONS operations
 * (0: until killed or told to stop), every third a read of what it wrote, pausing PAUSE_US between them, and closes it. With RANDOM, offsets jump.
 * Each thread's file stays below 1000 * SIZE bytes.
 * TRUTH is a shared mapping of struct truth, one a thread, written around each call, so it holds whatever kills the program:
 * done <= what happened <= started. One more follows: once its first number is not 0, all end. TRUTH's name with .pids for its
 * suffix has the processes' numbers (uint32_t each).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 3000 };
struct truth {
    uint64_t started, done, written, read_back;
};
static struct truth *all;
static uint64_t *stop;
static const char *directory;
static long threads, operations, pause_us, random_offsets;
static int process;

static void *work(void *argument)
{
    long thread = (long)argument;
    struct truth *mine = &all[process * threads + thread];
    char path[4096];
    static __thread char buffer[SIZE];
    snprintf(path, sizeof path, "%s/f.%d.%ld", directory, process, thread);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    uint64_t seed = (uint64_t)(process * 1000 + thread) * 2654435761u + 1, wrote = 0;
    for (long i = 0; (!operations || i < operations) && !__atomic_load_n(stop, __ATOMIC_RELAXED); i++) {
        __atomic_store_n(&mine->started, mine->started + 1, __ATOMIC_SEQ_CST);
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        off_t at = random_offsets ? (off_t)(seed % 1000) * SIZE : (off_t)(wrote % 1000) * SIZE;
        ssize_t n;
        if (i % 3 == 2) {
            n = pread(fd, buffer, SIZE, random_offsets ? at : 0);
            __atomic_store_n(&mine->read_back, mine->read_back + (n > 0 ? (uint64_t)n : 0), __ATOMIC_SEQ_CST);
        } else {
            n = pwrite(fd, buffer, SIZE, at);
            wrote++;
            __atomic_store_n(&mine->written, mine->written + (n > 0 ? (uint64_t)n : 0), __ATOMIC_SEQ_CST);
        }
        __atomic_store_n(&mine->done, mine->done + 1, __ATOMIC_SEQ_CST);
        if (pause_us) {
            struct timespec pause = {pause_us / 1000000, pause_us % 1000000 * 1000};
            nanosleep(&pause, NULL);
        }
    }
    close(fd);
    return NULL;
}

int main(int count, char **arguments)
{
    if (count < 7)
        return 2;
    directory = arguments[1];
    long processes = atol(arguments[3]);
    threads = atol(arguments[4]), operations = atol(arguments[5]), pause_us = atol(arguments[6]);
    random_offsets = count > 7;
    size_t size = (size_t)(processes * threads + 1) * sizeof(struct truth);
    int fd = open(arguments[2], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size))
        return 1;
    all = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    stop = &all[processes * threads].started;
    uint32_t pids[256];
    for (process = 0; process < processes; process++)
        if ((pids[process] = (uint32_t)fork()) == 0) {
            pthread_t made[256];
            for (long t = 0; t < threads; t++)
                pthread_create(&made[t], NULL, work, (void *)t);
            for (long t = 0; t < threads; t++)
                pthread_join(made[t], NULL);
            _exit(0);
        }
    char path[4096];
    snprintf(path, sizeof path, "%s", arguments[2]);
    char *suffix = strrchr(path, '.');
    if (!suffix || suffix + sizeof ".pids" > path + sizeof path)
        return 1;
    strcpy(suffix, ".pids");
    int list = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (list < 0 || write(list, pids, (size_t)processes * sizeof *pids) < 0)
        return 1;
    close(list);
    while (wait(NULL) > 0)
        ;
    return 0;
}
