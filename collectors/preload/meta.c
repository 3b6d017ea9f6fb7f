/* Metadata operations on paths. */
#define _GNU_SOURCE
#include "preload.h"
#include <stdio.h>
#include <sys/stat.h>

/* What the call says about the file: a directory is told apart. */
#define MODE_FLAGS(mode) (S_ISDIR(mode) ? TP_DIRECTORY : 0)
/* A call on (directory, path). `flags_of` one that succeeded: TP_DIRECTORY or 0. */
#define ON_PATH(op, flags_of, name, directory, path, parameters, ...)                                                        \
    REAL(int, name, parameters)                                                                                              \
    WRAP int name(parameters)                                                                                                \
    {                                                                                                                        \
        uint64_t start = now_ticks();                                                                                        \
        int r = CALL(name)(__VA_ARGS__);                                                                                     \
        uint64_t end = now_ticks();                                                                                          \
        record_path(op, file_called(directory, path, r != 0), start, end, r != 0, r ? 0 : (flags_of));                            \
        return r;                                                                                                            \
    }
/* A call on (directory, path) where an empty path, or none, means the descriptor itself. */
#define ON_EITHER(op, flags_of, name, parameters, ...)                                                                       \
    REAL(int, name, parameters)                                                                                              \
    WRAP int name(parameters)                                                                                                \
    {                                                                                                                        \
        uint64_t start = now_ticks();                                                                                        \
        int r = CALL(name)(__VA_ARGS__);                                                                                     \
        uint64_t end = now_ticks();                                                                                          \
        if (r && errno == EFAULT)                                                                                            \
            return r;                                                                                                        \
        bool on_descriptor = flags & AT_EMPTY_PATH && (is_null(path) || !*path) && directory >= 0;                                   \
        struct descriptor *d = on_descriptor ? watched(directory) : NULL;                                                    \
        if (d)                                                                                                               \
            record_descriptor(op, directory, atomic_load_explicit(&d->file, memory_order_relaxed), directory_flag(d), start, r != 0);\
        else if (!on_descriptor)                                                                                             \
            record_path(op, file_of(directory, path), start, end, r != 0, r ? 0 : (flags_of));                                    \
        return r;                                                                                                            \
    }

ON_PATH(TP_STAT, MODE_FLAGS(out->st_mode), stat, AT_FDCWD, path, const char *restrict path COMMA struct stat *restrict out, path, out)
ON_PATH(TP_STAT, MODE_FLAGS(out->st_mode), stat64, AT_FDCWD, path, const char *restrict path COMMA struct stat64 *restrict out, path, out)
ON_PATH(TP_STAT, MODE_FLAGS(out->st_mode), lstat, AT_FDCWD, path, const char *restrict path COMMA struct stat *restrict out, path, out)
ON_PATH(TP_STAT, MODE_FLAGS(out->st_mode), lstat64, AT_FDCWD, path, const char *restrict path COMMA struct stat64 *restrict out, path, out)
ON_DESCRIPTOR(TP_STAT, fstat, fd, int fd COMMA struct stat *out, fd, out)
ON_DESCRIPTOR(TP_STAT, fstat64, fd, int fd COMMA struct stat64 *out, fd, out)
ON_EITHER(TP_STAT, MODE_FLAGS(out->st_mode), fstatat, int directory COMMA const char *restrict path COMMA struct stat *restrict out COMMA int flags, directory, path, out, flags)
ON_EITHER(TP_STAT, MODE_FLAGS(out->st_mode), fstatat64, int directory COMMA const char *restrict path COMMA struct stat64 *restrict out COMMA int flags, directory, path, out, flags)
ON_EITHER(TP_STAT, MODE_FLAGS(out->stx_mode), statx, int directory COMMA const char *restrict path COMMA int flags COMMA unsigned mask COMMA struct statx *restrict out,
          directory, path, flags, mask, out)
/* As programs built with a C library before 2.33 call them. */
ON_PATH(TP_STAT, MODE_FLAGS(out->st_mode), __xstat, AT_FDCWD, path, int version COMMA const char *path COMMA struct stat *out, version, path, out)
ON_PATH(TP_STAT, MODE_FLAGS(out->st_mode), __xstat64, AT_FDCWD, path, int version COMMA const char *path COMMA struct stat64 *out, version, path, out)
ON_PATH(TP_STAT, MODE_FLAGS(out->st_mode), __lxstat, AT_FDCWD, path, int version COMMA const char *path COMMA struct stat *out, version, path, out)
ON_PATH(TP_STAT, MODE_FLAGS(out->st_mode), __lxstat64, AT_FDCWD, path, int version COMMA const char *path COMMA struct stat64 *out, version, path, out)
ON_DESCRIPTOR(TP_STAT, __fxstat, fd, int version COMMA int fd COMMA struct stat *out, version, fd, out)
ON_DESCRIPTOR(TP_STAT, __fxstat64, fd, int version COMMA int fd COMMA struct stat64 *out, version, fd, out)
ON_EITHER(TP_STAT, MODE_FLAGS(out->st_mode), __fxstatat, int version COMMA int directory COMMA const char *path COMMA struct stat *out COMMA int flags, version, directory, path, out, flags)
ON_EITHER(TP_STAT, MODE_FLAGS(out->st_mode), __fxstatat64, int version COMMA int directory COMMA const char *path COMMA struct stat64 *out COMMA int flags, version, directory, path, out, flags)
/* What a link says is asked about it, not of what it names. */
#define READLINK(name, directory, parameters, ...)                                                                           \
    REAL(ssize_t, name, parameters)                                                                                          \
    WRAP ssize_t name(parameters)                                                                                            \
    {                                                                                                                        \
        uint64_t start = now_ticks();                                                                                        \
        ssize_t n = CALL(name)(__VA_ARGS__);                                                                                 \
        uint64_t end = now_ticks();                                                                                          \
        record_path(TP_STAT, file_called(directory, path, n < 0), start, end, n < 0, 0);                                     \
        return n;                                                                                                            \
    }
READLINK(readlink, AT_FDCWD, const char *restrict path COMMA char *restrict out COMMA size_t size, path, out, size)
READLINK(readlinkat, directory, int directory COMMA const char *restrict path COMMA char *restrict out COMMA size_t size, directory, path, out, size)
READLINK(__readlink_chk, AT_FDCWD, const char *path COMMA char *out COMMA size_t size COMMA size_t room, path, out, size, room)
READLINK(__readlinkat_chk, directory, int directory COMMA const char *path COMMA char *out COMMA size_t size COMMA size_t room, directory, path, out, size, room)

ON_PATH(TP_ACCESS, 0, access, AT_FDCWD, path, const char *path COMMA int mode, path, mode)
ON_PATH(TP_ACCESS, 0, euidaccess, AT_FDCWD, path, const char *path COMMA int mode, path, mode)
ON_PATH(TP_ACCESS, 0, eaccess, AT_FDCWD, path, const char *path COMMA int mode, path, mode)
ON_PATH(TP_ACCESS, 0, faccessat, directory, path, int directory COMMA const char *path COMMA int mode COMMA int flags, directory, path, mode, flags)
ON_PATH(TP_UNLINK, 0, unlink, AT_FDCWD, path, const char *path, path)
ON_PATH(flags &AT_REMOVEDIR ? TP_RMDIR : TP_UNLINK, flags &AT_REMOVEDIR ? TP_DIRECTORY : 0, unlinkat, directory, path, int directory COMMA const char *path COMMA int flags, directory, path, flags)
ON_PATH(TP_UNLINK, 0, remove, AT_FDCWD, path, const char *path, path)
ON_PATH(TP_RENAME, 0, rename, AT_FDCWD, path, const char *path COMMA const char *to, path, to)
ON_PATH(TP_RENAME, 0, renameat, directory, path, int directory COMMA const char *path COMMA int to_directory COMMA const char *to, directory, path, to_directory, to)
ON_PATH(TP_RENAME, 0, renameat2, directory, path,
        int directory COMMA const char *path COMMA int to_directory COMMA const char *to COMMA unsigned flags, directory, path, to_directory, to, flags)
ON_PATH(TP_MKDIR, TP_DIRECTORY, mkdir, AT_FDCWD, path, const char *path COMMA mode_t mode, path, mode)
ON_PATH(TP_MKDIR, TP_DIRECTORY, mkdirat, directory, path, int directory COMMA const char *path COMMA mode_t mode, directory, path, mode)
ON_PATH(TP_RMDIR, TP_DIRECTORY, rmdir, AT_FDCWD, path, const char *path, path)
/* A link counts at the name that it makes. */
ON_PATH(TP_LINK, 0, link, AT_FDCWD, path, const char *from COMMA const char *path, from, path)
ON_PATH(TP_LINK, 0, linkat, directory, path, int from_directory COMMA const char *from COMMA int directory COMMA const char *path COMMA int flags,
        from_directory, from, directory, path, flags)
ON_PATH(TP_LINK, 0, symlink, AT_FDCWD, path, const char *from COMMA const char *path, from, path)
ON_PATH(TP_LINK, 0, symlinkat, directory, path, const char *from COMMA int directory COMMA const char *path, from, directory, path)
ON_PATH(TP_TRUNCATE, 0, truncate, AT_FDCWD, path, const char *path COMMA off_t length, path, length)
ON_PATH(TP_TRUNCATE, 0, truncate64, AT_FDCWD, path, const char *path COMMA off64_t length, path, length)

/* It chooses the name, so it is known only afterwards. */
REAL(char *, mkdtemp, char *)
WRAP char *mkdtemp(char *path)
{
    uint64_t start = now_ticks();
    char *r = CALL(mkdtemp)(path);
    uint64_t end = now_ticks();
    if (r)
        record_path(TP_MKDIR, file_of(AT_FDCWD, path), start, end, false, TP_DIRECTORY);
    return r;
}
