/* sessions/import/jail.c - what a process that parses a document or a model file may do: compute, read what is open, write to its pipe.
 *
 *     no_new_privs    no set-user-ID program gives rights back
 *     rlimits         memory, processor time, files, processes; nothing can be written to a file
 *     Landlock        no path can be opened, no port connected to, no signal sent, where the kernel has it (5.13 and later)
 *     seccomp         a list of system calls; others end the process
 *
 * All of it holds from here on for this process and for what it executes; nothing gives it back. */
#include "sessions/import/import.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <seccomp.h>

#define MEMORY_MAX (1ull << 30)   /* of address space */
#define CPU_SECONDS 30
#define FILES_MAX 32

/* Sanitizers map terabytes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static int failed(struct err *e, const char *what)
{
	return err_set(e, ERR_DOCUMENT, "cannot be parsed safely on this machine: no %s (%s)", what, strerror(errno));
}

/* ---- limits ---- */

static int limit(int what, rlim_t soft, rlim_t hard)
{
	struct rlimit old, new = {soft, hard};

	if (getrlimit(what, &old))
		return -1;
	/* Somebody may have set a lower one. */
	if (new.rlim_max > old.rlim_max)
		new.rlim_max = old.rlim_max;
	if (new.rlim_cur > new.rlim_max)
		new.rlim_cur = new.rlim_max;
	return setrlimit(what, &new);
}

static int set_limits(enum jail_kind kind)
{
	rlim_t files = kind == JAIL_PARSE ? 3 : FILES_MAX;

	/* A model file is mapped, however large it is; what is allocated counts. */
	if (!SANITIZED && limit(kind == JAIL_MODEL ? RLIMIT_DATA : RLIMIT_AS, MEMORY_MAX, MEMORY_MAX))
		return -1;
	return limit(RLIMIT_CPU, CPU_SECONDS, CPU_SECONDS + 2) || limit(RLIMIT_FSIZE, 0, 0) || limit(RLIMIT_CORE, 0, 0) ||
	       limit(RLIMIT_NPROC, 0, 0) || limit(RLIMIT_NOFILE, files, files) || limit(RLIMIT_MEMLOCK, 0, 0) ||
	       limit(RLIMIT_MSGQUEUE, 0, 0) ? -1 : 0;
}

/* ---- Landlock ---- */

/* The kernel's interface (linux/landlock.h, the same on every architecture): headers of Linux before 5.13, with which archives for older systems
 * are built, lack it. */
enum { SYS_CREATE_RULESET = 444, SYS_ADD_RULE = 445, SYS_RESTRICT_SELF = 446 };
enum { RULESET_VERSION = 1, RULE_PATH = 1 };
enum { FS_EXECUTE = 1, FS_READ_FILE = 4, FS_READ_DIR = 8 };
struct path_rule { uint64_t allowed; int32_t parent_fd; } __attribute__((packed));
struct ruleset { uint64_t fs, net, scoped; };

/* Rights by version of the ABI: 13 with the first, then REFER, TRUNCATE, (network), IOCTL_DEV. */
static uint64_t all_rights(int abi)
{
	return (1ull << (abi >= 5 ? 16 : abi >= 3 ? 15 : abi >= 2 ? 14 : 13)) - 1;
}

static int allow_path(int ruleset, const char *path, uint64_t rights)
{
	struct path_rule rule = {.allowed = rights};
	int rc;

	rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
	if (rule.parent_fd < 0)
		return 0;   /* another system keeps its libraries elsewhere */
	rc = (int)syscall(SYS_ADD_RULE, ruleset, RULE_PATH, &rule, 0);
	close(rule.parent_fd);
	return rc;
}

/* Libraries with their cache, the program itself, and the tables for Chinese, Japanese and Korean text. */
static int allow_program(int ruleset, const char *program)
{
	static const char *const folders[] = {"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store"};
	static const char *const tables[] = {"/usr/share/poppler", "/usr/local/share/poppler", "/usr/share/fonts", "/usr/share/fontconfig",
	                                     "/etc/fonts"};
	uint64_t run = FS_READ_FILE | FS_EXECUTE;

	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
		if (allow_path(ruleset, folders[i], run | FS_READ_DIR))
			return -1;
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		if (allow_path(ruleset, tables[i], FS_READ_FILE | FS_READ_DIR))
			return -1;
	return allow_path(ruleset, program, run) || allow_path(ruleset, "/etc/ld.so.cache", FS_READ_FILE) ? -1 : 0;
}

/* The file alone, or its folder where its name says that it is one of several. */
static int allow_model(int ruleset, const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];

	if (!slash || !strstr(slash, "-of-"))
		return allow_path(ruleset, path, FS_READ_FILE);
	snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + 1, path);
	return allow_path(ruleset, folder, FS_READ_FILE);
}

static int set_landlock(enum jail_kind kind, const char *path, int *abi)
{
	struct ruleset all = {0};
	int fd, rc;

	*abi = (int)syscall(SYS_CREATE_RULESET, NULL, 0, RULESET_VERSION);
	if (*abi <= 0) {
		*abi = 0;
		return 0;
	}
	all.fs = all_rights(*abi);
	all.net = *abi >= 4 ? 3 : 0;        /* bind and connect of TCP */
	all.scoped = *abi >= 6 ? 3 : 0;     /* abstract UNIX sockets, signals */
	fd = (int)syscall(SYS_CREATE_RULESET, &all, *abi >= 6 ? sizeof all : *abi >= 4 ? 16 : 8, 0);
	if (fd < 0)
		return -1;
	rc = kind == JAIL_EXEC ? allow_program(fd, path) : kind == JAIL_MODEL ? allow_model(fd, path) : 0;
	if (!rc)
		rc = (int)syscall(SYS_RESTRICT_SELF, fd, 0);
	close(fd);
	return rc;
}

/* ---- seccomp ---- */

/* Computing, memory, what is open, and the end. */
static const int allowed[] = {
	SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(pread64), SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(lseek), SCMP_SYS(close),
	SCMP_SYS(fstat), SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(futex), SCMP_SYS(getrandom),
	SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack), SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(times), SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getuid),
	SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(getrusage), SCMP_SYS(getrlimit), SCMP_SYS(uname),
	SCMP_SYS(sysinfo), SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep),
	SCMP_SYS(restart_syscall), SCMP_SYS(exit), SCMP_SYS(exit_group),
};

/* Libraries try these and go on without them. */
static const int refused[] = {
	SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(statx), SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2),
	SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getcwd), SCMP_SYS(ioctl), SCMP_SYS(prctl), SCMP_SYS(statfs), SCMP_SYS(fadvise64),
	SCMP_SYS(sched_setaffinity), SCMP_SYS(fcntl), SCMP_SYS(mlock), SCMP_SYS(sched_getparam), SCMP_SYS(sched_getscheduler),
};

/* What a program needs from execve() to main(), Landlock and the limits saying where. */
static const int of_a_program[] = {
	SCMP_SYS(execve), SCMP_SYS(newfstatat), SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(statx), SCMP_SYS(access), SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(getdents64), SCMP_SYS(arch_prctl), SCMP_SYS(set_tid_address),
	SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(statfs), SCMP_SYS(fstatfs), SCMP_SYS(fcntl), SCMP_SYS(fadvise64), SCMP_SYS(getcwd),
};

static int add_all(scmp_filter_ctx f, uint32_t action, const int *call, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (call[i] != __NR_SCMP_ERROR) {
			int rc = seccomp_rule_add(f, action, call[i], 0);
			if (rc && rc != -EEXIST && rc != -EDOM)
				return -1;
		}
	return 0;
}

static int add_rules(scmp_filter_ctx f, enum jail_kind kind)
{
	const unsigned long writing = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
	uint32_t no = SCMP_ACT_ERRNO(EACCES);
	int rc;

	if (add_all(f, SCMP_ACT_ALLOW, allowed, sizeof allowed / sizeof *allowed))
		return -1;
	/* Only itself, as abort() does. */
	rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
	/* Limits are read, never set. */
	rc |= seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1, SCMP_A2(SCMP_CMP_EQ, 0));
	if (kind == JAIL_EXEC) {
		rc |= seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 0);
		rc |= seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 0);
		rc |= seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, writing, 0));
		rc |= seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(open), 1, SCMP_A1(SCMP_CMP_MASKED_EQ, writing, 0));
		rc |= add_all(f, SCMP_ACT_ALLOW, of_a_program, sizeof of_a_program / sizeof *of_a_program);
		return rc ? -1 : 0;
	}
	rc |= seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	rc |= seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	/* fstat() is newfstatat() with an empty path. */
	rc |= seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(newfstatat), 1, SCMP_A3(SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, AT_EMPTY_PATH));
	rc |= seccomp_rule_add(f, no, SCMP_SYS(newfstatat), 1, SCMP_A3(SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, 0));
	/* A library that looks for a file of its own goes on without it; writing ends the process. */
	if (kind == JAIL_MODEL)
		no = SCMP_ACT_ALLOW;   /* Landlock says which */
	rc |= seccomp_rule_add(f, no, SCMP_SYS(openat), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, writing, 0));
	rc |= seccomp_rule_add(f, no, SCMP_SYS(open), 1, SCMP_A1(SCMP_CMP_MASKED_EQ, writing, 0));
	return rc ? -1 : 0;
}

static int set_seccomp(enum jail_kind kind)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int rc;

	if (!f)
		return -1;
	rc = seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	/* The list that comes first decides: what a program may call is not refused. */
	rc = rc || add_rules(f, kind);
	if (!rc && kind != JAIL_EXEC)
		rc = add_all(f, SCMP_ACT_ERRNO(EACCES), refused, sizeof refused / sizeof *refused);
	else if (!rc)
		rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(ioctl), 0);
	if (!rc) {
		rc = seccomp_load(f);
		errno = rc < 0 ? -rc : 0;
	}
	seccomp_release(f);
	return rc ? -1 : 0;
}

int jail_enter(enum jail_kind kind, const char *path, struct jail_level *level, struct err *e)
{
	errno = 0;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return failed(e, "no_new_privs");
	/* Rules of Landlock need descriptors: before the limit on them. */
	if (set_landlock(kind, path, &level->landlock))
		return failed(e, "Landlock");
	if (set_limits(kind))
		return failed(e, "limits");
	if (set_seccomp(kind))
		return failed(e, "seccomp");
	return 0;
}
