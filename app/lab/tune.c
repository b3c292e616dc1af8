/* app/lab/tune.c - weir eval tune: finds the best value of a policy's setting.
 *
 * The last tokens of windows of a text are computed one at a time: under full attention, and under the policy with each
 * value. With more KV entries read, the perplexity is usually lower. So `tune` considers all values whose perplexity is
 * within one standard error of the lowest one, and recommends the value with which the policy reads the fewest entries.
 * The standard error is that of the difference between two perplexities, paired by window. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/lab/lab.h"
#include "app/lab/score.h"
#include "app/lab/window.h"
#include "app/models/models.h"
#include "engine/lab/lab.h"

/* FULL is the index of the policy `full` in tune.kvs. The policies to compare follow it. */
enum { WINDOW = 2048, LAST = 128, FULL = 0 };

struct tune {
	const struct options *o;
	struct engine *engine;
	struct shared_timeline line;
	struct checkpoint checkpoint;
	struct policy_list kvs;
	const char *asked; /* the policy to tune */
	/* kv[i] is policy i of `kvs` as text, and value[i] is its value of the setting `key` */
	struct str kv[LIST_MAX], value[LIST_MAX], key;
	int32_t window, last;
	double *loss; /* [windows][LIST_MAX]: mean loss per token, in nats */
	int windows;
	double read[LIST_MAX]; /* for each policy: sum over windows of the bytes of the cache that a token reads */
	struct progress progress;
	/* for the progress line: `at` is the number of tokens done so far, `all` the number of all tokens */
	int64_t at, all;
};

static void reading_show(size_t done, void *ud)
{
	struct tune *t = ud;

	progress_show(&t->progress, t->at + (int64_t)done, t->all);
}

/* List the policies to run: `full`, then the policy to tune with each value of "KEY=VALUE,VALUE,...". */
static int list_values(struct tune *t, const char *tried, struct err *e)
{
	const char *at = strchr(tried, '=');

	if (!at || at == tried || !at[1])
		return err_set(e, ERR_USAGE,
		               "--try wants a setting and values, KEY=VALUE,VALUE,...; '%.60s' is not that", tried);
	str_add(&t->key, tried, (size_t)(at - tried));
	t->kvs.v[t->kvs.n++] = "full";
	for (at++; *at; at += *at == ',') {
		size_t n = strcspn(at, ",");
		int k = t->kvs.n;

		if (k == LIST_MAX)
			return err_set(e, ERR_USAGE, "--try takes %d values at most", LIST_MAX - 1);
		str_add(&t->value[k], at, n);
		if (kv_policy_with(t->asked, t->key.p, str_text(&t->value[k]), &t->kv[k], e) < 0)
			return -1;
		t->kvs.v[t->kvs.n++] = t->kv[k].p;
		at += n;
	}
	return 0;
}

/* Score a window under all policies. */
static int run_window(struct tune *t, const int32_t *id, const int order[LIST_MAX], struct err *e)
{
	double *loss;
	int rc = 0;

	t->loss = xrealloc(t->loss, (size_t)(t->windows + 1) * LIST_MAX * sizeof *t->loss);
	loss = t->loss + (size_t)t->windows * LIST_MAX;
	shared_timeline_fresh(&t->line);
	for (int i = 0; !rc && i < t->kvs.n; i++) {
		struct window w = {
			.id = id, .n = (size_t)t->window, .from = (size_t)(t->window - t->last), .stepwise = 1
		};
		int k = order[i];

		rc = window_score(&w, t->kvs.v[k], t->window, &t->line, &t->checkpoint, reading_show, t, e);
		if (!rc) {
			loss[k] = w.nll / (double)w.scored;
			t->read[k] += w.read;
			t->at += t->window;
		}
		window_free(&w);
	}
	t->windows += !rc;
	return rc;
}

static int run_text(struct tune *t, const char *path, struct err *e)
{
	int order[LIST_MAX];
	struct text_windows w;
	int rc = text_windows(&w, t->engine, t->o, path, t->window, e);

	policies_order(&t->kvs, order);
	t->all = (int64_t)t->o->n_file * w.n * t->kvs.n * t->window;
	for (int i = 0; !rc && i < w.n; i++)
		rc = run_window(t, w.t.id + w.first + (size_t)i * w.step, order, e);
	tokens_free(&w.t);
	return rc;
}

/* Return the mean over windows of (loss of policy a - loss of policy b). */
static struct mean difference(const struct tune *t, int a, int b)
{
	struct mean m = { 0 };

	for (int i = 0; i < t->windows; i++)
		mean_add(&m, t->loss[(size_t)i * LIST_MAX + (size_t)a] - t->loss[(size_t)i * LIST_MAX + (size_t)b]);
	return m;
}

/* Return the index of the recommended policy. *lowest receives the index of the policy with the lowest perplexity. */
static int best_of(const struct tune *t, int *lowest)
{
	int best;

	*lowest = FULL + 1;
	for (int k = FULL + 1; k < t->kvs.n; k++) {
		struct mean d = difference(t, k, *lowest);

		if (mean_get(&d) < 0)
			*lowest = k;
	}
	best = *lowest;
	for (int k = FULL + 1; k < t->kvs.n; k++) {
		struct mean d = difference(t, k, *lowest);

		if (mean_get(&d) <= mean_error(&d) && t->read[k] < t->read[best])
			best = k;
	}
	return best;
}

static int report(struct tune *t, struct err *e)
{
	int lowest, best = best_of(t, &lowest), rc;
	struct str s = { 0 }, set = { 0 };

	if (!t->o->json)
		str_addf(&s, "%-8s %10s %8s %6s %10s %6s %8s\n", t->key.p, "perplexity", "of full", "+-", "of lowest",
		         "+-", "MB read");
	for (int k = FULL; k < t->kvs.n; k++) {
		struct mean loss = { 0 }, full = difference(t, k, FULL), low = difference(t, k, lowest);
		double ratio = 100 * exp(mean_get(&full)), more = 100 * exp(mean_get(&low)),
		       read = t->read[k] / t->windows;

		for (int i = 0; i < t->windows; i++)
			mean_add(&loss, t->loss[(size_t)i * LIST_MAX + (size_t)k]);
		if (t->o->json) {
			json_open(&s, NULL, '{');
			json_string(&s, "task", "tune");
			json_string(&s, "kv", t->kvs.v[k]);
			json_string(&s, "setting", k == FULL ? NULL : t->key.p);
			json_string(&s, "value", k == FULL ? NULL : t->value[k].p);
			json_int(&s, "len", t->window);
			json_int(&s, "n", t->windows);
			json_real(&s, "ppl", exp(mean_get(&loss)), "%.6f");
			json_real(&s, "ratio", ratio / 100, "%.6f");
			json_real(&s, "error", mean_error(&full), "%.6f");
			json_real(&s, "of_lowest", more / 100, "%.6f");
			json_real(&s, "error_of_lowest", mean_error(&low), "%.6f");
			json_real(&s, "read", read, "%.0f");
			json_bool(&s, "take", k == best);
			json_close(&s, '}');
			str_adds(&s, "\n");
		} else {
			str_addf(&s, "%-8s %10.4f %7.2f%% %6.2f %9.2f%% %6.2f %8.2f%s\n",
			         k == FULL ? "full" : t->value[k].p, exp(mean_get(&loss)), ratio,
			         100 * mean_error(&full), more, 100 * mean_error(&low), read / 1e6,
			         k == best ? "  take" : "");
		}
	}
	if (!t->o->json) {
		str_addf(&set, "%s%c%s=%s", t->asked, strchr(t->asked, ':') ? ',' : ':', t->key.p, t->value[best].p);
		str_addf(
			&s,
			"\nTake %s=%s: it reads least of the values whose perplexity is within one standard error of the lowest%s%s.\n"
			"Set it: --kv %s, or kv = %s in ~/.config/weir/config.\n",
			t->key.p, t->value[best].p, best == lowest ? "" : ", that of ",
			best == lowest ? "" : t->value[lowest].p, set.p, set.p);
		str_free(&set);
	}
	progress_clear(&t->progress);
	rc = print_json(&s, e);
	str_free(&s);
	return rc;
}

static int tune_check(struct tune *t, struct err *e)
{
	const struct options *o = t->o;

	if (!o->n_file)
		return err_set(e, ERR_USAGE, "'weir eval tune' wants a text FILE (-: standard input)");
	if (o->kvs.n > 1)
		return err_set(e, ERR_USAGE, "'weir eval tune' tunes one policy: one --kv");
	if (t->last >= t->window)
		return err_set(e, ERR_USAGE, "the last %d tokens are no part of a window of %d; take a smaller --last",
		               t->last, t->window);
	t->asked = o->kvs.n ? o->kvs.v[0] : "refresh";
	return list_values(t, lab_of(o)->tried ? lab_of(o)->tried : "s=0.7,0.75,0.8,0.85,0.9,0.95", e);
}

int cmd_eval_tune(const struct options *o)
{
	struct tune t = { .o = o,
		          .window = lab_of(o)->window ? lab_of(o)->window : WINDOW,
		          .last = lab_of(o)->last ? lab_of(o)->last : LAST,
		          .checkpoint = { .fd = -1 } };
	struct err e = { 0 };
	int rc = tune_check(&t, &e);

	if (!rc)
		rc = checkpoint_open(&t.checkpoint, o, &e);
	if (!rc)
		rc = model_open(&t.engine, o, MODEL_RUN, &e);
	if (!rc)
		rc = checkpoint_model(&t.checkpoint, t.engine, &e);
	t.line = (struct shared_timeline){ .o = o, .engine = t.engine };
	progress_init(&t.progress, o->quiet, o->verbose, "tuning", "tokens");
	for (int i = 0; !rc && i < o->n_file; i++)
		rc = run_text(&t, o->file[i], &e);
	progress_clear(&t.progress);
	if (!rc)
		rc = report(&t, &e);
	shared_timeline_close(&t.line);
	engine_close(t.engine);
	checkpoint_close(&t.checkpoint);
	for (int k = 0; k < LIST_MAX; k++) {
		str_free(&t.kv[k]);
		str_free(&t.value[k]);
	}
	str_free(&t.key);
	free(t.loss);
	return rc < 0 ? fail(&e) : 0;
}
