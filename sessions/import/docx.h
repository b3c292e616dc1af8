/* sessions/import/docx.h - declarations shared by the files that convert DOCX (docx*.c). */
#ifndef WEIR_DOCX_H
#define WEIR_DOCX_H

#include "sessions/import/import_private.h"

/* 1 if a boolean property is on: <w:b/> is on, <w:b w:val="0"/> is off. */
int docx_is_on(const struct xml_attr *, size_t n);

/* ---- docx_form.c ---- */

/* The form field that was read last. */
struct docx_form {
	struct form_field field;
	int open; /* 1: inside the element <w:ffData> of the field */
};
/* Handle the start or end of an element. Returns 1 if the element is part of a form field's data. */
int docx_form_start(struct docx_form *, const char *name, const struct xml_attr *, size_t n);
int docx_form_end(struct docx_form *, const char *name);

/* ---- docx_parts.c ---- */

/* 1 if `name`, an entry of the archive, may be an inserted document. */
int docx_is_chunk(const char *name);
/* Write an inserted document, which <w:altChunk> names by the id of a relationship: DOCX, RTF, HTML, plain text, or a
 * web archive (MHTML). Returns 0; or -1 if the document is missing or cannot be read. */
int docx_chunk(struct writer *, const struct opc *rels, const struct xml_attr *id);
/* Add notices about comments and SmartArt diagrams, which are not written. */
void docx_note_parts(struct doc *, const struct zip *);

#endif
