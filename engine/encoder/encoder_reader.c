/* engine/encoder/encoder_reader.c - reads a passage together with a question (a cross-encoder). The result says whether
 * the passage answers the question, and with which words.
 *
 * A reader is a file with a head and one or two LoRA adapters for the encoder. With the first adapter the encoder reads
 * pairs: <s> question </s></s> passage </s>. The second adapter (tensors "query.blk...") is for the vectors of
 * questions.
 *
 * The head has three rows of n_embd weights. The log odds that the passage answers the question are row 0 times the
 * pooled vector, plus a bias. Row 1 times a token's hidden state is the logit that the answer begins at this token; row
 * 2 gives the logit that it ends there. tests/train/reader_train.py trains readers.
 *
 * The reader can also be a reranker: a cross-encoder in the format of llama.cpp's converter (src/llama-graph.cpp,
 * pooling "rank"). It reads the same input with weights of its own, and returns only a score. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/encoder/encoder.h"

enum {
	QUESTION_MOST = 48, /* a question is truncated to this many tokens */
	/* a pair is truncated to this many tokens, special tokens included; readers are trained with the same limit */
	PAIR_MOST = 230,
	PAIR_LEAST = 32,  /* an encoder whose texts have fewer tokens than this cannot read pairs */
	SEPARATORS = 4,   /* number of special tokens in a pair */
	ANSWER_MOST = 30, /* maximum number of tokens of an answer */
	RANK_MOST = 256,
	HEAD_ROWS = 3,
};

/* ---- loading a reader's file ---- */

struct reader_file {
	struct encoder *e;
	struct gguf *g;
	uint64_t used; /* number of tensors that were loaded */
	struct err *err;
};

static int reader_keys(struct reader_file *f, float *bias)
{
	struct view type = { "", 0 }, arch = { "", 0 };
	double value = 0;
	int got;

	if (gguf_string(f->g, "general.type", &type, f->err) < 0 ||
	    gguf_string(f->g, "general.architecture", &arch, f->err) < 0)
		return -1;
	if (!view_is(type, "adapter") || !view_is(arch, "bert"))
		return gguf_err(f->g, f->err, "it is no reader, the adapter of a text encoder");
	got = gguf_float(f->g, "reader.bias", &value, f->err);
	if (got <= 0 || !(fabs(value) <= 1e6))
		return got < 0 ? -1 : gguf_err(f->g, f->err, "'reader.bias' is %s", got ? "out of range" : "missing");
	*bias = (float)value;
	return 0;
}

/* Load a matrix [rows][cols] of the adapter. If rows or cols is 0, the matrix may have any number of them up to
 * RANK_MOST. */
static int matrix_load(struct reader_file *f, struct tensor *out, const struct gguf_tensor *t, int32_t rows,
                       int32_t cols)
{
	struct encoder *e = f->e;

	if (t->type >= DT_COUNT || t->ne[2] != 1 || t->ne[3] != 1 || t->ne[0] < 1 || t->ne[1] < 1 ||
	    (cols ? t->ne[0] != cols : t->ne[0] > RANK_MOST) || (rows ? t->ne[1] != rows : t->ne[1] > RANK_MOST))
		return gguf_err(f->g, f->err,
		                "byte %llu: tensor '%.*s' has a shape or type that does not fit the encoder",
		                (unsigned long long)t->off, (int)MIN(t->name.n, 80), t->name.p);
	*out = (struct tensor){ .type = t->type, .rows = (int32_t)t->ne[1], .cols = (int32_t)t->ne[0] };
	if (e->be->ops->load_weight(e->be, out, t->data, 0)) {
		*out = (struct tensor){ .rows = 0 };
		return err_set(f->err, ERR_FIT, "cannot load the reader: %s; free some memory", e->be->err);
	}
	f->used++;
	return 0;
}

/* If the file adapts this matrix of the encoder, load the adapter's two matrices for it. */
static int linear_load(struct reader_file *f, enum encoder_adapter adapter, int32_t layer, const char *name,
                       struct encoder_linear *m)
{
	const struct gguf_tensor *a, *b;
	char full[64];

	snprintf(full, sizeof full, "%sblk.%d.%s.weight.lora_a", adapter == ADAPT_QUERY ? "query." : "", layer, name);
	a = gguf_tensor_find(f->g, full);
	full[strlen(full) - 1] = 'b';
	b = gguf_tensor_find(f->g, full);
	if (!a && !b)
		return 0;
	if (!a || !b || a->ne[1] != b->ne[0])
		return gguf_err(f->g, f->err, "'%s' and its second half do not fit each other", full);
	if (matrix_load(f, &m->adapter[adapter].low, a, 0, m->w.cols) ||
	    matrix_load(f, &m->adapter[adapter].high, b, m->w.rows, 0))
		return -1;
	f->e->reader.rank.cols = MAX(f->e->reader.rank.cols, m->adapter[adapter].low.rows);
	return 0;
}

static int adapter_load(struct reader_file *f, enum encoder_adapter a)
{
	for (int32_t i = 0; i < f->e->n_layer; i++) {
		struct encoder_layer *l = &f->e->layer[i];

		if (linear_load(f, a, i, "attn_q", &l->q) || linear_load(f, a, i, "attn_k", &l->k) ||
		    linear_load(f, a, i, "attn_v", &l->v) || linear_load(f, a, i, "attn_output", &l->out) ||
		    linear_load(f, a, i, "ffn_up", &l->up) || linear_load(f, a, i, "ffn_down", &l->down))
			return -1;
	}
	return 0;
}

static int head_load(struct reader_file *f)
{
	const struct gguf_tensor *t = gguf_tensor_find(f->g, "reader.weight");
	int32_t n = f->e->n_embd;

	if (!t || t->type != DT_F32 || t->ne[0] != n || t->ne[1] != HEAD_ROWS || t->ne[2] != 1 || t->ne[3] != 1)
		return gguf_err(f->g, f->err, "tensor 'reader.weight' is missing or not F32 %d x %d", n, HEAD_ROWS);
	f->e->reader.head = xcalloc((size_t)n * HEAD_ROWS, sizeof(float));
	memcpy(f->e->reader.head, t->data, (size_t)n * HEAD_ROWS * sizeof(float));
	f->used++;
	return 0;
}

/* 1 if the encoder can read pairs: it has a tokenizer with BOS and EOS, and reads at least PAIR_LEAST tokens. */
static int pairs_possible(const struct encoder *e)
{
	return e->vocab && vocab_info(e->vocab)->bos >= 0 && vocab_info(e->vocab)->eos >= 0 && e->longest >= PAIR_LEAST;
}

static int ranker_open(struct encoder *e, const char *path, struct err *err)
{
	struct encoder *r;

	if (encoder_open_kind(&r, path, e->be->ops->name, e->be->threads, 1, err))
		return -1;
	if (!pairs_possible(r)) {
		gguf_err(r->gguf, err, "the reranker cannot read: its texts are too short, or it has no tokenizer");
		encoder_close(r);
		return -1;
	}
	e->reader.ranker = r;
	return 0;
}

int encoder_reader_open(struct encoder *e, const char *path, struct err *err)
{
	struct reader_file f = { .e = e, .err = err };
	struct encoder_reader *r = &e->reader;
	struct view type = { "", 0 };

	if (gguf_open_file(&r->gguf, path, err))
		return -1;
	f.g = r->gguf;
	if (gguf_string(f.g, "general.type", &type, err) >= 0 && !view_is(type, "adapter")) {
		encoder_reader_release(e);
		return ranker_open(e, path, err);
	}
	if (!gguf_check_weights(f.g, err) && !reader_keys(&f, &r->bias) && !adapter_load(&f, ADAPT_READ) &&
	    !adapter_load(&f, ADAPT_QUERY) && !head_load(&f)) {
		r->rank = (struct tensor){ .type = DT_F32, .rows = e->batch, .cols = MAX(r->rank.cols, 1) };
		if (f.used != f.g->n_tensor)
			gguf_err(f.g, err, "it has %llu tensors that the encoder has no place for",
			         (unsigned long long)(f.g->n_tensor - f.used));
		else if (!pairs_possible(e) || e->family->gated)
			gguf_err(
				e->gguf, err,
				"the encoder cannot have a reader: it is not of the family bert, its texts are too short, or it has no tokenizer");
		else if (e->be->ops->alloc(e->be, &r->rank) || e->be->ops->sync(e->be))
			err_set(err, ERR_FIT, "cannot load the reader: %s; free some memory", e->be->err);
		else
			return 0;
	}
	encoder_reader_release(e);
	return -1;
}

static void linear_release(struct encoder *e, struct encoder_linear *m)
{
	for (int i = 0; i < ADAPTERS; i++) {
		if (m->adapter[i].low.data)
			e->be->ops->drop(e->be, &m->adapter[i].low);
		if (m->adapter[i].high.data)
			e->be->ops->drop(e->be, &m->adapter[i].high);
		m->adapter[i].low = m->adapter[i].high = (struct tensor){ .rows = 0 };
	}
}

void encoder_reader_release(struct encoder *e)
{
	for (int32_t i = 0; e->layer && i < e->n_layer; i++) {
		struct encoder_layer *l = &e->layer[i];
		struct encoder_linear *const of[] = { &l->q, &l->k, &l->v, &l->out, &l->up, &l->down };

		for (size_t k = 0; k < LEN(of); k++)
			linear_release(e, of[k]);
	}
	if (e->reader.rank.data)
		e->be->ops->drop(e->be, &e->reader.rank);
	free(e->reader.head);
	encoder_close(e->reader.ranker);
	gguf_close(e->reader.gguf);
	e->reader = (struct encoder_reader){ .gguf = NULL };
}

enum encoder_reading encoder_reads(const struct encoder *e)
{
	return e->reader.ranker ? READS_SCORES : e->reader.gguf ? READS_ANSWERS : READS_NOT;
}

/* ---- reading pairs ---- */

/* Pairs of a question and a passage. The tokens of all pairs are stored one after the other. */
struct pairs {
	struct tokens id;
	struct token_ends end; /* for each token of a passage, the offset in the passage at which the token ends */
	struct encoder_text *text;
	/* [pairs] The passage of pair i begins at token first[i] of the pair. The passage's elements of `end` begin at
	 * index ends[i]. */
	size_t *first, *ends;
};

/* Tokenize n pairs, each of the question and one passage. Truncate each pair to the number of tokens that the encoder
 * reads. */
static int pairs_tokenize(const struct encoder *e, struct encoder_string question, const struct encoder_string *passage,
                          int32_t n, struct pairs *p, struct err *err)
{
	const struct vocab_info *v = vocab_info(e->vocab);
	size_t most = (size_t)MIN(e->longest, (int32_t)PAIR_MOST), *at = xcalloc((size_t)n + 1, sizeof *at);
	struct tokens asked = { 0 };
	int rc = vocab_encode(e->vocab, question.p, MIN(question.n, most * 32), NULL, 0, &asked, err);

	asked.n = MIN(asked.n, MIN((size_t)QUESTION_MOST, most / 2 - SEPARATORS));
	for (int32_t i = 0; i < n && !rc; i++) {
		size_t from = p->id.n;

		at[i] = from;
		tokens_add(&p->id, v->bos);
		tokens_append(&p->id, asked.id, asked.n);
		tokens_add(&p->id, v->eos);
		tokens_add(&p->id, v->eos);
		p->first[i] = p->id.n - from;
		p->ends[i] = p->end.n;
		rc = vocab_encode_ends(e->vocab, passage[i].p, MIN(passage[i].n, most * 32), NULL, 0, 0, &p->id,
		                       &p->end, err);
		p->id.n = MIN(p->id.n, from + most - 1);
		tokens_add(&p->id, v->eos);
		p->text[i].n = (int32_t)(p->id.n - from);
	}
	for (int32_t i = 0; i < n && !rc; i++)
		p->text[i].id = p->id.id + at[i];
	tokens_free(&asked);
	free(at);
	return rc;
}

static double dot(const float *a, const float *b, int32_t n)
{
	double sum = 0;

	for (int32_t i = 0; i < n; i++)
		sum += (double)a[i] * b[i];
	return sum;
}

/* Find the range of the passage that is the most likely answer, and write it to out->from and out->to. The passage has
 * n tokens. Row i of x [n][n_embd] is the hidden state of token i, and end[i] the offset in the passage at which token
 * i ends. */
static void answer_find(const struct encoder *e, const float *x, int32_t n, const uint32_t *end,
                        struct encoder_answer *out)
{
	const float *begins = e->reader.head + e->n_embd, *ends = begins + e->n_embd;
	double *logit = xcalloc(2 * (size_t)n + 1, sizeof *logit), most = -INFINITY;

	for (int32_t i = 0; i < n; i++) {
		logit[i] = dot(x + (size_t)i * (size_t)e->n_embd, begins, e->n_embd);
		logit[n + i] = dot(x + (size_t)i * (size_t)e->n_embd, ends, e->n_embd);
	}
	for (int32_t i = 0; i < n; i++)
		for (int32_t k = i; k < n && k < i + ANSWER_MOST; k++)
			if (logit[i] + logit[n + k] > most) {
				most = logit[i] + logit[n + k];
				out->from = i ? end[i - 1] : 0;
				out->to = end[k];
			}
	free(logit);
}

/* Return a reranker's score of a text. x: hidden state of the text's first token. */
static double rank(const struct encoder *e, const float *x)
{
	const struct encoder_ranker *r = &e->ranker;
	double score = *r->out_bias;

	for (int32_t i = 0; i < e->n_embd; i++)
		score += r->out[i] *
		         tanh(dot(r->dense + (size_t)i * (size_t)e->n_embd, x, e->n_embd) + r->dense_bias[i]);
	return score;
}

/* Read the pairs from index `first` up to, but not including, index `last`. Write the results to out[] with the same
 * indices. These pairs have `tokens` tokens in all and fit one batch. */
static int batch_read(struct encoder *e, const struct pairs *p, int32_t first, int32_t last, int32_t tokens,
                      struct encoder_answer *out, const atomic_int *cancel, struct err *err)
{
	size_t width = (size_t)e->n_embd;
	float *pooled = xcalloc(width, sizeof *pooled), *x = e->host;
	int rc = encoder_states(e, p->text + first, last - first, tokens, e->reader.gguf ? ADAPT_READ : ADAPT_NONE,
	                        cancel, err);

	for (int32_t i = first; i < last && !rc; x += (size_t)p->text[i++].n * width) {
		int32_t n = p->text[i].n, at = (int32_t)p->first[i];

		if (e->pooling == POOL_RANK) {
			out[i] = (struct encoder_answer){ .score = rank(e, x) };
			continue;
		}
		encoder_pool(e, x, n, pooled);
		out[i] = (struct encoder_answer){ .score = dot(pooled, e->reader.head, e->n_embd) + e->reader.bias };
		answer_find(e, x + (size_t)at * width, n - 1 - at, p->end.at + p->ends[i], &out[i]);
	}
	free(pooled);
	return rc;
}

int encoder_read(struct encoder *e, struct encoder_string question, const struct encoder_string *passage, int32_t n,
                 struct encoder_answer *out, const atomic_int *cancel, struct err *err)
{
	size_t many = (size_t)n + 1;
	struct pairs p = { .text = xcalloc(many, sizeof *p.text),
		           .first = xcalloc(many, sizeof *p.first),
		           .ends = xcalloc(many, sizeof *p.ends) };
	struct encoder *reads = e->reader.ranker ? e->reader.ranker : e;
	int rc = pairs_tokenize(reads, question, passage, n, &p, err);

	for (int32_t i = 0, last; i < n && !rc; i = last) {
		int32_t tokens = 0;

		for (last = i; last < n && tokens + p.text[last].n <= reads->batch; last++)
			tokens += p.text[last].n;
		rc = batch_read(reads, &p, i, last, tokens, out, cancel, err);
	}
	tokens_free(&p.id);
	free(p.end.at);
	free(p.text);
	free(p.first);
	free(p.ends);
	return rc ? -1 : gguf_check_there(reads->gguf, err);
}
