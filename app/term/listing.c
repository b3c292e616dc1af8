/* app/term/listing.c - prints tables (of sessions, models, ...): aligned columns for people, or one JSON object a
 * line for programs. */
#include "app/term/term.h"
#include "engine/base/json.h"

#include <string.h>

static void cell_json(const struct listing_cell *c, struct str *out)
{
	if (c->kind == CELL_TEXT)
		json_string(out, c->key, c->text);
	else
		json_int(out, c->key, c->number);
}

/* Append the text, padded with blanks to `width` columns. If width is negative, the text is left-aligned, and truncated
 * if it is too long. */
static void cell_pad(const char *text, int width, struct str *out)
{
	if (width < 0)
		table_cell(out, text, (size_t)-width);
	else
		str_addf(out, "%*s", width, text);
}

static void cell_show(const struct listing_cell *c, struct str *out)
{
	struct str text = { 0 };

	switch (c->kind) {
	case CELL_TEXT: str_adds(&text, c->text); break;
	case CELL_COUNT:
		if (c->number)
			str_addf(&text, "%lld", (long long)c->number);
		break;
	case CELL_NUMBER: str_addf(&text, "%lld", (long long)c->number); break;
	case CELL_BYTES: human_bytes(&text, (uint64_t)c->number); break;
	case CELL_AGE: human_age(&text, c->number); break;
	}
	cell_pad(str_text(&text), c->width, out);
	str_free(&text);
}

/* Append a line of the table. If `titles` is 1, the line has the titles of the columns; if it is 0, the cells of a
 * row. */
static void line_show(struct str *out, const struct listing_cell *cell, size_t n, int titles)
{
	size_t last = 0;

	for (size_t i = 0; i < n; i++)
		if (cell[i].title)
			last = i;
	if (out->n)
		str_adds(out, "\n");
	for (size_t i = 0, shown = 0; i < n; i++) {
		if (!cell[i].title)
			continue;
		/* Put two blanks after the first column and before the last column, and one blank between the
		 * others. */
		str_adds(out, !shown ? "" : shown == 1 || i == last ? "  " : " ");
		shown++;
		if (titles)
			str_addf(out, "%*s", cell[i].width, cell[i].title);
		else
			cell_show(&cell[i], out);
	}
}

void listing_row(struct listing *list, const struct listing_cell *cell, size_t n)
{
	if (list->json) {
		str_adds(&list->out, list->rows ? "\n" : "");
		json_open(&list->out, NULL, '{');
		for (size_t i = 0; i < n; i++)
			if (cell[i].key)
				cell_json(&cell[i], &list->out);
		json_close(&list->out, '}');
	} else {
		if (!list->rows && list->titles)
			line_show(&list->out, cell, n, 1);
		line_show(&list->out, cell, n, 0);
	}
	list->rows++;
}

int listing_print(struct listing *list, struct err *e)
{
	int rc;

	str_adds(&list->out, list->out.n ? "\n" : "");
	rc = print_json(&list->out, e);
	str_free(&list->out);
	return rc;
}

void one_line(struct str *out, const char *text, size_t n, const char *mark)
{
	for (size_t i = 0; i < n; i++)
		if (text[i] == 1 || text[i] == 2)
			str_adds(out, mark);
		else
			str_add(out, text[i] == '\n' || text[i] == '\f' ? " " : text + i, 1);
}
