/* tests/lib/posix.h - hides what Linux alone has from the source of weir: `make OS=posix` includes it before every file. A
 * name that is hidden here does not compile outside the files for Linux (kernels/os.h). */
#ifndef WEIR_TEST_POSIX_H
#define WEIR_TEST_POSIX_H

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#undef F_OFD_GETLK
#undef F_OFD_SETLK
#undef MADV_HUGEPAGE
#undef MADV_POPULATE_WRITE
#undef MAP_NORESERVE
#undef MFD_CLOEXEC
#undef MAP_POPULATE
#undef O_PATH
#undef O_TMPFILE
#undef RLIMIT_MSGQUEUE
#undef SYNC_FILE_RANGE_WRITE
#undef SOCK_CLOEXEC
#undef SOCK_NONBLOCK
#undef _CS_GNU_LIBC_VERSION
#undef CPU_COUNT

/* Headers that would declare more of them. */
#define _SYS_EPOLL_H    1
#define _SYS_EVENTFD_H  1
#define _SYS_INOTIFY_H  1
#define _SYS_PRCTL_H    1
#define _SYS_SYSINFO_H  1
#define _SYS_STATFS_H   1
#define _SYS_TIMERFD_H  1
#define _SYS_SIGNALFD_H 1
#define _SYS_AUXV_H     1

#pragma GCC poison accept4 close_range copy_file_range dup3 epoll_create1 eventfd execveat fallocate getauxval getrandom
#pragma GCC poison inotify_init1 memfd_create mremap pipe2 prctl preadv2 pthread_setaffinity_np pthread_setname_np
#pragma GCC poison renameat2 sched_getaffinity sched_getcpu sched_setaffinity sendfile signalfd splice statx
#pragma GCC poison sync_file_range syscall sysinfo timerfd_create unshare
#pragma GCC poison MFD_CLOEXEC SOCK_CLOEXEC SOCK_NONBLOCK

#endif
