/* sessions/import/jailed.c - the jailed process: converts a document and writes records to its parent (records.c), or
 * reads a model file, or executes another program, such as pdftotext.
 *
 * child.c starts this program a second time; main() calls doc_helper() first. A model file is read by the program's
 * own reader: header, keys, tensors, vocabulary, chat template. A file that crashes the reader or takes too long ends
 * only this process. */
#include "sessions/import/pdf.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engine.h"
#include "kernels/os.h"

const char helper_argument[] = "--parse-document-in-jail", helper_language_type[] = "language",
	   helper_model_type[] = "model", helper_program_type[] = "program";

static int send_all(const void *bytes, size_t n)
{
	const char *p = bytes;

	while (n) {
		ssize_t put = write(STDOUT_FILENO, p, n);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return -1;
		p += put;
		n -= (size_t)put;
	}
	return 0;
}

static int send_record(char tag, const void *p, size_t n)
{
	uint32_t len = (uint32_t)n;
	char head[5] = { tag };

	memcpy(head + 1, &len, 4);
	return send_all(head, 5) || send_all(p, n) ? -1 : 0;
}

static int send_mark(const struct mark *m)
{
	char buf[1024] = { (char)m->kind, (char)m->level };
	uint64_t at = m->at;
	size_t n = m->text ? strlen(m->text) : 0;

	memcpy(buf + 2, &at, 8);
	if (n > sizeof buf - 10)
		n = sizeof buf - 10;
	memcpy(buf + 10, m->text ? m->text : "", n);
	return send_record('M', buf, 10 + n);
}

static int send_doc(const struct doc *d)
{
	int32_t pages = d->pages;

	if (send_record('T', d->text.p, d->text.n) || send_record('P', &pages, sizeof pages))
		return 1;
	for (size_t i = 0; i < d->n_mark; i++)
		if (send_mark(&d->mark[i]))
			return 1;
	if (d->notices.n && send_record('N', d->notices.p, d->notices.n))
		return 1;
	if (d->left_out.n && send_record('L', d->left_out.p, d->left_out.n))
		return 1;
	return send_record('Z', "", 0) ? 1 : 0;
}

static int send_error(const struct err *e)
{
	return send_record('E', e->msg, strlen(e->msg)) || send_record('Z', "", 0) ? 1 : 0;
}

/* Read all of standard input, a file of known size. */
static char *take_document(size_t *n)
{
	struct stat st;
	char *p;

	if (fstat(STDIN_FILENO, &st) || st.st_size < 0 || !(p = malloc((size_t)st.st_size + 1)))
		return NULL;
	*n = 0;
	while (*n < (size_t)st.st_size) {
		ssize_t got = read(STDIN_FILENO, p + *n, (size_t)st.st_size - *n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		*n += (size_t)got;
	}
	p[*n] = 0;
	return p;
}

/* Parse the output of pdftohtml and pdftotext as it comes through the pipe. It is not stored first: with the positions
 * of the words it is about twenty times as long as the text. */
static int convert_words(void)
{
	struct pdf f = { 0 };
	struct doc d = { .type = DOC_PDF };
	struct err e = { 0 };
	char buf[65536];
	ssize_t got;

	while ((got = read(STDIN_FILENO, buf, sizeof buf)) > 0 || (got < 0 && errno == EINTR))
		pdf_feed(&f, buf, got > 0 ? (size_t)got : 0);
	return pdf_end(&f, &d, &e) ? send_error(&e) : send_doc(&d);
}

/* The converters of the formats that are converted from a whole file in memory. fuzz_jail.c uses this table, too. */
static int (*const converters[DOC_TYPES])(const char *, size_t, struct doc *, struct err *) = {
	[DOC_HTML] = html_import,         [DOC_EPUB] = epub_import,
	[DOC_DOCX] = docx_import,         [DOC_GZIP] = gzip_import,
	[DOC_ODF] = odf_import,           [DOC_RTF] = rtf_import,
	[DOC_NOTEBOOK] = notebook_import, [DOC_SUBTITLES] = subtitles_import,
	[DOC_MAIL] = mail_import,         [DOC_XLSX] = xlsx_import,
	[DOC_PPTX] = pptx_import,         [DOC_FB2] = fb2_import,
	[DOC_FEED] = feed_import,
};

static int convert(enum doc_type type)
{
	struct doc d = { .type = type };
	struct err e = { 0 };
	size_t n = 0;
	char *p;

	if (type == DOC_PDF)
		return convert_words();
	if (!converters[type] || !(p = take_document(&n)))
		return 1;
	return converters[type](p, n, &d, &e) ? send_error(&e) : send_doc(&d);
}

/* Find the language of a PDF, and send it as the text of a document. */
static int send_language(void)
{
	struct doc d = { .type = DOC_PDF };
	size_t n = 0;
	char *p = take_document(&n);

	if (!p)
		return 1;
	pdf_language(p, n, &d.text);
	return send_doc(&d);
}

/* Read a model file. The parent only learns whether the file is good. It reads the file itself later, and then reports
 * errors. */
static int read_model(const char *path)
{
	struct engine_options o = { .model_path = path, .inspect_only = 1 };
	struct engine *engine;
	struct err e = { 0 };

	if (!engine_open(&engine, &o, &e))
		return send_record('Z', "", 0);
	o.vocab_only = 1; /* also open the vocabulary alone: callers do this if the model's family is unknown */
	engine_open(&engine, &o, NULL);
	return send_error(&e);
}

static int parse_type(const char *s)
{
	for (int i = DOC_HTML; i < DOC_TYPES; i++)
		if (!strcmp(s, doc_type_name[i]))
			return i;
	return -1;
}

static void close_inherited(void)
{
	struct rlimit limit;

	if (!os_close_from(3) || getrlimit(RLIMIT_NOFILE, &limit))
		return;
	for (rlim_t fd = 3; fd < limit.rlim_cur && fd < 1 << 16; fd++)
		close((int)fd);
}

/* Execute a program. argv[0] is its path, argv[1] the folder that it may read; its arguments follow. tesseract computes
 * in one thread, because the jail does not allow more. */
static int execute(char **argv)
{
	static char *const env[] = { (char *)(uintptr_t) "LC_ALL=C.UTF-8", (char *)(uintptr_t) "OMP_THREAD_LIMIT=1",
		                     NULL };

	argv[1] = argv[0];
	execve(argv[0], argv + 1, env);
	return 127;
}

int doc_helper(int argc, char **argv)
{
	struct jail_level level = { 0 };
	struct err e = { 0 };
	int type, model, program, rc;

	if (argc < 3 || strcmp(argv[1], helper_argument))
		return -1;
	close_inherited();
	type = parse_type(argv[2]);
	model = argc > 3 && !strcmp(argv[2], helper_model_type);
	program = argc > 4 && !strcmp(argv[2], helper_program_type);
	/* these documents contain text in several encodings: load iconv's conversions now, because the jail will hide
	 * their files */
	if (type == DOC_EPUB || type == DOC_RTF || type == DOC_DOCX || type == DOC_MAIL || type == DOC_FB2 ||
	    type == DOC_FEED)
		charset_load();
	setlocale(LC_CTYPE, "C.UTF-8"); /* libarchive converts names of entries to the locale's encoding */
	if (jail_enter(program ? JAIL_EXEC
	               : model ? JAIL_MODEL
	                       : JAIL_PARSE,
	               argc > 3 ? argv[3] : NULL, program ? argv[4] : NULL, &level, &e)) {
		/* the standard output of a program goes to a parser, so write the error to standard error */
		rc = (program ? write(STDERR_FILENO, e.msg, strlen(e.msg)) < 0 : send_error(&e)) ? 1 : EXIT_NO_JAIL;
	} else if (program) {
		rc = execute(argv + 3);
	} else if (model) {
		rc = read_model(argv[3]);
	} else if (!strcmp(argv[2], helper_language_type)) {
		rc = send_language();
	} else if (type < 0) {
		struct str s = { 0 };
		str_adds(&s, level.seccomp ? "no_new_privs, limits, " : "limits alone");
		if (level.root)
			str_adds(&s, "a root of its own, ");
		if (level.landlock)
			str_addf(&s, "Landlock %d, ", level.landlock);
		if (level.seccomp)
			str_adds(&s, "seccomp");
		rc = send_record('T', s.p, s.n) || send_record('Z', "", 0);
	} else {
		rc = convert((enum doc_type)type);
	}
	_exit(rc); /* there is no buffered output to flush */
}
