/* A program whose I/O is known to the byte: N processes write and read M files in one of the four modes (N-N, N-1, N-M, 1-1).
 *
 * It prints one line of JSON: what each process did, and the bandwidth by its own clock, from the first call's start to the last
 * call's end over all processes. Build: cc -O2 -o build/patterns bellrock/demo/patterns.c -lpthread
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum mode { NN, N1, NM, ONE };
enum { WRITE, READ, DIRECTIONS };
enum { PROCESSES_MAX = 4096, THREADS_MAX = 256 };

static const char *const mode_names[] = {"nn", "n1", "nm", "11"};
static enum mode mode = NN;
static int processes = 4, files = 2, threads = 1;
static bool wanted[DIRECTIONS] = {true, false}, stdio;
static uint64_t bytes_per_process = 16 << 20, request = 1 << 20, rate;
static const char *dir;

struct result {
    int64_t pid;
    uint64_t operations[DIRECTIONS], bytes[DIRECTIONS], metadata_operations;
    int64_t first_ns[DIRECTIONS], last_ns[DIRECTIONS];
};
/* Shared by all processes. */
struct shared {
    pthread_barrier_t barrier;
    struct result results[];
};
static struct shared *shared;

/* One thread's part of one direction. */
struct part {
    int rank, direction, fd;
    FILE *stream;
    uint64_t from, to; /* requests of this process */
    struct result result;
};

static void fail(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("patterns: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    _exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int files_used(void) { return mode == NN ? processes : mode == NM ? files : 1; }
static bool does_io(int rank) { return mode != ONE || rank == 0; }

static void name_of(int rank, char *path, size_t room)
{
    int file = mode == NN ? rank : mode == NM ? rank % files : 0;
    snprintf(path, room, "%s/%s.%04d", dir, mode_names[mode], file);
}

/* Where request `i` of a process lies in its file. N-1 interleaves the processes, request by request; in N-M each has a block. */
static uint64_t offset_of(int rank, uint64_t i)
{
    if (mode == N1)
        return (i * processes + rank) * request;
    if (mode == NM)
        return rank / files * bytes_per_process + i * request;
    return i * request;
}

/* Whether a process goes through its file from the start: then read and write do, without offsets. */
static bool is_sequential(void) { return (mode == NN || mode == ONE) && threads == 1; }

static void *work(void *argument)
{
    struct part *p = argument;
    struct result *r = &p->result;
    int d = p->direction;
    char *buffer = malloc(request);
    if (!buffer)
        fail("no memory for a request of %" PRIu64 " bytes", request);
    memset(buffer, 'a' + p->rank % 26, request);
    int64_t begin = now_ns();
    for (uint64_t i = p->from; i < p->to; i++) {
        if (rate) {
            int64_t due = begin + (int64_t)((double)(i - p->from) * request * threads / rate * 1e9);
            struct timespec t = {due / 1000000000, due % 1000000000};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        }
        int64_t start = now_ns();
        ssize_t n;
        if (p->stream)
            n = (ssize_t)(d == WRITE ? fwrite(buffer, 1, request, p->stream) : fread(buffer, 1, request, p->stream));
        else if (is_sequential())
            n = d == WRITE ? write(p->fd, buffer, request) : read(p->fd, buffer, request);
        else
            n = d == WRITE ? pwrite(p->fd, buffer, request, (off_t)offset_of(p->rank, i)) : pread(p->fd, buffer, request, (off_t)offset_of(p->rank, i));
        int64_t end = now_ns();
        if (n != (ssize_t)request)
            fail("process %d: %s %" PRIu64 " of %" PRIu64 " bytes gave %zd: %s", p->rank, d == WRITE ? "write" : "read", i, request, n,
                 n < 0 ? strerror(errno) : "short");
        r->operations[d]++;
        r->bytes[d] += n;
        if (!r->first_ns[d])
            r->first_ns[d] = start;
        r->last_ns[d] = end;
    }
    free(buffer);
    return NULL;
}

static void run_direction(int rank, int d, struct result *r)
{
    char path[4200];
    name_of(rank, path, sizeof path);
    struct part parts[THREADS_MAX] = {0};
    int fd = -1;
    FILE *stream = NULL;
    if (stdio)
        stream = fopen(path, d == WRITE ? "w" : "r");
    else
        fd = d == WRITE ? open(path, O_WRONLY | O_CREAT, 0644) : open(path, O_RDONLY);
    if (fd < 0 && !stream)
        fail("%s: %s", path, strerror(errno));
    uint64_t requests = bytes_per_process / request;
    pthread_t ids[THREADS_MAX];
    for (int t = 0; t < threads; t++) {
        parts[t] = (struct part){.rank = rank, .direction = d, .fd = fd, .stream = stream, .from = requests * t / threads, .to = requests * (t + 1) / threads};
        if (threads == 1)
            work(&parts[t]);
        else if ((errno = pthread_create(&ids[t], NULL, work, &parts[t])))
            fail("no thread %d: %s", t, strerror(errno));
    }
    for (int t = 0; t < threads; t++) {
        if (threads > 1)
            pthread_join(ids[t], NULL);
        const struct result *p = &parts[t].result;
        r->operations[d] += p->operations[d];
        r->bytes[d] += p->bytes[d];
        if (p->first_ns[d] && (!r->first_ns[d] || p->first_ns[d] < r->first_ns[d]))
            r->first_ns[d] = p->first_ns[d];
        if (p->last_ns[d] > r->last_ns[d])
            r->last_ns[d] = p->last_ns[d];
    }
    if (stream ? fclose(stream) : close(fd))
        fail("%s: closing: %s", path, strerror(errno));
    r->metadata_operations += 2; /* open, close */
}

static void process_main(int rank)
{
    struct result *r = &shared->results[rank];
    r->pid = getpid();
    pthread_barrier_wait(&shared->barrier);
    for (int d = 0; d < DIRECTIONS; d++) {
        if (!wanted[d])
            continue;
        if (does_io(rank))
            run_direction(rank, d, r);
        pthread_barrier_wait(&shared->barrier);
    }
    if (!does_io(rank)) {
        /* So that it belongs to the program's processes: it only looks at what the first one wrote. */
        char path[4200];
        struct stat found;
        name_of(rank, path, sizeof path);
        if (stat(path, &found))
            fail("%s: %s", path, strerror(errno));
        r->metadata_operations++;
    }
    _exit(0);
}

static void print_direction(const char *name, int d)
{
    uint64_t bytes = 0, operations = 0;
    int64_t first = 0, last = 0;
    for (int i = 0; i < processes; i++) {
        const struct result *r = &shared->results[i];
        bytes += r->bytes[d];
        operations += r->operations[d];
        if (r->first_ns[d] && (!first || r->first_ns[d] < first))
            first = r->first_ns[d];
        if (r->last_ns[d] > last)
            last = r->last_ns[d];
    }
    double seconds = (last - first) / 1e9;
    printf(", \"%s_bytes\": %" PRIu64 ", \"%s_ops\": %" PRIu64 ", \"%s_s\": %.9f, \"bandwidth_%s\": %.1f", name, bytes, name, operations, name, seconds,
           name, seconds > 0 ? bytes / seconds : 0.0);
}

static void print_truth(void)
{
    uint64_t metadata = 0;
    int io_processes = 0;
    for (int i = 0; i < processes; i++) {
        metadata += shared->results[i].metadata_operations;
        io_processes += does_io(i);
    }
    printf("{\"mode\": \"%s\", \"processes\": %d, \"io_processes\": %d, \"files\": %d, \"request_bytes\": %" PRIu64 ", \"metadata_ops\": %" PRIu64,
           mode_names[mode], processes, io_processes, files_used(), request, metadata);
    print_direction("write", WRITE);
    print_direction("read", READ);
    printf(", \"per_process\": [");
    for (int i = 0; i < processes; i++) {
        const struct result *r = &shared->results[i];
        printf("%s{\"rank\": %d, \"pid\": %" PRId64 ", \"write_ops\": %" PRIu64 ", \"write_bytes\": %" PRIu64 ", \"read_ops\": %" PRIu64
               ", \"read_bytes\": %" PRIu64 ", \"metadata_ops\": %" PRIu64 "}",
               i ? ", " : "", i, r->pid, r->operations[WRITE], r->bytes[WRITE], r->operations[READ], r->bytes[READ], r->metadata_operations);
    }
    printf("]}\n");
}

static uint64_t number(const char *name, const char *text, uint64_t least, uint64_t most)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || value < least || value > most) {
        fprintf(stderr, "patterns: --%s %s: expected a number from %" PRIu64 " to %" PRIu64 "\n", name, text, least, most);
        exit(2);
    }
    return value;
}

static void usage(const char *what)
{
    fprintf(stderr,
            "%s%susage: patterns --dir D [--mode nn|n1|nm|11] [--processes N] [--files M] [--op write|read|both]\n"
            "                [--bytes-per-process B] [--request R] [--rate BYTES_A_SECOND_PER_PROCESS] [--stdio] [--threads T]\n"
            "B must be a multiple of R. --op read reads what a run with --op write left. --stdio goes with nn and 11, one thread.\n",
            what, *what ? "\n" : "");
    exit(2);
}

static void parse(int count, char **words)
{
    static const struct option options[] = {
        {"mode", 1, 0, 'm'}, {"processes", 1, 0, 'p'}, {"files", 1, 0, 'f'}, {"op", 1, 0, 'o'},      {"bytes-per-process", 1, 0, 'b'}, {"request", 1, 0, 'r'},
        {"dir", 1, 0, 'd'},  {"rate", 1, 0, 'R'},      {"stdio", 0, 0, 's'}, {"threads", 1, 0, 't'}, {"help", 0, 0, 'h'},              {0}};
    for (int c; (c = getopt_long(count, words, "", options, NULL)) != -1;) {
        switch (c) {
        case 'm':
            for (mode = NN; mode <= ONE && strcmp(optarg, mode_names[mode]); mode++)
                ;
            if (mode > ONE)
                usage("--mode is one of nn, n1, nm, 11");
            break;
        case 'p': processes = (int)number("processes", optarg, 1, PROCESSES_MAX); break;
        case 'f': files = (int)number("files", optarg, 1, PROCESSES_MAX); break;
        case 't': threads = (int)number("threads", optarg, 1, THREADS_MAX); break;
        case 'b': bytes_per_process = number("bytes-per-process", optarg, 1, UINT64_C(1) << 50); break;
        case 'r': request = number("request", optarg, 1, UINT64_C(1) << 30); break;
        case 'R': rate = number("rate", optarg, 1, UINT64_C(1) << 50); break;
        case 'd': dir = optarg; break;
        case 's': stdio = true; break;
        case 'o':
            wanted[WRITE] = !strcmp(optarg, "write") || !strcmp(optarg, "both");
            wanted[READ] = !strcmp(optarg, "read") || !strcmp(optarg, "both");
            if (!wanted[WRITE] && !wanted[READ])
                usage("--op is one of write, read, both");
            break;
        default: usage("");
        }
    }
    if (!dir || optind != count)
        usage(dir ? "no arguments are expected" : "--dir is missing");
    if (strlen(dir) > 4000)
        usage("--dir is too long");
    if (bytes_per_process % request)
        usage("--bytes-per-process must be a multiple of --request");
    if (stdio && (threads > 1 || mode == N1 || mode == NM))
        usage("--stdio goes with --mode nn or 11 and one thread");
}

/* A process that failed leaves the others at the barrier. */
static void end_all(const pid_t *pids, int count)
{
    for (int i = 0; i < count; i++)
        kill(pids[i], SIGTERM);
}

int main(int count, char **words)
{
    parse(count, words);
    shared = mmap(NULL, sizeof *shared + processes * sizeof(struct result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        fail("no shared memory: %s", strerror(errno));
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attributes, (unsigned)processes);
    pid_t parent = getpid(), pids[PROCESSES_MAX];
    for (int i = 0; i < processes; i++) {
        pids[i] = fork();
        if (pids[i] < 0) {
            int error = errno;
            end_all(pids, i);
            fail("no process %d: %s", i, strerror(error));
        }
        if (pids[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            if (getppid() != parent)
                _exit(1);
            process_main(i);
        }
    }
    for (int i = 0; i < processes; i++) {
        int status;
        if (wait(&status) < 0 || status != 0) {
            end_all(pids, processes);
            fprintf(stderr, "patterns: a process failed (status %d)\n", status);
            return 1;
        }
    }
    print_truth();
    return fflush(stdout) ? 1 : 0;
}
