/* sessions/import/ignore.c - tells which files git ignores, by the patterns of .gitignore files (gitignore(5)).
 *
 * The patterns of a .gitignore hold for its folder and the folders below. Of all patterns that match a path, the last
 * one in the .gitignore of the deepest folder decides. A bracket expression that contains a slash matches nothing here,
 * although git accepts it.
 *
 * Patterns are untrusted: their number and length are limited. The time of a match is bounded by the number of segments
 * of the pattern times the number of segments of the path. */
#include "sessions/import/import_private.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	FILE_MOST = 262144,  /* maximum number of bytes that are read of a .gitignore */
	PATTERN_MOST = 1024, /* maximum length of a pattern; a longer pattern is left out */
	ABOVE_MOST = 64,     /* maximum number of folders above the listed one in which .git is looked for */
};

/* ---- one pattern ---- */

/* 1 if all bracket expressions of a pattern's segment are closed. In git, a pattern with an open bracket matches
 * nothing. */
static int brackets_closed(const char *p)
{
	for (; *p; p++) {
		if (*p == '\\' && p[1]) {
			p++;
		} else if (*p == '[') {
			p += p[1] == '!' || p[1] == '^' ? 2 : 1;
			/* a ']' directly after the '[' stands for itself */
			for (int first = 1; *p && (first || *p != ']'); first = 0, p++)
				if (*p == '\\' && p[1])
					p++;
				else if (*p == '[' && p[1] == ':' && strstr(p + 2, ":]"))
					p = strstr(p + 2, ":]") + 1;
			if (!*p)
				return 0;
		}
	}
	return 1;
}

/* Copy the first segment of a path or pattern to out[]. A segment ends at '/' or at the end. Returns the length of the
 * segment; -1 = it is too long. */
static long segment(const char *p, char out[PATTERN_MOST + 1])
{
	size_t n = strcspn(p, "/");

	if (n > PATTERN_MOST)
		return -1;
	memcpy(out, p, n);
	out[n] = 0;
	return (long)n;
}

/* 1 if the first segment of a pattern matches the first segment of a path. *next_pattern and *next receive pointers to
 * the next segments of pattern and path; NULL = there is none. */
static int segment_matches(const char *pattern, const char *path, const char **next_pattern, const char **next)
{
	char a[PATTERN_MOST + 1], b[PATTERN_MOST + 1];
	long n = segment(pattern, a), m = segment(path, b);

	if (n < 0 || m < 0 || !brackets_closed(a) || fnmatch(a, b, 0))
		return 0;
	*next_pattern = pattern[n] ? pattern + n + 1 : NULL;
	*next = path[m] ? path + m + 1 : NULL;
	return 1;
}

static int is_any_folders(const char *pattern)
{
	return pattern[0] == '*' && pattern[1] == '*' && (pattern[2] == '/' || !pattern[2]);
}

/* Match a path with a pattern, segment by segment. A segment "**" stands for any number of folders; at the end of the
 * pattern it stands for at least one name. If the rest of the pattern does not match the rest of the path, the last
 * "**" is tried with one more folder. An earlier "**" need not be tried again. */
static int path_matches(const char *pattern, const char *path)
{
	const char *again = NULL, *again_path = NULL;

	for (;;) {
		if (pattern && is_any_folders(pattern)) {
			if (!pattern[2])
				return path != NULL;
			again = pattern += 3;
			again_path = path;
		} else if (!pattern && !path) {
			return 1;
		} else if (!pattern || !path || !segment_matches(pattern, path, &pattern, &path)) {
			if (!again_path || !(again_path = strchr(again_path, '/')))
				return 0;
			pattern = again;
			path = ++again_path;
		}
	}
}

/* ---- one file of patterns ---- */

struct ignore_rule {
	char *pattern;
	int unless; /* 1: the pattern begins with "!", so a path that matches is not ignored */
	int folder; /* 1: the pattern matches only folders */
	/* 1: the pattern is matched with the name of a file; 0: with the file's path below the folder of the
	 * .gitignore */
	int anywhere;
};

/* Parse one line, which ends with a NUL. Returns 1 and sets *r, whose strings point into the line; 0 = the line has no
 * pattern. */
static int rule_parse(char *line, struct ignore_rule *r)
{
	size_t n = strlen(line), kept = 0;

	*r = (struct ignore_rule){ .unless = *line == '!' };
	if (*line == '#' || n > PATTERN_MOST)
		return 0;
	line += r->unless;
	/* blanks at the end are not part of the pattern, unless a backslash precedes the first of them */
	for (size_t i = 0; line[i]; i++)
		if (line[i] == '\\' && line[i + 1])
			kept = ++i + 1;
		else if (line[i] != ' ')
			kept = i + 1;
	line[kept] = 0;
	if (kept && line[kept - 1] == '/') {
		line[--kept] = 0;
		r->folder = 1;
	}
	r->anywhere = !strchr(line, '/');
	r->pattern = line + (*line == '/');
	return *line != 0;
}

struct ignore_file {
	size_t base; /* length of the folder's path, with the slash after it */
	int level;   /* level of the .gitignore's folder, as given to ignores_enter() */
	struct str text;
	struct ignore_rule *rule; /* [n_rule] the rules in the order of the file; their strings are in `text` */
	size_t n_rule, cap;
};

static void file_parse(struct ignore_file *f)
{
	char *p = f->text.p, *end = p + f->text.n;

	if (f->text.n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		p += 3;
	while (p < end) {
		char *nl = memchr(p, '\n', (size_t)(end - p));
		struct ignore_rule r;

		nl = nl ? nl : end; /* the last line may have no newline: struct str keeps a NUL after its end */
		*nl = 0;
		if (nl > p && nl[-1] == '\r')
			nl[-1] = 0;
		if (rule_parse(p, &r)) {
			GROW(f->rule, f->n_rule, f->cap);
			f->rule[f->n_rule++] = r;
		}
		p = nl + 1;
	}
}

/* Read up to FILE_MOST bytes of a regular file. Returns 0; -1 = there is no such file, the path is a link, or nothing
 * was read. */
static int file_read(const char *path, struct str *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	char buf[4096];
	struct stat st;
	ssize_t got = -1;

	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode))
		while (out->n < FILE_MOST && (got = read(fd, buf, sizeof buf)) > 0)
			str_add(out, buf, (size_t)got);
	if (fd >= 0)
		close(fd);
	return out->n ? 0 : -1;
}

/* Match a path with the patterns of a file. Returns 1 if git ignores the path. Returns 0 if the last pattern that
 * matches has "!", so that git does not ignore the path. Returns -1 if no pattern matches. */
static int file_tells(const struct ignore_file *f, const char *path, int is_folder)
{
	const char *name = strrchr(path, '/') + 1;

	for (size_t i = f->n_rule; i--;) {
		const struct ignore_rule *r = &f->rule[i];

		if (r->folder && !is_folder)
			continue;
		if (r->anywhere ? brackets_closed(r->pattern) && !fnmatch(r->pattern, name, 0)
		                : path_matches(r->pattern, path + f->base))
			return !r->unless;
	}
	return -1;
}

/* ---- .gitignore files of a folder and the folders above it ---- */

static void ignores_drop(struct ignores *g)
{
	struct ignore_file *f = &g->at[--g->n];

	str_free(&f->text);
	free(f->rule);
}

void ignores_enter(struct ignores *g, const char *folder, int level)
{
	struct ignore_file f = { .base = strlen(folder) + 1, .level = level };
	struct str path = { 0 };

	ignores_leave(g, level);
	str_addf(&path, "%s/.gitignore", folder);
	if (!file_read(path.p, &f.text)) {
		file_parse(&f);
		GROW(g->at, g->n, g->cap);
		g->at[g->n++] = f;
	}
	str_free(&path);
}

void ignores_leave(struct ignores *g, int level)
{
	while (g->n && g->at[g->n - 1].level >= level)
		ignores_drop(g);
}

void ignores_above(struct ignores *g, const char *folder)
{
	struct str path = { 0 };
	size_t end[ABOVE_MOST]; /* lengths of the paths of the folders above, the nearest first */
	int n = 0, inside = 0;

	for (size_t i = strlen(folder); n < ABOVE_MOST && !inside;) {
		str_clear(&path);
		str_add(&path, folder, i);
		str_adds(&path, "/.git");
		inside = !access(path.p, F_OK);
		while (i && folder[--i] != '/')
			;
		end[n++] = i;
		if (!i)
			break;
	}
	/* If `inside` is 1, the folder that was tested last contains .git. The path of that folder has the length
	 * end[n - 2]. Read the .gitignore files from this folder down to the parent of `folder`. If n is 1, .git is in
	 * `folder` itself, and there is no file to read. */
	for (int k = n - 2; inside && k >= 0; k--) {
		str_clear(&path);
		str_add(&path, folder, end[k]);
		ignores_enter(g, str_text(&path), -1 - k);
	}
	str_free(&path);
}

int ignores_tell(const struct ignores *g, const char *path, int is_folder)
{
	int ignored = -1;

	for (size_t i = g->n; i-- && ignored < 0;)
		ignored = file_tells(&g->at[i], path, is_folder);
	return ignored > 0;
}

void ignores_free(struct ignores *g)
{
	while (g->n)
		ignores_drop(g);
	free(g->at);
	*g = (struct ignores){ 0 };
}
