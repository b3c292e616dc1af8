/* sessions/import/helper.c - parses documents and model files in jailed child processes (child.h, jailed.c). */
#include "sessions/import/child.h"
#include "sessions/import/ocr.h"

#include <errno.h>
#include <string.h>

#define PROBE "probe" /* type of a child that parses nothing and only reports which parts the jail has */

int helper_convert(enum doc_type type, const char *name, const char *p, size_t n, struct doc *d, struct err *e)
{
	struct child c = { .pid = -1 };
	int rc;

	*d = (struct doc){ .type = type };
	if (type == DOC_PDF) {
		rc = pdf_convert(name, p, n, d, e);
	} else if (type == DOC_PICTURE) {
		rc = picture_convert(name, p, n, d, e);
	} else if (child_start_on(&c, doc_type_name[type], NULL, p, n)) {
		rc = child_failed_to_start(name, e);
	} else {
		child_listen(&c, NULL, CHILD_SECONDS);
		rc = c.stopped ? import_refuse_stopped(name, e) : child_document(&c, name, type == DOC_GZIP, d, e);
	}
	if (rc)
		doc_free(d);
	child_free(&c);
	return rc;
}

int doc_jail(struct str *out, struct err *e)
{
	struct child c = { .pid = -1 };
	struct doc d = { 0 };
	int rc;

	if (child_start_on(&c, PROBE, NULL, "", 0))
		return err_set(e, ERR_DOCUMENT, "documents cannot be parsed: no second process (%s)", strerror(errno));
	child_listen(&c, NULL, CHILD_SECONDS);
	rc = child_document(&c, "", 0, &d, e);
	if (!rc)
		str_add(out, str_text(&d.text), d.text.n);
	doc_free(&d);
	child_free(&c);
	return rc;
}

int helper_model(const char *path, struct err *e)
{
	struct child c = { .pid = -1 };
	struct doc none = { 0 };
	struct records r = { .d = &none };
	char why[160];
	int rc = 1;

	if (!child_start_on(&c, helper_model_type, (const char *const[]){ path, NULL }, "", 0)) {
		child_listen(&c, NULL, CHILD_SECONDS);
		rc = 0;
		if (c.stopped) {
			rc = err_set(e, ERR_CANCELLED, "stopped");
		} else if (take_records(&r, c.p, c.n, 0)) {
			child_describe(&c, why, sizeof why);
			rc = err_set(
				e, ERR_MODEL,
				"file '%.300s' cannot be read: %s; this is a damaged or harmful model file, of which nothing was loaded",
				path, why);
		} else if (r.error.n) {
			rc = 1;
		}
	}
	str_free(&r.error);
	child_free(&c);
	return rc;
}
