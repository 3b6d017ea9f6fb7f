/* An MPI program that writes checkpoints as many do: all ranks into one file (N-1), interleaved block by block, through MPI-IO.
 *
 * Build: mpicc -O2 -o build/mpi_checkpoint bellrock/demo/mpi_checkpoint.c
 * Run: mpirun -n 4 build/mpi_checkpoint DIR [CHECKPOINTS [BLOCKS [BLOCK_BYTES]]]; rank 0 prints one line of JSON.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(int error, const char *what)
{
    if (error == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(error, text, &length);
    fprintf(stderr, "mpi_checkpoint: %s: %s\n", what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static long number(int count, char **words, int at, long otherwise)
{
    long value = count > at ? strtol(words[at], NULL, 10) : otherwise;
    if (value < 1 || value > 1L << 30) {
        fprintf(stderr, "mpi_checkpoint: %s: expected a number from 1 to 2^30\n", words[at]);
        exit(2);
    }
    return value;
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count < 2) {
        fprintf(stderr, "usage: mpi_checkpoint DIR [CHECKPOINTS [BLOCKS [BLOCK_BYTES]]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    long checkpoints = number(count, words, 2, 3), blocks = number(count, words, 3, 64), block_bytes = number(count, words, 4, 256 << 10);
    char *block = malloc(block_bytes);
    if (!block)
        MPI_Abort(MPI_COMM_WORLD, 1);
    double seconds = 0;
    for (long checkpoint = 0; checkpoint < checkpoints; checkpoint++) {
        /* The computing between two checkpoints. */
        struct timespec t = {0, 400000000};
        nanosleep(&t, NULL);
        char path[4200];
        snprintf(path, sizeof path, "%.4000s/checkpoint.%03ld", words[1], checkpoint);
        memset(block, 'a' + rank % 26, block_bytes);
        MPI_File file;
        check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), path);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        for (long i = 0; i < blocks; i++)
            check(MPI_File_write_at(file, (MPI_Offset)(i * ranks + rank) * block_bytes, block, (int)block_bytes, MPI_BYTE, MPI_STATUS_IGNORE), path);
        double mine = MPI_Wtime() - start, longest;
        MPI_Reduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        seconds += longest;
        check(MPI_File_close(&file), path);
    }
    if (rank == 0) {
        long long bytes = (long long)checkpoints * blocks * block_bytes * ranks;
        printf("{\"mode\": \"mpi\", \"processes\": %d, \"files\": %ld, \"write_bytes\": %lld, \"write_ops\": %lld, \"write_s\": %.9f}\n", ranks, checkpoints, bytes,
               (long long)checkpoints * blocks * ranks, seconds);
    }
    MPI_Finalize();
    return 0;
}
