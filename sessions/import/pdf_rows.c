/* sessions/import/pdf_rows.c - makes lines of a page's pieces, in reading order.
 *
 * pdftotext prints the columns of a page one after the other. It does the same with the columns of a table. It also
 * separates a number or bullet from its text if there is much space between them. So this file joins pieces on one
 * baseline to one line: a number or bullet and its text, or the cells of a table's row. It does not join the columns of
 * a text.
 *
 * A flow is a text column according to pdftotext. A wide flow contains text, and a narrow flow contains cells. A wide
 * flow also contains cells if enough of its lines have a narrow piece beside them (has_cells). */
#include "sessions/import/pdf.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Distances, in heights of letters. */
#define WIDE      11.0f /* a flow is wide if its lines have at least this average width */
#define LABEL_GAP 4.0f  /* maximum space between a number or bullet and its text */
#define WORD_GAP  1.3f  /* maximum space between two words of a line */
#define ROW_GAP   2.5f  /* maximum space between two rows of a table */

/* LONG: a flow (text column) with fewer lines than this is short. TABLES: a row may continue one of the last TABLES
 * tables of the page. */
enum { LONG = 4, TABLES = 8 };

/* A flow, which is a text column according to pdftotext. */
struct flow {
	float width, widest; /* sum and maximum of the widths of the flow's lines, in heights of letters */
	/* number of lines that are nearly as wide as the widest line; lines of a table of contents do not count */
	uint32_t full;
	/* `lines` is the number of lines in the text column. `beside` is the number of these lines that have a
	 * neighbour. A neighbour is another line on the same baseline. Lines of two wide columns do not count as
	 * neighbours. */
	uint32_t lines, beside;
};

/* One piece of the page (struct pdf_piece). A page's parts are sorted by baseline; parts on the same baseline are
 * sorted from left to right. */
struct part {
	uint32_t piece; /* index in pdf.piece; pieces are in the order of pdftotext's output */
	float base;     /* y of the baseline */
	uint32_t join;  /* how this part is joined to the part at its left; JOIN_NONE = it is not */
	uint32_t table; /* 1 + the index in rows.table of the part's table; 0 = the part is not in a table */
	uint32_t row;   /* number of the part's baseline on the page */
};
enum { JOIN_NONE, JOIN_WORD, JOIN_CELL };

/* A table of the page. */
struct grid {
	struct pdf_box box;
	/* index in pdf.piece of the table's first piece; all rows of the table are written at the place of this
	 * piece */
	uint32_t first;
};

/* A line to be written: one part, or several parts that are joined. */
struct out {
	/* `key` is an index in pdf.piece; output lines are sorted by their keys. `table` is 1 + the index in rows.table
	 * of the line's table, or 0 if the line is in no table. */
	uint32_t key, table;
	uint32_t part, n; /* the line consists of the parts [part, part + n) */
};

struct rows {
	struct pdf *f;
	struct flow *flow;
	struct part *part;
	size_t n;
	struct grid *table;
	size_t n_table, cap_table;
	struct out *out;
	size_t n_out;
};

static struct pdf_piece *piece_of(const struct rows *r, size_t part)
{
	return &r->f->piece[r->part[part].piece];
}

static struct flow *flow_of(const struct rows *r, size_t part)
{
	return &r->flow[piece_of(r, part)->flow];
}

static int is_wide(const struct flow *w)
{
	return w->width >= WIDE * (float)w->lines;
}

static int by_base(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return x->base != y->base ? (x->base > y->base) - (x->base < y->base)
	                          : (x->piece > y->piece) - (x->piece < y->piece);
}

/* Set part.row of all parts, which are sorted by part.base. Parts on the same baseline get the same number. */
static void find_baselines(struct rows *r)
{
	for (size_t i = 1, from = 0; i < r->n; i++) {
		const struct pdf_piece *a = piece_of(r, from), *b = piece_of(r, i);

		if (!a->upright || !b->upright || r->part[i].base - r->part[from].base > 0.3f * MIN(a->size, b->size))
			from = i;
		r->part[i].row = (uint32_t)from;
	}
}

/* Sort the parts of one baseline from left to right. */
static void sort_row(struct rows *r, size_t from, size_t to)
{
	/* Insertion sort is fast, because most parts are in order. A part moves by at most 64 places, which limits the
	 * time for hostile files. */
	for (size_t i = from + 1; i < to; i++)
		for (size_t k = i; k > from && piece_of(r, k)->box.x0 < piece_of(r, k - 1)->box.x0 && i - k < 64; k--) {
			struct part p = r->part[k];
			r->part[k] = r->part[k - 1];
			r->part[k - 1] = p;
		}
}

/* 1 for a label, which is a bullet, or the number of a list item, section or equation: "2.1", "(a)", "iv.", "[12]". */
static int is_label(const char *p, size_t n)
{
	size_t i = 0, from;

	if (!n || n > 10)
		return 0;
	if (n <= 3 && ((unsigned char)*p >= 0x80 || strchr("*-+o", *p)))
		return utf8_complete(p, n) == n && ((unsigned char)*p < 0x80 ? n == 1 : n == 3 || n == 2);
	i += strchr("([", p[i]) != NULL;
	from = i;
	while (i < n && (byte_is_digit(p[i]) || (i > from && p[i] == '.')))
		i++;
	if (i == from)
		while (i < n && i - from < 4 && byte_is_alnum(p[i]))
			i++;
	if (i == from)
		return 0;
	if (i == n) /* a label without a bracket or dot must be a number */
		return byte_is_digit(p[from]);
	return i + 1 == n && strchr(".):]", p[i]) != NULL;
}

static float width_of(const struct pdf_piece *p)
{
	return (p->box.x1 - p->box.x0) / p->size;
}

static float gap_between(const struct pdf_piece *a, const struct pdf_piece *b)
{
	return (b->box.x0 - a->box.x1) / MAX(MIN(a->size, b->size), 1);
}

/* The parts [from, to) are on the same baseline. For each part that has a neighbour there, add 1 to `beside` of the
 * part's flow (text column). Parts of two wide flows do not count as neighbours. */
static void count_neighbours(struct rows *r, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		struct flow *w = flow_of(r, i);
		int beside = 0;
		if (i > from)
			beside |= !is_wide(w) || !is_wide(flow_of(r, i - 1));
		if (i + 1 < to)
			beside |= !is_wide(w) || !is_wide(flow_of(r, i + 1));
		w->beside += (uint32_t)beside;
	}
}

/* 1 if the lines of flow w (a text column) may be cells of a table. The condition depends on the flow:
 * - If the flow has fewer than LONG lines, there is no condition.
 * - In a narrow flow, at least 1/2 of the lines have a neighbour on their baseline.
 * - In a wide flow, at least 3/10 of the lines have a neighbour.
 * - A wide flow is usually text if at least 6/10 of its lines have nearly the full width. In this case, at least 9/10
 *   of the lines have a neighbour, and the flow has fewer than 3 * LONG lines. */
static int has_cells(const struct flow *w)
{
	if (w->lines < LONG || !is_wide(w))
		return w->lines < LONG || w->beside * 2 >= w->lines;
	if (w->full * 10 >= w->lines * 6) /* the majority of the lines is full, as in text */
		return w->lines < 3 * LONG && w->beside * 10 >= w->lines * 9;
	return w->beside * 10 >= w->lines * 3;
}

/* Join the parts [from, to), which are on one baseline, by setting part.join. */
static void join_row(struct rows *r, size_t from, size_t to)
{
	for (size_t i = from + 1; i < to; i++) {
		const struct pdf_piece *a = piece_of(r, i - 1), *b = piece_of(r, i);
		const struct flow *w = flow_of(r, i - 1), *v = flow_of(r, i);
		float gap = gap_between(a, b), left = i - 1 > from ? gap_between(piece_of(r, i - 2), a) : LABEL_GAP;
		float right = i + 1 < to ? gap_between(b, piece_of(r, i + 1)) : LABEL_GAP;
		int cells = !(is_wide(w) && is_wide(v)) && has_cells(w) && has_cells(v);

		if (gap < -0.5f || a->block == b->block)
			continue;
		/* join a label to the text after it, unless the piece before the label is nearer; for example, the page
		 * number at the end of a line of contents is not a label of the next column */
		if (gap <= LABEL_GAP && a->right_to_left == b->right_to_left &&
		    (a->right_to_left ? gap <= right && is_label(r->f->text.p + b->at, b->n)
		                      : gap <= left && is_label(r->f->text.p + a->at, a->n)))
			r->part[i].join = JOIN_WORD;
		else if (cells)
			r->part[i].join = gap <= WORD_GAP ? JOIN_WORD : JOIN_CELL;
	}
}

/* ---- tables ---- */

static struct pdf_box box_of(const struct rows *r, size_t from, size_t to)
{
	struct pdf_box b = piece_of(r, from)->box;

	for (size_t i = from + 1; i < to; i++) {
		struct pdf_box c = piece_of(r, i)->box;
		b = (struct pdf_box){ MIN(b.x0, c.x0), MIN(b.y0, c.y0), MAX(b.x1, c.x1), MAX(b.y1, c.y1) };
	}
	return b;
}

/* Find the table that a row in box b continues, among the last TABLES tables. The table lies above or at the row, and
 * at most ROW_GAP away. Returns NULL if the row begins a new table. */
static struct grid *table_above(struct rows *r, const struct pdf_box *b, float size)
{
	for (size_t k = 0; k < TABLES && k < r->n_table; k++) {
		struct grid *t = &r->table[r->n_table - 1 - k];
		if (t->box.x0 < b->x1 && b->x0 < t->box.x1 && b->y0 - t->box.y1 <= ROW_GAP * size)
			return t;
	}
	return NULL;
}

/* Add the row of parts [from, to), which has several cells, to the table above it or to a new one. Rows of one cell are
 * added by place_single_cells(). */
static void place_row(struct rows *r, size_t from, size_t to)
{
	struct pdf_box b = box_of(r, from, to);
	struct grid *t = table_above(r, &b, piece_of(r, from)->size);

	if (!t) {
		GROW(r->table, r->n_table, r->cap_table);
		t = &r->table[r->n_table++];
		*t = (struct grid){ .box = b, .first = UINT32_MAX };
	}
	t->box = (struct pdf_box){ MIN(b.x0, t->box.x0), MIN(b.y0, t->box.y0), MAX(b.x1, t->box.x1),
		                   MAX(b.y1, t->box.y1) };
	for (size_t i = from; i < to; i++) {
		t->first = MIN(t->first, r->part[i].piece);
		r->part[i].table = (uint32_t)(t - r->table) + 1;
	}
}

/* Add lines of one cell to tables. A line is added to a table if the table is at least as wide as the line and reaches
 * below the line. One of the 15 parts before the line must be in the table. */
static void place_single_cells(struct rows *r)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct pdf_box *b = &piece_of(r, i)->box;
		if (r->part[i].table || (i + 1 < r->n && r->part[i + 1].join) || !piece_of(r, i)->upright)
			continue;
		for (size_t k = i; k-- && i - k < 16;) {
			struct grid *t = r->part[k].table ? &r->table[r->part[k].table - 1] : NULL;
			if (t && b->x0 >= t->box.x0 - 1 && b->x1 <= t->box.x1 + 1 && b->y1 < t->box.y1) {
				r->part[i].table = r->part[k].table;
				t->first = MIN(t->first, r->part[i].piece);
				break;
			}
		}
	}
}

/* ---- lines ---- */

static int by_key(const void *a, const void *b)
{
	const struct out *x = a, *y = b;

	return x->key != y->key       ? (x->key > y->key) - (x->key < y->key)
	       : x->table != y->table ? (x->table > y->table) - (x->table < y->table)
	                              : (x->part > y->part) - (x->part < y->part);
}

static void make_outputs(struct rows *r)
{
	r->out = xmalloc((r->n + 1) * sizeof *r->out);
	for (size_t i = 0, to; i < r->n; i = to) {
		struct out *o = &r->out[r->n_out++];
		uint32_t table = r->part[i].table;

		for (to = i + 1; to < r->n && r->part[to].join; to++)
			;
		/* Lines are sorted by `key`, which is a position in pdftotext's output. The key of a table's row is the
		 * position of the table's first piece. The key of any other line is the position of its last part. If a
		 * label, such as a bullet, is joined to its text, the last part is the text. */
		*o = (struct out){ .key = table ? r->table[table - 1].first : r->part[to - 1].piece,
			           .table = table,
			           .part = (uint32_t)i,
			           .n = (uint32_t)(to - i) };
	}
	qsort(r->out, r->n_out, sizeof *r->out, by_key);
}

/* Append the joined text of o's parts to pdf.text. Set l->at and l->n to its range, and l->row if it has cells. If the
 * majority of the parts is right to left, the rightmost part comes first. */
static void join_text(struct rows *r, const struct out *o, struct pdf_line *l)
{
	struct str *t = &r->f->text, s = { 0 };
	int rtl = 0;

	for (size_t i = 0; i < o->n; i++)
		rtl += piece_of(r, o->part + i)->right_to_left ? 1 : -1;
	for (size_t i = 0; i < o->n; i++) {
		size_t part = o->part + (rtl > 0 ? o->n - 1 - i : i);
		const struct pdf_piece *p = piece_of(r, part);
		uint32_t join = rtl > 0 ? i ? r->part[part + 1].join : 0 : r->part[part].join;
		if (i)
			str_adds(&s, join == JOIN_CELL ? " | " : " ");
		str_add(&s, t->p + p->at, p->n);
		l->row |= join == JOIN_CELL;
	}
	l->at = t->n;
	l->n = s.n;
	str_add(t, s.p, s.n);
	str_free(&s);
}

/* 1 if a blank line must be written between two lines. The first line contains piece `a`, the second one piece `b`. The
 * space between the lines is measured in heights of b's letters. In a table (same_table = 1), write a blank line if the
 * space exceeds 1.2. Outside a table, write none if pdftotext has put a and b into one block. Otherwise write one if
 * the space exceeds 0.5, if b is above a, or if the flow (text column) or the size of the letters changes. */
static int blank_between(const struct pdf_piece *a, const struct pdf_piece *b, int same_table)
{
	float space = (b->box.y0 - a->box.y1) / b->size;

	if (same_table)
		return space > 1.2f;
	if (a->block == b->block)
		return 0;
	return a->flow != b->flow || space > 0.5f || space < -1 || a->size > 1.1f * b->size || b->size > 1.1f * a->size;
}

void pdf_add_lines(struct pdf *f)
{
	struct pdf_page *pg = &f->page[f->n_page - 1];
	struct rows r = { .f = f, .n = f->n_piece };
	const struct pdf_piece *before = NULL;
	uint32_t table = 0;

	r.flow = xcalloc(f->n_piece ? f->piece[f->n_piece - 1].flow + 1 : 1, sizeof *r.flow);
	r.part = xcalloc(f->n_piece + 1, sizeof *r.part);
	for (size_t i = 0; i < f->n_piece; i++) {
		const struct pdf_piece *p = &f->piece[i];
		r.part[i] = (struct part){ .piece = (uint32_t)i, .base = p->box.y1 - 0.22f * (p->box.y1 - p->box.y0) };
		r.flow[p->flow].lines++;
		r.flow[p->flow].width += width_of(p);
		r.flow[p->flow].widest = MAX(r.flow[p->flow].widest, width_of(p));
	}
	for (size_t i = 0; i < f->n_piece; i++) {
		const struct pdf_piece *p = &f->piece[i];
		r.flow[p->flow].full += width_of(p) > 0.8f * r.flow[p->flow].widest &&
		                        !memmem(f->text.p + p->at, p->n, ". . .", 5) &&
		                        !memmem(f->text.p + p->at, p->n, "....", 4);
	}
	qsort(r.part, r.n, sizeof *r.part, by_base);
	find_baselines(&r);
	/* Go through the parts twice, baseline by baseline. Pass 0 counts the neighbours of each flow's lines. Pass 1
	 * joins parts, which depends on these counts. */
	for (int pass = 0; pass < 2; pass++)
		for (size_t from = 0, to; from < r.n; from = to) {
			for (to = from + 1; to < r.n && r.part[to].row == r.part[from].row; to++)
				;
			if (!pass) {
				sort_row(&r, from, to);
				count_neighbours(&r, from, to);
				continue;
			}
			join_row(&r, from, to);
			for (size_t i = from, end; i < to; i = end) {
				int cells = 0;
				for (end = i + 1; end < to && r.part[end].join; end++)
					cells |= r.part[end].join == JOIN_CELL;
				if (cells)
					place_row(&r, i, end);
			}
		}
	place_single_cells(&r);
	make_outputs(&r);
	for (size_t i = 0; i < r.n_out; i++) {
		const struct out *o = &r.out[i];
		const struct pdf_piece *p = piece_of(&r, o->part + o->n - 1);
		struct pdf_line l = { .box = box_of(&r, o->part, o->part + o->n),
			              .size = p->size,
			              .at = p->at,
			              .n = p->n,
			              .upright = p->upright != 0 };

		if (o->n > 1)
			join_text(&r, o, &l);
		l.row |= o->table != 0;
		l.gap = !before || blank_between(before, p, o->table && o->table == table);
		before = p;
		table = o->table;
		GROW(f->line, f->n_line, f->cap_line);
		f->line[f->n_line++] = l;
	}
	pg->n_line = f->n_line - pg->line;
	f->n_piece = 0;
	free(r.flow);
	free(r.part);
	free(r.table);
	free(r.out);
}
