/* ui/panes/doc_text.c - prepares a document's text for display, once, when the document is first shown.
 *
 * Control characters are filtered, the text is split into chunks at line ends, and pages and headings are collected.
 * The report of evicted words uses offsets in the original text, so a table maps offsets in the filtered text to them.
 * The table has entries only where the filter changed the length. */
#include "ui/panes/doc_text.h"
#include "ui/text/text.h"

#include "ui/screen/widgets.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CHUNK        (16u << 10)
/* When the offset table has this number of entries, new entries are at least 64 bytes apart, so that a hostile text
 * cannot fill the memory. */
#define POINTS_DENSE (1u << 20)
enum { HEADS_MOST = 50000, PAGES_MOST = 100000, TITLE_MOST = 512 };

void doc_text_free(struct doc_text *d)
{
	str_free(&d->name);
	str_free(&d->text);
	marks_free(d->mark, d->n_mark);
	free(d->label);
	free(d->raw);
	free(d->point);
	free(d->page);
	free(d->head);
	free(d->chunk);
	free(d->span);
}

/* ---- cleaning ---- */

static void add_point(struct doc_text *d, size_t raw)
{
	const struct point *last = d->n_point ? &d->point[d->n_point - 1] : NULL;

	/* add no entry if the original text and the filtered text have grown by the same length since the last entry */
	if ((last ? d->text.n - last->clean : d->text.n) == (last ? raw - last->raw : raw))
		return;
	if (d->n_point > POINTS_DENSE && raw - last->raw < 64)
		return;
	GROW(d->point, d->n_point, d->cap_point);
	d->point[d->n_point++] = (struct point){ (uint32_t)raw, (uint32_t)d->text.n };
}

/* Clean one line of the raw text, or a part of it. */
static void add_line(struct doc_text *d, struct clean *c, size_t from, size_t to)
{
	struct clean before = *c;
	size_t n = to - from, at = d->text.n;

	clean_text(c, d->raw + from, n, &d->text);
	if (d->text.n - at == n && (!n || !memcmp(d->text.p + at, d->raw + from, n)))
		return;
	*c = before;
	d->text.n = at;
	for (size_t i = from, len; i < to; i += len) {
		int32_t cp;
		/* pass printable ASCII, which the filter keeps unchanged, in long sequences */
		for (len = 0; i + len < to && d->raw[i + len] >= 0x20 && d->raw[i + len] < 0x7f;)
			len++;
		if (!len)
			len = (size_t)utf8_decode(d->raw + i, to - i, &cp);
		clean_text(c, d->raw + i, len, &d->text);
		add_point(d, i + len);
	}
}

static void add_page(struct doc_text *d, int ascii)
{
	if (d->text.n && d->text.p[d->text.n - 1] != '\n')
		str_adds(&d->text, "\n");
	if (d->n_page == PAGES_MOST)
		return;
	GROW(d->page, d->n_page, d->cap_page);
	d->page[d->n_page++] = (uint32_t)d->text.n;
	str_adds(&d->text, ascii ? "-- page " : "\xe2\x94\x80\xe2\x94\x80 page ");
	if (d->label)
		clean_line(d->label[d->n_page], strlen(d->label[d->n_page]), &d->text);
	else
		str_adds(&d->text, num_count((int64_t)d->n_page + 1).s);
	str_adds(&d->text, ascii ? " --\n" : " \xe2\x94\x80\xe2\x94\x80\n");
}

/* Return the offset after the next byte c; if there is none, the end of the text. */
static size_t after_byte(const struct doc_text *d, size_t from, char c)
{
	const char *at = memchr(d->raw + from, c, d->n_raw - from);

	return at ? (size_t)(at - d->raw) + 1 : d->n_raw;
}

/* If the text has no form feeds, collect its page marks: the offset in the original text at which each page begins,
 * except the first page. Returns their number. */
static size_t marked_pages(struct doc_text *d, size_t **out)
{
	size_t n = 0;

	*out = NULL;
	if (!d->n_mark || memchr(d->raw, '\f', d->n_raw))
		return 0;
	*out = xcalloc(d->n_mark, sizeof **out);
	d->label = xcalloc(d->n_mark + 1, sizeof *d->label);
	d->label[0] = "";
	for (size_t i = 0; i < d->n_mark && n < PAGES_MOST; i++) {
		const struct mark *m = &d->mark[i];

		if (m->kind != MARK_PAGE || m->at > d->n_raw)
			continue;
		if (m->at) {
			(*out)[n++] = m->at;
			d->label[n] = m->text;
		} else {
			d->label[0] = m->text;
		}
	}
	if (!n && !*d->label[0]) {
		free(d->label);
		d->label = NULL;
	}
	return n;
}

static void clean_marked(struct doc_text *d, const size_t *page, size_t n_page, int ascii)
{
	struct clean c;

	clean_init(&c, 0);
	for (size_t i = 0, line = 0, k = 0; i < d->n_raw || k < n_page;) {
		size_t end;

		if (k < n_page && page[k] <= i) {
			clean_end(&c, &d->text);
			add_page(d, ascii);
			add_point(d, i);
			k++;
			continue;
		}
		if (line <= i)
			line = after_byte(d, i, '\n');
		end = k < n_page && page[k] < line ? page[k] : line;
		add_line(d, &c, i, end);
		i = end;
	}
	clean_end(&c, &d->text);
	if (!d->text.p)
		str_adds(&d->text, "");
}

static void clean_all(struct doc_text *d, int ascii)
{
	struct clean c;
	size_t solid = d->n_raw;
	int ff;

	/* `solid` is the end of the last character that is not white space: a form feed after it begins no page */
	while (solid && strchr(" \n\r\t\f", d->raw[solid - 1]) && d->raw[solid - 1])
		solid--;
	clean_init(&c, 0);
	for (size_t i = 0, line = 0, page = 0; i < d->n_raw;) {
		size_t end;

		/* `line` is the offset after the next newline, and `page` the offset after the next form feed. Each of
		 * them is computed again when the offset i has reached it. */
		if (line <= i)
			line = after_byte(d, i, '\n');
		if (page <= i)
			page = after_byte(d, i, '\f');
		ff = page <= line && d->raw[page - 1] == '\f';
		end = ff ? page - 1 : line;
		if (end > i)
			add_line(d, &c, i, end);
		i = end;
		if (!ff)
			continue;
		clean_end(&c, &d->text);
		i++;
		if (i < solid)
			add_page(d, ascii);
		add_point(d, i);
	}
	clean_end(&c, &d->text);
	if (!d->text.p)
		str_adds(&d->text, "");
}

/* 1 if the file's name suggests that '#' at the start of a line begins a heading, not a comment. */
static int headings_expected(const char *name)
{
	static const char *const kind[] = { "md",   "markdown", "mkd", "txt", "text", "html", "htm",
		                            "epub", "docx",     "odt", "odp", "ods",  "pdf",  "rtf" };
	const char *dot = strrchr(name, '.');

	if (!dot || strchr(dot, '/'))
		return 1;
	for (size_t i = 0; i < LEN(kind); i++)
		if (!strcasecmp(dot + 1, kind[i]))
			return 1;
	return 0;
}

/* Parse a heading line s[0..n), such as "## Words". Returns the level, 1 to 6; 0 = the line is not a heading. *from and
 * *len receive the offset and length of the words. */
static int heading_line(const char *s, size_t n, size_t *from, size_t *len)
{
	size_t i = 0;
	int level;

	while (i < n && s[i] == '#')
		i++;
	level = i > 6 ? 0 : (int)i;
	if (!level || i >= n || s[i] != ' ')
		return 0;
	while (i < n && s[i] == ' ')
		i++;
	while (n > i && (s[n - 1] == ' ' || s[n - 1] == '#'))
		n--;
	*from = i;
	*len = n - i;
	return i == n ? 0 : level;
}

static void look_for_head(struct doc_text *d, size_t at, size_t end)
{
	size_t from, n;
	int level = heading_line(d->text.p + at, end - at, &from, &n);

	if (!level || d->n_head == HEADS_MOST)
		return;
	GROW(d->head, d->n_head, d->cap_head);
	d->head[d->n_head++] = (struct head){ (uint32_t)at, (uint32_t)(from + n), level };
}

/* Add a heading for each heading mark of the document: the heading is the line that contains the mark. */
static void marked_heads(struct doc_text *d)
{
	for (size_t i = 0; i < d->n_mark && d->n_head < HEADS_MOST; i++) {
		const struct mark *m = &d->mark[i];
		uint32_t at;
		const char *nl;

		if (m->kind != MARK_HEADING)
			continue;
		at = doc_text_clean(d, m->at);
		while (at < d->text.n && d->text.p[at] == '\n')
			at++;
		if (at >= d->text.n || (d->n_head && d->head[d->n_head - 1].at >= at))
			continue;
		nl = memchr(d->text.p + at, '\n', d->text.n - at);
		GROW(d->head, d->n_head, d->cap_head);
		d->head[d->n_head++] = (struct head){ at, (uint32_t)((nl ? (size_t)(nl - d->text.p) : d->text.n) - at),
			                              m->level > 0 ? m->level : 1 };
	}
}

/* Count the lines, divide the text into chunks, and find the headings. */
static void look_at_lines(struct doc_text *d)
{
	const char *s = d->text.p;
	int headings = !d->n_mark && headings_expected(str_text(&d->name)), fenced = 0;
	size_t start = 0;

	GROW(d->chunk, 0, d->cap_chunk);
	d->chunk[d->n_chunk++] = (struct chunk){ 0, 0 };
	for (size_t i = 0; i < d->text.n;) {
		const char *nl = memchr(s + i, '\n', d->text.n - i);
		size_t end = nl ? (size_t)(nl - s) : d->text.n;

		if (headings && end - i >= 3 && (!memcmp(s + i, "```", 3) || !memcmp(s + i, "~~~", 3)))
			fenced = !fenced;
		else if (headings && !fenced && s[i] == '#')
			look_for_head(d, i, end);
		d->n_line++;
		i = end + 1;
		if (i < d->text.n && i - start >= CHUNK) {
			GROW(d->chunk, d->n_chunk, d->cap_chunk);
			d->chunk[d->n_chunk++] = (struct chunk){ (uint32_t)i, d->n_line };
			start = i;
		}
	}
}


void doc_text_ready(struct doc_text *d, int ascii)
{
	size_t *page, n_page;

	if (d->ready)
		return;
	n_page = marked_pages(d, &page);
	if (n_page)
		clean_marked(d, page, n_page, ascii);
	else
		clean_all(d, ascii);
	free(page);
	look_at_lines(d);
	marked_heads(d);
	d->ready = 1;
	if (d->top >= d->text.n)
		d->top = 0;
}

/* ---- places ---- */

size_t doc_text_chunk(const struct doc_text *d, uint32_t at)
{
	size_t lo = 0, hi = d->n_chunk;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;
		if (d->chunk[mid].at <= at)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

uint32_t doc_text_line(const struct doc_text *d, uint32_t at)
{
	size_t chunk = doc_text_chunk(d, at);
	uint32_t line = d->chunk[chunk].line + 1;

	for (size_t i = d->chunk[chunk].at; i < at;) {
		const char *nl = memchr(d->text.p + i, '\n', at - i);
		if (!nl)
			break;
		line++;
		i = (size_t)(nl - d->text.p) + 1;
	}
	return MIN(line, d->n_line);
}

size_t doc_text_page(const struct doc_text *d, uint32_t at)
{
	size_t lo = 0, hi = d->n_page;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (d->page[mid] <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo + 1;
}

size_t doc_text_head(const struct doc_text *d, uint32_t at)
{
	size_t lo = 0, hi = d->n_head;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (d->head[mid].at <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

uint32_t doc_text_line_start(const struct doc_text *d, int64_t line)
{
	size_t lo = 0, hi = d->n_chunk, at;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;
		if ((int64_t)d->chunk[mid].line < line)
			lo = mid;
		else
			hi = mid;
	}
	at = d->chunk[lo].at;
	for (int64_t i = line - 1 - d->chunk[lo].line; i > 0; i--) {
		const char *nl = memchr(d->text.p + at, '\n', d->text.n - at);
		if (!nl || (size_t)(nl - d->text.p) + 1 >= d->text.n)
			break;
		at = (size_t)(nl - d->text.p) + 1;
	}
	return (uint32_t)at;
}

/* Return the text of a heading without its '#', or the first words of a page (level 0). */
const char *doc_text_title(const struct doc_text *d, const struct head *h, size_t *n)
{
	const char *s = d->text.p;
	size_t at = h->at, end = h->at + h->n;

	if (h->level) {
		for (int i = 0; i < h->level && at < end && s[at] == '#'; i++)
			at++;
	} else {
		size_t page = doc_text_page(d, h->at);

		end = page <= d->n_page ? d->page[page - 1] : d->text.n;
		/* skip the page separator */
		while (page > 1 && at < end && s[at++] != '\n')
			;
	}
	while (at < end && (s[at] == ' ' || s[at] == '\n'))
		at++;
	for (*n = 0; at + *n < end && s[at + *n] != '\n' && *n < TITLE_MOST;)
		++*n;
	*n = utf8_complete(s + at, *n);
	return s + at;
}

/* ---- the lens ---- */

static uint32_t raw_of(const struct doc_text *d, uint32_t clean)
{
	size_t lo = 0, hi = d->n_point;
	uint32_t raw;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (d->point[mid].clean <= clean)
			lo = mid + 1;
		else
			hi = mid;
	}
	raw = lo ? d->point[lo - 1].raw + (clean - d->point[lo - 1].clean) : clean;
	/* If the filter replaced a character by several bytes, map all of them to the character's last original
	 * byte. */
	if (lo < d->n_point && raw >= d->point[lo].raw)
		raw = d->point[lo].raw - (d->point[lo].raw > 0);
	return raw;
}

uint32_t doc_text_clean(const struct doc_text *d, size_t raw)
{
	size_t lo = 0, hi = d->n_point, clean;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (d->point[mid].raw <= raw)
			lo = mid + 1;
		else
			hi = mid;
	}
	clean = lo ? d->point[lo - 1].clean + (raw - d->point[lo - 1].raw) : raw;
	/* The filter may have replaced a character by fewer bytes. Then some bytes of the original character have no
	 * byte in the filtered text: map them to the beginning of the next character. */
	if (lo < d->n_point && clean > d->point[lo].clean)
		clean = d->point[lo].clean;
	return clean < d->text.n ? (uint32_t)clean : (uint32_t)d->text.n;
}

int doc_text_evicted(const struct doc_text *d, uint32_t at)
{
	uint32_t raw = raw_of(d, at);
	size_t lo = 0, hi = d->n_span;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (d->span[mid].end <= raw)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < d->n_span && !d->span[lo].kept;
}

void doc_text_lens(struct doc_text *d, const struct ui_span *span, size_t n)
{
	uint64_t kept = 0;
	uint32_t from = 0;

	free(d->span);
	d->span = NULL;
	d->n_span = 0;
	d->kept = -1;
	if (!n || !span)
		return;
	d->span = xcalloc(n, sizeof *d->span);
	for (size_t i = 0; i < n; i++) {
		if (span[i].end <= from)
			continue;
		d->span[d->n_span++] = span[i];
		kept += span[i].kept ? span[i].end - from : 0;
		from = span[i].end;
	}
	if (from)
		d->kept = (double)kept / (double)from;
}
