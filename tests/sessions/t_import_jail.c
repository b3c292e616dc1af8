/* tests/sessions/t_import_jail.c - sessions/import/jail.c: a process that tries to leave the jail is killed or refused;
 * inside the jail, what a parser needs works, and model files are checked.
 *
 * Each attempt runs in a child of its own, which enters the jail first. */
#include "sessions/import/import_private.h"
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <seccomp.h>

#define KILLED    1000 /* killed by SIGSYS */
#define SIGNALLED 2000 /* SIGNALLED + n: killed by signal n, not SIGSYS */

static char dir[] = "/tmp/weir-jail-XXXXXX";

/* Call try() in a child in the jail. Returns its exit status, KILLED, or SIGNALLED + n. */
static int in_jail(enum jail_kind kind, int try(void))
{
	pid_t pid = fork();
	int status = 0;

	if (!pid) {
		struct jail_level level = { 0 };
		struct err e = { 0 };
		if (jail_enter(kind, "/bin/true", NULL, &level, &e))
			_exit(99);
		_exit(try());
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGSYS ? KILLED : SIGNALLED + WTERMSIG(status);
	return WEXITSTATUS(status);
}

/* 0 = the call worked, 1 = it was refused. */
static int tried(long r)
{
	return r < 0;
}

static int open_secret(void)
{
	return tried(open("/etc/passwd", O_RDONLY));
}
static int open_cwd(void)
{
	return tried(open(".", O_RDONLY | O_DIRECTORY));
}
static int write_file(void)
{
	return tried(open("canary", O_WRONLY | O_CREAT, 0600));
}
static int write_sync(void)
{
	return tried(syscall(SYS_open, "canary", O_RDWR | O_CREAT, 0600));
}
static int do_creat(void)
{
	return tried(syscall(SYS_creat, "canary", 0600));
}
static int do_mkdir(void)
{
	return tried(mkdir("canary", 0700));
}
static int do_symlink(void)
{
	return tried(symlink("/etc", "canary"));
}
static int do_link(void)
{
	return tried(link("/etc/passwd", "canary"));
}
static int do_unlink(void)
{
	return tried(unlink("victim"));
}
static int do_rename(void)
{
	return tried(rename("victim", "canary"));
}
static int do_truncate(void)
{
	return tried(truncate("victim", 0));
}
static int do_chmod(void)
{
	return tried(chmod("victim", 0777));
}
static int do_mknod(void)
{
	return tried(mknod("canary", S_IFIFO | 0600, 0));
}
static int inet_socket(void)
{
	return tried(socket(AF_INET, SOCK_STREAM, 0));
}
static int unix_socket(void)
{
	return tried(socket(AF_UNIX, SOCK_STREAM, 0));
}
static int do_socketpair(void)
{
	int fd[2];
	return tried(socketpair(AF_UNIX, SOCK_STREAM, 0, fd));
}
static int do_fork(void)
{
	return tried(fork());
}
static int do_vfork(void)
{
	return tried(syscall(SYS_vfork));
}
static int do_clone3(void)
{
	return tried(syscall(SYS_clone3, NULL, 0));
}
static int do_exec(void)
{
	char *argv[] = { NULL };
	return tried(execve("/bin/true", argv, argv));
}
static int do_execveat(void)
{
	char *argv[] = { NULL };
	return tried(syscall(SYS_execveat, AT_FDCWD, "/bin/true", argv, argv, 0));
}
static int do_ptrace(void)
{
	return tried(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}
static int kill_parent(void)
{
	return tried(kill(getppid(), 0));
}
static int do_memfd(void)
{
	return tried(memfd_create("x", 0));
}
static int do_mount(void)
{
	return tried(syscall(SYS_mount, "none", "/", NULL, 0, NULL));
}
static int do_bpf(void)
{
	return tried(syscall(SYS_bpf, 0, NULL, 0));
}
static int do_io_uring(void)
{
	return tried(syscall(SYS_io_uring_setup, 1, NULL));
}
static int do_userfaultfd(void)
{
	return tried(syscall(SYS_userfaultfd, 0));
}
static int do_process_vm(void)
{
	return tried(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0));
}
static int do_setuid(void)
{
	return tried(setuid(65534));
}
static int raise_limit(void)
{
	struct rlimit r = { RLIM_INFINITY, RLIM_INFINITY };
	return tried(setrlimit(RLIMIT_FSIZE, &r));
}
static int map_code(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}
static int dup_stdin(void)
{
	return tried(dup(0));
}

/* Look up a file without opening it. */
static int do_stat(void)
{
	struct stat st;
	return tried(syscall(SYS_newfstatat, AT_FDCWD, "/etc/passwd", &st, 0));
}
static int do_access(void)
{
	return tried(access("/etc/passwd", F_OK));
}
static int do_readlink(void)
{
	char to[64];
	return tried(readlink("/proc/self/exe", to, sizeof to));
}
static int stat_beside_the_flag(void)
{
	struct stat st;
	return tried(syscall(SYS_newfstatat, AT_FDCWD, "/etc/passwd", &st, AT_EMPTY_PATH));
}
static int statx_beside_the_flag(void)
{
	struct statx st;
	return tried(syscall(SYS_statx, AT_FDCWD, "/etc/passwd", AT_EMPTY_PATH, STATX_SIZE, &st));
}
static int stat_open_file(void)
{
	struct stat st;
	return tried(fstat(0, &st));
}
static int is_not_there(void)
{
	return !(open("/etc/passwd", O_RDONLY) < 0 && errno == ENOENT);
}
static int send_signals(void)
{
	return tried(fcntl(1, F_SETOWN, 1)) && tried(fcntl(1, F_SETSIG, SIGKILL)) && tried(fcntl(1, F_SETFL, O_ASYNC));
}

/* ---- model files ---- */

static const char model[] = "tests/vectors/models/gemma.gguf";

static int64_t bytes_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? -1 : (int64_t)st.st_size;
}

TEST(a_good_model_file_is_read_once)
{
	char list[] = "/tmp/weir-read-models-XXXXXX", copy[] = "/tmp/weir-model-XXXXXX", command[200];
	struct err e = { 0 };
	int fd = mkstemp(list), to = mkstemp(copy);
	int64_t once;

	CHECK(fd >= 0 && to >= 0);
	snprintf(command, sizeof command, "cp %s %s", model, copy);
	CHECK(!system(command));
	/* remember = 0: the list stays empty */
	CHECK_MSG(!model_check(copy, list, 0, &e) && !bytes_of(list), "%s", e.msg);
	CHECK_MSG(!model_check(copy, list, 1, &e), "%s", e.msg);
	once = bytes_of(list);
	CHECK(once > 0);
	CHECK(!model_check(copy, list, 1, &e) && bytes_of(list) == once);
	CHECK(!ftruncate(to, bytes_of(copy)) && !fchmod(to, 0644)); /* give the file another time of change */
	CHECK(!model_check(copy, list, 1, &e) && bytes_of(list) == 2 * once);
	/* A damaged file is not remembered. The reader in this process reports later what is wrong. */
	CHECK(!ftruncate(to, 1000) && !model_check(copy, list, 1, &e) && bytes_of(list) == 2 * once);
	CHECK(!model_check("/nowhere.gguf", list, 1, &e));
	close(fd);
	close(to);
	unlink(list);
	unlink(copy);
}

/* A reader with too small a stack crashes, as a reader does if a hostile file uses a bug in it. */
TEST(a_reader_that_crashes_is_one_line)
{
	struct rlimit small = { 4096, 4096 };
	struct err e = { 0 };
	int status, ends[2];
	pid_t pid;
	char text[600] = "";

	CHECK(!pipe(ends));
	pid = fork();
	if (!pid) {
		setrlimit(RLIMIT_STACK, &small);
		if (model_check(model, NULL, 0, &e) == -1 && e.code == ERR_MODEL &&
		    write(ends[1], e.msg, strlen(e.msg)) > 0)
			_exit(0);
		_exit(1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	close(ends[1]);
	if (WEXITSTATUS(status))
		SKIP("a process without a stack does not start here");
	CHECK(read(ends[0], text, sizeof text - 1) > 0);
	CHECK_MSG(strstr(text, "gemma.gguf' cannot be read: the parser ") && strstr(text, "nothing was loaded") &&
	                  !strchr(text, '\n'),
	          "'%s'", text);
	test_note("%s", text);
	close(ends[0]);
}

static int read_model_file(void)
{
	return tried(open("/bin/true", O_RDONLY));
}
static int write_model_file(void)
{
	return tried(open("/bin/true", O_RDWR));
}

TEST(the_jail_of_a_model_file)
{
	int landlock;

	CHECK_INT(in_jail(JAIL_MODEL, read_model_file), 0);
	CHECK_INT(in_jail(JAIL_MODEL, write_model_file), KILLED);
	CHECK_INT(in_jail(JAIL_MODEL, write_file), KILLED);
	CHECK_INT(in_jail(JAIL_MODEL, do_unlink), KILLED);
	CHECK_INT(in_jail(JAIL_MODEL, do_exec), KILLED);
	CHECK_INT(in_jail(JAIL_MODEL, inet_socket), KILLED);
	CHECK_INT(in_jail(JAIL_MODEL, do_fork), KILLED);
	CHECK_INT(in_jail(JAIL_MODEL, map_code), KILLED);
	landlock = (int)syscall(444, NULL, 0, 1);
	if (landlock <= 0)
		SKIP("this kernel has no Landlock");
	CHECK_INT(in_jail(JAIL_MODEL, open_secret), 1);
	CHECK_INT(in_jail(JAIL_MODEL, open_cwd), 1);
}

/* Make a folder with a file that must survive. */
TEST(begin)
{
	FILE *f = mkdtemp(dir) && !chdir(dir) ? fopen("victim", "w") : NULL;

	CHECK(f);
	if (f)
		fclose(f);
}

TEST(what_a_parser_never_does_kills_it)
{
	/* clang-format off */
	static const struct { const char *what; int (*try)(void); } tries[] = {
		{"write a file", write_file}, {"open for writing", write_sync}, {"creat", do_creat}, {"mkdir", do_mkdir}, {"symlink", do_symlink},
		{"link", do_link}, {"unlink", do_unlink}, {"rename", do_rename}, {"truncate", do_truncate}, {"chmod", do_chmod},
		{"mknod", do_mknod}, {"socket", inet_socket}, {"UNIX socket", unix_socket}, {"socketpair", do_socketpair}, {"fork", do_fork},
		{"vfork", do_vfork}, {"clone3", do_clone3}, {"execve", do_exec}, {"execveat", do_execveat}, {"ptrace", do_ptrace},
		{"kill", kill_parent}, {"memfd_create", do_memfd}, {"mount", do_mount}, {"bpf", do_bpf}, {"io_uring", do_io_uring},
		{"userfaultfd", do_userfaultfd}, {"process_vm_readv", do_process_vm}, {"setuid", do_setuid}, {"setrlimit", raise_limit},
		{"executable memory", map_code}, {"dup", dup_stdin},
	};
	/* clang-format on */

	for (size_t i = 0; i < LEN(tries); i++) {
		int got = in_jail(JAIL_PARSE, tries[i].try);
		CHECK_MSG(got == KILLED, "%s: %d", tries[i].what, got);
	}
}

TEST(what_libraries_try_is_refused)
{
	CHECK_INT(in_jail(JAIL_PARSE, open_secret), 1);
	CHECK_INT(in_jail(JAIL_PARSE, open_cwd), 1);
}

/* The jail of pdftotext: it may execute that program and read libraries, and can neither write nor reach other
 * files. */
TEST(the_jail_of_a_program)
{
	struct jail_level level = { 0 };
	struct err e = { 0 };
	pid_t pid = fork();
	int status, landlock;

	if (!pid)
		_exit(jail_enter(JAIL_PARSE, NULL, NULL, &level, &e) ? 99 : level.landlock);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) != 99);
	landlock = WEXITSTATUS(status);
	CHECK_INT(in_jail(JAIL_EXEC, do_exec), 0);
	CHECK_INT(in_jail(JAIL_EXEC, write_file), KILLED);
	CHECK_INT(in_jail(JAIL_EXEC, do_creat), KILLED);
	CHECK_INT(in_jail(JAIL_EXEC, do_mkdir), 1);
	CHECK_INT(in_jail(JAIL_EXEC, do_unlink), 1);
	CHECK_INT(in_jail(JAIL_EXEC, inet_socket), KILLED);
	CHECK_INT(in_jail(JAIL_EXEC, unix_socket), KILLED);
	CHECK_INT(in_jail(JAIL_EXEC, do_fork), KILLED);
	CHECK_INT(in_jail(JAIL_EXEC, do_ptrace), KILLED);
	CHECK_INT(in_jail(JAIL_EXEC, do_io_uring), KILLED);
	if (!landlock)
		SKIP("this kernel has no Landlock");
	CHECK_INT(in_jail(JAIL_EXEC, open_secret), 1);
	CHECK_INT(in_jail(JAIL_EXEC, open_cwd), 1);
}

/* A process that may not read a file must not learn whether it exists or how large it is. */
TEST(files_cannot_be_asked_for)
{
	static const enum jail_kind kinds[] = { JAIL_PARSE, JAIL_EXEC, JAIL_MODEL };
	struct jail_level level = { 0 };
	struct err e = { 0 };
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(jail_enter(JAIL_PARSE, NULL, NULL, &level, &e) ? 99 : level.root);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) != 99);
	for (size_t i = 0; i < LEN(kinds); i++) {
		CHECK_INT(in_jail(kinds[i], do_stat), 1);
		CHECK_INT(in_jail(kinds[i], do_access), 1);
		CHECK_INT(in_jail(kinds[i], do_readlink), 1);
		CHECK_INT(in_jail(kinds[i], stat_open_file), 0);
		CHECK_INT(in_jail(kinds[i], send_signals), 1);
	}
	if (!WEXITSTATUS(status))
		SKIP("this machine does not let its users make namespaces");
	for (size_t i = 0; i < LEN(kinds); i++) {
		CHECK_INT(in_jail(kinds[i], stat_beside_the_flag), 1);
		CHECK_INT(in_jail(kinds[i], statx_beside_the_flag), 1);
		if (kinds[i] != JAIL_PARSE) /* a jail for parsing opens no files at all */
			CHECK_INT(in_jail(kinds[i], is_not_there), 0);
	}
}

/* ---- limits ---- */

/* not used under AddressSanitizer, whose shadow memory exceeds any limit */
__attribute__((unused)) static int take_memory(void)
{
	for (int i = 0; i < 40; i++)
		if (mmap(NULL, 64u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
			return 1;
	return 0;
}

static int read_limits(void)
{
	struct rlimit r;

	return getrlimit(RLIMIT_CPU, &r) || r.rlim_cur > 30 || getrlimit(RLIMIT_FSIZE, &r) || r.rlim_max ||
	       getrlimit(RLIMIT_CORE, &r) || r.rlim_max || getrlimit(RLIMIT_NOFILE, &r) || r.rlim_max != 3 ||
	       getrlimit(RLIMIT_NPROC, &r) || r.rlim_max;
}

/* Do what a parser needs: all of it must work in the jail. */
static int work(void)
{
	char *p = malloc(3u << 20), *q;
	struct stat st;

	if (!p)
		return 1;
	memset(p, 1, 3u << 20);
	q = realloc(p, 9u << 20);
	if (!q || fstat(0, &st) || write(1, "", 0))
		return 2;
	free(q);
	return 0;
}

TEST(limits)
{
	CHECK_INT(in_jail(JAIL_PARSE, read_limits), 0);
	CHECK_INT(in_jail(JAIL_PARSE, work), 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	CHECK_INT(in_jail(JAIL_PARSE, take_memory), 1);
#endif
}

TEST(the_level_is_told)
{
	struct str s = { 0 };
	struct err e = { 0 };

	CHECK_MSG(!doc_jail(&s, &e), "%s", e.msg);
	CHECK(strstr(s.p, "no_new_privs") && strstr(s.p, "seccomp") && strstr(s.p, "limits"));
	test_note("%s", s.p);
	str_free(&s);
}

TEST(nothing_was_written)
{
	CHECK(access("canary", F_OK) < 0 && errno == ENOENT);
	CHECK(!access("victim", F_OK));
	unlink("victim");
	CHECK(!chdir("/"));
	CHECK(!rmdir(dir));
}

/* ---- no jail ---- */

/* Convert a small document while the system call `call` fails if its first argument is arg (-1: any). */
static void check_refused(int call, int arg, enum doc_type type, const char *why)
{
	struct scmp_arg_cmp first = SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)arg);
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
		struct err e = { 0 };
		struct doc d;

		if (!f || seccomp_rule_add_array(f, SCMP_ACT_ERRNO(EPERM), call, arg >= 0, &first) || seccomp_load(f))
			_exit(99);
		CHECK(helper_convert(type, "a", "%PDF-1.4\n", 9, &d, &e) < 0);
		if (!strstr(e.msg, "install pdftotext"))
			CHECK_STR(e.msg, why);
		fflush(stdout);
		_exit(test_failures() != 0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 99)
		SKIP("this kernel has no seccomp filters");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(nothing_is_parsed_without_a_jail)
{
	static const enum doc_type types[] = { DOC_HTML, DOC_PDF, DOC_GZIP };

	for (size_t i = 0; i < LEN(types); i++)
		check_refused(SCMP_SYS(prctl), PR_SET_DUMPABLE, types[i],
		              "document 'a' cannot be parsed safely on this machine: "
		              "no_new_privs cannot be set up (Operation not permitted)");
}

/* Only the jail of pdftotext fails; the jail of the process that parses pdftotext's output works. */
TEST(pdftotext_does_not_run_without_a_jail)
{
	if (syscall(444, NULL, 0, 1) <= 0)
		SKIP("this kernel has no Landlock");
	check_refused(
		445, -1, DOC_PDF,
		"document 'a' cannot be parsed safely on this machine: Landlock cannot be set up (Operation not permitted)");
}
