/* sessions/import/ocr.c - recognises pages with tesseract, one after the other (ocr.h). */
#include "sessions/import/ocr.h"
#include "sessions/import/child.h"
#include "engine/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/os.h"

#define PAGE_BYTES_MAX (128u << 10) /* maximum number of bytes of text of a page; a page of a newspaper has 40 KiB */
/* before and after a hyphen, divides_word() searches this number of bytes of the page for the word with its hyphen */
#define HYPHEN_NEAR    4096u
#define DPI            "300"
/* If a page cannot be recognised at DPI, it is drawn again with this many pixels on its longer side, as many as A4 has
 * at 300 dpi. */
#define SMALL_PIXELS   "3508"

static struct doc_recognition settings;

void doc_recognise_by(const struct doc_recognition *s)
{
	settings = s ? *s : (struct doc_recognition){ 0 };
}

static int not_installed(struct err *e)
{
	return err_set(e, ERR_DOCUMENT, "install tesseract-ocr, which reads pictures");
}

int doc_recogniser(struct str *out, struct err *e)
{
	char *program = program_find("tesseract"), *folder = ocr_data_folder();
	struct str all = { 0 };
	int rc = 0;

	if (folder)
		ocr_languages_installed(folder, &all);
	if (!program)
		rc = err_set(e, ERR_DOCUMENT, "install tesseract-ocr to read scanned pages and pictures");
	else if (!all.n)
		rc = err_set(e, ERR_DOCUMENT, "install tesseract-ocr-eng: tesseract has no data for any language");
	else
		str_addf(out, "%s: %s", program, all.p);
	free(program);
	free(folder);
	str_free(&all);
	return rc;
}

/* ---- opening ---- */

/* Hash a file's path, size and time, which identify the file without reading it. */
static void hash_file_state(EVP_MD_CTX *md, const char *path)
{
	struct stat st = { 0 };
	struct str s = { 0 };

	stat(path, &st);
	str_addf(&s, "%s %lld %lld\n", path, (long long)st.st_size, (long long)st.st_mtime);
	EVP_DigestUpdate(md, s.p, s.n);
	str_free(&s);
}

/* Hash what determines how a document is recognised: tesseract, the languages and their data files. Returns 0, or -1 if
 * no hash could be computed. */
static int way_hash(const struct ocr *o, uint8_t hash[32])
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	int ok = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1;

	if (ok) {
		EVP_DigestUpdate(md, o->languages, strlen(o->languages) + 1);
		hash_file_state(md, o->tesseract);
		for (const char *name = o->languages; *name;) {
			size_t k = strcspn(name, "+");
			struct str path = { 0 };
			str_addf(&path, "%s/%.*s.traineddata", o->folder, (int)k, name);
			hash_file_state(md, path.p);
			str_free(&path);
			name += k + (name[k] == '+');
		}
		ok = EVP_DigestFinal_ex(md, hash, NULL) == 1;
	}
	EVP_MD_CTX_free(md);
	return ok ? 0 : -1;
}

/* Find the language that a PDF names, such as "de-AT", in a jailed child. out[] becomes "" if the PDF names none. */
static void find_language(const char *p, size_t n, char out[16])
{
	struct child c = { .pid = -1 };
	struct doc d = { 0 };
	struct err e;
	size_t k = 0;

	if (!child_start_on(&c, helper_language_type, NULL, p, n)) {
		child_listen(&c, NULL, CHILD_SECONDS);
		if (!child_document(&c, "", 0, &d, &e))
			for (; k < d.text.n && k < 15 && (byte_is_letter(d.text.p[k]) || d.text.p[k] == '-'); k++)
				out[k] = d.text.p[k];
	}
	out[k] = 0;
	doc_free(&d);
	child_free(&c);
}

int ocr_open(struct ocr *o, const char *p, size_t n, int is_pdf, int32_t pages, struct str *note, struct err *e)
{
	char language[16] = "";
	uint8_t document[32], way[32];

	*o = (struct ocr){ .file = -1, .pages = pages };
	o->tesseract = program_find("tesseract");
	o->pdftoppm = is_pdf ? program_find("pdftoppm") : NULL;
	if (is_pdf)
		find_language(p, n, language);
	if (!o->tesseract)
		not_installed(e);
	else if (is_pdf && !o->pdftoppm)
		err_set(e, ERR_DOCUMENT, "install pdftoppm (package poppler-utils), which draws them");
	else if (!(o->folder = ocr_data_folder()))
		err_set(e, ERR_DOCUMENT, "install tesseract-ocr-eng: tesseract has no data for any language");
	else if (!ocr_languages(o->folder, settings.languages, language, o->languages, note, e)) {
		if ((o->file = child_file(p, n)) >= 0) {
			int keep = EVP_Digest(p, n, document, NULL, EVP_sha256(), NULL) == 1 && !way_hash(o, way);

			ocr_kept_open(&o->kept, keep ? settings.kept : NULL, document, way);
			return 0;
		}
		err_set(e, ERR_DOCUMENT, "there is no memory to recognise them");
	}
	ocr_close(o);
	return -1;
}

void ocr_close(struct ocr *o)
{
	child_close(&o->file);
	ocr_kept_close(&o->kept);
	free(o->tesseract);
	free(o->pdftoppm);
	free(o->folder);
	*o = (struct ocr){ .file = -1 };
}

/* ---- text ---- */

/* Return the length of the letter that ends p[n]; 0 if p does not end in a letter. Bytes from 0x80 count as letters. */
static int ends_in_letter(const char *p, size_t n)
{
	return n && (byte_is_letter(p[n - 1]) || (unsigned char)p[n - 1] >= 0x80);
}

/* 1 if the hyphen at the end of line p[n] divides a word that continues in q[m]. 0 if the hyphen belongs to a compound
 * word: the page has the same word with a hyphen within HYPHEN_NEAR bytes of the line. */
static int divides_word(const struct str *page, const char *p, size_t n, const char *q, size_t m)
{
	const char *from = p - MIN(HYPHEN_NEAR, (size_t)(p - page->p));
	size_t a = 0, b = 0, near = MIN(2 * HYPHEN_NEAR, (size_t)(page->p + page->n - from));
	struct str compound = { 0 };
	int known;

	if (n < 3 || p[n - 1] != '-' || !ends_in_letter(p, n - 1) || !m || !byte_is_lower(*q))
		return 0;
	while (a + 1 < n && a < 64 && byte_is_letter(p[n - 2 - a]))
		a++;
	while (b < m && b < 64 && byte_is_letter(q[b]))
		b++;
	str_add(&compound, p + n - 1 - a, a + 1);
	str_add(&compound, q, b);
	known = memmem(from, near, compound.p, compound.n) != NULL;
	str_free(&compound);
	return !known;
}

static size_t line_length(const char *p, size_t n)
{
	const char *end = memchr(p, '\n', n);
	size_t k = end ? (size_t)(end - p) : n;

	while (k && byte_is_blank(p[k - 1]))
		k--;
	return k;
}

/* Append the text that tesseract printed for a page. Remove form feeds, blanks at the ends of lines and repeated blank
 * lines. Join words that are divided at line ends. */
static void add_page_text(struct str *raw, struct str *out)
{
	size_t from = out->n;
	int gap = 0, joined = 0;

	text_tidy(raw);
	for (size_t i = 0; i < raw->n; i++)
		if (raw->p[i] == '\f' || raw->p[i] == '\t')
			raw->p[i] = ' ';
	for (size_t at = 0; at < raw->n;) {
		const char *p = raw->p + at, *end = memchr(p, '\n', raw->n - at);
		size_t n = line_length(p, raw->n - at), next = end ? (size_t)(end + 1 - raw->p) : raw->n, m;
		while (n && byte_is_blank(*p))
			p++, n--;
		m = line_length(raw->p + next, raw->n - next);
		if (!n) {
			gap = 1;
		} else {
			if (out->n > from && !joined)
				str_adds(out, gap ? "\n\n" : "\n");
			joined = divides_word(raw, p, n, raw->p + next, m);
			str_add(out, p, n - (size_t)joined);
			gap = 0;
		}
		at = next;
	}
}

/* 1 if the text has two letters or digits next to each other. On an empty page, tesseract takes specks for single
 * signs. */
static int has_word(const char *p, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (byte_is_word(p[i]) && byte_is_word(p[i - 1]))
			return 1;
	return 0;
}

/* ---- one page ---- */

static int ended_well(const struct child *c)
{
	return !c->why && WIFEXITED(c->status) && !WEXITSTATUS(c->status);
}

/* Start pdftoppm, which draws a page of the PDF into the descriptor `out`. */
static int start_drawing(struct child *c, const struct ocr *o, const char *number, int small, int out)
{
	const char *const words[] = {
		o->pdftoppm, "",  "-gray", small ? "-scale-to" : "-r", small ? SMALL_PIXELS : DPI, "-f", number, "-l",
		number,      "-", NULL
	};

	return child_start(c, helper_program_type, words, o->file, out);
}

/* Start tesseract, which reads a picture from the descriptor `in`. `number` is the picture's number in its file, from
 * 0. */
static int start_reading(struct child *c, const struct ocr *o, const char *number, int in)
{
	struct str page = { 0 };
	const char *words[] = { o->tesseract,
		                o->folder,
		                "stdin",
		                "stdout",
		                "--tessdata-dir",
		                o->folder,
		                "-l",
		                o->languages,
		                "--psm",
		                "3",
		                o->pdftoppm ? "--dpi" : "-c",
		                DPI,
		                NULL };
	int rc;

	str_addf(&page, "tessedit_page_number=%s", number);
	if (!o->pdftoppm)
		words[LEN(words) - 2] = page.p;
	rc = child_start(c, helper_program_type, words, in, -1);
	c->most = PAGE_BYTES_MAX;
	str_free(&page);
	return rc;
}

/* Write why a page could not be recognised. */
static void describe_failure(const struct child *draw, const struct child *read, char *why, size_t cap)
{
	const struct child *c = ended_well(draw) || (WIFSIGNALED(draw->status) && !draw->why) ? read : draw;

	if (WIFEXITED(c->status) && WEXITSTATUS(c->status) == EXIT_NO_JAIL)
		snprintf(why, cap, "it %.140s", str_text(&c->message));
	else
		child_describe(c, why, cap);
}

/* Recognise a page. Returns 0 with the text in *text; 1 if the page cannot be recognised, with the reason in `why`; -1
 * if the user has stopped the import. */
static int recognise(struct ocr *o, int32_t page, int small, struct str *text, char *why, size_t cap)
{
	struct child draw = { .pid = -1, .out = -1, .err = -1 }, read = draw;
	int way[2] = { -1, -1 }, rc = 1;
	char number[16];

	lseek(o->file, 0, SEEK_SET); /* read from the beginning: all children share the file's offset */
	snprintf(number, sizeof number, "%d", o->pdftoppm ? page : page - 1);
	if ((o->pdftoppm && (os_pipe(way, 0) || start_drawing(&draw, o, number, small, way[1]))) ||
	    start_reading(&read, o, number, o->pdftoppm ? way[0] : o->file)) {
		snprintf(why, cap, "no second process (%s)", strerror(errno));
		child_close(&way[1]);
		child_close(&way[0]);
		child_listen(&draw, NULL, 1);
	} else {
		child_close(&way[0]);
		child_close(&way[1]);
		child_listen(&read, &draw, CHILD_SECONDS);
		child_listen(&draw, &read, 1);
		rc = draw.stopped || read.stopped                               ? -1
		     : ended_well(&read) && (!o->pdftoppm || ended_well(&draw)) ? 0
		                                                                : 1;
		if (rc > 0)
			describe_failure(o->pdftoppm ? &draw : &read, &read, why, cap);
		o->n_late += draw.why || read.why;
		str_add(text, rc ? "" : read.p, rc ? 0 : read.n);
	}
	child_free(&draw);
	child_free(&read);
	return rc;
}

static void show_progress(const struct ocr *o)
{
	double left = o->n_timed ? o->seconds / o->n_timed * (o->pages - o->page) : -1;

	if (settings.progress)
		settings.progress(o->page + 1, o->pages, left, settings.ud);
}

static int refuse_stopped(const struct ocr *o, const char *name, struct err *e)
{
	if (!o->page || !o->kept.path)
		return import_refuse_stopped(name, e);
	return err_set(e, ERR_CANCELLED, "document '%.200s' was not read: stopped; %d recognised page%s kept", name,
	               o->page, o->page == 1 ? " is" : "s are");
}

int ocr_page(struct ocr *o, const char *name, int32_t page, struct str *out, struct err *e)
{
	double begun = now_seconds();
	struct str raw = { 0 }, text = { 0 };
	int rc = 0;

	if (import_stopped())
		return refuse_stopped(o, name, e);
	if (ocr_kept_get(&o->kept, page, &text) && valid_text(text.p, text.n)) {
		str_add(out, text.p, text.n);
	} else if (o->n_late < OCR_LATE_MAX) {
		char why[sizeof o->why] = "", again[sizeof why];
		str_clear(&text);
		show_progress(o);
		rc = recognise(o, page, 0, &raw, why, sizeof why);
		if (rc > 0 && o->pdftoppm && !o->n_late)
			rc = recognise(o, page, 1, &raw, again, sizeof again);
		if (!rc) {
			add_page_text(&raw, &text);
			if (!has_word(str_text(&text), text.n))
				str_clear(&text);
			ocr_kept_put(&o->kept, page, &text);
			str_add(out, str_text(&text), text.n);
		} else if (rc > 0 && !o->failed) {
			o->failed = page;
			memcpy(o->why, why, sizeof why);
		}
		o->seconds += now_seconds() - begun;
		o->n_timed++;
	}
	str_free(&raw);
	str_free(&text);
	if (rc < 0)
		return refuse_stopped(o, name, e);
	o->page++;
	return 0;
}

void ocr_note(const struct ocr *o, struct doc *d)
{
	if (o->failed)
		doc_note(d, "page %d cannot be recognised: %s%s", o->failed, o->why,
		         o->n_late >= OCR_LATE_MAX ? "; like others, so the pages after them were left out" : "");
}
