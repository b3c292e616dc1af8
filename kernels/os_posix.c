/* kernels/os_posix.c - plain POSIX for systems other than Linux (os.h). For macOS and FreeBSD it has their ways to find
 * the path of the running program, but it has been tried on neither system. */
#include "kernels/os.h"

#ifndef __linux__
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#if defined(__APPLE__)
#include <mach-o/dyld.h>
#elif defined(__FreeBSD__)
#include <sys/types.h>
#include <sys/sysctl.h>
#endif

int os_cpus(void)
{
	return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

int os_cpu(void)
{
	return -1;
}

int os_cpu_leave(int cpu)
{
	(void)cpu;
	return 0;
}

void os_thread_name(const char *name)
{
	(void)name;
}

int os_arm_dot(void)
{
#ifdef __ARM_FEATURE_DOTPROD
	return 1;
#else
	return 0;
#endif
}

void os_huge_pages(void *p, size_t n)
{
	(void)p;
	(void)n;
}

int os_populate(void *p, size_t n)
{
	(void)p;
	(void)n;
	errno = ENOSYS;
	return -1;
}

uint64_t os_memory_free(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

const char *os_self(void)
{
	static _Thread_local char path[PATH_MAX];
#if defined(__APPLE__)
	uint32_t n = sizeof path;

	return _NSGetExecutablePath(path, &n) ? NULL : path;
#elif defined(__FreeBSD__)
	int name[] = { CTL_KERN, KERN_PROC, KERN_PROC_PATHNAME, -1 };
	size_t n = sizeof path;

	return sysctl(name, 4, path, &n, NULL, 0) ? NULL : path;
#else
	return realpath("/proc/self/exe", path);
#endif
}

void os_folder(char dir[PATH_MAX])
{
	const char *self = os_self(), *slash = self ? strrchr(self, '/') : NULL;

	snprintf(dir, PATH_MAX, "%.*s", slash ? (int)(slash - self) : 0, slash ? self : "");
}

void os_undumpable(void)
{
}

/* Set FD_CLOEXEC. A program that another thread starts just before inherits the descriptor. */
static int not_inherited(int fd)
{
	if (fd >= 0)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

int os_pipe(int fd[2], int flags)
{
	if (pipe(fd))
		return -1;
	for (int i = 0; i < 2; i++)
		if (flags)
			fcntl(not_inherited(fd[i]), F_SETFL, flags);
		else
			not_inherited(fd[i]);
	return 0;
}

int os_socket(int family, int type, int protocol)
{
	return not_inherited(socket(family, type, protocol));
}

int os_close_from(int fd)
{
	(void)fd;
	return -1;
}

int os_memory_file(const char *name)
{
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof path, "%s/weir-%s-XXXXXX", tmp && *tmp ? tmp : "/tmp", name) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = not_inherited(mkstemp(path));
	if (fd >= 0)
		unlink(path);
	return fd;
}

int os_in_memory(const char *dir)
{
	(void)dir;
	return 0;
}

int os_of_kernel(int fd)
{
	(void)fd;
	return 0;
}
#endif
