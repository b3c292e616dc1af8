/* sessions/import.c - documents: from a file or a pipe to plain UTF-8 text.
 *
 * A document is hostile until proven otherwise.  Only regular files are opened (the check runs before the open,
 * because opening a device can already do something, and again after it, on what was really opened);
 * standard input may be a pipe.  Sizes are capped before memory is asked for.  What is not text is
 * recognised by its first bytes and refused by name; text is UTF-8, UTF-16 with a byte order mark, or
 * Windows-1252 as the last resort, and whatever had to be guessed or replaced is said in a notice. */
#include "sessions/sessions.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

#define STDIN_NAME "standard input"

/* The end of a path tells files apart; a path that fills the message would push the reason out of it. */
static const char *shown(const char *path)
{
	size_t n = strlen(path);

	return n > 180 ? path + n - 180 : path;
}

static int refuse(struct err *e, const char *path, const char *why)
{
	return err_set(e, ERR_DOCUMENT, "document '%s' %s", shown(path), why);
}

static int refuse_errno(struct err *e, const char *path, const char *what, int code)
{
	return err_set(e, ERR_DOCUMENT, "document '%s' cannot be %s: %s", shown(path), what, strerror(code));
}

/* ---- bytes ---- */

/* Everything fd has, at most DOC_BYTES_MAX; hint: the expected size or 0. */
static int read_all(int fd, const char *path, size_t hint, char **out, size_t *out_n, struct err *e)
{
	size_t cap = hint ? hint + 1 : 65536, n = 0;
	char *buf = try_alloc(cap, 1, "a document", e);

	if (!buf)
		return -1;
	for (;;) {
		ssize_t got;
		if (n == cap) {
			size_t more = cap > DOC_BYTES_MAX / 2 ? (size_t)DOC_BYTES_MAX + 1 : cap * 2;
			char *bigger = realloc(buf, more);
			if (!bigger) {
				err_set(e, ERR_FIT, "no memory for document '%s': %zu bytes wanted", shown(path), more);
				break;
			}
			buf = bigger;
			cap = more;
		}
		got = read(fd, buf + n, cap - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			refuse_errno(e, path, "read", errno);
			break;
		}
		if (!got) {
			*out = buf;
			*out_n = n;
			return 0;
		}
		n += (size_t)got;
		if (n > DOC_BYTES_MAX) {
			err_set(e, ERR_DOCUMENT, "document '%s' is longer than the limit of %u bytes; split it",
			        shown(path), DOC_BYTES_MAX);
			break;
		}
	}
	free(buf);
	return -1;
}

/* 0 if this is a file to read, or says what it is instead. */
static int check_kind(const char *path, const struct stat *st, struct err *e)
{
	switch (st->st_mode & S_IFMT) {
	case S_IFREG:
		break;
	case S_IFDIR:
		return refuse(e, path, "is a directory; name the files in it");
	case S_IFIFO:
		return refuse(e, path, "is a pipe, not a file; use '-' to read standard input");
	case S_IFCHR: case S_IFBLK:
		return refuse(e, path, "is a device, not a file");
	case S_IFSOCK:
		return refuse(e, path, "is a socket, not a file");
	default:
		return refuse(e, path, "is not a regular file");
	}
	if (st->st_size > (off_t)DOC_BYTES_MAX)
		return err_set(e, ERR_DOCUMENT, "document '%s' has %lld bytes, the limit is %u; split it",
		               shown(path), (long long)st->st_size, DOC_BYTES_MAX);
	return 0;
}

/* Files of the kernel look regular, and reading one can block or tell secrets. */
static int check_filesystem(const char *path, int fd, struct err *e)
{
#ifdef __linux__
	struct statfs fs;
	if (!fstatfs(fd, &fs) && (fs.f_type == 0x9fa0 /* proc */ || fs.f_type == 0x62656572 /* sysfs */))
		return refuse(e, path, "belongs to the kernel (/proc or /sys), it is not a document");
#else
	(void)path, (void)fd, (void)e;
#endif
	return 0;
}

static int read_file(const char *path, char **buf, size_t *n, struct err *e)
{
	struct stat st;
	int fd, r = -1;

	if (stat(path, &st))
		return refuse_errno(e, path, "opened", errno);
	if (check_kind(path, &st, e))
		return -1;
	/* O_NONBLOCK: if a pipe took the file's place meanwhile, this must not wait for a writer. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return refuse_errno(e, path, "opened", errno);
	if (fstat(fd, &st))
		refuse_errno(e, path, "examined", errno);
	else if (!check_kind(path, &st, e) && !check_filesystem(path, fd, e))
		r = read_all(fd, path, (size_t)st.st_size, buf, n, e);
	close(fd);
	if (!r && *n < (size_t)st.st_size) {
		err_set(e, ERR_DOCUMENT, "document '%s' was cut short while it was read: %zu of %lld bytes came",
		        shown(path), *n, (long long)st.st_size);
		free(*buf);
		return -1;
	}
	return r;
}

static int read_stdin(char **buf, size_t *n, struct err *e)
{
	struct stat st;

	if (fstat(STDIN_FILENO, &st))
		return refuse_errno(e, STDIN_NAME, "examined", errno);
	if (S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode) || (S_ISREG(st.st_mode) && st.st_size > (off_t)DOC_BYTES_MAX))
		return check_kind(STDIN_NAME, &st, e);
	if (isatty(STDIN_FILENO))
		return refuse(e, STDIN_NAME, "is a terminal; pipe a document into it or name a file");
	return read_all(STDIN_FILENO, STDIN_NAME, 0, buf, n, e);
}

/* ---- what is not text ---- */

struct magic { const char *bytes; unsigned char n, at; const char *why; };

static const struct magic magics[] = {
#define MAGIC(bytes, at, why) { bytes, sizeof bytes - 1, at, why }
	MAGIC("%PDF-", 0, "is a PDF; PDF documents are not supported yet: convert it with pdftotext"),
	MAGIC("\xef\xbb\xbf%PDF-", 0, "is a PDF; PDF documents are not supported yet: convert it with pdftotext"),
	MAGIC("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0,
	      "is an old Office file, which is not supported: convert it with catdoc or save it as text"),
	MAGIC("{\\rtf", 0, "is an RTF file; RTF documents are not supported: save it as text"),
	MAGIC("BOOKMOBI", 60, "is a Mobipocket e-book, which is not supported: convert it to text"),
	MAGIC("AT&TFORM", 0, "is a DjVu file, which is not supported: convert it with djvutxt"),
	MAGIC("GGUF", 0, "is a model (GGUF), not a document; use -m to choose a model"),
	MAGIC("SQLite format 3\0", 0, "is an SQLite database, not a document"),
	MAGIC("\x7f" "ELF", 0, "is a program, not a document"),
	MAGIC("\x1f\x8b", 0, "is compressed (gzip): unpack it first with gunzip"),
	MAGIC("BZh", 0, "is compressed (bzip2): unpack it first"),
	MAGIC("\xfd" "7zXZ\0", 0, "is compressed (xz): unpack it first"),
	MAGIC("\x28\xb5\x2f\xfd", 0, "is compressed (zstd): unpack it first"),
	MAGIC("7z\xbc\xaf\x27\x1c", 0, "is a 7z archive: unpack it first"),
	MAGIC("\x89PNG\r\n\x1a\n", 0, "is an image (PNG), not a text"),
	MAGIC("\xff\xd8\xff", 0, "is an image (JPEG), not a text"),
	MAGIC("GIF8", 0, "is an image (GIF), not a text"),
	MAGIC("\0\0\xfe\xff", 0, "is UTF-32 text, which is not supported: convert it with iconv -f UTF-32 -t UTF-8"),
	MAGIC("\xff\xfe\0\0", 0, "is UTF-32 text, which is not supported: convert it with iconv -f UTF-32 -t UTF-8"),
#undef MAGIC
};

static const char *zip_kind(const char *p, size_t n)
{
	static const char epub[] = "mimetypeapplication/epub+zip";
	static const char odt[] = "mimetypeapplication/vnd.oasis.opendocument";

	/* The first entry of these is stored and begins at byte 30. */
	if (n >= 30 + sizeof epub - 1 && !memcmp(p + 30, epub, sizeof epub - 1))
		return "is an EPUB; EPUB documents are not supported yet: convert it with pandoc -t plain";
	if (n >= 30 + sizeof odt - 1 && !memcmp(p + 30, odt, sizeof odt - 1))
		return "is an OpenDocument file, which is not supported yet: convert it with odt2txt or pandoc -t plain";
	if (memmem(p, n, "word/document.xml", 17))
		return "is a DOCX; DOCX documents are not supported yet: convert it with docx2txt or pandoc -t plain";
	if (memmem(p, n, "[Content_Types].xml", 19))
		return "is an Office file (not a text document), which is not supported: export it as text";
	return "is a zip archive: unpack it first";
}

static const char *not_text(const char *p, size_t n)
{
	if (n >= 4 && !memcmp(p, "PK\3\4", 4))
		return zip_kind(p, n);
	for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
		const struct magic *m = &magics[i];
		if (n >= (size_t)m->at + m->n && !memcmp(p + m->at, m->bytes, m->n))
			return m->why;
	}
	return NULL;
}

/* ---- text ---- */

enum encoding { ENC_UTF8, ENC_UTF16LE, ENC_UTF16BE, ENC_CP1252 };
static const char *const encoding_name[] = { "UTF-8", "UTF-16LE", "UTF-16BE", "Windows-1252" };

/* What a look over the bytes as UTF-8 shows. */
struct survey { size_t bad, multibyte, nul, control, lf, lone_cr; };

static struct survey survey(const char *p, size_t n)
{
	struct survey s = { 0 };

	for (size_t i = 0; i < n;) {
		unsigned char c = (unsigned char)p[i];
		int32_t cp;
		if (c >= 0x80) {
			i += (size_t)utf8_decode(p + i, n - i, &cp);
			if (cp < 0)
				s.bad++;
			else
				s.multibyte++;
			continue;
		}
		/* Tabs, ends of lines and pages, bells, backspaces and escapes are found in real texts and logs. */
		if (c < 0x20 && !(c >= 7 && c <= 13) && c != 27)
			s.control++;
		s.nul += !c;
		s.lf += c == '\n';
		s.lone_cr += c == '\r' && (i + 1 == n || p[i + 1] != '\n');
		i++;
	}
	return s;
}

/* 0x80-0x9f of Windows-1252; 0 = not assigned. */
static const uint16_t cp1252[32] = {
	0x20ac, 0, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0, 0x017d, 0,
	0, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0, 0x017e, 0x0178,
};

/* One code point of p[0..n), n > 0: its length in bytes; *cp = -1 where there is none. */
static size_t next_char(enum encoding enc, const char *p, size_t n, int32_t *cp)
{
	unsigned char c = (unsigned char)p[0];
	unsigned hi, lo;
	int be = enc == ENC_UTF16BE;

	switch (enc) {
	case ENC_UTF8:
		return (size_t)utf8_decode(p, n, cp);
	case ENC_CP1252:
		*cp = c < 0x80 || c > 0x9f ? c : cp1252[c - 0x80] ? cp1252[c - 0x80] : -1;
		return 1;
	case ENC_UTF16LE: case ENC_UTF16BE:
		break;
	}
	*cp = -1;
	if (n < 2)
		return 1;
	hi = (unsigned)(unsigned char)p[!be] << 8 | (unsigned char)p[be];
	if (hi < 0xd800 || hi > 0xdfff) {
		*cp = (int32_t)hi;
		return 2;
	}
	if (hi > 0xdbff || n < 4)
		return 2;
	lo = (unsigned)(unsigned char)p[2 + !be] << 8 | (unsigned char)p[2 + be];
	if (lo < 0xdc00 || lo > 0xdfff)
		return 2;
	*cp = (int32_t)(0x10000 + ((hi - 0xd800) << 10) + (lo - 0xdc00));
	return 4;
}

/* Decode to UTF-8 with \n line ends; to == NULL only counts.  Returns the bytes. */
static size_t decode(enum encoding enc, int keep_cr, const char *p, size_t n, char *to, size_t *replaced, size_t *nul)
{
	size_t used = 0;
	int after_cr = 0;

	*replaced = *nul = 0;
	for (size_t i = 0; i < n;) {
		char s[4];
		int32_t cp;
		int len;
		i += next_char(enc, p + i, n - i, &cp);
		*nul += cp == 0;
		*replaced += cp < 0;
		if (cp <= 0)
			cp = 0xfffd;
		/* A CR is written when it is known that no LF follows. */
		if (after_cr && cp != '\n') {
			if (to)
				to[used] = keep_cr ? '\r' : '\n';
			used++;
		}
		after_cr = cp == '\r';
		if (after_cr)
			continue;
		len = utf8_encode(cp, s);
		if (to)
			memcpy(to + used, s, (size_t)len);
		used += (size_t)len;
	}
	if (after_cr) {
		if (to)
			to[used] = keep_cr ? '\r' : '\n';
		used++;
	}
	return used;
}

static int blank(const char *p, size_t n)
{
	while (n && strchr(" \t\n\r\f\v", *p) && *p)
		p++, n--;
	return !n;
}

int doc_decode(const char *name, const void *bytes, size_t n, struct doc *out, struct err *e)
{
	const char *p = bytes, *slash = strrchr(name, '/'), *why;
	struct survey s;
	enum encoding enc = ENC_UTF8;
	size_t size = n, bom = 0, replaced, nul, used;
	int keep_cr = 1;
	char *text;

	*out = (struct doc){ 0 };
	if (!n)
		return refuse(e, name, "is empty");
	why = not_text(p, n);
	if (why)
		return refuse(e, name, why);

	if (n >= 2 && !memcmp(p, "\xff\xfe", 2))
		enc = ENC_UTF16LE, bom = 2;
	else if (n >= 2 && !memcmp(p, "\xfe\xff", 2))
		enc = ENC_UTF16BE, bom = 2;
	else if (n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		bom = 3;
	p += bom;
	n -= bom;
	if (enc == ENC_UTF8) {
		s = survey(p, n);
		if (s.nul > n / 1024)
			return refuse(e, name, "is a binary file, not a text (it has NUL bytes)");
		/* A few bad bytes in a text full of good UTF-8 are damage, and reading all of it as another
		 * encoding would be the greater one.  A last character cut in half is no sign of anything. */
		if (s.multibyte && utf8_complete(p, n) < n)
			s.bad--;
		if (s.bad && !bom && s.multibyte < 10 * s.bad) {
			if (s.control > n / 64)
				return refuse(e, name, "is a binary file, not a text (it has control characters and is not UTF-8)");
			enc = ENC_CP1252;
		}
		keep_cr = s.lf || !s.lone_cr;   /* no LF at all: CR ends the lines */
	}

	used = decode(enc, keep_cr, p, n, NULL, &replaced, &nul);
	if (nul > n / 1024)
		return refuse(e, name, "is a binary file, not a text (it has NUL characters)");
	text = try_alloc(used + 1, 1, "a document", e);
	if (!text)
		return -1;
	decode(enc, keep_cr, p, n, text, &replaced, &nul);
	text[used] = 0;
	if (blank(text, used)) {
		free(text);
		return refuse(e, name, used ? "is empty: it holds only white space" : "is empty");
	}

	out->bytes = size;
	out->text.p = text;
	out->text.n = used;
	out->text.cap = used + 1;
	out->encoding = encoding_name[enc];
	slash = slash && slash[1] ? slash + 1 : name;
	out->name = xstrndup(slash, strlen(slash));
	if (enc == ENC_CP1252)
		str_adds(&out->notices, "not UTF-8: read as Windows-1252, a guess\n");
	if (replaced)
		str_addf(&out->notices, "%zu byte sequence%s that cannot be %s replaced by U+FFFD\n", replaced,
		         replaced == 1 ? "" : "s", replaced == 1 ? "decoded was" : "decoded were");
	if (nul)
		str_addf(&out->notices, "%zu NUL character%s replaced by U+FFFD\n", nul, nul == 1 ? " was" : "s were");
	return 0;
}

int doc_read(const char *path, struct doc *out, struct err *e)
{
	int from_stdin = !strcmp(path, "-");
	char *buf = NULL;
	size_t n = 0;
	int r;

	*out = (struct doc){ 0 };
	if (from_stdin ? read_stdin(&buf, &n, e) : read_file(path, &buf, &n, e))
		return -1;
	r = doc_decode(from_stdin ? STDIN_NAME : path, buf, n, out, e);
	free(buf);
	return r;
}

void doc_free(struct doc *d)
{
	free(d->name);
	str_free(&d->text);
	str_free(&d->notices);
	*d = (struct doc){ 0 };
}
