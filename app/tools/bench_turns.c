/* app/tools/bench_turns.c - weir bench --turns N: compares policies and depths on a machine whose speed varies.
 *
 * Every policy has a separate sequence at every depth, and all sequences are open at once. In each round (turn) every
 * sequence generates a few tokens, so the speeds of a round are measured within seconds of each other. Speeds are
 * compared within a round; the result is the median of the ratios over all rounds. A sequence whose depth is less than
 * SHORT tokens is rolled back after a round, because a longer cache would make it slower. */
#include <stdlib.h>
#include <string.h>

#include "app/tools/bench.h"
#include "engine/base/json.h"
#include "app/models/models.h"

/* A sequence whose depth is less than SHORT tokens is rolled back to its depth before each turn except the first. */
enum { SHORT = 512 };

struct runner {
	const char *kv;
	struct timeline *tl;
	int32_t depth;
	size_t at;        /* number of tokens in the sequence */
	double tps[1000]; /* tps[turn] is the speed in tokens per second */
};

static int runner_open(struct bench *b, struct runner *r, struct err *e)
{
	struct timeline_stats st;
	size_t fill = r->depth ? (size_t)r->depth : 1; /* decoding needs a sequence of at least one token */

	b->each = *b->o;
	b->each.kv = r->kv;
	if (timeline_open_for(&r->tl, b->engine, &b->each, b->o->ctx ? b->o->ctx : (int32_t)b->text.n, e) < 0)
		return -1;
	timeline_stats(r->tl, &st);
	if (!r->kv)
		r->kv = st.kv;
	if (!strcmp(b->o->fill, "random") && !st.endless && r->depth && bench_fill_entries(b, r->tl, r->depth, e) < 0)
		return -1;
	r->at = fill;
	return timeline_sync(r->tl, b->text.id, fill, NULL, NULL, e) < 0 ? -1 : 0;
}

/* Time one turn of one sequence. The first step after a prefill is not timed: a step computes the token that the
 * previous step has sampled, so the first step computes nothing. */
static int runner_turn(struct bench *b, struct runner *r, int turn, struct err *e)
{
	int32_t n = b->o->decode_steps;
	double start;

	if (r->depth < SHORT && turn) {
		r->at = r->depth ? (size_t)r->depth : 1;
		if (timeline_sync(r->tl, b->text.id, r->at, NULL, NULL, e) < 0)
			return -1;
	}
	if ((r->depth < SHORT || !turn) && bench_steps(b, r->tl, r->at++, 1, e) < 0)
		return -1;
	start = now_seconds();
	if (bench_steps(b, r->tl, r->at, n, e) < 0)
		return -1;
	r->tps[turn] = n / (now_seconds() - start);
	r->at += (size_t)n;
	return 0;
}

/* Return the median, over the turns, of the speed of sequence `r` divided by the speed of sequence `base`. */
static double ratio_of(const struct runner *r, const struct runner *base, int turns)
{
	struct timings s = { .n = turns };

	for (int i = 0; i < turns; i++)
		s.v[i] = r->tps[i] / base->tps[i];
	return timings_median(&s);
}

/* Append the speed of runner r (a token sequence under one policy), compared with two others. `first` has the same
 * depth, under the first policy. `shallow` has the smallest depth, under the same policy. */
static void runner_report(const struct bench *b, const struct runner *r, const struct runner *first,
                          const struct runner *shallow, struct str *out)
{
	struct timings s = { .n = b->o->turns };
	double bytes = (double)engine_info(b->engine)->bytes_per_token +
	               (double)timeline_read_bytes(r->tl, (int32_t)r->at, 1),
	       tps;

	memcpy(s.v, r->tps, (size_t)s.n * sizeof *s.v);
	tps = timings_median(&s);
	if (b->o->json) {
		json_open(out, NULL, '{');
		json_string(out, "test", "turns");
		json_int(out, "n", b->o->decode_steps);
		json_int(out, "turns", b->o->turns);
		json_int(out, "depth", r->depth);
		json_string(out, "kv", r->kv);
		json_int(out, "threads", b->threads);
		json_real(out, "tps", tps, "%.3f");
		json_real(out, "tps_lower", s.v[s.n / 4], "%.3f");
		json_real(out, "tps_upper", s.v[(3 * s.n) / 4], "%.3f");
		json_real(out, "bytes_per_token", bytes, "%.0f");
		json_real(out, "of_first", ratio_of(r, first, s.n), "%.4f");
		json_real(out, "of_shallow", ratio_of(r, shallow, s.n), "%.4f");
		json_close(out, '}');
		str_adds(out, "\n");
	} else {
		str_addf(out, "%-26s %6d %9.1f %9.1f %9.1f  %8.1f %9.0f%% %11.2f\n", r->kv, r->depth, tps, s.v[s.n / 4],
		         s.v[(3 * s.n) / 4], bytes / 1048576, 100 * ratio_of(r, shallow, s.n), ratio_of(r, first, s.n));
	}
}

static int turns_run(struct bench *b, struct runner *r, int n, struct err *e)
{
	b->n_all = b->o->turns;
	progress_init(&b->progress, b->o->quiet, b->o->verbose, "opening", "sequences");
	for (int i = 0; i < n; i++) {
		progress_show(&b->progress, i, n);
		if (runner_open(b, &r[i], e) < 0)
			return -1;
	}
	progress_clear(&b->progress);
	progress_init(&b->progress, b->o->quiet, b->o->verbose, "measuring", "turns");
	for (int turn = 0; turn < b->o->turns; turn++) {
		progress_show(&b->progress, turn, b->n_all);
		for (int i = 0; i < n; i++)
			if (runner_turn(b, &r[i], turn, e) < 0)
				return -1;
	}
	return 0;
}

static int turns_report(struct bench *b, const struct runner *r, int kvs, int depths, struct err *e)
{
	struct str s = { 0 };
	int least = 0;

	for (int d = 0; d < depths; d++)
		least = r[d].depth < r[least].depth ? d : least;
	bench_machine(b, &s);
	if (!b->o->json)
		str_addf(&s, "%s; medians of %d turns of %d tokens\n\n%-26s %6s %9s %9s %9s  %8s %10s %11s\n",
		         engine_info(b->engine)->device, b->o->turns, b->o->decode_steps, "policy", "depth", "t/s",
		         "quarter", "three", "MiB/tok", "of its own", "x the first");
	for (int k = 0; k < kvs; k++)
		for (int d = 0; d < depths; d++)
			runner_report(b, &r[k * depths + d], &r[d], &r[k * depths + least], &s);
	return bench_print(b, &s, e);
}

int bench_turns(struct bench *b, struct err *e)
{
	const struct options *o = b->o;
	int kvs = o->kvs.n ? (int)o->kvs.n : 1, depths = o->depth.n, n = kvs * depths, rc;
	int64_t deepest = 0, most;
	struct runner *r = xcalloc((size_t)n, sizeof *r);

	for (int i = 0; i < n; i++) {
		r[i].kv = o->kvs.n ? o->kvs.v[i / depths] : o->kv;
		r[i].depth = o->depth.v[i % depths];
		deepest = r[i].depth > deepest ? r[i].depth : deepest;
	}
	most = deepest + (int64_t)o->turns * o->decode_steps + 2;
	if (most > INT32_MAX)
		rc = err_set(e, ERR_USAGE, "%lld tokens exceed the longest context", (long long)most);
	else {
		bench_text(b, (size_t)most);
		rc = turns_run(b, r, n, e);
		if (!rc)
			rc = turns_report(b, r, kvs, depths, e);
	}
	for (int i = 0; i < n; i++)
		timeline_close(r[i].tl);
	free(r);
	return rc;
}
