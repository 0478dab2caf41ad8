/* Preloaded into a receiver by its tests. Faults of the file system of FAULT_DIRECTORY:

   CRASH_AT: kills the process at its Nth operation there. A write first writes a half of its bytes.
   FAULT_FILE: while this file exists, its first character says what goes wrong there:
     f  full: writes fail, after a half of their bytes, as do new names
     s  stalled: fsync does not return
     e  fsync fails */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static long operations;

static int inside(const char *path) {
    const char *directory = getenv("FAULT_DIRECTORY");
    return directory && strncmp(path, directory, strlen(directory)) == 0;
}

static int inside_of(int file) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    return inside(path);
}

static int is_due(void) {
    const char *at = getenv("CRASH_AT");
    return at && __atomic_add_fetch(&operations, 1, __ATOMIC_SEQ_CST) == atol(at);
}

static void crash(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static char fault(void) {
    const char *name = getenv("FAULT_FILE");
    char found = 0;
    if (!name) return 0;
    int file = open(name, O_RDONLY);
    if (file < 0) return 0;
    if (read(file, &found, 1) != 1) found = 0;
    close(file);
    return found;
}

static int fail(int error) {
    errno = error;
    return -1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void *bytes, size_t size) {
    if (inside_of(file) && is_due()) {
        NEXT(write)(file, bytes, size / 2);
        crash();
    }
    if (inside_of(file) && fault() == 'f') {
        ssize_t written = size > 1 ? NEXT(write)(file, bytes, size / 2) : 0;
        return written > 0 ? written : fail(ENOSPC);
    }
    return NEXT(write)(file, bytes, size);
}

int fsync(int file) {
    if (inside_of(file)) {
        if (is_due()) crash();
        while (fault() == 's') usleep(20000);
        if (fault() == 'e') return fail(EIO);
    }
    return NEXT(fsync)(file);
}

int ftruncate64(int file, off64_t size) {
    if (inside_of(file) && is_due()) crash();
    return NEXT(ftruncate64)(file, size);
}

int linkat(int from, const char *one, int to, const char *other, int flags) {
    if (inside(other)) {
        if (is_due()) crash();
        if (fault() == 'f') return fail(ENOSPC);
    }
    return NEXT(linkat)(from, one, to, other, flags);
}

int link(const char *one, const char *other) {
    if (inside(other)) {
        if (is_due()) crash();
        if (fault() == 'f') return fail(ENOSPC);
    }
    return NEXT(link)(one, other);
}

int rename(const char *one, const char *other) {
    if (inside(other)) {
        if (is_due()) crash();
        if (fault() == 'f') return fail(ENOSPC);
    }
    return NEXT(rename)(one, other);
}

int unlink(const char *path) {
    if (inside(path) && is_due()) crash();
    return NEXT(unlink)(path);
}
