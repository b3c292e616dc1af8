/* tests/fuzz/fuzz_jail.c - libFuzzer target for the parser of the jail's output, sessions/import/records.c: `make
 * fuzz`, then build/fuzz/fuzz_jail [CORPUS].
 *
 * The first byte chooses the input: records of text or bytes, as a subverted parser could send them; or a document or
 * output of pdftotext. In the second case jailed.c converts the document and sends the result, which must be received
 * unchanged. */
#include "sessions/import/records.c"
#include "sessions/import/jailed.c"

#include <sys/mman.h>

static void must(int ok)
{
	if (!ok)
		abort();
}

static void check_doc(const struct doc *d, int raw)
{
	must(raw || valid_text(d->text.p, d->text.n));
	must(valid_text(d->notices.p, d->notices.n) && d->pages >= 0);
	for (size_t i = 0; i < d->n_mark; i++) {
		const struct mark *m = &d->mark[i];

		must(m->at <= d->text.n && m->level >= 0 && m->level <= 6 && m->kind <= MARK_HEADING);
		must(!m->text || valid_text(m->text, strlen(m->text)));
	}
}

static void take_foreign(const char *p, size_t n, int raw)
{
	struct doc d = { 0 };
	struct records r = { .d = &d };

	if (!take_records(&r, p, n, raw)) {
		check_doc(&d, raw);
		if (!raw)
			doc_mark_paragraphs(&d);
	}
	str_free(&r.error);
	doc_free(&d);
}

/* Return what the child process writes to its standard output for this document or error. */
static char *sent(const struct doc *d, const struct err *why, size_t *n)
{
	off_t end;
	char *p;

	must(!lseek(STDOUT_FILENO, 0, SEEK_SET) && !ftruncate(STDOUT_FILENO, 0));
	must(!(why ? send_error(why) : send_doc(d)));
	end = lseek(STDOUT_FILENO, 0, SEEK_END);
	must(end >= 0);
	p = malloc((size_t)end + 1);
	must(p != NULL);
	*n = (size_t)pread(STDOUT_FILENO, p, (size_t)end, 0);
	must(*n == (size_t)end);
	return p;
}

static void send_and_take(int (*import)(const char *, size_t, struct doc *, struct err *), enum doc_type type,
                          const char *p, size_t n)
{
	struct doc d = { .type = type }, came = { .type = type };
	struct records r = { .d = &came };
	struct err e = { 0 };
	int failed = import(p, n, &d, &e);
	size_t n_sent;
	char *records = sent(&d, failed ? &e : NULL, &n_sent);

	must(!take_records(&r, records, n_sent, type == DOC_GZIP));
	must(failed ? r.error.n > 0
	            : !r.error.n && came.text.n == d.text.n && came.n_mark == d.n_mark && came.pages == d.pages &&
	                      came.notices.n == d.notices.n);
	if (!failed) {
		must(!d.text.n || !memcmp(came.text.p, d.text.p, d.text.n));
		check_doc(&came, type == DOC_GZIP);
		for (size_t i = 0; i < d.n_mark; i++)
			must(came.mark[i].at == d.mark[i].at && came.mark[i].kind == d.mark[i].kind &&
			     came.mark[i].level == d.mark[i].level && !strcmp(came.mark[i].text, d.mark[i].text));
		if (type != DOC_GZIP)
			doc_mark_paragraphs(&came);
	}
	free(records);
	str_free(&r.error);
	doc_free(&d);
	doc_free(&came);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	int fd = memfd_create("sent", 0);

	(void)argc, (void)argv;
	must(fd >= 0 && dup2(fd, STDOUT_FILENO) == STDOUT_FILENO);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A type without a converter stands for PDF. The values stay the same when a type is added at the end. */
	int how = size ? data[0] % (3 + DOC_TYPES) : 0;
	enum doc_type type = how >= 3 && converters[how - 3] ? (enum doc_type)(how - 3) : DOC_PDF;
	char *copy;

	if (!size)
		return 0;
	copy = malloc(size); /* an exact allocation with a NUL at its end, as in take_document() */
	memcpy(copy, data + 1, size - 1);
	copy[size - 1] = 0;
	if (how < 3)
		take_foreign(copy, size - 1, how == 1);
	else
		send_and_take(type == DOC_PDF ? pdf_import : converters[type], type, copy, size - 1);
	free(copy);
	return 0;
}
