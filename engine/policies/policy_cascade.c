/* engine/policies/policy_cascade.c - the settings of policies that evict: `sink`, `cascade` and `auto`. Under `auto`
 * generated tokens read the pinned prefix (system prompt, documents) by selection. */
#include "engine/cache/cascade_shape.h"
#include "engine/policies/policy.h"

#define SIZE_MOST (1 << 24)
/* Settings that several of the policies have. OFF(field) gives the offset of the field in the policy's settings. */
#define SINKS(OFF)                                                                                                     \
	{                                                                                                              \
		"sinks", PARAM_INT, OFF(sinks), 0, 65536, NULL, "4", "first tokens, which stay for good"               \
	}
#define STRIDE(OFF)                                                                                                    \
	{                                                                                                              \
		"stride", PARAM_INT, OFF(stride), 1, 65536, NULL, "512",                                               \
			"tokens read at once, each seeing the cache as it was before them"                             \
	}
#define RINGS(OFF)                                                                                                     \
	{                                                                                                              \
		"n", PARAM_INT, OFF(n), 1, RINGS_MOST, NULL, "2",                                                      \
			"rings; more reach further back and hold less of what is near"                                 \
	}

/* ---- sink, cascade ---- */

#define OWN(field) offsetof(struct cascade_params, field)

static const struct param sink_params[] = {
	{ "size", PARAM_INT, OWN(size), 1, SIZE_MOST, NULL, "1024", "tokens kept behind the sinks" },
	SINKS(OWN),
	STRIDE(OWN),
	{ .key = NULL },
};

static void sink_preset(void *values)
{
	struct cascade_params *p = values;

	p->n = 1;
	p->f = 2;
	p->select = 0;
}

static const struct param cascade_settings[] = {
	{ "size", PARAM_INT, OWN(size), 1, SIZE_MOST, NULL, "1024", "tokens kept behind the sinks" },
	RINGS(OWN),
	SINKS(OWN),
	{ "f", PARAM_INT, OWN(f), 0, 0, "2|3|4", "2", "each ring accepts one of so many that the one before accepted" },
	{ "heads", PARAM_CHOICE, OWN(heads), 0, 0, "kv|layer", "kv",
	  "who decides what stays: each KV head, or a layer" },
	{ "reduce", PARAM_CHOICE, OWN(reduce), 0, 0, "max|mean|median", "max",
	  "what the query heads of a decision make of their attention" },
	{ "select", PARAM_INT, OWN(select), 0, 1, NULL, "1", "0: nothing is compared, the newer token stays" },
	{ "score", PARAM_CHOICE, OWN(score), 0, 0, "attn|surprise", "attn",
	  "what decides: attention received; that times the model's surprise at the token" },
	REMOVED("gamma", "0", 0x0p+0),
	STRIDE(OWN),
	{ .key = NULL },
};

const struct policy_def policy_sink = {
	.name = "sink",
	.help = "the first tokens and the newest ones stay; endless",
	.params = sink_params,
	.published = "stride=1",
	.preset = sink_preset,
	.retention = &retain_cascade,
};
const struct policy_def policy_cascade = {
	.name = "cascade",
	.help = "sinks, and rings in which fewer and fewer, but important, older tokens stay; endless",
	.params = cascade_settings,
	.published = "n=4,heads=layer,reduce=mean,stride=1",
	.retention = &retain_cascade,
};

/* ---- auto ---- */

enum { PREFIX_SIFT, PREFIX_REFRESH, PREFIX_FULL };
struct auto_params {
	/* must be the first member, because retain_cascade.c reads the settings as a struct cascade_params */
	struct cascade_params stream;
	struct entry_count k;
	double s;
	int32_t bits, sample, qc, pool;
	int prefix, split;
};
_Static_assert(sizeof(struct auto_params) <= POLICY_VALUES, "settings do not fit");

#define STREAM(field) offsetof(struct auto_params, stream.field)
static const struct param auto_params[] = {
	{ "prefix", PARAM_CHOICE, offsetof(struct auto_params, prefix), 0, 0, "sift|refresh|full", "sift",
	  "how answers read the system prompt and the documents" },
	{ "k", PARAM_COUNT, offsetof(struct auto_params, k), 1, COUNT_MOST, NULL, "256",
	  "KV entries of them that a generated token reads per KV head" },
	{ "bits", PARAM_INT, offsetof(struct auto_params, bits), 0, 0, "2|4|8|16", "2",
	  "sift: bits a value of the key sketch" },
	REMOVED("every", "1", 1),
	{ "split", PARAM_CHOICE, offsetof(struct auto_params, split), 0, 0, "need|even", "need",
	  "sift: how k is shared among the layers" },
	{ "sample", PARAM_INT, offsetof(struct auto_params, sample), 0, 4096, NULL, "128",
	  "sift: entries beside the k that stand for all others of them" },
	{ "qc", PARAM_INT, offsetof(struct auto_params, qc), 1, 1000, NULL, "5",
	  "refresh: steps between two comparisons of the query" },
	{ "s", PARAM_REAL, offsetof(struct auto_params, s), -2, 2, NULL, "0.85",
	  "refresh: a query less like the last one selects anew" },
	PARAM_POOL(struct auto_params, "15", "refresh: neighbours pooled before selecting"),
	REMOVED("group", "max", 0),
	REMOVED("scan", "k", 0),
	{ "size", PARAM_INT, STREAM(size), 0, SIZE_MOST, NULL, "0",
	  "tokens of the conversation that are kept; 0 = what the context leaves" },
	RINGS(STREAM),
	REMOVED("sinks", "4", 4),
	REMOVED("f", "2", 2),
	REMOVED("heads", "kv", 0),
	REMOVED("reduce", "max", 0),
	REMOVED("score", "attn", 0),
	{ .key = NULL },
};

static void auto_preset(void *values)
{
	struct auto_params *p = values;

	p->stream.sinks = 4;
	p->stream.f = 2;
	p->stream.select = 1;
	p->stream.fill = 1;
}

static void auto_compose(const struct policy *policy, struct policy *selects)
{
	const struct auto_params *p = (const void *)policy->values;

	*selects = (struct policy){ 0 };
	if (p->prefix == PREFIX_FULL)
		return;
	policy_preset(selects, p->prefix == PREFIX_SIFT ? &policy_sift : &policy_refresh);
	policy_inherit(selects, policy, p->prefix == PREFIX_SIFT ? "k|bits|split|sample" : "k|qc|s|pool");
}

const struct policy_def policy_auto = {
	.name = "auto",
	.help = "system prompt and documents stay and are read by selection; the conversation runs through a cascade, endless",
	.params = auto_params,
	.preset = auto_preset,
	.retention = &retain_cascade,
	.compose = auto_compose,
};
