/* app/term/external.c - see external.h.
 *
 * Programs are started with posix_spawn(): other threads run.  An editor is a command line of the user's own, so the shell splits
 * it; the file's name is an argument of that shell and no part of its text. */
#include "app/term/term.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>


extern char **environ;

enum { DRAFT_MOST = 1 << 24 };

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Signals as a program of its own expects them. */
static void plain_signals(posix_spawnattr_t *attr)
{
	sigset_t all, none;

	sigfillset(&all);
	sigemptyset(&none);
	posix_spawnattr_init(attr);
	posix_spawnattr_setsigdefault(attr, &all);
	posix_spawnattr_setsigmask(attr, &none);
	posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
}

/* 2 is nowhere while the screen stands (tui.c); an editor wants all three on the terminal. */
static int run_editor(const char *editor, const char *path)
{
	const char *const argv[] = {"sh", "-c", "eval \"$1 \\\"\\$2\\\"\"", "sh", editor, path, NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	pid_t pid;
	int rc;

	plain_signals(&attr);
	posix_spawn_file_actions_init(&files);
	for (int fd = 0; fd <= 2; fd++)
		posix_spawn_file_actions_addopen(&files, fd, "/dev/tty", O_RDWR, 0);
	rc = posix_spawnp(&pid, "sh", &files, &attr, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return rc ? -1 : wait_for(pid);
}

int external_edit(struct str *text, struct err *e)
{
	const char *dir = getenv("XDG_RUNTIME_DIR"), *editor = getenv("VISUAL");
	struct str got = {0};
	char path[512];
	int fd, rc;

	if (!editor || !*editor)
		editor = getenv("EDITOR");
	if (!editor || !*editor)
		editor = "vi";
	if (!dir || access(dir, W_OK) < 0)
		dir = getenv("TMPDIR");
	snprintf(path, sizeof path, "%.400s/weir-XXXXXX.md", dir && *dir ? dir : "/tmp");
	fd = mkostemps(path, 3, O_CLOEXEC);   /* 0600 */
	if (fd < 0)
		return err_set(e, ERR_FAIL, "cannot make a file for the draft in '%.200s': %s", path, strerror(errno));
	rc = write_all(fd, text->p ? text->p : "", text->n);
	if (!rc && text->n)
		rc = write_all(fd, "\n", 1);   /* a text file ends its last line */
	close(fd);
	if (rc < 0) {
		unlink(path);
		return err_set(e, ERR_FAIL, "cannot write the draft: %s", strerror(errno));
	}
	rc = run_editor(editor, path);
	if (rc)
		rc = err_set(e, ERR_FAIL, "the editor '%.60s' failed; set EDITOR to another one", editor);
	else
		rc = read_whole(path, DRAFT_MOST, &got, e);
	unlink(path);
	if (!rc) {
		if (got.n && got.p[got.n - 1] == '\n')
			got.p[--got.n] = 0;
		str_free(text);
		*text = got;
	} else {
		str_free(&got);
	}
	return rc;
}

/* ---- a command of the user ---- */

/* Read until the command closes its output, prints too much or is to be stopped. */
static int read_output(int fd, size_t most, struct str *out, struct err *e)
{
	char buf[1 << 16];

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t n;

		if (signals_stopped())
			return err_set(e, ERR_CANCELLED, "the command was stopped");
		if (poll(&p, 1, 100) <= 0)
			continue;
		n = read(fd, buf, sizeof buf);
		if (!n)
			return 0;
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return err_set(e, ERR_FAIL, "what the command prints cannot be read: %s", strerror(errno));
		if (n > 0)
			str_add(out, buf, (size_t)n);
		if (out->n > most)
			return err_set(e, ERR_FAIL, "the command printed more than %zu MiB", most >> 20);
	}
}

int external_run(const char *command, size_t most, struct str *out, int *status, struct err *e)
{
	const char *const argv[] = {"sh", "-c", command, NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	short flags;
	int pipes[2], rc;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return err_set(e, ERR_FAIL, "the command cannot be run: %s", strerror(errno));
	plain_signals(&attr);
	posix_spawnattr_getflags(&attr, &flags);
	posix_spawnattr_setpgroup(&attr, 0);   /* with its children it can be stopped, and Ctrl-C is for us */
	posix_spawnattr_setflags(&attr, (short)(flags | POSIX_SPAWN_SETPGROUP));
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, pipes[1], 1);
	posix_spawn_file_actions_adddup2(&files, pipes[1], 2);
	rc = posix_spawnp(&pid, "sh", &files, &attr, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	close(pipes[1]);
	if (rc) {
		close(pipes[0]);
		return err_set(e, ERR_FAIL, "the command cannot be run: %s", strerror(rc));
	}
	rc = read_output(pipes[0], most, out, e);
	if (rc < 0)
		kill(-pid, SIGKILL);
	close(pipes[0]);
	*status = wait_for(pid);
	return rc;
}

/* ---- the clipboard ---- */

/* Give it the text, but do not wait for a program that reads nothing. */
static int feed(int fd, const char *text, size_t n)
{
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (n) {
		struct pollfd p = {.fd = fd, .events = POLLOUT};
		ssize_t got;

		if (poll(&p, 1, 500) <= 0)
			return -1;
		got = write(fd, text, n);
		if (got < 0 && errno != EAGAIN && errno != EINTR)
			return -1;
		if (got > 0) {
			text += got;
			n -= (size_t)got;
		}
	}
	return 0;
}

/* A helper leaves a child of its own behind and ends; one that hangs at a dead desktop must not hang the screen. */
static int wait_a_second(pid_t pid, int now)
{
	int status;

	for (int i = 0; !now && i < 100; i++) {
		pid_t got = waitpid(pid, &status, WNOHANG);

		if (got == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
		if (got < 0 && errno != EINTR)
			return -1;
		poll(NULL, 0, 10);
	}
	kill(pid, SIGKILL);
	wait_for(pid);
	return -1;
}

static int give(const char *const *words, const char *text, size_t n)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	char *argv[6] = {0};
	int pipes[2], rc;
	pid_t pid;

	for (int i = 0; i < 5 && words[i]; i++)
		argv[i] = (char *)words[i];
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return -1;
	plain_signals(&attr);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, pipes[0], 0);
	posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	rc = posix_spawnp(&pid, argv[0], &files, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	close(pipes[0]);
	if (!rc) {
		rc = feed(pipes[1], text, n);
		close(pipes[1]);
		return wait_a_second(pid, rc < 0) == 0 && !rc ? 0 : -1;
	}
	close(pipes[1]);
	return -1;
}

const char *external_copy(const char *text, size_t n)
{
	static const struct { const char *env; const char *words[6]; } helpers[] = {
		{"WAYLAND_DISPLAY", {"wl-copy", NULL}},
		{"DISPLAY", {"xclip", "-selection", "clipboard", NULL}},
		{"DISPLAY", {"xsel", "--clipboard", "--input", NULL}},
	};
	const char *set;

	for (size_t i = 0; i < sizeof helpers / sizeof *helpers; i++)
		if ((set = getenv(helpers[i].env)) && *set && give(helpers[i].words, text, n) == 0)
			return helpers[i].words[0];
	return NULL;
}
