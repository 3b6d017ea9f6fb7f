/* usage: early before|fork|signal|clone FILE: what may be called where nothing may be looked up or allocated. Its own dlsym ends it there. It
 * writes 10 bytes to FILE, and ends with 0 when every call answered as it should. Build it with -rdynamic. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int line)
{
    char text[] = "early.c:000\n";
    for (int i = 10; i > 7; i--, line /= 10)
        text[i] = (char)('0' + line % 10);
    syscall(SYS_write, 2, text, sizeof text - 1);
    _exit(1);
}
#define MUST(condition) ((condition) ? (void)0 : end(__LINE__))

/* --- as a jump, since the real one asks who called it ------------------------------------------------------------------------ */
static volatile int forbidden;
static void *(*real)(void *, const char *);
static void real_find(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    for (unsigned i = 0; i < sizeof versions / sizeof *versions && !real; i++)
        real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    MUST(real);
}
void *dlsym(void *restrict handle, const char *restrict name)
{
    if (forbidden) {
        syscall(SYS_write, 2, name, strlen(name));
        end(__LINE__);
    }
    if (!real)
        real_find();
    return real(handle, name);
}

/* --- what an allocator does, before any constructor ------------------------------------------------------------------------------ */
static int is_before_done;
static void before(int count, char **arguments)
{
    if (count != 3 || strcmp(arguments[1], "before"))
        return;
    unsigned number = 0;
    char text[64];
    forbidden = 1;
    MUST(syscall(SYS_getrandom, &number, sizeof number, 1 /* GRND_NONBLOCK */) == sizeof number);
    errno = 0;
    MUST(syscall(-1) == -1 && errno == ENOSYS);
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(page != MAP_FAILED);
    MUST(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, -1, 0) == MAP_FAILED && errno == EBADF);
    MUST(open("/nowhere", O_RDONLY) == -1 && errno == ENOENT);
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC), in = openat(AT_FDCWD, "/dev/null", O_WRONLY);
    MUST(fd >= 0 && read(fd, text, sizeof text) > 0 && close(fd) == 0);
    MUST(in >= 0 && write(in, text, 1) == 1 && close(in) == 0 && close(in) == -1 && errno == EBADF);
    MUST(readlink("/proc/self/exe", text, sizeof text) > 0);
    MUST(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) >= 0);
    memset(page, 1, 4096);
    forbidden = 0;
    is_before_done = 1;
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **) = before;

/* --- a child whose parent's other thread holds the allocator's lock --------------------------------------------------------------- */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char arena[16 << 20];
void *malloc(size_t size)
{
    static size_t taken;
    pthread_mutex_lock(&lock);
    size_t at = taken;
    taken += (size + 31) & ~(size_t)15;
    pthread_mutex_unlock(&lock);
    MUST(taken < sizeof arena);
    *(size_t *)(arena + at) = size;
    return arena + at + 16;
}
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t size) { return malloc(n * size); } /* never used before, so zero */
void *realloc(void *p, size_t size)
{
    void *q = malloc(size);
    return p ? memcpy(q, p, ((size_t *)p)[-2] < size ? ((size_t *)p)[-2] : size) : q;
}
static _Atomic int is_over, holds;
static void *hold(void *none)
{
    while (!is_over) {
        pthread_mutex_lock(&lock);
        holds++;
        sched_yield();
        pthread_mutex_unlock(&lock);
    }
    return none;
}
static void in_child(int round)
{
    char *const arguments[] = {"true", NULL}, *const environment[] = {NULL};
    forbidden = 1;
    alarm(60); /* instead of waiting for the lock for ever */
    int fd = open("/dev/null", O_RDWR);
    MUST(fd >= 0 && dup2(fd, 0) == 0 && fcntl(fd, F_GETFD) >= 0 && close(fd) == 0 && chdir("/") == 0 && access("/", R_OK) == 0);
    switch (round % 4) {
    case 0:
        execv("/bin/true", arguments);
        break;
    case 1:
        execve("/bin/true", arguments, environment);
        break;
    case 2:
        execlp("true", "true", (char *)NULL);
        break;
    case 3:
        fexecve(open("/bin/true", O_RDONLY | O_CLOEXEC), arguments, environment);
        break;
    }
    end(__LINE__);
}
static void fork_and_exec(void)
{
    pthread_t holder;
    MUST(pthread_create(&holder, NULL, hold, NULL) == 0);
    while (!holds)
        sched_yield();
    for (int round = 0; round < 200; round++) {
        int status;
        pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); /* past the C library's handlers, which would take the lock */
        if (child == 0)
            in_child(round);
        MUST(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    is_over = 1;
    pthread_join(holder, NULL);
}

/* --- a handler that is the first to call ------------------------------------------------------------------------------------------- */
static void handler(int number)
{
    forbidden = 1;
    MUST(number && fsync(-1) == -1 && lseek(-1, 0, SEEK_SET) == -1 && unlink("/nowhere") == -1 && errno == ENOENT);
    forbidden = 0;
}

/* --- a child that comes back on another stack ----------------------------------------------------------------------------------------- */
#if defined(__x86_64__)
/* The address to return to is put on that stack; a register that calls keep must be kept for the child too, which ends with 7 then. */
pid_t bellrock_clone(long flags, void *stack);
__asm__(".text\n"
        "bellrock_clone:\n"
        "    pushq %rbp\n"
        "    movl $4242, %ebp\n"
        "    movq %rsi, %rdx\n"
        "    movq %rdi, %rsi\n"
        "    movl $56, %edi\n" /* SYS_clone */
        "    leaq 1f(%rip), %rax\n"
        "    movq %rax, (%rdx)\n"
        "    call syscall@PLT\n"
        "1:  testq %rax, %rax\n"
        "    jz 2f\n"
        "    popq %rbp\n"
        "    ret\n"
        "2:  movl $7, %edi\n"
        "    cmpq $4242, %rbp\n"
        "    je 3f\n"
        "    movl $8, %edi\n"
        "3:  call _exit@PLT\n");
static void clone_onto(void)
{
    static void *stack[4096] __attribute__((aligned(16)));
    pid_t child = bellrock_clone(CLONE_VM | CLONE_VFORK | SIGCHLD, &stack[2001]);
    int status;
    MUST(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}
#else
static void clone_onto(void) {} /* the address to return to is in a register */
#endif

int main(int count, char **arguments)
{
    MUST(count == 3);
    const char *mode = arguments[1];
    if (!strcmp(mode, "fork"))
        fork_and_exec();
    else if (!strcmp(mode, "signal"))
        MUST(signal(SIGUSR1, handler) != SIG_ERR && raise(SIGUSR1) == 0);
    else if (!strcmp(mode, "clone"))
        clone_onto();
    else
        MUST(!strcmp(mode, "before") && is_before_done);
    int fd = open(arguments[2], O_WRONLY | O_CREAT, 0600);
    MUST(fd >= 0 && write(fd, "0123456789", 10) == 10 && close(fd) == 0);
    return 0;
}
