/* tests/engine/t_gguf_split.c - a model in several files (parts) gives the same logits as in one file, whichever part
 * is opened. If parts do not belong together, the error names the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"
#include "tests/lib/test.h"
#include "tests/lib/mkgguf.h"

#define WHOLE "tests/vectors/models/qwen3.gguf"
enum { PARTS = 3 };

static char dir[] = "/tmp/weir-split-XXXXXX";

static const char *part_name(int i, int of)
{
	static char path[PARTS + 1][80];

	snprintf(path[i], sizeof path[i], "%s/toy-%05d-of-%05d.gguf", dir, i + 1, of);
	return path[i];
}

static void put_split(struct str *b, int no, int count)
{
	put_key(b, "split.no", GGUF_U16);
	put_u16(b, (uint64_t)no);
	put_key(b, "split.count", GGUF_U16);
	put_u16(b, (uint64_t)count);
}

/* Write part i with tensors i, i + PARTS, ... of the model; the first part also has the metadata. says: the part number
 * that is written in the file. */
static void write_part(const struct gguf *g, int i, int says, int count, int again)
{
	struct str b = { 0 }, data = { 0 };
	uint64_t n = 0;
	FILE *f;

	for (uint64_t t = 0; t < g->n_tensor; t++)
		n += (int)(t % PARTS) == i || (again && !t);
	put_header(&b, 3, n, (i ? 0 : g->n_kv) + 2);
	if (!i)
		str_add(&b, (const char *)g->base + 24, (size_t)g->tensor[0].off - 24);
	put_split(&b, says, count);
	for (uint64_t t = 0; t < g->n_tensor; t++) {
		const struct gguf_tensor *x = &g->tensor[t];
		char name[80];

		if ((int)(t % PARTS) != i && !(again && !t))
			continue;
		snprintf(name, sizeof name, "%.*s", (int)x->name.n, x->name.p);
		put_pad(&data, 32);
		put_tensor(&b, name, (uint32_t)x->n_dims, x->ne, (uint32_t)dtype_info(x->type)->ggml_id, data.n);
		str_add(&data, x->data, (size_t)x->bytes);
	}
	put_pad(&b, 32);
	str_add(&b, data.p, data.n);
	f = fopen(part_name(i, count), "w");
	CHECK(f && fwrite(b.p, 1, b.n, f) == b.n && !fclose(f));
	str_free(&b);
	str_free(&data);
}

static void keep(int32_t pos, const float *logits, void *ud)
{
	(void)pos;
	memcpy(ud, logits, 264 * sizeof *logits);
}

/* Set logits[] to the logits after some tokens. Returns 0, or -1 with *err set. */
static int answer(const char *path, float logits[264], struct err *err)
{
	const int32_t id[] = { 5, 77, 30, 101, 5 };
	struct engine *e = NULL;
	struct timeline *tl = NULL;
	int rc;

	if (engine_open(&e, &(struct engine_options){ .model_path = path, .device = "cpu", .threads = 1 }, err))
		return -1;
	rc = timeline_open(&tl, e, &(struct timeline_options){ .ctx = 32 }, err) ||
	                     timeline_extend(tl, id, 5, 0, keep, logits, err)
	             ? -1
	             : 0;
	timeline_close(tl);
	engine_close(e);
	return rc;
}

static void refused(const char *path, const char *why)
{
	float logits[264];
	struct err e = { 0 };

	CHECK_INT(answer(path, logits, &e), -1);
	CHECK_MSG(strstr(e.msg, why) != NULL, "no \"%s\" in: %s", why, e.msg);
}

TEST(parts_are_one_model)
{
	struct gguf *g = NULL;
	struct err e = { 0 };
	float whole[264], parts[264];

	CHECK(mkdtemp(dir) != NULL);
	CHECK_MSG(!gguf_open(&g, test_file(WHOLE), &e), "%s", e.msg);
	CHECK(!answer(test_file(WHOLE), whole, &e));
	for (int i = 0; i < PARTS; i++)
		write_part(g, i, i, PARTS, 0);
	for (int i = 0; i < PARTS; i++) {
		memset(parts, 0, sizeof parts);
		CHECK_MSG(!answer(part_name(i, PARTS), parts, &e), "%s", e.msg);
		CHECK(!memcmp(whole, parts, sizeof whole));
	}
	/* Parts that do not belong together. */
	write_part(g, 1, 2, PARTS, 0);
	refused(part_name(0, PARTS), "this says that it is part 3 of 3, and must be part 2 of 3");
	write_part(g, 1, 1, PARTS, 1);
	refused(part_name(0, PARTS), "is in another part of the model, too");
	unlink(part_name(1, PARTS));
	refused(part_name(0, PARTS), "toy-00002-of-00003.gguf': cannot be opened");
	{
		char alone[80];

		snprintf(alone, sizeof alone, "%s/alone.gguf", dir);
		CHECK(!rename(part_name(0, PARTS), alone));
		refused(alone, "the parts' names must end with -00001-of-00003.gguf");
		unlink(alone);
	}
	unlink(part_name(2, PARTS));
	rmdir(dir);
	gguf_close(g);
}
