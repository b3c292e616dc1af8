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
 * pooling "rank"). It reads the same input with weights of its own, and returns only a score. With a WordPiece tokenizer
 * it reads [CLS] question [SEP] passage [SEP], with token type 1 from the passage on. If its file has a tensor
 * "reader.weight" with the rows 1 and 2 of the head, it finds the answer, too, and reads <s> passage </s> question
 * </s> (tests/package/reader_en.py makes such a file). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/encoder/encoder.h"

enum {
	QUESTION_MOST = 48, /* a question is truncated to this many tokens */
	/* a pair is truncated to this many tokens, special tokens included; readers are trained with the same limit */
	PAIR_MOST = 230,
	/* The same for readers that read the passage first. They are trained with 192 tokens, but long passages have
	 * answers at their ends: with 256, 10 of 40 questions of SQuAD have low odds, with 192 12 of them. */
	PASSAGE_FIRST_MOST = 256,
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

static int ranker_open(struct encoder *e, enum encoder_reader_for kind, const char *path, struct err *err)
{
	struct encoder *r;

	if (encoder_open_kind(&r, path, e->be->ops->name, e->be->threads, 1, err))
		return -1;
	if (!pairs_possible(r)) {
		gguf_err(r->gguf, err, "the reranker cannot read: its texts are too short, or it has no tokenizer");
		encoder_close(r);
		return -1;
	}
	e->reader.ranker[kind] = r;
	return 0;
}

static int adapter_open(struct encoder *e, const char *path, struct err *err)
{
	struct reader_file f = { .e = e, .err = err };
	struct encoder_reader *r = &e->reader;

	if (gguf_open_file(&r->gguf, path, err))
		return -1;
	f.g = r->gguf;
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

int encoder_reader_open(struct encoder *e, enum encoder_reader_for kind, const char *path, struct err *err)
{
	struct view type = { "", 0 };
	struct gguf *g;
	int adapter;

	if (gguf_open_file(&g, path, err))
		return -1;
	adapter = gguf_string(g, "general.type", &type, err) < 0 || view_is(type, "adapter");
	gguf_close(g);
	return adapter && kind == READER_ANY ? adapter_open(e, path, err) : ranker_open(e, kind, path, err);
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
	encoder_close(e->reader.ranker[READER_ANY]);
	gguf_close(e->reader.gguf);
	e->reader = (struct encoder_reader){ .ranker = { [READER_ENGLISH] = e->reader.ranker[READER_ENGLISH] } };
}

enum encoder_reading encoder_reads(const struct encoder *e, enum encoder_reader_for kind)
{
	const struct encoder *r = e->reader.ranker[kind];

	if (r)
		return r->ranker.places ? READS_ANSWERS : READS_SCORES;
	return kind == READER_ANY && e->reader.gguf ? READS_ANSWERS : READS_NOT;
}

/* ---- reading pairs ---- */

/* Pairs of a question and a passage. The tokens of all pairs are stored one after the other. */
struct pairs {
	struct tokens id;
	struct token_ends end; /* for each token of a passage, the offset in the passage at which the token ends */
	struct encoder_text *text;
	/* [pairs] The passage of pair i is the pair's tokens first[i] .. last[i] - 1. The passage's elements of `end`
	 * begin at index ends[i]. */
	size_t *first, *last, *ends;
};

/* Append one passage's tokens to p->id, and their ends to p->end. */
static int passage_add(const struct encoder *e, struct encoder_string passage, size_t most, struct pairs *p, int32_t i,
                       size_t from, struct err *err)
{
	p->first[i] = p->id.n - from;
	p->ends[i] = p->end.n;
	return vocab_encode_ends(e->vocab, passage.p, MIN(passage.n, most * 32), NULL, 0, 0, &p->id, &p->end, err);
}

/* Append the tokens of pair i, which begin at index `from` of p->id. The pair has at most `most` tokens. */
static int pair_add(const struct encoder *e, const struct tokens *asked, struct encoder_string passage, size_t most,
                    struct pairs *p, int32_t i, size_t from, struct err *err)
{
	const struct vocab_info *v = vocab_info(e->vocab);
	int passage_first = e->ranker.places != NULL, rc;

	tokens_add(&p->id, v->bos);
	if (!passage_first) {
		tokens_append(&p->id, asked->id, asked->n);
		tokens_add(&p->id, v->eos);
		if (!e->pairs_typed)
			tokens_add(&p->id, v->eos);
	}
	rc = passage_add(e, passage, most, p, i, from, err);
	p->id.n = MIN(p->id.n, from + most - 1 - (passage_first ? asked->n + 1 : 0));
	p->last[i] = p->id.n - from;
	tokens_add(&p->id, v->eos);
	if (passage_first) {
		tokens_append(&p->id, asked->id, asked->n);
		tokens_add(&p->id, v->eos);
	}
	return rc;
}

/* Tokenize n pairs, each of the question and one passage. Truncate each pair to the number of tokens that the encoder
 * reads. */
static int pairs_tokenize(const struct encoder *e, struct encoder_string question, const struct encoder_string *passage,
                          int32_t n, struct pairs *p, struct err *err)
{
	int32_t limit = e->ranker.places ? PASSAGE_FIRST_MOST : PAIR_MOST;
	size_t most = (size_t)MIN(e->longest, limit), *at = xcalloc((size_t)n + 1, sizeof *at);
	struct tokens asked = { 0 };
	int rc = vocab_encode(e->vocab, question.p, MIN(question.n, most * 32), NULL, 0, &asked, err);

	asked.n = MIN(asked.n, MIN((size_t)QUESTION_MOST, most / 2 - SEPARATORS));
	for (int32_t i = 0; i < n && !rc; i++) {
		at[i] = p->id.n;
		rc = pair_add(e, &asked, passage[i], most, p, i, at[i], err);
		p->text[i].n = (int32_t)(p->id.n - at[i]);
		p->text[i].second = (int32_t)p->first[i];
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
 * i ends. `begins` is two rows of n_embd weights: those for a token that begins the answer, then those for its last. */
static void answer_find(const struct encoder *e, const float *begins, const float *x, int32_t n, const uint32_t *end,
                        struct encoder_answer *out)
{
	const float *ends = begins + e->n_embd;
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

	for (int32_t i = 0; i < e->n_embd; i++) {
		double v = dot(r->dense + (size_t)i * (size_t)e->n_embd, x, e->n_embd) + r->dense_bias[i];

		score += r->out[i] * (e->family->gelu_head ? v / 2 * erfc(-v / sqrt(2)) : tanh(v));
	}
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
		const float *passage = x + p->first[i] * width, *places = e->ranker.places;

		if (e->pooling == POOL_RANK) {
			out[i] = (struct encoder_answer){ .score = rank(e, x) };
		} else {
			encoder_pool(e, x, p->text[i].n, pooled);
			out[i] = (struct encoder_answer){ .score = dot(pooled, e->reader.head, e->n_embd) +
				                                   e->reader.bias };
			places = e->reader.head + e->n_embd;
		}
		if (places)
			answer_find(e, places, passage, (int32_t)(p->last[i] - p->first[i]), p->end.at + p->ends[i],
			            &out[i]);
	}
	free(pooled);
	return rc;
}

int encoder_read(struct encoder *e, enum encoder_reader_for kind, struct encoder_string question,
                 const struct encoder_string *passage, int32_t n, struct encoder_answer *out, const atomic_int *cancel,
                 struct err *err)
{
	size_t many = (size_t)n + 1;
	struct pairs p = { .text = xcalloc(many, sizeof *p.text),
		           .first = xcalloc(many, sizeof *p.first),
		           .last = xcalloc(many, sizeof *p.last),
		           .ends = xcalloc(many, sizeof *p.ends) };
	struct encoder *reads = e->reader.ranker[kind] ? e->reader.ranker[kind] : e;
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
	free(p.last);
	free(p.ends);
	return rc ? -1 : gguf_check_there(reads->gguf, err);
}
