/* engine/policies/select_snapkv.c - the policy `snapkv`: at the end of a prefill, k entries are selected once for all
 * decoded tokens. They are the entries of the prefill's last `window` tokens, and the entries to which these tokens
 * attend most (max-pooled attention mass). Tokens decoded later are all read.
 *
 * The published method (SnapKV) evicts all other entries. Here the other entries stay in the cache, but decoded tokens
 * do not read them. This allows comparison with other policies. The next prefill attends to all entries, and then
 * selects anew. */
#include "engine/policies/select_mass.h"

#include <stdlib.h>

#include "engine/cache/cache.h"
#include "engine/cache/serialize.h"

struct snapkv_params {
	struct entry_count k;
	int32_t window, pool;
};

struct snapkv {
	struct step_mass mass;
	int selected; /* 1: decoded tokens read only selected entries; 0: they read all entries */
	int32_t from; /* all slots from this one on are read, in addition to the selected slots */
};

static const struct snapkv_params *par_of(const struct selector *s)
{
	return s->par;
}

static uint64_t snapkv_bytes(const void *values, const struct hparams *hp, const struct backend *be, int32_t cap)
{
	return step_mass_bytes(hp, ((const struct snapkv_params *)values)->k, cap);
}

static int snapkv_init(struct selector *s, struct err *err)
{
	struct snapkv *f = s->state = xcalloc(1, sizeof *f);

	s->tail = par_of(s)->window;
	return step_mass_init(&f->mass, s, par_of(s)->k, err);
}

static void snapkv_release(struct selector *s)
{
	step_mass_release(&((struct snapkv *)s->state)->mass, s);
}

/* List in seg[] the slots that a token reads: the selected slots, and all slots from f->from on. */
static int snapkv_segments(const struct selector *s, int32_t layer, const struct tensor *q, int32_t n_slots,
                           struct attn_segment seg[SELECT_SEGMENTS])
{
	struct snapkv *f = s->state;
	int n = 0;

	if (!f->selected)
		return select_whole(q, n_slots, seg);
	if (f->mass.n > 0)
		seg[n++] = (struct attn_segment){ .q = q, .slots = &f->mass.slots[layer], .n_slots = f->mass.n };
	seg[n++] = (struct attn_segment){ .q = q, .slot0 = f->from, .n_slots = n_slots - f->from };
	return n;
}

static int snapkv_select(struct selector *s, const struct step *st, int32_t layer, const struct tensor *q,
                         const struct tensor *raw, int32_t n_slots, struct attn_segment seg[SELECT_SEGMENTS])
{
	return snapkv_segments(s, layer, q, n_slots, seg);
}

static int snapkv_holds(const struct selector *s, int32_t layer, int32_t n_slots,
                        struct attn_segment seg[SELECT_SEGMENTS])
{
	return snapkv_segments(s, layer, NULL, n_slots, seg);
}

/* Return the number of tokens at the end of the step whose attention is summed. */
static int32_t tokens_counted(const struct selector *s, const struct step *st)
{
	if (step_generates(st) || !st->last)
		return 0;
	return MIN(st->n, s->tail);
}

static const struct attn_probe *snapkv_probe(struct selector *s, const struct step *st, int32_t layer, int32_t n_slots)
{
	struct snapkv *f = s->state;
	int32_t n = tokens_counted(s, st);

	if (!n)
		return NULL;
	return step_mass_probe(&f->mass, s, st, layer, n, n_slots, par_of(s)->window > 1 ? REDUCE_MEAN : REDUCE_MAX);
}

static void snapkv_end(struct selector *s, const struct step *st, int32_t n_slots)
{
	struct snapkv *f = s->state;
	int32_t k = entry_count_of(par_of(s)->k, n_slots), window = tokens_counted(s, st);

	if (step_generates(st))
		return;
	f->selected = st->last && k < n_slots;
	if (!f->selected)
		return;
	window = MIN(window, k);
	f->from = n_slots - window;
	f->mass.n = k - window;
	for (int32_t i = 0; f->mass.n > 0 && i < s->kv->n_layer; i++)
		step_mass_select(&f->mass, s, i, f->from, par_of(s)->pool);
}

static int32_t snapkv_rewind(struct selector *s, int32_t n)
{
	((struct snapkv *)s->state)->selected = 0;
	return n < s->tail ? 0 : n - s->tail;
}

static int32_t snapkv_entries(const struct selector *s, int32_t n_slots)
{
	return entry_count_of(par_of(s)->k, n_slots);
}

static uint64_t snapkv_read_bytes(const struct selector *s, int32_t n_slots)
{
	double k = entry_count_of(par_of(s)->k, n_slots);

	return select_entry_bytes(s, MIN(k, n_slots));
}

static void snapkv_archive(struct selector *s, struct serializer *a, int32_t n_slots)
{
	struct snapkv *f = s->state;
	int32_t selected = f->selected, most = MIN(f->mass.most, n_slots);

	if (serialize_loading(a))
		f->selected = 0;
	serialize_i32(a, &selected, 0, 1, "whether slots were selected");
	if (!selected || a->bad)
		return;
	serialize_i32(a, &f->mass.n, 0, most, "the number of selected slots");
	serialize_i32(a, &f->from, f->mass.n, n_slots, "the slots beside those selected");
	for (int32_t i = 0; i < s->kv->n_layer && !a->bad; i++)
		step_mass_archive(&f->mass, s, a, i, n_slots);
	if (!a->bad)
		f->selected = 1;
}

/* clang-format off */
static const struct selector_ops snapkv_ops = {
	.bytes = snapkv_bytes, .init = snapkv_init, .release = snapkv_release, .select = snapkv_select, .probe = snapkv_probe,
	.end = snapkv_end, .rewind = snapkv_rewind, .entries = snapkv_entries, .read_bytes = snapkv_read_bytes,
	.archive = snapkv_archive, .holds = snapkv_holds,
};
/* clang-format on */

#define AT(field) offsetof(struct snapkv_params, field)
static const struct param snapkv_params[] = {
	PARAM_K(struct snapkv_params, "512"),
	{ "window", PARAM_INT, AT(window), 0, 0, "1|32|64", "32",
	  "last tokens whose attention selects; 1: largest of a group, else the mean" },
	PARAM_POOL(struct snapkv_params, "7", "neighbours pooled before selecting"),
	REMOVED("kind", "max", 0),
	REMOVED("dense", "0", 0),
	{ .key = NULL },
};
const struct policy_def policy_snapkv = {
	.name = "snapkv",
	.help = "k entries selected once at the end of the prefill, and all that comes later; the others stay unread (SnapKV)",
	.params = snapkv_params,
	.retention = &retain_all,
	.selector = &snapkv_ops,
};
