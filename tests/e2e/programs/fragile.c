/* usage: fragile altstack|filter|strict FILE: programs that a careless library would kill. Each writes 100 times 10 bytes.
 *   altstack: from a signal handler on a stack of 8 KiB, as crash reports are written; filter: under a seccomp filter that allows
 *   little more than write and kills for the rest, opened before; strict: under seccomp's strict mode. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *path;
static int fd;

static int write_all(void)
{
    for (int i = 0; i < 100; i++)
        if (write(fd, "0123456789", 10) != 10)
            return 1;
    return 0;
}
static void handler(int number)
{
    (void)number;
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    _exit(write_all());
}

#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    path = arguments[2];
    if (!strcmp(arguments[1], "altstack")) {
        static char small[8192];
        stack_t stack = {.ss_sp = small, .ss_size = sizeof small};
        struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
        sigaltstack(&stack, NULL);
        sigaction(SIGUSR1, &action, NULL);
        raise(SIGUSR1);
    }
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (!strcmp(arguments[1], "filter")) {
        struct sock_filter rules[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), ALLOW(write), ALLOW(exit_group),
                                      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
        struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
            return 3;
        return write_all();
    }
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
        return 3;
    syscall(SYS_exit, write_all()); /* exit_group is not allowed there */
}
