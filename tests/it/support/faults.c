/* A layer between a program and the file system, loaded with LD_PRELOAD: every operation below a
 * folder that changes a file is counted, and one of them is where the fault comes.
 *
 * PBG_FAULT_FOLDER  operations below this folder count
 * PBG_FAULT_LOG     file that gets a line per operation: its number, what it is, its path
 * PBG_FAULT_AT      number of the operation, from 1; 0: no fault
 * PBG_FAULT_KIND    kill:   the process is killed instead of the operation, or half-way through a write
 *                   full:   from there on whatever takes room fails with ENOSPC
 *                   broken: the operation fails with EIO, half-way through a write
 *                   ctrl-c: SIGINT comes, the operation goes on
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum verdict { PASS, FAIL, HALF };
enum kind { KILL, FULL, BROKEN, CTRL_C };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long count;

static long wanted(void) {
    const char *at = getenv("PBG_FAULT_AT");
    return at ? atol(at) : 0;
}

static enum kind kind(void) {
    const char *name = getenv("PBG_FAULT_KIND");
    if (name && !strcmp(name, "full")) return FULL;
    if (name && !strcmp(name, "broken")) return BROKEN;
    return name && !strcmp(name, "ctrl-c") ? CTRL_C : KILL;
}

static int below(const char *path) {
    const char *folder = getenv("PBG_FAULT_FOLDER");
    return folder && path && !strncmp(path, folder, strlen(folder));
}

static void report(long number, const char *what, const char *path) {
    const char *name = getenv("PBG_FAULT_LOG");
    char line[PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "%ld %s %s\n", number, what, path);
    /* By system calls: these are no operations of the program. */
    long file = name ? syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
    if (file >= 0) {
        syscall(SYS_write, file, line, length);
        syscall(SYS_close, file);
    }
}

/* What becomes of an operation; `room`: whether it takes room on the disk. */
static enum verdict decide(const char *what, const char *path, int room) {
    if (!below(path)) return PASS;
    pthread_mutex_lock(&lock);
    long number = ++count;
    report(number, what, path);
    enum verdict verdict = PASS;
    long at = wanted();
    if (at > 0 && kind() == FULL && number >= at && room) {
        errno = ENOSPC;
        verdict = FAIL;
    } else if (number == at && kind() == CTRL_C) {
        raise(SIGINT);
    } else if (number == at && kind() != FULL) {
        verdict = !strcmp(what, "write") ? HALF : FAIL;
        if (verdict == FAIL && kind() == KILL) raise(SIGKILL);
        errno = EIO;
    }
    pthread_mutex_unlock(&lock);
    return verdict;
}

/* The absolute path of an open file, or of a name in a folder. */
static const char *path_of(int file, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
    return path;
}

static const char *absolute(int folder, const char *name, char *path) {
    if (name[0] == '/') return name;
    char start[PATH_MAX];
    int length;
    if (folder == AT_FDCWD) {
        if (!getcwd(start, sizeof start)) start[0] = 0;
    } else {
        path_of(folder, start);
    }
    length = snprintf(path, PATH_MAX, "%s/%s", start, name);
    return length < PATH_MAX ? path : name;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Writes half of what was asked for, then fails or kills. */
#define WRITES(name, parameters, whole, half)                          \
    ssize_t name parameters {                                          \
        char path[PATH_MAX];                                           \
        switch (decide("write", path_of(file, path), 1)) {             \
        case PASS: return NEXT(name) whole;                            \
        case FAIL: return -1;                                          \
        case HALF: half;                                               \
        }                                                              \
        if (kind() == KILL) raise(SIGKILL);                            \
        errno = EIO;                                                   \
        return -1;                                                     \
    }

WRITES(write, (int file, const void *bytes, size_t size), (file, bytes, size),
       NEXT(write)(file, bytes, size / 2))
WRITES(pwrite64, (int file, const void *bytes, size_t size, off64_t at), (file, bytes, size, at),
       NEXT(pwrite64)(file, bytes, size / 2, at))
WRITES(writev, (int file, const struct iovec *parts, int number), (file, parts, number),
       NEXT(writev)(file, parts, number / 2))
WRITES(copy_file_range, (int from, off64_t *in, int file, off64_t *out, size_t size, unsigned flags),
       (from, in, file, out, size, flags), NEXT(copy_file_range)(from, in, file, out, size / 2, flags))

#define ON_FILE(name, what, room, parameters, arguments)               \
    int name parameters {                                              \
        char path[PATH_MAX];                                           \
        if (decide(what, path_of(file, path), room)) return -1;        \
        return NEXT(name) arguments;                                   \
    }

ON_FILE(fsync, "sync", 1, (int file), (file))
ON_FILE(fdatasync, "sync", 1, (int file), (file))
ON_FILE(ftruncate64, "truncate", 0, (int file, off64_t size), (file, size))
ON_FILE(fallocate64, "allocate", 1, (int file, int mode, off64_t at, off64_t size), (file, mode, at, size))

#define ON_NAME(name, what, room, parameters, folder, subject, arguments)   \
    int name parameters {                                                   \
        char path[PATH_MAX];                                                \
        if (decide(what, absolute(folder, subject, path), room)) return -1; \
        return NEXT(name) arguments;                                        \
    }

ON_NAME(rename, "rename", 0, (const char *from, const char *to), AT_FDCWD, to, (from, to))
ON_NAME(renameat, "rename", 0, (int a, const char *from, int b, const char *to), b, to, (a, from, b, to))
ON_NAME(link, "link", 1, (const char *from, const char *to), AT_FDCWD, to, (from, to))
ON_NAME(linkat, "link", 1, (int a, const char *from, int b, const char *to, int flags), b, to,
        (a, from, b, to, flags))
ON_NAME(unlink, "remove", 0, (const char *name), AT_FDCWD, name, (name))
ON_NAME(unlinkat, "remove", 0, (int folder, const char *name, int flags), folder, name,
        (folder, name, flags))
ON_NAME(rmdir, "remove", 0, (const char *name), AT_FDCWD, name, (name))
ON_NAME(mkdir, "mkdir", 1, (const char *name, mode_t mode), AT_FDCWD, name, (name, mode))

#define OPENS(name, parameters, folder, arguments)                             \
    int name parameters {                                                     \
        mode_t mode = 0;                                                      \
        if (flags & (O_CREAT | O_TMPFILE)) {                                  \
            va_list rest;                                                     \
            va_start(rest, flags);                                            \
            mode = va_arg(rest, mode_t);                                      \
            va_end(rest);                                                     \
        }                                                                     \
        char path[PATH_MAX];                                                  \
        int makes = flags & (O_CREAT | O_TRUNC);                              \
        if (makes && decide("create", absolute(folder, path_, path), 1)) return -1; \
        return NEXT(name) arguments;                                          \
    }

OPENS(open, (const char *path_, int flags, ...), AT_FDCWD, (path_, flags, mode))
OPENS(open64, (const char *path_, int flags, ...), AT_FDCWD, (path_, flags, mode))
OPENS(openat, (int at, const char *path_, int flags, ...), at, (at, path_, flags, mode))
OPENS(openat64, (int at, const char *path_, int flags, ...), at, (at, path_, flags, mode))
