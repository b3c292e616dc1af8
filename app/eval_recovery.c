/* app/eval_recovery.c - weir eval recovery: how much of full attention the rows carry that a policy would read.
 *
 * A window of each text is read whole, then its last tokens come one at a time.  The model follows full attention all the
 * way (its hidden states are those of `full`); beside it every policy says at each of these tokens which rows it would read,
 * and the probability on them is summed up: mean over query heads, layers and tokens.  The oracle reads the rows with the
 * largest probability per KV head, as many; sinks and newest rows, as many, are the floor.  Two guesses stand between: the rows
 * that were most probable at the token before, and on average over the tokens that came one at a time before. */
#include <stdlib.h>
#include <string.h>

#include "app/app.h"
#include "app/eval.h"
#include "app/output.h"

#define TEXT_MAX (1u << 30)
enum { WINDOW = 4096, LAST = 256 };

struct run {
	const struct options *o;
	struct engine *engine;
	struct timeline *tl;
	struct policy_list kvs;
	int32_t window, last;
	struct recovered sum[LIST_MAX];
	struct mean mass[LIST_MAX];    /* over windows */
	struct str list[LIST_MAX];
	struct progress progress;
};

/* The difference that this window made. */
static int add_window(struct run *run, struct err *e)
{
	for (int k = 0; k < run->kvs.n; k++) {
		struct recovered now, *was = &run->sum[k];

		if (timeline_recovered(run->tl, k, &now) < 0 || now.steps <= was->steps)
			return err_set(e, ERR_FAIL, "nothing was recovered under '%s'", run->kvs.v[k]);
		mean_add(&run->mass[k], (now.mass - was->mass) / (double)(now.steps - was->steps));
		str_addf(&run->list[k], "%s%.5f", run->list[k].n ? "," : "", (now.mass - was->mass) / (double)(now.steps - was->steps));
		*was = now;
	}
	return 0;
}

static int run_text(struct run *run, const char *path, int nth, struct err *e)
{
	const struct options *o = run->o;
	struct str text = {0};
	struct tokens t = {0};
	int rc = read_whole(path, TEXT_MAX, &text, e);
	size_t at = (size_t)o->offset, end, most;

	if (rc < 0 && e)
		e->code = ERR_DOCUMENT;
	if (!rc)
		rc = engine_tokenize(run->engine, text.p ? text.p : "", text.n, engine_info(run->engine)->add_bos ? TOKENIZE_BOS : 0, &t, e);
	str_free(&text);
	end = o->tokens && at < t.n && (size_t)o->tokens < t.n - at ? at + (size_t)o->tokens : t.n;
	if (!rc && (at >= end || end - at < (size_t)run->window))
		rc = err_set(e, ERR_USAGE, "'%.200s' has %zu tokens from %zu on, one window takes %d", path, at < end ? end - at : 0, at,
		             run->window);
	/* Windows lie evenly over the text. */
	most = rc ? 0 : (end - at) / (size_t)run->window;
	most = most < (size_t)o->samples ? most : (size_t)o->samples;
	for (size_t i = 0; !rc && i < most; i++) {
		const int32_t *id = t.id + at + i * ((end - at) / most);
		size_t fill = (size_t)(run->window - run->last);

		rc = timeline_sync(run->tl, id, fill, NULL, NULL, e) < 0 ? -1 : 0;
		for (size_t done = 0; !rc && done < (size_t)run->last; done += 16) {
			size_t step = (size_t)run->last - done < 16 ? (size_t)run->last - done : 16;
			rc = timeline_extend(run->tl, id + fill + done, step, 1, NULL, NULL, e);
			progress_show(&run->progress, (int64_t)(((size_t)nth * most + i) * (size_t)run->last + done + step),
			              (int64_t)((size_t)o->n_file * most * (size_t)run->last));
		}
		if (!rc)
			rc = add_window(run, e);
	}
	tokens_free(&t);
	return rc;
}

static int report(struct run *run, struct err *e)
{
	struct str s = {0};
	int rc;

	if (!run->o->json)
		str_addf(&s, "%-34s %9s %6s %7s %7s %7s %7s %10s\n", "policy", "recovered", "+-", "oracle", "last", "mean", "recent",
		         "rows");
	for (int k = 0; k < run->kvs.n; k++) {
		const struct recovered *r = &run->sum[k];
		double n = (double)r->steps, g = r->guesses ? (double)r->guesses : 1, error = mean_error(&run->mass[k]);

		if (run->o->json) {
			str_adds(&s, "{\"task\":\"recovery\",\"kv\":");
			str_add_json(&s, run->kvs.v[k], strlen(run->kvs.v[k]));
			str_addf(&s, ",\"len\":%d,\"k\":%.1f,\"n\":%d,\"score\":%.6f,\"error\":%.6f,\"oracle\":%.6f,\"last_row\":%.6f,\"mean_row\":%.6f,"
			         "\"recent\":%.6f,\"of\":%.1f,\"steps\":%lld,\"scores\":[%s]}\n", run->window, r->rows / n, run->mass[k].n, r->mass / n, error,
			         r->oracle / n, r->last_row / g, r->mean_row / g, r->recent / n, r->read / n, (long long)r->steps, run->list[k].p ? run->list[k].p : "");
		} else {
			str_addf(&s, "%-34s %9.2f %6.2f %7.2f %7.2f %7.2f %7.2f %5.0f/%.0f\n", run->kvs.v[k], 100 * r->mass / n, 196 * error,
			         100 * r->oracle / n, 100 * r->last_row / g, 100 * r->mean_row / g, 100 * r->recent / n, r->rows / n,
			         r->read / n);
		}
	}
	progress_clear(&run->progress);
	rc = print_json(&s, e);
	str_free(&s);
	return rc;
}

int cmd_eval_recovery(const struct options *o)
{
	struct run run = {.o = o, .window = o->window ? o->window : WINDOW, .last = o->last ? o->last : LAST};
	struct timeline_options to = {.kv = "full", .kv_type = o->kv_type, .batch = o->chunk};
	struct err e = {0};
	int rc = 0;

	eval_policies(o, &run.kvs);
	if (!o->n_file)
		err_set(&e, ERR_USAGE, "'weir eval recovery' wants a text FILE (-: standard input)");
	else if (!o->kvs.n && !o->kv)
		err_set(&e, ERR_USAGE, "'weir eval recovery' wants the policies to watch: --kv sift --kv h2o ...");
	else if (run.last >= run.window)
		err_set(&e, ERR_USAGE, "the last %d tokens are no part of a window of %d; take a smaller --last", run.last, run.window);
	if (e.code || model_open(&run.engine, o, MODEL_RUN, &e) < 0)
		return fail(&e);
	to.ctx = o->ctx ? o->ctx : run.window;
	to.watch = run.kvs.v;
	to.n_watch = run.kvs.n;
	rc = timeline_open(&run.tl, run.engine, &to, &e);
	progress_init(&run.progress, o, "watching", "tokens");
	if (!rc)
		signals_watch(run.tl);
	for (int i = 0; !rc && i < o->n_file; i++)
		rc = run_text(&run, o->file[i], i, &e);
	signals_watch(NULL);
	progress_clear(&run.progress);
	if (!rc)
		rc = report(&run, &e);
	for (int k = 0; k < run.kvs.n; k++)
		str_free(&run.list[k]);
	timeline_close(run.tl);
	engine_close(run.engine);
	return rc < 0 ? fail(&e) : 0;
}
