/* usage: checkpoint FILE STEPS: a time-stepping program in small: each step computes for some 20 ms and then writes a checkpoint of 16 MiB in
 * blocks of 64 KiB; prints its own run time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    enum { BLOCK = 65536, BLOCKS = 256, CELLS = 4096, SWEEPS = 3000 };
    static char block[BLOCK];
    static double cells[CELLS + 2];
    cells[CELLS / 2] = 1e6;
    double start = now_s();
    for (int step = 0; step < atoi(arguments[2]); step++) {
        for (int sweep = 0; sweep < SWEEPS; sweep++)
            for (int i = 1; i <= CELLS; i++)
                cells[i] += 0.1 * (cells[i - 1] - 2 * cells[i] + cells[i + 1]);
        memcpy(block, cells, sizeof cells < BLOCK ? sizeof cells : BLOCK);
        int fd = open(arguments[1], O_WRONLY | O_CREAT, 0600);
        for (int i = 0; i < BLOCKS; i++)
            if (write(fd, block, BLOCK) != BLOCK)
                return 1;
        close(fd);
    }
    printf("{\"seconds\": %.6f, \"cell\": %g}\n", now_s() - start, cells[1]);
    return 0;
}
