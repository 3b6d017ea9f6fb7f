/* usage: every_call DIRECTORY [child]: makes every call that the preload library wraps at least once, and prints what it did as JSON:
 * {"operation": [calls, bytes], ..., "errors": n}. Each entry is made from the call's own answer. As `child` it writes to its standard
 * output alone, three times 10 bytes. */
#include "every_call.h"
#include "every_call_async.h"
#include "every_call_processes.h"
#include "every_call_streams.h"

static void descriptors(void)
{
    int fd = (int)DID(OPEN, open("a", O_RDWR | O_CREAT | O_TRUNC, 0600));
    MOVED(WRITE, write(fd, block, 1000));
    struct iovec parts[2] = {{block, 10}, {block + 100, 20}};
    MOVED(WRITE, writev(fd, parts, 2));
    MOVED(WRITE, pwrite(fd, block, 7, 5000));
    MOVED(WRITE, pwrite64(fd, block, 8, 5007));
    MOVED(WRITE, pwritev(fd, parts, 2, 6000));
    MOVED(WRITE, pwritev64(fd, parts, 2, 6030));
    MOVED(WRITE, pwritev2(fd, parts, 2, 6060, 0));
    MOVED(WRITE, pwritev64v2(fd, parts, 2, -1, 0));
    MUST(lseek(fd, 0, SEEK_SET) == 0);
    MOVED(READ, read(fd, block, 100));
    MUST(lseek64(fd, 10, SEEK_SET) == 10);
    MOVED(READ, readv(fd, parts, 2));
    MOVED(READ, pread(fd, block, 9, 3));
    MOVED(READ, pread64(fd, block, 9, 1 << 20)); /* past the end */
    MOVED(READ, preadv(fd, parts, 2, 0));
    MOVED(READ, preadv64(fd, parts, 2, 0));
    MOVED(READ, preadv2(fd, parts, 2, 0, 0));
    MOVED(READ, preadv64v2(fd, parts, 2, -1, 0));
    OLD(ssize_t, __read_chk, int, void *, size_t, size_t);
    OLD(ssize_t, __pread_chk, int, void *, size_t, off_t, size_t);
    OLD(ssize_t, __pread64_chk, int, void *, size_t, off_t, size_t);
    MOVED(READ, __read_chk(fd, block, 5, sizeof block));
    MOVED(READ, __pread_chk(fd, block, 5, 0, sizeof block));
    MOVED(READ, __pread64_chk(fd, block, 5, 0, sizeof block));
    DID(SYNC, fsync(fd));
    DID(SYNC, fdatasync(fd));
    DID(SYNC, syncfs(fd));
    DID(TRUNCATE, ftruncate(fd, 4000));
    DID(TRUNCATE, ftruncate64(fd, 5000));
    DID(TRUNCATE, truncate("a", 4500));
    DID(TRUNCATE, truncate64("a", 4096));
    void *map = GOT(MMAP, mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0));
    bytes[MMAP] += 4096;
    munmap(map, 4096);
    map = GOT(MMAP, mmap64(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0));
    bytes[MMAP] += 4096;
    munmap(map, 4096);
    FAILS(pread(fd, block, 1, -5));
    FAILS(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 13));

    int others[] = {dup(fd), dup2(fd, 200), dup3(fd, 201, O_CLOEXEC), fcntl(fd, F_DUPFD, 210), fcntl64(fd, F_DUPFD_CLOEXEC, 220)};
    for (int i = 0; i < 5; i++) {
        MUST(others[i] >= 0);
        MOVED(WRITE, write(others[i], block, 11));
    }
    DID(CLOSE, close(others[0]));
    MUST(close_range(200, 201, 0) == 0);
    closefrom(210);

    int out = (int)DID(OPEN, creat("b", 0600));
    off_t at = 0;
    long n = sendfile(out, fd, &at, 300);
    MOVED(READ, n), MOVED(WRITE, n);
    n = sendfile64(out, fd, &at, 300);
    MOVED(READ, n), MOVED(WRITE, n);
    off64_t from = 0, to = 1000;
    n = copy_file_range(fd, &from, out, &to, 100, 0);
    MOVED(READ, n), MOVED(WRITE, n);
    from = 1 << 20;
    MOVED(READ, copy_file_range(fd, &from, out, &to, 100, 0)); /* at the end there is nothing to write */
    int ends[2];
    MUST(pipe(ends) == 0);
    from = 500;
    MOVED(READ, splice(fd, &from, ends[1], NULL, 90, 0));
    MOVED(WRITE, splice(ends[0], NULL, out, NULL, 90, 0));
    MOVED(WRITE, write(ends[1], "12345", 5) == 5 ? splice(ends[0], NULL, out, &to, 5, 0) : -1);
    FAILS(splice(fd, NULL, out, NULL, 1, 0)); /* none is a pipe */
    MUST(close(ends[0]) == 0 && close(ends[1]) == 0);
    MAY(SYNC, sync_file_range(out, 0, 10, SYNC_FILE_RANGE_WRITE));
    MAY(TRUNCATE, fallocate(out, 0, 0, 3000));
    MAY(TRUNCATE, fallocate64(out, FALLOC_FL_KEEP_SIZE, 0, 4000));
    DID(TRUNCATE, -posix_fallocate(out, 0, 5000));
    DID(TRUNCATE, -posix_fallocate64(out, 0, 6000));
    MUST(posix_fallocate(out, -1, 6000) == EINVAL);
    errors++;
    DID(CLOSE, close(out));
    DID(CLOSE, close(fd));
    FAILS(open("no/such", O_RDONLY));

    fd = (int)DID(OPEN, open64("a", O_RDONLY));
    DID(CLOSE, close(fd));
    fd = (int)DID(OPEN, creat64("b", 0600));
    DID(CLOSE, close(fd));
    int here = (int)DID(OPEN, open(".", O_RDONLY | O_DIRECTORY));
    fd = (int)DID(OPEN, openat(here, "a", O_RDONLY));
    DID(CLOSE, close(fd));
    fd = (int)DID(OPEN, openat64(here, "a", O_RDONLY));
    DID(CLOSE, close(fd));
    OLD(int, __open_2, const char *, int);
    OLD(int, __open64_2, const char *, int);
    OLD(int, __openat_2, int, const char *, int);
    OLD(int, __openat64_2, int, const char *, int);
    DID(CLOSE, close((int)DID(OPEN, __open_2("a", O_RDONLY))));
    DID(CLOSE, close((int)DID(OPEN, __open64_2("a", O_RDONLY))));
    DID(CLOSE, close((int)DID(OPEN, __openat_2(here, "a", O_RDONLY))));
    DID(CLOSE, close((int)DID(OPEN, __openat64_2(here, "a", O_RDONLY))));
    MUST(mkdirat(here, "sub", 0700) == DID(MKDIR, 0));
    MUST(fchdir((int)DID(OPEN, open("sub", O_RDONLY | O_DIRECTORY))) == 0);
    DID(CLOSE, close((int)DID(OPEN, creat("inside", 0600))));
    MUST(chdir("..") == 0);
    DID(UNLINK, unlink("sub/inside"));
    DID(RMDIR, unlinkat(here, "sub", AT_REMOVEDIR));
    DID(CLOSE, close(here));
    char names[8][20] = {"t1XXXXXX", "t2XXXXXX", "t3XXXXXX", "t4XXXXXX", "t5XXXXXX.c", "t6XXXXXX.c", "t7XXXXXX.c", "t8XXXXXX.c"};
    DID(CLOSE, close((int)DID(OPEN, mkstemp(names[0]))));
    DID(CLOSE, close((int)DID(OPEN, mkstemp64(names[1]))));
    DID(CLOSE, close((int)DID(OPEN, mkostemp(names[2], O_CLOEXEC))));
    DID(CLOSE, close((int)DID(OPEN, mkostemp64(names[3], O_CLOEXEC))));
    DID(CLOSE, close((int)DID(OPEN, mkstemps(names[4], 2))));
    DID(CLOSE, close((int)DID(OPEN, mkostemps(names[5], 2, O_CLOEXEC))));
    DID(CLOSE, close((int)DID(OPEN, mkstemps64(names[6], 2))));
    DID(CLOSE, close((int)DID(OPEN, mkostemps64(names[7], 2, O_CLOEXEC))));
    for (int i = 0; i < 8; i++)
        DID(UNLINK, unlink(names[i]));
}

static void metadata(void)
{
    struct stat st;
    struct stat64 st64;
    struct statx sx;
    DID(STAT, stat("a", &st));
    DID(STAT, stat64("a", &st64));
    DID(STAT, lstat("a", &st));
    DID(STAT, lstat64("a", &st64));
    DID(STAT, fstatat(AT_FDCWD, "a", &st, 0));
    DID(STAT, fstatat64(AT_FDCWD, "a", &st64, 0));
    DID(STAT, statx(AT_FDCWD, "a", 0, STATX_BASIC_STATS, &sx));
    int fd = (int)DID(OPEN, open("a", O_RDONLY));
    DID(STAT, fstat(fd, &st));
    DID(STAT, fstat64(fd, &st64));
    DID(STAT, fstatat(fd, "", &st, AT_EMPTY_PATH));
    OLD(int, __xstat, int, const char *, struct stat *);
    OLD(int, __xstat64, int, const char *, struct stat64 *);
    OLD(int, __lxstat, int, const char *, struct stat *);
    OLD(int, __lxstat64, int, const char *, struct stat64 *);
    OLD(int, __fxstat, int, int, struct stat *);
    OLD(int, __fxstat64, int, int, struct stat64 *);
    OLD(int, __fxstatat, int, int, const char *, struct stat *, int);
    OLD(int, __fxstatat64, int, int, const char *, struct stat64 *, int);
    int version = sizeof(long) == 8 && __xstat(1, "a", &st) == 0 ? 1 : 0; /* x86-64 has 1, others 0 */
    if (version)
        DID(STAT, 0);
    else
        errors++;
    DID(STAT, __xstat(version, "a", &st));
    DID(STAT, __xstat64(version, "a", &st64));
    DID(STAT, __lxstat(version, "a", &st));
    DID(STAT, __lxstat64(version, "a", &st64));
    DID(STAT, __fxstat(version, fd, &st));
    DID(STAT, __fxstat64(version, fd, &st64));
    DID(STAT, __fxstatat(version, AT_FDCWD, "a", &st, 0));
    DID(STAT, __fxstatat64(version, AT_FDCWD, "a", &st64, 0));
    DID(CLOSE, close(fd));
    FAILS(stat("nowhere", &st));
    /* What the system refuses to read must not be read by others either; it names no file, so it is no file's error. */
    char *volatile nothing = NULL;
    MUST(stat((char *)8, &st) == -1 && errno == EFAULT);
    MUST(open((char *)8, O_RDONLY) == -1 && errno == EFAULT);
    MUST(statx(0, nothing, 0, STATX_BASIC_STATS, (void *)nothing) == -1 && errno == EFAULT);

    DID(ACCESS, access("a", R_OK));
    DID(ACCESS, euidaccess("a", R_OK));
    DID(ACCESS, eaccess("a", R_OK));
    DID(ACCESS, faccessat(AT_FDCWD, "a", R_OK, 0));
    FAILS(access("nowhere", F_OK));
    DID(LINK, link("a", "l1"));
    DID(LINK, linkat(AT_FDCWD, "a", AT_FDCWD, "l2", 0));
    DID(LINK, symlink("a", "l3"));
    DID(LINK, symlinkat("a", AT_FDCWD, "l4"));
    char target[100];
    OLD(ssize_t, __readlink_chk, const char *, char *, size_t, size_t);
    OLD(ssize_t, __readlinkat_chk, int, const char *, char *, size_t, size_t);
    DID(STAT, readlink("l3", target, sizeof target));
    DID(STAT, readlinkat(AT_FDCWD, "l4", target, sizeof target));
    DID(STAT, __readlink_chk("l3", target, 10, sizeof target));
    DID(STAT, __readlinkat_chk(AT_FDCWD, "l4", target, 10, sizeof target));
    FAILS(readlink("a", target, sizeof target)); /* no link */
    DID(RENAME, rename("l1", "r1"));
    DID(RENAME, renameat(AT_FDCWD, "l2", AT_FDCWD, "r2"));
    DID(RENAME, renameat2(AT_FDCWD, "l3", AT_FDCWD, "r3", 0));
    DID(UNLINK, unlink("r1"));
    DID(UNLINK, unlinkat(AT_FDCWD, "r2", 0));
    DID(UNLINK, remove("r3"));
    DID(UNLINK, unlink("l4"));
    FAILS(unlink("nowhere"));
    DID(MKDIR, mkdir("d", 0700));
    char made[] = "dXXXXXX";
    GOT(MKDIR, mkdtemp(made));
    DIR *directory = GOT(OPEN, opendir("."));
    while (GOT(READDIR, readdir(directory) ?: (void *)8) != (void *)8)
        ;
    rewinddir(directory);
    while (GOT(READDIR, readdir64(directory) ?: (void *)8) != (void *)8)
        ;
    OLD(int, readdir_r, DIR *, struct dirent *, struct dirent **);
    OLD(int, readdir64_r, DIR *, struct dirent64 *, struct dirent64 **);
    struct dirent entry, *next;
    struct dirent64 entry64, *next64;
    rewinddir(directory);
    DID(READDIR, -readdir_r(directory, &entry, &next));
    DID(READDIR, -readdir64_r(directory, &entry64, &next64));
    rewinddir(directory);
    while (DID(READDIR, getdents64(dirfd(directory), block, sizeof block)) > 0)
        ;
    DID(CLOSE, closedir(directory));
    struct dirent **list;
    struct dirent64 **list64;
    DID(READDIR, scandir(".", &list, NULL, alphasort)); /* each list is left to the end of the program */
    DID(READDIR, scandir64(".", &list64, NULL, NULL));
    DID(READDIR, scandirat(AT_FDCWD, ".", &list, NULL, NULL));
    DID(READDIR, scandirat64(AT_FDCWD, ".", &list64, NULL, alphasort64));
    FAILS(scandir("nowhere", &list, NULL, NULL));
    DID(RMDIR, rmdir("d"));
    DID(RMDIR, rmdir(made));
    FAILS(rmdir("nowhere"));
}

int main(int count, char **arguments)
{
    if (count == 3 && !strcmp(arguments[2], "child")) {
        for (int i = 0; i < 3; i++)
            if (write(1, block, 10) != 10)
                _exit(1);
        _exit(0);
    }
    if (count != 2 || chdir(arguments[1])) {
        fprintf(stderr, "usage: every_call DIRECTORY [child]\n");
        return 2;
    }
    self = arguments[0];
    char *folder = strdup(self), *path;
    *strrchr(folder, '/') = 0;
    MUST(asprintf(&path, "%s:%s", folder, getenv("PATH")) > 0 && setenv("PATH", path, 1) == 0);
    int report = fcntl(1, F_DUPFD, 100);
    MUST(prctl(PR_SET_NAME, "every") == 0);
    descriptors();
    metadata();
    streams();
    asynchronous();
    children();
    programs();
    standard_streams();
    char text[2000];
    int n = snprintf(text, sizeof text, "{");
    for (int k = 0; k < KINDS; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, "\"%s\": [%ld, %ld], ", kinds[k], calls[k], bytes[k]);
    n += snprintf(text + n, sizeof text - (size_t)n, "\"errors\": %ld}\n", errors);
    if (write(report, text, (size_t)n) != n)
        return 1;
    return failed_at ? (fprintf(stderr, "%s failed\n", failed_at), 1) : 0;
}
