/* tests/fuzz/fuzz_model.c - libFuzzer target: models of every family, text encoders, a reader, a reranker and a LoRA
 * adapter, with edited keys and shapes.
 *
 * 	make fuzz
 * 	build/fuzz/fuzz_model corpus build/fuzz/seeds/model
 *
 * Run it in the root of the source, because the models are in tests/vectors/models. The first byte chooses the file
 * that is edited: one of the models, or from 128 on the adapter. The rest are edits of eight bytes: place (3), width
 * (1), value (4). Places are bytes of the header outside long lists such as the vocabulary, which fuzz_token and
 * fuzz_gguf edit. If the model can be opened, it then computes some tokens. That takes longer than opening, so the fast
 * build does it for one input in USED_ONE_IN only. */
#include <glob.h>
#include <sys/mman.h>

#include "engine/encoder.h"
#include "engine/engine.h"
#include "engine/gguf/gguf.h"
#include "tests/lib/tiny.h"

#ifndef USED_ONE_IN
#define USED_ONE_IN 1
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { FILES = 64, PLACES = 65536, RECORD_MOST = 512 };

static struct base {
	char *bytes;
	size_t n;
	uint32_t *place;
	size_t n_place;
} model[FILES], adapter;
static int models;
static int tiny; /* file descriptor of the model that the adapter belongs to */

static void add_places(struct base *b, uint64_t from, uint64_t to)
{
	if (to - from <= RECORD_MOST)
		for (; from < to && b->n_place < PLACES; from++)
			b->place[b->n_place++] = (uint32_t)from;
}

static void find_places(struct base *b)
{
	struct gguf *g;
	struct err err = { 0 };
	uint64_t data = b->n;

	if (gguf_parse(&g, "base", b->bytes, b->n, &err) || !g->n_tensor)
		abort();
	b->place = xcalloc(PLACES, sizeof *b->place);
	for (uint64_t i = 0; i < g->n_tensor; i++)
		data = g->tensor[i].at < data ? g->tensor[i].at : data;
	for (uint64_t i = 0; i < g->n_kv; i++)
		add_places(b, g->kv[i].off, i + 1 < g->n_kv ? g->kv[i + 1].off : g->tensor[0].off);
	for (uint64_t i = 0; i < g->n_tensor; i++)
		add_places(b, g->tensor[i].off, i + 1 < g->n_tensor ? g->tensor[i + 1].off : data);
	gguf_close(g);
}

static void read_models(void)
{
	glob_t found;

	if (glob("tests/vectors/models/*.gguf", 0, NULL, &found))
		abort(); /* the models were not found: run this from the root of the source */
	for (size_t i = 0; i < found.gl_pathc && models < FILES; i++) {
		FILE *f = fopen(found.gl_pathv[i], "rb");
		struct base *b = &model[models++];

		if (!f || fseek(f, 0, SEEK_END))
			abort();
		b->n = (size_t)ftell(f);
		b->bytes = xmalloc(b->n);
		rewind(f);
		if (fread(b->bytes, 1, b->n, f) != b->n)
			abort();
		fclose(f);
		find_places(b);
	}
	globfree(&found);
}

static void make_adapter(void)
{
	static const struct {
		const char *name;
		int32_t rows, cols;
	} pair[] = {
		{ "blk.0.attn_q.weight", HEADS * HEAD, WIDTH },
		{ "blk.1.attn_output.weight", WIDTH, HEADS * HEAD },
		{ "blk.2.ffn_down.weight", WIDTH, FF },
	};
	enum { RANK = 4 };
	struct mk m = { 0 };
	struct str file = { 0 };

	tiny_fd = &tiny;
	engine_close(tiny_open(&tiny_families[0], 1, TRAINED, 10000));
	mk_string(&m, "general.architecture", tiny_families[0].arch);
	mk_string(&m, "general.type", "adapter");
	mk_string(&m, "adapter.type", "lora");
	mk_f32(&m, "adapter.lora.alpha", 8);
	for (size_t i = 0; i < LEN(pair); i++) {
		char name[64];

		snprintf(name, sizeof name, "%s.lora_a", pair[i].name);
		tiny_weights(&m, name, RANK, pair[i].cols);
		snprintf(name, sizeof name, "%s.lora_b", pair[i].name);
		tiny_weights(&m, name, pair[i].rows, RANK);
	}
	mk_finish(&m, &file);
	adapter.bytes = file.p;
	adapter.n = file.n;
	find_places(&adapter);
}

/* Return the descriptor of an edited copy in memory (memfd), which has a path in /proc while it is open. */
static int edited(const struct base *b, const uint8_t *data, size_t n)
{
	int fd = memfd_create("fuzz", 0);

	if (fd < 0 || write(fd, b->bytes, b->n) != (ssize_t)b->n)
		abort();
	for (; n >= 8; data += 8, n -= 8) {
		size_t at = b->place[((size_t)data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) % b->n_place];

		if (pwrite(fd, data + 4, 1 + data[3] % 4, (off_t)at) < 1)
			abort();
	}
	return fd;
}

static void use(struct engine *e)
{
	static const int32_t id[] = { 1, 2, 3, 4, 5, 6 };
	struct sampling s = sampling_default;
	struct timeline *tl;
	struct step_out out;
	struct err err = { 0 };

	if (timeline_open(&tl, e, &(struct timeline_options){ .ctx = 32, .batch = 4, .kv = "full" }, &err)) {
		if (!*err.msg)
			abort();
		return;
	}
	if (timeline_sync(tl, id, engine_info(e)->n_vocab > 6 ? 6 : 1, NULL, NULL, &err) >= 0)
		for (int k = 0; k < 2; k++)
			timeline_step(tl, &s, &out, &err);
	timeline_close(tl);
}

/* Load the file as a reader of an encoder, and use it if that works. */
static void use_reader(enum encoder_reader_for reader, const char *path)
{
	struct encoder *e;
	struct encoder_string text = { "is it", 5 };
	struct encoder_answer answer;
	struct err err = { 0 };

	if (encoder_open(&e, "tests/vectors/models/bert.gguf", "cpu", 1, &err))
		abort();
	if (!encoder_reader_open(e, reader, path, &err))
		encoder_read(e, reader, text, &text, 1, &answer, NULL, &err);
	else if (!*err.msg)
		abort();
	encoder_close(e);
}

/* Open the file as a text encoder, and use it if that works; else try it as a reader. */
static void use_encoder(const char *path)
{
	static const int32_t id[] = { 1, 2, 3, 4 };
	struct encoder *e;
	struct err err = { 0 };
	float *out;

	if (encoder_open(&e, path, "cpu", 1, &err)) {
		if (!*err.msg)
			abort();
		use_reader(READER_ANY, path);
		use_reader(READER_ENGLISH, path);
		return;
	}
	out = xcalloc(2 * (size_t)encoder_dims(e), sizeof *out);
	encoder_embed(e, (struct encoder_text[]){ { .id = id, .n = 4 }, { .id = id, .n = 1 } }, 2, out, NULL, &err);
	encoder_texts(e, ENCODER_QUERY_ADAPTED, &(struct encoder_string){ "Is it?", 6 }, 1, out, NULL, &err);
	free(out);
	encoder_close(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct engine_options o = { .device = "cpu", .threads = 1, .lora_scale = 1 };
	struct engine *e = NULL;
	struct err err = { 0 };
	char path[2][40];
	int fd;

	if (!n)
		return 0;
	if (!models) {
		read_models();
		make_adapter();
	}
	fd = edited(data[0] < 128 ? &model[data[0] % models] : &adapter, data + 1, n - 1);
	snprintf(path[0], sizeof path[0], "/proc/self/fd/%d", fd);
	snprintf(path[1], sizeof path[1], "/proc/self/fd/%d", tiny);
	o.model_path = path[data[0] >= 128];
	o.lora = data[0] >= 128 ? path[0] : NULL;
	if (engine_open(&e, &o, &err)) {
		if (!o.lora)
			use_encoder(path[0]);
		/* A refusal must leave e at NULL, and set an error with one printable sentence. */
		if (e || !err.code || !*err.msg)
			abort();
		for (const char *p = err.msg; *p; p++)
			if ((unsigned char)*p < 0x20 || (unsigned char)*p == 0x7f)
				abort();
	} else {
		if (hash64(0, data, n) % USED_ONE_IN == 0)
			use(e);
		engine_close(e);
	}
	close(fd);
	return 0;
}
