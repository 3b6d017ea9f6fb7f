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

void core_start(uint64_t window_ns, bool eager);
void core_forked(void);
void core_sealed(void);
const char *name_keep(uint64_t file, const char *path, size_t length);
#endif
