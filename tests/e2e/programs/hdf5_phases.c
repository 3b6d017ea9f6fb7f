/* usage: mpirun -n N hdf5_phases DIR FILES PAUSE_S: all ranks write a field of 8 MiB each into a new file with parallel HDF5, collectively, every so often; after the last
 * they read the first one back. In the end rank 0 prints when each of these began and ended, by its clock, ns since the epoch. Build: h5pcc. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROWS = 512, COLUMNS = 2048, FILES_MAX = 16 };

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void field(const char *path, int rank, int ranks, double *slab, int is_read)
{
    hsize_t all[2] = {(hsize_t)ROWS * ranks, COLUMNS}, count[2] = {ROWS, COLUMNS}, start[2] = {(hsize_t)ROWS * rank, 0};
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), how = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    H5Pset_dxpl_mpio(how, H5FD_MPIO_COLLECTIVE);
    hid_t file = is_read ? H5Fopen(path, H5F_ACC_RDONLY, access) : H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    hid_t space = H5Screate_simple(2, all, NULL), memory = H5Screate_simple(2, count, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    hid_t set = is_read ? H5Dopen(file, "field", H5P_DEFAULT) : H5Dcreate(file, "field", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    herr_t result = is_read ? H5Dread(set, H5T_NATIVE_DOUBLE, memory, space, how, slab) : H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, space, how, slab);
    if (file < 0 || set < 0 || result < 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    H5Dclose(set);
    H5Sclose(memory);
    H5Sclose(space);
    H5Fclose(file);
    H5Pclose(how);
    H5Pclose(access);
}

int main(int count, char **words)
{
    static double slab[ROWS * COLUMNS];
    long long spans[FILES_MAX + 1][2];
    int rank, ranks;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int files = count == 4 ? atoi(words[2]) : 0, pause_s = count == 4 ? atoi(words[3]) : 0;
    if (files < 1 || files > FILES_MAX)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int number = 0; number <= files; number++) {
        char path[4200];
        struct timespec t = {pause_s, 0};
        nanosleep(&t, NULL);
        snprintf(path, sizeof path, "%.4000s/field%d.h5", words[1], number % files);
        for (int cell = 0; cell < ROWS * COLUMNS; cell++)
            slab[cell] = rank + 1e-6 * cell * number;
        MPI_Barrier(MPI_COMM_WORLD);
        spans[number][0] = now_ns();
        field(path, rank, ranks, slab, number == files);
        MPI_Barrier(MPI_COMM_WORLD);
        spans[number][1] = now_ns();
    }
    for (int number = 0; rank == 0 && number <= files; number++)
        printf("%s[%lld, %lld]%s", number ? ", " : "[", spans[number][0], spans[number][1], number == files ? "]\n" : "");
    MPI_Finalize();
    return 0;
}
