/* ui/panes/documents_places.c - wraps a document's lines, and moves in the document by lines, pages and percent. */
#include "ui/panes/pane_documents.h"

struct doc_text *documents_current(const struct documents_pane *p)
{
	return p->at < p->n_doc ? &p->doc[p->at] : NULL;
}

void documents_say(struct documents_pane *p, const char *what)
{
	str_clear(&p->say);
	str_adds(&p->say, what);
}

const struct lines *documents_lay_out(struct documents_pane *p, size_t chunk)
{
	struct doc_text *d = documents_current(p);
	struct laid *l = &p->laid[0];
	size_t from, end;

	for (int i = 0; i < LAID; i++) {
		struct laid *k = &p->laid[i];
		if (k->w == p->w && k->doc == p->at && k->chunk == chunk) {
			k->used = ++p->clock;
			return &k->lines;
		}
		if (k->used < l->used)
			l = k;
	}
	from = d->chunk[chunk].at;
	end = chunk + 1 < d->n_chunk ? d->chunk[chunk + 1].at : d->text.n;
	lines_clear(&l->lines);
	lines_plain(&l->lines, d->text.p + from, end - from, p->w, ST_TEXT);
	l->doc = p->at;
	l->chunk = chunk;
	l->w = p->w;
	l->used = ++p->clock;
	return &l->lines;
}

struct pos documents_pos_of(struct documents_pane *p, uint32_t at)
{
	struct doc_text *d = documents_current(p);
	struct pos pos = { doc_text_chunk(d, at), 0 };
	const struct lines *l = documents_lay_out(p, pos.chunk);
	size_t lo = 0, hi = l->n_line;
	uint32_t rel = at - d->chunk[pos.chunk].at;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;
		if (l->line[mid].source <= rel)
			lo = mid;
		else
			hi = mid;
	}
	pos.line = lo;
	return pos;
}

uint32_t documents_byte_of(struct documents_pane *p, struct pos pos)
{
	const struct lines *l = documents_lay_out(p, pos.chunk);
	uint32_t base = documents_current(p)->chunk[pos.chunk].at;

	return pos.line < l->n_line ? base + l->line[pos.line].source : base;
}

uint32_t documents_end_of(struct documents_pane *p, struct pos pos)
{
	const struct doc_text *d = documents_current(p);
	const struct lines *l = documents_lay_out(p, pos.chunk);

	if (pos.line + 1 < l->n_line)
		return d->chunk[pos.chunk].at + l->line[pos.line + 1].source;
	return pos.chunk + 1 < d->n_chunk ? d->chunk[pos.chunk + 1].at : (uint32_t)d->text.n;
}

int64_t documents_walk(struct documents_pane *p, struct pos *pos, int64_t step)
{
	const struct doc_text *d = documents_current(p);

	while (step > 0) {
		size_t n = documents_lay_out(p, pos->chunk)->n_line;
		int64_t here = pos->line + 1 < n ? (int64_t)(n - 1 - pos->line) : 0;

		if (here >= step) {
			pos->line += (size_t)step;
			return 0;
		}
		if (pos->chunk + 1 >= d->n_chunk) {
			pos->line += (size_t)here;
			return step - here;
		}
		step -= here + 1;
		pos->chunk++;
		pos->line = 0;
	}
	while (step < 0) {
		if ((int64_t)pos->line >= -step) {
			pos->line -= (size_t)-step;
			return 0;
		}
		if (!pos->chunk) {
			step += (int64_t)pos->line;
			pos->line = 0;
			return step;
		}
		step += (int64_t)pos->line + 1;
		pos->chunk--;
		pos->line = documents_lay_out(p, pos->chunk)->n_line;
		pos->line -= pos->line > 0;
	}
	return 0;
}

void documents_set_top(struct documents_pane *p, uint32_t at)
{
	struct doc_text *d = documents_current(p);
	struct pos last = { d->n_chunk - 1, 0 };
	uint32_t most;

	last.line = documents_lay_out(p, last.chunk)->n_line;
	last.line -= last.line > 0;
	documents_walk(p, &last, -(int64_t)(p->h > 1 ? p->h - 1 : 0));
	most = documents_byte_of(p, last);
	d->top = at < most ? documents_byte_of(p, documents_pos_of(p, at)) : most;
}

void documents_scroll(struct documents_pane *p, int64_t lines)
{
	struct pos pos = documents_pos_of(p, documents_current(p)->top);

	documents_walk(p, &pos, lines);
	documents_set_top(p, documents_byte_of(p, pos));
}

void documents_go_to_line(struct documents_pane *p, int64_t line)
{
	documents_set_top(p, doc_text_line_start(documents_current(p), line));
}

void documents_go_to_percent(struct documents_pane *p, double percent)
{
	struct doc_text *d = documents_current(p);

	if (!(percent > 0))
		percent = 0;
	documents_set_top(p, (uint32_t)((percent < 100 ? percent / 100 : 1) * (double)d->text.n));
}

void documents_go_to_page(struct documents_pane *p, int64_t page)
{
	struct doc_text *d = documents_current(p);

	if (!d->n_page) {
		documents_say(p, "this document has no pages");
		return;
	}
	if (page < 1 || page > (int64_t)d->n_page + 1) {
		str_clear(&p->say);
		str_addf(&p->say, "there are pages 1 to %s", num_count((int64_t)d->n_page + 1).s);
		return;
	}
	documents_set_top(p, page == 1 ? 0 : d->page[page - 2]);
}
