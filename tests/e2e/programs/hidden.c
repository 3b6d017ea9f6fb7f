/* usage: hidden FILE [io_uring|io_uring-inline|PROGRAM]: writes 10 bytes to FILE. With io_uring it then sets one up, through the C library
 * or past it, and ends when its standard input does; with a path it goes on as `PROGRAM FILE`. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif

#ifdef GO /* the mark that Go's linker leaves in its programs */
__asm__(".section .note.go.buildid, \"a\", @note\n.long 4, 4, 4\n.ascii \"Go\\0\\0\"\n.long 0\n.previous");
#endif

static long set_up(int is_inline)
{
    static char parameters[256];
#if defined(__x86_64__)
    if (is_inline) {
        long r;
        __asm__ volatile("syscall" : "=a"(r) : "a"((long)SYS_io_uring_setup), "D"(4L), "S"(parameters) : "rcx", "r11", "memory");
        return r;
    }
#else
    (void)is_inline;
#endif
    long r = syscall(SYS_io_uring_setup, 4, parameters);
    return r < 0 ? -errno : r;
}

int main(int count, char **arguments)
{
    int fd = open(arguments[1], O_WRONLY | O_CREAT, 0600);
    if (fd < 0 || write(fd, "0123456789", 10) != 10)
        return 1;
    if (count == 2)
        return 0;
    if (arguments[2][0] == '/') {
        char *const next[] = {arguments[2], arguments[1], NULL};
        execv(arguments[2], next);
        return 1;
    }
    if (set_up(!strcmp(arguments[2], "io_uring-inline")) < 0)
        return 77; /* the kernel has none, or forbids it */
    char end;
    return read(0, &end, 1) != 0;
}
