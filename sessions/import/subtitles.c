/* sessions/import/subtitles.c - converts subtitles (.srt, .vtt, .sbv, .ass): the texts of cues become paragraphs. Each
 * paragraph begins with the time at which its text is spoken, "[0:01:23]". This time is also the label of a page mark,
 * so that a source of an answer is shown with its time.
 *
 * A paragraph ends where a sentence ends, after a pause, or when it is long. */
#include "sessions/import/import_private.h"
#include "engine/base/utf8.h"

#include <stdio.h>
#include <string.h>

#define PAUSE          2.0 /* a pause of at least this many seconds ends a paragraph */
#define SENTENCE_BYTES 160 /* a paragraph of at least this many bytes ends at the end of a sentence */
#define MOST_BYTES     600 /* a paragraph of at least this many bytes ends at the next cue */

struct subtitles {
	struct writer *w;
	struct str paragraph, last;
	/* times in seconds: the beginning of the paragraph, and the end of its last cue */
	double begin, end;
	int open, rolling; /* `rolling` is 1 if each cue repeats the last line of the previous cue */
};

struct row {
	const char *s;
	size_t n;
};

/* Parse "1:02:03,456", "02:03.4" or "1:02:03". Returns the number of bytes that were parsed; 0 if there is no time. */
static size_t read_time(const char *s, size_t n, double *seconds)
{
	size_t i = 0, parts = 0;
	double all = 0, unit = 1;

	for (;;) {
		size_t from = i;
		double v = 0;

		while (i < n && i - from < 6 && byte_is_digit(s[i]))
			v = 10 * v + (s[i++] - '0');
		if (i == from)
			return 0;
		all = 60 * all + v;
		parts++;
		if (i == n || s[i] != ':' || parts == 3)
			break;
		i++;
	}
	if (parts < 2)
		return 0;
	if (i + 1 < n && (s[i] == '.' || s[i] == ',') && byte_is_digit(s[i + 1]))
		for (i++; i < n && byte_is_digit(s[i]); i++)
			all += (s[i] - '0') * (unit /= 10);
	*seconds = all;
	return i;
}

/* 1 for the line with the times of a cue: "TIME --> TIME ..." or, in .sbv, "TIME,TIME". */
static int read_times(struct row r, double *begin, double *end)
{
	size_t i = read_time(r.s, r.n, begin);

	if (!i)
		return 0;
	if (i < r.n && r.s[i] == ',')
		return i + 1 + read_time(r.s + i + 1, r.n - i - 1, end) == r.n;
	while (i < r.n && (r.s[i] == ' ' || r.s[i] == '\t'))
		i++;
	if (r.n - i < 3 || memcmp(r.s + i, "-->", 3) != 0)
		return 0;
	for (i += 3; i < r.n && (r.s[i] == ' ' || r.s[i] == '\t'); i++)
		;
	return read_time(r.s + i, r.n - i, end) > 0;
}

/* ---- the text of a cue ---- */

/* Append the speaker that "<v NAME>" names. */
static void add_speaker(struct str *out, const char *tag, size_t n)
{
	size_t at = 1;

	while (at < n && tag[at] != ' ')
		at++;
	if (n > 3 && tag[0] == 'v' && (tag[1] == ' ' || tag[1] == '.') && at + 1 < n) {
		str_add(out, tag + at + 1, n - at - 1);
		str_adds(out, ": ");
	}
}

static size_t add_entity(struct str *out, const char *s, size_t n)
{
	static const char *const names[][2] = { { "&amp;", "&" },         { "&lt;", "<" }, { "&gt;", ">" },
		                                { "&nbsp;", "\xc2\xa0" }, { "&lrm;", "" }, { "&rlm;", "" },
		                                { "&quot;", "\"" },       { "&#39;", "'" } };

	for (size_t i = 0; i < LEN(names); i++) {
		size_t k = strlen(names[i][0]);
		if (n >= k && !memcmp(s, names[i][0], k)) {
			str_adds(out, names[i][1]);
			return k;
		}
	}
	str_adds(out, "&");
	return 1;
}

/* Append the text of a line without tags and styles: <i>, {\an8}, \N. */
static void add_plain(struct str *out, const char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		const char *close = NULL;

		if (s[i] == '<' && i + 1 < n && (byte_is_alnum(s[i + 1]) || s[i + 1] == '/'))
			close = memchr(s + i, '>', MIN(n - i, 400));
		else if (s[i] == '{' && i + 1 < n && s[i + 1] == '\\')
			close = memchr(s + i, '}', MIN(n - i, 400));
		if (close) {
			if (s[i] == '<')
				add_speaker(out, s + i + 1, (size_t)(close - s) - i - 1);
			i = (size_t)(close - s) + 1;
		} else if (s[i] == '\\' && i + 1 < n && s[i + 1] && strchr("Nnh", s[i + 1])) {
			str_adds(out, " ");
			i += 2;
		} else if (s[i] == '&') {
			i += add_entity(out, s + i, n - i);
		} else {
			str_add(out, s + i++, 1);
		}
	}
}

/* ---- paragraphs ---- */

static void end_paragraph(struct subtitles *b)
{
	char time[32];
	unsigned s = b->begin < 1e8 ? (unsigned)b->begin : 0;

	if (b->paragraph.n) {
		size_t n = (size_t)snprintf(time, sizeof time, "%u:%02u:%02u", s / 3600, s / 60 % 60, s % 60);

		writer_gap(b->w, GAP_BLOCK);
		writer_page(b->w, time, n);
		writer_text(b->w, "[", 1);
		writer_text(b->w, time, n);
		writer_text(b->w, "] ", 2);
		writer_text(b->w, b->paragraph.p, b->paragraph.n);
	}
	str_clear(&b->paragraph);
}

static int ends_sentence(const struct str *s)
{
	return s->n && (strchr(".!?", s->p[s->n - 1]) || (s->n > 3 && (!memcmp(s->p + s->n - 3, "\xe3\x80\x82", 3) ||
	                                                               !memcmp(s->p + s->n - 3, "\xe2\x80\xa6", 3))));
}

static void begin_cue(struct subtitles *b, double begin, double end)
{
	if (b->paragraph.n && (begin - b->end >= PAUSE || begin < b->begin || b->paragraph.n >= MOST_BYTES ||
	                       (b->paragraph.n >= SENTENCE_BYTES && ends_sentence(&b->paragraph))))
		end_paragraph(b);
	if (!b->paragraph.n)
		b->begin = begin;
	b->end = end;
	b->open = 1;
}

static void add_line(struct subtitles *b, const char *s, size_t n)
{
	struct str plain = { 0 };

	add_plain(&plain, s, n);
	while (plain.n && byte_is_blank(plain.p[plain.n - 1]))
		plain.p[--plain.n] = 0;
	if (plain.n && !(b->rolling && plain.n == b->last.n && !memcmp(plain.p, b->last.p, plain.n))) {
		if (b->paragraph.n)
			str_adds(&b->paragraph, " ");
		str_add(&b->paragraph, plain.p, plain.n);
		str_clear(&b->last);
		str_add(&b->last, plain.p, plain.n);
	}
	str_free(&plain);
}

/* ---- the file ---- */

static struct row row_at(const char *p, size_t n, size_t at, size_t *next)
{
	const char *end = memchr(p + at, '\n', n - at);
	struct row r = { p + at, end ? (size_t)(end - p) - at : n - at };

	*next = at + r.n + (end != NULL);
	while (r.n && byte_is_blank(r.s[r.n - 1]))
		r.n--;
	while (r.n && byte_is_blank(*r.s))
		r.s++, r.n--;
	return r;
}

static int is_number(struct row r)
{
	for (size_t i = 0; i < r.n; i++)
		if (!byte_is_digit(r.s[i]))
			return 0;
	return r.n > 0;
}

/* Read a line of .ass, "Dialogue: 0,BEGIN,END,STYLE,NAME,0,0,0,EFFECT,TEXT". Returns 0 for other lines. */
static int read_dialogue(struct subtitles *b, struct row r)
{
	const char *field[10];
	double begin, end;
	size_t at = 9, k;

	if (r.n < 9 || memcmp(r.s, "Dialogue:", 9) != 0)
		return 0;
	for (size_t i = 0; i < LEN(field); i++) {
		const char *comma = memchr(r.s + at, ',', r.n - at);

		field[i] = r.s + at;
		if (i + 1 < LEN(field) && !comma)
			return 1;
		at = comma ? (size_t)(comma - r.s) + 1 : r.n;
	}
	k = (size_t)(r.s + r.n - field[1]);
	if (!read_time(field[1], k, &begin) || !read_time(field[2], k - (size_t)(field[2] - field[1]), &end))
		return 1;
	begin_cue(b, begin, end);
	add_line(b, field[9], (size_t)(r.s + r.n - field[9]));
	b->open = 0;
	return 1;
}

int subtitles_import(const char *p, size_t n, struct doc *d, struct err *e)
{
	struct writer w = { .doc = d };
	struct subtitles b = { .w = &w };
	int blank = 1, skip = 0;

	b.rolling = n > 6 && memmem(p, MIN(n, 16), "WEBVTT", 6) != NULL;
	for (size_t at = 0, next, after; at < n; at = next) {
		struct row r = row_at(p, n, at, &next), following = { 0 };
		double begin = 0, end = 0;

		if (is_number(r) && next < n)
			following = row_at(p, n, next, &after);
		if (r.n && read_times(r, &begin, &end)) {
			begin_cue(&b, begin, end);
			skip = 0;
		} else if (!r.n) {
			skip = 0;
		} else if (read_dialogue(&b, r) || (following.n && read_times(following, &begin, &end))) {
			/* read_dialogue() has read the line; or the line is the number of a cue, and the next line has
			 * the times of this cue */
			;
		} else if (blank && b.rolling) {
			skip = 1; /* skip a comment, a style sheet, or the name of a cue */
		} else if (b.open && !skip) {
			add_line(&b, r.s, r.n);
		}
		blank = !r.n;
	}
	end_paragraph(&b);
	writer_end(&w);
	str_free(&b.paragraph);
	str_free(&b.last);
	return d->text.n ? 0 : err_set(e, ERR_DOCUMENT, "holds no subtitles");
}
