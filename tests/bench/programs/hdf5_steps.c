/* usage: mpirun -n N hdf5_steps DIR STEPS: a simulation on a grid in small. At each step all ranks write three fields, a slab of rows each, into a new file
 * with parallel HDF5, the first collectively, the others each for itself; after the first step all read a field back. Build: h5pcc. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 64, COLUMNS = 2048 }; /* of a rank's slab, 1 MiB */

static void field(hid_t file, const char *name, int rank, int ranks, double *slab, int is_collective, int is_read)
{
    hsize_t all[2] = {(hsize_t)ROWS * ranks, COLUMNS}, count[2] = {ROWS, COLUMNS}, start[2] = {(hsize_t)ROWS * rank, 0};
    hid_t space = H5Screate_simple(2, all, NULL), memory = H5Screate_simple(2, count, NULL), how = H5Pcreate(H5P_DATASET_XFER);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    H5Pset_dxpl_mpio(how, is_collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    hid_t set = is_read ? H5Dopen(file, name, H5P_DEFAULT) : H5Dcreate(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    herr_t result = is_read ? H5Dread(set, H5T_NATIVE_DOUBLE, memory, space, how, slab) : H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, space, how, slab);
    if (result < 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    H5Dclose(set);
    H5Pclose(how);
    H5Sclose(memory);
    H5Sclose(space);
}

int main(int count, char **words)
{
    static double slab[ROWS * COLUMNS];
    static const char *const names[] = {"density", "velocity", "pressure"};
    int rank, ranks;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count != 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int step = 0; step < atoi(words[2]); step++) {
        char path[4200];
        snprintf(path, sizeof path, "%.4000s/step%04d.h5", words[1], step);
        for (int cell = 0; cell < ROWS * COLUMNS; cell++)
            slab[cell] = rank + 1e-6 * cell * step;
        hid_t access = H5Pcreate(H5P_FILE_ACCESS);
        H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
        hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
        if (file < 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
        for (int i = 0; i < 3; i++)
            field(file, names[i], rank, ranks, slab, i == 0, 0);
        if (step == 0)
            field(file, names[0], rank, ranks, slab, 0, 1);
        H5Fclose(file);
        H5Pclose(access);
    }
    MPI_Finalize();
    return 0;
}
