/* sessions/import/docx_form.c - the value of a form field of older Word files: a box that is ticked or not, or the
 * chosen entry of a list. Such a field stands between two <w:fldChar>, the first of which holds its <w:ffData>. */
#include "sessions/import/docx.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

static void clear(struct docx_form *f)
{
	for (size_t i = 0; i < f->n_entry; i++)
		free(f->entry[i]);
	*f = (struct docx_form){ 0 };
}

void docx_form_free(struct docx_form *f)
{
	clear(f);
}

/* Return the value of an element: the index of a list's entry, or 1 or 0. */
static long value_of(const struct xml_attr *a, size_t n)
{
	const struct xml_attr *v = xml_attr(a, n, "val");

	return !docx_is_on(a, n) ? 0 : v && v->n && byte_is_digit(*v->value) ? xml_number(v, 1) : 1;
}

int docx_form_start(struct docx_form *f, const char *name, const struct xml_attr *a, size_t n)
{
	const struct xml_attr *v = xml_attr(a, n, "val");

	if (!strcmp(name, "ffData")) {
		clear(f);
		f->open = 1;
		return 1;
	}
	if (!f->open)
		return 0;
	if (!strcmp(name, "checkBox") || !strcmp(name, "ddList")) {
		f->kind = *name == 'c' ? DOCX_FORM_BOX : DOCX_FORM_LIST;
	} else if (!strcmp(name, "checked") || !strcmp(name, "result")) {
		f->value = value_of(a, n);
		f->is_set = 1;
	} else if (!strcmp(name, "default") && !f->is_set) {
		f->value = value_of(a, n);
	} else if (!strcmp(name, "listEntry") && v && f->n_entry < DOCX_FORM_ENTRIES) {
		f->entry[f->n_entry++] = xstrndup(v->value, v->n);
	}
	return 1;
}

int docx_form_end(struct docx_form *f, const char *name)
{
	int was = f->open;

	if (was && !strcmp(name, "ffData"))
		f->open = 0;
	return was;
}

const char *docx_form_value(struct docx_form *f)
{
	const char *box = f->value ? "\xe2\x98\x92" : "\xe2\x98\x90";

	return f->kind == DOCX_FORM_BOX                                                      ? box
	       : f->kind == DOCX_FORM_LIST && f->value >= 0 && (size_t)f->value < f->n_entry ? f->entry[f->value]
	                                                                                     : NULL;
}
