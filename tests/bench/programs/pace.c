/* usage: pace FILE seq|random RATE SECONDS: 4 KiB reads at a steady RATE a second, in bursts of a millisecond; prints what it did. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(int count, char **arguments)
{
    if (count != 5)
        return 2;
    enum { SIZE = 4096, BLOCKS = 16384 };
    static char buffer[SIZE];
    int random_order = !strcmp(arguments[2], "random");
    int64_t rate = atoll(arguments[3]), seconds = atoll(arguments[4]), done = 0;
    int fd = open(arguments[1], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)SIZE * BLOCKS))
        return 1;
    uint64_t seed = 88172645463325252u;
    int64_t start = now_ns(), end = start + seconds * 1000000000;
    for (int64_t now = start; now < end; now = now_ns()) {
        for (int64_t due = (now - start) / 1000 * rate / 1000000; done < due; done++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            int64_t block = random_order ? (int64_t)(seed % BLOCKS) : done % BLOCKS;
            if (pread(fd, buffer, SIZE, block * SIZE) != SIZE)
                return 1;
        }
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
    }
    printf("{\"operations\": %lld, \"seconds\": %.3f}\n", (long long)done, (double)(now_ns() - start) / 1e9);
    return 0;
}
