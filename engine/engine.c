/* engine/engine.c - opens a model: GGUF file, vocabulary, chat template, hyperparameters, device, weights. Also defines
 * the functions of the public headers that only call other files of the engine. */
#include "engine/engine_private.h"
#include "engine/engine_machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/lora.h"
#include "engine/base/memory_budget.h"
#include "engine/cache/recurrent.h"
#include "engine/base/base.h"

/* ---- describing the file ---- */

/* Return a text that counts the tensors of each type, beginning with the most frequent type: "210 Q4_1, 61 F32". The
 * caller frees it. Copy the name of the type whose tensors take the most bytes to main_type. */
static char *types_text(const struct gguf *g, char *main_type, size_t cap)
{
	struct {
		int n;
		uint64_t bytes;
	} count[DT_ALL] = { 0 };
	struct str s = { 0 };
	int heaviest = 0;

	for (uint64_t i = 0; i < g->n_tensor; i++) {
		count[g->tensor[i].type].n++;
		count[g->tensor[i].type].bytes += g->tensor[i].bytes;
	}
	for (int shown = 0; shown < DT_ALL; shown++) {
		int best = -1;
		for (int t = 0; t < DT_ALL; t++) {
			if (count[t].n > 0 && (best < 0 || count[t].n > count[best].n))
				best = t;
			if (count[t].bytes > count[heaviest].bytes)
				heaviest = t;
		}
		if (best < 0)
			break;
		str_addf(&s, "%s%d %s", s.n ? ", " : "", count[best].n, dtype_info(best)->name);
		count[best].n = 0;
	}
	snprintf(main_type, cap, "%s", dtype_info(heaviest)->name);
	return s.p ? s.p : xstrndup("", 0);
}

static char *model_name(const struct gguf *g)
{
	struct view v = { 0 };
	const char *slash = strrchr(g->path, '/');

	if (gguf_string(g, "general.name", &v, NULL) == 1 && v.n)
		return xstrndup(v.p, v.n < 200 ? v.n : utf8_complete(v.p, 200));
	slash = slash ? slash + 1 : g->path;
	return xstrndup(slash, strlen(slash));
}

static void info_fill(struct engine *e)
{
	const struct vocab_info *v = vocab_info(e->vocab);
	const struct hparams *hp = &e->model.hp;
	struct engine_info *i = &e->info;
	int32_t first = 0; /* will be the index of the first layer with attention */

	i->path = e->gguf->path;
	i->name = e->name = model_name(e->gguf);
	i->n_types = e->types = types_text(e->gguf, i->quant, sizeof i->quant);
	snprintf(i->tokenizer, sizeof i->tokenizer, "%s%s%s", v->model, v->pre[0] ? "/" : "", v->pre);
	if (e->chat && !i->template_error[0])
		snprintf(i->template_name, sizeof i->template_name, "%s", chat_name(e->chat));
	if (e->chat) {
		i->thinks_first = chat_thinks_first(e->chat, 0);
		i->asked_thinks_first = chat_thinks_first(e->chat, REPLY_THOUGHT);
		i->think_switch = chat_flag_matters(e->chat, REPLY_NO_THOUGHT);
		i->think_ask = chat_flag_matters(e->chat, REPLY_THOUGHT);
	}
	i->takes_system = !e->chat || chat_takes_system(e->chat);
	i->channels = e->chat && chat_channels(e->chat);
	i->wants_turns = e->chat && chat_wants_turns(e->chat);
	i->n_vocab = v->n;
	i->bos = v->bos;
	i->eos = v->eos;
	i->eot = v->eot;
	i->add_bos = v->add_bos;
	if (!hp->arch)
		return;
	if (e->be) {
		uint64_t available;

		e->be->ops->describe(e->be, i->device, sizeof i->device);
		e->be->ops->memory(e->be, &available, &i->device_total);
	}
	i->threads = e->be ? e->be->threads : 0;
	snprintf(i->arch, sizeof i->arch, "%s", hp->arch->name);
	sampling_read(e);
	i->weight_bytes = e->model.weight_bytes;
	i->n_params = e->model.n_params;
	i->bytes_per_token = e->model.bytes_per_token;
	i->n_layer = hp->n_layer;
	i->n_embd = hp->n_embd;
	i->n_ff = hp->n_ff;
	i->n_head = hp->n_head;
	i->n_kv_head = hp->n_kv_head;
	i->head_dim = hp->head_dim;
	i->ctx_train = hp->ctx_train;
	i->n_expert = hp->n_expert;
	i->n_expert_used = hp->n_expert_used;
	for (int32_t l = 0; l < hp->n_layer; l++)
		if (layer_window(hp, l)) {
			i->window = layer_window(hp, l);
			i->n_windowed++;
			i->n_kv_head_windowed = model_layer_spec(hp, l)->attn.n_kv_head;
			i->head_dim_windowed = model_layer_spec(hp, l)->attn.head_dim;
		}
	i->n_borrowed = hp->n_layer - layers_with_entries(hp);
	i->n_recurrent = hp->n_layer - model_kv(hp)->n_layer;
	i->state_bytes = i->n_recurrent ? recurrent_state_bytes(hp) : 0;
	i->rope_base = hp->rope[0].base;
	i->rope_scaling = hp->rope[0].scaling;
	i->tied_output = e->model.tied;
	while (!layer_attends(hp, first))
		first++;
	i->qkv_bias = e->model.layer[first].bq.rows > 0;
	i->qk_norm = e->model.layer[first].q_norm.rows > 0;
}

static int open_template(struct engine *e, const char *wanted, struct err *err)
{
	struct err why = { 0 };

	if (chat_find(&e->chat, e->gguf, wanted, wanted ? err : &why) < 0) {
		if (wanted)
			return -1;
		/* an unusable template is no error here, because the model can still complete plain text */
		snprintf(e->info.template_error, sizeof e->info.template_error,
		         "%.340s; pass --chat-template NAME or FILE", why.msg);
	} else if (!e->chat) {
		snprintf(e->info.template_error, sizeof e->info.template_error,
		         "the model has no chat template; pass --chat-template");
		return 0;
	} else if (!chat_shows_question(e->chat)) {
		snprintf(
			e->info.template_error, sizeof e->info.template_error,
			"the chat template leaves out what is asked; --chat-template takes another (weir doctor lists those built in)");
	}
	e->info.has_template = 1;
	return 0;
}

/* Check that the weights fit into the backend's memory, before they are loaded. If `be` is NULL, check the system
 * memory. */
static int weights_fit(const struct model *m, const struct backend *be, struct err *err)
{
	struct memory_budget budget = memory_budget_of(be);
	/* a GPU pads the rows of a matrix, by up to 1/64 of the bytes */
	uint64_t need = budget.total ? m->weight_bytes + m->weight_bytes / 64 + budget.reserved : m->weight_bytes;
	struct str have = { 0 };

	if (need <= budget.available)
		return 0;
	memory_budget_text(&budget, &have);
	err_set(err, ERR_FIT, "the weights need %.0f MiB%s, %s; use a smaller model%s", (double)need / (1 << 20),
	        budget.total ? " there" : " of memory", have.p, budget.total ? " or --device cpu" : "");
	str_free(&have);
	return -1;
}

/* Check that the device has all operations that the model needs, and that its memory has room for the weights. */
static int device_serves(const struct gguf *g, const struct model *m, const struct backend *be, struct err *err)
{
	const char *lacked = layer_specs_lacked(&m->hp, be->ops->lacks);

	for (uint64_t i = 0; i < g->n_tensor && !lacked && be->ops->lacks & LACKS_MXFP4; i++)
		lacked = g->tensor[i].type == DT_MXFP4 ? "MXFP4 weights" : NULL;
	if (lacked)
		return err_set(err, ERR_MODEL,
		               "device '%s' does not compute %s, which the model asks for; use --device cpu",
		               be->ops->name, lacked);
	return weights_fit(m, be, err);
}

/* Open the backend that o->device names. "auto" tries the GPU, then the CPU. If a GPU was found but is not used,
 * info.device_note says why. */
static int open_device(struct engine *e, const struct engine_options *o, struct err *err)
{
	struct backend_options bo = { .threads = o->threads };
	const char *device = o->device ? o->device : "auto";
	int is_auto = !strcmp(device, "auto");
	struct err why = { 0 };
	char msg[160];

	if (is_auto || !strcmp(device, "cuda")) {
		if (backend_open(&e->be, "cuda", &bo, msg)) {
			if (!is_auto)
				return err_set(err, ERR_MODEL, "cannot use device 'cuda': %s", msg);
		} else {
			int serves = !device_serves(e->gguf, &e->model, e->be, &why);

			if (serves && !gpu_check(e->be, o->gpu_checks, 0, msg))
				return 0;
			e->be->ops->close(e->be);
			e->be = NULL;
			if (serves)
				err_set(&why, ERR_MODEL, "the check of the GPU failed: %s", msg);
			else if (!is_auto)
				return err_set(err, why.code, "%s", why.msg);
			snprintf(e->info.device_note, sizeof e->info.device_note, "computing on the CPU: %.*s",
			         (int)strcspn(why.msg, ";"), why.msg);
		}
		device = "cpu";
	}
	if (!o->plan_only && weights_fit(&e->model, NULL, err))
		return -1;
	if (backend_open(&e->be, device, &bo, msg))
		return err_set(err, ERR_USAGE, "cannot open device '%s': %s", device, msg);
	return 0;
}

/* Return a nonzero hash of the model's sizes and F32 vectors (norms and biases). Quantisation does not change these,
 * so all quantisations of a model have the same hash. */
static uint64_t fingerprint_of(const struct model *m, const struct gguf *g)
{
	const struct hparams *hp = &m->hp;
	const int32_t size[] = { hp->n_layer, hp->n_embd, hp->n_head, hp->n_kv_head, hp->head_dim, hp->n_vocab };
	uint64_t h = hash64(1, size, sizeof size);

	for (uint64_t i = 0; i < g->n_tensor; i++)
		if (g->tensor[i].type == DT_F32 && g->tensor[i].n_dims == 1) {
			uint64_t one = hash64(hash64(2, g->tensor[i].name.p, g->tensor[i].name.n), g->tensor[i].data,
			                      (size_t)g->tensor[i].bytes);

			h += one; /* add the hashes, because the sum does not depend on the order of the tensors */
		}
	return h ? h : 1;
}

static int open_weights(struct engine *e, const struct engine_options *o, struct err *err)
{
	struct bind_watch watch = { .fn = o->progress, .ud = o->progress_ud };
	int failed;

	e->model.hp.n_vocab = vocab_info(e->vocab)->n;
	if (e->model.hp.kv)
		e->model.hp.kv->n_vocab = e->model.hp.n_vocab;
	if (o->check_weights && gguf_check_weights(e->gguf, err))
		return -1;
	/* check all tensors without a backend first: loading the weights may take minutes, and an error in the file
	 * should be reported before that */
	if (model_bind(&e->model, e->gguf, NULL, NULL, err) ||
	    (o->lora && lora_load(&e->model, o->lora, o->lora_scale, err)))
		return -1;
	if (o->inspect_only)
		return 0;
	e->plan_only = o->plan_only;
	if (open_device(e, o, err))
		return -1;
	if (o->plan_only)
		return 0;
	watch.total = e->model.weight_bytes;
	model_release(&e->model);
	/* Once the backend has copied a range of the mapped file, drop the range's pages. Otherwise the weights would
	 * be in memory twice. */
	e->be->host_read = gguf_drop_pages;
	e->be->host_read_ud = e->gguf;
	failed = model_bind(&e->model, e->gguf, e->be, &watch, err);
	e->be->host_read = NULL;
	if (!failed && o->lora) {
		failed = lora_load(&e->model, o->lora, o->lora_scale, err);
		if (!failed && e->be->ops->sync(e->be))
			failed = err_set(err, ERR_FIT, "cannot load the adapter: %s", e->be->err);
	}
	e->model.hp.fingerprint = fingerprint_of(&e->model, e->gguf);
	if (e->model.hp.kv)
		e->model.hp.kv->fingerprint = e->model.hp.fingerprint;
	return failed;
}

int engine_open(struct engine **out, const struct engine_options *o, struct err *err)
{
	struct engine *e = xcalloc(1, sizeof *e);

	pthread_mutex_init(&e->lock, NULL);
	/* Read the hyperparameters before the vocabulary, so that an unknown architecture is reported before any error
	 * in the vocabulary. */
	if (gguf_open(&e->gguf, o->model_path, err) || (!o->vocab_only && hparams_read(&e->model.hp, e->gguf, err)) ||
	    vocab_load(&e->vocab, e->gguf, o->pre, err) || open_template(e, o->chat_template, err) ||
	    (!o->vocab_only && open_weights(e, o, err)) || gguf_check_there(e->gguf, err)) {
		engine_close(e);
		return -1;
	}
	/* The vocabulary has copied its texts, so drop all pages of the file. */
	gguf_drop_pages(e->gguf->base, (size_t)e->gguf->size, e->gguf);
	info_fill(e);
	*out = e;
	return 0;
}

void engine_close(struct engine *e)
{
	if (!e)
		return;
	model_release(&e->model);
	hparams_free(&e->model.hp);
	if (e->be)
		e->be->ops->close(e->be);
	chat_free(e->chat);
	vocab_free(e->vocab);
	gguf_close(e->gguf);
	free(e->name);
	free(e->types);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

const struct engine_info *engine_info(const struct engine *e)
{
	return &e->info;
}

/* ---- names, the machine ---- */

const char *engine_arch_name(size_t i)
{
	size_t n = 0;
	while (archs[n].name)
		n++;
	return i < n ? archs[i].name : NULL;
}

const char *engine_pre_name(size_t i)
{
	const char *const *names = vocab_pre_names();
	for (size_t n = 0; names[n]; n++)
		if (n == i)
			return names[n];
	return NULL;
}

const char *engine_template_name(size_t i)
{
	return chat_builtin_name(i);
}

const char *engine_cpu_level(void)
{
	return backend_cpu_level();
}

const char *engine_amx(void)
{
	return backend_amx();
}

double engine_bandwidth(int threads, uint64_t bytes)
{
	return backend_bandwidth(threads, bytes);
}

double engine_arithmetic(int threads)
{
	return backend_arithmetic(threads);
}

double engine_copy_bandwidth(struct engine *e, uint64_t bytes)
{
	struct tensor t = { .type = DT_F32, .cols = 4096 };
	struct backend *be = e->be;
	double best = 0;

	if (!be || bytes / 8 / 4096 > INT32_MAX / 2)
		return 0;
	t.rows = (int32_t)(bytes / 4 / 4096 / 2 * 2);
	pthread_mutex_lock(&e->lock);
	be->cancel = NULL;
	if (t.rows && !be->ops->alloc(be, &t)) {
		for (int pass = 0; pass < 8 && !be->ops->sync(be); pass++) {
			double start = now_seconds(), dt;

			for (int i = 0; i < 8; i++)
				be->ops->copy(be, &t, i % 2 ? 0 : t.rows / 2, &t, i % 2 ? t.rows / 2 : 0, t.rows / 2);
			if (be->ops->sync(be))
				break;
			dt = now_seconds() - start;
			if (dt > 0 && 8.0 * t.rows * 4096 * 4 / dt > best)
				best = 8.0 * t.rows * 4096 * 4 / dt;
		}
		be->ops->drop(be, &t);
	}
	be->ops->sync(be);
	pthread_mutex_unlock(&e->lock);
	return best;
}

uint64_t engine_memory_free(void)
{
	return memory_available();
}

/* ---- text and tokens ---- */

int engine_render(const struct engine *e, const struct chat_msg *msg, size_t n, unsigned flags,
                  const struct rendered *before, struct rendered *out, struct err *err)
{
	if (e->info.has_template && e->info.template_error[0])
		return err_set(err, ERR_MODEL, "%s", e->info.template_error);
	return chat_render(e->chat, e->vocab, msg, n, flags, before, out, err);
}

int engine_render_text(const struct engine *e, const struct chat_msg *msg, size_t n, unsigned flags, const char *bos,
                       const char *eos, struct str *out, struct err *err)
{
	if (!e->chat)
		return err_set(err, ERR_MODEL, "%s", e->info.template_error);
	return chat_render_text(e->chat, e->vocab, msg, n, flags, bos, eos, out, err);
}

int engine_render_stable(const struct engine *e, const struct rendered *r, size_t i, size_t byte, struct tokens *out,
                         struct err *err)
{
	return rendered_stable(r, e->vocab, i, byte, out, err);
}

int engine_render_count(const struct engine *e, const struct rendered *r, size_t i, size_t from, size_t to, size_t *n,
                        struct err *err)
{
	return rendered_count(r, e->vocab, i, from, to, n, err);
}

void engine_render_add(const struct engine *e, struct rendered *r, const char *text, size_t n, const int32_t *id,
                       size_t n_id)
{
	rendered_add(r, e->vocab, text, n, id, n_id);
}

int engine_tokenize(const struct engine *e, const char *text, size_t len, unsigned flags, struct tokens *out,
                    struct err *err)
{
	const struct vocab_info *v = vocab_info(e->vocab);
	struct span all = { 0, len };
	size_t start = out->n;

	if ((flags & TOKENIZE_BOS) && (v->encoder ? v->add_bos : v->bos >= 0))
		tokens_add(out, v->bos);
	if (vocab_encode(e->vocab, text, len, &all, flags & TOKENIZE_SPECIAL ? 1 : 0, out, err)) {
		out->n = start;
		return -1;
	}
	if ((flags & TOKENIZE_BOS) && v->encoder && v->add_eos)
		tokens_add(out, v->eos);
	return 0;
}

size_t engine_piece(const struct engine *e, int32_t id, int with_special, char *buf, size_t cap)
{
	return vocab_piece(e->vocab, id, with_special, buf, cap);
}

size_t engine_piece_add(const struct engine *e, int32_t id, int with_special, struct str *out)
{
	char small[256], *piece = small;
	size_t n = engine_piece(e, id, with_special, small, sizeof small);

	if (n > sizeof small) {
		piece = xmalloc(n);
		engine_piece(e, id, with_special, piece, n);
	}
	str_add(out, piece, n);
	if (piece != small)
		free(piece);
	return n;
}

int engine_is_end(const struct engine *e, int32_t id)
{
	return vocab_is_end(e->vocab, id);
}
