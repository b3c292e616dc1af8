/* sessions/import/form_field.c - the value of a form field of DOCX and RTF: whether a box is ticked, or which entry of
 * a list is chosen. */
#include "sessions/import/import_private.h"

#include <stdlib.h>

void form_field_clear(struct form_field *f)
{
	for (size_t i = 0; i < f->n_entry; i++)
		free(f->entry[i]);
	*f = (struct form_field){ 0 };
}

void form_field_set(struct form_field *f, long value, int by_user)
{
	if (by_user || !f->is_set)
		f->value = value;
	f->is_set |= by_user;
}

void form_field_entry(struct form_field *f, const char *s, size_t n)
{
	if (f->n_entry < FORM_ENTRIES)
		f->entry[f->n_entry++] = xstrndup(s, n);
}

const char *form_field_value(const struct form_field *f)
{
	const char *box = f->value ? "\xe2\x98\x92" : "\xe2\x98\x90";

	return f->kind == FORM_BOX                                                      ? box
	       : f->kind == FORM_LIST && f->value >= 0 && (size_t)f->value < f->n_entry ? f->entry[f->value]
	                                                                                : NULL;
}
