/* usage: spawn HOW FOLDER FILE: runs `./program FILE` by posix_spawn, from a directory that its file actions choose, as HOW says; with
 * `path` it is `program` along $PATH. Ends with the program's status. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int count, char **arguments)
{
    if (count != 4)
        return 2;
    const char *how = arguments[1], *folder = arguments[2];
    int fd = open(folder, O_RDONLY | O_DIRECTORY), other = open("/", O_RDONLY | O_DIRECTORY), r = 0;
    posix_spawn_file_actions_t actions;
    for (int i = 0; i < 100; i++) { /* none of these may be taken for the one that counts, nor take its place */
        posix_spawn_file_actions_init(&actions);
        r |= posix_spawn_file_actions_addchdir_np(&actions, "/");
        r |= posix_spawn_file_actions_destroy(&actions);
    }
    posix_spawn_file_actions_init(&actions);
    if (!strcmp(how, "chdir") || !strcmp(how, "path"))
        r |= posix_spawn_file_actions_addchdir_np(&actions, folder);
    else if (!strcmp(how, "steps")) {
        r |= posix_spawn_file_actions_addchdir_np(&actions, folder);
        r |= posix_spawn_file_actions_addchdir_np(&actions, "..");
        r |= posix_spawn_file_actions_addchdir_np(&actions, strrchr(folder, '/') + 1);
    } else if (!strcmp(how, "fchdir")) {
        r |= posix_spawn_file_actions_addfchdir_np(&actions, other);
        r |= posix_spawn_file_actions_addfchdir_np(&actions, fd);
        r |= posix_spawn_file_actions_addchdir_np(&actions, ".");
    } else if (!strcmp(how, "dup2")) { /* another directory by then */
        r |= posix_spawn_file_actions_adddup2(&actions, fd, other);
        r |= posix_spawn_file_actions_addfchdir_np(&actions, other);
    } else if (strcmp(how, "stay"))
        return 2;
    char *const list[] = {"program", arguments[3], NULL};
    pid_t child;
    if (!strcmp(how, "path")) {
        setenv("PATH", "/usr/bin:.", 1);
        r |= posix_spawnp(&child, "program", &actions, NULL, list, environ);
    } else
        r |= posix_spawn(&child, "./program", &actions, NULL, list, environ);
    posix_spawn_file_actions_destroy(&actions);
    int status;
    if (r || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 3;
    return WEXITSTATUS(status);
}
