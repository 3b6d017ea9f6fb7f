/* Stands for a program and the LWFS client under it on one node: writes COUNT blocks of SIZE bytes to FILE, and the client's log of it.
 * Linked statically, it cannot be watched, so the log is all that there is to see.
 * Usage: lwfs_job LOG FILE COUNT SIZE */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void stamp(FILE *log)
{
    char text[32];
    time_t now = time(NULL);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", gmtime(&now));
    fprintf(log, "[%s] T ", text);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    FILE *log = fopen(argv[1], "a"), *out = fopen(argv[2], "w");
    long count = atol(argv[3]), size = atol(argv[4]);
    char *block = calloc(1, size);
    if (!log || !out || !block)
        return 1;
    stamp(log);
    fprintf(log, "OPEN() %s => 0x1200bd3f0\n", argv[2]);
    for (long i = 0; i < count; i++) {
        if (fwrite(block, size, 1, out) != 1)
            return 1;
        stamp(log);
        fprintf(log, "[fuse-bridge.c:1967:fuse_writev] lwfs-fuse: %ld: WRITE (0x1200bd3f0, size=%ld, offset=%ld)\n", i + 1, size, i * size);
        stamp(log);
        fprintf(log, "[fuse-bridge.c:1967:fuse_writev_cbk] lwfs-fuse: %ld: WRITE => %ld/%ld,%ld/%ld\n", i + 1, size, size, (i + 1) * size, (i + 1) * size);
    }
    stamp(log);
    fprintf(log, "RELEASE 0x1200bd3f0\n");
    return fclose(log) | fclose(out) ? 1 : 0;
}
