/* sessions/import/jail.c - confines a process that parses a document or a model file. The process may compute,
 * read open files and write to its pipe. Nothing that it does or executes can undo this. On systems other than Linux
 * the process has limits alone.
 *
 * parent: the process ends when its parent ends;
 *     no_new_privs: set-user-ID programs that it executes give no rights;
 *     rlimits: limits of memory, processor time, files and processes; no file can be written;
 *     own root directory: other files do not exist, not even their names (if users may create namespaces);
 *     Landlock: no path can be opened, no port connected to, no signal sent (kernel 5.13 and later);
 *     seccomp: a system call that is not on a list ends the process. */
#include "sessions/import/import_private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <seccomp.h>
#endif

#define MEMORY_MAX  (1ull << 30) /* limit of the address space, in bytes */
#define CPU_SECONDS 30
#define FILES_MAX   32

/* sanitizers reserve terabytes of address space, so with them there is no memory limit */
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

static int jail_failed(struct err *e, const char *what)
{
	return err_set(e, ERR_DOCUMENT, "cannot be parsed safely on this machine: %s cannot be set up (%s)", what,
	               strerror(errno));
}

/* ---- limits ---- */

static int set_limit(int what, rlim_t soft, rlim_t hard)
{
	struct rlimit old, new = { soft, hard };

	if (getrlimit(what, &old))
		return -1;
	/* if a lower limit is set already, keep it */
	if (new.rlim_max > old.rlim_max)
		new.rlim_max = old.rlim_max;
	if (new.rlim_cur > new.rlim_max)
		new.rlim_cur = new.rlim_max;
	return setrlimit(what, &new);
}

static int set_limits(enum jail_kind kind)
{
	rlim_t files = kind == JAIL_PARSE ? 3 : FILES_MAX;

	/* a model file of any size is mapped: so limit the memory that the process allocates, not its address space */
	if (!SANITIZED && set_limit(kind == JAIL_MODEL ? RLIMIT_DATA : RLIMIT_AS, MEMORY_MAX, MEMORY_MAX))
		return -1;
#ifdef RLIMIT_MSGQUEUE
	if (set_limit(RLIMIT_MSGQUEUE, 0, 0))
		return -1;
#endif
	return set_limit(RLIMIT_CPU, CPU_SECONDS, CPU_SECONDS + 2) || set_limit(RLIMIT_FSIZE, 0, 0) ||
	                       set_limit(RLIMIT_CORE, 0, 0) || set_limit(RLIMIT_NPROC, 0, 0) ||
	                       set_limit(RLIMIT_NOFILE, files, files) || set_limit(RLIMIT_MEMLOCK, 0, 0)
	               ? -1
	               : 0;
}

#ifdef __linux__
/* ---- paths ---- */

/* Folders that an executed program may read: libraries and their cache, fonts, and poppler's tables for Chinese,
 * Japanese and Korean text. */
static const char *const folders[] = {
	"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store", NULL
};
static const char *const tables[] = { "/usr/share/poppler",    "/usr/local/share/poppler",
	                              "/usr/share/fonts",      "/usr/local/share/fonts",
	                              "/usr/share/fontconfig", "/etc/fonts",
	                              "/var/cache/fontconfig", NULL };
static const char library_cache[] = "/etc/ld.so.cache";

/* Set `out` to the path that the process may open. This is the model file or, if "-of-" in its name shows that the
 * model is split into several files, their folder. */
static void model_paths(const char *path, char out[PATH_MAX])
{
	const char *slash = strrchr(path, '/');

	snprintf(out, PATH_MAX, "%.*s", slash && strstr(slash, "-of-") ? (int)(slash - path) + 1 : (int)strlen(path),
	         path);
}

/* ---- own root ---- */

/* Mount point of the new root. The mount hides /tmp from this process only. */
static const char new_root[] = "/tmp";

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return -1;
	rc = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
	close(fd);
	return rc;
}

/* Map this user to uid 1 of the namespace. With uid 0, executed programs would get capabilities. */
static int map_user(uid_t user, gid_t group)
{
	char text[40];

	snprintf(text, sizeof text, "1 %u 1", (unsigned)user);
	if (write_text("/proc/self/setgroups", "deny") || write_text("/proc/self/uid_map", text))
		return -1;
	snprintf(text, sizeof text, "1 %u 1", (unsigned)group);
	return write_text("/proc/self/gid_map", text);
}

/* Create an empty folder or file with the path `target`, on which something will be mounted. Create the folders above
 * it, too. */
static int make_target(char *target, int is_folder)
{
	int fd;

	for (char *p = target + sizeof new_root; (p = strchr(p, '/')); p++) {
		*p = 0;
		if (mkdir(target, 0755) && errno != EEXIST)
			return -1;
		*p = '/';
	}
	if (is_folder)
		return mkdir(target, 0755) && errno != EEXIST ? -1 : 0;
	fd = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? -1 : 0;
}

enum { PATHS = 20 };
/* A path to mount in the new root. `fd` is a descriptor of the path, opened before the new root's mount hides the
 * path. */
struct bound {
	const char *path;
	int fd;
};

static void add_path(struct bound *b, size_t *n, const char *path)
{
	int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd >= 0) /* leave out a missing folder: this system keeps its libraries elsewhere */
		b[(*n)++] = (struct bound){ path, fd };
}

static int bind_path(const struct bound *b)
{
	char target[PATH_MAX], source[40];
	struct stat st;

	if (snprintf(target, sizeof target, "%s%s", new_root, b->path) >= (int)sizeof target || fstat(b->fd, &st))
		return -1;
	while (strlen(target) > 1 && target[strlen(target) - 1] == '/')
		target[strlen(target) - 1] = 0;
	if (!access(target, F_OK))
		return 0; /* the path is inside a folder that was bound already */
	snprintf(source, sizeof source, "/proc/self/fd/%d", b->fd);
	return make_target(target, S_ISDIR(st.st_mode)) || mount(source, target, NULL, MS_BIND | MS_REC, NULL) ? -1 : 0;
}

/* Change the root to a directory that contains only the needed paths. Returns 1 if it was changed, and 0 if this
 * machine does not let users change it. */
static int set_root(enum jail_kind kind, const char *path, const char *data)
{
	uid_t user = geteuid();
	gid_t group = getegid();
	struct bound b[PATHS];
	char model[PATH_MAX];
	size_t n = 0;
	int done;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) || map_user(user, group) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return 0;
	if (kind == JAIL_EXEC) {
		for (size_t i = 0; folders[i]; i++)
			add_path(b, &n, folders[i]);
		for (size_t i = 0; tables[i]; i++)
			add_path(b, &n, tables[i]);
		add_path(b, &n, library_cache);
		add_path(b, &n, path);
		if (data && *data)
			add_path(b, &n, data);
	} else if (kind == JAIL_MODEL) {
		model_paths(path, model);
		add_path(b, &n, model);
	}
	done = !mount("none", new_root, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0755");
	if (done) {
		for (size_t i = 0; i < n && done; i++)
			done = !bind_path(&b[i]);
		done = done &&
		       !mount(NULL, new_root, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) &&
		       !chdir(new_root) && !chroot(".");
		if (!done)
			umount2(new_root, MNT_DETACH);
	}
	for (size_t i = 0; i < n; i++)
		close(b[i].fd);
	return !chdir("/") && done;
}

/* ---- Landlock ---- */

/* Copied from linux/landlock.h, which kernel headers before Linux 5.13 lack. The numbers are equal on all
 * architectures. */
enum { SYS_CREATE_RULESET = 444, SYS_ADD_RULE = 445, SYS_RESTRICT_SELF = 446 };
enum { RULESET_VERSION = 1, RULE_PATH = 1 };
enum { FS_EXECUTE = 1, FS_READ_FILE = 4, FS_READ_DIR = 8 };
struct path_rule {
	uint64_t allowed;
	int32_t parent_fd;
} __attribute__((packed));
struct ruleset {
	uint64_t fs, net, scoped;
};

/* Return a bit mask of all file access rights. Version 1 of Landlock's ABI has 13 rights; versions 2, 3 and 5 add one
 * each. */
static uint64_t all_rights(int abi)
{
	return (1ull << (abi >= 5 ? 16 : abi >= 3 ? 15 : abi >= 2 ? 14 : 13)) - 1;
}

static int allow_path(int ruleset, const char *path, uint64_t rights)
{
	struct path_rule rule = { .allowed = rights };
	int rc;

	rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
	if (rule.parent_fd < 0)
		return 0; /* leave out a missing folder: this system keeps its libraries elsewhere */
	rc = (int)syscall(SYS_ADD_RULE, ruleset, RULE_PATH, &rule, 0);
	close(rule.parent_fd);
	return rc;
}

static int allow_program(int ruleset, const char *program, const char *data)
{
	uint64_t run = FS_READ_FILE | FS_EXECUTE;

	for (size_t i = 0; folders[i]; i++)
		if (allow_path(ruleset, folders[i], run | FS_READ_DIR))
			return -1;
	for (size_t i = 0; tables[i]; i++)
		if (allow_path(ruleset, tables[i], FS_READ_FILE | FS_READ_DIR))
			return -1;
	if (data && *data && allow_path(ruleset, data, FS_READ_FILE | FS_READ_DIR))
		return -1;
	return allow_path(ruleset, program, run) || allow_path(ruleset, library_cache, FS_READ_FILE) ? -1 : 0;
}

static int allow_model(int ruleset, const char *path)
{
	char model[PATH_MAX];

	model_paths(path, model);
	return allow_path(ruleset, model, FS_READ_FILE);
}

static int set_landlock(enum jail_kind kind, const char *path, const char *data, int *abi)
{
	struct ruleset all = { 0 };
	int fd, rc;

	*abi = (int)syscall(SYS_CREATE_RULESET, NULL, 0, RULESET_VERSION);
	if (*abi <= 0) {
		*abi = 0;
		return 0;
	}
	all.fs = all_rights(*abi);
	all.net = *abi >= 4 ? 3 : 0; /* from version 4 on, Landlock can restrict bind() and connect() of TCP */
	/* from version 6 on, Landlock can restrict connections to abstract UNIX sockets, and signals */
	all.scoped = *abi >= 6 ? 3 : 0;
	fd = (int)syscall(SYS_CREATE_RULESET, &all, *abi >= 6 ? sizeof all : *abi >= 4 ? 16 : 8, 0);
	if (fd < 0)
		return -1;
	rc = kind == JAIL_EXEC ? allow_program(fd, path, data) : kind == JAIL_MODEL ? allow_model(fd, path) : 0;
	if (!rc)
		rc = (int)syscall(SYS_RESTRICT_SELF, fd, 0);
	close(fd);
	return rc;
}

/* ---- seccomp ---- */

/* System calls that are allowed: for computing, memory, use of files that are open, exit. */
/* clang-format off */
static const int allowed[] = {
	SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(pread64), SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(lseek), SCMP_SYS(close),
	SCMP_SYS(fstat), SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(futex), SCMP_SYS(getrandom),
	SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack), SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(times), SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getuid),
	SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(getrusage), SCMP_SYS(getrlimit), SCMP_SYS(uname),
	SCMP_SYS(sysinfo), SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep),
	SCMP_SYS(restart_syscall), SCMP_SYS(exit), SCMP_SYS(exit_group),
};
/* clang-format on */

/* System calls that fail with EACCES instead of ending the process: libraries try them and can do without them. */
/* clang-format off */
static const int refused[] = {
	SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2),
	SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getcwd), SCMP_SYS(ioctl), SCMP_SYS(prctl), SCMP_SYS(statfs), SCMP_SYS(fadvise64),
	SCMP_SYS(sched_setaffinity), SCMP_SYS(fcntl), SCMP_SYS(mlock), SCMP_SYS(sched_getparam), SCMP_SYS(sched_getscheduler),
};
/* clang-format on */

/* Calls that a program needs from execve() to main(). Landlock and the rlimits restrict what they can do. */
static const int of_a_program[] = {
	SCMP_SYS(execve),          SCMP_SYS(getdents64),      SCMP_SYS(arch_prctl),
	SCMP_SYS(set_tid_address), SCMP_SYS(set_robust_list), SCMP_SYS(rseq),
	SCMP_SYS(fstatfs),         SCMP_SYS(fadvise64),       SCMP_SYS(getcwd),
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

/* System calls that query the status of a path. fontconfig needs them to find fonts. */
static const int of_paths[] = {
	SCMP_SYS(stat),      SCMP_SYS(lstat),      SCMP_SYS(newfstatat), SCMP_SYS(statx),      SCMP_SYS(access),
	SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(readlink),   SCMP_SYS(readlinkat), SCMP_SYS(statfs),
};

/* Calls with which fontconfig tries to write its cache. They fail with EACCES. */
static const int of_caches[] = { SCMP_SYS(mkdir), SCMP_SYS(mkdirat), SCMP_SYS(unlink), SCMP_SYS(unlinkat) };

/* Allow newfstatat() and statx() with AT_EMPTY_PATH, which query the status of an open file. seccomp cannot check that
 * the path is empty, so these calls can also query other files, unless the jail has its own root directory. */
static int add_stat(scmp_filter_ctx f)
{
	uint32_t no = SCMP_ACT_ERRNO(EACCES);
	int rc;

	rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(newfstatat), 1,
	                      SCMP_A3(SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, AT_EMPTY_PATH));
	rc |= seccomp_rule_add(f, no, SCMP_SYS(newfstatat), 1, SCMP_A3(SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, 0));
	rc |= seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(statx), 1,
	                       SCMP_A2(SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, AT_EMPTY_PATH));
	rc |= seccomp_rule_add(f, no, SCMP_SYS(statx), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, 0));
	return rc;
}

/* Allow only the fcntl() commands that duplicate descriptors or read and set their flags. */
static int add_fcntl(scmp_filter_ctx f)
{
	static const int harmless[] = { F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL };
	int rc = 0;

	for (size_t i = 0; i < LEN(harmless); i++)
		rc |= seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
		                       SCMP_A1(SCMP_CMP_EQ, (scmp_datum_t)harmless[i]));
	return rc;
}

/* Add the calls that an executed program needs and a parser does not. It may open files for reading. If the jail has
 * its own root directory, the program may also query the status of paths, because it may read every file there. */
static int add_program(scmp_filter_ctx f, int root)
{
	const unsigned long writing = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
	uint32_t no = SCMP_ACT_ERRNO(EACCES);
	int rc;

	rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 0);
	rc |= seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 0);
	rc |= seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, writing, 0));
	rc |= seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(open), 1, SCMP_A1(SCMP_CMP_MASKED_EQ, writing, 0));
	rc |= add_fcntl(f);
	rc |= add_all(f, SCMP_ACT_ALLOW, of_a_program, LEN(of_a_program));
	rc |= add_all(f, no, of_caches, LEN(of_caches));
	if (root)
		rc |= add_all(f, SCMP_ACT_ALLOW, of_paths, LEN(of_paths));
	return rc;
}

static int add_rules(scmp_filter_ctx f, enum jail_kind kind, int root)
{
	const unsigned long writing = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
	uint32_t no = SCMP_ACT_ERRNO(EACCES);
	int rc;

	if (add_all(f, SCMP_ACT_ALLOW, allowed, LEN(allowed)))
		return -1;
	/* allow sending signals to this process only, because abort() does that */
	rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
	/* allow reading limits, and no other use of the call */
	rc |= seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1, SCMP_A2(SCMP_CMP_EQ, 0));
	if (kind == JAIL_EXEC)
		return rc || add_program(f, root) || (!root && add_stat(f)) ? -1 : 0;
	rc |= add_stat(f);
	rc |= seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	rc |= seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	/* A parser that opens a file for reading gets the error EACCES, which libraries tolerate. A parser that opens a
	 * file for writing is killed. */
	if (kind == JAIL_MODEL)
		no = SCMP_ACT_ALLOW; /* allow the call, because Landlock restricts which files can be opened */
	rc |= seccomp_rule_add(f, no, SCMP_SYS(openat), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, writing, 0));
	rc |= seccomp_rule_add(f, no, SCMP_SYS(open), 1, SCMP_A1(SCMP_CMP_MASKED_EQ, writing, 0));
	return rc ? -1 : 0;
}

static int set_seccomp(enum jail_kind kind, int root)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int rc;

	if (!f)
		return -1;
	rc = seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	/* if a call has several rules, seccomp keeps the first: so add the allowing rules before the refusing ones */
	rc = rc || add_rules(f, kind, root);
	if (!rc)
		rc = add_all(f, SCMP_ACT_ERRNO(EACCES), refused, LEN(refused));
	if (!rc) {
		rc = seccomp_load(f);
		errno = rc < 0 ? -rc : 0;
	}
	seccomp_release(f);
	return rc ? -1 : 0;
}

int jail_enter(enum jail_kind kind, const char *path, const char *data, struct jail_level *level, struct err *e)
{
	level->root = set_root(kind, path, data);
	errno = 0;
	/* the parent-death signal is set after the namespaces, because a new namespace clears it */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return jail_failed(e, "no_new_privs");
	/* Landlock needs to open files, so set it before the limits */
	if (set_landlock(kind, path, data, &level->landlock))
		return jail_failed(e, "Landlock");
	if (set_limits(kind))
		return jail_failed(e, "limits");
	if (set_seccomp(kind, level->root))
		return jail_failed(e, "seccomp");
	level->seccomp = 1;
	return 0;
}
#else
int jail_enter(enum jail_kind kind, const char *path, const char *data, struct jail_level *level, struct err *e)
{
	return set_limits(kind) ? jail_failed(e, "limits") : 0;
}
#endif
