/* tests/fuzz/fuzz_head.c - libFuzzer target: saved heads of every cache policy, edited, with a correct checksum.
 *
 * 	make fuzz
 * 	build/fuzz/fuzz_head
 *
 * The first byte chooses the policy, the second how many bytes are cut off the head. Then follow edits of eight bytes
 * each: place (3), width (1), value (4). If the head can be loaded, the timeline then computes tokens. That takes as
 * long as about thirty loads, so the fast build does it for one input in USED_ONE_IN only. */
#include "engine/base/base.h"
#include "engine/engine_snapshot.h"
#include "tests/lib/tiny.h"

#ifndef USED_ONE_IN
#define USED_ONE_IN 1
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* clang-format off */
static const struct { const char *kv; int32_t pin; } policy[] = {
	{ "full", 0 }, { "sift:k=24", 0 }, { "refresh:k=24", 0 }, { "streaming++:size=30", 0 }, { "quest:k=64", 0 },
	{ "h2o:k=24", 0 }, { "snapkv:k=30", 0 }, { "kvzip", 0 }, { "sink:size=40,stride=16", 0 }, { "cascade:size=48,stride=16", 0 },
	{ "cascade:size=48,n=3,heads=layer,score=surprise,stride=16", 0 }, { "cascade:size=300,stride=16", 0 },
	{ "auto:k=20,size=48", 60 }, { "auto:prefix=refresh,k=20,size=48", 60 },
	{ "predict:k=24,block=4,first=4,last=8,by=mixed,dense=1", 0 },
};
/* clang-format on */
enum { POLICIES = LEN(policy), FRAME = 32 };

static struct {
	struct timeline *tl;
	struct str head;
	char *rows;
	int32_t ready;
} kept[POLICIES];

/* Prepare policy i with a sequence long enough that it has selected or evicted entries. */
static void prepare(int i)
{
	static struct engine *e;
	struct sampling s = sampling_default;
	struct step_out out;
	struct timeline *tl;
	struct err err = { 0 };
	int32_t id[140];

	if (!e)
		e = tiny_open(&tiny_families[0], 1, TRAINED, 10000);
	for (int k = 0; k < 140; k++)
		id[k] = 3 + k * 7 % (N_VOCAB - 3);
	if (timeline_open(&tl, e, &(struct timeline_options){ .ctx = 256, .batch = 32, .kv = policy[i].kv }, &err) ||
	    timeline_pin(tl, policy[i].pin, &err) || timeline_sync(tl, id, 140, NULL, NULL, &err) < 0)
		abort();
	for (int k = 0; k < 10; k++)
		timeline_step(tl, &s, &out, &err);
	kept[i].tl = tl;
	kept[i].ready = timeline_entries_ready(tl);
	kept[i].rows = xcalloc((size_t)kept[i].ready + 1, timeline_token_bytes(tl, 1));
	if (timeline_entries_save(tl, 0, kept[i].ready, 1, kept[i].rows, &err) ||
	    timeline_head_save(tl, &kept[i].head, &err))
		abort();
}

static void use(struct timeline *tl)
{
	static const int32_t id[] = { 5, 6, 7, 8, 9, 10 };
	struct sampling s = sampling_default;
	struct step_out out;
	struct err err = { 0 };

	for (int k = 0; k < 5; k++)
		timeline_step(tl, &s, &out, &err);
	timeline_extend(tl, id, 6, 0, NULL, NULL, &err);
	timeline_sync(tl, id, 4, NULL, NULL, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct err err = { 0 };
	struct timeline *tl;
	uint64_t magic, frame[2];
	char *head;
	size_t len;
	int i, used = hash64(0, data, n) % USED_ONE_IN == 0;

	if (n < 10)
		return 0;
	i = data[0] % POLICIES;
	if (!kept[i].tl)
		prepare(i);
	tl = kept[i].tl;
	len = kept[i].head.n - (data[1] < 128 ? 0 : (size_t)(data[1] - 127));
	head = xmalloc(len);
	memcpy(head, kept[i].head.p, len);
	for (data += 2, n -= 2; n >= 8; data += 8, n -= 8) {
		size_t at = FRAME + ((size_t)data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) % (len - FRAME);
		size_t width = 1 + data[3] % 4;

		memcpy(head + at, data + 4, width < len - at ? width : len - at);
	}
	memcpy(&magic, head, 8);
	frame[0] = len - FRAME;
	frame[1] = hash64(magic, head + FRAME, len - FRAME);
	memcpy(head + 16, frame, 16);
	if (kept[i].ready && timeline_entries_load(tl, 0, kept[i].ready, 1, kept[i].rows, &err))
		abort();
	if (timeline_head_load(tl, head, len, &err)) {
		size_t had;

		timeline_tokens(tl, &had);
		if (err.code != ERR_FAIL || !*err.msg || had)
			abort();
	} else if (used) {
		use(tl);
	}
	free(head);
	return 0;
}
