/* Metadata operations on paths. */
#define _GNU_SOURCE
#include "preload.h"
#include <stdio.h>
#include <sys/stat.h>

#define COMMA ,
/* A call on (directory, path). */
#define ON_PATH(op, name, directory, path, parameters, ...)                                                                  \
    REAL(int, name, parameters)                                                                                              \
    WRAP int name(parameters)                                                                                                \
    {                                                                                                                        \
        struct file f = outside() ? (struct file){0} : file_of(directory, path);                                       \
        uint64_t start = f.id ? now_ticks() : 0;                                                                             \
        int r = CALL(name)(__VA_ARGS__);                                                                                     \
        record_path(op, f, start, r != 0);                                                                                   \
        return r;                                                                                                            \
    }
/* A call on a descriptor. */
#define ON_DESCRIPTOR(op, name, fd, parameters, ...)                                                                         \
    REAL(int, name, parameters)                                                                                              \
    WRAP int name(parameters)                                                                                                \
    {                                                                                                                        \
        struct descriptor *d = watched(fd);                                                                                  \
        uint64_t start = d ? now_ticks() : 0;                                                                                \
        int r = CALL(name)(__VA_ARGS__);                                                                                     \
        if (d)                                                                                                               \
            record_descriptor(op, fd, atomic_load_explicit(&d->file, memory_order_relaxed), directory_flag(d), start, r != 0);                  \
        return r;                                                                                                            \
    }
/* A call on (directory, path) where an empty path means the descriptor itself. */
#define ON_EITHER(op, name, parameters, ...)                                                                                 \
    REAL(int, name, parameters)                                                                                              \
    WRAP int name(parameters)                                                                                                \
    {                                                                                                                        \
        struct descriptor *d = path && !*path && directory >= 0 ? watched(directory) : NULL;                                 \
        struct file f = {0};                                                                                           \
        if (path && *path && !outside())                                                                                     \
            f = file_of(directory, path);                                                                                    \
        uint64_t start = d || f.id ? now_ticks() : 0;                                                                        \
        int r = CALL(name)(__VA_ARGS__);                                                                                     \
        if (d)                                                                                                               \
            record_descriptor(op, directory, atomic_load_explicit(&d->file, memory_order_relaxed), directory_flag(d), start, r != 0);           \
        else                                                                                                                 \
            record_path(op, f, start, r != 0);                                                                               \
        return r;                                                                                                            \
    }

ON_PATH(TP_STAT, stat, AT_FDCWD, path, const char *restrict path COMMA struct stat *restrict out, path, out)
ON_PATH(TP_STAT, stat64, AT_FDCWD, path, const char *restrict path COMMA struct stat64 *restrict out, path, out)
ON_PATH(TP_STAT, lstat, AT_FDCWD, path, const char *restrict path COMMA struct stat *restrict out, path, out)
ON_PATH(TP_STAT, lstat64, AT_FDCWD, path, const char *restrict path COMMA struct stat64 *restrict out, path, out)
ON_DESCRIPTOR(TP_STAT, fstat, fd, int fd COMMA struct stat *out, fd, out)
ON_DESCRIPTOR(TP_STAT, fstat64, fd, int fd COMMA struct stat64 *out, fd, out)
ON_EITHER(TP_STAT, fstatat, int directory COMMA const char *restrict path COMMA struct stat *restrict out COMMA int flags, directory, path, out, flags)
ON_EITHER(TP_STAT, fstatat64, int directory COMMA const char *restrict path COMMA struct stat64 *restrict out COMMA int flags, directory, path, out, flags)
ON_EITHER(TP_STAT, statx, int directory COMMA const char *restrict path COMMA int flags COMMA unsigned mask COMMA struct statx *restrict out,
          directory, path, flags, mask, out)
/* As programs built with a C library before 2.33 call them. */
ON_PATH(TP_STAT, __xstat, AT_FDCWD, path, int version COMMA const char *path COMMA struct stat *out, version, path, out)
ON_PATH(TP_STAT, __xstat64, AT_FDCWD, path, int version COMMA const char *path COMMA struct stat64 *out, version, path, out)
ON_PATH(TP_STAT, __lxstat, AT_FDCWD, path, int version COMMA const char *path COMMA struct stat *out, version, path, out)
ON_PATH(TP_STAT, __lxstat64, AT_FDCWD, path, int version COMMA const char *path COMMA struct stat64 *out, version, path, out)
ON_DESCRIPTOR(TP_STAT, __fxstat, fd, int version COMMA int fd COMMA struct stat *out, version, fd, out)
ON_DESCRIPTOR(TP_STAT, __fxstat64, fd, int version COMMA int fd COMMA struct stat64 *out, version, fd, out)
ON_EITHER(TP_STAT, __fxstatat, int version COMMA int directory COMMA const char *path COMMA struct stat *out COMMA int flags, version, directory, path, out, flags)
ON_EITHER(TP_STAT, __fxstatat64, int version COMMA int directory COMMA const char *path COMMA struct stat64 *out COMMA int flags, version, directory, path, out, flags)

ON_PATH(TP_ACCESS, access, AT_FDCWD, path, const char *path COMMA int mode, path, mode)
ON_PATH(TP_ACCESS, euidaccess, AT_FDCWD, path, const char *path COMMA int mode, path, mode)
ON_PATH(TP_ACCESS, eaccess, AT_FDCWD, path, const char *path COMMA int mode, path, mode)
ON_PATH(TP_ACCESS, faccessat, directory, path, int directory COMMA const char *path COMMA int mode COMMA int flags, directory, path, mode, flags)
ON_PATH(TP_UNLINK, unlink, AT_FDCWD, path, const char *path, path)
ON_PATH(flags &AT_REMOVEDIR ? TP_RMDIR : TP_UNLINK, unlinkat, directory, path, int directory COMMA const char *path COMMA int flags, directory, path, flags)
ON_PATH(TP_UNLINK, remove, AT_FDCWD, path, const char *path, path)
ON_PATH(TP_RENAME, rename, AT_FDCWD, path, const char *path COMMA const char *to, path, to)
ON_PATH(TP_RENAME, renameat, directory, path, int directory COMMA const char *path COMMA int to_directory COMMA const char *to, directory, path, to_directory, to)
ON_PATH(TP_RENAME, renameat2, directory, path,
        int directory COMMA const char *path COMMA int to_directory COMMA const char *to COMMA unsigned flags, directory, path, to_directory, to, flags)
ON_PATH(TP_MKDIR, mkdir, AT_FDCWD, path, const char *path COMMA mode_t mode, path, mode)
ON_PATH(TP_MKDIR, mkdirat, directory, path, int directory COMMA const char *path COMMA mode_t mode, directory, path, mode)
ON_PATH(TP_RMDIR, rmdir, AT_FDCWD, path, const char *path, path)
/* A link counts at the name that it makes. */
ON_PATH(TP_LINK, link, AT_FDCWD, path, const char *from COMMA const char *path, from, path)
ON_PATH(TP_LINK, linkat, directory, path, int from_directory COMMA const char *from COMMA int directory COMMA const char *path COMMA int flags,
        from_directory, from, directory, path, flags)
ON_PATH(TP_LINK, symlink, AT_FDCWD, path, const char *from COMMA const char *path, from, path)
ON_PATH(TP_LINK, symlinkat, directory, path, const char *from COMMA int directory COMMA const char *path, from, directory, path)
ON_PATH(TP_TRUNCATE, truncate, AT_FDCWD, path, const char *path COMMA off_t length, path, length)
ON_PATH(TP_TRUNCATE, truncate64, AT_FDCWD, path, const char *path COMMA off64_t length, path, length)
