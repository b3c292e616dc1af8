/* sessions/import/child.h - child processes in the jail, for the files of sessions/import that start them.
 *
 * A child is this program, started a second time (jailed.c): it parses its standard input and prints records, or it
 * executes another program. Only child.c starts processes. All children are killed when the user stops the import, when
 * they take too long or print too much, and when this process ends. */
#ifndef WEIR_IMPORT_CHILD_H
#define WEIR_IMPORT_CHILD_H

#include <sys/types.h>

#include "sessions/import/import_private.h"

#define CHILD_SECONDS 50.0 /* time limit of a child */

struct child {
	pid_t pid; /* -1: not started, or ended */
	/* Read ends of the pipes for standard output and standard error. -1: the pipe is closed, or another child reads
	 * from it. */
	int out, err;
	struct str message; /* standard error so far */
	int no_tables;      /* 1: pdftotext reported missing tables for Chinese, Japanese or Korean fonts */
	char *p;            /* standard output so far */
	size_t n, cap;
	size_t most;     /* limit of standard output in bytes; set by child_start(), a caller may lower it */
	const char *why; /* why this process killed the child; NULL: it did not */
	int stopped;     /* killed because the user stopped the import */
	int status;
};

/* ---- child.c ---- */

/* Find a program in PATH. Returns its absolute path, which the caller frees; NULL: it is not installed. */
char *program_find(const char *name);
/* Copy bytes to an anonymous file in memory. Returns its descriptor, at the beginning of the file; -1 on error. */
int child_file(const char *p, size_t n);
/* Start a child whose standard input is `in`. Its standard output is `out`; out = -1: a new pipe, which child_listen()
 * reads. type: argv[2] of the jailed process (import_private.h). more: its later arguments, ending with NULL; may be
 * NULL. Returns 0; -1: not started, and errno says why. */
int child_start(struct child *, const char *type, const char *const *more, int in, int out);
/* Call child_start() with the bytes p[n] as standard input and a new pipe as standard output. */
int child_start_on(struct child *, const char *type, const char *const *more, const char *p, size_t n);
/* Read the pipes of one or two children (second may be NULL) to their ends, and wait for the children to exit. After
 * `seconds`, kill a child that still runs, and return. If both still run, only the first is killed. */
void child_listen(struct child *, struct child *second, double seconds);
/* Write why the child ended without a complete output, as a clause for an error message. */
void child_describe(const struct child *, char *out, size_t cap);
/* Set *e: the child could not be started, and errno says why. Returns -1. */
int child_failed_to_start(const char *name, struct err *e);
void child_free(struct child *);
void child_close(int *fd); /* close *fd if it is open (not -1), and set it to -1 */

/* ---- records.c ---- */

struct records {
	struct doc *d;
	struct str error;
	int end;
};
/* Parse all records. raw: 1 = the text may be any bytes. Returns 0, or -1 if the records are incomplete or invalid. */
int take_records(struct records *, const char *p, size_t n, int raw);
/* Parse the records that an ended child has printed, and set *d. name: the document's name in the error message. raw:
 * as for take_records(). Returns 0 or -1. */
int child_document(struct child *, const char *name, int raw, struct doc *d, struct err *e);
int valid_text(const char *p, size_t n); /* 1 for UTF-8 without NUL */

/* ---- pdf_convert.c ---- */

/* Convert a PDF; recognise its pages that have no readable text. The caller frees *d, also after -1. */
int pdf_convert(const char *name, const char *p, size_t n, struct doc *d, struct err *e);

#endif
