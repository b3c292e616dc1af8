/* app/term/external.c - runs other programs: the user's editor, shell commands, clipboard helpers.
 *
 * Programs are started with posix_spawn(), which is safe while other threads run. $EDITOR may contain arguments, so a
 * shell splits it. The shell gets the draft's folder as a parameter, so the folder's name needs no quoting. */
#include "app/term/term.h"

#include <dirent.h>
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

#include "kernels/os.h"

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

/* Start the program with default signal handlers and an empty signal mask. */
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

/* The shell script that runs the editor. If weir is killed while the editor runs, the script deletes the draft. The
 * trap keeps the script alive when the terminal is closed. */
static const char edit_script[] =
	"trap : HUP INT TERM; eval \"$1 \\\"\\$2/draft.md\\\"\"; status=$?; kill -0 \"$3\" 2>/dev/null || rm -rf -- \"$2\"; exit $status";

/* Run the editor on the terminal. The editor gets new descriptors 0 to 2, because the full screen redirects descriptor
 * 2 of this process (tui.c). Returns the exit status, or -1. */
static int run_editor(const char *editor, const char *folder)
{
	char self[24];
	const char *const argv[] = { "sh", "-c", edit_script, "sh", editor, folder, self, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	pid_t pid;
	int rc;

	snprintf(self, sizeof self, "%ld", (long)getpid());
	plain_signals(&attr);
	posix_spawn_file_actions_init(&files);
	for (int fd = 0; fd <= 2; fd++)
		posix_spawn_file_actions_addopen(&files, fd, "/dev/tty", O_RDWR, 0);
	rc = posix_spawnp(&pid, "sh", &files, &attr, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return rc ? -1 : wait_for(pid);
}

/* Make the folder for a draft, and write the folder's path to `path`. */
static int draft_folder(char *path, size_t cap, int in_memory, struct err *e)
{
	const char *const dirs[] = { getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), in_memory ? "/dev/shm" : "/tmp" };
	const char *dir = NULL;

	for (size_t i = 0; i < LEN(dirs) && !dir; i++)
		if (dirs[i] && *dirs[i] && !access(dirs[i], W_OK) && (!in_memory || os_in_memory(dirs[i])))
			dir = dirs[i];
	if (!dir && in_memory)
		return err_set(
			e, ERR_FAIL,
			"a draft of a private conversation goes into memory alone, and neither XDG_RUNTIME_DIR, TMPDIR nor /dev/shm is a file "
			"system there: write it in the input line");
	snprintf(path, cap, "%.400s/weir-XXXXXX", dir ? dir : "/tmp");
	return mkdtemp(path) ? 0
	                     : err_set(e, ERR_FAIL, "cannot make a folder for the draft in '%.200s': %s",
	                               dir ? dir : "/tmp", strerror(errno));
}

/* Delete the folder of the draft, with any backup files that the editor has left. */
static void remove_folder(const char *path)
{
	DIR *dir = opendir(path);

	for (struct dirent *d; dir && (d = readdir(dir));)
		unlinkat(dirfd(dir), d->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(path);
}

int external_edit(struct str *text, int in_memory, struct err *e)
{
	const char *editor = getenv("VISUAL");
	struct str got = { 0 };
	char folder[512], path[600];
	int fd, rc;

	if (!editor || !*editor)
		editor = getenv("EDITOR");
	if (!editor || !*editor)
		editor = "vi";
	if (draft_folder(folder, sizeof folder, in_memory, e))
		return -1;
	snprintf(path, sizeof path, "%s/draft.md", folder);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	rc = fd < 0 ? -1 : write_all(fd, str_text(text), text->n);
	if (!rc && text->n)
		rc = write_all(fd, "\n", 1); /* end the text with a newline, because it becomes a text file */
	if (rc < 0)
		err_set(e, ERR_FAIL, "cannot write the draft: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	if (!rc && run_editor(editor, folder))
		rc = err_set(e, ERR_FAIL, "the editor '%.60s' failed; set EDITOR to another one", editor);
	else if (!rc)
		rc = read_whole(path, DRAFT_MOST, &got, e);
	remove_folder(folder);
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

/* Read the command's output to its end. Returns 0; -1 if it has more than `most` bytes, or if the user stops it
 * (signals_stopped()). */
static int read_output(int fd, size_t most, int seconds, struct str *out, struct err *e)
{
	double until = now_seconds() + seconds;
	char buf[1 << 16];

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n;

		if (signals_stopped())
			return err_set(e, ERR_CANCELLED, "the command was stopped");
		if (now_seconds() > until)
			return 1;
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

int external_run(const char *command, size_t most, int seconds, struct str *out, int *status, struct err *e)
{
	const char *const argv[] = { "sh", "-c", command, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	short flags;
	int pipes[2], rc;
	pid_t pid;

	if (os_pipe(pipes, 0) < 0)
		return err_set(e, ERR_FAIL, "the command cannot be run: %s", strerror(errno));
	plain_signals(&attr);
	posix_spawnattr_getflags(&attr, &flags);
	/* Start a new process group. Ctrl-C then reaches only weir, which kills the command and its children. */
	posix_spawnattr_setpgroup(&attr, 0);
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
	rc = read_output(pipes[0], most, seconds, out, e);
	if (rc)
		kill(-pid, SIGKILL);
	close(pipes[0]);
	*status = wait_for(pid);
	return rc;
}

/* ---- the clipboard ---- */

/* Write the text to the pipe of a clipboard helper. Returns 0; -1 if the helper reads nothing for half a second. */
static int pipe_write(int fd, const char *text, size_t n)
{
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (n) {
		struct pollfd p = { .fd = fd, .events = POLLOUT };
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

/* Wait for a clipboard helper to exit. A helper that has not exited after a second is killed, so that a hanging desktop
 * cannot block the screen. If `now` is 1, kill it at once. Returns the exit status. (A child process of the helper
 * stays and serves the clipboard.) */
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

static int helper_run(const char *const *words, const char *text, size_t n)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	char *argv[6] = { 0 };
	int pipes[2], rc;
	pid_t pid;

	for (int i = 0; i < 5 && words[i]; i++)
		argv[i] = (char *)words[i];
	if (os_pipe(pipes, 0) < 0)
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
		rc = pipe_write(pipes[1], text, n);
		close(pipes[1]);
		return wait_a_second(pid, rc < 0) == 0 && !rc ? 0 : -1;
	}
	close(pipes[1]);
	return -1;
}

struct helper {
	const char *env, *name;
	const char *words[6];
};

/* Pass the text to the first helper that accepts it. Returns the helper's name, or NULL. */
static const char *helpers_try(const struct helper *h, const char *text, size_t n)
{
	const char *set;

	for (; h->env; h++)
		if ((set = getenv(h->env)) && *set && helper_run(h->words, text, n) == 0)
			return h->name;
	return NULL;
}

const char *external_copy(const char *text, size_t n)
{
	static const struct helper desktop[] = {
		{ "WAYLAND_DISPLAY", "wl-copy", { "wl-copy", NULL } },
		{ "DISPLAY", "xclip", { "xclip", "-selection", "clipboard", NULL } },
		{ "DISPLAY", "xsel", { "xsel", "--clipboard", "--input", NULL } },
		{ 0 },
	};
	/* -w (tmux 3.2 and later) also sets the terminal's clipboard, if the user's tmux allows it */
	static const struct helper tmux[] = {
		{ "TMUX", "tmux", { "tmux", "load-buffer", "-w", "-", NULL } },
		{ "TMUX", "tmux", { "tmux", "load-buffer", "-", NULL } },
		{ 0 },
	};
	static const struct {
		const char *by, *both;
	} names[] = {
		{ "wl-copy", "wl-copy and tmux" },
		{ "xclip", "xclip and tmux" },
		{ "xsel", "xsel and tmux" },
	};
	const char *by = helpers_try(desktop, text, n);

	if (!helpers_try(tmux, text, n))
		return by;
	for (size_t i = 0; by && i < LEN(names); i++)
		if (!strcmp(by, names[i].by))
			return names[i].both;
	return "tmux";
}
