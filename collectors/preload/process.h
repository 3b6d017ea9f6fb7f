/* Who this process is, and what its environment asks us to watch. */
#ifndef PROCESS_H
#define PROCESS_H
#include "preload.h"

struct process_facts {
    struct tp_identity identity;
    char job[128];
    char program[1024];
    char stat[1024];
};
bool process_facts(struct process_facts *);
/* Makes and opens the ring file; -1 where it can't be. */
int ring_file_create(const struct process_facts *, char *path, size_t room, uint32_t nonce);

/* Reads what is to be watched from the environment, once, before the first `path_is_watched`. */
void watching_start(void);

/* One instant on both clocks, known to `width` ns. */
struct instant {
    uint64_t ticks, ns, width;
};
struct instant instant_now(void);
/* Chooses the clock, once, when the library is loaded. */
void clock_start(void);
/* Ticks a second; 0: not measured yet. */
uint64_t clock_rate(void);
void clock_measure(void);

void core_start(uint64_t window_ns, bool eager);
void core_forked(void);
void core_sealed(void);
const char *name_keep(uint64_t file, const char *path, size_t length);
#endif
