/* usage: stall FILE WRITES: so many writes of 4 KiB, one after the other; prints how many took at least 10 us, 100 us ... 10 s, and the longest's ns.
 * With -DDELAY a library to preload, of which the 1,001st pwrite of a process waits for 0.3 s: a file server that stalls once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#ifdef DELAY
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    static int calls;
    ssize_t (*real)(int, const void *, size_t, off_t) = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
    struct timespec rest = {0, 300000000};
    if (++calls == 1001)
        while (nanosleep(&rest, &rest) != 0)
            ;
    return real(fd, bytes, size, offset);
}
#else
static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int count, char **arguments)
{
    static const char block[4096];
    if (count != 3)
        return 2;
    int fd = open(arguments[1], O_WRONLY | O_CREAT, 0600), writes = atoi(arguments[2]);
    uint64_t longest = 0;
    unsigned at_least[7] = {0};
    for (int i = 0; i < writes; i++) {
        uint64_t start = now_ns();
        if (pwrite(fd, block, sizeof block, (off_t)i * (off_t)sizeof block) != sizeof block)
            return 1;
        uint64_t took = now_ns() - start, bound = 10000;
        for (int k = 0; k < 7; k++, bound *= 10)
            at_least[k] += took >= bound;
        if (took > longest)
            longest = took;
    }
    printf("{\"longest_ns\": %llu, \"at_least\": [%u, %u, %u, %u, %u, %u, %u]}\n", (unsigned long long)longest, at_least[0], at_least[1], at_least[2],
           at_least[3], at_least[4], at_least[5], at_least[6]);
    return 0;
}
#endif
