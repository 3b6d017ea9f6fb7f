/* An MPI program whose ranks write files together (N-1), block by block in turn, and have each on the disk before they go on; or read what they wrote.
 *
 *     mpirun mpi_io write|read STEM FILES ROUNDS BLOCKS BLOCK_BYTES
 *
 * of each file STEM.0, STEM.1 … so many blocks a rank; all of them ROUNDS times, once more over the same bytes each time.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int error, const char *path)
{
    if (error == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(error, text, &length);
    fprintf(stderr, "mpi_io: %s: %s\n", path, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count != 7)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int writes = !strcmp(words[1], "write");
    long files = atol(words[3]), rounds = atol(words[4]), blocks = atol(words[5]), block_bytes = atol(words[6]);
    char *block = malloc(block_bytes), path[4096];
    memset(block, 'a' + rank % 26, block_bytes);
    for (long number = 0; number < files * rounds; number++) {
        snprintf(path, sizeof path, "%s.%ld", words[2], number % files);
        MPI_File file;
        check(MPI_File_open(MPI_COMM_WORLD, path, writes ? MPI_MODE_CREATE | MPI_MODE_WRONLY : MPI_MODE_RDONLY, MPI_INFO_NULL, &file), path);
        for (long at = 0; at < blocks; at++) {
            MPI_Offset offset = (MPI_Offset)(at * ranks + rank) * block_bytes;
            check(writes ? MPI_File_write_at(file, offset, block, (int)block_bytes, MPI_BYTE, MPI_STATUS_IGNORE)
                         : MPI_File_read_at(file, offset, block, (int)block_bytes, MPI_BYTE, MPI_STATUS_IGNORE), path);
        }
        if (writes)
            check(MPI_File_sync(file), path);
        check(MPI_File_close(&file), path);
    }
    MPI_Finalize();
    return 0;
}
