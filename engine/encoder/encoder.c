/* engine/encoder/encoder.c - computes the vectors of texts: packs texts into batches, runs the layers, and pools the
 * tokens of each text into one vector.
 *
 * A layer changes the tokens x [n][n_embd] of a batch in two steps: x = norm(x + attention(x)), then x = norm(x +
 * feed_forward(x)). The feed-forward is down(gelu(up(x))). In families with a gate it is down(act(gate(x)) * up(x)).
 * With an adapter (encoder_reader.c) each product x W^T becomes x W^T + (x low^T) high^T. */
#include "engine/encoder/encoder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Load the tokenizer if the file has one. */
static int tokenizer_load(struct encoder *e, struct err *err)
{
	if (!gguf_find(e->gguf, "tokenizer.ggml.model"))
		return 0;
	if (vocab_load(&e->vocab, e->gguf, NULL, err))
		return -1;
	if (vocab_info(e->vocab)->n > e->n_vocab)
		return gguf_err(e->gguf, err, "the tokenizer has %d tokens, and 'token_embd.weight' has %d rows",
		                vocab_info(e->vocab)->n, e->n_vocab);
	return 0;
}

int encoder_open_kind(struct encoder **out, const char *path, const char *device, int threads, int ranks,
                      struct err *err)
{
	struct encoder *e = xcalloc(1, sizeof *e);
	char msg[160];
	int rc;

	*out = NULL;
	if (gguf_open(&e->gguf, path, err)) {
		encoder_close(e);
		return -1;
	}
	if (backend_open(&e->be, device ? device : "auto", &(struct backend_options){ .threads = threads }, msg)) {
		encoder_close(e);
		return err_set(err, ERR_USAGE, "cannot open device '%s': %s", device ? device : "auto", msg);
	}
	rc = encoder_load(e, err) || tokenizer_load(e, err);
	if (!rc && ranks >= 0 && (e->pooling == POOL_RANK) != ranks)
		rc = gguf_err(
			e->gguf, err,
			ranks ? "it is an encoder, and a reader is an adapter or a reranker"
			      : "it is a reranker: beside an encoder NAME.gguf, as NAME-reader.gguf, it reads for that");
	if (rc) {
		encoder_close(e);
		return -1;
	}
	*out = e;
	return 0;
}

int encoder_open(struct encoder **out, const char *path, const char *device, int threads, struct err *err)
{
	if (encoder_open_kind(out, path, device, threads, 0, err))
		return -1;
	(*out)->hash = hash64(0, (*out)->gguf->base, (size_t)(*out)->gguf->size);
	return 0;
}

int encoder_look(const char *path, struct encoder_look *out, struct err *err)
{
	const struct encoder_family *family;
	struct encoder *e;
	struct gguf *g;

	if (gguf_open_file(&g, path, err))
		return -1;
	family = encoder_family_of(g, err);
	gguf_close(g);
	if (!family)
		return 0;
	if (encoder_open_kind(&e, path, "cpu", 0, -1, err))
		return -1;
	*out = (struct encoder_look){ .dims = e->n_embd, .ranks = e->pooling == POOL_RANK };
	snprintf(out->family, sizeof out->family, "%s", family->name);
	encoder_close(e);
	return 1;
}

void encoder_close(struct encoder *e)
{
	if (!e)
		return;
	if (e->be) {
		encoder_reader_release(e);
		encoder_close(e->reader.ranker[READER_ENGLISH]);
		encoder_release(e);
		e->be->ops->close(e->be);
	}
	vocab_free(e->vocab);
	gguf_close(e->gguf);
	free(e);
}

int32_t encoder_dims(const struct encoder *e)
{
	return e->n_embd;
}

int32_t encoder_longest(const struct encoder *e)
{
	return e->longest;
}

/* Compute out += (`in` low^T) high^T, where low and high are the matrices of the adapter. Do nothing if there is no
 * adapter. */
static void linear_adapt(struct encoder *e, const struct encoder_linear *m, enum encoder_adapter adapter,
                         struct tensor *out, const struct tensor *in, int32_t n)
{
	struct tensor mid = e->reader.rank;

	if (adapter == ADAPT_NONE || !m->adapter[adapter].low.rows)
		return;
	mid.cols = m->adapter[adapter].low.rows;
	e->be->ops->matmul(e->be, &(struct matmul){ .out = &mid, .w = &m->adapter[adapter].low }, 1, in, n);
	e->be->ops->matmul(e->be, &(struct matmul){ .out = out, .w = &m->adapter[adapter].high, .accumulate = 1 }, 1,
	                   &mid, n);
}

static const struct tensor *bias_of(const struct encoder_linear *m)
{
	return m->b.data ? &m->b : NULL;
}

/* Compute out = `in` W^T + bias; or, with accumulate = 1, out += `in` W^T + bias. Also apply the adapter. */
static void linear(struct encoder *e, const struct encoder_linear *m, enum encoder_adapter adapter, struct tensor *out,
                   const struct tensor *in, int accumulate, int32_t n)
{
	e->be->ops->matmul(e->be,
	                   &(struct matmul){
				   .out = out, .w = &m->w, .bias = bias_of(m), .accumulate = accumulate, .narrow = 1 },
	                   1, in, n);
	linear_adapt(e, m, adapter, out, in, n);
}

static void norm(struct encoder *e, const struct encoder_norm *w, int32_t n)
{
	e->be->ops->layernorm(e->be, &e->x, &e->x, &w->w, &w->b, e->eps, n);
}

/* Return the factor of the dot products q . k in attention. With relative positions, a score is the sum of three dot
 * products instead of one. */
static float attend_scale(const struct encoder *e)
{
	int32_t products = e->family->position == POSITION_RELATIVE ? 3 : 1;

	return 1 / sqrtf((float)(products * (e->n_embd / e->n_head)));
}

/* Compute bidirectional attention within one text, whose tokens are n rows of the batch from row0 on. Write the result
 * to e->attn. */
static void attend(struct encoder *e, int32_t row0, int32_t n)
{
	struct tensor q = tensor_rows(&e->q, row0), out = tensor_rows(&e->attn, row0);
	int32_t dim = e->n_embd / e->n_head;

	e->be->ops->attn(e->be,
	                 &(struct attn_args){ .out = &out,
	                                      .k = &e->k_plane,
	                                      .v = &e->v_plane,
	                                      .seg = &(struct attn_segment){ .q = &q, .slot0 = row0, .n_slots = n },
	                                      .n_seg = 1,
	                                      .n_head = e->n_head,
	                                      .n_kv_head = e->n_head,
	                                      .head_dim = dim,
	                                      .cap = e->batch,
	                                      .bidirectional = 1,
	                                      .scale = attend_scale(e),
	                                      .prompt = 1 },
	                 n);
}

/* Do what attend() does, and add a number to the score of each key. add: f32 [n_head][>= n], the numbers for token 0 of
 * the text. The numbers for each next token begin `step` floats after those for the token before it.
 *
 * The backend can add a number to each score only if attention reads a list of slots. So each token reads the list of
 * all slots of the text. */
static void attend_adding(struct encoder *e, int32_t row0, int32_t n, struct tensor add, ptrdiff_t step)
{
	int32_t dim = e->n_embd / e->n_head;
	struct tensor q[ATTN_EACH_MOST], out[ATTN_EACH_MOST], bias[ATTN_EACH_MOST], slots = e->slots;
	struct attn_segment seg[ATTN_EACH_MOST];
	struct attn_args a[ATTN_EACH_MOST];

	slots.data = (int32_t *)slots.data + row0;
	for (int32_t first = 0, k; first < n; first += k) {
		for (k = 0; k < ATTN_EACH_MOST && first + k < n; k++) {
			q[k] = tensor_rows(&e->q, row0 + first + k);
			out[k] = tensor_rows(&e->attn, row0 + first + k);
			bias[k] = add;
			bias[k].data = (float *)add.data + (first + k) * step;
			seg[k] = (struct attn_segment){ .q = &q[k], .slots = &slots, .bias = &bias[k], .n_slots = n };
			a[k] = (struct attn_args){ .out = &out[k],
				                   .k = &e->k_plane,
				                   .v = &e->v_plane,
				                   .seg = &seg[k],
				                   .n_seg = 1,
				                   .n_head = e->n_head,
				                   .n_kv_head = e->n_head,
				                   .head_dim = dim,
				                   .cap = e->batch,
				                   .bidirectional = 1,
				                   .scale = attend_scale(e) };
		}
		e->be->ops->attn_each(e->be, a, k);
	}
}

/* Do what attend() does, with ALiBi (Press et al. 2022, "Train short, test long"): a key's score falls with its
 * distance from the query. */
static void attend_alibi(struct encoder *e, int32_t row0, int32_t n)
{
	struct tensor distance = e->distance;

	distance.data = (float *)distance.data + e->longest - 1;
	attend_adding(e, row0, n, distance, -1);
}

/* Do what attend() does, with the scores of relative positions. */
static void attend_relative(struct encoder *e, const struct encoder_layer *l, int32_t row0, int32_t n)
{
	struct tensor q = tensor_rows(&e->q, row0), k = tensor_rows(&e->k, row0), scores = e->scores;

	e->be->ops->relative(e->be,
	                     &(struct relative_args){ .out = &e->scores,
	                                              .q = &q,
	                                              .k = &k,
	                                              .keys = &l->relative_k,
	                                              .queries = &l->relative_q,
	                                              .row = e->relative + e->longest - n,
	                                              .n_head = e->n_head,
	                                              .head_dim = e->n_embd / e->n_head,
	                                              .scale = attend_scale(e) },
	                     n);
	scores.rows = e->n_head;
	attend_adding(e, row0, n, scores, (ptrdiff_t)e->n_head * e->longest);
}

static void layer_run(struct encoder *e, const struct encoder_layer *l, const struct encoder_text *text, int32_t n_text,
                      int32_t n, enum encoder_adapter adapter)
{
	const struct backend_ops *op = e->be->ops;

	op->matmul(e->be,
	           (struct matmul[]){ { .out = &e->q, .w = &l->q.w, .bias = bias_of(&l->q), .narrow = 1 },
	                              { .out = &e->k, .w = &l->k.w, .bias = bias_of(&l->k), .narrow = 1 },
	                              { .out = &e->v, .w = &l->v.w, .bias = bias_of(&l->v), .narrow = 1 } },
	           3, &e->x, n);
	linear_adapt(e, &l->q, adapter, &e->q, &e->x, n);
	linear_adapt(e, &l->k, adapter, &e->k, &e->x, n);
	linear_adapt(e, &l->v, adapter, &e->v, &e->x, n);
	if (e->family->position == POSITION_ROPE) {
		op->rope(e->be, &e->q, &e->q, &e->rope_at, e->rope.cols, e->rope.cols, 1, n);
		op->rope(e->be, &e->k, &e->k, &e->rope_at, e->rope.cols, e->rope.cols, 1, n);
	}
	op->kv_put(e->be, &e->k_plane, &e->k, e->n_head, 0, n);
	op->kv_put(e->be, &e->v_plane, &e->v, e->n_head, 0, n);
	for (int32_t i = 0, row = 0; i < n_text; row += text[i++].n)
		switch (e->family->position) {
		case POSITION_ALIBI: attend_alibi(e, row, text[i].n); break;
		case POSITION_RELATIVE: attend_relative(e, l, row, text[i].n); break;
		default: attend(e, row, text[i].n);
		}
	linear(e, &l->out, adapter, &e->x, &e->attn, 1, n);
	norm(e, &l->attn_norm, n);
	if (e->family->gated) {
		op->matmul_glu(e->be, &e->hidden,
		               &(struct matmul_glu){
				       .gate = &l->gate, .up = &l->up.w, .act = e->family->act, .narrow = 1 },
		               &e->x, n);
	} else {
		linear(e, &l->up, adapter, &e->hidden, &e->x, 0, n);
		op->gelu(e->be, &e->hidden, n);
	}
	linear(e, &l->down, adapter, &e->x, &e->hidden, 1, n);
	norm(e, &l->ffn_norm, n);
}

void encoder_pool(const struct encoder *e, const float *x, int32_t n, float *out)
{
	int32_t first = e->pooling == POOL_LAST ? n - 1 : 0, end = e->pooling == POOL_FIRST ? 1 : n;
	double squares = 0;

	for (int32_t c = 0; c < e->n_embd; c++) {
		double sum = 0;

		for (int32_t i = first; i < end; i++)
			sum += (double)x[(size_t)i * (size_t)e->n_embd + (size_t)c];
		sum /= end - first;
		squares += sum * sum;
		out[c] = (float)sum;
	}
	for (int32_t c = 0; squares > 0 && c < e->n_embd; c++)
		out[c] = (float)(out[c] / sqrt(squares));
}

int encoder_states(struct encoder *e, const struct encoder_text *text, int32_t n_text, int32_t n,
                   enum encoder_adapter adapter, const atomic_int *cancel, struct err *err)
{
	const struct backend_ops *op = e->be->ops;
	int failed;

	for (int32_t i = 0, row = 0; i < n_text; i++)
		for (int32_t k = 0; k < text[i].n; k++, row++) {
			e->id[row] = text[i].id[k];
			e->at[row] = k + (e->pairs_typed && text[i].second && k >= text[i].second ? e->longest : 0);
		}
	e->be->cancel = cancel;
	op->embed(e->be, &e->x, &e->embd, e->id, n);
	op->take_rows(e->be, &e->attn, &e->position, e->at, n);
	op->axpby(e->be, &e->x, 1, &e->attn, 1, n);
	if (e->rope.data)
		op->take_rows(e->be, &e->rope_at, &e->rope, e->at, n);
	norm(e, &e->embd_norm, n);
	for (int32_t i = 0; i < e->n_layer; i++)
		layer_run(e, &e->layer[i], text, n_text, n, adapter);
	op->read(e->be, &e->x, 0, e->host, (size_t)n * (size_t)e->n_embd * sizeof *e->host);
	failed = op->sync(e->be);
	e->be->cancel = NULL;
	return failed              ? err_set(err, ERR_FAIL, "cannot encode a text: %s", e->be->err)
	       : cancel && *cancel ? err_set(err, ERR_CANCELLED, "stopped")
	                           : 0;
}

static int texts_check(const struct encoder *e, const struct encoder_text *text, int32_t n, struct err *err)
{
	for (int32_t i = 0; i < n; i++) {
		if (text[i].n < 1)
			return err_set(err, ERR_USAGE, "a text without tokens has no vector");
		if (text[i].n > e->longest)
			return err_set(err, ERR_FIT, "a text of %d tokens is longer than the %d that the encoder reads",
			               text[i].n, e->longest);
		for (int32_t k = 0; k < text[i].n; k++)
			if (text[i].id[k] < 0 || text[i].id[k] >= e->n_vocab)
				return err_set(err, ERR_USAGE,
				               "token id %d is not within the encoder's vocabulary of %d",
				               text[i].id[k], e->n_vocab);
	}
	return 0;
}

int encoder_embed_adapted(struct encoder *e, const struct encoder_text *text, int32_t n, enum encoder_adapter adapter,
                          float *out, const atomic_int *cancel, struct err *err)
{
	int failed = texts_check(e, text, n, err);
	size_t dims = (size_t)e->n_embd;

	for (int32_t i = 0, end; i < n && !failed; i = end) {
		const float *x = e->host;
		int32_t tokens = 0;

		for (end = i; end < n && tokens + text[end].n <= e->batch; end++)
			tokens += text[end].n;
		failed = encoder_states(e, text + i, end - i, tokens, adapter, cancel, err);
		for (int32_t k = i; k < end && !failed; x += (size_t)text[k++].n * dims)
			encoder_pool(e, x, text[k].n, out + (size_t)k * dims);
	}
	return failed ? -1 : gguf_check_there(e->gguf, err);
}

int encoder_embed(struct encoder *e, const struct encoder_text *text, int32_t n, float *out, const atomic_int *cancel,
                  struct err *err)
{
	return encoder_embed_adapted(e, text, n, ADAPT_NONE, out, cancel, err);
}
