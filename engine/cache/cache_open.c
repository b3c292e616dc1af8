/* engine/cache/cache_open.c - how much memory and disk a cache takes; opening and closing its parts. See cache.h. */
#include "engine/cache/cache.h"

#include "engine/cache/kv_host.h"
#include "engine/cache/kv_file_cache.h"

/* ---- sizes ---- */

/* Set *out to the policy whose selector is used. If there is no selector, set out->def to NULL. */
static void selects_of(const struct cache *c, struct policy *out)
{
	*out = c->policy;
	if (c->policy.def->compose)
		c->policy.def->compose(&c->policy, out);
	else if (!c->policy.def->selector)
		out->def = NULL;
}

/* 1 if queries are needed both before and after RoPE, so that c->q must hold the rotated queries. */
static int needs_q(const struct cache *c, const struct policy *selects)
{
	return selects->def || !cache_keeps_all(c);
}

static int32_t most_heads(const struct hparams *hp)
{
	int32_t most = 0;

	for (int32_t i = 0; i < hp->n_layer; i++) {
		int32_t n = model_layer_spec(hp, i)->attn.n_head;

		most = MAX(n, most);
	}
	return most;
}

static int32_t chunk_of(const struct cache *c)
{
	return c->policy.def->retention->chunk ? c->policy.def->retention->chunk(c) : c->batch;
}

static struct kv_shape shape_in_memory(const struct cache *c)
{
	const struct retention_ops *r = c->policy.def->retention;

	return (struct kv_shape){ .cap = r->cap(c), .ctx = c->ctx, .step = chunk_of(c), .endless = r->endless };
}

/* Return the size of the cache in bytes if all planes are in memory. */
static uint64_t all_bytes(const struct cache *c)
{
	const struct retention_ops *r = c->policy.def->retention;
	struct kv_shape shape = shape_in_memory(c);
	uint64_t sum, more = rope_bytes(c->hp, c->batch) + windows_bytes(c);
	struct policy selects = { .def = NULL };

	if (size_add(kv_bytes(c->hp, c->types, &shape), more, &sum))
		return UINT64_MAX;
	selects_of(c, &selects);
	if (c->model)
		sum += recurrent_bytes(c->model);
	if (needs_q(c, &selects))
		sum += 4 * (uint64_t)c->batch * (uint64_t)widest_queries(c->hp);
	if (c->read_share > 0)
		sum += (uint64_t)c->batch * (uint64_t)most_heads(c->hp) * (uint64_t)cache_block_bytes(shape.cap);
	if (size_add(sum, r->bytes(c), &sum))
		return UINT64_MAX;
	if (selects.def) {
		more = selects.def->selector->bytes(selects.values, c->hp, c->be, shape.cap);
		if (size_add(sum, more, &sum))
			return UINT64_MAX;
	}
	return sum;
}

int32_t cache_listed(const struct cache *c)
{
	const struct retention_ops *r = c->policy.def->retention;
	struct policy selects;

	selects_of(c, &selects);
	return r->keeps_all && selects.def && selects.def->selector->listed
	               ? selects.def->selector->listed(selects.values, r->cap(c))
	               : 0;
}

/* Compute the cache's sizes for a GPU whose limit c->memory is too small for all keys and values, so that they are kept
 * in host memory. `planes` is the size of keys and values in bytes, `rest` that of all other buffers. */
static struct cache_size size_beside(const struct cache *c, uint64_t planes, uint64_t rest)
{
	int32_t cap = c->policy.def->retention->cap(c), listed = cache_listed(c);
	struct cache_size size = { .host = planes, .least = rest };

	if (!listed) { /* this policy needs all keys and values on the GPU, so no limit is large enough */
		size.least = size.memory = UINT64_MAX;
		return size;
	}
	size.least += kv_host_bytes(c->hp, c->types, cap, kv_host_lines_least(listed, cap), listed);
	size.memory = MAX(size.least, c->memory);
	return size;
}

struct cache_size cache_size(const struct cache *c)
{
	struct cache_size size = { .memory = all_bytes(c) };
	int32_t cap = c->policy.def->retention->cap(c);
	uint64_t planes, rest;

	if (!c->memory || size.memory <= c->memory || size.memory == UINT64_MAX)
		return size;
	planes = kv_full_token_bytes(c->hp, c->types) * (uint64_t)cap;
	rest = size.memory - planes;
	if (c->be->device)
		return size_beside(c, planes, rest);
	size.disk = kv_disk_bytes(c->hp, c->types, cap);
	size.least = rest + kv_disk_least(c->hp, c->types, cap);
	size.memory = MAX(size.least, c->memory);
	return size;
}

/* If keys and values are on disk, selected entries are cached in memory. The memory cache must hold at least 1 /
 * LINES_LEAST of all entries, because a smaller one would hold hardly more entries than one token selects. */
enum { LINES_LEAST = 16 };

/* If keys and values are on disk, selected entries are cached in memory (struct kv_file_cache). Return how many entries
 * per KV head can be cached in `bytes` bytes. Return 0 if this number is below the limit of LINES_LEAST. Also return 0
 * if decoded tokens read all entries. */
static int32_t disk_lines_for(const struct cache *c, uint64_t bytes, int32_t cap)
{
	uint64_t none = kv_file_cache_bytes(c->hp, c->types, cap, 0),
		 one = kv_file_cache_bytes(c->hp, c->types, cap, 1) - none, lines;
	struct policy selects;

	selects_of(c, &selects);
	if (!selects.def || bytes <= none)
		return 0;
	lines = (bytes - none) / one;
	lines = lines < (uint64_t)cap ? lines : (uint64_t)cap;
	return lines < (uint64_t)cap / LINES_LEAST ? 0 : (int32_t)lines;
}

/* If keys and values are in host memory beside a GPU, selected entries are cached in GPU memory (kv_host.h). Return how
 * many entries per KV head can be cached there. `bytes` is the GPU memory beyond the required minimum. */
static int32_t device_lines(const struct cache *c, uint64_t bytes, int32_t cap, int32_t listed)
{
	int32_t least = kv_host_lines_least(listed, cap);
	uint64_t one = kv_host_bytes(c->hp, c->types, cap, least + 1, listed) -
	               kv_host_bytes(c->hp, c->types, cap, least, listed);
	uint64_t lines = (uint64_t)least + (one ? bytes / one : 0);

	return lines < (uint64_t)cap ? (int32_t)lines : cap;
}

static struct kv_shape shape_of(const struct cache *c)
{
	struct kv_shape shape = shape_in_memory(c);
	struct cache_size size = cache_size(c);

	if (size.host) {
		shape.listed = cache_listed(c);
		shape.device_lines = device_lines(c, size.memory - size.least, shape.cap, shape.listed);
	}
	if (!size.disk)
		return shape;
	shape.resident = c->memory - size.least + kv_disk_least(c->hp, c->types, shape.cap);
	shape.unreserved = c->takes_store;
	shape.lines = disk_lines_for(c, c->memory - size.least, shape.cap);
	if (shape.lines)
		shape.resident -= kv_file_cache_bytes(c->hp, c->types, shape.cap, shape.lines);
	return shape;
}

uint64_t cache_resident_bytes(const struct cache *c)
{
	uint64_t planes = kv_full_token_bytes(c->hp, c->types) * (uint64_t)c->kv.cap;

	if (c->kv.host)
		return all_bytes(c) - planes +
		       kv_host_bytes(c->hp, c->types, c->kv.cap, c->kv.host->lines, c->kv.host->listed);
	return all_bytes(c) - (c->kv.disk ? planes - kv_disk_resident(&c->kv) : 0) +
	       (c->kv.file_cache ? kv_file_cache_bytes(c->hp, c->types, c->kv.cap, c->kv.file_cache->lines) : 0);
}

/* ---- life ---- */

int cache_alloc(struct cache *c, struct tensor *t, enum dtype type, int64_t rows, int64_t cols, struct err *err)
{
	if (rows > INT32_MAX || cols > INT32_MAX)
		return err_set(err, ERR_FIT,
		               "cache policy '%s' cannot address so many KV entries; use a smaller -c or size",
		               c->policy.def->name);
	*t = (struct tensor){ .type = type, .rows = (int32_t)rows, .cols = (int32_t)cols };
	if (!c->be->ops->alloc(c->be, t))
		return 0;
	t->data = NULL;
	return err_set(err, ERR_FIT, "cannot allocate the buffers of cache policy '%s': %s", c->policy.def->name,
	               c->be->err);
}

void cache_drop(struct cache *c, struct tensor *t)
{
	if (t->data)
		c->be->ops->drop(c->be, t);
	*t = (struct tensor){ 0 };
}

static int open_parts(struct cache *c, struct err *err)
{
	const struct retention_ops *r = c->policy.def->retention;
	struct kv_shape shape;

	c->limit = r->endless ? ENDLESS : c->ctx;
	c->chunk = chunk_of(c);
	c->region = -1;
	selects_of(c, &c->selects);
	if ((c->model && recurrent_open(&c->recurrent, c->be, c->model, err)) || r->init(c, err))
		return -1;
	shape = shape_of(c);
	if (kv_init(&c->kv, c->be, c->hp, c->types, &shape, err) ||
	    rope_init(&c->rope, c->hp, c->be, c->chunk, shape.cap, err) || windows_open(c, err) ||
	    (needs_q(c, &c->selects) && cache_alloc(c, &c->q, DT_F32, c->chunk, widest_queries(c->hp), err)) ||
	    (c->read_share > 0 && cache_alloc(c, &c->blocks, DT_U8, c->chunk,
	                                      (int64_t)most_heads(c->hp) * cache_block_bytes(c->kv.cap), err)))
		return -1;
	if (c->selects.def && select_open(&c->sel, &c->selects, &c->kv, cache_keeps_all(c), err))
		return -1;
	r->selector_opened(c);
	return 0;
}

int cache_open(struct cache *c, struct err *err)
{
	if (!open_parts(c, err))
		return 0;
	cache_close(c);
	return -1;
}

void cache_close(struct cache *c)
{
	if (!c->be)
		return;
	if (c->sel.ops)
		select_close(&c->sel);
	if (c->retained)
		c->policy.def->retention->release(c);
	c->retained = NULL;
	cache_drop(c, &c->q);
	cache_drop(c, &c->blocks);
	for (struct one_token *one = c->one; one < c->one + VERIFY_MOST; one++) {
		cache_drop(c, &one->raw);
		cache_drop(c, &one->out);
		for (int i = 0; i <= RINGS_MOST; i++)
			cache_drop(c, &one->frame[i]);
	}
	if (c->rope.be)
		rope_release(&c->rope);
	windows_close(c);
	if (c->recurrent.hp)
		recurrent_close(&c->recurrent);
	if (c->kv.be)
		kv_release(&c->kv);
}
