/* Part of every_call.c: children, and the programs that they run. */
/* Children: each is a process of its own, however it was made. */
static void children(void)
{
    int fd = (int)DID(OPEN, open("child", O_RDWR | O_CREAT | O_TRUNC, 0600));
    MOVED(WRITE, write(fd, block, 10));
    pid_t (*forks[])(void) = {fork, (pid_t(*)(void))dlsym(RTLD_DEFAULT, "_Fork"), NULL};
    for (int i = 0; i < 3; i++) {
        pid_t child = forks[i] ? forks[i]() : i == 2 ? (pid_t)syscall(SYS_fork) : -1;
        if (child == 0) {
            for (int k = 0; k < 100; k++)
                if (pwrite(fd, block, 10, 10 * k) != 10)
                    _exit(1);
            _exit(0);
        }
        int status = 1;
        if (child > 0) {
            for (int k = 0; k < 100; k++)
                MOVED(WRITE, pwrite(fd, block, 20, 5000 + 20 * k));
            MUST(waitpid(child, &status, 0) == child && status == 0);
            calls[WRITE] += 100, bytes[WRITE] += 1000;
        }
    }
    pid_t child = vfork();
    if (child == 0) {
        close(fd); /* the child's, not ours */
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
    MOVED(WRITE, write(fd, block, 10));
    DID(CLOSE, close(fd));
}

static const char *self;

/* A child that some call made run this program wrote to the descriptor that it was given. */
static void child_wrote(pid_t child)
{
    int status = 1;
    MUST(waitpid(child, &status, 0) == child && status == 0);
    calls[WRITE] += 3, bytes[WRITE] += 30;
}

/* Programs run by every call that does; each is watched, and its descriptors are followed. */
static void programs(void)
{
    int fd = (int)DID(OPEN, open("ran", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600));
    MUST(dup2(fd, 9) == 9);
    char *const arguments[] = {(char *)self, ".", "child", NULL};
    for (int i = 0; i < 10; i++) {
        pid_t child = i == 9 ? vfork() : fork();
        if (child == 0) {
            dup2(9, 1);
            switch (i) {
            case 0: execve(self, arguments, environ); break;
            case 1: execv(self, arguments); break;
            case 2: execvp("every_call", arguments); break;
            case 3: execvpe("every_call", arguments, environ); break;
            case 4: execl(self, self, ".", "child", (char *)NULL); break;
            case 5: execlp("every_call", self, ".", "child", (char *)NULL); break;
            case 6: execle(self, self, ".", "child", (char *)NULL, environ); break;
            case 7: fexecve(open(self, O_RDONLY | O_CLOEXEC), arguments, environ); break;
            case 8: execveat(AT_FDCWD, self, arguments, environ, 0); break;
            case 9: execv(self, arguments); break;
            }
            _exit(1);
        }
        child_wrote(child);
    }
    char *volatile nowhere = (char *)8;
    MUST(execv("no/such", arguments) == -1 && errno == ENOENT);
    MUST(execve(nowhere, arguments, environ) == -1 && errno == EFAULT);
    MUST(execvp("no-such-command", arguments) == -1 && errno == ENOENT);
    posix_spawn_file_actions_t onto;
    posix_spawn_file_actions_init(&onto);
    posix_spawn_file_actions_adddup2(&onto, 9, 1);
    int (*chdirs[])(posix_spawn_file_actions_t *, const char *) = {
        posix_spawn_file_actions_addchdir_np,
        (int (*)(posix_spawn_file_actions_t *, const char *))dlsym(RTLD_DEFAULT, "posix_spawn_file_actions_addchdir"),
    };
    int (*fchdirs[])(posix_spawn_file_actions_t *, int) = {
        posix_spawn_file_actions_addfchdir_np,
        (int (*)(posix_spawn_file_actions_t *, int))dlsym(RTLD_DEFAULT, "posix_spawn_file_actions_addfchdir"),
    };
    int here = (int)DID(OPEN, open(".", O_RDONLY | O_DIRECTORY));
    for (int i = 0; i < 2; i++) {
        MUST(!chdirs[i] || chdirs[i](&onto, ".") == 0);
        MUST(!fchdirs[i] || fchdirs[i](&onto, here) == 0);
    }
    pid_t child;
    MUST(posix_spawn(&child, self, &onto, NULL, arguments, environ) == 0);
    child_wrote(child);
    MUST(posix_spawnp(&child, "every_call", &onto, NULL, arguments, environ) == 0);
    child_wrote(child);
    MUST(posix_spawn(&child, "no/such", &onto, NULL, arguments, environ) == ENOENT);
    MUST(posix_spawn_file_actions_destroy(&onto) == 0);
    DID(CLOSE, close(here));
    unsetenv("PWD"); /* shells would stat where they are */
    MUST(system("exec every_call . child >&9") == 0);
    calls[WRITE] += 3, bytes[WRITE] += 30;
    FILE *stream = popen("exec every_call . child >&9", "w");
    MUST(stream && pclose(stream) == 0);
    calls[WRITE] += 3, bytes[WRITE] += 30;
    int again = (int)DID(OPEN, open("ran", O_RDONLY)); /* by a number that was perhaps the pipe's */
    MOVED(READ, read(again, block, 30));
    DID(CLOSE, close(again));
    DID(CLOSE, close(9));
    DID(CLOSE, close(fd));
}
