/* engine/timeline/snapshot.c - snapshots: a sequence as bytes, from which a timeline continues bit for bit
 * (engine_snapshot.h).
 *
 *     fixed entries   KV entries of tokens 0 .. n, in the layout of the cache's planes
 *     head            a frame (magic, version, length, hash); then the shape that it fits, tokens, marks, logits, the
 *                     policy's state
 *
 * The same functions save and load the head (serialize.h). The hash finds damage. A head with the right hash may
 * still be hostile: every number is checked, and a wrong number empties the timeline.
 *
 * Identities are lines of text, so that they can be compared, hashed, and shown if they differ. */
#include "engine/timeline/timeline.h"
#include "engine/policies/policy.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cache/serialize.h"

enum {
	HEAD_VERSION = 1,
	/* Raise it when equal inputs give other bits: after a change of a kernel's arithmetic, of selection or
	 * retention. */
	BITS_VERSION = 3,
};
#define HEAD_MAGIC 0x64616568726965ull /* "eirhead" */

/* ---- identities ---- */

/* Hash results of the C library's functions that KV entries depend on: another library may round differently. */
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

/* Hash the file's metadata of tokenizer and template. */
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
	/* without the number of threads: results do not depend on it */
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

		/* Two names may be equal after escaping: the hash tells them apart. */
		text_escape(text, sizeof text, t->name.p, t->name.n);
		str_addf(out, "tensor %s %08x %s", text, (unsigned)hash64(0, t->name.p, t->name.n),
		         dtype_info(t->type)->name);
		for (int32_t d = 0; d < t->n_dims && d < 4; d++)
			str_addf(out, " %" PRId64, t->ne[d]);
		str_add(out, "\n", 1);
	}
}

/* Append the lines of policy, type and chunks, and earlier policies whose entries are kept. */
static void policy_lines(const struct timeline *t, struct str *out)
{
	const struct cache *c = &t->cache;

	str_adds(out, "cache ");
	policy_identity(&c->policy, out);
	str_addf(out, "\nrows %s\n", dtype_info(c->type)->name);
	/* Under `full` results do not depend on how a prefill is cut into steps. */
	if (!cache_keeps_all(c) || c->selecting)
		str_addf(out, "calls %d\n", c->chunk);
	if (c->sel.ops && c->sel.ops->identity)
		c->sel.ops->identity(&c->sel, out);
	if (c->policy.def->compose)
		str_addf(out, "context %d\n", c->ctx);
	/* Old snapshots, in which the cascade had the layers with a window, lack this line and do not fit. */
	if (c->kv.window_cap && !cache_keeps_all(c))
		str_addf(out, "windows %d\n", kv_window_most(&c->kv));
	if (t->mixed_from >= 0)
		str_addf(out, "generated under %s\n", t->mixed.p);
}

/* Append the lines that decide all entries beside the policy. */
static void lines_of_entries(const struct timeline *t, struct str *out)
{
	if (t->cache.read_share > 0)
		str_addf(out, "prefill share %.9g\n", (double)t->cache.read_share);
	if (rope_is_long(&t->cache.rope))
		str_adds(out, "rotation long\n");
	if (t->begun_n)
		str_addf(out, "begun by %s until %d\n", t->begun.p, t->begun_n);
}

void timeline_entries_identity(const struct timeline *t, struct str *out)
{
	str_addf(out, "rows %s\n", dtype_info(t->cache.type)->name);
	lines_of_entries(t, out);
}

void timeline_identity(const struct timeline *t, struct str *out)
{
	policy_lines(t, out);
	lines_of_entries(t, out);
}

void timeline_begun(struct timeline *t, const char *by, size_t n_by, int32_t n)
{
	struct str text = { 0 };

	timeline_settle(t, &(struct err){ 0 });
	/* Copied first, because `by` may point into t->begun. */
	str_add(&text, by, n_by);
	str_free(&t->begun);
	t->begun = text;
	t->begun_n = n_by && n > 0 ? MIN(n, t->n_past) : 0;
}

/* ---- fixed entries ---- */

uint64_t timeline_token_bytes(const struct timeline *t, int windows)
{
	return (windows ? kv_token_bytes : kv_full_token_bytes)(t->cache.hp, t->cache.type);
}

int timeline_windows_hold(struct timeline *t, int32_t first, int32_t n)
{
	timeline_settle(t, &(struct err){ 0 });
	return kv_windows_hold(&t->cache.kv, first, n);
}

int32_t timeline_entries_ready(struct timeline *t)
{
	timeline_settle(t, &(struct err){ 0 });
	return t->lab ? 0 : cache_ready(&t->cache, t->n_past);
}

const uint8_t *timeline_marks(struct timeline *t, size_t *n)
{
	timeline_settle(t, &(struct err){ 0 });
	*n = t->marks.n;
	return (const uint8_t *)t->marks.p;
}

/* 1 if no observer of the laboratory is open, which has to see all tokens; else 0 and the error. */
static int can_be_saved(const struct timeline *t, struct err *err)
{
	if (!t->lab)
		return 1;
	err_set(err, ERR_USAGE, "a sequence cannot be saved or loaded while selection policies are watched beside it");
	return 0;
}

/* Wait for the backend and release the lock; -1 = the backend's work failed. */
static int backend_done(struct timeline *t, struct err *err)
{
	int failed = timeline_backend_sync(t, err);

	pthread_mutex_unlock(&t->e->lock);
	return failed;
}

int timeline_entries_save(struct timeline *t, int32_t first, int32_t n, int windows, void *out, struct err *err)
{
	int32_t ready = timeline_entries_ready(t);

	if (!can_be_saved(t, err))
		return -1;
	if (first < 0 || n < 0 || first > ready || n > ready - first)
		return err_set(err, ERR_USAGE, "KV entries of %d tokens from token %d cannot be saved, there are %d", n,
		               first, ready);
	pthread_mutex_lock(&t->e->lock);
	(windows ? kv_entries_read : kv_full_read)(&t->cache.kv, first, n, out);
	return backend_done(t, err);
}

/* Empty the timeline. The lock is held. */
static void timeline_empty(struct timeline *t)
{
	timeline_forget(t, cache_rewind(&t->cache, 0, NULL));
	t->logits_at = t->kept_at = t->read_end = -1;
	t->adopted = t->loaded = 0;
}

int timeline_entries_load(struct timeline *t, int32_t first, int32_t n, int windows, const void *entries,
                          struct err *err)
{
	struct kv_store *kv = &t->cache.kv;

	if (!can_be_saved(t, err) || timeline_settle(t, err))
		return -1;
	pthread_mutex_lock(&t->e->lock);
	if (first == 0 || first != t->loaded || t->tokens.n)
		timeline_empty(t);
	if (first == 0)
		kv_clear(kv);
	if (first != t->loaded || n < 0)
		err_set(err, ERR_USAGE, "KV entries of %d tokens from token %d cannot be loaded behind those of %d", n,
		        first, t->loaded);
	else if (n > kv->cap - first)
		err_set(err, ERR_FIT, "KV entries of %d tokens do not fit the context of %d; start with a larger -c",
		        first > INT32_MAX - n ? INT32_MAX : first + n, kv->cap);
	else {
		(windows ? kv_entries_write : kv_entries_write_full)(kv, first, n, entries);
		t->loaded = first + n;
		if (!backend_done(t, err))
			return 0;
		pthread_mutex_lock(&t->e->lock);
	}
	timeline_empty(t);
	pthread_mutex_unlock(&t->e->lock);
	return -1;
}

/* ---- the head ---- */

struct frame {
	uint64_t magic, version;
	uint64_t bytes, hash; /* length and hash of the bytes behind the frame */
};

/* Save or check the properties that both timelines must share. */
static void shape_archive(struct timeline *t, struct serializer *a)
{
	const struct hparams *hp = t->cache.hp;
	struct str text = { 0 };
	int32_t none = -1, mixed = t->mixed_from;

	/* The timeline that loads is empty and has no entries of another policy: a snapshot with such entries does
	 * not fit. */
	serialize_i32(a, &mixed, none, none, "entries of another cache policy");
	policy_lines(t, &text);
	serialize_expect(a, hash64(0, text.p, text.n), "the cache policy");
	str_free(&text);
	serialize_expect(a, (uint64_t)hp->n_layer << 32 | (uint32_t)hp->n_kv_head, "the number of layers");
	serialize_expect(a, (uint64_t)hp->n_vocab << 32 | (uint32_t)hp->head_dim, "the vocabulary");
}

/* Save or load tokens, marks and logits. *past: tokens with KV entries. Loading needs an empty timeline. */
static void tokens_archive(struct timeline *t, struct serializer *a, int32_t *past)
{
	int32_t limit = t->cache.limit, n_vocab = t->cache.hp->n_vocab, waits = t->tokens.n > (size_t)t->n_past;
	int32_t at = t->logits_at;
	size_t n;

	serialize_i32(a, past, 0, limit, "the number of tokens");
	serialize_i32(a, &waits, 0, *past < limit, "the token that waits");
	n = (size_t)*past + (size_t)waits;
	if (serialize_loading(a)) {
		if (a->bad || n > a->left / 4) {
			serialize_fail(a, "the number of tokens");
			return;
		}
		if (n > t->tokens.cap) {
			t->tokens.id = xrealloc(t->tokens.id, n * sizeof *t->tokens.id);
			t->tokens.cap = n;
		}
	}
	serialize_i32s(a, t->tokens.id, n, 0, n_vocab - 1, "a token");
	if (serialize_loading(a) && !a->bad) {
		if ((uint64_t)*past > a->left) {
			serialize_fail(a, "the marks of tokens");
			return;
		}
		for (int32_t i = 0; i < *past; i++)
			if (a->at[i] > MARK_MOST || (a->at[i] & 3) == 3)
				serialize_fail(a, "the mark of a token");
		str_clear(&t->marks);
		str_add(&t->marks, a->at, (size_t)*past);
	}
	serialize_bytes(a, t->marks.p, (uint64_t)*past);
	serialize_i32(a, &at, -1, *past, "the place of the logits");
	if (at >= 0)
		serialize_bytes(a, t->logits, (uint64_t)n_vocab * sizeof *t->logits);
	if (!serialize_loading(a) || a->bad)
		return;
	t->tokens.n = n;
	t->n_past = *past;
	t->logits_at = at;
}

/* Save or load the points to which a rollback needs no prefill. */
static void points_archive(struct timeline *t, struct serializer *a)
{
	int32_t kept = t->kept_at, end = t->read_end;

	serialize_i32(a, &end, -1, t->n_past, "the end of the prefill");
	serialize_i32(a, &kept, -1, t->n_past, "the place of the logits after the prefill");
	if (kept >= 0)
		serialize_bytes(a, t->kept_logits, (uint64_t)t->cache.hp->n_vocab * sizeof *t->kept_logits);
	if (!a->bad)
		cache_points_archive(&t->cache, a);
	if (!serialize_loading(a) || a->bad)
		return;
	t->read_end = end;
	t->kept_at = kept;
}

/* Save or load all of the head behind its frame. */
static void head_archive(struct timeline *t, struct serializer *a)
{
	int32_t past = t->n_past, ready = serialize_loading(a) ? t->loaded : timeline_entries_ready(t),
		adopted = t->adopted;

	shape_archive(t, a);
	serialize_i32(a, &ready, ready, ready, "the number of tokens whose entries were loaded");
	serialize_i32(a, &adopted, 0, 1, "whether the cache policy was changed");
	tokens_archive(t, a, &past);
	serialize_expect(a, 'P', "the part before the cache policy's");
	if (!a->bad)
		cache_archive(&t->cache, a, past);
	serialize_expect(a, 'E', "its end");
	/* Heads written before version 0.2 end here. */
	if (!serialize_loading(a) || (!a->bad && a->left))
		points_archive(t, a);
	if (!serialize_loading(a) || a->bad)
		return;
	if (a->left)
		serialize_fail(a, "its length");
	if (timeline_entries_ready(t) != ready)
		serialize_fail(a, "the number of tokens whose entries were loaded");
	t->adopted = adopted;
}

int timeline_head_save(struct timeline *t, struct str *out, struct err *err)
{
	struct serializer a = { .mode = SERIALIZE_MEASURE };
	struct frame f = { .magic = HEAD_MAGIC, .version = HEAD_VERSION };
	uint64_t need;
	char *p;

	if (timeline_settle(t, err))
		return -1;
	if (!can_be_saved(t, err))
		return -1;
	pthread_mutex_lock(&t->e->lock);
	head_archive(t, &a);
	f.bytes = a.bytes;
	if (a.bad || size_add(f.bytes, sizeof f + 1, &need) || size_add(need, out->n, &need) || need > SIZE_MAX / 2 ||
	    !(p = realloc(out->p, need))) {
		pthread_mutex_unlock(&t->e->lock);
		return err_set(err, ERR_FIT, "no memory for %.0f MiB of a saved sequence", (double)f.bytes / (1 << 20));
	}
	out->p = p;
	out->cap = MAX(out->cap, need);
	a = (struct serializer){ .mode = SERIALIZE_SAVE, .at = (uint8_t *)p + out->n + sizeof f, .left = f.bytes };
	head_archive(t, &a);
	if (backend_done(t, err))
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

/* Return the bytes behind the frame; NULL and the error if the head is damaged. */
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

int timeline_head_load(struct timeline *t, const void *head, size_t n, struct err *err)
{
	struct serializer a = { .mode = SERIALIZE_LOAD };
	const uint8_t *p;
	int32_t loaded = t->loaded;

	if (!can_be_saved(t, err))
		return -1;
	p = head_open(head, n, err);
	pthread_mutex_lock(&t->e->lock);
	timeline_empty(t);
	t->loaded = loaded;
	if (!loaded)
		kv_clear(&t->cache.kv);
	if (p) {
		a.at = (uint8_t *)(uintptr_t)p;
		a.left = n - sizeof(struct frame);
		head_archive(t, &a);
		t->loaded = 0;
		if (!a.bad) {
			if (!backend_done(t, err))
				return 0;
			pthread_mutex_lock(&t->e->lock);
		} else {
			err_set(err, ERR_FAIL, "the snapshot of a sequence does not fit: %s is not what it must be",
			        a.bad);
		}
	}
	timeline_empty(t);
	pthread_mutex_unlock(&t->e->lock);
	return -1;
}

/* ---- entries without a head ---- */

int32_t timeline_adopt(struct timeline *t, const int32_t *id, const uint8_t *marks, size_t n, struct err *err)
{
	int32_t kept = t->loaded;
	int bad = 0;

	if (!can_be_saved(t, err))
		return -1;
	pthread_mutex_lock(&t->e->lock);
	timeline_empty(t);
	for (size_t i = 0; i < n && n == (size_t)kept; i++)
		bad |= id[i] < 0 || id[i] >= t->cache.hp->n_vocab ||
		       (marks && (marks[i] > MARK_MOST || (marks[i] & 3) == 3));
	if (bad || n != (size_t)kept || kept > t->cache.limit) {
		pthread_mutex_unlock(&t->e->lock);
		return err_set(err, ERR_USAGE,
		               "%zu tokens cannot be those of the entries of %d tokens that were loaded", n, kept);
	}
	kept = cache_take(&t->cache, kept);
	if (backend_done(t, err)) {
		pthread_mutex_lock(&t->e->lock);
		timeline_empty(t);
		pthread_mutex_unlock(&t->e->lock);
		return -1;
	}
	tokens_append(&t->tokens, id, (size_t)kept);
	for (int32_t i = 0; i < kept; i++)
		str_add(&t->marks, marks ? (const char *)marks + i : "", 1);
	t->n_past = kept;
	return kept;
}
