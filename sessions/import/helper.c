/* sessions/import/helper.c - runs the jailed parser (jailed.c) in a child process and checks its output.
 *
 * The child is this program, started a second time. It reads the document from standard input and writes records to a
 * pipe. A record is a letter, four bytes of length, and that many bytes. The letters:
 *
 *     T  text;
 *     M  mark: kind, level, 8 bytes of offset, label;
 *     P  number of pages;
 *     N  notices for the user;
 *     L  lines left out;
 *     E  why the parser failed;
 *     Z  end of the output.
 *
 * The records are untrusted: lengths, offsets and UTF-8 are checked. A child that takes too long or sends too much is
 * killed. For a PDF, pdftohtml and pdftotext run in such children, too. They print into a pipe that another child
 * parses. */
#include "sessions/import/import_private.h"
#include "engine/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROBE           "probe" /* type of a child that parses nothing and only reports the jail */
#define WALL_SECONDS    50.0
#define OUTLINE_SECONDS 10.0         /* time limit for a PDF's outline, without which a PDF can be read, too */
#define OUTPUT_MAX      (160u << 20) /* largest output of the child in bytes: text, marks and notices */
#define MARKS_MAX       2000000u
#define STDERR_MAX      4096

struct child {
	pid_t pid;
	int out, err;       /* pipes; -1: closed, or another child reads it */
	struct str message; /* standard error so far */
	int no_tables;      /* 1: pdftotext has reported that it lacks tables for Chinese, Japanese or Korean fonts */
	char *p;            /* standard output so far */
	size_t n, cap;
	const char *why; /* why this process killed the child; NULL: it did not */
	int stopped;     /* killed because the user stopped the import */
	int status;
};

/* Copy the document to an anonymous file in memory. */
static int document_file(const char *p, size_t n)
{
	int fd = memfd_create("document", MFD_CLOEXEC);

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

static int spawn_helper(struct child *c, const char *type, const char *program, int in, int out, int err)
{
	char *argv[] = { (char *)(uintptr_t) "weir", (char *)(uintptr_t)helper_argument, (char *)(uintptr_t)type,
		         (char *)(uintptr_t)program, NULL };
	char *env[] = { NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int rc;

	sigemptyset(&none);
	sigfillset(&all);
	if (posix_spawn_file_actions_init(&files))
		return -1;
	if (posix_spawnattr_init(&attr)) {
		posix_spawn_file_actions_destroy(&files);
		return -1;
	}
	/* SETSID: Ctrl-C in the terminal reaches only the parent, which then kills the child. */
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
	posix_spawn_file_actions_addchdir_np(&files, "/");
	rc = posix_spawn(&c->pid, "/proc/self/exe", &files, &attr, argv, env);
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

/* Start a child whose standard input is `in`. Its standard output is `out`, or for -1 a new pipe that listen_to()
 * reads. */
static int start_reader(struct child *c, const char *type, const char *program, int in, int out)
{
	int fd[4] = { -1, -1, -1, -1 }; /* two pipes */

	*c = (struct child){ .pid = -1, .out = -1, .err = -1 };
	if (in < 0 || (out < 0 && pipe2(fd, O_CLOEXEC)) || pipe2(fd + 2, O_CLOEXEC) ||
	    spawn_helper(c, type, program, in, out < 0 ? fd[1] : out, fd[3])) {
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

static int start_child(struct child *c, const char *type, const char *program, const char *p, size_t n)
{
	int in = document_file(p, n), rc = start_reader(c, type, program, in, -1), why = errno;

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

/* Read what the child's standard output has by now. Returns 0 at its end and on errors. */
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
	if (c->n > OUTPUT_MAX)
		kill_child(c, "it holds too much text");
	return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

static int take_message(struct child *c)
{
	char buf[4096];
	ssize_t got = read(c->err, buf, sizeof buf);

	if (got > 0 && c->message.n < STDERR_MAX)
		str_add(&c->message, buf, (size_t)got);
	/* The message may be cut between two reads and be missed, but pdftotext repeats it for each font. */
	c->no_tables |= got > 0 && memmem(buf, (size_t)got, "Missing language pack", 21) != NULL;
	return got > 0 || (got < 0 && errno == EINTR);
}

static void close_pipe(int *fd)
{
	close_all(fd, 1);
	*fd = -1;
}

static void wait_for(struct child *c)
{
	close_pipe(&c->out);
	close_pipe(&c->err);
	while (waitpid(c->pid, &c->status, 0) < 0 && errno == EINTR)
		;
	c->pid = -1;
}

/* 1 if a child has closed its pipes and not ended yet. A hostile one may never end. */
static int is_ending(struct child *c)
{
	if (c->pid > 0 && c->out < 0 && c->err < 0 && waitpid(c->pid, &c->status, WNOHANG) == c->pid)
		c->pid = -1;
	return c->pid > 0 && c->out < 0 && c->err < 0;
}

/* Read the pipes of one or two children to their ends and wait for the children. After so many seconds, kill the first
 * of them that still runs, and return; the other one may run on. */
static void listen_to(struct child *c, struct child *second, double seconds)
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
				close_pipe(&all[i]->out);
			if (fd[2 * i + 1].fd >= 0 && fd[2 * i + 1].revents && !take_message(all[i]))
				close_pipe(&all[i]->err);
		}
	}
}

/* Write why the child ended without a complete output, as a clause for an error message. */
static void describe_ending(const struct child *c, char *out, size_t cap)
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

/* ---- records ---- */

struct records {
	struct doc *d;
	struct str error;
	int end;
};

static int valid_text(const char *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		int32_t cp;
		i += (size_t)utf8_decode(p + i, n - i, &cp);
		if (cp <= 0)
			return 0;
	}
	return 1;
}

static int take_mark(struct doc *d, const char *p, size_t n)
{
	uint64_t at;

	if (n < 10 || p[0] < 0 || p[0] > MARK_HEADING || p[1] < 0 || p[1] > 6 || d->n_mark >= MARKS_MAX ||
	    !valid_text(p + 10, n - 10))
		return -1;
	memcpy(&at, p + 2, 8);
	if (at > d->text.n || (at < d->text.n && utf8_continues(d->text.p[at])))
		return -1;
	doc_mark(d, (enum mark_kind)p[0], p[1], (size_t)at, p + 10, n - 10);
	return 0;
}

static int take_record(struct records *r, char tag, const char *p, size_t n, int raw)
{
	struct doc *d = r->d;

	switch (tag) {
	case 'T':
		if (n > DOC_BYTES_MAX || d->text.n || !(raw || valid_text(p, n)))
			return -1;
		str_add(&d->text, p, n);
		return 0;
	case 'M': return take_mark(d, p, n);
	case 'P':
		if (n != 4)
			return -1;
		memcpy(&d->pages, p, 4);
		return d->pages < 0 ? -1 : 0;
	case 'N':
		if (n > 65536 || !valid_text(p, n))
			return -1;
		str_add(&d->notices, p, n);
		return 0;
	case 'L':
		if (n > DOC_BYTES_MAX || !valid_text(p, n))
			return -1;
		str_add(&d->left_out, p, n);
		return 0;
	case 'E':
		if (n > sizeof((struct err *)0)->msg || !valid_text(p, n) || r->error.n)
			return -1;
		str_add(&r->error, p, n);
		return 0;
	case 'Z': r->end = 1; return 0;
	}
	return -1;
}

/* Parse all records: 0, or -1 = incomplete or invalid. */
static int take_records(struct records *r, const char *p, size_t n, int raw)
{
	int32_t pages = 0;

	while (n >= 5 && !r->end) {
		uint32_t len;
		memcpy(&len, p + 1, 4);
		if (len > n - 5 || take_record(r, *p, p + 5, len, raw))
			return -1;
		if (*p == 'P')
			pages = r->d->pages;
		p += 5 + len;
		n -= 5 + (size_t)len;
	}
	r->d->pages = pages; /* doc_mark() counted pages, too; the record is right */
	return r->end && !n ? 0 : -1;
}

/* ---- pdftotext ---- */

/* Find a program in PATH; the caller frees the result. */
static char *find_program(const char *name)
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

static int pdf_refused(const struct child *c, const char *name, struct err *e)
{
	const char *said = str_text(&c->message);
	char why[160];

	if (strstr(said, "ncorrect password") || strstr(said, "nsupported security") || strstr(said, "ncrypted"))
		return err_set(
			e, ERR_DOCUMENT,
			"document '%s' is encrypted: its text cannot be read without the password (qpdf --decrypt writes a copy without it)",
			name);
	if (WIFEXITED(c->status) && WEXITSTATUS(c->status) == 127)
		return err_set(e, ERR_DOCUMENT, "document '%s' cannot be read: pdftotext cannot be started", name);
	if (WIFEXITED(c->status) && WEXITSTATUS(c->status) == 3)
		return err_set(e, ERR_DOCUMENT, "document '%s' does not permit that its text is copied", name);
	if (WIFEXITED(c->status) && !c->why)
		return err_set(
			e, ERR_DOCUMENT,
			"document '%s' is a damaged PDF: pdftotext cannot read it (qpdf or mutool clean may repair it)",
			name);
	describe_ending(c, why, sizeof why);
	return err_set(e, ERR_DOCUMENT, "document '%s' cannot be read: %s", name, why);
}

/* ---- results ---- */

static int finish_child(struct child *c, const char *name, int raw, struct doc *d, struct err *e)
{
	struct records r = { .d = d };
	char why[160];
	int rc = 0;

	if (take_records(&r, c->p, c->n, raw)) {
		describe_ending(c, why, sizeof why);
		rc = err_set(e, ERR_DOCUMENT, "document '%s' cannot be read: %s", name, why);
	} else if (r.error.n) {
		rc = err_set(e, ERR_DOCUMENT, "document '%s' %s", name, r.error.p);
	}
	str_free(&r.error);
	return rc;
}

static int failed_to_start(const char *name, struct err *e)
{
	return err_set(e, ERR_DOCUMENT, "document '%s' cannot be read: no second process (%s)", name, strerror(errno));
}

static void free_child(struct child *c)
{
	free(c->p);
	str_free(&c->message);
}

/* Report the result of a PDF, when both children have ended: `text` executed pdftotext, and `parser` parsed what it
 * printed. */
static int finish_pdf(struct child *text, struct child *parser, const char *name, struct doc *d, struct err *e)
{
	int complete = !text->why && WIFEXITED(text->status) && WEXITSTATUS(text->status) == 0;
	/* SIGPIPE: the parser ended early, so pdftotext could not write on. */
	int parser_failed = WIFSIGNALED(text->status) && WTERMSIG(text->status) == SIGPIPE;

	if (WIFEXITED(text->status) && WEXITSTATUS(text->status) == EXIT_NO_JAIL)
		return err_set(e, ERR_DOCUMENT, "document '%s' %s", name, str_text(&text->message));
	if (finish_child(parser, name, 0, d, e))
		return complete || parser_failed || d->pages ? -1 : pdf_refused(text, name, e);
	if (text->no_tables)
		doc_note(
			d,
			"text in Chinese, Japanese or Korean fonts is missing: install poppler-data and read it again");
	if (!complete) {
		char reason[160];
		describe_ending(text, reason, sizeof reason);
		doc_note(d, "the text ends on page %d: %s", d->pages, reason);
	}
	return 0;
}

/* Convert a PDF with three jailed children. pdftohtml prints the outline, and then pdftotext prints the words, into one
 * pipe. The parser reads that pipe. */
static int convert_pdf(const char *name, const char *p, size_t n, struct doc *d, struct err *e)
{
	char *program = find_program("pdftotext"), *outliner = find_program("pdftohtml");
	const char *type = doc_type_name[DOC_PDF];
	struct child text = { .pid = -1 }, outline = { .pid = -1 }, parser = { .pid = -1 };
	int file = -1, way[2] = { -1, -1 }, rc;

	if (!program) {
		rc = err_set(e, ERR_DOCUMENT,
		             "document '%s' is a PDF: install pdftotext (package poppler-utils) to read it", name);
	} else if ((file = document_file(p, n)) < 0 || pipe2(way, O_CLOEXEC) ||
	           start_reader(&parser, type, NULL, way[0], -1)) {
		rc = failed_to_start(name, e);
	} else {
		close_pipe(&way[0]);
		if (outliner && !start_reader(&outline, type, outliner, file, way[1]))
			listen_to(&outline, NULL, OUTLINE_SECONDS);
		lseek(file, 0, SEEK_SET); /* the children share the file's offset, which the first one has moved */
		rc = start_reader(&text, type, program, file, way[1]) ? failed_to_start(name, e) : 0;
		close_pipe(&way[1]);
		if (!rc)
			listen_to(&text, &parser, WALL_SECONDS);
		if (parser.pid > 0)
			listen_to(&parser, NULL, WALL_SECONDS);
		if (text.stopped || parser.stopped)
			rc = import_refuse_stopped(name, e);
		else if (!rc)
			rc = finish_pdf(&text, &parser, name, d, e);
	}
	close_all(way, 2);
	close_all(&file, 1);
	free_child(&text);
	free_child(&outline);
	free_child(&parser);
	free(program);
	free(outliner);
	return rc;
}

int helper_convert(enum doc_type type, const char *name, const char *p, size_t n, struct doc *d, struct err *e)
{
	struct child c = { .pid = -1 };
	int rc;

	*d = (struct doc){ .type = type };
	if (type == DOC_PDF) {
		rc = convert_pdf(name, p, n, d, e);
	} else if (start_child(&c, doc_type_name[type], NULL, p, n)) {
		rc = failed_to_start(name, e);
	} else {
		listen_to(&c, NULL, WALL_SECONDS);
		rc = c.stopped ? import_refuse_stopped(name, e) : finish_child(&c, name, type == DOC_GZIP, d, e);
	}
	if (rc)
		doc_free(d);
	free_child(&c);
	return rc;
}

int doc_jail(struct str *out, struct err *e)
{
	struct child c = { .pid = -1 };
	struct doc d = { 0 };
	int rc;

	if (start_child(&c, PROBE, NULL, "", 0))
		return err_set(e, ERR_DOCUMENT, "documents cannot be parsed: no second process (%s)", strerror(errno));
	listen_to(&c, NULL, WALL_SECONDS);
	rc = finish_child(&c, "", 0, &d, e);
	if (!rc)
		str_add(out, str_text(&d.text), d.text.n);
	doc_free(&d);
	free_child(&c);
	return rc;
}

int helper_model(const char *path, struct err *e)
{
	struct child c = { .pid = -1 };
	struct doc none = { 0 };
	struct records r = { .d = &none };
	char why[160];
	int rc = 1;

	if (!start_child(&c, helper_model_type, path, "", 0)) {
		listen_to(&c, NULL, WALL_SECONDS);
		rc = 0;
		if (c.stopped) {
			rc = err_set(e, ERR_CANCELLED, "stopped");
		} else if (take_records(&r, c.p, c.n, 0)) {
			describe_ending(&c, why, sizeof why);
			rc = err_set(
				e, ERR_MODEL,
				"file '%.300s' cannot be read: %s; this is a damaged or harmful model file, of which nothing was loaded",
				path, why);
		} else if (r.error.n) {
			rc = 1;
		}
	}
	str_free(&r.error);
	free_child(&c);
	return rc;
}
