/* sessions/import/child.h - child processes in the jail, for the files of sessions/import that start them.
 *
 * A child is this program, started a second time (jailed.c): it parses its standard input and prints records, or it
 * executes another program. Only child.c starts processes. All children are killed when the user stops the import, when
 * they take too long or print too much, and when this process ends. */
#ifndef WEIR_IMPORT_CHILD_H
#define WEIR_IMPORT_CHILD_H

#include <sys/types.h>

#include "sessions/import/import_private.h"

#define CHILD_SECONDS 50.0 /* time limit of a child in seconds */

struct child {
	pid_t pid; /* process id; -1: the child was not started, or has ended */
	/* Read ends of the pipes for standard output and standard error. -1: the pipe is closed, or another child reads
	 * from it. */
	int out, err;
	struct str message; /* bytes of the child's standard error so far */
	int no_tables;      /* 1: pdftotext reported missing tables for Chinese, Japanese or Korean fonts */
	char *p;            /* bytes of the child's standard output so far */
	size_t n, cap;
	size_t most;     /* limit of standard output in bytes; child_start() sets it, and a caller may then lower it */
	const char *why; /* why this process has killed the child; NULL: it has not */
	int stopped;     /* 1: the child was killed because the user stopped the import */
	int status;
};

/* ---- child.c ---- */

/* Find a program in PATH. Returns its absolute path, which the caller frees; NULL: it is not installed. */
char *program_find(const char *name);
/* Copy bytes to an anonymous file in memory. Returns its descriptor, at the beginning of the file; -1 on error. */
int child_file(const char *p, size_t n);
/* Start a child whose standard input is `in`. Its standard output is `out`; if `out` is -1, it is a new pipe, which
 * child_listen() reads. `type` becomes argv[2] of the jailed process (import_private.h). `more` has its later arguments
 * and ends with NULL; `more` itself may be NULL. Returns 0; or -1 if the child was not started, with the reason in
 * errno. */
int child_start(struct child *, const char *type, const char *const *more, int in, int out);
/* Call child_start() with the bytes p[n] as standard input and a new pipe as standard output. */
int child_start_on(struct child *, const char *type, const char *const *more, const char *p, size_t n);
/* Read the pipes of one or two children (second may be NULL) to their ends, and wait for the children to exit. After
 * `seconds`, kill a child that still runs, and return. If both still run, only the first is killed. */
void child_listen(struct child *, struct child *second, double seconds);
/* Write why the child ended without a complete output, as a clause for an error message. */
void child_describe(const struct child *, char *out, size_t cap);
/* Set *e to an error which says that the child could not be started; the reason is in errno. Returns -1. */
int child_failed_to_start(const char *name, struct err *e);
void child_free(struct child *);
void child_close(int *fd); /* close *fd if it is open (not -1), and set it to -1 */

/* ---- records.c ---- */

struct records {
	struct doc *d;
	struct str error;
	int end;
};
/* Parse all records. If `raw` is 1, the text may consist of any bytes. Returns 0, or -1 if the records are incomplete
 * or invalid. */
int take_records(struct records *, const char *p, size_t n, int raw);
/* Parse the records that an ended child has printed, and set *d. `name` is the document's name for the error message.
 * For `raw`, see take_records(). Returns 0 or -1. */
int child_document(struct child *, const char *name, int raw, struct doc *d, struct err *e);
int valid_text(const char *p, size_t n); /* 1 if the text is valid UTF-8 and has no NUL byte */

/* ---- pdf_convert.c ---- */

/* Convert a PDF. Pages that have no readable text are recognised (OCR). The caller frees *d, even after -1. */
int pdf_convert(const char *name, const char *p, size_t n, struct doc *d, struct err *e);

#endif
