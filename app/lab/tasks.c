/* app/lab/tasks.c - weir eval ruler, passkey, chain, needle, answers: builds prompts of a wanted length, generates
 * answers under every policy, prints tables of scores.
 *
 * A prompt is one user message that contains the question, and the beginning of the answer. Sampling is greedy.
 * Policies that keep every KV entry share one prefill; each other policy prefills separately.
 *
 * `needle` hides a sentence at D depths (0 = beginning, 1 = end of the prompt): sample number i has the depth (i % D) /
 * (D - 1). Every sample has its own needle and haystack, so that a difficult sample affects only one cell of the
 * table. */
#include <stdlib.h>
#include <string.h>

#include "app/lab/lab.h"
#include "app/lab/checkpoint.h"
#include "app/lab/given.h"
#include "app/lab/policies.h"
#include "app/lab/tasks.h"
#include "app/models/models.h"

/* ---- prompts of the right length ---- */

void sample_free(struct sample *s)
{
	str_free(&s->prompt);
	str_free(&s->head);
	words_free_owned(&s->ref);
}

/* Render the prompt and the given beginning of the answer to tokens. */
static int sample_render(const struct engine *engine, const struct sample *s, struct tokens *out, struct err *e)
{
	struct chat_msg msg = { .role = ROLE_USER, .text = s->prompt.p, .len = s->prompt.n };
	const struct engine_info *info = engine_info(engine);
	struct rendered r = { .n_msg = 0 };

	out->n = 0;
	if (info->template_name[0] && !s->plain) {
		if (engine_render(engine, &msg, 1, REPLY_HEAD | (info->think_switch ? REPLY_NO_THOUGHT : 0), NULL, &r,
		                  e) < 0)
			return -1;
		tokens_append(out, r.id.id, r.id.n);
		rendered_free(&r);
	} else if (engine_tokenize(engine, s->prompt.p, s->prompt.n, info->add_bos ? TOKENIZE_BOS : 0, out, e) < 0 ||
	           engine_tokenize(engine, "\n", 1, 0, out, e) < 0) {
		return -1;
	}
	return engine_tokenize(engine, s->head.p, s->head.n, 0, out, e);
}

/* Build a prompt of `units` units (sentences, words, ...). Returns 1 if prompt and answer fit len tokens; 0 if they do
 * not; -1 on error. */
static int sample_try(const struct engine *engine, const struct task_def *t, const struct corpus *m, struct rng r,
                      int32_t len, int32_t i, int32_t units, struct sample *s, struct tokens *out, struct err *e)
{
	sample_free(s); /* sample_free() does not change s->depth, which the caller may have set */
	if (t->build(m, r, units, len, i, s, e) < 0 || sample_render(engine, s, out, e) < 0)
		return -1;
	return out->n + (size_t)t->gen <= (size_t)len;
}

int task_fit(const struct engine *engine, const struct task_def *t, const struct corpus *m, uint64_t seed, int32_t len,
             int32_t i, struct sample *s, struct tokens *out, struct err *e)
{
	struct rng r = rng_for(seed, t->name, len, i);
	/* `most` units surely suffice, because each unit has at least one token */
	int32_t lo = t->least, hi, most = len;
	int fits = sample_try(engine, t, m, r, len, i, lo, s, out, e);

	if (fits < 0)
		return -1;
	if (!fits)
		return err_set(e, ERR_USAGE,
		               "a prompt of '%s' takes %zu tokens at least, with %d for the answer, and --len is %d",
		               t->name, out->n, t->gen, len);
	/* Double the number of units as long as the prompt fits, then bisect. Beginning with the longest prompt would
	 * be slow. */
	for (hi = lo < 64 ? 64 : lo * 2; hi < most; hi *= 2) {
		struct err why = { 0 };
		fits = sample_try(engine, t, m, r, len, i, hi, s, out, &why);
		if (fits <= 0)
			/* the prompt is too long, or the corpus has too few units (sentences, words, documents, ...) */
			break;
		lo = hi;
	}
	for (hi = MIN(hi, most); hi - lo > 1;) {
		int32_t mid = lo + (hi - lo) / 2;
		struct err why = { 0 };
		if (sample_try(engine, t, m, r, len, i, mid, s, out, &why) > 0)
			lo = mid;
		else
			hi = mid;
	}
	return sample_try(engine, t, m, r, len, i, lo, s, out, e) < 0 ? -1 : 0;
}

/* ---- answers ---- */

struct run {
	const struct options *o;
	struct engine *engine;
	struct shared_timeline line;
	struct corpus material; /* texts that prompts are made of */
	struct given given;     /* prompts from the user's files, for `weir eval answers` */
	struct policy_list kvs;
	struct checkpoint checkpoint;
	uint64_t material_hash, seed;
	/* `depths` is the number of needle depths in the task `needle`; 0 = another task is run */
	int32_t samples, depths;
	struct progress progress;
	int64_t done, total; /* number of answers so far, and of all answers */
};

/* 1 if generating can stop, because the answer is complete. It is complete if it has all references, or as many rows as
 * the reference, or if the task wants one line and this line has ended. */
static int answer_complete(const struct task_def *t, const struct sample *s, const struct str *out)
{
	size_t blank = strspn(out->p, " \n");

	if (t->set && given_one_line(t->set))
		return out->p[blank] && strchr(out->p + blank, '\n');
	if (t->metric == METRIC_ROWS)
		return answer_rows(out->p) >= s->ref.n;
	return (t->metric == METRIC_ALL || t->metric == METRIC_ANY) && out->n &&
	       score_answer(t->metric, &s->ref, s->classes, out->p) >= 1;
}

struct answer_cost {
	double seconds;
	int32_t tokens;
};

/* Return the number of tokens of a prompt before its question. They are the tokens that the whole prompt has in common
 * with a prompt that ends before the question. Returns -1 on error. */
static int32_t tokens_before_question(const struct run *run, const struct sample *s, const struct tokens *prompt,
                                      struct err *e)
{
	struct sample text = *s;
	struct tokens id = { 0 };
	size_t n = 0;
	int rc;

	text.prompt.n = s->question;
	rc = sample_render(run->engine, &text, &id, e);
	while (n < id.n && n < prompt->n && id.id[n] == prompt->id[n])
		n++;
	tokens_free(&id);
	return rc < 0 ? -1 : (int32_t)n;
}

/* Let the model read a prompt. With --late-question, only the text before the question is prefilled. */
static int sample_read(struct run *run, const struct sample *s, const struct tokens *prompt, struct err *e)
{
	struct timeline *tl = run->line.tl;
	int32_t n = (int32_t)prompt->n;

	if (lab_of(run->o)->late)
		n = tokens_before_question(run, s, prompt, e);
	if (n < 0 || timeline_sync(tl, prompt->id, (size_t)n, NULL, NULL, e) < 0)
		return -1;
	return timeline_extend(tl, prompt->id + n, prompt->n - (size_t)n, 1, NULL, NULL, e);
}

/* Generate the answer to a prompt. Control characters become blanks; line feeds stay if the metric needs them. *cost
 * receives the time and the number of tokens of generating, without the prefill. */
static int sample_answer(struct run *run, const struct task_def *t, const struct sample *s, const struct tokens *prompt,
                         struct str *out, struct answer_cost *cost, struct err *e)
{
	struct sampling greedy = sampling_default;
	struct step_out step;
	int more = 1;

	greedy.temperature = 0;
	str_clear(out);
	str_add(out, "", 0);
	if (sample_read(run, s, prompt, e))
		return -1;
	if (t->metric == METRIC_ROWS && s->head.n) /* the first row begins in the last line of s->head */
		str_adds(out, strrchr(s->head.p, '\n') + 1);
	*cost = (struct answer_cost){ -now_seconds(), 0 };
	for (; cost->tokens < t->gen && more > 0 && !answer_complete(t, s, out); cost->tokens++) {
		more = timeline_step(run->line.tl, &greedy, &step, e);
		if (more > 0)
			engine_piece_add(run->engine, step.id, 0, out);
	}
	cost->seconds += now_seconds();
	if (!more && t->metric == METRIC_ROWS)
		str_adds(out, "\n"); /* the model has ended its answer, so the last row is complete */
	if (t->set && given_one_line(t->set))
		out->n = strspn(out->p, " \n") + strcspn(out->p + strspn(out->p, " \n"), "\n");
	out->p[out->n] = 0;
	for (size_t i = 0; i < out->n; i++)
		if ((unsigned char)out->p[i] < ' ' && !(out->p[i] == '\n' && t->metric >= METRIC_ROWS))
			out->p[i] = ' ';
	return more < 0 ? -1 : 0;
}

/* ---- results ---- */

/* Results of one task at one prompt length under one policy. */
struct cell {
	/* `all` is the mean score of all samples. by_depth[0] is the mean score of the samples with a needle at depth 0
	 * to 0.2, by_depth[1] at depth 0.2 to 0.4, and so on. */
	struct mean all, by_depth[5];
	struct mean *swept;        /* [depths] for `needle`: the mean score at each depth */
	struct str list, depths;   /* JSON lists of the scores and of the depths, in the order of the samples */
	double seconds, answering; /* seconds of prefill and generation together, and of generation alone */
	int64_t generated;         /* number of tokens of all answers */
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
	json_open(out, "by_depth", '[');
	for (int d = 0; d < 5; d++)
		if (c->by_depth[d].n)
			json_real(out, NULL, mean_get(&c->by_depth[d]), "%.4f");
		else
			json_null(out, NULL);
	json_close(out, ']');
}

static int report(struct run *run, const struct task_def *t, int32_t len, const char *kv, struct cell *c, struct err *e)
{
	int32_t k = policy_entries_read(kv, len);
	double mean = mean_get(&c->all), error = mean_error(&c->all);
	int depths = 0, rc;
	struct str s = { 0 };

	for (int d = 0; d < 5; d++)
		depths += c->by_depth[d].n > 0;
	if (run->o->json) {
		json_open(&s, NULL, '{');
		json_string(&s, "task", t->name);
		json_string(&s, "kv", kv);
		json_int(&s, "len", len);
		if (k)
			json_int(&s, "k", k);
		else
			json_null(&s, "k");
		json_int(&s, "n", c->all.n);
		json_real(&s, "score", mean, "%.6f");
		json_real(&s, "error", error, "%.6f");
		if (run->depths)
			json_list(&s, "depths", &c->depths);
		else if (depths > 1)
			add_depths(&s, c);
		json_list(&s, "scores", &c->list);
		json_real(&s, "seconds", c->seconds, "%.1f");
		json_real(&s, "answering", c->answering, "%.2f");
		json_int(&s, "generated", c->generated);
		json_close(&s, '}');
		str_adds(&s, "\n");
	} else {
		str_addf(&s, "%-16s %6d  %-34s %6.1f +-%5.1f  n=%d  %6.2f s an answer, %5.1f ms a token\n", t->name,
		         len, kv, 100 * mean, 196 * error, c->all.n, c->answering / (c->all.n ? c->all.n : 1),
		         1000 * c->answering / (double)(c->generated ? c->generated : 1));
	}
	progress_clear(&run->progress);
	rc = print_json(&s, e);
	str_free(&s);
	return rc;
}

/* Print the table of the task `needle` for one policy: a row for each length, a column for each depth. cell[k * stride]
 * has the results at length number k. */
static int report_sweep(struct run *run, const struct cell *cell, int32_t stride, const char *kv, struct err *e)
{
	const struct options *o = run->o;
	struct str s = { 0 };
	int rc;

	str_addf(&s, "needle under %s: found in %%, by length and depth\n%7s", kv, "");
	for (int32_t d = 0; d < run->depths; d++)
		str_addf(&s, " %3.0f%%", 100.0 * d / (run->depths - 1));
	str_adds(&s, "    mean\n");
	for (int k = 0; k < lab_of(o)->len.n; k++) {
		const struct cell *c = &cell[k * stride];

		str_addf(&s, "%7d", lab_of(o)->len.v[k]);
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

/* Add a stored result to a cell of the table. Returns 0, or -1 if it is not the result of a sample. */
static int take_result(struct run *run, int32_t i, struct jv result, struct cell *cell)
{
	double score, depth, seconds, answering, generated;

	if (jv_number(jv_get(result, "score"), &score) < 0 || jv_number(jv_get(result, "depth"), &depth) < 0 ||
	    jv_number(jv_get(result, "seconds"), &seconds) < 0 ||
	    jv_number(jv_get(result, "answering"), &answering) < 0 ||
	    jv_number(jv_get(result, "generated"), &generated) < 0 || generated < 0 || generated > INT32_MAX ||
	    score < 0 || score > 1 || depth < -1 || depth > 1)
		return -1;
	mean_add(&cell->all, score);
	if (depth >= 0)
		mean_add(&cell->by_depth[depth < 1 ? (int)(depth * 5) : 4], score);
	if (run->depths)
		mean_add(&cell->swept[i % run->depths], score);
	json_real(&cell->list, NULL, score, "%.4g");
	json_real(&cell->depths, NULL, depth, "%.4g");
	cell->seconds += seconds;
	cell->answering += answering;
	cell->generated += (int64_t)generated;
	run->done++;
	return 0;
}

static void name_result(const struct run *run, const struct task_def *t, int32_t len, int32_t i, double depth,
                        const char *kv, struct str *out)
{
	checkpoint_key(&run->checkpoint, t->name, kv, len, out);
	json_hash(out, "material", run->material_hash);
	json_uint(out, "seed", run->seed);
	json_int(out, "len", len);
	json_int(out, "sample", i);
	if (lab_of(run->o)->late)
		json_int(out, "late", 1);
	if (run->depths)
		json_real(out, "depth", depth, "%.17g");
	json_close(out, '}');
}

/* Run one sample under all policies, and add the results to cell[policy]. */
static int run_sample(struct run *run, const struct task_def *t, int32_t len, int32_t i, struct cell *cell,
                      struct err *e)
{
	double depth = run->depths ? (double)(i % run->depths) / (run->depths - 1) : -1;
	struct sample s = { .depth = depth };
	struct tokens prompt = { 0 };
	struct str text = { 0 }, what = { 0 }, result = { 0 };
	int order[LIST_MAX], rc = 0;

	shared_timeline_fresh(&run->line);
	policies_order(&run->kvs, order);
	for (int j = 0; !rc && j < run->kvs.n; j++) {
		double start, score;
		struct answer_cost cost;
		struct jv known;
		int k = order[j];

		name_result(run, t, len, i, depth, run->kvs.v[k], &what);
		if (checkpoint_get(&run->checkpoint, &what, &known) && !take_result(run, i, known, &cell[k])) {
			run->checkpoint.taken++;
			continue;
		}
		/* Build the prompt, unless it was built for another policy before. */
		run->material.set = t->set;
		if (!prompt.n)
			rc = task_fit(run->engine, t, &run->material, run->seed, len, i, &s, &prompt, e);
		start = now_seconds();
		if (!rc)
			rc = shared_timeline_use(&run->line, run->kvs.v[k], len, e);
		if (!rc)
			rc = sample_answer(run, t, &s, &prompt, &text, &cost, e);
		if (rc)
			break;
		score = score_answer(t->metric, &s.ref, s.classes, text.p);
		str_clear(&result);
		json_open(&result, NULL, '{');
		json_real(&result, "score", score, "%.17g");
		json_real(&result, "depth", s.depth, "%.17g");
		json_real(&result, "seconds", now_seconds() - start, "%.3f");
		json_real(&result, "answering", cost.seconds, "%.4f");
		json_int(&result, "generated", cost.tokens);
		json_close(&result, '}');
		rc = checkpoint_put(&run->checkpoint, &what, &result, e);
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

static int32_t samples_of(const struct run *run, const struct task_def *t)
{
	return t->set && given_count(t->set) < run->samples ? given_count(t->set) : run->samples;
}

/* Run a task at one length under all policies. cell[kvs.n] receives the results. */
static int run_task(struct run *run, const struct task_def *t, int32_t len, struct cell *cell, struct err *e)
{
	int rc = 0;

	for (int k = 0; run->depths && k < run->kvs.n; k++)
		cell[k].swept = xcalloc((size_t)run->depths, sizeof *cell[k].swept);
	/* If the task has more prompts than wanted samples, take prompts at equal distances. */
	for (int32_t i = 0, n = samples_of(run, t); !rc && i < n; i++)
		rc = run_sample(run, t, len, t->set ? (int32_t)((int64_t)i * given_count(t->set) / n) : i, cell, e);
	return rc;
}

/* Leave out a task of `ruler`, with a message, if even its shortest prompt exceeds len tokens together with the answer.
 * With --tasks, no task is left out. Returns 1 if the task is left out; 0 if it runs; -1 if no prompt can be built. */
static int task_left_out(struct run *run, const struct task_def *t, int32_t len, struct err *e)
{
	struct sample s = { .depth = -1 };
	struct tokens prompt = { 0 };
	int fits = 1;

	if (run->o->command == CMD_EVAL_RULER && !lab_of(run->o)->tasks)
		fits = sample_try(run->engine, t, &run->material, rng_for(run->seed, t->name, len, 0), len, 0, t->least,
		                  &s, &prompt, e);
	if (!fits) {
		progress_clear(&run->progress);
		if (!run->o->quiet)
			say("left out: task '%s' at %d tokens; it takes %zu at least", t->name, len,
			    prompt.n + (size_t)t->gen);
		run->total -= (int64_t)samples_of(run, t) * run->kvs.n;
	}
	tokens_free(&prompt);
	sample_free(&s);
	return fits < 0 ? -1 : !fits;
}

static int run_tasks(struct run *run, const struct task_def *const task[], int n, struct err *e)
{
	const struct options *o = run->o;
	int kvs = run->kvs.n, table = run->depths && !o->json, rc = 0, ran = 0;
	struct cell *cell = xcalloc((size_t)kvs * (size_t)lab_of(o)->len.n, sizeof *cell);

	for (int l = 0; l < lab_of(o)->len.n; l++)
		for (int i = 0; !rc && i < n; i++) {
			struct cell *c = &cell[l * kvs];
			int left_out = task_left_out(run, task[i], lab_of(o)->len.v[l], e);

			if (left_out < 0)
				rc = -1;
			if (left_out)
				continue;
			ran++;
			rc = run_task(run, task[i], lab_of(o)->len.v[l], c, e);
			for (int k = 0; !table && k < kvs; k++) {
				if (!rc)
					rc = report(run, task[i], lab_of(o)->len.v[l], run->kvs.v[k], &c[k], e);
				cell_free(&c[k]);
			}
		}
	if (!rc && n && !ran)
		rc = err_set(e, ERR_USAGE,
		             "no task is as short as --len; without it prompt and answer have 2048 tokens");
	/* Print one table for each policy, with a row for each length. */
	for (int k = 0; table && n && k < kvs; k++) {
		if (!rc && k)
			rc = print_all("\n", 1, e);
		if (!rc)
			rc = report_sweep(run, &cell[k], kvs, run->kvs.v[k], e);
	}
	for (int i = 0; i < kvs * lab_of(o)->len.n; i++)
		cell_free(&cell[i]);
	free(cell);
	return rc;
}

/* ---- choosing tasks ---- */

/* Return the name of the texts that a task needs and the corpus does not have; NULL = the corpus has all. */
static const char *material_missing(const struct task_def *t, const struct corpus *m)
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

/* List the tasks to run: those that --tasks names. Without --tasks, list all tasks of the command whose texts are
 * available, and tell the user which tasks are left out. */
static int choose_tasks(const struct options *o, const struct corpus *m, const struct task_def *out[], int *n,
                        struct err *e)
{
	const struct task_def *all =
		o->command & (CMD_EVAL_RULER | CMD_EVAL_NEEDLE) ? ruler_tasks : passkey_chain_tasks;
	const char *missing;

	for (const char *p = lab_of(o)->tasks; p && *p;) {
		size_t len = strcspn(p, ",");
		const struct task_def *t = task_find(p, len);

		if (!t) {
			struct nearest near;
			nearest_init(&near, p, len);
			for (t = ruler_tasks; t->name; t++)
				if (t->command == CMD_EVAL_RULER)
					nearest_try(&near, t->name);
			return err_set(e, ERR_USAGE, "unknown task '%.*s'%s%s%s; without --tasks all are run",
			               (int)(MIN(len, 40)), p, near.best ? "; is it '" : "", near.best ? near.best : "",
			               near.best ? "'?" : "");
		}
		if ((missing = material_missing(t, m)))
			return err_set(e, ERR_USAGE, "task '%s' wants %s", t->name, missing);
		if (*n == LIST_MAX)
			return err_set(e, ERR_USAGE, "option '--tasks' takes at most %d names", LIST_MAX);
		out[(*n)++] = t;
		p += len + (p[len] == ',');
	}
	for (const struct task_def *t = all; !lab_of(o)->tasks && t->name; t++) {
		if (t->command != (unsigned)o->command)
			continue;
		if (!(missing = material_missing(t, m)))
			out[(*n)++] = t;
		else if (!o->quiet)
			say("left out: task '%s' wants %s", t->name, missing);
	}
	return 0;
}

/* List the tasks of the user's files. */
static int given_tasks(struct run *run, const struct task_def ***task, int *n, struct err *e)
{
	const struct options *o = run->o;
	struct given *g = &run->given;

	if (!o->n_file)
		return err_set(
			e, ERR_USAGE,
			"'weir eval answers' wants a file of questions with their answers: LongBench, GSM8K, MMLU or your own; see 'man weir'");
	if (given_load(g, (const char *const *)o->file, o->n_file, e) < 0)
		return -1;
	if (g->left_out && !o->quiet)
		say("left out: %zu records of sets that weir cannot score, such as '%s'", g->left_out,
		    g->left_out_name);
	*task = xrealloc(*task, g->n * sizeof **task);
	for (*n = 0; (size_t)*n < g->n; ++*n)
		(*task)[*n] = &g->task[*n];
	return 0;
}

int cmd_eval_tasks(const struct options *o)
{
	const struct task_def **task = xcalloc(LIST_MAX, sizeof *task);
	struct run run = { .o = o, .samples = lab_of(o)->samples, .seed = o->seed_set ? o->seed : 42 };
	struct err e = { 0 };
	int n = 0, rc;

	if (o->command == CMD_EVAL_NEEDLE) {
		run.depths = lab_of(o)->depths;
		run.samples = lab_of(o)->depths * lab_of(o)->samples;
	}
	policies_compared(o, &run.kvs);
	rc = checkpoint_open(&run.checkpoint, o, &e) < 0 ? -1 : model_open(&run.engine, o, MODEL_RUN, &e);
	if (!rc)
		rc = checkpoint_model(&run.checkpoint, run.engine, &e);
	run.line = (struct shared_timeline){ .o = o, .engine = run.engine };
	if (!rc && o->command == CMD_EVAL_ANSWERS) {
		rc = given_tasks(&run, &task, &n, &e);
		run.material_hash = run.given.hash;
	} else if (!rc) {
		rc = corpus_load(&run.material, o->n_file ? o->file[0] : NULL, &e);
		if (!rc)
			rc = choose_tasks(o, &run.material, task, &n, &e);
		run.material_hash = corpus_hash(&run.material);
	}
	for (int i = 0; i < n; i++)
		run.total += (int64_t)samples_of(&run, task[i]) * lab_of(o)->len.n * run.kvs.n;
	progress_init(&run.progress, o->quiet, o->verbose, "answering", "answers");
	if (!rc)
		rc = run_tasks(&run, task, n, &e);
	progress_clear(&run.progress);
	shared_timeline_close(&run.line);
	corpus_free(&run.material);
	given_free(&run.given);
	free(task);
	engine_close(run.engine);
	checkpoint_close(&run.checkpoint);
	return rc < 0 ? fail(&e) : 0;
}
