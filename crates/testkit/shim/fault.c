/*
 * Makes file calls of one program fail, fall short or take their time. Loaded by LD_PRELOAD.
 *
 * ONRECORD_SHIM holds rules, separated by ';':
 *
 *     CALL:EFFECT[:KEY=VALUE[,KEY=VALUE ...]]
 *
 *   CALL    write open mkdir fsync ftruncate flock chmod rename
 *           (each with its relatives: writev and pwrite, fdatasync, fchmod, openat, ...)
 *   EFFECT  a name of an errno | short=BYTES (write only) | slow=MILLISECONDS
 *   after   calls that go through first (0)
 *   times   calls that are met then (all)
 *   bytes   write only: bytes that go through in all before the effect, the last ones cut off
 *   in      text that the path holds ("/chats"); that of a descriptor is looked up
 *
 * The first rule that fits a call decides. Calls are counted for each rule and process. A word that
 * is not understood ends the program with 125: a fault that does not happen must not look like one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum call { WRITE, OPEN, MKDIR, FSYNC, FTRUNCATE, FLOCK, CHMOD, RENAME, N_CALLS };
static const char *const call_names[N_CALLS] = {"write",     "open",  "mkdir", "fsync",
                                                "ftruncate", "flock", "chmod", "rename"};

static const struct {
    const char *name;
    int value;
} errnos[] = {
    {"EACCES", EACCES}, {"EAGAIN", EAGAIN},   {"EBADF", EBADF},     {"EDQUOT", EDQUOT},
    {"EEXIST", EEXIST}, {"EFBIG", EFBIG},     {"EINTR", EINTR},     {"EIO", EIO},
    {"EISDIR", EISDIR}, {"EMFILE", EMFILE},   {"ENFILE", ENFILE},   {"ENOENT", ENOENT},
    {"ENOLCK", ENOLCK}, {"ENOMEM", ENOMEM},   {"ENOSPC", ENOSPC},   {"ENOSYS", ENOSYS},
    {"ENXIO", ENXIO},   {"ENOTDIR", ENOTDIR}, {"EOPNOTSUPP", EOPNOTSUPP}, {"EPERM", EPERM},
    {"EROFS", EROFS},   {"ESTALE", ESTALE},   {"ETIMEDOUT", ETIMEDOUT},
};

enum effect { FAIL, SHORT, SLOW };

struct rule {
    enum call call;
    enum effect effect;
    long value; /* errno, bytes or milliseconds */
    long after;
    long times; /* negative: all */
    long bytes; /* negative: not counted */
    char in[128];
    atomic_long n_calls;
    atomic_long n_bytes;
};

#define N_RULES_MAX 16
static struct rule rules[N_RULES_MAX];
static int n_rules;

static void refuse(const char *what, const char *word) {
    fprintf(stderr, "ONRECORD_SHIM: %s: %s\n", what, word);
    _exit(125);
}

static long number(const char *word) {
    char *end;
    errno = 0;
    long value = strtol(word, &end, 10);
    if (errno != 0 || end == word || *end != '\0' || value < 0) refuse("not a number", word);
    return value;
}

static void set_effect(struct rule *rule, const char *word) {
    if (strncmp(word, "short=", 6) == 0 && rule->call == WRITE) {
        rule->effect = SHORT;
        rule->value = number(word + 6);
        return;
    }
    if (strncmp(word, "slow=", 5) == 0) {
        rule->effect = SLOW;
        rule->value = number(word + 5);
        return;
    }
    for (size_t i = 0; i < sizeof errnos / sizeof errnos[0]; i++) {
        if (strcmp(word, errnos[i].name) == 0) {
            rule->effect = FAIL;
            rule->value = errnos[i].value;
            return;
        }
    }
    refuse("unknown effect", word);
}

static void set_key(struct rule *rule, char *pair) {
    char *value = strchr(pair, '=');
    if (value == NULL) refuse("no value", pair);
    *value++ = '\0';
    if (strcmp(pair, "after") == 0) {
        rule->after = number(value);
    } else if (strcmp(pair, "times") == 0) {
        rule->times = number(value);
    } else if (strcmp(pair, "bytes") == 0 && rule->call == WRITE) {
        rule->bytes = number(value);
    } else if (strcmp(pair, "in") == 0 && strlen(value) < sizeof rule->in) {
        strcpy(rule->in, value);
    } else {
        refuse("unknown key", pair);
    }
}

static void add_rule(char *text) {
    if (n_rules == N_RULES_MAX) refuse("too many rules", text);
    struct rule *rule = &rules[n_rules];
    rule->times = -1;
    rule->bytes = -1;
    strcpy(rule->in, "/chats");
    char *rest = NULL;
    const char *call = strtok_r(text, ":", &rest);
    while (rule->call < N_CALLS && strcmp(call, call_names[rule->call]) != 0) rule->call++;
    if (rule->call == N_CALLS) refuse("unknown call", call);
    const char *effect = strtok_r(NULL, ":", &rest);
    if (effect == NULL) refuse("no effect", call);
    set_effect(rule, effect);
    char *keys = NULL;
    for (char *pair = strtok_r(rest, ",", &keys); pair != NULL; pair = strtok_r(NULL, ",", &keys))
        set_key(rule, pair);
    n_rules++;
}

__attribute__((constructor)) static void read_rules(void) {
    const char *from = getenv("ONRECORD_SHIM");
    if (from == NULL) return;
    char *text = strdup(from);
    char *rest = NULL;
    for (char *rule = strtok_r(text, ";", &rest); rule != NULL; rule = strtok_r(NULL, ";", &rest))
        add_rule(rule);
    free(text);
}

/* The libc's own function of that name. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void nap(long ms) {
    struct timespec left = {ms / 1000, (ms % 1000) * 1000000L};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* The rule that meets this call, counted; NULL where the call goes through. */
static struct rule *met(enum call call, const char *path) {
    for (int i = 0; i < n_rules; i++) {
        struct rule *rule = &rules[i];
        if (rule->call != call || strstr(path, rule->in) == NULL) continue;
        long n = atomic_fetch_add(&rule->n_calls, 1);
        bool now = n >= rule->after && (rule->times < 0 || n < rule->after + rule->times);
        return now ? rule : NULL;
    }
    return NULL;
}

static struct rule *met_fd(enum call call, int fd) {
    if (n_rules == 0) return NULL;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int kept = errno;
    ssize_t n = readlink(link, path, sizeof path - 1);
    errno = kept;
    if (n < 0) return NULL;
    path[n] = '\0';
    return met(call, path);
}

/* Whether the call is refused; a slow one is only held up. */
static bool refused(struct rule *rule) {
    if (rule == NULL || rule->effect == SHORT) return false;
    if (rule->effect == SLOW) {
        nap(rule->value);
        return false;
    }
    errno = (int)rule->value;
    return true;
}

/* How many of `size` bytes may be written; negative where the call is refused. */
static ssize_t allowed(int fd, size_t size) {
    struct rule *rule = met_fd(WRITE, fd);
    if (rule == NULL) return (ssize_t)size;
    if (rule->bytes >= 0) {
        long before = atomic_fetch_add(&rule->n_bytes, (long)size);
        if (before + (long)size <= rule->bytes) return (ssize_t)size;
        if (before < rule->bytes) return rule->bytes - before;
    }
    if (refused(rule)) return -1;
    if (rule->effect == SHORT && (size_t)rule->value < size) return rule->value;
    return (ssize_t)size;
}

ssize_t write(int fd, const void *bytes, size_t size) {
    ssize_t n = allowed(fd, size);
    return n < 0 ? -1 : REAL(write)(fd, bytes, (size_t)n);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) {
    ssize_t n = allowed(fd, size);
    return n < 0 ? -1 : REAL(pwrite64)(fd, bytes, (size_t)n, at);
}

/* A cut list of parts becomes its first part, or the head of it. */
ssize_t writev(int fd, const struct iovec *parts, int n_parts) {
    size_t size = 0;
    for (int i = 0; i < n_parts; i++) size += parts[i].iov_len;
    ssize_t n = allowed(fd, size);
    if (n < 0) return -1;
    if ((size_t)n == size) return REAL(writev)(fd, parts, n_parts);
    size_t head = parts[0].iov_len < (size_t)n ? parts[0].iov_len : (size_t)n;
    return REAL(write)(fd, parts[0].iov_base, head);
}

int fsync(int fd) { return refused(met_fd(FSYNC, fd)) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return refused(met_fd(FSYNC, fd)) ? -1 : REAL(fdatasync)(fd); }
int flock(int fd, int how) { return refused(met_fd(FLOCK, fd)) ? -1 : REAL(flock)(fd, how); }
int fchmod(int fd, mode_t mode) { return refused(met_fd(CHMOD, fd)) ? -1 : REAL(fchmod)(fd, mode); }

int ftruncate64(int fd, off64_t size) {
    return refused(met_fd(FTRUNCATE, fd)) ? -1 : REAL(ftruncate64)(fd, size);
}

int chmod(const char *path, mode_t mode) {
    return refused(met(CHMOD, path)) ? -1 : REAL(chmod)(path, mode);
}

int mkdir(const char *path, mode_t mode) {
    return refused(met(MKDIR, path)) ? -1 : REAL(mkdir)(path, mode);
}

int rename(const char *from, const char *to) {
    return refused(met(RENAME, to)) ? -1 : REAL(rename)(from, to);
}

/* The mode is there only where the call may create something. */
#define MODE(flags)                                    \
    mode_t mode = 0;                                   \
    if ((flags) & (O_CREAT | O_TMPFILE)) {             \
        va_list rest;                                  \
        va_start(rest, flags);                         \
        mode = va_arg(rest, mode_t);                   \
        va_end(rest);                                  \
    }

int open(const char *path, int flags, ...) {
    MODE(flags)
    return refused(met(OPEN, path)) ? -1 : REAL(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE(flags)
    return refused(met(OPEN, path)) ? -1 : REAL(open64)(path, flags, mode);
}

int openat(int at, const char *path, int flags, ...) {
    MODE(flags)
    return refused(met(OPEN, path)) ? -1 : REAL(openat)(at, path, flags, mode);
}

int openat64(int at, const char *path, int flags, ...) {
    MODE(flags)
    return refused(met(OPEN, path)) ? -1 : REAL(openat64)(at, path, flags, mode);
}
