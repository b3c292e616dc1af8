/* app/eval_tasks.c - weir eval ruler, passkey, chain, needle: prompts of the right length, answers under every policy, tables.
 *
 * The question is part of what is read (query-aware).  The prompt goes through the model's chat template as one user message,
 * and the answer begins with words that the task gives; a model without a template reads the prompt, a line feed and these
 * words.  Answers are greedy.  A sample is read once for all policies that keep every row.
 *
 * needle sweeps length and depth: sample i of D depths lies at depth i % D / (D - 1).  Every sample has a needle and a haystack of
 * its own, so that one that is hard to find spoils one square of the table and no row. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "app/app.h"
#include "app/eval.h"
#include "app/output.h"

/* ---- prompts of the right length ---- */

/* The whole as tokens. */
static int render(const struct engine *engine, const struct sample *s, struct tokens *out, struct err *e)
{
	struct chat_msg msg = {.role = ROLE_USER, .text = s->prompt.p, .len = s->prompt.n};
	const struct engine_info *info = engine_info(engine);

	out->n = 0;
	if (info->template_name[0]) {
		if (engine_render(engine, &msg, 1, 1, out, e) < 0)
			return -1;
	} else if (engine_tokenize(engine, s->prompt.p, s->prompt.n, info->add_bos ? TOKENIZE_BOS : 0, out, e) < 0 ||
	           engine_tokenize(engine, "\n", 1, 0, out, e) < 0) {
		return -1;
	}
	return engine_tokenize(engine, s->head.p, s->head.n, 0, out, e);
}

/* Does a prompt of so many units fit?  1 yes, 0 no. */
static int try_units(const struct engine *engine, const struct task_def *t, const struct material *m, struct rng r, int32_t len,
                     int32_t i, int32_t units, struct sample *s, struct tokens *out, struct err *e)
{
	sample_free(s);   /* its depth stays: it may be a wish */
	if (t->build(m, r, units, len, i, s, e) < 0 || render(engine, s, out, e) < 0)
		return -1;
	return out->n + (size_t)t->gen <= (size_t)len;
}

int task_fit(const struct engine *engine, const struct task_def *t, const struct material *m, uint64_t seed, int32_t len, int32_t i,
             struct sample *s, struct tokens *out, struct err *e)
{
	struct rng r = rng_for(seed, t->name, len, i);
	int32_t lo = t->least, hi, most = len;   /* a unit has a token at least */
	int fits = try_units(engine, t, m, r, len, i, lo, s, out, e);

	if (fits < 0)
		return -1;
	if (!fits)
		return err_set(e, ERR_USAGE, "a prompt of '%s' takes %zu tokens at least, with %d for the answer, and --len is %d", t->name,
		               out->n, t->gen, len);
	/* From a guess by the tokens of a short prompt, because long ones take time. */
	for (hi = lo < 64 ? 64 : lo * 2; hi < most; hi *= 2) {
		struct err why = {0};
		fits = try_units(engine, t, m, r, len, i, hi, s, out, &why);
		if (fits <= 0)
			break;   /* the material may end, too */
		lo = hi;
	}
	for (hi = hi < most ? hi : most; hi - lo > 1; ) {
		int32_t mid = lo + (hi - lo) / 2;
		struct err why = {0};
		if (try_units(engine, t, m, r, len, i, mid, s, out, &why) > 0)
			lo = mid;
		else
			hi = mid;
	}
	return try_units(engine, t, m, r, len, i, lo, s, out, e) < 0 ? -1 : 0;
}

/* ---- answers ---- */

struct run {
	const struct options *o;
	struct engine *engine;
	struct eval_line line;
	struct material material;
	struct policy_list kvs;
	struct pieces pieces;
	uint64_t material_hash, seed;
	int32_t samples, depths;       /* depths: of a sweep; 0 = none */
	struct progress progress;
	int64_t done, total;
};

static void add_piece(const struct engine *engine, int32_t id, struct str *out)
{
	char small[256];
	size_t n = engine_piece(engine, id, 0, small, sizeof small);

	if (n <= sizeof small) {
		str_add(out, small, n);
	} else {
		char *big = xmalloc(n);
		engine_piece(engine, id, 0, big, n);
		str_add(out, big, n);
		free(big);
	}
}

/* The answer to these tokens; control characters become blanks. */
static int answer(struct run *run, const struct task_def *t, const struct sample *s, const struct tokens *prompt, struct str *out,
                  struct err *e)
{
	struct sampling greedy = sampling_default;
	struct step_out step;
	int more = 1;

	greedy.temperature = 0;
	str_clear(out);
	str_add(out, "", 0);
	if (timeline_sync(run->line.tl, prompt->id, prompt->n, NULL, NULL, e) < 0)
		return -1;
	for (int32_t i = 0; i < t->gen && more > 0; i++) {
		more = timeline_step(run->line.tl, &greedy, &step, e);
		if (more > 0)
			add_piece(run->engine, step.id, out);
		/* What was found stays found. */
		if ((t->metric == METRIC_ALL || t->metric == METRIC_ANY) && out->n && score_answer(t->metric, &s->ref, out->p) >= 1)
			break;
	}
	for (size_t i = 0; i < out->n; i++)
		if ((unsigned char)out->p[i] < ' ')
			out->p[i] = ' ';
	return more < 0 ? -1 : 0;
}

/* ---- results ---- */

struct cell {
	struct mean all, by_depth[5];
	struct mean *swept;      /* by the depths of a sweep */
	struct str list, depths; /* the scores, in order of the samples, and how deep they were */
	double seconds;
};

static void cell_free(struct cell *c)
{
	free(c->swept);
	str_free(&c->list);
	str_free(&c->depths);
	*c = (struct cell){ .seconds = 0 };
}

static void add_depths(struct str *out, const struct cell *c)
{
	str_adds(out, ",\"by_depth\":[");
	for (int d = 0; d < 5; d++) {
		str_adds(out, d ? "," : "");
		if (c->by_depth[d].n)
			json_number(out, mean_get(&c->by_depth[d]), "%.4f");
		else
			str_adds(out, "null");
	}
	str_adds(out, "]");
}

static int report(struct run *run, const struct task_def *t, int32_t len, const char *kv, struct cell *c, struct err *e)
{
	int32_t k = eval_policy_rows(kv, len);
	double mean = mean_get(&c->all), error = mean_error(&c->all);
	int depths = 0, rc;
	struct str s = {0};

	for (int d = 0; d < 5; d++)
		depths += c->by_depth[d].n > 0;
	if (run->o->json) {
		str_addf(&s, "{\"task\":\"%s\",\"kv\":", t->name);
		str_add_json(&s, kv, strlen(kv));
		str_addf(&s, ",\"len\":%d,\"k\":", len);
		if (k)
			str_addf(&s, "%d", k);
		else
			str_adds(&s, "null");
		str_addf(&s, ",\"n\":%d,\"score\":%.6f,\"error\":%.6f", c->all.n, mean, error);
		if (run->depths)
			str_addf(&s, ",\"depths\":[%s]", c->depths.p ? c->depths.p : "");
		else if (depths > 1)
			add_depths(&s, c);
		str_addf(&s, ",\"scores\":[%s],\"seconds\":%.1f}\n", c->list.p ? c->list.p : "", c->seconds);
	} else {
		str_addf(&s, "%-16s %6d  %-34s %6.1f +-%5.1f  n=%d\n", t->name, len, kv, 100 * mean, 196 * error, c->all.n);
	}
	progress_clear(&run->progress);
	rc = print_json(&s, e);
	str_free(&s);
	return rc;
}

/* A table of one policy: lengths down, depths across. */
static int report_sweep(struct run *run, const struct cell *cell, int32_t stride, const char *kv, struct err *e)
{
	const struct options *o = run->o;
	struct str s = {0};
	int rc;

	str_addf(&s, "needle under %s: found in %%, by length and depth\n%7s", kv, "");
	for (int32_t d = 0; d < run->depths; d++)
		str_addf(&s, " %3.0f%%", 100.0 * d / (run->depths - 1));
	str_adds(&s, "    mean\n");
	for (int k = 0; k < o->len.n; k++) {
		const struct cell *c = &cell[k * stride];

		str_addf(&s, "%7d", o->len.v[k]);
		for (int32_t d = 0; d < run->depths; d++)
			str_addf(&s, " %4.0f", 100 * mean_get(&c->swept[d]));
		str_addf(&s, "  %6.1f +-%5.1f  n=%d\n", 100 * mean_get(&c->all), 196 * mean_error(&c->all), c->all.n);
	}
	progress_clear(&run->progress);
	rc = print_json(&s, e);
	str_free(&s);
	return rc;
}

/* ---- samples ---- */

/* What an answer was worth.  -1: this is no such result. */
static int take_result(struct run *run, int32_t i, struct jv result, struct cell *cell)
{
	double score, depth, seconds;

	if (jv_number(jv_get(result, "score"), &score) < 0 || jv_number(jv_get(result, "depth"), &depth) < 0 ||
	    jv_number(jv_get(result, "seconds"), &seconds) < 0 || score < 0 || score > 1 || depth < -1 || depth > 1)
		return -1;
	mean_add(&cell->all, score);
	if (depth >= 0)
		mean_add(&cell->by_depth[depth < 1 ? (int)(depth * 5) : 4], score);
	if (run->depths)
		mean_add(&cell->swept[i % run->depths], score);
	str_addf(&cell->list, "%s%.4g", cell->list.n ? "," : "", score);
	str_addf(&cell->depths, "%s%.4g", cell->depths.n ? "," : "", depth);
	cell->seconds += seconds;
	run->done++;
	return 0;
}

static void name_piece(const struct run *run, const struct task_def *t, int32_t len, int32_t i, double depth, const char *kv,
                       struct str *out)
{
	piece_begin(&run->pieces, t->name, kv, len, out);
	str_addf(out, ",\"material\":\"%016" PRIx64 "\",\"seed\":%" PRIu64 ",\"len\":%d,\"sample\":%d", run->material_hash, run->seed, len,
	         i);
	if (run->depths)
		str_addf(out, ",\"depth\":%.17g", depth);
	str_adds(out, "}");
}

static int run_sample(struct run *run, const struct task_def *t, int32_t len, int32_t i, struct cell *cell, struct err *e)
{
	double depth = run->depths ? (double)(i % run->depths) / (run->depths - 1) : -1;
	struct sample s = {.depth = depth};
	struct tokens prompt = {0};
	struct str text = {0}, what = {0}, result = {0};
	int rc = 0;

	eval_line_fresh(&run->line);
	for (int k = 0; !rc && k < run->kvs.n; k++) {
		double start, score;
		struct jv known;

		name_piece(run, t, len, i, depth, run->kvs.v[k], &what);
		if (pieces_get(&run->pieces, &what, &known) && !take_result(run, i, known, &cell[k])) {
			run->pieces.taken++;
			continue;
		}
		/* Made when the first policy needs it. */
		if (!prompt.n)
			rc = task_fit(run->engine, t, &run->material, run->seed, len, i, &s, &prompt, e);
		start = now_seconds();
		if (!rc)
			rc = eval_line_use(&run->line, run->kvs.v[k], len, e);
		if (!rc)
			rc = answer(run, t, &s, &prompt, &text, e);
		if (rc)
			break;
		score = score_answer(t->metric, &s.ref, text.p);
		str_clear(&result);
		str_addf(&result, "{\"score\":%.17g,\"depth\":%.17g,\"seconds\":%.3f}", score, s.depth, now_seconds() - start);
		rc = pieces_put(&run->pieces, &what, &result, e);
		take_result(run, i, jv_parse(result.p, result.n), &cell[k]);
		if (run->o->verbose) {
			progress_clear(&run->progress);
			say("%s %d/%d %s: %.2f %s", t->name, len, i, run->kvs.v[k], score, text.p);
		}
		progress_show(&run->progress, run->done, run->total);
	}
	tokens_free(&prompt);
	sample_free(&s);
	str_free(&text);
	str_free(&what);
	str_free(&result);
	return rc;
}

/* One length of a task under all policies: cell[kvs.n]. */
static int run_task(struct run *run, const struct task_def *t, int32_t len, struct cell *cell, struct err *e)
{
	int rc = 0;

	for (int k = 0; run->depths && k < run->kvs.n; k++)
		cell[k].swept = xcalloc((size_t)run->depths, sizeof *cell[k].swept);
	for (int32_t i = 0; !rc && i < run->samples; i++)
		rc = run_sample(run, t, len, i, cell, e);
	return rc;
}

static int run_tasks(struct run *run, const struct task_def *const task[], int n, struct err *e)
{
	const struct options *o = run->o;
	int kvs = run->kvs.n, table = run->depths && !o->json, rc = 0;
	struct cell *cell = xcalloc((size_t)kvs * (size_t)o->len.n, sizeof *cell);

	for (int l = 0; l < o->len.n; l++)
		for (int i = 0; !rc && i < n; i++) {
			struct cell *c = &cell[l * kvs];

			rc = run_task(run, task[i], o->len.v[l], c, e);
			for (int k = 0; !table && k < kvs; k++) {
				if (!rc)
					rc = report(run, task[i], o->len.v[l], run->kvs.v[k], &c[k], e);
				cell_free(&c[k]);
			}
		}
	/* A policy's lengths stand together. */
	for (int k = 0; table && n && k < kvs; k++) {
		if (!rc && k)
			rc = print_all("\n", 1, e);
		if (!rc)
			rc = report_sweep(run, &cell[k], kvs, run->kvs.v[k], e);
	}
	for (int i = 0; i < kvs * o->len.n; i++)
		cell_free(&cell[i]);
	free(cell);
	return rc;
}

/* ---- which ---- */

static const char *lacks(const struct task_def *t, const struct material *m)
{
	if ((t->needs & NEEDS_ESSAY) && m->sentence.n < 8)
		return "essays: a text FILE, or a DIR with pd-essays.json";
	if ((t->needs & NEEDS_SQUAD) && !m->squad.n)
		return "a DIR with squad-open.json";
	if ((t->needs & NEEDS_HOTPOT) && !m->hotpot.n)
		return "a DIR with hotpotqa-open.json";
	return NULL;
}

static const struct task_def *task_find(const char *name, size_t n)
{
	for (const struct task_def *t = ruler_tasks; t->name; t++)
		if (t->command == CMD_EVAL_RULER && strlen(t->name) == n && !memcmp(t->name, name, n))
			return t;
	return NULL;
}

/* The tasks that were asked for, or all of this command; those that lack their material are left out with a word. */
static int choose_tasks(const struct options *o, const struct material *m, const struct task_def *out[], int *n, struct err *e)
{
	const struct task_def *all = o->command & (CMD_EVAL_RULER | CMD_EVAL_NEEDLE) ? ruler_tasks : hidden_tasks;
	const char *missing;

	for (const char *p = o->tasks; p && *p; ) {
		size_t len = strcspn(p, ",");
		const struct task_def *t = task_find(p, len);

		if (!t) {
			struct nearest near;
			nearest_init(&near, p, len);
			for (t = ruler_tasks; t->name; t++)
				if (t->command == CMD_EVAL_RULER)
					nearest_try(&near, t->name);
			return err_set(e, ERR_USAGE, "unknown task '%.*s'%s%s%s; without --tasks all are run", (int)(len < 40 ? len : 40), p,
			               near.best ? "; is it '" : "", near.best ? near.best : "", near.best ? "'?" : "");
		}
		if ((missing = lacks(t, m)))
			return err_set(e, ERR_USAGE, "task '%s' wants %s", t->name, missing);
		if (*n == LIST_MAX)
			return err_set(e, ERR_USAGE, "option '--tasks' takes at most %d names", LIST_MAX);
		out[(*n)++] = t;
		p += len + (p[len] == ',');
	}
	for (const struct task_def *t = all; !o->tasks && t->name; t++) {
		if (t->command != o->command)
			continue;
		if (!(missing = lacks(t, m)))
			out[(*n)++] = t;
		else if (!o->quiet)
			say("left out: task '%s' wants %s", t->name, missing);
	}
	return 0;
}

int cmd_eval_tasks(const struct options *o)
{
	const struct task_def *task[LIST_MAX];
	struct run run = {.o = o, .samples = o->samples, .seed = o->seed_set ? o->seed : 42};
	struct err e = {0};
	int n = 0, rc;

	if (o->command == CMD_EVAL_NEEDLE) {
		run.depths = o->depths;
		run.samples = o->depths * o->each;
	}
	eval_policies(o, &run.kvs);
	if (pieces_open(&run.pieces, o, &e) < 0)
		return fail(&e);
	rc = model_open(&run.engine, o, MODEL_RUN, &e);
	if (!rc)
		rc = pieces_model(&run.pieces, run.engine, &e);
	run.line = (struct eval_line){.o = o, .engine = run.engine};
	if (!rc)
		rc = material_load(&run.material, o->n_file ? o->file[0] : NULL, &e);
	if (!rc)
		rc = choose_tasks(o, &run.material, task, &n, &e);
	run.material_hash = material_hash(&run.material);
	run.total = (int64_t)n * o->len.n * run.samples * run.kvs.n;
	progress_init(&run.progress, o, "answering", "answers");
	if (!rc)
		rc = run_tasks(&run, task, n, &e);
	progress_clear(&run.progress);
	eval_line_close(&run.line);
	material_free(&run.material);
	engine_close(run.engine);
	pieces_close(&run.pieces);
	return rc < 0 ? fail(&e) : 0;
}
