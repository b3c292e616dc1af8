/* sessions/import/mail.c - converts mail: a message (.eml), a mailbox (.mbox), or a page that a browser saved as one
 * file (.mht).
 *
 * A message becomes a heading (its subject), its other headers, and its text. If the text is stored as plain text and
 * as HTML, the plain text is written; HTML is written if the plain text is much shorter. Quoted lines begin with ">",
 * and blank lines separate them from the other lines. Attachments are named. */
#include "sessions/import/mime.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 12

struct mail {
	struct writer *w;
	int level;              /* level of the message's heading; messages in messages have deeper levels */
	struct str attachments; /* names of the attachments of this message */
	struct str all;         /* names of the attachments of all messages */
	size_t n_attachments, encrypted, messages;
};

static void part_write(struct mail *m, const struct mime *part, int depth);

/* ---- text ---- */

static void write_lines(struct writer *w, const char *s, size_t n)
{
	w->pre++;
	writer_text(w, s, n);
	w->pre--;
}

/* Return how many '>' characters begin a line; each of them is a level of quotation. Set *from to the offset of the
 * text after them. */
static int quote_depth(const char *s, size_t n, size_t *from)
{
	int depth = 0;

	for (*from = 0;
	     *from < n && (s[*from] == '>' || (depth && s[*from] == ' ' && *from + 1 < n && s[*from + 1] == '>'));
	     ++*from)
		depth += s[*from] == '>';
	return depth;
}

/* If a block that is not text begins at byte `at`, such as a PGP signature or a uuencoded file, return the offset after
 * it; else return `at`. */
static size_t skip_block(struct mail *m, const char *p, size_t n, size_t at)
{
	static const char *const blocks[][2] = { { "-----BEGIN PGP MESSAGE-----", "-----END PGP MESSAGE-----" },
		                                 { "-----BEGIN PGP SIGNATURE-----", "-----END PGP SIGNATURE-----" },
		                                 { "begin 6", "\nend\n" } };

	for (size_t i = 0; i < LEN(blocks); i++) {
		size_t k = strlen(blocks[i][0]);
		const char *end, *line;

		if (n - at < k + 12 || memcmp(p + at, blocks[i][0], k) != 0 || (i == 2 && p[at + 9] != ' ') ||
		    !(line = memchr(p + at, '\n', n - at)) ||
		    !(end = memmem(line, n - (size_t)(line - p), blocks[i][1], strlen(blocks[i][1]))))
			continue;
		m->encrypted += i == 0;
		if (i == 2) {
			str_adds(&m->attachments, m->attachments.n ? ", " : "");
			str_add(&m->attachments, p + at + 10, (size_t)(line - p) - at - 10);
			m->n_attachments++;
		}
		end += strlen(blocks[i][1]);
		return (size_t)(end - p);
	}
	return at;
}

static int is_blank(const char *s, size_t n)
{
	while (n && byte_is_blank(*s))
		s++, n--;
	return !n;
}

/* Write a plain text. If `flowed` is 1, a line that ends with a blank continues on the next line (RFC 3676). */
static void write_plain(struct mail *m, const char *p, size_t n, int flowed)
{
	int before = 0, joined = 0;

	writer_gap(m->w, GAP_BLOCK);
	for (size_t at = 0, next; at < n; at = next) {
		const char *end = memchr(p + at, '\n', n - at);
		size_t len = end ? (size_t)(end - p) - at : n - at, from;
		int depth = quote_depth(p + at, len, &from), soft;

		next = skip_block(m, p, n, at);
		if (next > at)
			continue;
		next = at + len + (end != NULL);
		if ((flowed || depth) && from < len && p[at + from] == ' ')
			from++;
		soft = flowed && len > from && p[at + len - 1] == ' ' &&
		       !(len - from == 3 && !memcmp(p + at + from, "-- ", 3));
		if (depth != before)
			writer_gap(m->w, GAP_BLOCK);
		if (is_blank(p + at + from, len - from) && !joined) {
			writer_gap(m->w, GAP_BLOCK);
		} else if (joined && depth == before) {
			write_lines(m->w, p + at + from, len - from);
		} else {
			writer_gap(m->w, GAP_LINE);
			for (int i = 0; i < depth; i++)
				writer_text(m->w, ">", 1);
			write_lines(m->w, " ", depth > 0);
			write_lines(m->w, p + at + from, len - from);
		}
		joined = soft;
		before = depth;
	}
	writer_gap(m->w, GAP_BLOCK);
}

/* Decode a part's text to UTF-8. */
static void part_text(const struct mime *part, const char *type, int html, struct str *out)
{
	struct str bytes = { 0 }, label = { 0 };
	const struct charset *c;

	mime_decode(part, &bytes);
	if (!mime_param(type, "charset", &label) && html && (c = charset_declared(str_text(&bytes), bytes.n)))
		str_adds(&label, c->name);
	mime_text(str_text(&bytes), bytes.n, str_text(&label), out);
	str_free(&bytes);
	str_free(&label);
}

static void write_text(struct mail *m, const struct mime *part, const char *type)
{
	struct str text = { 0 }, format = { 0 };
	int html = mime_is(type, "text/html") || mime_is(type, "application/xhtml");

	part_text(part, type, html, &text);
	if (html) {
		writer_gap(m->w, GAP_BLOCK);
		m->w->quoting = 1;
		html_convert(m->w, str_text(&text), text.n, NULL);
		m->w->quoting = 0;
		writer_gap(m->w, GAP_BLOCK);
	} else {
		mime_param(type, "format", &format);
		write_plain(m, str_text(&text), text.n, mime_is(str_text(&format), "flowed"));
	}
	str_free(&text);
	str_free(&format);
}

/* ---- parts ---- */

static void note_attachment(struct mail *m, const struct mime *part, const char *type)
{
	struct str disposition = { 0 }, name = { 0 };

	mime_field(part, "Content-Disposition", &disposition);
	if (!mime_param(str_text(&disposition), "filename", &name) && !mime_param(type, "name", &name))
		mime_text(type, strcspn(type, "; "), "", &name);
	for (size_t i = 0; i < name.n; i++)
		if (byte_is_blank(name.p[i]))
			name.p[i] = ' ';
	str_adds(&m->attachments, m->attachments.n ? ", " : "");
	str_add(&m->attachments, str_text(&name), name.n);
	m->n_attachments++;
	str_free(&disposition);
	str_free(&name);
}

static size_t count_letters(const struct str *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		n += !byte_is_blank(s->p[i]) && s->p[i] != '>' && !utf8_continues(s->p[i]);
	return n;
}

/* Write one of several forms of a text: the plain text, or the HTML if the plain text has less than a quarter of the
 * HTML's letters. */
static void write_alternative(struct mail *m, const struct mime *whole, const char *boundary, int depth)
{
	struct doc forms[2] = { { 0 }, { 0 } }; /* forms[0] is plain text; forms[1] is any other form, such as HTML */
	struct writer *w = m->w;
	struct mime part;
	size_t at = 0;
	int best;

	while (mime_next(whole, boundary, &at, &part)) {
		struct str type = { 0 };
		int rich = mime_field(&part, "Content-Type", &type) && !mime_is(type.p, "text/plain");
		struct writer form = { .doc = &forms[rich] };

		m->w = &form;
		if (!forms[rich].text.n && !(rich && mime_is(type.p, "text/calendar")))
			part_write(m, &part, depth + 1);
		writer_end(&form);
		str_free(&type);
	}
	m->w = w;
	best = 4 * count_letters(&forms[0].text) < count_letters(&forms[1].text);
	writer_gap(w, GAP_BLOCK);
	write_lines(w, str_text(&forms[best].text), forms[best].text.n);
	writer_gap(w, GAP_BLOCK);
	doc_free(&forms[0]);
	doc_free(&forms[1]);
}

static void write_multipart(struct mail *m, const struct mime *whole, const char *type, int depth)
{
	struct str boundary = { 0 };
	struct mime part;
	size_t at = 0, n = 0;
	int related = mime_is(type, "multipart/related"), signed_ = mime_is(type, "multipart/signed");

	mime_param(type, "boundary", &boundary);
	if (mime_is(type, "multipart/encrypted")) {
		m->encrypted++;
	} else if (mime_is(type, "multipart/alternative")) {
		write_alternative(m, whole, str_text(&boundary), depth);
		n = 1;
	} else {
		/* In multipart/related, skip parts after the first one that are not text, such as pictures. In
		 * multipart/signed, skip the signature. */
		for (; mime_next(whole, str_text(&boundary), &at, &part); n++) {
			struct str own = { 0 };
			int field = mime_field(&part, "Content-Type", &own);

			if (!n || !((related && field && !mime_is(own.p, "text/")) || signed_))
				part_write(m, &part, depth + 1);
			str_free(&own);
		}
	}
	if (!n && !m->encrypted)
		write_text(m, whole, "text/plain");
	str_free(&boundary);
}

static void message_write(struct mail *m, const struct mime *message, int depth);

static int is_attachment(const struct mime *part)
{
	struct str s = { 0 };
	int is;

	mime_field(part, "Content-Disposition", &s);
	is = mime_is(str_text(&s), "attachment");
	str_free(&s);
	return is;
}

static void part_write(struct mail *m, const struct mime *part, int depth)
{
	struct str type = { 0 };
	const char *t;

	if (depth > DEPTH_MAX)
		return;
	if (!mime_field(part, "Content-Type", &type) || !type.n)
		str_adds(&type, "text/plain");
	t = type.p;
	if (mime_is(t, "multipart/")) {
		write_multipart(m, part, t, depth);
	} else if (mime_is(t, "message/rfc822") || mime_is(t, "message/global")) {
		struct str bytes = { 0 };
		struct mime inner;

		mime_decode(part, &bytes);
		inner = mime_split(str_text(&bytes), bytes.n);
		message_write(m, &inner, depth + 1);
		str_free(&bytes);
	} else if (mime_is(t, "application/pkcs7-mime") || mime_is(t, "application/x-pkcs7-mime")) {
		m->encrypted++;
	} else if (is_attachment(part) ||
	           !(mime_is(t, "text/") || mime_is(t, "message/") || mime_is(t, "application/xhtml") ||
	             !strchr(t, '/')) ||
	           mime_is(t, "text/calendar")) {
		note_attachment(m, part, t);
	} else {
		write_text(m, part, t);
	}
	str_free(&type);
}

/* ---- messages ---- */

static void write_headers(struct mail *m, const struct mime *message)
{
	static const char *const names[] = { "From", "To", "Cc", "Date" };
	struct str s = { 0 };

	if (!mime_header(message, "Subject", &s) || !s.n)
		str_adds(&s, "(no subject)");
	writer_heading_begin(m->w, m->level < 6 ? m->level : 6);
	writer_text(m->w, s.p, s.n);
	writer_heading_end(m->w);
	for (size_t i = 0; i < LEN(names); i++) {
		str_clear(&s);
		if (!mime_header(message, names[i], &s) || !s.n)
			continue;
		writer_text(m->w, names[i], strlen(names[i]));
		writer_text(m->w, ": ", 2);
		writer_text(m->w, s.p, s.n);
		writer_gap(m->w, GAP_LINE);
	}
	writer_gap(m->w, GAP_BLOCK);
	str_free(&s);
}

static void message_write(struct mail *m, const struct mime *message, int depth)
{
	struct str outer = m->attachments;

	m->attachments = (struct str){ 0 };
	m->messages++;
	m->level++;
	write_headers(m, message);
	part_write(m, message, depth);
	if (m->attachments.n) {
		writer_gap(m->w, GAP_BLOCK);
		writer_text(m->w, "Attachments: ", 13);
		writer_text(m->w, m->attachments.p, m->attachments.n);
		if (m->all.n < 300)
			str_addf(&m->all, "%s%s", m->all.n ? ", " : "", m->attachments.p);
	}
	writer_gap(m->w, GAP_BLOCK);
	m->level--;
	str_free(&m->attachments);
	m->attachments = outer;
}

/* 1 if a message begins at byte `at` of a mailbox: a line with "From " and a sender, and then a header field. */
static int begins_message(const char *p, size_t n, size_t at)
{
	const char *line = n - at > 5 && !memcmp(p + at, "From ", 5) ? memchr(p + at, '\n', n - at) : NULL;
	size_t i;

	if (!line)
		return 0;
	for (i = (size_t)(line - p) + 1; i < n && (byte_is_alnum(p[i]) || p[i] == '-' || p[i] == '_' || p[i] == '>');
	     i++)
		;
	return i < n && i > (size_t)(line - p) + 1 && (p[i] == ':' || p[i] == ' ');
}

/* Copy a message of a mailbox. Leave out its first line, and each ">" that was put before "From " in its text. */
static void unquote_from(const char *p, size_t n, struct str *out)
{
	for (size_t at = 0, next; at < n; at = next) {
		const char *end = memchr(p + at, '\n', n - at);
		size_t i = at;

		next = end ? (size_t)(end - p) + 1 : n;
		while (i < next && p[i] == '>')
			i++;
		if (i > at && next - i > 5 && !memcmp(p + i, "From ", 5))
			at++;
		str_add(out, p + at, next - at);
	}
}

static void write_mailbox(struct mail *m, const char *p, size_t n)
{
	for (size_t at = 0, next; at < n; at = next) {
		const char *line = memchr(p + at, '\n', n - at);
		struct str text = { 0 };
		struct mime message;

		for (next = line ? (size_t)(line - p) + 1 : n; next < n;) {
			const char *end = memchr(p + next, '\n', n - next);

			if (begins_message(p, n, next) && (p[next - 2] == '\n' || p[next - 2] == '\r'))
				break;
			next = end ? (size_t)(end - p) + 1 : n;
		}
		if (line)
			unquote_from(line + 1, next - (size_t)(line + 1 - p), &text);
		message = mime_split(str_text(&text), text.n);
		message_write(m, &message, 0);
		str_free(&text);
	}
}

/* 1 if the message is a page that a browser has saved: it has no receiver. */
static int is_saved_page(const struct mime *message)
{
	struct str s = { 0 };
	int is = !mime_field(message, "To", &s) && !mime_field(message, "Received", &s) &&
	         mime_field(message, "Content-Type", &s) &&
	         (mime_is(s.p, "multipart/related") || mime_is(s.p, "text/html"));

	str_free(&s);
	return is;
}

/* Find the first HTML part. Returns 0 if there is none. */
static int find_page(const struct mime *whole, struct mime *page, int depth)
{
	struct str type = { 0 }, boundary = { 0 };
	struct mime part;
	size_t at = 0;
	int found = mime_field(whole, "Content-Type", &type) &&
	            (mime_is(type.p, "text/html") || mime_is(type.p, "application/xhtml"));

	*page = *whole;
	if (!found && depth < DEPTH_MAX && type.p && mime_is(type.p, "multipart/") &&
	    mime_param(type.p, "boundary", &boundary))
		while (!found && mime_next(whole, boundary.p, &at, &part))
			found = find_page(&part, page, depth + 1);
	str_free(&type);
	str_free(&boundary);
	return found;
}

static int page_import(const struct mime *page, struct doc *d, struct err *e)
{
	struct str type = { 0 }, html = { 0 };
	int rc;

	mime_field(page, "Content-Type", &type);
	part_text(page, str_text(&type), 1, &html);
	rc = html_import(str_text(&html), html.n, d, e);
	str_free(&type);
	str_free(&html);
	return rc;
}

int mail_import(const char *p, size_t n, struct doc *d, struct err *e)
{
	struct writer w = { .doc = d };
	struct mail m = { .w = &w };
	struct mime message, page;

	if (n > 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		p += 3, n -= 3;
	/* a file of Apple Mail (.emlx) begins with the number of bytes of the message: skip it */
	for (size_t i = 0; i < n && i < 12 && (byte_is_digit(p[i]) || byte_is_blank(p[i])); i++)
		if (p[i] == '\n') {
			p += i + 1;
			n -= i + 1;
			break;
		}
	message = mime_split(p, n);
	if (is_saved_page(&message) && find_page(&message, &page, 0))
		return page_import(&page, d, e);
	if (begins_message(p, n, 0))
		write_mailbox(&m, p, n);
	else
		message_write(&m, &message, 0);
	writer_end(&w);
	if (m.n_attachments)
		doc_note(d, "%zu attachment%s left out: %.250s%s", m.n_attachments,
		         m.n_attachments == 1 ? " was" : "s were", str_text(&m.all), m.all.n > 250 ? " ..." : "");
	if (m.encrypted)
		doc_note(d, "%zu part%s encrypted and %s left out", m.encrypted, m.encrypted == 1 ? " is" : "s are",
		         m.encrypted == 1 ? "was" : "were");
	str_free(&m.all);
	return d->text.n ? 0 : err_set(e, ERR_DOCUMENT, "holds no text");
}
