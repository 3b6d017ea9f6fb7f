/* usage: unseen_harness < PATHS: the library's answer to each path, one a line. */
#define _GNU_SOURCE
#include "../../../collectors/preload/unseen.c"
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

/* What the library's other parts would be. */
bool started;
__thread volatile uint32_t bellrock_borrowed;
void *real_symbol(struct real *real) { return real->call = dlsym(RTLD_NEXT, real->name); }
void bellrock_set_errno(int error) { errno = error; }
char *scratch_take(void) { return NULL; }
void scratch_give(char *scratch) { (void)scratch; }
struct file file_unwatched(const char *path) { return (struct file){0, path, 0}; }
uint32_t clock_kind = TP_CLOCK_MONOTONIC;
void record(uint8_t op, int handle, uint64_t file, uint64_t offset, uint64_t size, uint64_t start, uint64_t end, int error, uint8_t flags)
{
    (void)op, (void)handle, (void)file, (void)offset, (void)size, (void)start, (void)end, (void)error, (void)flags;
}

int main(void)
{
    char path[4096];
    while (fgets(path, sizeof path, stdin)) {
        path[strcspn(path, "\n")] = 0;
        printf("%d\n", unseen_reason(AT_FDCWD, path));
    }
    return 0;
}
