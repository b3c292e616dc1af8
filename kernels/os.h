/* kernels/os.h - what weir asks of the system beyond POSIX. os_linux.c has it for Linux, os_posix.c for any other
 * system, by plain POSIX where that can do it and otherwise without the effect. Beside this header only the jail
 * (sessions/import/jail.c) and AMX (kernels/cpu/amx_permit.c) call Linux.
 *
 * `make OS=posix` builds the other side on Linux and hides what is Linux's alone (tests/lib/posix.h). No other system
 * has been tried. Also expected are memrchr(), strchrnul(), posix_fadvise(), posix_fallocate(), st_mtim, and qsort_r()
 * with the arguments of POSIX 2024, some of which macOS and older FreeBSD lack. */
#ifndef WEIR_OS_H
#define WEIR_OS_H

#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

/* Locks of an open file, which POSIX 2024 has. Older locks belong to the process: one that has a database open twice
 * does not lock itself out. */
#ifndef F_OFD_SETLK
#define F_OFD_SETLK F_SETLK
#define F_OFD_GETLK F_GETLK
#endif
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

/* ---- processors and memory ---- */

/* Return the number of processors that the process may use. */
int os_cpus(void);
/* Return the number of the processor that runs the calling thread, or -1 if it is unknown. */
int os_cpu(void);
/* Restrict the calling thread to the processors of the process other than `cpu`. Return 0 if nothing is to be done: the
 * thread runs on another one, or there is none. A refusal by the system does no harm. */
int os_cpu_leave(int cpu);
/* Name the calling thread; at most 15 bytes. */
void os_thread_name(const char *name);
/* 1 if this ARM processor multiplies and adds bytes (ASIMDDP). */
int os_arm_dot(void);
/* Ask for huge pages. p and n are multiples of their size. */
void os_huge_pages(void *p, size_t n);
/* Allocate the pages of p[0 .. n - 1] now. Return 0, or -1 with errno: ENOMEM and EFAULT if memory is short, another one
 * if the system cannot do it. */
int os_populate(void *p, size_t n);
/* Return the bytes of memory that are free, or a larger number where only the size of memory is known. */
uint64_t os_memory_free(void);

/* ---- the program and its process ---- */

/* Return a path by which the running program can be executed again, or NULL. The string is static. */
const char *os_self(void);
/* Write the path of the folder that contains the running program; "" = the path is unknown. */
void os_folder(char dir[PATH_MAX]);
/* No other process of the user may read this one's memory, and no handler gets its core. */
void os_undumpable(void);

/* ---- descriptors ---- */

/* pipe() and socket() whose descriptors executed programs do not inherit. `flags` is 0 or O_NONBLOCK. */
int os_pipe(int fd[2], int flags);
int os_socket(int family, int type, int protocol);
/* Close all descriptors from `fd` on. Return 0, or -1 if the system cannot. */
int os_close_from(int fd);
/* Return a file without a path, in memory if possible, or -1 with errno. `name` is for the system's lists. */
int os_memory_file(const char *name);
/* 1 if the files of a folder are in memory and never on a disk. */
int os_in_memory(const char *dir);
/* 1 if an open file is no stored one: the kernel makes its bytes (/proc, /sys). */
int os_of_kernel(int fd);

#endif
