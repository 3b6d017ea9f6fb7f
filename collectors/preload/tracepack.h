/* C interface of the crate tracepack (compression/src/ffi.rs). */
#ifndef TRACEPACK_H
#define TRACEPACK_H
#include <stddef.h>
#include <stdint.h>

enum tp_op {
    TP_READ = 1, TP_WRITE, TP_OPEN, TP_CLOSE, TP_STAT, TP_ACCESS, TP_UNLINK, TP_RENAME, TP_MKDIR, TP_RMDIR,
    TP_READDIR, TP_LINK, TP_TRUNCATE, TP_SYNC, TP_MMAP, TP_UNSEEN
};
enum { TP_STDIO = 2, TP_PARTLY_SEEN = 4, TP_OFFSET_UNSURE = 8, TP_DIRECTORY = 32 };
/* Why a program's calls cannot be seen: the `handle` of a TP_UNSEEN. */
enum { TP_STATIC = 128, TP_IO_URING = 256, TP_PRIVILEGED = 512, TP_FOREIGN = 1024 };
enum { TP_RECORDED = 0, TP_FULL = 1 };
enum { TP_CLOCK_MONOTONIC = 0, TP_CLOCK_TSC = 1 };

struct tp_operation {
    uint64_t file, offset, size, start, end;
    int32_t handle;
    uint16_t error;
    uint8_t op, flags;
};
struct tp_identity {
    uint32_t clock, pid, parent_pid, uid;
    int32_t rank;
    uint64_t pid_start_ticks, anchor_ticks, anchor_monotonic_ns, pid_namespace;
    const char *job;
    size_t job_length;
    const char *program;
    size_t program_length;
};
/* What the first pass compares durations with, in ticks: a run's longest, 0 until they are set, and the bounds of the latency histogram. */
struct tp_limits {
    _Alignas(64) _Atomic uint64_t window;
    _Atomic uint64_t latency_bounds[7];
};
struct tp_header;

#pragma GCC visibility push(hidden)
extern const size_t TP_NAMES_AT, TP_NAMES_CAPACITY, TP_NAMES_STEP, TP_SEGMENTS_AT, TP_SEGMENT_SIZE;
extern const uint32_t TP_SEGMENTS_MAX, TP_SEGMENTS_SPARE;

void tp_limits_set(struct tp_limits *, uint64_t ticks_per_s, uint64_t window_ns);
void tp_header_init(struct tp_header *, const struct tp_identity *, const struct tp_limits *, uint64_t names_ready);
uint64_t tp_file_id(const char *path, size_t length);
uint32_t tp_segments(const struct tp_header *);
int tp_segment_publish(const struct tp_header *, uint32_t index);
int tp_segment_take(void *segment);
void tp_segment_release(void *segment);
uint32_t tp_record(void *segment, const struct tp_operation *, const struct tp_limits *);
void tp_record_folding(void *segment, const struct tp_operation *, const struct tp_limits *);
void tp_lost_operations(const struct tp_header *, uint64_t count);
const char *tp_name_add(const struct tp_header *, void *names, uint64_t ready, uint64_t file, const char *path, size_t length, uint64_t *need);
void tp_names_grown(const struct tp_header *, uint64_t ready);
void tp_lost_name(const struct tp_header *);
#pragma GCC visibility pop
#endif
