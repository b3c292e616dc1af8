/* kernels/os_linux.c - the functions of os.h for Linux. */
#include "kernels/os.h"

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "kernels/macros.h"

int os_cpus(void)
{
	cpu_set_t set;

	if (!sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) > 0)
		return CPU_COUNT(&set);
	return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

int os_cpu(void)
{
	return sched_getcpu();
}

int os_cpu_leave(int cpu)
{
	cpu_set_t set;

	/* No pool restricts the main thread, so its set of processors is that of the process. */
	if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getcpu() != cpu || sched_getaffinity(getpid(), sizeof set, &set) ||
	    CPU_COUNT(&set) < 2)
		return 0;
	CPU_CLR(cpu, &set);
	sched_setaffinity(0, sizeof set, &set);
	return 1;
}

void os_thread_name(const char *name)
{
	pthread_setname_np(pthread_self(), name);
}

int os_arm_dot(void)
{
#ifdef __aarch64__
	return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
	return 0;
#endif
}

void os_huge_pages(void *p, size_t n)
{
	madvise(p, n, MADV_HUGEPAGE);
}

int os_populate(void *p, size_t n)
{
	enum { POPULATE_WRITE = 23 }; /* headers before Linux 5.14 have no name for this constant */

	return madvise(p, n, POPULATE_WRITE);
}

uint64_t os_memory_free(void)
{
	struct sysinfo info;

	return sysinfo(&info) ? UINT64_MAX : ((uint64_t)info.freeram + info.bufferram) * info.mem_unit;
}

const char *os_self(void)
{
	return "/proc/self/exe";
}

void os_folder(char dir[PATH_MAX])
{
	ssize_t n = readlink(os_self(), dir, PATH_MAX - 1);
	char *slash;

	dir[MAX(n, 0)] = 0;
	slash = strrchr(dir, '/');
	dir[slash ? slash - dir : 0] = 0;
}

void os_undumpable(void)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

int os_pipe(int fd[2], int flags)
{
	return pipe2(fd, O_CLOEXEC | flags);
}

int os_socket(int family, int type, int protocol)
{
	return socket(family, type | SOCK_CLOEXEC, protocol);
}

int os_close_from(int fd)
{
	enum { CLOSE_RANGE = 436 }; /* the number of the system call: headers before Linux 5.9 have no name for it */

	return (int)syscall(CLOSE_RANGE, fd, ~0u, 0);
}

int os_memory_file(const char *name)
{
	return memfd_create(name, MFD_CLOEXEC);
}

int os_in_memory(const char *dir)
{
	const unsigned tmpfs = 0x01021994, ramfs = 0x858458f6;
	struct statfs fs;

	return !statfs(dir, &fs) && ((unsigned)fs.f_type == tmpfs || (unsigned)fs.f_type == ramfs);
}

int os_of_kernel(int fd)
{
	const unsigned proc = 0x9fa0, sysfs = 0x62656572;
	struct statfs fs;

	return !fstatfs(fd, &fs) && ((unsigned)fs.f_type == proc || (unsigned)fs.f_type == sysfs);
}
#endif
