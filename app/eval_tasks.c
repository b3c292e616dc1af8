/* app/eval_tasks.c - weir eval ruler, passkey, chain: prompts of the right length, answers under every policy, tables.
 *
 * The question is part of what is read (query-aware).  The prompt goes through the model's chat template as one user message,
 * and the answer begins with words that the task gives; a model without a template reads the prompt, a line feed and these
 * words.  Answers are greedy.  A sample is read once for all policies that keep every row. */
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
	sample_free(s);
	*s = (struct sample){ .depth = -1 };
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
	struct str list;         /* the scores, in order of the samples */
	double seconds;
};

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
		if (depths > 1)
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

static int run_sample(struct run *run, const struct task_def *t, int32_t len, int32_t i, struct cell *cell, struct err *e)
{
	struct sample s = {.depth = -1};
	struct tokens prompt = {0};
	struct str text = {0};
	int rc = task_fit(run->engine, t, &run->material, run->o->seed_set ? run->o->seed : 42, len, i, &s, &prompt, e);

	for (int k = 0; !rc && k < run->kvs.n; k++) {
		double start = now_seconds(), score;

		rc = eval_line_use(&run->line, run->kvs.v[k], len, e);
		if (!rc)
			rc = answer(run, t, &s, &prompt, &text, e);
		if (rc)
			break;
		score = score_answer(t->metric, &s.ref, text.p);
		mean_add(&cell[k].all, score);
		if (s.depth >= 0)
			mean_add(&cell[k].by_depth[s.depth < 1 ? (int)(s.depth * 5) : 4], score);
		str_addf(&cell[k].list, "%s%.4g", cell[k].list.n ? "," : "", score);
		cell[k].seconds += now_seconds() - start;
		if (run->o->verbose) {
			progress_clear(&run->progress);
			say("%s %d/%d %s: %.2f %s", t->name, len, i, run->kvs.v[k], score, text.p);
		}
		progress_show(&run->progress, ++run->done, run->total);
	}
	tokens_free(&prompt);
	sample_free(&s);
	str_free(&text);
	return rc;
}

static int run_task(struct run *run, const struct task_def *t, int32_t len, struct err *e)
{
	struct cell *cell = xcalloc((size_t)run->kvs.n, sizeof *cell);
	int rc = 0;

	for (int32_t i = 0; !rc && i < run->o->samples; i++)
		rc = run_sample(run, t, len, i, cell, e);
	for (int k = 0; k < run->kvs.n; k++) {
		if (!rc)
			rc = report(run, t, len, run->kvs.v[k], &cell[k], e);
		str_free(&cell[k].list);
	}
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
		if (strlen(t->name) == n && !memcmp(t->name, name, n))
			return t;
	return NULL;
}

/* The tasks that were asked for, or all of this command; those that lack their material are left out with a word. */
static int choose_tasks(const struct options *o, const struct material *m, const struct task_def *out[], int *n, struct err *e)
{
	const struct task_def *all = o->command == CMD_EVAL_RULER ? ruler_tasks : hidden_tasks;
	const char *missing;

	for (const char *p = o->tasks; p && *p; ) {
		size_t len = strcspn(p, ",");
		const struct task_def *t = task_find(p, len);

		if (!t) {
			struct nearest near;
			nearest_init(&near, p, len);
			for (t = ruler_tasks; t->name; t++)
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
	struct run run = {.o = o};
	struct err e = {0};
	int n = 0, rc;

	eval_policies(o, &run.kvs);
	if (model_open(&run.engine, o, MODEL_RUN, &e) < 0)
		return fail(&e);
	run.line = (struct eval_line){.o = o, .engine = run.engine};
	rc = material_load(&run.material, o->n_file ? o->file[0] : NULL, &e);
	if (!rc)
		rc = choose_tasks(o, &run.material, task, &n, &e);
	run.total = (int64_t)n * o->len.n * o->samples * run.kvs.n;
	progress_init(&run.progress, o, "answering", "answers");
	for (int k = 0; k < o->len.n; k++)
		for (int i = 0; !rc && i < n; i++)
			rc = run_task(&run, task[i], o->len.v[k], &e);
	progress_clear(&run.progress);
	eval_line_close(&run.line);
	material_free(&run.material);
	engine_close(run.engine);
	return rc < 0 ? fail(&e) : 0;
}
