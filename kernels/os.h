/* kernels/os.h - functions of the operating system that weir uses beyond POSIX. os_linux.c implements them for Linux.
 * os_posix.c implements them for any other system: with plain POSIX where possible, otherwise as functions without
 * effect. Besides these files, only the jail (sessions/import/jail.c) and AMX (kernels/cpu/amx_permit.c) call Linux.
 *
 * `make OS=posix` builds os_posix.c on Linux, and hides the declarations that only Linux has (tests/lib/posix.h). No
 * other system has been tried. weir also expects memrchr(), strchrnul(), posix_fadvise(), posix_fallocate(), st_mtim,
 * and qsort_r() with the arguments of POSIX 2024. macOS and older FreeBSD do not have all of these. */
#ifndef WEIR_OS_H
#define WEIR_OS_H

#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

/* Locks of an open file, which POSIX 2024 has. Older locks belong to the process: if a process has a database open
 * twice, such a lock does not exclude the process itself. */
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
/* Restrict the calling thread to the processors of the process other than `cpu`, and return 1. Do nothing and return 0
 * if the thread runs on another processor, or if there is no other processor. If the system refuses, there is no
 * harm. */
int os_cpu_leave(int cpu);
/* Name the calling thread; at most 15 bytes. */
void os_thread_name(const char *name);
/* 1 if this ARM processor multiplies and adds bytes (ASIMDDP). */
int os_arm_dot(void);
/* Ask the system for huge pages. p and n are multiples of the size of a huge page. */
void os_huge_pages(void *p, size_t n);
/* Allocate the pages of the n bytes at p now. Return 0, or -1 with errno. The error is ENOMEM or EFAULT if memory is
 * short, and another one if the system cannot allocate pages in this way. */
int os_populate(void *p, size_t n);
/* Return the number of bytes of memory that are free. If only the size of memory is known, return a larger number. */
uint64_t os_memory_free(void);

/* ---- the program and its process ---- */

/* Return a path by which the running program can be executed again, or NULL. The string is static. */
const char *os_self(void);
/* Write the path of the folder that contains the running program, or "" if the path is unknown. */
void os_folder(char dir[PATH_MAX]);
/* Forbid other processes of the user to read the memory of this process, and forbid core dumps. */
void os_undumpable(void);

/* ---- descriptors ---- */

/* Do what pipe() and socket() do, but executed programs do not inherit the descriptors. `flags` is 0 or O_NONBLOCK. */
int os_pipe(int fd[2], int flags);
int os_socket(int family, int type, int protocol);
/* Close all descriptors from `fd` on. Return 0, or -1 if the system cannot do this. */
int os_close_from(int fd);
/* Return the descriptor of a file without a path, in memory if possible, or -1 with errno. `name` appears in the
 * system's lists of files. */
int os_memory_file(const char *name);
/* 1 if the files of a folder are in memory and never on a disk. */
int os_in_memory(const char *dir);
/* 1 if an open file is not stored on a disk, because the kernel makes its bytes (/proc, /sys). */
int os_of_kernel(int fd);

#endif
