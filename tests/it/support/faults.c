/* Starts a program and intercepts its system calls: every call that changes something below a folder is counted, and
 * a fault is injected at one of them. ptrace catches the calls of every library, thread and child process of the
 * program; seccomp stops the program at these calls only.
 *
 *     faults PROGRAM ARGUMENTS...
 *
 * ends with the program's exit status or signal. Its settings are in the environment:
 *
 * PBG_FAULT_FOLDER   calls that change something below this folder count
 * PBG_FAULT_LOG      file that gets a line per counted call: its number, kind and path
 * PBG_FAULT_AT       number of the call, from 1; 0: no fault
 * PBG_FAULT_KIND     kill:   the process is killed instead of the call, or half-way through a write
 *                    full:   from there on every call that takes room fails with ENOSPC
 *                    broken: the call fails with EIO, half-way through a write
 *                    ctrl-c: SIGINT is sent, and the call continues
 * PBG_FAULT_WITHOUT  features that the file system is to lack, a list of
 *                    exchange: two names cannot be exchanged in one step
 *                    unnamed:  every file has a name
 *                    locks:    there are no locks
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __x86_64__
#error "the registers of this processor are not known here yet"
#endif

#define EXCHANGE 2          /* RENAME_EXCHANGE */
#define UNNAMED 020000000   /* the bit of O_TMPFILE that no other flag has */
#define NONE (-1)
#define THREADS 1024

/* Subject that a call changes: an open file, a name, or a name only with certain flags. */
enum subject { AN_OPEN_FILE, A_NAME, AN_OPENED_NAME };

/* A system call. Positions of arguments count from 0; NONE if there is no such argument. */
static const struct call {
    long number;
    const char *what;
    enum subject subject;
    int room;   /* whether it takes room on the disk */
    int file;   /* the open file, or the folder of the name */
    int name;
    int size;   /* number of bytes, for a call that can be half done */
    int flags;
} CALLS[] = {
    {SYS_write, "write", AN_OPEN_FILE, 1, 0, NONE, 2, NONE},
    {SYS_pwrite64, "write", AN_OPEN_FILE, 1, 0, NONE, 2, NONE},
    {SYS_writev, "write", AN_OPEN_FILE, 1, 0, NONE, 2, NONE},
    {SYS_pwritev, "write", AN_OPEN_FILE, 1, 0, NONE, 2, NONE},
    {SYS_pwritev2, "write", AN_OPEN_FILE, 1, 0, NONE, 2, NONE},
    {SYS_copy_file_range, "write", AN_OPEN_FILE, 1, 2, NONE, 4, NONE},
    {SYS_sendfile, "write", AN_OPEN_FILE, 1, 0, NONE, 3, NONE},
    {SYS_splice, "write", AN_OPEN_FILE, 1, 2, NONE, 4, NONE},
    {SYS_fsync, "sync", AN_OPEN_FILE, 1, 0, NONE, NONE, NONE},
    {SYS_fdatasync, "sync", AN_OPEN_FILE, 1, 0, NONE, NONE, NONE},
    {SYS_ftruncate, "truncate", AN_OPEN_FILE, 0, 0, NONE, NONE, NONE},
    {SYS_truncate, "truncate", A_NAME, 0, NONE, 0, NONE, NONE},
    {SYS_fallocate, "allocate", AN_OPEN_FILE, 1, 0, NONE, NONE, NONE},
    {SYS_rename, "rename", A_NAME, 0, NONE, 1, NONE, NONE},
    {SYS_renameat, "rename", A_NAME, 0, 2, 3, NONE, NONE},
    {SYS_renameat2, "rename", A_NAME, 0, 2, 3, NONE, 4},
    {SYS_link, "link", A_NAME, 1, NONE, 1, NONE, NONE},
    {SYS_linkat, "link", A_NAME, 1, 2, 3, NONE, NONE},
    {SYS_symlink, "link", A_NAME, 1, NONE, 1, NONE, NONE},
    {SYS_symlinkat, "link", A_NAME, 1, 1, 2, NONE, NONE},
    {SYS_unlink, "remove", A_NAME, 0, NONE, 0, NONE, NONE},
    {SYS_unlinkat, "remove", A_NAME, 0, 0, 1, NONE, NONE},
    {SYS_rmdir, "remove", A_NAME, 0, NONE, 0, NONE, NONE},
    {SYS_mkdir, "mkdir", A_NAME, 1, NONE, 0, NONE, NONE},
    {SYS_mkdirat, "mkdir", A_NAME, 1, 0, 1, NONE, NONE},
    {SYS_creat, "create", A_NAME, 1, NONE, 0, NONE, NONE},
    {SYS_open, "create", AN_OPENED_NAME, 1, NONE, 0, NONE, 1},
    {SYS_openat, "create", AN_OPENED_NAME, 1, 0, 1, NONE, 2},
    {SYS_openat2, "create", AN_OPENED_NAME, 1, 0, 1, NONE, NONE},
    {SYS_flock, "lock", AN_OPEN_FILE, 0, 0, NONE, NONE, NONE},
};
#define COUNT (sizeof CALLS / sizeof *CALLS)
#define MAKES (O_CREAT | O_TRUNC | UNNAMED)

enum verdict { PASS, FAIL, HALF };
enum kind { KILL, FULL, BROKEN, CTRL_C };

static const char *folder, *log_name, *without;
static long wanted, count;
static enum kind kind;

/* Threads in a half-done call that will fail. */
static pid_t half_done[THREADS];

static void fail(const char *what) {
    perror(what);
    exit(99);
}

static void read_environment(void) {
    const char *at = getenv("PBG_FAULT_AT"), *name = getenv("PBG_FAULT_KIND");
    folder = getenv("PBG_FAULT_FOLDER");
    log_name = getenv("PBG_FAULT_LOG");
    without = getenv("PBG_FAULT_WITHOUT");
    wanted = at ? atol(at) : 0;
    kind = KILL;
    if (name && !strcmp(name, "full")) kind = FULL;
    if (name && !strcmp(name, "broken")) kind = BROKEN;
    if (name && !strcmp(name, "ctrl-c")) kind = CTRL_C;
}

static int lacks(const char *what) { return without && strstr(without, what); }

/* Child process: requests to be traced, stops until it is, and executes the program. */

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)

static void stop_at_calls(void) {
    struct sock_filter filter[8 + 6 * COUNT];
    unsigned short n = 0;
    struct sock_filter start[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
        RETURN(SECCOMP_RET_ALLOW),
    };
    memcpy(filter, start, sizeof start);
    n += 3;
    for (size_t i = 0; i < COUNT; i++) {
        const struct call *call = &CALLS[i];
        if (call->number == SYS_flock && !lacks("locks")) continue;
        int by_flags = call->subject == AN_OPENED_NAME && call->flags != NONE;
        struct sock_filter one[] = {
            LOAD(nr),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call->number, 0, by_flags ? 4 : 1),
            RETURN(SECCOMP_RET_TRACE),
        };
        struct sock_filter opening[] = {
            LOAD(nr),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call->number, 0, 4),
            LOAD(args[by_flags ? call->flags : 0]),
            BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAKES, 1, 0),
            RETURN(SECCOMP_RET_ALLOW),
            RETURN(SECCOMP_RET_TRACE),
        };
        memcpy(filter + n, by_flags ? opening : one, by_flags ? sizeof opening : sizeof one);
        n += by_flags ? 6 : 3;
    }
    struct sock_filter end[] = {RETURN(SECCOMP_RET_ALLOW)};
    memcpy(filter + n++, end, sizeof end);
    struct sock_fprog program = {n, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail("faults: no new privileges");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) fail("faults: seccomp");
}

static void become(char **command, int traced) {
    char byte;
    if (read(traced, &byte, 1) != 1) exit(99);
    close(traced);
    stop_at_calls();
    execvp(command[0], command);
    fail(command[0]);
}

/* Parent process: inspects the calls. */

/* Reads a string from another process. */
static void read_text(pid_t thread, unsigned long at, char *text, size_t size) {
    size_t length = 0;
    while (length + 1 < size) {
        /* Up to the end of the page: the next page may not be mapped. */
        size_t part = 4096 - ((at + length) & 4095);
        if (part > size - 1 - length) part = size - 1 - length;
        struct iovec here = {text + length, part}, there = {(void *)(at + length), part};
        ssize_t found = process_vm_readv(thread, &here, 1, &there, 1, 0);
        if (found <= 0) break;
        if (memchr(text + length, 0, found)) return;
        length += found;
    }
    text[length] = 0;
}

static void read_link(pid_t thread, const char *format, int file, char *path) {
    char where[128], link[64];
    snprintf(link, sizeof link, format, file);
    snprintf(where, sizeof where, "/proc/%d/%s", thread, link);
    ssize_t length = readlink(where, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
}

/* Returns the absolute path that a call changes. */
static void path_of(pid_t thread, const struct call *call, const unsigned long *arguments, char *path) {
    int file = call->file == NONE ? AT_FDCWD : (int)arguments[call->file];
    if (call->subject == AN_OPEN_FILE) {
        read_link(thread, "fd/%d", file, path);
        return;
    }
    char name[PATH_MAX], start[PATH_MAX];
    read_text(thread, arguments[call->name], name, sizeof name);
    if (name[0] == '/') {
        strcpy(path, name);
        return;
    }
    read_link(thread, file == AT_FDCWD ? "cwd" : "fd/%d", file, start);
    if (snprintf(path, PATH_MAX, "%s/%s", start, name) >= PATH_MAX) path[0] = 0;
}

static void report(const char *what, const char *path) {
    FILE *log = log_name ? fopen(log_name, "a") : NULL;
    if (!log) return;
    fprintf(log, "%ld %s %s\n", count, what, path);
    fclose(log);
}

static unsigned long flags_of(pid_t thread, const struct call *call, const unsigned long *arguments) {
    struct open_how how = {0};
    if (call->number != SYS_openat2) return call->flags == NONE ? 0 : arguments[call->flags];
    struct iovec here = {&how, sizeof how}, there = {(void *)arguments[2], sizeof how};
    return process_vm_readv(thread, &here, 1, &there, 1, 0) > 0 ? how.flags : 0;
}

/* Applies the fault to a call, which fails with `error`. */
static enum verdict decide(pid_t thread, const struct call *call, const unsigned long *arguments, int *error) {
    char path[PATH_MAX];
    unsigned long flags = flags_of(thread, call, arguments);
    if (call->subject == AN_OPENED_NAME && !(flags & MAKES)) return PASS;
    path_of(thread, call, arguments, path);
    if (!folder || strncmp(path, folder, strlen(folder))) return PASS;
    if (call->number == SYS_flock) return *error = EOPNOTSUPP, FAIL;
    if (call->number == SYS_renameat2 && (flags & EXCHANGE) && lacks("exchange")) return *error = EINVAL, FAIL;
    if (call->subject == AN_OPENED_NAME && (flags & UNNAMED) && lacks("unnamed")) return *error = EOPNOTSUPP, FAIL;
    count++;
    report(call->what, path);
    if (wanted > 0 && kind == FULL && count >= wanted && call->room) return *error = ENOSPC, FAIL;
    if (count != wanted || kind == FULL) return PASS;
    if (kind == CTRL_C) {
        kill(thread, SIGINT);
        return PASS;
    }
    *error = EIO;
    return call->size == NONE ? FAIL : HALF;
}

static void at_call(pid_t thread) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, thread, 0, &registers)) return;
    unsigned long arguments[] = {registers.rdi, registers.rsi, registers.rdx,
                                 registers.r10, registers.r8,  registers.r9};
    unsigned long long *const places[] = {&registers.rdi, &registers.rsi, &registers.rdx,
                                          &registers.r10, &registers.r8,  &registers.r9};
    const struct call *call = CALLS;
    while (call < CALLS + COUNT && call->number != (long)registers.orig_rax) call++;
    int error = 0, resume = PTRACE_CONT;
    enum verdict verdict = call < CALLS + COUNT ? decide(thread, call, arguments, &error) : PASS;
    if (verdict == FAIL && kind == KILL && error == EIO) {
        kill(thread, SIGKILL);
    } else if (verdict == FAIL) {
        /* The system skips a call with number -1, and the program receives this result. */
        registers.orig_rax = -1;
        registers.rax = -(long)error;
        ptrace(PTRACE_SETREGS, thread, 0, &registers);
    } else if (verdict == HALF) {
        *places[call->size] = arguments[call->size] / 2;
        ptrace(PTRACE_SETREGS, thread, 0, &registers);
        size_t free = 0;
        while (free < THREADS - 1 && half_done[free]) free++;
        half_done[free] = thread;
        resume = PTRACE_SYSCALL;
    }
    ptrace(resume, thread, 0, 0);
}

/* Handles the return of a half-done call. */
static void behind_call(pid_t thread) {
    for (size_t i = 0; i < THREADS; i++) {
        if (half_done[i] != thread) continue;
        half_done[i] = 0;
        struct user_regs_struct registers;
        if (kind == KILL) {
            kill(thread, SIGKILL);
        } else if (!ptrace(PTRACE_GETREGS, thread, 0, &registers)) {
            registers.rax = -(long)EIO;
            ptrace(PTRACE_SETREGS, thread, 0, &registers);
        }
    }
    ptrace(PTRACE_CONT, thread, 0, 0);
}

static void at_stop(pid_t thread, int status) {
    int signal = WSTOPSIG(status), event = status >> 16;
    if (event == PTRACE_EVENT_SECCOMP) {
        at_call(thread);
    } else if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
        /* The whole process is stopped, and stays stopped. */
        ptrace(PTRACE_LISTEN, thread, 0, 0);
    } else if (event) {
        ptrace(PTRACE_CONT, thread, 0, 0);
    } else if (signal == (SIGTRAP | 0x80)) {
        behind_call(thread);
    } else {
        ptrace(PTRACE_CONT, thread, 0, signal);
    }
}

/* Ends with the exit status or signal of the program. */
static void end_with(int status) {
    if (WIFEXITED(status)) exit(WEXITSTATUS(status));
    signal(WTERMSIG(status), SIG_DFL);
    kill(getpid(), WTERMSIG(status));
    exit(99);
}

int main(int arguments, char **argument) {
    int traced[2], status;
    if (arguments < 2) return 99;
    read_environment();
    if (pipe(traced)) fail("faults: pipe");
    pid_t program = fork();
    if (program < 0) fail("faults: fork");
    if (program == 0) {
        close(traced[1]);
        become(argument + 1, traced[0]);
    }
    close(traced[0]);
    long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                   PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SEIZE, program, 0, options)) fail("faults: ptrace");
    if (write(traced[1], "", 1) != 1) fail("faults: pipe");
    close(traced[1]);
    for (;;) {
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0 && errno != EINTR) fail("faults: wait");
        if (thread > 0 && WIFSTOPPED(status)) at_stop(thread, status);
        else if (thread == program) end_with(status);
    }
}
