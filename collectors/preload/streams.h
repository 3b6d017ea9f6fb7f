/* The descriptors below stdio's streams. */
#ifndef STREAMS_H
#define STREAMS_H
#include "preload.h"
#include <stdio.h>

/* The stream's descriptor, which `fd` is set to, if its file is watched, else NULL. Leaves errno alone. */
static inline struct descriptor *stream_watched(FILE *stream, int *fd)
{
    int error = errno;
    *fd = stream ? fileno_unlocked(stream) : -1; /* -1 with an errno: a stream in memory */
    if (*fd >= 0)
        return watched(*fd);
    errno = error;
    return NULL;
}
#endif
