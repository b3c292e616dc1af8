/* app/options/config.c - reads and changes the config file. A line is KEY = VALUE, or a comment that begins with
 * #. Quotes around a value preserve its blanks. */
#include "app/options/options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/term/term.h"

static char *trim(char *s)
{
	size_t n;

	s += strspn(s, " \t\r\n");
	n = strlen(s);
	while (n && strchr(" \t\r\n", s[n - 1]))
		s[--n] = 0;
	return s;
}

/* Skip a byte order mark, which some editors write at the start of a file. */
static const char *after_mark(const char *line)
{
	return line + (strncmp(line, "\xef\xbb\xbf", 3) ? 0 : 3);
}

/* Open a regular file or a directory for reading. Returns NULL with errno EINVAL for pipes and devices, which
 * could block or never end. */
static FILE *open_lines(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	FILE *f;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) && (f = fdopen(fd, "r")))
		return f;
	close(fd);
	errno = EINVAL;
	return NULL;
}

/* Return the reason why open_lines() failed, from errno. */
static const char *not_opened(void)
{
	return errno == EINVAL ? "it is a pipe or a device; it must be a regular file" : strerror(errno);
}

/* Read the next line. Returns 1; 0 at the end; -1 if the file cannot be read (for example, because it is a
 * directory). */
static int next_line(FILE *f, const char *path, char **line, size_t *cap, struct err *e)
{
	errno = 0;
	if (getline(line, cap, f) >= 0)
		return 1;
	return ferror(f) ? err_set(e, ERR_USAGE, "cannot read config file '%.200s': %s", path, strerror(errno)) : 0;
}

static int unknown_key(const char *path, int number, const char *key, struct err *e)
{
	struct nearest near;

	nearest_init(&near, key, strlen(key));
	for (const struct option_def *d = option_defs; d->name; d++) {
		if (d->flags & OPT_CONFIG && d->key && key[0] == d->key && !key[1]) {
			near.best = d->name;
			break;
		}
		if (d->flags & OPT_CONFIG)
			nearest_try(&near, d->name);
		else if (!strcmp(d->name, key))
			return err_set(
				e, ERR_USAGE,
				"config file '%.200s' line %d: '%s' has no place in it, only on the command line", path,
				number, d->name);
	}
	if (near.best)
		return err_set(e, ERR_USAGE, "config file '%.200s' line %d: unknown key '%.40s'; is it '%s'?", path,
		               number, key, near.best);
	return err_set(
		e, ERR_USAGE,
		"config file '%.200s' line %d: unknown key '%.40s'; keys are the long names of options, see weir help options",
		path, number, key);
}

int config_read(struct options *o, struct err *e)
{
	struct str path = { 0 };
	char *line = NULL, *key, *value;
	size_t cap = 0;
	int number = 0, rc = 0, more;
	FILE *f;

	if (user_path(&path, DIR_CONFIG, "config", NULL))
		return 0;
	f = open_lines(path.p);
	if (!f) {
		if (errno != ENOENT && errno != ENOTDIR)
			rc = err_set(e, ERR_USAGE, "cannot read config file '%.200s': %s", path.p, not_opened());
		str_free(&path);
		return rc;
	}
	while (!rc && (more = next_line(f, path.p, &line, &cap, e)) != 0) {
		const struct option_def *d;
		char where[300];
		size_t n;

		if (more < 0) {
			rc = -1;
			break;
		}
		key = trim(line + (number++ ? 0 : after_mark(line) - line));
		if (!*key || *key == '#')
			continue;
		value = strchr(key, '=');
		if (!value) {
			rc = err_set(e, ERR_USAGE, "config file '%.200s' line %d: no '=' in it; lines read KEY = VALUE",
			             path.p, number);
			break;
		}
		*value++ = 0;
		key = trim(key);
		value = trim(value);
		n = strlen(value);
		if (n >= 2 && value[0] == '"' && value[n - 1] == '"') {
			value[n - 1] = 0;
			value++;
		}
		for (d = option_defs; d->name; d++)
			if ((d->flags & OPT_CONFIG) && !strcmp(d->name, key))
				break;
		/* An unknown key may belong to a newer version of weir: warn and skip the line. */
		if (!d->name) {
			struct err unknown = { 0 };

			unknown_key(path.p, number, key, &unknown);
			if (!o->quiet)
				say("%s; the line is left out", unknown.msg);
			continue;
		}
		snprintf(where, sizeof where, "config file '%.200s' line %d: '%s'", path.p, number, d->name);
		value = options_own(o, value, strlen(value));
		rc = option_set(o, d, where, d->type == OPT_POLICY ? policy_current(o, where, value) : value, e);
	}
	free(line);
	fclose(f);
	str_free(&path);
	return rc;
}

/* ---- saving one key ---- */

/* 1 if the line sets this key. */
static int sets_key(const char *line, const char *key)
{
	size_t n = strlen(key);

	line = after_mark(line);
	line += strspn(line, " \t");
	return !strncmp(line, key, n) && line[n + strspn(line + n, " \t")] == '=';
}

static void add_line(struct str *out, const char *key, const char *value)
{
	size_t n = strlen(value);
	int quoted = !n || strchr(" \t\"", value[0]) || strchr(" \t\"", value[n - 1]);

	str_addf(out, quoted ? "%s = \"%s\"\n" : "%s = %s\n", key, value);
}

/* Append the file's lines to *out, with `key` set to the new value. The first line that sets the key is replaced, and
 * other lines that set it are dropped. If there is no such line, one is added. */
static int changed_lines(const char *path, const char *key, const char *value, struct str *out, struct err *e)
{
	FILE *f = open_lines(path);
	char *line = NULL;
	size_t cap = 0;
	int placed = 0, rc = 0;

	if (!f && errno != ENOENT)
		return err_set(e, ERR_FAIL, "cannot read config file '%.200s': %s", path, not_opened());
	while (f && (rc = next_line(f, path, &line, &cap, e)) > 0) {
		if (!sets_key(line, key)) {
			str_adds(out, line);
			if (*line && line[strlen(line) - 1] != '\n')
				str_adds(out, "\n");
		} else if (!placed++) {
			add_line(out, key, value);
		}
	}
	if (!placed)
		add_line(out, key, value);
	free(line);
	if (f)
		fclose(f);
	return rc;
}

/* Replace the file atomically: write a temporary file, fsync, rename. */
static int replace_file(const char *path, const struct str *text, struct err *e)
{
	struct str next = { 0 };
	struct stat st;
	int fd, rc = 0;

	str_addf(&next, "%s.XXXXXX", path);
	fd = mkstemp(next.p);
	if (fd < 0 || fchmod(fd, stat(path, &st) ? 0600 : st.st_mode & 0777) || write_all(fd, text->p, text->n) ||
	    fsync(fd) || rename(next.p, path))
		rc = err_set(e, ERR_FAIL, "cannot write config file '%.200s': %s", path, strerror(errno));
	if (fd >= 0) {
		close(fd);
		if (rc)
			unlink(next.p);
	}
	str_free(&next);
	return rc;
}

int config_save(const struct option_def *d, const char *value, struct str *where, struct err *e)
{
	struct str text = { 0 };
	char *file;
	int rc;

	if (strpbrk(value, "\r\n"))
		return err_set(e, ERR_USAGE, "the config file cannot hold a value with a line break");
	if (user_path(where, DIR_CONFIG, "config", e))
		return -1;
	if (make_parents(where->p))
		return err_set(e, ERR_FAIL, "cannot make the folder of config file '%.200s': %s", where->p,
		               strerror(errno));
	/* If the config file is a symbolic link, keep the link and replace the file that it points to. */
	file = realpath(where->p, NULL);
	rc = changed_lines(file ? file : where->p, d->name, value, &text, e);
	if (!rc)
		rc = replace_file(file ? file : where->p, &text, e);
	free(file);
	str_free(&text);
	return rc;
}
