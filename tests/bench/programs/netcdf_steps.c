/* usage: netcdf_steps FILE STEPS: the history of a climate model in small. At each step it adds a record of each of four fields to a NetCDF file, after every
 * tenth the file is synced; in the end the first field is read, step by step. Build: cc … -lnetcdf. */
#include <netcdf.h>
#include <stdio.h>
#include <stdlib.h>

enum { LATITUDES = 96, LONGITUDES = 144, FIELDS = 4 };

static void check(int error)
{
    if (error == NC_NOERR)
        return;
    fprintf(stderr, "netcdf_steps: %s\n", nc_strerror(error));
    exit(1);
}

int main(int count, char **words)
{
    static float field[LATITUDES * LONGITUDES];
    static const char *const names[FIELDS] = {"temperature", "humidity", "wind_u", "wind_v"};
    static const size_t counts[3] = {1, LATITUDES, LONGITUDES};
    if (count != 3)
        return 2;
    size_t steps = strtoul(words[2], NULL, 10);
    int file, dimensions[3], variables[FIELDS];
    check(nc_create(words[1], NC_CLOBBER | NC_64BIT_OFFSET, &file));
    check(nc_def_dim(file, "time", NC_UNLIMITED, &dimensions[0]));
    check(nc_def_dim(file, "latitude", LATITUDES, &dimensions[1]));
    check(nc_def_dim(file, "longitude", LONGITUDES, &dimensions[2]));
    for (int i = 0; i < FIELDS; i++)
        check(nc_def_var(file, names[i], NC_FLOAT, 3, dimensions, &variables[i]));
    check(nc_enddef(file));
    for (size_t step = 0; step < steps; step++) {
        size_t start[3] = {step, 0, 0};
        for (int cell = 0; cell < LATITUDES * LONGITUDES; cell++)
            field[cell] = (float)(cell % 97) + 0.1f * (float)step;
        for (int i = 0; i < FIELDS; i++)
            check(nc_put_vara_float(file, variables[i], start, counts, field));
        if (step % 10 == 9)
            check(nc_sync(file));
    }
    check(nc_close(file));
    check(nc_open(words[1], NC_NOWRITE, &file));
    for (size_t step = 0; step < steps; step++) {
        size_t start[3] = {step, 0, 0};
        check(nc_get_vara_float(file, variables[0], start, counts, field));
    }
    check(nc_close(file));
    return 0;
}
