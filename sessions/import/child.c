/* sessions/import/child.c - starts jailed child processes and reads what they print (child.h). */
#include "sessions/import/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/os.h"

#define OUTPUT_MAX (160u << 20) /* largest output of a child in bytes: text, marks and notices */
#define STDERR_MAX 4096
#define WORDS_MAX  24 /* maximum number of words of a child's command line */

int child_file(const char *p, size_t n)
{
	int fd = os_memory_file("document");

	while (fd >= 0 && n) {
		ssize_t put = write(fd, p, n);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0) {
			close(fd);
			return -1;
		}
		p += put;
		n -= (size_t)put;
	}
	if (fd >= 0)
		lseek(fd, 0, SEEK_SET);
	return fd;
}

static int spawn_helper(struct child *c, const char *type, const char *const *more, int in, int out, int err)
{
	const char *argv[WORDS_MAX] = { "weir", helper_argument, type };
	char *env[] = { NULL };
	int n = 3;
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;
	const char *self = os_self();
	int rc;

	for (; more && *more && n < WORDS_MAX - 1; more++)
		argv[n++] = *more;
	sigemptyset(&none);
	sigfillset(&all);
	if (!self || posix_spawn_file_actions_init(&files))
		return -1;
	if (posix_spawnattr_init(&attr)) {
		posix_spawn_file_actions_destroy(&files);
		return -1;
	}
	/* SETSID: Ctrl-C in the terminal then reaches only the parent, which kills the child. */
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
	posix_spawn_file_actions_addchdir_np(&files, "/");
	rc = posix_spawn(&c->pid, self, &files, &attr, (char *const *)(uintptr_t)argv, env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	errno = rc;
	return rc ? -1 : 0;
}

static void close_all(int *fd, int n)
{
	for (int i = 0; i < n; i++)
		if (fd[i] >= 0)
			close(fd[i]);
}

int child_start(struct child *c, const char *type, const char *const *more, int in, int out)
{
	int fd[4] = { -1, -1, -1, -1 }; /* pipes for standard output and standard error */

	*c = (struct child){ .pid = -1, .out = -1, .err = -1, .most = OUTPUT_MAX };
	if (in < 0 || (out < 0 && os_pipe(fd, 0)) || os_pipe(fd + 2, 0) ||
	    spawn_helper(c, type, more, in, out < 0 ? fd[1] : out, fd[3])) {
		int why = errno;
		c->pid = -1;
		close_all(fd, 4);
		errno = why;
		return -1;
	}
	c->out = fd[0];
	c->err = fd[2];
	close_all(fd + 1, 1);
	close(fd[3]);
	return 0;
}

int child_start_on(struct child *c, const char *type, const char *const *more, const char *p, size_t n)
{
	int in = child_file(p, n), rc = child_start(c, type, more, in, -1), why = errno;

	close_all(&in, 1);
	errno = why;
	return rc;
}

static void kill_child(struct child *c, const char *why)
{
	if (!c->why)
		kill(-c->pid, SIGKILL);
	c->why = why;
}

/* Read the bytes that are ready on the child's standard output. Returns 0 at the end of the output and on errors. */
static int take_output(struct child *c)
{
	ssize_t got;

	if (c->cap - c->n < 65536) {
		size_t cap = c->cap ? 2 * c->cap : 1u << 18;
		char *p = realloc(c->p, cap + 1);
		if (!p) {
			kill_child(c, "there is no memory for its text");
			return 0;
		}
		c->p = p;
		c->cap = cap;
	}
	got = read(c->out, c->p + c->n, c->cap - c->n);
	if (got > 0)
		c->n += (size_t)got;
	if (c->n > c->most)
		kill_child(c, "it holds too much text");
	return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

static int take_message(struct child *c)
{
	char buf[4096];
	ssize_t got = read(c->err, buf, sizeof buf);

	if (got > 0 && c->message.n < STDERR_MAX)
		str_add(&c->message, buf, (size_t)got);
	/* a message that is split between two reads is missed, but pdftotext repeats the message for each font */
	c->no_tables |= got > 0 && memmem(buf, (size_t)got, "Missing language pack", 21) != NULL;
	return got > 0 || (got < 0 && errno == EINTR);
}

void child_close(int *fd)
{
	close_all(fd, 1);
	*fd = -1;
}

static void wait_for(struct child *c)
{
	child_close(&c->out);
	child_close(&c->err);
	while (waitpid(c->pid, &c->status, 0) < 0 && errno == EINTR)
		;
	c->pid = -1;
}

/* 1 if a child has closed its pipes but still runs. A hostile child may never exit. */
static int is_ending(struct child *c)
{
	if (c->pid > 0 && c->out < 0 && c->err < 0 && waitpid(c->pid, &c->status, WNOHANG) == c->pid)
		c->pid = -1;
	return c->pid > 0 && c->out < 0 && c->err < 0;
}

void child_listen(struct child *c, struct child *second, double seconds)
{
	struct child *all[] = { c, second };
	double until = now_seconds() + seconds;

	for (;;) {
		struct pollfd fd[4];
		int n = 0, wait = STOP_EVERY_MS;
		double left = until - now_seconds();
		for (int i = 0; i < 2; i++) {
			struct child *one = all[i];
			if (one && one->pid > 0 && one->why)
				wait_for(one);
			else if (one && is_ending(one))
				wait = 1;
			fd[2 * i] = (struct pollfd){ .fd = one ? one->out : -1, .events = POLLIN };
			fd[2 * i + 1] = (struct pollfd){ .fd = one ? one->err : -1, .events = POLLIN };
			n += one && one->pid > 0;
		}
		if (!n)
			return;
		if (left <= 0) {
			struct child *late = c->pid > 0 ? c : second;
			kill_child(late, "parsing took longer than 50 seconds");
			wait_for(late);
			return;
		}
		if (import_stopped()) {
			for (int i = 0; i < 2; i++)
				if (all[i] && all[i]->pid > 0) {
					all[i]->stopped = 1;
					kill_child(all[i], "stopped");
				}
			continue;
		}
		if (poll(fd, 4, left * 1000 < wait ? (int)(left * 1000) + 1 : wait) <= 0)
			continue;
		for (int i = 0; i < 2; i++) {
			if (fd[2 * i].fd >= 0 && fd[2 * i].revents && !take_output(all[i]))
				child_close(&all[i]->out);
			if (fd[2 * i + 1].fd >= 0 && fd[2 * i + 1].revents && !take_message(all[i]))
				child_close(&all[i]->err);
		}
	}
}

void child_describe(const struct child *c, char *out, size_t cap)
{
	if (c->why)
		snprintf(out, cap, "%s", c->why);
	else if (WIFSIGNALED(c->status) && (WTERMSIG(c->status) == SIGXCPU || WTERMSIG(c->status) == SIGKILL))
		snprintf(out, cap, "parsing took too much processor time");
	else if (WIFSIGNALED(c->status) && WTERMSIG(c->status) == SIGSYS)
		snprintf(out, cap, "the parser did what its jail forbids and was stopped");
	else if (WIFSIGNALED(c->status))
		snprintf(out, cap, "the parser crashed (signal %d)", WTERMSIG(c->status));
	else
		snprintf(out, cap, "the parser stopped (it is damaged, or needs more than 1 GiB of memory)");
}

char *program_find(const char *name)
{
	const char *path = getenv("PATH");

	for (path = path && *path ? path : "/usr/local/bin:/usr/bin:/bin"; *path;) {
		size_t k = strcspn(path, ":");
		struct str s = { 0 };
		struct stat st;
		str_add(&s, path, k);
		str_addf(&s, "/%s", name);
		if (*path == '/' && !access(s.p, X_OK) && !stat(s.p, &st) && S_ISREG(st.st_mode))
			return s.p;
		str_free(&s);
		path += k + (path[k] == ':');
	}
	return NULL;
}

int child_failed_to_start(const char *name, struct err *e)
{
	return err_set(e, ERR_DOCUMENT, "document '%s' cannot be read: no second process (%s)", name, strerror(errno));
}

void child_free(struct child *c)
{
	free(c->p);
	str_free(&c->message);
}
