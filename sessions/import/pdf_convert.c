/* sessions/import/pdf_convert.c - converts a PDF with jailed children: pdftohtml prints the outline and pdftotext the
 * words, into a pipe that the parser (pdf.c) reads. Then the pages without readable text are recognised (ocr.h). */
#include "sessions/import/child.h"
#include "sessions/import/ocr.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/os.h"

/* time limit for the outline, in seconds; when it is over, the PDF is read without its outline */
#define OUTLINE_SECONDS 10.0
#define PAGES_MAX       "20000"

static int pdf_refused(const struct child *c, const char *name, struct err *e)
{
	const char *said = str_text(&c->message);
	char why[160];

	if (strstr(said, "ncorrect password") || strstr(said, "nsupported security") || strstr(said, "ncrypted"))
		return err_set(
			e, ERR_DOCUMENT,
			"document '%s' is encrypted: its text cannot be read without the password (qpdf --decrypt writes a copy without it)",
			name);
	if (WIFEXITED(c->status) && WEXITSTATUS(c->status) == 127)
		return err_set(e, ERR_DOCUMENT, "document '%s' cannot be read: pdftotext cannot be started", name);
	if (WIFEXITED(c->status) && WEXITSTATUS(c->status) == 3)
		return err_set(e, ERR_DOCUMENT, "document '%s' does not permit that its text is copied", name);
	if (WIFEXITED(c->status) && !c->why)
		return err_set(
			e, ERR_DOCUMENT,
			"document '%s' is a damaged PDF: pdftotext cannot read it (qpdf or mutool clean may repair it)",
			name);
	child_describe(c, why, sizeof why);
	return err_set(e, ERR_DOCUMENT, "document '%s' cannot be read: %s", name, why);
}

/* Report the result, after both children have ended. `text` is the child that executed pdftotext, and `parser` the
 * child that parsed its output. */
static int finish_pdf(struct child *text, struct child *parser, const char *name, struct doc *d, struct err *e)
{
	int complete = !text->why && WIFEXITED(text->status) && WEXITSTATUS(text->status) == 0;
	/* SIGPIPE: pdftotext could not write any more, because the parser had ended early. */
	int parser_failed = WIFSIGNALED(text->status) && WTERMSIG(text->status) == SIGPIPE;

	if (WIFEXITED(text->status) && WEXITSTATUS(text->status) == EXIT_NO_JAIL)
		return err_set(e, ERR_DOCUMENT, "document '%s' %s", name, str_text(&text->message));
	if (child_document(parser, name, 0, d, e))
		return complete || parser_failed || d->pages ? -1 : pdf_refused(text, name, e);
	if (!d->text.n && !complete && !parser_failed)
		return pdf_refused(text, name, e);
	if (text->no_tables)
		doc_note(
			d,
			"text in Chinese, Japanese or Korean fonts is missing: install poppler-data and read it again");
	if (!complete) {
		char reason[160];
		child_describe(text, reason, sizeof reason);
		doc_note(d, "the text ends on page %d: %s", d->pages, reason);
	}
	return 0;
}

/* Convert a PDF with three jailed children. pdftohtml prints the outline, and then pdftotext prints the words, into one
 * pipe. The parser reads that pipe. */
int pdf_convert(const char *name, const char *p, size_t n, struct doc *d, struct err *e)
{
	char *program = program_find("pdftotext"), *outliner = program_find("pdftohtml");
	/* let pdftohtml print page 1 only, because it prints the whole outline in any case */
	const char *const words[] = { program, "",   "-bbox-layout", "-enc", "UTF-8", "-eol",
		                      "unix",  "-l", PAGES_MAX,      "-",    "-",     NULL };
	const char *const heads[] = { outliner, "", "-xml", "-i", "-q", "-stdout", "-l", "1", "-", NULL };
	struct child text = { .pid = -1 }, outline = { .pid = -1 }, parser = { .pid = -1 };
	int file = -1, way[2] = { -1, -1 }, rc;

	if (!program) {
		rc = err_set(e, ERR_DOCUMENT,
		             "document '%s' is a PDF: install pdftotext (package poppler-utils) to read it", name);
	} else if ((file = child_file(p, n)) < 0 || os_pipe(way, 0) ||
	           child_start(&parser, doc_type_name[DOC_PDF], NULL, way[0], -1)) {
		rc = child_failed_to_start(name, e);
	} else {
		child_close(&way[0]);
		if (outliner && !child_start(&outline, helper_program_type, heads, file, way[1]))
			child_listen(&outline, NULL, OUTLINE_SECONDS);
		lseek(file, 0, SEEK_SET); /* the children share the file's offset, which the first one has moved */
		rc = child_start(&text, helper_program_type, words, file, way[1]) ? child_failed_to_start(name, e) : 0;
		child_close(&way[1]);
		if (!rc)
			child_listen(&text, &parser, CHILD_SECONDS);
		if (parser.pid > 0)
			child_listen(&parser, NULL, CHILD_SECONDS);
		if (text.stopped || parser.stopped)
			rc = import_refuse_stopped(name, e);
		else if (!rc)
			rc = finish_pdf(&text, &parser, name, d, e);
		if (!rc)
			rc = pdf_recognise(name, p, n, d, e);
	}
	child_close(&way[0]);
	child_close(&way[1]);
	child_close(&file);
	child_free(&text);
	child_free(&outline);
	child_free(&parser);
	free(program);
	free(outliner);
	return rc;
}
