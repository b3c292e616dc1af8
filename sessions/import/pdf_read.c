/* sessions/import/pdf_read.c - parses the output of pdftotext -bbox-layout, which has the words with their places on
 * the page. Before it comes the outline that pdftohtml -xml prints. Both are as untrusted as the PDF. */
#include "sessions/import/pdf.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Distances, in heights of letters. */
#define WORD_SPACE 0.1f /* minimum space between two words */
#define CELL_GAP   1.3f /* minimum space between a number and its neighbour, so that they become two cells of a row */

/* An XML tag: n bytes at p, without '<' and '>'. p is NULL if there is no tag. */
struct tag {
	const char *p;
	size_t n;
};

static int tag_is(struct tag t, const char *name)
{
	size_t k = strlen(name);

	return t.n >= k && !memcmp(t.p, name, k) && (t.n == k || t.p[k] == ' ');
}

/* Parse the number in tag t that follows the string `before`, which is the beginning of an attribute (" xMin=\"").
 * Return 0 if the attribute is missing or the number exceeds a million. */
static float tag_number(struct tag t, const char *before)
{
	const char *p = memmem(t.p, t.n, before, strlen(before)), *end = t.p + t.n;
	double v = 0, unit = 1;
	int minus;

	if (!p)
		return 0;
	p += strlen(before);
	minus = p < end && *p == '-';
	for (p += minus; p < end && byte_is_digit(*p) && v < 1e6; p++)
		v = 10 * v + (*p - '0');
	if (p < end && *p == '.')
		for (p++; p < end && byte_is_digit(*p) && unit > 1e-6; p++)
			v += (unit /= 10) * (*p - '0');
	return v > 1e6 ? 0 : (float)(minus ? -v : v);
}

static struct pdf_box tag_box(struct tag t)
{
	struct pdf_box b = { tag_number(t, " xMin=\""), tag_number(t, " yMin=\""), tag_number(t, " xMax=\""),
		             tag_number(t, " yMax=\"") };

	return (struct pdf_box){ MIN(b.x0, b.x1), MIN(b.y0, b.y1), MAX(b.x0, b.x1), MAX(b.y0, b.y1) };
}

/* ---- characters ---- */

/* Append a word, or a title of the outline. Ligatures become letters, control characters become blanks, and entities
 * are decoded. */
static void add_characters(struct pdf *f, struct str *out, const char *p, size_t n)
{
	static const char *const ligature[] = { "ff", "fi", "fl", "ffi", "ffl", "st", "st" };
	static const char *const entity[][2] = { { "&amp;", "&" },   { "&lt;", "<" },   { "&gt;", ">" },
		                                 { "&quot;", "\"" }, { "&apos;", "'" }, { "&#34;", "\"" },
		                                 { "&#39;", "'" },   { "&#160;", " " } };
	size_t from = out->n;

	for (size_t i = 0, len; i < n; i += len) {
		const char *put = p + i;
		size_t n_put = 1, k = 0;
		int32_t cp = (unsigned char)p[i];

		len = 1;
		if (cp == '&') {
			while (k < LEN(entity) &&
			       (n - i < strlen(entity[k][0]) || memcmp(put, entity[k][0], strlen(entity[k][0])) != 0))
				k++;
			len = k < LEN(entity) ? strlen(entity[k][0]) : 1;
			put = k < LEN(entity) ? entity[k][1] : put;
		} else if (cp >= 0x80) {
			n_put = len = (size_t)utf8_decode(p + i, n - i, &cp);
			if (cp < 0 || cp == 0xfffd) {
				put = "\xef\xbf\xbd";
				n_put = 3;
				f->replaced += cp < 0;
			} else if (cp >= 0xfb00 && cp <= 0xfb06) {
				put = ligature[cp - 0xfb00];
				n_put = strlen(put);
			} else if (cp == 0xa0 || cp == 0x202f || cp < 0xa0) {
				cp = ' ';
			} else if (cp == 0xfeff || cp == 0x200b || (cp >= 0x202a && cp <= 0x202e)) {
				continue;
			}
		}
		if (cp <= ' ' || cp == 0x7f) {
			put = " ";
			n_put = 1;
			if (out->n == from || out->p[out->n - 1] == ' ')
				continue;
		}
		str_add(out, put, n_put);
	}
	while (out->n > from && out->p[out->n - 1] == ' ')
		out->p[--out->n] = 0;
}

/* Return the direction of a character: 1 = right to left; -1 = left to right; 2 = a digit; 0 = a character without a
 * direction, such as a sign. */
static int direction(int32_t cp)
{
	if (cp >= '0' && cp <= '9')
		return 2;
	if ((cp >= 0x660 && cp <= 0x669) || (cp >= 0x6f0 && cp <= 0x6f9))
		return 2;
	if ((cp >= 0x590 && cp < 0x900) || (cp >= 0xfb1d && cp < 0xfe00) || (cp >= 0xfe70 && cp < 0xfeff))
		return 1;
	return (cp | 32) >= 'a' && ((cp | 32) <= 'z' || cp >= 0xc0) ? -1 : 0;
}

/* Put a line into reading order if it has Hebrew or Arabic characters. pdftotext prints the characters in the order in
 * which they are on the page, from left to right. `from` is the offset of the line in *t. Returns 1 if the majority of
 * the characters is Hebrew or Arabic. */
static int order_characters(struct str *t, size_t from)
{
	size_t n = 0, right = 0, left = 0, i, j;
	int32_t *cp;
	struct str out = { 0 };
	int rtl;

	for (i = from; i < t->n; i++) /* find a byte with which Hebrew or Arabic letters begin */
		right += ((unsigned char)t->p[i] >= 0xd6 && (unsigned char)t->p[i] <= 0xe0) ||
		         (unsigned char)t->p[i] == 0xef;
	if (!right)
		return 0;
	cp = xmalloc((t->n - from) * sizeof *cp);
	for (i = from, right = 0; i < t->n; n++) {
		i += (size_t)utf8_decode(t->p + i, t->n - i, &cp[n]);
		right += direction(cp[n]) == 1;
		left += direction(cp[n]) == -1;
	}
	rtl = right > left;
	if (right) {
		/* Reverse the line if it is right to left. Then reverse each sequence of characters in the other
		 * direction. Signs at the ends of such a sequence do not belong to it. */
		if (rtl)
			for (i = 0; i < n / 2; i++) {
				int32_t c = cp[i];
				cp[i] = cp[n - 1 - i];
				cp[n - 1 - i] = c;
			}
		for (i = 0; i < n; i = j + 1) {
			size_t end = i;
			for (j = i; j < n && (rtl ? direction(cp[j]) != 1 : direction(cp[j]) == 1 || !direction(cp[j]));
			     j++)
				if (direction(cp[j]))
					end = j;
			if (!direction(cp[i]) || end == i)
				j = i;
			else
				j = end;
			for (size_t a = i, b = j; a < b; a++, b--) {
				int32_t c = cp[a];
				cp[a] = cp[b];
				cp[b] = c;
			}
		}
		for (i = 0; i < n; i++) {
			char c[4];
			str_add(&out, c, (size_t)utf8_encode(cp[i], c));
		}
		t->n = from;
		str_add(t, out.p, out.n);
		str_free(&out);
	}
	free(cp);
	return rtl;
}

/* ---- lines ---- */

/* The state of the line that is being read. */
struct reading {
	uint32_t block, flow;
	int in_line;
	struct pdf_piece piece;
	struct pdf_box last;   /* box of the line's last word */
	float widest;          /* sum over the words of the line: width times number of letters */
	float heights;         /* sum over the words of the line: height times number of letters */
	size_t letters, lying; /* number of the line's letters, and number of letters in words that lie on their side */
};

/* Return the text to write between two neighbouring words of a line. `a` is the box of the first word; `b` is the box
 * of the second word, next[n]. Nothing is written between words that touch, because they are one word in two fonts. A
 * raised number gets '^', so that 10 with exponent 3 does not become 103. */
static const char *between_words(const struct pdf_box *a, const struct pdf_box *b, const char *next, size_t n)
{
	float size = a->y1 - a->y0, small = MIN(size, b->y1 - b->y0), gap = b->x0 - a->x1;
	/* how much the heights of the two boxes overlap; this is small if the line runs up or down the page */
	float beside = MIN(a->y1, b->y1) - MAX(a->y0, b->y0);

	if (gap > WORD_SPACE * MAX(size, b->y1 - b->y0) || b->x1 < a->x0 || beside < 0.3f * small)
		return " ";
	return n && byte_is_digit(*next) && b->y1 - b->y0 < 0.85f * size && b->y1 < a->y1 - 0.2f * size ? "^" : "";
}

static void add_word(struct pdf *f, struct reading *r, struct pdf_box b, const char *p, size_t n)
{
	size_t gap = f->text.n, from, letters;

	if (r->piece.n)
		str_adds(&f->text, between_words(&r->last, &b, p, n));
	from = f->text.n;
	add_characters(f, &f->text, p, n);
	if (f->text.n == from) {
		f->text.n = gap;
		return;
	}
	r->last = b;
	letters = utf8_characters(f->text.p + from, f->text.n - from);
	if (!r->piece.n)
		r->piece.box = b;
	r->piece.box = (struct pdf_box){ MIN(r->piece.box.x0, b.x0), MIN(r->piece.box.y0, b.y0),
		                         MAX(r->piece.box.x1, b.x1), MAX(r->piece.box.y1, b.y1) };
	r->piece.n = f->text.n - r->piece.at;
	r->letters += letters;
	r->heights += (b.y1 - b.y0) * (float)letters;
	r->widest += (b.x1 - b.x0) * (float)letters;
	if (letters > 1 && b.y1 - b.y0 > 1.5f * (b.x1 - b.x0))
		r->lying += letters;
}

/* 1 if piece `b` continues the line of piece `a`. In justified text pdftotext mistakes wide gaps between words for ends
 * of lines. */
static int goes_on_line(const struct pdf_piece *a, const struct pdf_piece *b)
{
	float size = MIN(a->size, b->size), down = b->box.y1 - a->box.y1;

	return a->block == b->block && a->upright && b->upright && !a->right_to_left && !b->right_to_left &&
	       a->at + a->n == b->at && b->box.x0 >= a->box.x1 && down < 0.3f * size && down > -0.3f * size;
}

static void end_line(struct pdf *f, struct reading *r)
{
	struct pdf_piece *p = &r->piece;

	r->in_line = 0;
	if (!p->n)
		return;
	p->right_to_left = order_characters(&f->text, p->at);
	p->n = f->text.n - p->at;
	/* a line with fewer than 3 letters counts as upright, because even upright letters such as "ll" are higher than
	 * wide */
	p->upright = r->lying * 2 <= r->letters || r->letters < 3;
	p->size = (p->upright ? r->heights : r->widest) / (float)r->letters;
	p->size = MAX(p->size, 0.1f);
	p->block = r->block;
	p->flow = r->flow;
	if (f->n_piece && goes_on_line(&f->piece[f->n_piece - 1], p)) {
		struct pdf_piece *before = &f->piece[f->n_piece - 1];
		int cell = p->box.x0 - before->box.x1 > CELL_GAP * p->size &&
		           (byte_is_digit(f->text.p[p->at]) || byte_is_digit(f->text.p[p->at - 1]));
		size_t n = cell ? 3 : 1;
		str_adds(&f->text, cell ? " | " : " ");
		memmove(f->text.p + p->at + n, f->text.p + p->at, p->n);
		memcpy(f->text.p + p->at, cell ? " | " : " ", n);
		before->n += n + p->n;
		before->box.x1 = p->box.x1;
		before->box.y0 = MIN(before->box.y0, p->box.y0);
		before->box.y1 = MAX(before->box.y1, p->box.y1);
		return;
	}
	GROW(f->piece, f->n_piece, f->cap_piece);
	f->piece[f->n_piece++] = *p;
}

/* ---- pages ---- */

static struct tag next_tag(const char *p, size_t n, size_t at)
{
	const char *open = at < n ? memchr(p + at, '<', n - at) : NULL, *close;

	if (!open || !(close = memchr(open, '>', (size_t)(p + n - open))))
		return (struct tag){ 0 };
	return (struct tag){ open + 1, (size_t)(close - open) - 1 };
}

static void add_page(struct pdf *f, struct tag t)
{
	GROW(f->page, f->n_page, f->cap_page);
	f->page[f->n_page++] = (struct pdf_page){ .line = f->n_line,
		                                  .width = tag_number(t, " width=\""),
		                                  .height = tag_number(t, " height=\"") };
	f->n_piece = 0;
}

static void add_entry(struct pdf *f, struct tag t, const char *p, size_t n)
{
	struct pdf_entry e = { .page = (uint32_t)MAX(tag_number(t, " page=\""), 0),
		               .level = MIN(MAX(f->depth, 1), 6),
		               .at = f->titles.n };

	add_characters(f, &f->titles, p, n);
	e.n = f->titles.n - e.at;
	if (!e.page-- || !e.n)
		return;
	GROW(f->entry, f->n_entry, f->cap_entry);
	f->entry[f->n_entry++] = e;
}

/* Keep the author of <meta name="Author" content="...">, which precedes the first page. */
static void read_author(struct pdf *f, struct tag t)
{
	static const char before[] = " name=\"Author\" content=\"";
	const char *p = memmem(t.p, t.n, before, sizeof before - 1), *end;

	p = p ? p + sizeof before - 1 : NULL;
	end = p ? memchr(p, '"', (size_t)(t.p + t.n - p)) : NULL;
	if (end && !f->author.n)
		add_characters(f, &f->author, p, (size_t)(end - p));
}

/* Parse a part of the input that ends at the end of a page or of the input. */
static void parse_page(struct pdf *f, const char *p, size_t n)
{
	struct reading r = { 0 };
	int open = 0;

	for (struct tag t = next_tag(p, n, 0); t.p; t = next_tag(p, n, (size_t)(t.p + t.n - p))) {
		const char *text = t.p + t.n + 1,
			   *end = text < p + n ? memchr(text, '<', (size_t)(p + n - text)) : NULL;

		/* pages that pdftohtml has printed are not used */
		if (tag_is(t, "page") && memmem(t.p, t.n, "position=", 9)) {
			open = 0;
		} else if (tag_is(t, "page")) {
			add_page(f, t);
			open = 1;
		} else if (tag_is(t, "meta") && !f->n_page) {
			read_author(f, t);
		} else if (tag_is(t, "outline")) {
			f->depth += f->depth < 1000;
		} else if (tag_is(t, "/outline")) {
			f->depth -= f->depth > 0;
		} else if (tag_is(t, "item") && end) {
			add_entry(f, t, text, (size_t)(end - text));
		} else if (tag_is(t, "flow")) {
			r.flow++;
		} else if (tag_is(t, "block")) {
			r.block++;
		} else if (tag_is(t, "line") && open) {
			if (r.in_line)
				end_line(f, &r);
			r.in_line = 1;
			r.piece = (struct pdf_piece){ .at = f->text.n };
			r.widest = r.heights = 0;
			r.letters = r.lying = 0;
		} else if (tag_is(t, "/line") && r.in_line) {
			end_line(f, &r);
		} else if (tag_is(t, "word") && r.in_line && end) {
			add_word(f, &r, tag_box(t), text, (size_t)(end - text));
		}
	}
	if (r.in_line)
		end_line(f, &r);
	if (open)
		pdf_add_lines(f);
}

void pdf_feed(struct pdf *f, const char *p, size_t n)
{
	static const char end_of_page[] = "</page>";
	const size_t k = sizeof end_of_page - 1;
	size_t done = 0;
	const char *end;

	str_add(&f->in, p, n);
	while (f->in.n - f->scanned >= k &&
	       (end = memmem(f->in.p + f->scanned, f->in.n - f->scanned, end_of_page, k))) {
		size_t stop = (size_t)(end - f->in.p) + k;
		if (f->text.n <= DOC_BYTES_MAX)
			parse_page(f, f->in.p + done, stop - done);
		f->scanned = done = stop;
	}
	f->scanned = f->in.n >= k + done ? f->in.n - k - done : 0;
	if (done) {
		f->in.n -= done;
		memmove(f->in.p, f->in.p + done, f->in.n);
	}
}

void pdf_read_rest(struct pdf *f)
{
	if (f->in.n && f->text.n <= DOC_BYTES_MAX)
		parse_page(f, f->in.p, f->in.n);
	str_free(&f->in);
}
