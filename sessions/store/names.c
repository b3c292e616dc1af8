/* sessions/store/names.c - checks the names of sessions, makes titles from questions, and finds a session by name or
 * title. */
#include "sessions/store/store_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_BYTES 80
#define TITLE_LETTERS  60

/* ---- names and titles ---- */

/* 1 if the character s[n] is printable. text_escape() writes any other character as several (\xNN). */
static int is_printable(const char *s, size_t n)
{
	char out[32];

	return text_escape(out, sizeof out, s, n) == n;
}

int name_ok(const char *name, struct err *e)
{
	size_t n = strlen(name);
	int digits = 1;

	if (!n || n > NAME_MAX_BYTES)
		return err_set(e, ERR_USAGE, "a session's name has 1 to %d bytes, this one %zu", NAME_MAX_BYTES, n);
	for (size_t i = 0; i < n;) {
		int32_t cp;
		size_t len = (size_t)utf8_decode(name + i, n - i, &cp);
		int blank = cp == ' ' || cp == 0xa0 || cp == 0x3000 || (cp >= 0x2000 && cp <= 0x200a);
		if (cp < 0 || !is_printable(name + i, len))
			return err_set(e, ERR_USAGE,
			               "a session's name is of printable letters, this one is not: '%.80s'", name);
		if (blank && (i == 0 || i + len == n))
			return err_set(e, ERR_USAGE, "a session's name neither begins nor ends with a blank: '%.80s'",
			               name);
		digits &= cp >= '0' && cp <= '9';
		i += len;
	}
	if (digits)
		return err_set(
			e, ERR_USAGE,
			"a session's name is not a number alone (weir numbers the sessions); add a letter: '%.80s'",
			name);
	return 0;
}

int name_free(struct store *s, const char *name, int64_t but, struct err *e)
{
	int64_t id;
	int rc = db_find(&s->db, e, &id, "SELECT id FROM session WHERE name=?1 AND id<>?2", "ti", name, but);

	return rc > 0 ? err_set(e, ERR_USAGE, "another session (%lld) is called '%s' already", (long long)id, name)
	              : rc;
}

/* Make a title from the first line that is not empty.  A sequence of blanks becomes one blank. A title is truncated
 * after TITLE_LETTERS characters, between words if possible. */
void title_make(struct str *out, const char *text, size_t n)
{
	size_t word_end = 0;
	int letters = 0, blank = 0;

	for (size_t i = 0; i < n;) {
		int32_t cp;
		size_t len = (size_t)utf8_decode(text + i, n - i, &cp);
		const char *at = text + i;

		i += len;
		if (cp == '\n' || cp == '\r' || cp == 0x2028 || cp == 0x2029) {
			if (out->n)
				break;
			blank = 0;
			continue;
		}
		if (cp == ' ' || cp == '\t' || cp == 0xa0 || cp == 0x3000) {
			blank = out->n > 0;
			continue;
		}
		if (cp < 0 || !is_printable(at, len))
			continue;
		if (blank) {
			word_end = out->n;
			letters++;
		}
		if (letters >= TITLE_LETTERS) {
			/* end the title between two words, unless one very long word takes most of it */
			if (word_end > out->n / 3)
				out->n = word_end;
			str_adds(out, "\xe2\x80\xa6");
			break;
		}
		if (blank)
			str_adds(out, " ");
		blank = 0;
		str_add(out, at, len);
		letters++;
	}
}

/* ---- finding a session ---- */

struct finding {
	const char *what;
	size_t n;
	int64_t number; /* the number that `what` is; -1 = it is not a number */
	int64_t named, titled, numbered, begun;
	int n_titled, n_begun;
	struct str names; /* sessions whose names begin with `what`, for the error message */
	struct nearest near;
	char near_name[64]; /* copy of near.best, which is valid only until the next row */
};

static void name_near(struct finding *f, const char *candidate)
{
	if (nearest_try(&f->near, candidate))
		snprintf(f->near_name, sizeof f->near_name, "%s", candidate);
}

static int find_one(const struct session *row, void *ud)
{
	struct finding *f = ud;
	const char *shown = row->name;

	if (!strcmp(row->name, f->what)) {
		f->named = row->id;
		return 1;
	}
	if (!strcmp(row->title, f->what) && !f->n_titled++)
		f->titled = row->id;
	if (row->id == f->number)
		f->numbered = row->id;
	if (strncasecmp(row->name, f->what, f->n)) {
		shown = row->title;
		if (strncasecmp(row->title, f->what, f->n)) {
			name_near(f, row->name);
			name_near(f, row->title);
			return 0;
		}
	}
	if (f->n_begun++ < 3)
		str_addf(&f->names, "%s%lld '%.40s'", f->names.n ? ", " : "", (long long)row->id, shown);
	f->begun = row->id;
	return 0;
}

int session_find(struct store *s, const char *what, int64_t *id, struct err *e)
{
	struct finding f = { .what = what, .n = strlen(what), .number = -1 };
	int rc;

	if (!f.n)
		return err_set(e, ERR_USAGE, "no session was named; 'weir sessions ls' lists them");
	if (f.n < 19 && strspn(what, "0123456789") == f.n)
		f.number = strtoll(what, NULL, 10);
	nearest_init(&f.near, what, f.n);
	rc = session_list(s, find_one, &f, e);
	if (rc)
		;
	else if (f.named)
		*id = f.named;
	else if (f.n_titled > 1)
		rc = err_set(e, ERR_USAGE,
		             "%d sessions have the title '%.80s'; name one by its number, see 'weir sessions ls'",
		             f.n_titled, what);
	else if (f.titled)
		*id = f.titled;
	else if (f.numbered)
		*id = f.numbered;
	else if (f.n_begun == 1)
		*id = f.begun;
	else if (f.n_begun)
		rc = err_set(e, ERR_USAGE, "%d sessions begin with '%.80s': %s%s; type more of it", f.n_begun, what,
		             f.names.p, f.n_begun > 3 ? " ..." : "");
	else if (f.near.best)
		rc = err_set(e, ERR_USAGE, "there is no session '%.80s'; is it '%s'?", what, f.near_name);
	else
		rc = err_set(e, ERR_USAGE, "there is no session '%.80s'; /sessions or 'weir sessions ls' lists them",
		             what);
	str_free(&f.names);
	return rc;
}
