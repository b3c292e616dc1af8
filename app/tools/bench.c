/* app/tools/bench.c - weir bench: measures prefill and decode speed, and compares them with the limits of the machine.
 *
 * To decode a token, all weights and the KV cache are read once. So decode is compared with the memory bandwidth (on a
 * GPU: the speed of copying inside its memory). Prefill is compared with the 8-bit multiply-adds per second; only
 * multiply-adds with weights are counted. The text is pseudo-random, which takes the same work as any text. --fill
 * random fills the cache with random KV entries, which reaches a depth of 128K tokens in seconds. */
#include <stdlib.h>
#include <string.h>

#include "app/tools/bench.h"
#include "engine/base/json.h"
#include "app/models/models.h"
#include "engine/engine_machine.h"
#include "engine/engine_snapshot.h"

#define BANDWIDTH_BYTES (256u << 20)
#define COPY_BYTES      (1024u << 20)

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double timings_median(struct timings *s)
{
	qsort(s->v, (size_t)s->n, sizeof *s->v, by_value);
	return s->n % 2 ? s->v[s->n / 2] : (s->v[s->n / 2 - 1] + s->v[s->n / 2]) / 2;
}

static int by_depth(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x < y) - (x > y);
}

/* Extend b->text to n pseudo-random tokens, which are the same in every run. */
void bench_text(struct bench *b, size_t n)
{
	int32_t n_vocab = engine_info(b->engine)->n_vocab;
	uint64_t state = 1;

	while (b->text.n < n) {
		int32_t id;
		state = state * 6364136223846793005u + 1442695040888963407u;
		id = (int32_t)((state >> 33) % (uint64_t)n_vocab);
		if (!engine_is_end(b->engine, id))
			tokens_add(&b->text, id);
	}
}

int bench_print(struct bench *b, struct str *s, struct err *e)
{
	int rc;

	progress_clear(&b->progress);
	rc = print_all(s->p, s->n, e);
	str_free(s);
	return rc;
}

/* Begin the JSON object of a measurement: what was measured, and the figures of the cache. */
static void json_measured(struct str *out, const char *test, int32_t n, int32_t depth, const struct timeline_stats *st,
                          int threads)
{
	json_open(out, NULL, '{');
	json_string(out, "test", test);
	json_int(out, "n", n);
	json_int(out, "depth", depth);
	json_string(out, "kv", st->kv);
	json_string(out, "kv_type", st->kv_type);
	if (st->kv_disk_bytes || st->kv_host_bytes) {
		json_uint(out, st->kv_host_bytes ? "kv_host_bytes" : "kv_disk_bytes",
		          st->kv_disk_bytes + st->kv_host_bytes);
		json_uint(out, "kv_resident_bytes", st->kv_resident_bytes);
		json_real(out, "kv_fetched", st->kv_fetched, "%.0f");
		json_real(out, "kv_overlap", st->kv_overlap, "%.4f");
	}
	json_int(out, "threads", threads);
}

int bench_report(struct bench *b, const char *test, int32_t n, int32_t depth, struct timings *times,
                 double bytes_per_token, double macs_per_token, struct err *e)
{
	struct str s = { 0 };
	struct timeline_stats st;
	double tps = timings_median(times), least = times->v[0], most = times->v[times->n - 1];
	double gbps = tps * bytes_per_token / 1e9, gmacs = tps * macs_per_token / 1e9;

	timeline_stats(b->tl, &st);
	if (b->o->json) {
		json_measured(&s, test, n, depth, &st, b->threads);
		json_real(&s, "tps", tps, "%.3f");
		json_real(&s, "tps_min", least, "%.3f");
		json_real(&s, "tps_max", most, "%.3f");
		json_real(&s, "bytes_per_token", bytes_per_token, "%.0f");
		json_real(&s, "gbps", gbps, "%.3f");
		if (macs_per_token > 0) {
			json_real(&s, "macs_per_token", macs_per_token, "%.0f");
			json_real(&s, "gmacs", gmacs, "%.3f");
		}
		json_close(&s, '}');
		str_adds(&s, "\n");
	} else {
		str_addf(&s, "%-8s %6d %6d %9.1f %9.1f %9.1f  ", test, n, depth, tps, least, most);
		str_addf(&s, "%8.1f %7.2f  %9.0f%%", bytes_per_token / 1048576, gbps,
		         b->bandwidth > 0 ? 100 * gbps / b->bandwidth : 0);
		if (macs_per_token > 0 && b->arithmetic > 0)
			str_addf(&s, "  %10.0f%%", 100 * gmacs / b->arithmetic);
		str_adds(&s, "\n");
	}
	return bench_print(b, &s, e);
}

/* Return how many bytes a prefill of n tokens must read, divided by n. Each chunk reads all weights once, and also the
 * KV entries up to the end of the chunk. */
static double prefill_bytes(const struct bench *b, int32_t depth, int32_t n)
{
	struct timeline_stats st;
	double bytes = 0;

	timeline_stats(b->tl, &st);
	for (int32_t at = 0; at < n; at += st.batch) {
		int32_t end = n - at < st.batch ? n : at + st.batch;
		bytes += (double)engine_info(b->engine)->bytes_per_token +
		         (double)timeline_read_bytes(b->tl, depth + end, 0);
	}
	return bytes / n;
}

/* Return the number of multiply-adds with weights per token in a prefill of n tokens. Every token passes through all
 * layers; only the last token passes through the output head. */
static double prefill_macs(const struct bench *b, int32_t n)
{
	const struct engine_info *i = engine_info(b->engine);
	double heads = 2.0 * i->head_dim * (i->n_head + i->n_kv_head);

	return i->n_layer * (double)i->n_embd * (heads + 3.0 * i->n_ff) + (double)i->n_embd * i->n_vocab / n;
}

/* ---- filling the cache with random entries ---- */

/* Fill p with random entries. In every element type, any two bytes form a float of moderate size and either sign. So no
 * value, and no scale of a block, is NaN, infinite or denormal. */
static void random_entries(uint8_t *p, size_t bytes)
{
	static uint64_t state = 88172645463325252u;
	const uint64_t keep = 0x8383838383838383u, set = 0x3c3c3c3c3c3c3c3cu;

	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t v;

		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		v = (state & keep) | set;
		memcpy(p + i, &v, bytes - i < 8 ? bytes - i : 8);
	}
}

int bench_fill_entries(struct bench *b, struct timeline *tl, int32_t depth, struct err *e)
{
	enum { PIECE = 256 };
	uint64_t row = timeline_token_bytes(tl, 1);
	uint8_t *rows;
	int rc = 0;

	rows = xmalloc((size_t)row * PIECE);
	for (int32_t at = 0; !rc && at < depth; at += PIECE) {
		int32_t n = depth - at < PIECE ? depth - at : PIECE;

		random_entries(rows, (size_t)row * (size_t)n);
		rc = timeline_entries_load(tl, at, n, 1, rows, e);
	}
	free(rows);
	return rc || timeline_adopt(tl, b->text.id, NULL, (size_t)depth, e) < 0 ? -1 : 0;
}

static int bench_prefill(struct bench *b, int32_t depth, int32_t n, struct err *e)
{
	struct timings s = { .n = 0 };

	while (s.n < b->o->reps) {
		double start;
		/* Remove the tokens of the last repetition. The first `depth` tokens stay, so that they are prefilled
		 * only once. */
		if (timeline_sync(b->tl, b->text.id, (size_t)depth, NULL, NULL, e) < 0)
			return -1;
		start = now_seconds();
		if (timeline_sync(b->tl, b->text.id, (size_t)depth + (size_t)n, NULL, NULL, e) < 0)
			return -1;
		s.v[s.n++] = n / (now_seconds() - start);
		progress_show(&b->progress, ++b->n_done, b->n_all);
	}
	return bench_report(b, "prefill", n, depth, &s, prefill_bytes(b, depth, n), prefill_macs(b, n), e);
}

int bench_steps(struct bench *b, struct timeline *tl, size_t at, int32_t n, struct err *e)
{
	struct sampling greedy = sampling_default;

	greedy.temperature = 0;
	for (int32_t i = 0; i < n; i++) {
		struct step_out step;
		int got = timeline_step(tl, &greedy, &step, e);

		if (got < 0 || (!got && timeline_extend(tl, b->text.id + at + (size_t)i, 1, 1, NULL, NULL, e) < 0))
			return -1;
	}
	return 0;
}

static int bench_decode(struct bench *b, int32_t depth, int32_t n, struct err *e)
{
	struct timings s = { .n = 0 };
	/* decoding needs a sequence of at least one token */
	size_t fill = depth ? (size_t)depth : 1;

	while (s.n < b->o->reps) {
		double start;

		if (timeline_sync(b->tl, b->text.id, fill, NULL, NULL, e) < 0)
			return -1;
		start = now_seconds();
		/* a step computes the token that the previous step has sampled: so the first step computes nothing, and
		 * n tokens need n + 1 steps */
		if (bench_steps(b, b->tl, fill, n + 1, e) < 0)
			return -1;
		s.v[s.n++] = n / (now_seconds() - start);
		progress_show(&b->progress, ++b->n_done, b->n_all);
	}
	return bench_report(b, "decode", n, depth, &s,
	                    (double)engine_info(b->engine)->bytes_per_token +
	                            (double)timeline_read_bytes(b->tl, (int32_t)fill + n / 2, 1),
	                    0, e);
}

/* Measure the seconds per generated token, after `fill` tokens. *own receives the seconds of the policy's own work, and
 * *all the seconds of all work. Both are set only if the new *own is smaller than the old one. Returns 0 or -1. */
static int policy_seconds(struct bench *b, struct timeline *tl, size_t fill, int32_t n, double *own, double *all,
                          struct err *e)
{
	struct timeline_stats st;

	timeline_measure(tl, 1);
	if (timeline_sync(tl, b->text.id, fill, NULL, NULL, e) < 0 || bench_steps(b, tl, fill, n + 1, e) < 0)
		return -1;
	timeline_stats(tl, &st);
	timeline_measure(tl, 0);
	if (st.policy_seconds / n < *own) {
		*own = st.policy_seconds / n;
		*all = st.decode_seconds / n;
	}
	return 0;
}

/* Measure the seconds per generated token, after `fill` tokens. If the new value is smaller than *least, store it
 * there. Returns 0 or -1. */
static int token_seconds(struct bench *b, struct timeline *tl, size_t fill, int32_t n, double *least, struct err *e)
{
	double start;

	/* The first step computes nothing (see bench_decode()), so it is not timed. */
	if (timeline_sync(tl, b->text.id, fill, NULL, NULL, e) < 0 || bench_steps(b, tl, fill, 1, e) < 0)
		return -1;
	start = now_seconds();
	if (bench_steps(b, tl, fill + 1, n, e) < 0)
		return -1;
	if ((now_seconds() - start) / n < *least)
		*least = (now_seconds() - start) / n;
	return 0;
}

/* Measure what a bounded cache costs on a GPU: (time of a token) - (time of a token under `full` with as many KV
 * entries). Whole tokens are timed, because a call returns before the GPU has done its work. */
static int gpu_cache_op(struct bench *b, int32_t depth, int32_t n, struct err *e)
{
	struct options plain = *b->o;
	struct timeline *full = NULL;
	struct timeline_stats st;
	struct str s = { 0 };
	double with = 1e9, without = 1e9;
	size_t fill = depth ? (size_t)depth : 1, rows;
	int rc = 0;

	if (token_seconds(b, b->tl, fill, n, &with, e) < 0)
		return -1;
	timeline_stats(b->tl, &st);
	rows = fill < (size_t)st.ctx ? fill : (size_t)st.ctx;
	plain.kv = "full";
	if (timeline_open_for(&full, b->engine, &plain, (int32_t)rows + n + 2, e) < 0)
		return -1;
	for (int i = 0; !rc && i < 5; i++) {
		rc = token_seconds(b, full, rows, n, &without, e);
		if (!rc)
			rc = token_seconds(b, b->tl, fill, n, &with, e);
	}
	timeline_close(full);
	if (rc < 0)
		return -1;
	if (b->o->json) {
		json_measured(&s, "cache_op", n, depth, &st, b->threads);
		json_real(&s, "us_per_token", (with - without) * 1e6, "%.2f");
		json_real(&s, "share", (with - without) / with, "%.5f");
		json_close(&s, '}');
		str_adds(&s, "\n");
	} else {
		str_addf(&s, "%-8s %6d %6d  %.1f us a token more than `full` with %zu KV entries, %.1f%% of its time\n",
		         "cache_op", n, depth, (with - without) * 1e6, rows, 100 * (with - without) / with);
	}
	return bench_print(b, &s, e);
}

/* Measure what a policy costs beyond attention. From the time of its own work, subtract the time that the policy `full`
 * needs for its own work, which is to rotate queries and keys. The difference is a few microseconds, so the shortest
 * time of several repetitions is taken. */
static int bench_cache_op(struct bench *b, int32_t depth, int32_t n, struct err *e)
{
	struct options plain = *b->o;
	struct timeline *full = NULL;
	struct timeline_stats st;
	struct str s = { 0 };
	double own = 1e9, all = 1e9, base = 1e9, unused = 1e9;
	int rc = 0;

	timeline_stats(b->tl, &st);
	if (!strcmp(st.kv, "full"))
		return 0;
	if (b->gpu)
		return st.endless ? gpu_cache_op(b, depth, n, e) : 0;
	plain.kv = "full";
	if (timeline_open_for(&full, b->engine, &plain, n + 2, e) < 0)
		return -1;
	for (int i = 0; !rc && i < 3; i++) {
		rc = policy_seconds(b, full, 1, n, &base, &unused, e);
		if (!rc)
			rc = policy_seconds(b, b->tl, depth ? (size_t)depth : 1, n, &own, &all, e);
	}
	timeline_close(full);
	if (rc < 0)
		return -1;
	own = own > base ? own - base : 0;
	if (b->o->json) {
		json_measured(&s, "cache_op", n, depth, &st, b->threads);
		json_real(&s, "us_per_token", own * 1e6, "%.2f");
		json_real(&s, "share", own / all, "%.5f");
		json_close(&s, '}');
		str_adds(&s, "\n");
	} else {
		str_addf(&s, "%-8s %6d %6d  %.1f us a token beyond attention, %.1f%% of its time\n", "cache_op", n,
		         depth, own * 1e6, 100 * own / all);
	}
	return bench_print(b, &s, e);
}

/* ---- the command ---- */

/* 1 if a prefill of n tokens is also measured at this depth. Depth and prefill together must fit the context that the
 * model was trained for. */
static int prefill_at(const struct bench *b, int32_t depth, int32_t n)
{
	return depth > 0 && (int64_t)depth + n <= engine_info(b->engine)->ctx_train;
}

void bench_machine(struct bench *b, struct str *s)
{
	const char *device = engine_info(b->engine)->device;
	/* copy 1/64 of the GPU's memory, but no more than COPY_BYTES: this is larger than the GPU's cache */
	uint64_t part = engine_info(b->engine)->device_total / 64, copy = MIN(part, COPY_BYTES);

	if (b->measured++)
		return;
	b->bandwidth =
		(b->gpu ? engine_copy_bandwidth(b->engine, copy) : engine_bandwidth(b->threads, BANDWIDTH_BYTES)) / 1e9;
	b->arithmetic = b->gpu ? 0 : engine_arithmetic(b->threads) / 1e9;
	if (b->o->json) {
		json_open(s, NULL, '{');
		json_string(s, "test", "bandwidth");
		json_real(s, "gbps", b->bandwidth, "%.3f");
		json_int(s, "threads", b->threads);
		json_string(s, "device", device);
		json_close(s, '}');
		str_adds(s, "\n");
		if (!b->gpu) {
			json_open(s, NULL, '{');
			json_string(s, "test", "arithmetic");
			json_real(s, "gmacs", b->arithmetic, "%.3f");
			json_int(s, "threads", b->threads);
			json_close(s, '}');
			str_adds(s, "\n");
		}
	} else if (b->gpu) {
		str_addf(s, "copying inside the GPU's memory %.0f GB/s, read and written\n", b->bandwidth);
	} else {
		str_addf(s,
		         "memory read bandwidth %.2f GB/s, 8-bit arithmetic %.0f G multiply-adds/s with %d threads\n",
		         b->bandwidth, b->arithmetic, b->threads);
	}
}

static int bench_head(struct bench *b, struct err *e)
{
	struct timeline_stats st;
	struct str s = { 0 };
	int first = !b->measured;

	bench_machine(b, &s);
	if (!b->o->json) {
		timeline_stats(b->tl, &st);
		str_addf(&s, "%s%s; cache %s, %s\n\n", first ? "" : "\n", engine_info(b->engine)->device, st.kv,
		         st.kv_type);
		str_addf(&s, "%-8s %6s %6s %9s %9s %9s  %8s %7s  %s%s\n", "test", "tokens", "depth", "t/s", "least",
		         "most", "MiB/tok", "GB/s", "of memory", b->gpu ? "" : "  of arithm.");
	}
	return s.n ? bench_print(b, &s, e) : 0;
}

static int bench_all(struct bench *b, struct err *e)
{
	const struct options *o = b->o;
	int made_up = !strcmp(o->fill, "random");
	struct timeline_stats st;
	int32_t shortest = INT32_MAX, most = 0, depth[LEN(o->depth.v)];

	for (int i = 0; i < o->prefill.n; i++) {
		if (o->prefill.v[i] < shortest)
			shortest = o->prefill.v[i];
		if (o->prefill.v[i] > most)
			most = o->prefill.v[i];
	}
	/* measure the greatest depth first, because smaller depths reuse its tokens */
	for (int i = 0; i < o->depth.n; i++)
		depth[i] = o->depth.v[i];
	qsort(depth, (size_t)o->depth.n, sizeof depth[0], by_depth);
	b->n_all = o->reps * (o->prefill.n + o->depth.n);
	for (int i = 0; i < o->depth.n; i++) {
		int64_t need = (int64_t)depth[i] + o->decode_steps + 2;

		if (prefill_at(b, depth[i], shortest)) {
			need = need < (int64_t)depth[i] + shortest ? (int64_t)depth[i] + shortest : need;
			b->n_all += o->reps;
		}
		if (need > INT32_MAX)
			return err_set(e, ERR_USAGE, "%lld tokens exceed the longest context", (long long)need);
		most = most < need ? (int32_t)need : most;
	}
	bench_text(b, (size_t)most);
	if (timeline_open_for(&b->tl, b->engine, o, o->ctx ? o->ctx : most, e) < 0)
		return -1;
	progress_init(&b->progress, o->quiet, o->verbose, "measuring", "runs");
	if (bench_head(b, e) < 0)
		return -1;
	for (int i = 0; i < o->prefill.n; i++)
		if (bench_prefill(b, 0, o->prefill.v[i], e) < 0)
			return -1;
	/* --fill random: fill the cache with random entries. A bounded cache has too few slots for them, so it is
	 * filled by prefill. */
	timeline_stats(b->tl, &st);
	if (made_up && !st.endless && o->depth.n && depth[0] && bench_fill_entries(b, b->tl, depth[0], e) < 0)
		return -1;
	for (int i = 0; i < o->depth.n; i++)
		if ((prefill_at(b, depth[i], shortest) && bench_prefill(b, depth[i], shortest, e) < 0) ||
		    bench_decode(b, depth[i], o->decode_steps, e) < 0 ||
		    bench_cache_op(b, depth[i], o->decode_steps, e) < 0 ||
		    (!made_up && bench_snapshot(b, depth[i], e) < 0))
			return -1;
	return 0;
}

/* Measure every policy of the command line, one after the other, on the same weights. */
static int bench_policies(struct bench *b, const struct options *o, struct err *e)
{
	for (int i = 0; i < (o->kvs.n ? o->kvs.n : 1); i++) {
		b->each = *o;
		b->each.kv = o->kvs.n ? o->kvs.v[i] : o->kv;
		b->o = &b->each;
		b->n_done = 0;
		if (bench_all(b, e) < 0)
			return -1;
		progress_clear(&b->progress);
		timeline_close(b->tl);
		b->tl = NULL;
	}
	return 0;
}

int cmd_bench(const struct options *o)
{
	struct bench b = { .n_done = 0 };
	struct err e = { 0 };
	int rc;

	if (model_open(&b.engine, o, MODEL_RUN, &e) < 0)
		return fail(&e);
	b.threads = engine_info(b.engine)->threads;
	b.gpu = engine_info(b.engine)->device_total > 0;
	b.o = o;
	rc = o->turns ? bench_turns(&b, &e) : bench_policies(&b, o, &e);
	progress_clear(&b.progress);
	timeline_close(b.tl);
	tokens_free(&b.text);
	engine_close(b.engine);
	return rc < 0 ? fail(&e) : 0;
}
