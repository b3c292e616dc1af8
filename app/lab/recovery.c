/* app/lab/recovery.c - weir eval recovery: measures which share of the attention mass is on the KV entries that a
 * policy selects.
 *
 * The last tokens of windows of a text are computed one at a time, always under full attention. At each token, every
 * policy selects KV entries, but attention does not use the selection. The share of the attention mass on the selection
 * is averaged over query heads, layers and tokens. For comparison, the share on other selections of the same size is
 * measured:
 *
 *     oracle:   the entries with the largest mass, for each KV head;
 *     last_row: the entries with the largest mass at the previous token;
 *     mean_row: the entries with the largest mean mass over all earlier tokens of this measurement;
 *     recent:   the sinks and the newest entries.
 *
 * --entries N changes the setting k of each policy so that it reads N entries (entry_fit.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/lab/lab.h"
#include "app/lab/checkpoint.h"
#include "app/lab/entry_fit.h"
#include "app/lab/policies.h"
#include "app/lab/recovery_detail.h"
#include "app/lab/score.h"
#include "app/lab/window.h"
#include "app/models/models.h"
#include "engine/lab/lab.h"

enum { WINDOW = 4096, LAST = 256 };

struct run {
	const struct options *o;
	struct engine *engine;
	struct timeline *tl; /* timeline of the current window */
	struct policy_list kvs;
	struct entry_fit fit;
	int32_t window, last;
	struct checkpoint checkpoint;
	struct recovered sum[LIST_MAX]; /* sums of each policy over all windows */
	/* for each policy: share of the attention mass that is on its selection, as a mean over windows */
	struct mean mass[LIST_MAX];
	/* for each policy: JSON list with the share in each window, of which `mass` is the mean */
	struct str list[LIST_MAX];
	struct set_sums sets[LIST_MAX];
	struct query_sums queries;
	int32_t n_layer, n_head;
	struct progress progress;
};

/* The sums of a window under one policy. `result` has the same sums as JSON text, as the checkpoint stores them; it is
 * empty if the sums are not known yet. */
struct part {
	struct recovered sum;
	struct str result;
};
/* All results of a window. `queries` has the cosines between the window's queries, as JSON text; it is empty if they
 * are not known yet. */
struct parts {
	struct part policy[LIST_MAX];
	struct str queries;
};

static void parts_free(struct parts *p)
{
	for (int k = 0; k < LIST_MAX; k++)
		str_free(&p->policy[k].result);
	str_free(&p->queries);
}

static void keep_result(struct str *to, struct jv result)
{
	str_clear(to);
	str_add(to, result.p, (size_t)(result.end - result.p));
}

/* Read a result from JSON. Returns 0, or -1 if the JSON is not a result. */
static int part_read(const struct run *run, struct jv result, struct part *out)
{
	static const char *const name[] = { "mass", "oracle", "recent",  "last_row", "mean_row",
		                            "rows", "of",     "guesses", "steps" };
	double x[LEN(name)];

	for (size_t i = 0; i < LEN(name); i++)
		if (jv_number(jv_get(result, name[i]), &x[i]) < 0 || x[i] < 0 || x[i] > 1e15)
			return -1;
	if (x[8] < 1 || !set_sums_sound(result, run->n_layer))
		return -1;
	out->sum = (struct recovered){
		.mass = x[0],
		.oracle = x[1],
		.recent = x[2],
		.last_row = x[3],
		.mean_row = x[4],
		.selected = x[5],
		.all = x[6],
		.guesses = (int64_t)x[7],
		.steps = (int64_t)x[8],
	};
	keep_result(&out->result, result);
	return 0;
}

static void part_write(const struct run *run, int k, const struct recovered *r, struct str *out)
{
	str_clear(out);
	json_open(out, NULL, '{');
	json_real(out, "mass", r->mass, "%.17g");
	json_real(out, "oracle", r->oracle, "%.17g");
	json_real(out, "recent", r->recent, "%.17g");
	json_real(out, "last_row", r->last_row, "%.17g");
	json_real(out, "mean_row", r->mean_row, "%.17g");
	json_real(out, "rows", r->selected, "%.17g");
	json_real(out, "of", r->all, "%.17g");
	json_int(out, "guesses", r->guesses);
	json_int(out, "steps", r->steps);
	set_sums_write(run->tl, k, run->n_layer, out);
	json_close(out, '}');
}

/* Write the key under which a result of a window is stored. If k >= 0, this is the result of policy number k. Otherwise
 * it is the cosines between the window's queries. */
static void name_result(const struct run *run, int k, const int32_t *id, struct str *out)
{
	checkpoint_key(&run->checkpoint, k < 0 ? "queries" : "recovery", k < 0 ? "full" : run->kvs.v[k], run->window,
	               out);
	json_hash(out, "text", checkpoint_hash(id, (size_t)run->window * sizeof *id));
	json_int(out, "window", run->window);
	json_int(out, "last", run->last);
	json_close(out, '}');
}

/* Read the stored results of a window. Returns 1 if all results were stored, else 0. */
static int known_window(struct run *run, const int32_t *id, struct parts *parts)
{
	struct str what = { 0 };
	struct jv result;
	int all = 1;

	for (int k = 0; k < run->kvs.n; k++) {
		name_result(run, k, id, &what);
		if (checkpoint_get(&run->checkpoint, &what, &result) && !part_read(run, result, &parts->policy[k]))
			run->checkpoint.taken++;
		else
			all = 0;
	}
	name_result(run, -1, id, &what);
	if (checkpoint_get(&run->checkpoint, &what, &result) && query_sums_sound(result, run->n_layer, run->n_head)) {
		run->checkpoint.taken++;
		keep_result(&parts->queries, result);
	} else {
		all = 0;
	}
	str_free(&what);
	return all;
}

/* Store those results of the window that are not stored yet. */
static int keep_window(struct run *run, const int32_t *id, struct parts *parts, struct err *e)
{
	struct str what = { 0 }, result = { 0 };
	int rc = 0;

	for (int k = 0; !rc && k < run->kvs.n; k++) {
		struct recovered now;

		if (timeline_recovery(run->tl, k, &now) < 0 || now.steps < 1)
			rc = err_set(e, ERR_FAIL, "nothing was recovered under '%s'", run->kvs.v[k]);
		if (!rc && !parts->policy[k].result.n) {
			name_result(run, k, id, &what);
			part_write(run, k, &now, &result);
			if (part_read(run, jv_parse(result.p, result.n), &parts->policy[k]) < 0)
				rc = err_set(
					e, ERR_FAIL,
					"the model gave probabilities that are no numbers; check the file with --check-tensors");
			else
				rc = checkpoint_put(&run->checkpoint, &what, &result, e);
		}
	}
	if (!rc && !parts->queries.n) {
		name_result(run, -1, id, &what);
		query_sums_write(run->tl, run->n_layer, run->n_head, &parts->queries);
		rc = checkpoint_put(&run->checkpoint, &what, &parts->queries, e);
	}
	str_free(&what);
	str_free(&result);
	return rc;
}

static void add_window(struct run *run, const struct parts *parts)
{
	for (int k = 0; k < run->kvs.n; k++) {
		const struct recovered *r = &parts->policy[k].sum;
		struct recovered *s = &run->sum[k];
		double mass = r->mass / (double)r->steps;

		s->mass += r->mass;
		s->oracle += r->oracle;
		s->recent += r->recent;
		s->last_row += r->last_row;
		s->mean_row += r->mean_row;
		s->selected += r->selected;
		s->all += r->all;
		s->guesses += r->guesses;
		s->steps += r->steps;
		mean_add(&run->mass[k], mass);
		json_real(&run->list[k], NULL, mass, "%.5f");
		set_sums_add(&run->sets[k], jv_parse(parts->policy[k].result.p, parts->policy[k].result.n),
		             run->n_layer);
	}
	query_sums_add(&run->queries, jv_parse(parts->queries.p, parts->queries.n), run->n_layer, run->n_head);
}

/* Open a timeline that watches the selections of all policies. */
static int open_window(struct run *run, struct err *e)
{
	const struct options *o = run->o;
	struct timeline_options to = {
		.kv = "full",
		.kv_type = o->kv_type,
		.kv_memory = o->kv_memory,
		.read_share = o->read_share,
		.batch = o->chunk,
		.ctx = o->ctx ? o->ctx : run->window,
	};

	if (timeline_open(&run->tl, run->engine, &to, e) < 0)
		return -1;
	signals_watch(run->tl);
	return timeline_watch(run->tl, run->kvs.v, run->kvs.n, e);
}

static void close_window(struct run *run)
{
	signals_watch(NULL);
	timeline_close(run->tl);
	run->tl = NULL;
}

/* Compute a window's results for all policies, unless all of them are stored. `done` and `all` are numbers of tokens
 * for the progress line. */
static int run_window(struct run *run, const int32_t *id, int64_t done, int64_t all, struct parts *parts, struct err *e)
{
	size_t fill = (size_t)(run->window - run->last), last = (size_t)run->last;
	int rc;

	*parts = (struct parts){ .queries = { 0 } };
	if (known_window(run, id, parts))
		return 0;
	rc = open_window(run, e) < 0 || timeline_sync(run->tl, id, fill, NULL, NULL, e) < 0 ? -1 : 0;
	for (size_t at = 0, step; !rc && at < last; at += step) {
		step = last - at < 16 ? last - at : 16;
		rc = timeline_extend(run->tl, id + fill + at, step, 1, NULL, NULL, e);
		progress_show(&run->progress, done + (int64_t)(at + step), all);
	}
	if (!rc)
		rc = keep_window(run, id, parts, e);
	close_window(run);
	return rc;
}

/* Fit the setting of every policy on this window (entry_fit.h). */
static int fit_policies(struct run *run, const int32_t *id, struct err *e)
{
	struct parts parts;
	int changed = lab_of(run->o)->entries > 0, rc = 0;

	for (int round = 0; changed && !rc && round < FIT_ROUNDS; round++) {
		rc = run_window(run, id, round * (int64_t)run->last, FIT_ROUNDS * (int64_t)run->last, &parts, e);
		changed = 0;
		for (int k = 0; !rc && k < run->kvs.n; k++) {
			const struct recovered *r = &parts.policy[k].sum;
			double n = (double)r->steps;
			int now = entry_fit_next(&run->fit, &run->kvs, k, r->selected / n, r->all / n, e);

			rc = now < 0 ? -1 : 0;
			changed |= now > 0;
		}
		parts_free(&parts);
	}
	return rc;
}

static int run_text(struct run *run, const char *path, int nth, struct err *e)
{
	struct text_windows w;
	int rc = text_windows(&w, run->engine, run->o, path, run->window, e);

	if (!rc && nth == 0)
		rc = fit_policies(run, w.t.id + w.first, e);
	for (int i = 0; !rc && i < w.n; i++) {
		int64_t done = ((int64_t)nth * w.n + i) * run->last;
		struct parts parts;

		rc = run_window(run, w.t.id + w.first + (size_t)i * w.step, done,
		                (int64_t)run->o->n_file * w.n * run->last, &parts, e);
		if (!rc)
			add_window(run, &parts);
		parts_free(&parts);
	}
	tokens_free(&w.t);
	return rc;
}

/* 1 if policy k reads as many entries as --entries says, give or take 2 %, or if --entries is not given. */
static int reads_what_was_asked(const struct run *run, int k)
{
	const struct recovered *r = &run->sum[k];

	return !run->fit.want || fabs(r->selected / (double)r->steps / run->fit.want - 1) <= 0.02;
}

/* If policy k reads more or fewer entries than --entries says, append the reason. */
static void add_reason(const struct run *run, int k, struct str *s)
{
	const struct recovered *r = &run->sum[k];
	double read = r->selected / (double)r->steps, whole = run->fit.one[k].whole;

	if (reads_what_was_asked(run, k))
		return;
	str_addf(s, "%s reads %.0f entries, not %d: ", run->kvs.v[k], read, run->fit.want);
	if (whole > 0)
		str_addf(s, "steps and layers that read everything take %.0f alone\n", whole);
	else if (r->all / (double)r->steps <= run->fit.want)
		str_adds(s, "there are no more\n");
	else
		str_addf(s, "no %s comes closer, or the other windows differ from the first, on which it was fitted\n",
		         run->fit.one[k].key);
}

/* Append the cosine between queries of consecutive tokens. */
static void report_queries(const struct run *run, struct str *s)
{
	double sum = 0, low = INFINITY, high = -INFINITY, from, to;
	int n = 0;

	if (run->o->json) {
		json_open(s, NULL, '{');
		json_string(s, "task", "queries");
		json_int(s, "len", run->window);
		json_int(s, "layers", run->n_layer);
		json_int(s, "heads", run->n_head);
		query_sums_json(&run->queries, run->n_layer, run->n_head, s);
		json_close(s, '}');
		str_adds(s, "\n");
		return;
	}
	for (int32_t i = 0; i < run->n_layer; i++) {
		double x = query_sums_layer(&run->queries, i, run->n_head, &from, &to);

		if (isnan(x))
			continue;
		sum += x;
		n++;
		low = fmin(low, from);
		high = fmax(high, to);
	}
	if (n)
		str_addf(
			s,
			"queries of consecutive tokens, before rotation: cosine %.3f on average, %.3f to %.3f by layer and head\n",
			sum / n, low, high);
}

static int report(struct run *run, struct err *e)
{
	struct str s = { 0 };
	int rc;

	if (!run->o->json)
		str_addf(&s, "%-34s %9s %6s %7s %7s %7s %7s %10s %7s\n", "policy", "recovered", "+-", "oracle", "last",
		         "mean", "recent", "entries", "stride");
	for (int k = 0; k < run->kvs.n; k++) {
		const struct recovered *r = &run->sum[k];
		double n = (double)r->steps, g = r->guesses ? (double)r->guesses : 1, error = mean_error(&run->mass[k]);

		if (run->o->json) {
			json_open(&s, NULL, '{');
			json_string(&s, "task", "recovery");
			json_string(&s, "kv", run->fit.want ? run->fit.asked.v[k] : run->kvs.v[k]);
			if (run->fit.want) {
				json_string(&s, "fitted", run->kvs.v[k]);
				json_int(&s, "entries", run->fit.want);
				json_bool(&s, "equal", reads_what_was_asked(run, k));
			}
			json_int(&s, "len", run->window);
			json_real(&s, "k", r->selected / n, "%.1f");
			json_int(&s, "n", run->mass[k].n);
			json_real(&s, "score", r->mass / n, "%.6f");
			json_real(&s, "error", error, "%.6f");
			json_real(&s, "oracle", r->oracle / n, "%.6f");
			json_real(&s, "last_row", r->last_row / g, "%.6f");
			json_real(&s, "mean_row", r->mean_row / g, "%.6f");
			json_real(&s, "recent", r->recent / n, "%.6f");
			json_real(&s, "of", r->all / n, "%.1f");
			json_int(&s, "steps", r->steps);
			set_sums_json(&run->sets[k], run->n_layer, &s);
			json_list(&s, "scores", &run->list[k]);
			json_close(&s, '}');
			str_adds(&s, "\n");
		} else {
			str_addf(&s, "%-34s %9.2f %6.2f %7.2f %7.2f %7.2f %7.2f %5.0f/%.0f", run->kvs.v[k],
			         100 * r->mass / n, 196 * error, 100 * r->oracle / n, 100 * r->last_row / g,
			         100 * r->mean_row / g, 100 * r->recent / n, r->selected / n, r->all / n);
			if (set_sums_stride(&run->sets[k], run->n_layer) > 0)
				str_addf(&s, " %6.1f", set_sums_stride(&run->sets[k], run->n_layer));
			str_adds(&s, "\n");
		}
	}
	for (int k = 0; !run->o->json && k < run->kvs.n; k++)
		add_reason(run, k, &s);
	report_queries(run, &s);
	progress_clear(&run->progress);
	rc = print_json(&s, e);
	str_free(&s);
	return rc;
}

int cmd_eval_recovery(const struct options *o)
{
	struct run run = { .o = o,
		           .window = lab_of(o)->window ? lab_of(o)->window : WINDOW,
		           .last = lab_of(o)->last ? lab_of(o)->last : LAST };
	struct err e = { 0 };
	int rc = 0;

	policies_compared(o, &run.kvs);
	if (!o->n_file)
		err_set(&e, ERR_USAGE, "'weir eval recovery' wants a text FILE (-: standard input)");
	else if (!o->kvs.n && !o->kv)
		err_set(&e, ERR_USAGE, "'weir eval recovery' wants the policies to watch: --kv sift --kv h2o ...");
	else if (run.last >= run.window)
		err_set(&e, ERR_USAGE, "the last %d tokens are no part of a window of %d; take a smaller --last",
		        run.last, run.window);
	else
		entry_fit_begin(&run.fit, &run.kvs, lab_of(o)->entries, &e);
	if (e.code || checkpoint_open(&run.checkpoint, o, &e) < 0) {
		entry_fit_free(&run.fit);
		return fail(&e);
	}
	rc = model_open(&run.engine, o, MODEL_RUN, &e);
	if (!rc)
		rc = checkpoint_model(&run.checkpoint, run.engine, &e);
	if (!rc) {
		run.n_layer = engine_info(run.engine)->n_layer;
		run.n_head = engine_info(run.engine)->n_head;
	}
	progress_init(&run.progress, o->quiet, o->verbose, "watching", "tokens");
	for (int i = 0; !rc && i < o->n_file; i++)
		rc = run_text(&run, o->file[i], i, &e);
	progress_clear(&run.progress);
	if (!rc)
		rc = report(&run, &e);
	for (int k = 0; k < run.kvs.n; k++) {
		str_free(&run.list[k]);
		set_sums_free(&run.sets[k]);
	}
	query_sums_free(&run.queries);
	entry_fit_free(&run.fit);
	engine_close(run.engine);
	checkpoint_close(&run.checkpoint);
	return rc < 0 ? fail(&e) : 0;
}
