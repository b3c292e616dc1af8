/* sessions/import/docx_form.c - the value of a form field of older Word files: whether a box is ticked, or which entry
 * of a list is chosen. Such a field is between two <w:fldChar> elements. The first of them contains the <w:ffData>
 * element of the field. */
#include "sessions/import/docx.h"
#include "engine/base/utf8.h"

#include <string.h>

/* Return the value of an element. For a list, it is the index of an entry. For a box, it is 1 if the box is ticked, and
 * 0 if it is not. */
static long value_of(const struct xml_attr *a, size_t n)
{
	const struct xml_attr *v = xml_attr(a, n, "val");

	return !docx_is_on(a, n) ? 0 : v && v->n && byte_is_digit(*v->value) ? xml_number(v, 1) : 1;
}

int docx_form_start(struct docx_form *f, const char *name, const struct xml_attr *a, size_t n)
{
	const struct xml_attr *v = xml_attr(a, n, "val");

	if (!strcmp(name, "ffData")) {
		form_field_clear(&f->field);
		f->open = 1;
		return 1;
	}
	if (!f->open)
		return 0;
	if (!strcmp(name, "checkBox") || !strcmp(name, "ddList"))
		f->field.kind = *name == 'c' ? FORM_BOX : FORM_LIST;
	else if (!strcmp(name, "checked") || !strcmp(name, "result"))
		form_field_set(&f->field, value_of(a, n), 1);
	else if (!strcmp(name, "default"))
		form_field_set(&f->field, value_of(a, n), 0);
	else if (!strcmp(name, "listEntry") && v)
		form_field_entry(&f->field, v->value, v->n);
	return 1;
}

int docx_form_end(struct docx_form *f, const char *name)
{
	int was = f->open;

	if (was && !strcmp(name, "ffData"))
		f->open = 0;
	return was;
}
