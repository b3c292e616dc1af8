/* app/bench.c - weir bench: how fast, and how close to what the memory gives.
 *
 * The machine comes first: the bytes a second its threads read.  Decoding reads all weights and the cache once a
 * token, so tokens a second times these bytes, beside the bandwidth, say how much is left to win.  The text is
 * pseudo-random: it takes the same work as any other. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/app.h"
#include "app/output.h"

#define BANDWIDTH_BYTES (256u << 20)

struct bench {
	const struct options *o;
	struct engine *engine;
	struct timeline *tl;
	struct tokens text;
	struct progress progress;
	int threads;
	double bandwidth;
	int n_done, n_all;
};

struct sample { double tps[1000]; int n; };

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(struct sample *s)
{
	qsort(s->tps, (size_t)s->n, sizeof *s->tps, by_value);
	return s->n % 2 ? s->tps[s->n / 2] : (s->tps[s->n / 2 - 1] + s->tps[s->n / 2]) / 2;
}

/* Fixed text: ordinary tokens, the same in every run. */
static void fill_text(struct bench *b, size_t n)
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

static int print_line(struct bench *b, struct str *s, struct err *e)
{
	int rc;

	progress_clear(&b->progress);
	rc = print_all(s->p, s->n, e);
	str_free(s);
	return rc;
}

static int report(struct bench *b, const char *test, int32_t n, int32_t depth, struct sample *sample,
                  double bytes_per_token, struct err *e)
{
	struct str s = {0};
	struct timeline_stats st;
	double tps = median(sample), least = sample->tps[0], most = sample->tps[sample->n - 1];
	double gbps = tps * bytes_per_token / 1e9;

	timeline_stats(b->tl, &st);
	if (b->o->json) {
		str_addf(&s, "{\"test\":\"%s\",\"n\":%d,\"depth\":%d,\"kv\":\"%s\",\"kv_type\":\"%s\",\"threads\":%d,\"tps\":", test,
		         n, depth, st.kv, st.kv_type, b->threads);
		json_number(&s, tps, "%.3f");
		str_adds(&s, ",\"tps_min\":");
		json_number(&s, least, "%.3f");
		str_adds(&s, ",\"tps_max\":");
		json_number(&s, most, "%.3f");
		str_adds(&s, ",\"bytes_per_token\":");
		json_number(&s, bytes_per_token, "%.0f");
		str_adds(&s, ",\"gbps\":");
		json_number(&s, gbps, "%.3f");
		str_adds(&s, "}\n");
	} else {
		str_addf(&s, "%-8s %6d %6d %9.1f %9.1f %9.1f  ", test, n, depth, tps, least, most);
		str_addf(&s, "%8.1f %7.2f  %4.0f%%\n", bytes_per_token / 1048576, gbps,
		         b->bandwidth > 0 ? 100 * gbps / b->bandwidth : 0);
	}
	return print_line(b, &s, e);
}

/* Least traffic of reading n tokens: every chunk takes the weights once and the rows before its end once. */
static double prefill_bytes(const struct bench *b, int32_t depth, int32_t n)
{
	struct timeline_stats st;
	double bytes = 0;

	timeline_stats(b->tl, &st);
	for (int32_t at = 0; at < n; at += st.batch) {
		int32_t end = n - at < st.batch ? n : at + st.batch;
		bytes += (double)engine_info(b->engine)->bytes_per_token + (double)timeline_read_bytes(b->tl, depth + end, 0);
	}
	return bytes / n;
}

static int bench_prefill(struct bench *b, int32_t depth, int32_t n, struct err *e)
{
	struct sample s = {.n = 0};

	while (s.n < b->o->reps) {
		double start;
		/* Twice, so that nothing is left of the last repetition. */
		if (timeline_sync(b->tl, NULL, 0, NULL, NULL, e) < 0 ||
		    timeline_sync(b->tl, b->text.id, (size_t)depth, NULL, NULL, e) < 0)
			return -1;
		start = now_seconds();
		if (timeline_sync(b->tl, b->text.id, (size_t)depth + (size_t)n, NULL, NULL, e) < 0)
			return -1;
		s.tps[s.n++] = n / (now_seconds() - start);
		progress_show(&b->progress, ++b->n_done, b->n_all);
	}
	return report(b, "prefill", n, depth, &s, prefill_bytes(b, depth, n), e);
}

static int bench_decode(struct bench *b, int32_t depth, int32_t n, struct err *e)
{
	struct sampling greedy = sampling_default;
	struct sample s = {.n = 0};
	/* Something must be there to continue. */
	size_t fill = depth ? (size_t)depth : 1;

	greedy.temperature = 0;
	while (s.n < b->o->reps) {
		struct step_out step;
		double start;
		if (timeline_sync(b->tl, b->text.id, fill, NULL, NULL, e) < 0)
			return -1;
		start = now_seconds();
		for (int32_t i = 0; i < n; i++) {
			/* A sampled token gets its row when the next one is asked for: the first costs nothing, and n rows
			 * need n + 1 steps.  Where the model would end, random text goes on. */
			int got = timeline_step(b->tl, &greedy, &step, e);
			if (got < 0 || (!got && timeline_extend(b->tl, b->text.id + fill + (size_t)i, 1, 0, NULL, NULL, e) < 0))
				return -1;
		}
		if (timeline_step(b->tl, &greedy, &step, e) < 0)
			return -1;
		s.tps[s.n++] = n / (now_seconds() - start);
		progress_show(&b->progress, ++b->n_done, b->n_all);
	}
	return report(b, "decode", n, depth, &s, (double)engine_info(b->engine)->bytes_per_token +
	              (double)timeline_read_bytes(b->tl, (int32_t)fill + n / 2, 1), e);
}

/* Seconds a generated token takes in the policy's own work, and in all. */
static int policy_seconds(struct timeline *tl, const struct tokens *text, size_t fill, int32_t n, double *own, double *all,
                          struct err *e)
{
	struct sampling greedy = sampling_default;
	struct timeline_stats st;

	greedy.temperature = 0;
	timeline_measure(tl, 1);
	if (timeline_sync(tl, text->id, fill, NULL, NULL, e) < 0)
		return -1;
	for (int32_t i = 0; i <= n; i++) {   /* the first costs nothing, see bench_decode() */
		struct step_out step;
		int got = timeline_step(tl, &greedy, &step, e);
		if (got < 0 || (!got && timeline_extend(tl, text->id + fill + (size_t)i, 1, 1, NULL, NULL, e) < 0))
			return -1;
	}
	timeline_stats(tl, &st);
	timeline_measure(tl, 0);
	*own = st.policy_seconds / n;
	*all = st.decode_seconds / n;
	return 0;
}

/* What a policy costs beyond attention: its own work less that of `full`, which rotates queries and keys, too. */
static int bench_cache_op(struct bench *b, int32_t depth, int32_t n, struct err *e)
{
	struct options plain = *b->o;
	struct timeline *full = NULL;
	struct timeline_stats st;
	struct str s = {0};
	double own, all, base, unused;
	int rc;

	timeline_stats(b->tl, &st);
	if (!strcmp(st.kv, "full"))
		return 0;
	plain.kv = "full";
	if (timeline_open_for(&full, b->engine, &plain, n + 2, e) < 0)
		return -1;
	rc = policy_seconds(full, &b->text, 1, n, &base, &unused, e);
	timeline_close(full);
	if (rc < 0 || policy_seconds(b->tl, &b->text, depth ? (size_t)depth : 1, n, &own, &all, e) < 0)
		return -1;
	own = own > base ? own - base : 0;
	if (b->o->json) {
		str_addf(&s, "{\"test\":\"cache_op\",\"n\":%d,\"depth\":%d,\"kv\":\"%s\",\"kv_type\":\"%s\",\"threads\":%d,"
		         "\"us_per_token\":", n, depth, st.kv, st.kv_type, b->threads);
		json_number(&s, own * 1e6, "%.2f");
		str_adds(&s, ",\"share\":");
		json_number(&s, own / all, "%.5f");
		str_adds(&s, "}\n");
	} else {
		str_addf(&s, "%-8s %6d %6d  %.1f us a token beyond attention, %.1f%% of its time\n", "cache_op", n, depth, own * 1e6,
		         100 * own / all);
	}
	return print_line(b, &s, e);
}

/* Prefill is measured from an empty cache and at every depth, as far as the model was trained for. */
static int n_pairs(const struct bench *b)
{
	return b->o->prefill.n * (b->o->depth.n + 1);
}

/* The i-th: 0 when it is left out. */
static int pair(const struct bench *b, int i, size_t *depth, size_t *n)
{
	int at = i % (b->o->depth.n + 1);

	*n = (size_t)b->o->prefill.v[i / (b->o->depth.n + 1)];
	*depth = at ? (size_t)b->o->depth.v[at - 1] : 0;
	return !at || (*depth && *depth + *n <= (size_t)engine_info(b->engine)->ctx_train);
}

static int bench_all(struct bench *b, struct err *e)
{
	const struct options *o = b->o;
	struct timeline_stats st;
	struct str s = {0};
	size_t most = 0, depth, n;

	for (int i = 0; i < n_pairs(b); i++)
		if (pair(b, i, &depth, &n) && depth + n > most)
			most = depth + n;
	for (int i = 0; i < o->depth.n; i++)
		if ((size_t)o->depth.v[i] + (size_t)o->decode_steps + 2 > most)
			most = (size_t)o->depth.v[i] + (size_t)o->decode_steps + 2;
	if (most > INT32_MAX)
		return err_set(e, ERR_USAGE, "a bench of %zu tokens is beyond what a context can hold", most);
	fill_text(b, most);
	if (timeline_open_for(&b->tl, b->engine, o, o->ctx ? o->ctx : (int32_t)most, e) < 0)
		return -1;
	for (int i = 0; i < n_pairs(b); i++)
		b->n_all += pair(b, i, &depth, &n) ? o->reps : 0;
	b->n_all += o->reps * o->depth.n;
	progress_init(&b->progress, o, "measuring", "runs");
	b->bandwidth = engine_bandwidth(b->threads, BANDWIDTH_BYTES) / 1e9;
	if (o->json) {
		str_adds(&s, "{\"test\":\"bandwidth\",\"gbps\":");
		json_number(&s, b->bandwidth, "%.3f");
		str_addf(&s, ",\"threads\":%d}\n", b->threads);
	} else {
		timeline_stats(b->tl, &st);
		str_addf(&s, "memory read bandwidth %.2f GB/s with %d threads; %s; cache %s, %s\n\n", b->bandwidth, b->threads,
		         engine_info(b->engine)->device, st.kv, st.kv_type);
		str_addf(&s, "%-8s %6s %6s %9s %9s %9s  %8s %7s  %s\n", "test", "tokens", "depth", "t/s", "least", "most",
		         "MiB/tok", "GB/s", "of bandwidth");
	}
	if (print_line(b, &s, e) < 0)
		return -1;
	for (int i = 0; i < n_pairs(b); i++)
		if (pair(b, i, &depth, &n) && bench_prefill(b, (int32_t)depth, (int32_t)n, e) < 0)
			return -1;
	for (int i = 0; i < o->depth.n; i++)
		if (bench_decode(b, o->depth.v[i], o->decode_steps, e) < 0 ||
		    bench_cache_op(b, o->depth.v[i], o->decode_steps, e) < 0)
			return -1;
	return 0;
}

int cmd_bench(const struct options *o)
{
	struct bench b = {.o = o};
	struct err e = {0};
	int rc;

	if (model_open(&b.engine, o, MODEL_RUN, &e) < 0)
		return fail(&e);
	b.threads = engine_info(b.engine)->threads;
	rc = bench_all(&b, &e);
	progress_clear(&b.progress);
	timeline_close(b.tl);
	tokens_free(&b.text);
	engine_close(b.engine);
	return rc < 0 ? fail(&e) : 0;
}
