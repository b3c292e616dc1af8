/* engine/policies/select_recent.c - the policy `streaming++`: decoded tokens read the first entries (attention sinks)
 * and the newest entries. Every stride-th token reads all entries. */
#include "engine/cache/select.h"

#include <stdlib.h>

#include "engine/cache/serialize.h"
#include "engine/cache/cache.h"

struct recent_params {
	int32_t size, stride, sinks;
};
_Static_assert(sizeof(struct recent_params) <= POLICY_VALUES, "settings do not fit");

struct recent {
	int32_t start; /* length of the sequence after the last prefill, from which strides are counted */
};

static const struct recent_params *par_of(const struct selector *s)
{
	return s->par;
}

static uint64_t recent_bytes(const void *values, const struct hparams *hp, const struct backend *be, int32_t cap)
{
	return 0;
}

static int recent_init(struct selector *s, struct err *err)
{
	s->state = xcalloc(1, sizeof(struct recent));
	return 0;
}

static int recent_select(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                         const struct tensor *raw, int32_t n_slots, struct attn_segment seg[SELECT_SEGMENTS])
{
	struct recent *f = s->state;
	int32_t sinks = par_of(s)->sinks, size = par_of(s)->size;

	if (n_slots - sinks <= size || (st->pos + 1 - f->start) % par_of(s)->stride == 0)
		return select_whole(q, n_slots, seg);
	seg[0] = (struct attn_segment){ .q = q, .n_slots = sinks };
	seg[sinks > 0] = (struct attn_segment){ .q = q, .slot0 = n_slots - size, .n_slots = size };
	return 1 + (sinks > 0);
}

static void recent_end(struct selector *s, const struct step *st, int32_t n_slots)
{
	struct recent *f = s->state;

	if (!step_generates(st))
		f->start = st->pos + st->n;
}

/* Roll back to the first n tokens. If the end of the last prefill is removed, the last remaining token must be
 * prefilled again, because strides are counted from the end of a prefill. */
static int32_t recent_rewind(struct selector *s, int32_t n)
{
	struct recent *f = s->state;

	if (n >= f->start)
		return n;
	f->start = 0;
	return n > 0 ? n - 1 : 0;
}

static double mean_entries(const struct selector *s, int32_t n_slots)
{
	double some = par_of(s)->size + par_of(s)->sinks, often = 1.0 / par_of(s)->stride;

	return some >= n_slots ? n_slots : often * n_slots + (1 - often) * some;
}

static int32_t recent_entries(const struct selector *s, int32_t n_slots)
{
	return (int32_t)mean_entries(s, n_slots);
}

static uint64_t recent_read_bytes(const struct selector *s, int32_t n_slots)
{
	return select_entry_bytes(s, mean_entries(s, n_slots));
}

static void recent_archive(struct selector *s, struct serializer *a, int32_t n_slots)
{
	struct recent *f = s->state;

	serialize_i32(a, &f->start, 0, INT32_MAX, "the end of the prefill");
}

static const struct selector_ops recent_ops = {
	.bytes = recent_bytes,
	.init = recent_init,
	.select = recent_select,
	.end = recent_end,
	.rewind = recent_rewind,
	.entries = recent_entries,
	.read_bytes = recent_read_bytes,
	.archive = recent_archive,
};

#define AT(field) offsetof(struct recent_params, field)
static const struct param streaming_params[] = {
	{ "size", PARAM_INT, AT(size), 1, 1e9, NULL, "512", "newest entries that are read" },
	PARAM_STRIDE(struct recent_params, "10"),
	{ "sinks", PARAM_INT, AT(sinks), 0, 1000, NULL, "4", "first entries that are read" },
	REMOVED("positions", "text", 0),
	REMOVED("dense", "0", 0),
	{ .key = NULL },
};
const struct policy_def policy_streaming = {
	.name = "streaming++",
	.help = "every token stays; first and newest entries are read, everything at every stride-th token",
	.params = streaming_params,
	.retention = &retain_all,
	.selector = &recent_ops,
};
