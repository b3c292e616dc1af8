/* tests/measure/snapshots.c - what packing a snapshot costs: bytes, times, and the predictions of the tokens behind it.
 *
 *     make build/tests/measure/snapshots && build/tests/measure/snapshots MODEL.gguf TOKENS SCORED TEXT ...
 *
 * Of each text, TOKENS tokens from token 20,000 on are read and saved as sessions do it; in place of a text, "-" stands
 * for random tokens, whose predictions mean nothing. The snapshot is restored exactly, and SCORED tokens are predicted;
 * then the same after it was packed. Printed for each text: bytes a token and seconds to restore, of both; seconds to
 * save and to pack; the change of perplexity in percent; the mean Kullback-Leibler divergence of the predictions; how
 * often the likeliest token is another one. At last the means over texts with their standard errors. */
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_snapshot.h"
#include "sessions/snap/snap_private.h"

enum { FIRST = 20000, RANDOM = 10000 };

static void stop(const char *what)
{
	fprintf(stderr, "snapshots: %s\n", what);
	exit(1);
}

/* Predictions of the tokens id[n_past + 1 .. n). */
struct predicted {
	const int32_t *id;
	int32_t n, n_vocab, count;
	float *logits; /* [n][n_vocab] of the exact snapshot */
	int packed;    /* 1: the logits of this run are compared with `logits`; 0: they are stored in `logits` */
	double nll[2], kl, other_first; /* nll: [exact, packed] */
};

static int32_t likeliest(const float *logits, int32_t n)
{
	int32_t best = 0;

	for (int32_t i = 1; i < n; i++)
		best = logits[i] > logits[best] ? i : best;
	return best;
}

static double divergence(const float *p, const float *q, int32_t n)
{
	int32_t a = likeliest(p, n), b = likeliest(q, n);
	double zp = 0, zq = 0, sum = 0;

	for (int32_t i = 0; i < n; i++) {
		double e = exp((double)p[i] - (double)p[a]);

		zp += e;
		zq += exp((double)q[i] - (double)q[b]);
		sum += e * (((double)p[i] - (double)p[a]) - ((double)q[i] - (double)q[b]));
	}
	return sum / zp - log(zp) + log(zq);
}

static void predict(int32_t pos, const float *logits, void *ud)
{
	struct predicted *x = ud;
	float *kept = x->logits + (size_t)x->count * (size_t)x->n_vocab;

	if (pos + 1 >= x->n)
		return;
	x->nll[x->packed] -= engine_logprob(logits, x->n_vocab, x->id[pos + 1]);
	if (x->packed) {
		x->kl += divergence(kept, logits, x->n_vocab);
		x->other_first += likeliest(kept, x->n_vocab) != likeliest(logits, x->n_vocab);
	} else {
		memcpy(kept, logits, (size_t)x->n_vocab * sizeof *kept);
	}
	x->count++;
}

/* Save the timeline as the newest snapshot of a session. */
static double save(struct snaps *s, struct engine *e, struct timeline *tl, int64_t session)
{
	struct fingerprint f;
	struct snap_saved saved;
	struct err err = { 0 };

	if (snaps_fingerprint(s, e, tl, &f, &err) || snap_save(s, tl, &f, session, session, NULL, 0, &saved, &err))
		stop(err.msg);
	return saved.seconds;
}

/* Restore the snapshot of session 1 into the emptied timeline. */
static struct snap_loaded restore(struct snaps *s, struct engine *e, struct timeline *tl)
{
	struct fingerprint f;
	struct snap_loaded got;
	struct err err = { 0 };

	if (timeline_sync(tl, NULL, 0, NULL, NULL, &err) < 0 || snaps_fingerprint(s, e, tl, &f, &err))
		stop(err.msg);
	if (snap_load(s, tl, &f, 1, NULL, &got, &err) != 1)
		stop(*got.why ? got.why : err.msg);
	return got;
}

static double pack(struct snaps *s)
{
	struct err err = { 0 };
	double start = now_seconds();
	int dropped = 0;

	s->budget = 1;
	/* One call has a limit of work. */
	do {
		dropped = 0;
		if (db_begin(&s->db, &err) || snaps_read_serial(s, &err) ||
		    db_end(&s->db, snaps_pack_old(s, 0, 0, 0, &dropped, &err), &err))
			stop(err.msg);
	} while (dropped);
	s->budget = (uint64_t)1 << 40;
	return now_seconds() - start;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *f)
{
	(void)st, (void)flag, (void)f;
	return remove(path);
}

static void sums_add(double sum[2], double x)
{
	sum[0] += x;
	sum[1] += x * x;
}

static void sums_print(const char *what, const double sum[2], int n)
{
	double mean = sum[0] / n, var = n > 1 ? (sum[1] - n * mean * mean) / (n - 1) : 0;

	printf("%s %.4f +- %.4f\n", what, mean, sqrt(MAX(var, 0) / n));
}

static void tokens_of(const char *path, struct engine *e, struct tokens *t)
{
	struct str text = { 0 };
	struct err err = { 0 };
	char buf[65536];
	size_t n;
	FILE *f;

	for (int i = 0; !strcmp(path, "-") && i < FIRST + RANDOM; i++)
		tokens_append(t, &(int32_t){ (int32_t)(random() % engine_info(e)->n_vocab) }, 1);
	if (t->n)
		return;
	f = fopen(path, "rb");
	if (!f)
		stop(path);
	while ((n = fread(buf, 1, sizeof buf, f)))
		str_add(&text, buf, n);
	fclose(f);
	if (engine_tokenize(e, str_text(&text), text.n, 0, t, &err))
		stop(err.msg);
	str_free(&text);
}

int main(int argc, char **argv)
{
	int32_t n = argc > 4 ? (int32_t)strtol(argv[2], NULL, 10) : 0,
		scored = argc > 4 ? (int32_t)strtol(argv[3], NULL, 10) : 0;
	double ppl[2] = { 0 }, kl[2] = { 0 }, other[2] = { 0 };
	struct err err = { 0 };
	struct engine *e;

	if (n <= 0 || scored < 2 || engine_open(&e, &(struct engine_options){ .model_path = argv[1] }, &err))
		stop(*err.msg ? err.msg : "MODEL.gguf TOKENS SCORED TEXT ...");
	for (int i = 4; i < argc; i++) {
		struct predicted x = { .n_vocab = engine_info(e)->n_vocab, .n = n + scored };
		struct timeline_options o = { .ctx = n + scored + 8, .kv = "full" };
		struct snaps *s = NULL;
		struct timeline *tl;
		struct tokens t = { 0 };
		char dir[] = "/tmp/weir-snapshots-XXXXXX";
		struct store *store;
		struct snap_loaded exact, near;
		double saved, packed;

		tokens_of(argv[i], e, &t);
		if (t.n < (size_t)(FIRST + n + scored))
			stop("the text is too short");
		x.id = t.id + FIRST;
		x.logits = xcalloc((size_t)scored, (size_t)x.n_vocab * sizeof *x.logits);
		if (!mkdtemp(dir) || store_open(&store, &(struct store_options){ .dir = dir }, &err))
			stop("no folder");
		if (timeline_open(&tl, e, &o, &err) ||
		    snaps_open(&s, store, &(struct snaps_options){ .budget = (uint64_t)1 << 40 }, NULL, &err) ||
		    timeline_sync(tl, x.id, (size_t)n, NULL, NULL, &err) < 0)
			stop(err.msg);
		saved = save(s, e, tl, 1);
		exact = restore(s, e, tl);
		if (timeline_extend(tl, x.id + n, (size_t)scored, 0, predict, &x, &err))
			stop(err.msg);
		if (timeline_sync(tl, x.id, 1, NULL, NULL, &err) < 0)
			stop(err.msg);
		save(s, e, tl, 2); /* what is not the newest can be packed */
		packed = pack(s);
		near = restore(s, e, tl);
		x.packed = 1;
		x.count = 0;
		if (timeline_extend(tl, x.id + n, (size_t)scored, 0, predict, &x, &err))
			stop(err.msg);
		printf("%s: exact %.0f bytes a token, saved in %.3f s, restored in %.3f; near %.0f bytes a token (%d of %d tokens), "
		       "packed in %.3f s, restored in %.3f; perplexity %+.3f %%, divergence %.5f, another likeliest token %.2f %%\n",
		       argv[i], (double)exact.bytes / n, saved, exact.seconds, (double)near.bytes / n, near.packed, n,
		       packed, near.seconds, 100 * (exp((x.nll[1] - x.nll[0]) / x.count) - 1), x.kl / x.count,
		       100 * x.other_first / x.count);
		fflush(stdout);
		sums_add(ppl, 100 * (x.nll[1] - x.nll[0]) / x.count);
		sums_add(kl, x.kl / x.count);
		sums_add(other, 100 * x.other_first / x.count);
		snaps_close(s);
		timeline_close(tl);
		store_close(store);
		nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
		tokens_free(&t);
		free(x.logits);
	}
	sums_print("loss of perplexity in %:", ppl, argc - 4);
	sums_print("divergence:", kl, argc - 4);
	sums_print("another likeliest token in %:", other, argc - 4);
	engine_close(e);
	return 0;
}
