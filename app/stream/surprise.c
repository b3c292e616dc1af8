/* app/stream/surprise.c - measures how much the sentences of a streamed message surprise the model (stream.h).
 *
 * Surprise is the mean of -log p over a sentence's tokens. It needs the logits after every token, while a plain prefill
 * computes only the logits after the last token. This makes reading take at least 1.5 times as long, so surprise is
 * measured only with --surprise on. KV entries and logits have the same bits with and without it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/stream/stream_private.h"
#include "engine/base/sentences.h"

enum {
	/* maximum number of stored sentences; when it is reached, the older half is dropped */
	SENTENCES_MOST = 4096,
	SENTENCE_MOST = 200, /* maximum number of tokens of a sentence; a longer sentence is ended after this many */
	/* number of sentences at the beginning that get level 0, because there are too few sentences to compare them
	 * with */
	LEVELS_FROM = 8,
};

/* 1 if byte `end` of p[0 .. n) is the end of a sentence or paragraph. */
static int text_ends_at(const char *p, size_t end, size_t n)
{
	return (end >= 2 && p[end - 1] == '\n' && p[end - 2] == '\n') || sentence_ends(p, n, end);
}

/* Return the level of a sentence, 0 to 3. It depends on how many standard deviations its nll is above the mean of all
 * sentences. */
static uint8_t level_of(const struct surprise *s, double nll)
{
	double sd = s->count > 1 ? sqrt(s->squares / (double)(s->count - 1)) : 0, z = sd > 0 ? (nll - s->mean) / sd : 0;

	return s->count < LEVELS_FROM ? 0 : z > 2 ? 3 : z > 1.3 ? 2 : z > 0.7 ? 1 : 0;
}

/* Record the sentence that ends at byte `end`, and update mean and variance (Welford's algorithm). */
static void sentence_end(struct surprise *s, size_t end)
{
	double nll = s->sum / s->tokens, over = nll - s->mean;

	GROW(s->at, s->n, s->cap);
	s->at[s->n++] = (struct read_sentence){ .end = end, .nll = (float)nll, .level = level_of(s, nll) };
	s->count++;
	s->mean += over / (double)s->count;
	s->squares += over * (nll - s->mean);
	s->sum = 0;
	s->tokens = 0;
	if (s->n == SENTENCES_MOST) {
		s->n /= 2;
		s->first += s->n;
		memmove(s->at, s->at + s->n, s->n * sizeof *s->at);
	}
}

struct take {
	struct conversation *conv;
	const int32_t *id;
	size_t n;
	size_t had;
	double nll;
	size_t byte;
};

/* Add the surprise of token number i to the current sentence. If the sentence ends with this token, record it. */
static void take_token(struct take *x, size_t i, double nll)
{
	struct surprise *s = turn_hook_find(x->conv, "surprise");
	const struct str *text = &x->conv->msg[x->conv->n_msg - 1].text;

	x->byte += engine_piece(x->conv->engine, x->id[i], 0, NULL, 0);
	if (isfinite(nll)) {
		s->sum += nll;
		s->tokens++;
	}
	if (s->tokens && x->byte <= text->n && (s->tokens >= SENTENCE_MOST || text_ends_at(text->p, x->byte, text->n)))
		sentence_end(s, x->byte);
}

static void on_logits(int32_t pos, const float *logits, void *ud)
{
	struct take *x = ud;
	size_t i = (size_t)pos - x->had;

	if (!i)
		take_token(x, 0, x->nll);
	if (i + 1 < x->n)
		take_token(x, i + 1, engine_logprob(logits, engine_info(x->conv->engine)->n_vocab, x->id[i + 1]) * -1);
}

int surprise_extend(struct conversation *conv, const int32_t *id, size_t n, size_t byte, struct err *e)
{
	struct take x = { .conv = conv, .id = id, .n = n, .nll = NAN, .byte = byte };
	const float *before = timeline_logits(conv->tl);

	timeline_tokens(conv->tl, &x.had);
	if (before && n)
		x.nll = -engine_logprob(before, engine_info(conv->engine)->n_vocab, id[0]);
	return timeline_extend(conv->tl, id, n, 0, on_logits, &x, e);
}

const struct surprise *surprise_of(const struct conversation *conv)
{
	return turn_hook_find(conv, "surprise");
}

void surprise_forget(struct surprise *s)
{
	free(s->at);
	*s = (struct surprise){ .n = 0 };
}

static void surprise_changed(void *self, struct conversation *conv, enum turn_hook_change what)
{
	(void)conv;
	if (what == CHANGE_EMPTIED)
		surprise_forget(self);
}

static void surprise_free(void *self)
{
	surprise_forget(self);
	free(self);
}

const struct turn_hook_ops surprise_ops = {
	.name = "surprise",
	.changed = surprise_changed,
	.free = surprise_free,
};
