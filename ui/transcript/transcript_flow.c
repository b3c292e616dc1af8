/* ui/transcript/transcript_flow.c - the rows that flow into the terminal's own scrollback (inline). Each row is passed
 * to the scrollback once, in order. transcript.flow is the first row that was not passed yet. */
#include "ui/transcript/transcript_private.h"

/* If more than FLOW_SKIP rows wait, for example because a long session was opened, only the last FLOW_KEPT rows are
 * passed to the scrollback. */
enum { FLOW_SKIP = 2000, FLOW_KEPT = 500 };

/* Record that all rows before `line` of the entry were passed to the scrollback. */
static void flow_at(struct transcript *t, size_t entry, size_t line)
{
	struct entry *e = &t->entry[entry];
	int inside = !e->folded && line < e->lines.n_line;

	t->flow.entry = entry;
	t->flow.line = line;
	t->flow.stamp = t->stamp;
	t->flow.inside = inside;
	t->flow.source = inside ? e->lines.line[line].source : (uint32_t)e->laid_n;
	t->flow.behind = inside ? 0 : e->folded ? SIZE_MAX / 2 : line - e->lines.n_line;
}

/* Return the first line whose text begins at or after byte `source`. */
static size_t line_from(const struct lines *l, uint32_t source)
{
	size_t i = l->n_line;

	while (i && l->line[i - 1].source >= source)
		i--;
	return i;
}

/* Update flow.line after the entry was laid out again. If it is unclear whether a row was passed to the scrollback, the
 * row is passed again, so that no text is lost. */
static void flow_settle(struct transcript *t)
{
	struct entry *e = &t->entry[t->flow.entry];
	const struct lines *l = &e->lines;
	size_t rows = entry_rows_laid(t, t->flow.entry), line = t->flow.line;

	if (t->flow.line == SIZE_MAX) {
		line = e->folded ? !e->part : entry_open_rows(t, e);
	} else if (t->flow.inside) {
		if (t->flow.stamp != t->stamp || line >= l->n_line || l->line[line].source != t->flow.source) {
			line = line_from(l, t->flow.source);
			if (line && (line == l->n_line || l->line[line].source > t->flow.source))
				line--;
		}
	} else if (line && t->flow.stamp != t->stamp) {
		line = e->ended ? l->n_line + t->flow.behind : line_from(l, t->flow.source);
	}
	t->flow.line = MIN(line, rows);
}

/* Return how many of the `rows` rows of entry i are final: later text cannot change them. */
static size_t final_rows(const struct transcript *t, size_t i, size_t rows)
{
	const struct entry *e = &t->entry[i];

	return i + 1 < t->n || e->ended || e->folded ? rows : MIN(e->growth.line, rows);
}

/* If more than FLOW_SKIP rows wait for the scrollback, skip all but the last FLOW_KEPT. Returns 1 if rows were
 * skipped. */
static int flow_skip(struct transcript *t)
{
	size_t waiting = 0, entry = t->n - 1, line;

	for (size_t i = t->flow.entry; i < t->n && waiting <= FLOW_SKIP; i++)
		waiting += entry_rows(t, i);
	if (waiting <= FLOW_SKIP)
		return 0;
	line = entry_rows_laid(t, entry);
	transcript_move(t, &entry, &line, -(long)FLOW_KEPT);
	if (!transcript_is_before(t->flow.entry, t->flow.line, entry, line))
		return 0;
	flow_at(t, entry, line);
	return 1;
}

size_t transcript_flow(struct transcript *t, const struct flow_size *size, size_t *final, int *skipped)
{
	size_t rows = 0, i;

	*final = 0;
	*skipped = 0;
	transcript_width(t, size->w);
	t->h = MAX(size->page, 1);
	if (!t->n)
		return 0;
	flow_settle(t);
	*skipped = flow_skip(t);
	for (i = t->flow.entry; i < t->n && *final < size->most; i++) {
		size_t here = entry_rows_laid(t, i), from = i == t->flow.entry ? t->flow.line : 0;
		size_t sure = final_rows(t, i, here);

		*final = rows + (sure > from ? sure - from : 0);
		rows += here > from ? here - from : 0;
	}
	if (i == t->n && rows > *final + size->live)
		*final = rows - size->live;
	*final = MIN(*final, size->most);
	return MIN(rows, *final + size->live);
}

void transcript_flow_draw(struct transcript *t, const struct area *all)
{
	struct area a = transcript_column(all, 0);

	t->dirty = 0;
	if (t->n)
		transcript_rows(t, t->flow.entry, t->flow.line, all, &a);
}

void transcript_flow_take(struct transcript *t, size_t rows)
{
	size_t i = t->flow.entry, line = t->flow.line;

	if (!t->n || !rows)
		return;
	while (i + 1 < t->n && line + rows >= entry_rows_laid(t, i)) {
		rows -= MIN(rows, entry_rows_laid(t, i) - line);
		i++;
		line = 0;
	}
	entry_rows_laid(t, i);
	flow_at(t, i, line + rows);
	t->dirty = 1;
}
