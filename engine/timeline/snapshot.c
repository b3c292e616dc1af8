/* engine/timeline/snapshot.c - saves a computed sequence as bytes, and loads it so that a timeline continues with the
 * same bits (engine_snapshot.h).
 *
 * A snapshot consists of fixed entries and a head. Fixed entries are KV entries that are still in the slots in which
 * they were computed; their bytes are stored as they are in the cache's memory. The head begins with magic number,
 * version, length and hash. Then come model and settings, tokens, how each token was computed, logits, and the cache
 * policy's state.
 *
 * One function per part of the head both saves and loads it (serialize.h). The hash detects damage. A head with a
 * correct hash may still be hostile, so every loaded number is checked. Model and settings must be the same as at
 * saving. They are compared as lines of text. The lines can also be hashed, or shown to the user if they differ. */
#include "engine/timeline/timeline.h"
#include "engine/policies/policy.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cache/serialize.h"

enum {
	HEAD_VERSION = 1,
	/* Raise this version whenever equal inputs begin to give other bits. Reasons are changes in a kernel's
	 * arithmetic, in selection or in retention. */
	BITS_VERSION = 3,
};
#define HEAD_MAGIC 0x64616568726965ull /* the bytes "eirhead", little-endian */

/* ---- identities ---- */

/* Hash some results of the C library's mathematical functions. KV entries depend on these functions, and another C
 * library may round differently. */
static uint64_t math_hash(void)
{
	double v[5 * 64];
	float f[2 * 64];

	for (int i = 0; i < 64; i++) {
		double x = 0.37 * i + 1.0 / (i + 1) + 1000.5 * (i % 7);

		v[5 * i] = cos(x);
		v[5 * i + 1] = sin(x);
		v[5 * i + 2] = exp(-x / 64);
		v[5 * i + 3] = log2(x + 1);
		v[5 * i + 4] = exp2(x / 128) + log(x + 2);
		f[2 * i] = expf((float)(-x / 64));
		f[2 * i + 1] = cosf((float)x);
	}
	return hash64(hash64(0, v, sizeof v), f, sizeof f);
}

/* Hash the model file's keys of the tokenizer and of the template. */
static uint64_t tokenizer_hash(const struct gguf *g)
{
	static const char prefix[] = "tokenizer.";
	uint64_t h = 0;

	for (uint64_t i = 0; i < g->n_kv; i++) {
		const struct gguf_value *v = &g->kv[i];

		if (v->key.n < sizeof prefix - 1 || memcmp(v->key.p, prefix, sizeof prefix - 1))
			continue;
		h = hash64(h, v->key.p, v->key.n);
		h = hash64(h, &v->type, sizeof v->type);
		h = hash64(h, v->data, (size_t)v->bytes);
	}
	return h;
}

static void hparams_identity(const struct hparams *hp, struct str *out)
{
	str_addf(out, "architecture %s\n", hp->arch->name);
	str_addf(out, "layers %d width %d feed-forward %d heads %d kv-heads %d head %d context %d vocabulary %d\n",
	         hp->n_layer, hp->n_embd, hp->n_ff, hp->n_head, hp->n_kv_head, hp->head_dim, hp->ctx_train,
	         hp->n_vocab);
	str_addf(out, "epsilon %a\n", (double)hp->eps);
	for (int32_t i = 0; i < hp->n_rope; i++) {
		const struct rope_freqs *f = &hp->rope[i];

		str_addf(out, "rotation %s %s dims %d base %a scale %a frequencies %016" PRIx64 "\n",
		         f->neox ? "halves" : "pairs", f->scaling, f->dims, f->base, f->mscale,
		         hash64(0, f->freq, (size_t)(f->dims / 2) * sizeof *f->freq));
		if (f->freq_long)
			str_addf(out, "long %016" PRIx64 " beyond %d\n",
			         hash64(0, f->freq_long, (size_t)(f->dims / 2) * sizeof *f->freq_long), f->short_most);
	}
	layer_specs_identity(hp, out);
}

void engine_identity(const struct engine *e, struct str *out)
{
	const struct gguf *g = e->gguf;
	char text[256] = "none";
	uint16_t order = 1;
	uint8_t low;

	memcpy(&low, &order, 1);
	str_addf(out, "format %d bits %d\n", HEAD_VERSION, BITS_VERSION);
	str_addf(out, "byte order %s\n", low ? "little" : "big");
	if (e->be)
		e->be->ops->describe(e->be, text, sizeof text);
	/* after this, the description has the number of threads: omit it, because results do not depend on it */
	str_addf(out, "kernels %.*s\n", (int)strcspn(text, ","), text);
	str_addf(out, "mathematics %016" PRIx64 "\n", math_hash());
	if (e->model.hp.arch)
		hparams_identity(&e->model.hp, out);
	if (e->model.lora_hash)
		str_addf(out, "adapter %016" PRIx64 "\n", e->model.lora_hash);
	str_addf(out, "tokenizer %s %016" PRIx64 "\n", e->info.tokenizer, tokenizer_hash(g));
	str_addf(out, "template %s\n", e->info.template_name[0] ? e->info.template_name : "none");
	for (uint64_t i = 0; i < g->n_tensor; i++) {
		const struct gguf_tensor *t = &g->tensor[i];

		/* Different names may become equal by escaping, so add a hash of the name. */
		text_escape(text, sizeof text, t->name.p, t->name.n);
		str_addf(out, "tensor %s %08x %s", text, (unsigned)hash64(0, t->name.p, t->name.n),
		         dtype_info(t->type)->name);
		for (int32_t d = 0; d < t->n_dims && d < 4; d++)
			str_addf(out, " %" PRId64, t->ne[d]);
		str_add(out, "\n", 1);
	}
}

/* Append a line about the element types of KV entries. */
static void types_line(struct kv_types t, struct str *out)
{
	if (t.k == t.v)
		str_addf(out, "rows %s\n", dtype_info(t.k)->name);
	else
		str_addf(out, "rows k=%s,v=%s\n", dtype_info(t.k)->name, dtype_info(t.v)->name);
}

/* Append lines about the settings on which KV entries depend: policy, entry type, size of steps. Also append the names
 * of earlier policies, if some entries were computed under them. */
static void policy_lines(const struct timeline *tl, struct str *out)
{
	const struct cache *c = &tl->cache;

	str_adds(out, "cache ");
	policy_identity(&c->policy, out);
	str_adds(out, "\n");
	types_line(c->types, out);
	/* The size of prefill steps affects results only if entries are evicted or selected. */
	if (!cache_keeps_all(c) || c->selecting)
		str_addf(out, "calls %d\n", c->chunk);
	if (c->sel.ops && c->sel.ops->identity)
		c->sel.ops->identity(&c->sel, out);
	if (c->policy.def->compose)
		str_addf(out, "context %d\n", c->ctx);
	/* This line makes snapshots of some older versions unusable, because those versions also evicted entries from
	 * layers with a sliding window. */
	if (c->kv.window_cap && !cache_keeps_all(c))
		str_addf(out, "windows %d\n", kv_window_most(&c->kv));
	if (tl->mixed_from >= 0)
		str_addf(out, "generated under %s\n", tl->mixed.p);
}

/* Append lines about the properties on which KV entries depend under any policy: the share of the cache that a prefill
 * reads, LongRoPE's frequencies, and the kernels that computed the first entries. */
static void lines_of_entries(const struct timeline *tl, struct str *out)
{
	if (tl->cache.read_share > 0)
		str_addf(out, "prefill share %.9g\n", (double)tl->cache.read_share);
	if (rope_is_long(&tl->cache.rope))
		str_adds(out, "rotation long\n");
	if (tl->begun_n)
		str_addf(out, "begun by %s until %d\n", tl->begun.p, tl->begun_n);
}

void timeline_entries_identity(const struct timeline *tl, struct str *out)
{
	types_line(tl->cache.types, out);
	lines_of_entries(tl, out);
}

void timeline_identity(const struct timeline *tl, struct str *out)
{
	policy_lines(tl, out);
	lines_of_entries(tl, out);
}

void timeline_begun(struct timeline *tl, const char *by, size_t n_by, int32_t n)
{
	struct str text = { 0 };

	timeline_settle(tl, &(struct err){ 0 });
	/* Copy the name first, because `by` may point into tl->begun. */
	str_add(&text, by, n_by);
	str_free(&tl->begun);
	tl->begun = text;
	tl->begun_n = n_by && n > 0 ? MIN(n, tl->n_past) : 0;
}

/* ---- fixed entries ---- */

uint64_t timeline_token_bytes(const struct timeline *tl, int windows)
{
	return (windows ? kv_token_bytes : kv_full_token_bytes)(tl->cache.hp, tl->cache.types);
}

int32_t timeline_entries_dim(const struct timeline *tl)
{
	const struct hparams *hp = tl->cache.hp;
	int32_t dim = hp->n_layer ? model_layer_spec(hp, 0)->attn.head_dim : 0;
	uint16_t order = 1;
	uint8_t low;

	memcpy(&low, &order, 1);
	for (int32_t i = 1; i < hp->n_layer; i++)
		if (model_layer_spec(hp, i)->attn.head_dim != dim)
			return 0;
	return tl->cache.types.k == DT_F16 && tl->cache.types.v == DT_F16 && low &&
	                       entries_packed_bytes((struct entries_packing){ dim, 16, 0 }, (uint64_t)dim * 16 * 2)
	               ? dim
	               : 0;
}

int timeline_windows_hold(struct timeline *tl, int32_t first, int32_t n)
{
	timeline_settle(tl, &(struct err){ 0 });
	return kv_windows_hold(&tl->cache.kv, first, n);
}

int32_t timeline_entries_ready(struct timeline *tl)
{
	timeline_settle(tl, &(struct err){ 0 });
	return tl->lab ? 0 : cache_ready(&tl->cache, tl->n_past);
}

const uint8_t *timeline_marks(struct timeline *tl, size_t *n)
{
	timeline_settle(tl, &(struct err){ 0 });
	*n = tl->marks.n;
	return (const uint8_t *)tl->marks.p;
}

/* 1 if the sequence can be saved or loaded. If an observer of engine/lab is open, return 0 with an error, because such
 * an observer must observe all tokens. */
static int can_be_saved(const struct timeline *tl, struct err *err)
{
	if (!tl->lab)
		return 1;
	err_set(err, ERR_USAGE, "a sequence cannot be saved or loaded while selection policies are watched beside it");
	return 0;
}

/* Wait for the backend and unlock the engine. Return -1 if the work failed. */
static int backend_done(struct timeline *tl, struct err *err)
{
	int failed = timeline_backend_sync(tl, err);

	pthread_mutex_unlock(&tl->e->lock);
	return failed;
}

int timeline_entries_save(struct timeline *tl, int32_t first, int32_t n, int windows, void *out, struct err *err)
{
	int32_t ready = timeline_entries_ready(tl);

	if (!can_be_saved(tl, err))
		return -1;
	if (first < 0 || n < 0 || first > ready || n > ready - first)
		return err_set(err, ERR_USAGE, "KV entries of %d tokens from token %d cannot be saved, there are %d", n,
		               first, ready);
	pthread_mutex_lock(&tl->e->lock);
	(windows ? kv_entries_read : kv_full_read)(&tl->cache.kv, first, n, out);
	return backend_done(tl, err);
}

/* Remove all tokens. The caller has the engine's lock. */
static void timeline_empty(struct timeline *tl)
{
	timeline_forget(tl, cache_rewind(&tl->cache, 0, NULL));
	tl->logits_at = tl->unread = tl->kept_at = tl->read_end = -1;
	tl->adopted = tl->loaded = 0;
}

int timeline_entries_load(struct timeline *tl, int32_t first, int32_t n, int windows, const void *entries,
                          struct err *err)
{
	struct kv_store *kv = &tl->cache.kv;

	if (!can_be_saved(tl, err) || timeline_settle(tl, err))
		return -1;
	pthread_mutex_lock(&tl->e->lock);
	if (first == 0 || first != tl->loaded || tl->tokens.n)
		timeline_empty(tl);
	if (first == 0)
		kv_clear(kv);
	if (first != tl->loaded || n < 0)
		err_set(err, ERR_USAGE, "KV entries of %d tokens from token %d cannot be loaded behind those of %d", n,
		        first, tl->loaded);
	else if (n > kv->cap - first)
		err_set(err, ERR_FIT, "KV entries of %d tokens do not fit the context of %d; start with a larger -c",
		        first > INT32_MAX - n ? INT32_MAX : first + n, kv->cap);
	else {
		(windows ? kv_entries_write : kv_entries_write_full)(kv, first, n, entries);
		tl->loaded = first + n;
		if (!backend_done(tl, err))
			return 0;
		pthread_mutex_lock(&tl->e->lock);
	}
	timeline_empty(tl);
	pthread_mutex_unlock(&tl->e->lock);
	return -1;
}

/* ---- the head ---- */

struct frame {
	uint64_t magic, version;
	uint64_t bytes, hash; /* number of bytes after this struct, and the hash of these bytes */
};

/* Save the properties that the timeline must have when the snapshot is loaded. When loading, compare them. */
static void shape_archive(struct timeline *tl, struct serializer *a)
{
	const struct hparams *hp = tl->cache.hp;
	struct str text = { 0 };
	int32_t none = -1, mixed = tl->mixed_from;

	/* A snapshot can be restored only if all entries were computed under the present cache policy, that is, if
	 * mixed_from is -1. So -1 is the only value that is accepted. */
	serialize_i32(a, &mixed, none, none, "entries of another cache policy");
	policy_lines(tl, &text);
	serialize_expect(a, hash64(0, text.p, text.n), "the cache policy");
	str_free(&text);
	serialize_expect(a, (uint64_t)hp->n_layer << 32 | (uint32_t)hp->n_kv_head, "the number of layers");
	serialize_expect(a, (uint64_t)hp->n_vocab << 32 | (uint32_t)hp->head_dim, "the vocabulary");
}

/* Save or load the tokens, how each token was computed (marks), and the logits. *past is the number of tokens with KV
 * entries. When loading, the timeline must be empty. */
static void tokens_archive(struct timeline *tl, struct serializer *a, int32_t *past)
{
	int32_t limit = tl->cache.limit, n_vocab = tl->cache.hp->n_vocab, waits = tl->tokens.n > (size_t)tl->n_past;
	int32_t at = tl->logits_at;
	size_t n;

	serialize_i32(a, past, 0, limit, "the number of tokens");
	serialize_i32(a, &waits, 0, *past < limit, "the token that waits");
	n = (size_t)*past + (size_t)waits;
	if (serialize_loading(a)) {
		if (a->bad || n > a->left / 4) {
			serialize_fail(a, "the number of tokens");
			return;
		}
		if (n > tl->tokens.cap) {
			tl->tokens.id = xrealloc(tl->tokens.id, n * sizeof *tl->tokens.id);
			tl->tokens.cap = n;
		}
	}
	serialize_i32s(a, tl->tokens.id, n, 0, n_vocab - 1, "a token");
	if (serialize_loading(a) && !a->bad) {
		if ((uint64_t)*past > a->left) {
			serialize_fail(a, "the marks of tokens");
			return;
		}
		for (int32_t i = 0; i < *past; i++)
			if (a->at[i] > MARK_MOST || (a->at[i] & 3) == 3)
				serialize_fail(a, "the mark of a token");
		str_clear(&tl->marks);
		str_add(&tl->marks, a->at, (size_t)*past);
	}
	serialize_bytes(a, tl->marks.p, (uint64_t)*past);
	serialize_i32(a, &at, -1, *past, "the place of the logits");
	if (at >= 0)
		serialize_bytes(a, tl->logits, (uint64_t)n_vocab * sizeof *tl->logits);
	if (!serialize_loading(a) || a->bad)
		return;
	tl->tokens.n = n;
	tl->n_past = *past;
	tl->logits_at = at;
}

/* Save or load the lengths to which the sequence can be rolled back without a new prefill, and the logits at the end of
 * the last prefill. */
static void points_archive(struct timeline *tl, struct serializer *a)
{
	int32_t kept = tl->kept_at, end = tl->read_end;

	serialize_i32(a, &end, -1, tl->n_past, "the end of the prefill");
	serialize_i32(a, &kept, -1, tl->n_past, "the place of the logits after the prefill");
	if (kept >= 0)
		serialize_bytes(a, tl->kept_logits, (uint64_t)tl->cache.hp->n_vocab * sizeof *tl->kept_logits);
	if (!a->bad)
		cache_points_archive(&tl->cache, a);
	if (!serialize_loading(a) || a->bad)
		return;
	tl->read_end = end;
	tl->kept_at = kept;
}

/* Save or load the whole head, except its struct frame. */
static void head_archive(struct timeline *tl, struct serializer *a)
{
	int32_t past = tl->n_past, ready = serialize_loading(a) ? tl->loaded : timeline_entries_ready(tl),
		adopted = tl->adopted;

	shape_archive(tl, a);
	serialize_i32(a, &ready, ready, ready, "the number of tokens whose entries were loaded");
	serialize_i32(a, &adopted, 0, 1, "whether the cache policy was changed");
	tokens_archive(tl, a, &past);
	serialize_expect(a, 'P', "the part before the cache policy's");
	if (!a->bad)
		cache_archive(&tl->cache, a, past);
	serialize_expect(a, 'E', "its end");
	/* Heads written before version 0.2 end here. */
	if (!serialize_loading(a) || (!a->bad && a->left))
		points_archive(tl, a);
	if (!serialize_loading(a) || a->bad)
		return;
	if (a->left)
		serialize_fail(a, "its length");
	if (timeline_entries_ready(tl) != ready)
		serialize_fail(a, "the number of tokens whose entries were loaded");
	tl->adopted = adopted;
}

int timeline_head_save(struct timeline *tl, struct str *out, struct err *err)
{
	struct serializer a = { .mode = SERIALIZE_MEASURE };
	struct frame f = { .magic = HEAD_MAGIC, .version = HEAD_VERSION };
	uint64_t need;
	char *p;

	if (timeline_settle(tl, err) || timeline_read_logits(tl, err))
		return -1;
	if (!can_be_saved(tl, err))
		return -1;
	pthread_mutex_lock(&tl->e->lock);
	head_archive(tl, &a);
	f.bytes = a.bytes;
	if (a.bad || size_add(f.bytes, sizeof f + 1, &need) || size_add(need, out->n, &need) || need > SIZE_MAX / 2 ||
	    !(p = realloc(out->p, need))) {
		pthread_mutex_unlock(&tl->e->lock);
		return err_set(err, ERR_FIT, "no memory for %.0f MiB of a saved sequence", (double)f.bytes / (1 << 20));
	}
	out->p = p;
	out->cap = MAX(out->cap, need);
	a = (struct serializer){ .mode = SERIALIZE_SAVE, .at = (uint8_t *)p + out->n + sizeof f, .left = f.bytes };
	head_archive(tl, &a);
	if (backend_done(tl, err))
		return -1;
	if (a.bad || a.left)
		return err_set(err, ERR_FAIL, "the sequence cannot be saved: %s changed meanwhile",
		               a.bad ? a.bad : "its length");
	f.hash = hash64(HEAD_MAGIC, p + out->n + sizeof f, (size_t)f.bytes);
	memcpy(p + out->n, &f, sizeof f);
	out->n += sizeof f + (size_t)f.bytes;
	out->p[out->n] = 0;
	return 0;
}

/* Check the bytes of a snapshot's head, and return a pointer to the bytes after its struct frame. If the head is
 * damaged, return NULL with an error. */
static const uint8_t *head_open(const void *head, size_t n, struct err *err)
{
	const uint8_t *p = head;
	struct frame f;

	if (n >= sizeof f)
		memcpy(&f, p, sizeof f);
	if (n < sizeof f || f.magic != HEAD_MAGIC)
		err_set(err, ERR_FAIL, "the snapshot of a sequence is damaged: it does not begin as one");
	else if (f.version != HEAD_VERSION)
		err_set(err, ERR_FAIL, "the snapshot of a sequence has format %" PRIu64 ", this program reads %d",
		        f.version, HEAD_VERSION);
	else if (f.bytes != n - sizeof f || f.hash != hash64(HEAD_MAGIC, p + sizeof f, n - sizeof f))
		err_set(err, ERR_FAIL, "the snapshot of a sequence is damaged: its checksum differs");
	else
		return p + sizeof f;
	return NULL;
}

int timeline_head_load(struct timeline *tl, const void *head, size_t n, struct err *err)
{
	struct serializer a = { .mode = SERIALIZE_LOAD };
	const uint8_t *p;
	int32_t loaded = tl->loaded;

	if (!can_be_saved(tl, err))
		return -1;
	p = head_open(head, n, err);
	pthread_mutex_lock(&tl->e->lock);
	timeline_empty(tl);
	tl->loaded = loaded;
	if (!loaded)
		kv_clear(&tl->cache.kv);
	if (p) {
		a.at = (uint8_t *)(uintptr_t)p;
		a.left = n - sizeof(struct frame);
		head_archive(tl, &a);
		tl->loaded = 0;
		if (!a.bad) {
			if (!backend_done(tl, err))
				return 0;
			pthread_mutex_lock(&tl->e->lock);
		} else {
			err_set(err, ERR_FAIL, "the snapshot of a sequence does not fit: %s is not what it must be",
			        a.bad);
		}
	}
	timeline_empty(tl);
	pthread_mutex_unlock(&tl->e->lock);
	return -1;
}

/* ---- entries without a head ---- */

int32_t timeline_adopt(struct timeline *tl, const int32_t *id, const uint8_t *marks, size_t n, struct err *err)
{
	int32_t kept = tl->loaded;
	int bad = 0;

	if (!can_be_saved(tl, err))
		return -1;
	pthread_mutex_lock(&tl->e->lock);
	timeline_empty(tl);
	for (size_t i = 0; i < n && n == (size_t)kept; i++)
		bad |= id[i] < 0 || id[i] >= tl->cache.hp->n_vocab ||
		       (marks && (marks[i] > MARK_MOST || (marks[i] & 3) == 3));
	if (bad || n != (size_t)kept || kept > tl->cache.limit) {
		pthread_mutex_unlock(&tl->e->lock);
		return err_set(err, ERR_USAGE,
		               "%zu tokens cannot be those of the entries of %d tokens that were loaded", n, kept);
	}
	kept = cache_take(&tl->cache, kept);
	if (backend_done(tl, err)) {
		pthread_mutex_lock(&tl->e->lock);
		timeline_empty(tl);
		pthread_mutex_unlock(&tl->e->lock);
		return -1;
	}
	tokens_append(&tl->tokens, id, (size_t)kept);
	for (int32_t i = 0; i < kept; i++)
		str_add(&tl->marks, marks ? (const char *)marks + i : "", 1);
	tl->n_past = kept;
	return kept;
}
