/* sessions/import/xlsx_boxes.c - the text boxes of an Excel sheet: shapes with text, in the drawing that is over the
 * cells (ECMA-376 part 1, chapter 20.5). */
#include "sessions/import/xlsx.h"

#include <string.h>

struct boxes {
	struct str *out;
	int in_shape, in_text; /* each is 1 inside the element <txBody>, or inside the element <t> */
	int skip;              /* number of open elements inside a copy of the shapes for older programs */
};

static void end_line(struct str *out)
{
	if (out->n && out->p[out->n - 1] != '\n')
		str_adds(out, "\n");
}

static void drawing_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct boxes *b = ud;

	(void)a, (void)n;
	if (b->skip || !strcmp(name, "Fallback"))
		b->skip++;
	else if (!strcmp(name, "txBody"))
		b->in_shape = 1;
	else if (!strcmp(name, "br"))
		end_line(b->out);
	b->in_text = b->in_shape && !b->skip && !strcmp(name, "t");
}

static void drawing_end(void *ud, const char *name)
{
	struct boxes *b = ud;

	b->in_text = 0;
	if (b->skip) {
		b->skip--;
	} else if (!strcmp(name, "txBody")) {
		b->in_shape = 0;
		str_adds(b->out, "\n");
	} else if (!strcmp(name, "p")) {
		end_line(b->out);
	}
}

static void drawing_text(void *ud, const char *s, size_t n)
{
	struct boxes *b = ud;

	if (b->in_text)
		str_add(b->out, s, n);
}

void xlsx_boxes(const struct zip_entry *drawing, struct str *out)
{
	static const struct xml_handler handler = { .start = drawing_start, .end = drawing_end, .text = drawing_text };
	struct boxes b = { .out = out };

	xml_parse(drawing->name, drawing->p, drawing->n, &handler, &b, NULL);
}
