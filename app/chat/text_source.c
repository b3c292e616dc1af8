/* app/chat/text_source.c - reads, decodes and checks text, about 2 KiB a call (text_source.h).
 *
 * Plain text may grow while it is read. Its encoding is found from its first bytes; then each block is read, converted
 * to UTF-8 and checked. Each line is returned once it has ended; if a pipe is silent, an incomplete line is returned,
 * too. Escape sequences and overstrikes, which only a terminal understands, are left out. Files of other formats and
 * web pages are imported whole by doc_decode() and doc_read(), and their text is returned in parts. */
#include "app/chat/text_source.h"

#include <errno.h>
#include <fcntl.h>
#include <iconv.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sessions/fetch/fetch.h"
#include "sessions/import/import.h"
#include "ui/text/text.h"

enum {
	/* number of bytes to read before finding the encoding; if a pipe has fewer bytes so far, these are used */
	LOOK = 4096,
	PIECE = 2048,
	/* maximum number of bytes of an incomplete line that are held back until the line is complete */
	LINE = 65536,
	GATHER = 65536, /* bytes per read() of a document that is imported whole */
};

struct text_source {
	int fd;
	char *name;
	struct str shown; /* the name without control characters */
	int64_t size;     /* size of a regular file; -1 for other files */
	uint64_t bytes;   /* bytes read so far */
	int looked;       /* 1 = the encoding is known */
	int ended;
	iconv_t conv;
	int converts; /* 1 = conv is open, because the text is not UTF-8 */
	/* size of the encoding's smallest code unit in bytes; after a decoding error, this many bytes are skipped */
	size_t unit;
	/* Bytes that were read but are not decoded yet. They are an incomplete character, or the start of the file
	 * until its encoding is known. */
	struct str raw;
	/* converted text that is not checked yet; between calls only an incomplete character is left */
	struct str utf8;
	struct str line; /* checked text of a line that has not ended; only used if prints is 1 */
	int after_cr;
	/* 1 = leave out escape sequences, overstrikes, and text of a line that a carriage return overwrites */
	int prints;
	int gathers; /* 1 = the file is not plain text: it is read whole into raw, then imported */
	int imported;
	struct doc doc;
	size_t at; /* number of bytes of the imported text that were returned so far */
};

static int refuse(const struct text_source *s, struct err *e, const char *why)
{
	return err_set(e, ERR_DOCUMENT, "'%.180s' %s", str_text(&s->shown), why);
}

static int check_kind(struct text_source *s, int is_input, struct err *e)
{
	struct stat st;

	if (fstat(s->fd, &st) < 0)
		return refuse(s, e, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return refuse(s, e, "is a directory, not a text");
	if (is_input && isatty(s->fd))
		return refuse(s, e, "is a terminal; pipe a text into it or name a file");
	if (S_ISBLK(st.st_mode) || (S_ISCHR(st.st_mode) && !is_input))
		return refuse(s, e, "is a device, not a text");
	s->size = S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
	return 0;
}

static int open_address(struct text_source *s, struct text_source **out, const char *address, struct err *e)
{
	struct str url = { 0 }, shown = { 0 };
	int rc = doc_address(address, &url, &shown, e);

	s->name = url.p;
	clean_line(str_text(&shown), shown.n, &s->shown);
	s->gathers = 1;
	str_free(&shown);
	if (rc < 0)
		text_source_close(s);
	else
		*out = s;
	return rc;
}

int text_source_open(struct text_source **out, const char *path, struct err *e)
{
	int is_input = !strcmp(path, "-");
	struct text_source *s = xcalloc(1, sizeof *s);

	s->size = s->fd = -1;
	if (doc_is_address(path))
		return open_address(s, out, path, e);
	s->name = xstrndup(is_input ? "standard input" : path, is_input ? 14 : strlen(path));
	clean_line(s->name, strlen(s->name), &s->shown);
	/* O_NONBLOCK: opening a named pipe must not wait for a writer. Each read has its own time limit. */
	s->fd = is_input ? fcntl(0, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (s->fd < 0)
		err_set(e, ERR_DOCUMENT, "'%.180s' cannot be opened: %s", str_text(&s->shown), strerror(errno));
	else if (check_kind(s, is_input, e) == 0) {
		*out = s;
		return 0;
	}
	text_source_close(s);
	return -1;
}

void text_source_close(struct text_source *s)
{
	if (!s)
		return;
	if (s->converts)
		iconv_close(s->conv);
	if (s->fd >= 0)
		close(s->fd);
	free(s->name);
	str_free(&s->shown);
	str_free(&s->raw);
	str_free(&s->utf8);
	str_free(&s->line);
	doc_free(&s->doc);
	free(s);
}

/* ---- decoding ---- */

/* Find the encoding from the first bytes of the file, which are in s->raw. Sets s->gathers for formats that must be
 * imported. Returns 0, or -1 for binary data and for encodings that the C library cannot convert. */
static int encoding_find(struct text_source *s, struct err *e)
{
	struct doc doc;
	int rc = 0;

	s->looked = 1;
	if (!doc_is_plain(s->name, s->raw.p, s->raw.n)) {
		s->gathers = 1;
		return 0;
	}
	if (doc_decode(s->name, s->raw.p, s->raw.n, &doc, e) < 0)
		return -1;
	s->prints = doc_may_be_printed(s->name, doc.type);
	if (strcmp(doc.encoding, "UTF-8") != 0) {
		s->conv = iconv_open("UTF-8", doc.encoding);
		s->converts = s->conv != (iconv_t)-1;
		s->unit = strncmp(doc.encoding, "UTF-16", 6) ? 1 : 2;
		if (!s->converts)
			rc = err_set(e, ERR_DOCUMENT,
			             "'%.180s' is %s text, which the C library here cannot convert; use iconv first",
			             s->shown.p, doc.encoding);
	}
	doc_free(&doc);
	return rc;
}

static int is_blank(const struct str *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strchr(" \t\r\n\f\v", s->p[i]) || !s->p[i])
			return 0;
	return 1;
}

static void bytes_drop(struct str *s, size_t n)
{
	if (!n)
		return;
	s->n -= n;
	memmove(s->p, s->p + n, s->n);
	s->p[s->n] = 0;
}

/* Move s->raw to s->utf8, converted to UTF-8. */
static void raw_convert(struct text_source *s)
{
	if (!s->converts) {
		str_add(&s->utf8, str_text(&s->raw), s->raw.n);
		str_clear(&s->raw);
		return;
	}
	while (s->raw.n) {
		char buf[1024], *in = s->raw.p, *to = buf;
		size_t left = s->raw.n, room = sizeof buf, rc = iconv(s->conv, &in, &left, &to, &room);
		int why = errno;

		str_add(&s->utf8, buf, sizeof buf - room);
		bytes_drop(&s->raw, s->raw.n - left);
		if (rc != (size_t)-1 || (why == EINVAL && !s->ended))
			/* everything is converted, or the last character is incomplete */
			break;
		if (why == E2BIG)
			continue;
		str_adds(&s->utf8, "\xef\xbf\xbd");
		bytes_drop(&s->raw, MIN(s->unit, s->raw.n));
	}
}

/* Move s->utf8 to *out, with U+FFFD for invalid bytes and \n for \r\n. A \r without \n stays if s->prints is 1, else it
 * becomes \n. */
static void utf8_check(struct text_source *s, struct str *out)
{
	size_t whole = s->ended || !s->utf8.n ? s->utf8.n : utf8_complete(s->utf8.p, s->utf8.n), at = 0;

	while (at < whole) {
		int32_t cp;
		size_t n = (size_t)utf8_decode(s->utf8.p + at, whole - at, &cp);

		if (cp < 0 || cp == 0)
			str_adds(out, "\xef\xbf\xbd");
		else if (cp == '\r')
			str_adds(out, s->prints ? "\r" : "\n");
		else if (cp == '\n' && s->after_cr && s->prints)
			out->p[out->n - 1] = '\n';
		else if (cp != 0xfeff && !(cp == '\n' && s->after_cr))
			str_add(out, s->utf8.p + at, n);
		s->after_cr = cp == '\r';
		at += n;
	}
	bytes_drop(&s->utf8, whole);
}

/* 1 if later bytes cannot change the text of this incomplete line, because it has no carriage return, backspace or
 * escape. If the pipe is silent, the line may then be returned. */
static int line_is_settled(const struct str *line)
{
	return line->n && !memchr(line->p, '\r', line->n) && !memchr(line->p, '\b', line->n) &&
	       !memchr(line->p, '\033', line->n);
}

/* Move the complete lines from s->line to *out, without escape sequences and overstrikes. If `whole` is 1, move the
 * last line, too, although it is incomplete. */
static void line_print(struct text_source *s, int whole, struct str *out)
{
	char *end = s->line.n ? memrchr(s->line.p, '\n', s->line.n) : NULL;
	size_t n = whole || s->line.n > LINE ? s->line.n : end ? (size_t)(end + 1 - s->line.p) : 0;
	struct str part = { 0 };

	if (!n)
		return;
	str_add(&part, s->line.p, n);
	bytes_drop(&s->line, n);
	printed_clean(&part);
	str_add(out, part.p, part.n);
	str_free(&part);
}

/* ---- documents of other formats ---- */

static int document_import(struct text_source *s, struct err *e)
{
	int rc = s->fd < 0 ? doc_read(s->name, &s->doc, e)
	                   : doc_decode(s->name, str_text(&s->raw), s->raw.n, &s->doc, e);

	if (!rc || e->code != ERR_CANCELLED) /* after a stopped import, keep the bytes: the import can begin again */
		str_free(&s->raw);
	s->imported = rc == 0;
	return rc;
}

static int next_imported(struct text_source *s, struct str *out)
{
	size_t left = s->doc.text.n - s->at, n = left;

	if (!left)
		return SOURCE_END;
	if (n > PIECE)
		n = utf8_complete(s->doc.text.p + s->at, PIECE);
	str_add(out, s->doc.text.p + s->at, n);
	s->at += n;
	return SOURCE_TEXT;
}

/* ---- reading ---- */

/* Wait at most ms milliseconds. Returns 1 if read() will not block. */
static int wait_for(const struct text_source *s, int ms)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };

	return s->size >= 0 || poll(&p, 1, ms) > 0;
}

int text_source_next(struct text_source *s, int wait_ms, struct str *out, struct err *e)
{
	char buf[GATHER];
	size_t before = out->n;
	struct stat st;
	ssize_t n;

	if (s->imported)
		return next_imported(s, out);
	if (s->gathers && (s->fd < 0 || s->ended))
		return document_import(s, e) < 0 ? -1 : SOURCE_TEXT;
	if (!wait_for(s, wait_ms)) {
		/* The pipe has no more bytes for now: find the encoding from the bytes that have come so far. */
		if (s->looked || is_blank(&s->raw)) {
			line_print(s, line_is_settled(&s->line), out);
			return SOURCE_LATER;
		}
		n = -1;
	} else {
		n = read(s->fd, buf, s->gathers ? GATHER : PIECE);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return SOURCE_LATER;
		if (n < 0)
			return err_set(e, ERR_DOCUMENT, "'%.180s' cannot be read: %s", s->shown.p, strerror(errno));
		if (s->size >= 0 && n && s->bytes + (uint64_t)n > (uint64_t)s->size && fstat(s->fd, &st) == 0)
			s->size = (int64_t)st.st_size;
		s->ended = n == 0;
		s->bytes += (uint64_t)n;
		str_add(&s->raw, buf, (size_t)n);
		if (s->raw.n > DOC_BYTES_MAX)
			return refuse(s, e, "is longer than the limit of 64 MiB for documents that are no plain text");
	}
	if (!s->looked) {
		if (n > 0 && s->raw.n < LOOK)
			return SOURCE_TEXT;
		if (s->ended && is_blank(&s->raw))
			return refuse(s, e, s->bytes ? "is empty: it holds only white space" : "is empty");
		if (encoding_find(s, e) < 0)
			return -1;
	}
	if (s->gathers)
		return SOURCE_TEXT;
	raw_convert(s);
	utf8_check(s, s->prints ? &s->line : out);
	line_print(s, s->ended, out);
	return s->ended && out->n == before ? SOURCE_END : SOURCE_TEXT;
}

const char *text_source_name(const struct text_source *s)
{
	return str_text(&s->shown);
}

void text_source_progress(const struct text_source *s, struct source_progress *out)
{
	*out = (struct source_progress){ .at = s->bytes, .total = s->size > 0 ? (uint64_t)s->size : 0 };
	if (s->imported) {
		const struct mark *page = doc_mark_at(&s->doc, MARK_PAGE, s->at ? s->at - 1 : 0);

		*out = (struct source_progress){
			.at = s->at,
			.total = s->doc.text.n,
			.page = page ? page->text : NULL,
		};
		for (size_t i = 0; i < s->doc.n_mark; i++) {
			out->pages += s->doc.mark[i].kind == MARK_PAGE;
			out->number += s->doc.mark[i].kind == MARK_PAGE && &s->doc.mark[i] <= page;
		}
	} else if (s->gathers) {
		out->imports = 1;
	}
}

const struct doc *text_source_document(const struct text_source *s)
{
	return s->imported ? &s->doc : NULL;
}
