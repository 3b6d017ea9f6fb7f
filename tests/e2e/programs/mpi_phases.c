/* usage: mpirun -n N mpi_phases DIR CHECKPOINTS PAUSE_S: all ranks write a checkpoint into one file (N-1) through MPI-IO every so often, 16 MiB each, interleaved; in
 * between rank 0 writes a line of log twice a second. In the end it prints when each checkpoint began and ended, by its clock, ns since the epoch. Build: mpicc. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK = 1 << 20, BLOCKS = 16, CHECKPOINTS_MAX = 16 };

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void check(int error)
{
    if (error != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int count, char **words)
{
    static char block[BLOCK];
    long long spans[CHECKPOINTS_MAX][2];
    int rank, ranks;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int checkpoints = count == 4 ? atoi(words[2]) : 0, pause_s = count == 4 ? atoi(words[3]) : 0;
    if (checkpoints < 1 || checkpoints > CHECKPOINTS_MAX)
        MPI_Abort(MPI_COMM_WORLD, 2);
    char path[4200];
    snprintf(path, sizeof path, "%.4000s/log", words[1]);
    FILE *log = rank == 0 ? fopen(path, "w") : NULL;
    memset(block, 'a' + rank % 26, sizeof block);
    for (int number = 0; number < checkpoints; number++) {
        for (int half = 0; half < 2 * pause_s; half++) {
            struct timespec t = {0, 500000000};
            nanosleep(&t, NULL);
            if (log && (fprintf(log, "step %d residual 1e-5\n", number) < 0 || fflush(log)))
                MPI_Abort(MPI_COMM_WORLD, 1);
        }
        snprintf(path, sizeof path, "%.4000s/checkpoint%d", words[1], number);
        MPI_File file;
        MPI_Barrier(MPI_COMM_WORLD);
        spans[number][0] = now_ns();
        check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
        for (int i = 0; i < BLOCKS; i++)
            check(MPI_File_write_at(file, ((MPI_Offset)i * ranks + rank) * BLOCK, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
        check(MPI_File_close(&file));
        MPI_Barrier(MPI_COMM_WORLD);
        spans[number][1] = now_ns();
    }
    if (log) {
        fclose(log);
        for (int number = 0; number < checkpoints; number++)
            printf("%s[%lld, %lld]%s", number ? ", " : "[", spans[number][0], spans[number][1], number == checkpoints - 1 ? "]\n" : "");
    }
    MPI_Finalize();
    return 0;
}
