/* app/chat/cache_lens.c - finds which words of each document and message are evicted from the KV cache, so that
 * the screen can dim them. The result for one text is called its lens: adjacent byte ranges, each kept or evicted. */
#include "app/chat/cache_lens.h"
#include "app/stream/stream.h"
#include "engine/engine_view.h"

#include <stdlib.h>

void lenses_free(struct cache_report *p)
{
	for (size_t i = 0; i < p->n_lens; i++)
		free(p->lens[i].span);
	free(p->lens);
	p->lens = NULL;
	p->n_lens = 0;
}

static void span_add(struct lens *l, size_t *cap, uint32_t end, uint8_t kept, uint8_t part)
{
	if (l->n && l->span[l->n - 1].kept == kept && l->span[l->n - 1].part == part) {
		l->span[l->n - 1].end = end;
		return;
	}
	GROW(l->span, l->n, *cap);
	l->span[l->n++] = (struct ui_span){ .end = end, .kept = kept, .part = part };
}

static size_t tokens_common(const struct conversation *conv)
{
	size_t n, same = 0;
	const int32_t *id;

	if (!conv->tl)
		return 0;
	id = timeline_tokens(conv->tl, &n);
	n = MIN(n, conv->rendered.id.n);
	while (same < n && id[same] == conv->rendered.id.id[same])
		same++;
	return same;
}

/* A lens (the kept and evicted byte ranges of one text) to which tokens are being added. */
struct lens_of {
	struct lens *l;
	size_t cap;
	const uint8_t *kept;
	size_t first; /* token number of kept[0] in the timeline's sequence */
	const struct cache_view *view;
};

static struct lens_of lens_begin(struct cache_report *p, int which, const uint8_t *kept)
{
	p->lens = xrealloc(p->lens, (p->n_lens + 1) * sizeof *p->lens);
	p->lens[p->n_lens] = (struct lens){ .which = which };
	return (struct lens_of){ .l = &p->lens[p->n_lens++], .kept = kept, .view = &p->view };
}

/* Append the range of one token to the list of ranges l->l, which shows what parts of a text are evicted. The token has
 * number l->first + i in the sequence, and ends at byte `end` of the text. l->kept[i] is the share of the KV heads that
 * keep it, from 0 to 255. The list distinguishes only three cases: all heads keep the token, some do, or none. */
static void lens_token(struct lens_of *l, size_t i, size_t end)
{
	size_t col = (i + l->first) / (size_t)(l->view->per_col > 0 ? l->view->per_col : 1);
	uint8_t where = col < (size_t)l->view->cols ? l->view->where[col] : VIEW_EVICTED;

	span_add(l->l, &l->cap, (uint32_t)end, l->kept[i] == 255 || l->kept[i] == 0 ? l->kept[i] : 128,
	         where == VIEW_EVICTED ? 0 : (uint8_t)(where + 1));
}

/* Find the evicted words in n bytes of a document or message. In the rendered prompt, these bytes begin at
 * prompt_at->byte + from. `same` is the number of leading prompt tokens that are cached. Later tokens are not computed
 * yet, so the byte ranges end before them. */
static void lens_of_prompt(struct cache_report *p, int which, const struct conversation *conv, size_t same,
                           const uint8_t *kept, const struct text_at *prompt_at, size_t from, size_t n)
{
	struct lens_of l;
	size_t at = prompt_at->byte + from, i;

	if (prompt_at->first < 0 || (size_t)prompt_at->first >= same || !n)
		return;
	l = lens_begin(p, which, kept);
	for (i = (size_t)prompt_at->first; i < same && conv->rendered.end[i] <= at;)
		i++;
	for (size_t end = 0; i < same && end < n; i++) {
		end = conv->rendered.end[i] - at < n ? conv->rendered.end[i] - at : n;
		lens_token(&l, i, end);
	}
}

/* ---- a text without an end ---- */

enum { TEXT_MOST = 1 << 20 }; /* only the last TEXT_MOST bytes of a growing text are checked for eviction */

/* Find the evicted words of a growing file that is still being read. The rendered prompt lacks its newest tokens, so
 * byte positions are counted backwards from the end of the text. */
static void lens_of_streamed(struct cache_report *p, const struct conversation *conv, const struct message *m)
{
	const struct streamed *g = streamed_of(conv);
	size_t n, i, end = g->at, most;
	const int32_t *id = timeline_tokens(conv->tl, &n);
	size_t *ends;
	struct lens_of l;
	uint8_t *kept;

	for (size_t k = 0; k < g->pending.n; k++)
		end -= engine_piece(conv->engine, g->pending.id[k], 0, NULL, 0);
	most = end > TEXT_MOST ? end - TEXT_MOST : 0;
	i = n;
	ends = xmalloc((n + 1) * sizeof *ends);
	for (; i > (size_t)(MAX(m->prompt_at.first, 0)) && end > most && end <= m->read; i--) {
		ends[i - 1] = end;
		end -= engine_piece(conv->engine, id[i - 1], 0, NULL, 0);
	}
	/* Leave the text without a lens (its kept and evicted ranges) if none of its tokens is prefilled, or if its
	 * tokens have more bytes than the text. */
	if (i == n || end > m->read) {
		free(ends);
		return;
	}
	kept = xmalloc(n - i + 1);
	timeline_kept(conv->tl, (int32_t)i, (int32_t)(n - i), kept);
	l = lens_begin(p, 0, kept);
	l.l->text = 1;
	l.l->from = end;
	l.first = i;
	for (size_t k = i; k < n; k++)
		lens_token(&l, k - i, ends[k] - end);
	free(kept);
	free(ends);
}

/* Find the evicted words of a growing file after a question was appended to its text: now the rendered prompt
 * contains all of the text. */
static void lens_of_read(struct cache_report *p, const struct conversation *conv, size_t same, const struct message *m)
{
	size_t from = m->read > TEXT_MOST ? m->read - TEXT_MOST : 0, at = m->prompt_at.byte + from,
	       lo = (size_t)m->prompt_at.first, hi = same, n;
	struct lens_of l;
	uint8_t *kept;

	if (m->prompt_at.first < 0 || lo >= same)
		return;
	while (lo < hi) { /* find the first token that ends after `at` */
		size_t mid = lo + (hi - lo) / 2;
		if (conv->rendered.end[mid] <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (n = lo; n < same && (n == lo || conv->rendered.end[n - 1] < m->prompt_at.byte + m->read); n++)
		;
	kept = xmalloc(n - lo + 1);
	timeline_kept(conv->tl, (int32_t)lo, (int32_t)(n - lo), kept);
	l = lens_begin(p, 0, kept);
	l.l->text = 1;
	l.l->from = from;
	l.first = lo;
	for (size_t k = lo; k < n; k++)
		lens_token(&l, k - lo, conv->rendered.end[k] - at);
	free(kept);
}

/* Find the evicted words of the growing file that was read last. Only the last TEXT_MOST bytes of the file are checked,
 * because the screen shows no more of it. */
static void lens_of_text(struct cache_report *p, const struct conversation *conv, size_t same)
{
	size_t i = conv->n_msg;

	while (i && !conv->msg[i - 1].read)
		i--;
	if (i == conv->n_msg && i && conv->grows && streamed_of(conv)->known)
		lens_of_streamed(p, conv, &conv->msg[i - 1]);
	else if (i && !conv->grows)
		lens_of_read(p, conv, same, &conv->msg[i - 1]);
}

/* Find the evicted words of an answer. The byte lengths of its sampled tokens tell which bytes of the text each token
 * has. */
static void lens_of_answer(struct cache_report *p, int which, const struct conversation *conv, size_t n_token,
                           const uint8_t *kept, const struct message *m)
{
	struct lens_of l;
	size_t end = 0;

	if (m->prompt_at.first < 0 || (size_t)m->prompt_at.first >= n_token || !m->id.n)
		return;
	l = lens_begin(p, which, kept);
	for (size_t k = 0; k < m->id.n && (size_t)m->prompt_at.first + k < n_token; k++) {
		size_t len = engine_piece(conv->engine, m->id.id[k], 0, NULL, 0);

		end += len;
		if (len)
			lens_token(&l, (size_t)m->prompt_at.first + k, MIN(end, m->text.n));
	}
}

void cache_report_documents(const struct conversation *conv, int32_t *first)
{
	/* `read` is the number of bytes of the prompt that are cached */
	size_t same = tokens_common(conv), read = same ? conv->rendered.end[same - 1] : 0;

	for (size_t d = 0; d < conv->n_doc; d++) {
		const struct text_at *prompt_at = &conv->doc[d].prompt_at;
		size_t body = prompt_at->byte + conv->doc[d].body;

		/* a model on a server gets the whole document with each request, so give the document's first token the
		 * index 0 */
		first[d] = !conv->tl && conv->doc[d].whole ? 0 : -1;
		if (prompt_at->first < 0 || body + conv->doc[d].n_body > read)
			continue;
		for (size_t i = (size_t)prompt_at->first; i < same && first[d] < 0; i++)
			if (conv->rendered.end[i] > body)
				first[d] = (int32_t)i;
	}
}

void lenses_take(struct cache_report *p, const struct conversation *conv, struct listener *l,
                 const struct timeline_stats *st, int32_t read)
{
	size_t n, same;
	uint8_t *kept;

	p->lensed = 0;
	/* Look for evicted words at most once a second. During a prefill, look only if tokens were evicted. */
	if (now_seconds() - l->lensed < 1 || (read >= 0 && st->rings.evicted + st->rings.evicted_in_part == 0))
		return;
	l->lensed = now_seconds();
	lenses_free(p);
	same = tokens_common(conv);
	timeline_tokens(conv->tl, &n);
	kept = xmalloc(n + 1);
	timeline_kept(conv->tl, 0, (int32_t)n, kept);
	for (size_t i = 0; i < conv->n_doc; i++)
		if (conv->doc[i].at == 0)
			lens_of_prompt(p, -1 - (int)i, conv, same, kept, &conv->doc[i].prompt_at, conv->doc[i].body,
			               conv->doc[i].n_body);
	for (size_t i = 0; i < conv->n_msg; i++) {
		const struct message *m = &conv->msg[i];

		if (m->read)
			continue;
		if (m->id.n)
			lens_of_answer(p, (int)i, conv, n, kept, m);
		else
			lens_of_prompt(p, (int)i, conv, same, kept, &m->prompt_at, 0, m->text.n);
	}
	lens_of_text(p, conv, same);
	free(kept);
	p->lensed = 1;
}

void lenses_of_server(struct cache_report *p, const struct conversation *conv, struct listener *l)
{
	p->lensed = 0;
	if (now_seconds() - l->lensed < 1)
		return;
	l->lensed = now_seconds();
	lenses_free(p);
	for (size_t i = 0; i < conv->n_msg; i++) {
		struct lens_of of = lens_begin(p, (int)i, NULL);

		span_add(of.l, &of.cap, (uint32_t)conv->msg[i].text.n, i < conv->served.left_out ? 0 : 255, 0);
	}
	p->lensed = 1;
}
