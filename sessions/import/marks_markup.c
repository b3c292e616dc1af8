/* sessions/import/marks_markup.c - finds the headings of Markdown. */
#include "sessions/import/marks.h"

#include <string.h>

/* Return the level of a Markdown heading, "## Title ##": the number of '#'. *l becomes the title. */
static int atx_level(struct line *l)
{
	int level = 0;

	while (level < (int)l->n && l->s[level] == '#')
		level++;
	if (!level || level > 6 || (level < (int)l->n && l->s[level] != ' ' && l->s[level] != '\t'))
		return 0;
	l->s += level;
	l->n -= (size_t)level;
	while (l->n && l->s[l->n - 1] == '#')
		l->n--;
	while (l->n && (unsigned char)*l->s <= ' ')
		l->s++, l->n--;
	return l->n ? level : 0;
}

void mark_markdown(struct doc *d)
{
	char fence = 0;
	size_t fence_n = 0, asked = 0;

	for (size_t at = 0, next; at < d->text.n && !marks_stopped(at, &asked); at = next) {
		struct line l = line_at(&d->text, at, &next), title = l, under = { 0 };
		size_t indent = (size_t)(l.s - d->text.p) - at, run = 0, ignored;
		int level = 0;
		while (run < l.n && (l.s[run] == '`' || l.s[run] == '~') && l.s[run] == l.s[0])
			run++;
		if (fence) {
			if (run >= fence_n && l.s[0] == fence && run == l.n)
				fence = 0;
			continue;
		}
		if (run >= 3) {
			fence = l.s[0];
			fence_n = run;
			continue;
		}
		if (indent > 3 || !l.n)
			continue;
		level = atx_level(&title);
		if (!level && next < d->text.n && l.s[0] != '-' && l.s[0] != '>' && l.s[0] != '|') {
			under = line_at(&d->text, next, &ignored);
			level = line_is_all(under, '=') ? 1 : line_is_all(under, '-') ? 2 : 0;
		}
		if (level)
			doc_mark(d, MARK_HEADING, level, at, title.s, title.n);
	}
}
