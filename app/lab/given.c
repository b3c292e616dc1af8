/* app/lab/given.c - turns the user's files into tasks (given.h). Metrics, and maximum lengths of answers, are those of
 * the published benchmarks. So are the prompts of few-shot and code sets. The other prompts have weir's own wording. */
#include "app/lab/given.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/lab/checkpoint.h"
#include "engine/base/utf8.h"

enum { FILE_MOST = 1 << 30, TASK_NAME = 48, GEN_GSM8K = 320, GEN_CHOICE = 8, GEN_MOST = 65536, GEN_OWN = 128 };

/* A prompt. `head` is the beginning of the answer, which the model is given. */
struct item {
	struct str prompt, head;
	struct words ref; /* the right answers, owned by the item */
};
struct given_set {
	char name[TASK_NAME];
	enum eval_metric metric;
	int32_t gen; /* maximum number of tokens of an answer; 0 = GEN_OWN tokens */
	/* one_line is 1 if an answer is one line; plain is 1 if prompts are sent without a chat template */
	int one_line, plain;
	struct item *item; /* [n] prompts of the task */
	size_t n, cap;
	struct words classes; /* the classes of METRIC_CLASS, owned by this set */
};

/* ---- LongBench ---- */

enum form { QA, QASPER, SUMMARY, NEWS, MEETING, EXAMPLES, COUNT, RETRIEVAL, CODE, CODE_INPUT };
/* clang-format off */
static const struct longbench { const char *name; enum eval_metric metric; int32_t gen; enum form form; int one_line; } longbench[] = {
	{"narrativeqa", METRIC_F1, 128, QA, 0}, {"qasper", METRIC_F1, 128, QASPER, 0}, {"multifieldqa_en", METRIC_F1, 64, QA, 0},
	{"hotpotqa", METRIC_F1, 32, QA, 0}, {"2wikimqa", METRIC_F1, 32, QA, 0}, {"musique", METRIC_F1, 32, QA, 0},
	{"gov_report", METRIC_ROUGE_L, 512, SUMMARY, 0}, {"qmsum", METRIC_ROUGE_L, 512, MEETING, 0}, {"multi_news", METRIC_ROUGE_L, 512, NEWS, 0},
	{"trec", METRIC_CLASS, 64, EXAMPLES, 1}, {"triviaqa", METRIC_F1, 32, EXAMPLES, 1}, {"samsum", METRIC_ROUGE_L, 128, EXAMPLES, 1},
	{"passage_count", METRIC_NUMBERS, 32, COUNT, 0}, {"passage_retrieval_en", METRIC_NUMBERS, 32, RETRIEVAL, 0},
	{"lcc", METRIC_EDIT, 64, CODE, 0}, {"repobench-p", METRIC_EDIT, 64, CODE_INPUT, 0},
};
/* clang-format on */

/* Templates for each kind of record. `prompt` is the user's message, and `head` is how the answer begins. In both, %c
 * stands for the record's context and %i for its input. */
/* clang-format off */
static const struct { const char *prompt, *head; } forms[] = {
	[QA] = {"Answer a question by the text below, in as few words as possible, and say nothing else.\n\n%c\n\nAnswer the question by the text above, in as "
	        "few words as possible, and say nothing else.\n\nQuestion: %i", "Answer:"},
	[QASPER] = {"Answer a question by the paper below, in as few words as possible. Where the paper does not tell, the answer is \"unanswerable\"; to a question "
	            "of yes or no it is \"yes\", \"no\" or \"unanswerable\".\n\n%c\n\nAnswer the question by the paper above, in as few words as possible, with "
	            "\"unanswerable\" where the paper does not tell, and say nothing else.\n\nQuestion: %i", "Answer:"},
	[SUMMARY] = {"Summarise the report below on one page.\n\n%c\n\nSummarise the report above on one page.", "Summary:"},
	[NEWS] = {"Summarise all the news below on one page.\n\n%c\n\nSummarise all the news above on one page.", "Summary:"},
	[MEETING] = {"Below are the minutes of a meeting, and behind them a question about it.\n\n%c\n\nAnswer the question by these minutes in one or a few "
	             "sentences.\n\nQuestion: %i", "Answer:"},
	[EXAMPLES] = {"%c", "%i"},
	[COUNT] = {"Some of the numbered paragraphs below are repetitions of others. How many different ones are there?\n\n%c\n\nSay how many different paragraphs stand "
	           "above, by a number alone.", "Number of different paragraphs:"},
	[RETRIEVAL] = {"Below are numbered paragraphs, and behind them the summary of one of them.\n\n%c\n\nThe summary:\n\n%i\n\nWhich paragraph does it summarise? Answer "
	               "as in \"Paragraph 1\".", "Answer: Paragraph"},
	[CODE] = {"%c", ""},
	[CODE_INPUT] = {"%c%i", ""},
};
/* clang-format on */

/* Append a template with its %c and %i replaced by the context and the input. */
static void fill_in(const char *form, const struct str *context, const struct str *input, struct str *out)
{
	for (const char *p = form; *p; p++) {
		const struct str *s = p[0] == '%' && p[1] == 'c' ? context : p[0] == '%' && p[1] == 'i' ? input : NULL;

		str_add(out, s ? str_text(s) : p, s ? s->n : 1);
		p += s != NULL;
	}
}

static const struct longbench *longbench_find(const char *name)
{
	size_t n = strlen(name);

	if (n > 2 && !strcmp(name + n - 2, "_e")) /* tasks whose names end in _e belong to LongBench-E */
		n -= 2;
	for (size_t i = 0; i < LEN(longbench); i++)
		if (strlen(longbench[i].name) == n && !memcmp(longbench[i].name, name, n))
			return &longbench[i];
	return NULL;
}

/* ---- sets ---- */

/* Add an empty prompt to the set with this name, and point *set to the set. Returns the prompt; NULL with an error if
 * the set has another metric. */
static struct item *item_add(struct given *g, const char *name, enum eval_metric metric, struct given_set **set,
                             struct err *e)
{
	struct given_set *s = NULL;

	for (size_t i = 0; i < g->n; i++)
		if (!strcmp(g->set[i].name, name))
			s = &g->set[i];
	if (!s) {
		g->set = xrealloc(g->set, (g->n + 1) * sizeof *g->set);
		s = &g->set[g->n++];
		*s = (struct given_set){ .metric = metric };
		snprintf(s->name, sizeof s->name, "%s", name);
	}
	if (s->metric != metric) {
		err_set(e, ERR_DOCUMENT,
		        "task '%.40s' has records of another kind before it; \"task\" gives it another name", name);
		return NULL;
	}
	*set = s;
	GROW(s->item, s->n, s->cap);
	s->item[s->n] = (struct item){ .prompt = { 0 } };
	str_add(&s->item[s->n].prompt, "", 0);
	str_add(&s->item[s->n].head, "", 0);
	return &s->item[s->n++];
}

/* Append a text, or each text of a list. */
static void add_texts(struct jv v, struct words *out)
{
	struct jv it = { 0 };
	struct str s = { 0 };

	if (v.p && *v.p == '[') {
		while (jv_next(v, &it, NULL)) {
			str_clear(&s);
			if (jv_text(it, &s) == 0)
				words_add(out, xstrndup(str_text(&s), s.n));
		}
	} else if (v.p && jv_text(v, &s) == 0) {
		words_add(out, xstrndup(str_text(&s), s.n));
	}
	str_free(&s);
}

/* ---- records ---- */

/* Each of these functions adds one record to the set `name`. given_load() lists the kinds of records. */

static int read_longbench(struct given *g, struct jv r, const char *name, struct err *e)
{
	const struct longbench *l = longbench_find(name);
	struct str context = { 0 }, input = { 0 };
	struct given_set *s;
	struct item *it;

	if (!l) {
		g->left_out++;
		snprintf(g->left_out_name, sizeof g->left_out_name, "%s", name);
		return 0;
	}
	if (!(it = item_add(g, name, l->metric, &s, e)))
		return -1;
	s->gen = l->gen;
	s->one_line = l->one_line;
	s->plain = l->form >= CODE || l->form == EXAMPLES;
	if (!s->classes.n)
		add_texts(jv_get(r, "all_classes"), &s->classes);
	jv_text(jv_get(r, "context"), &context);
	jv_text(jv_get(r, "input"), &input);
	fill_in(forms[l->form].prompt, &context, &input, &it->prompt);
	fill_in(forms[l->form].head, &context, &input, &it->head);
	add_texts(jv_get(r, "answers"), &it->ref);
	str_free(&context);
	str_free(&input);
	return 0;
}

static int read_choices(struct given *g, struct jv r, const char *name, struct err *e)
{
	struct given_set *s;
	struct item *it = item_add(g, name, METRIC_CHOICE, &s, e);
	struct jv choice = { 0 }, answer = jv_get(r, "answer");
	struct str letter = { 0 };
	double index;
	int n = 0;

	if (!it)
		return -1;
	s->gen = GEN_CHOICE;
	str_adds(&it->prompt, "Answer the question with the letter of the right choice alone.\n\n");
	jv_text(jv_get(r, "question"), &it->prompt);
	while (n < 10 && jv_next(jv_get(r, "choices"), &choice, NULL)) {
		str_addf(&it->prompt, "\n%c. ", 'A' + n++);
		jv_text(choice, &it->prompt);
	}
	str_adds(&it->head, "Answer:");
	if (jv_number(answer, &index) == 0 && index >= 0 && index < n)
		str_addf(&letter, "%c", 'A' + (int)index);
	else
		jv_text(answer, &letter);
	if (letter.n != 1 || letter.p[0] < 'A' || letter.p[0] >= 'A' + n) {
		str_free(&letter);
		return err_set(e, ERR_DOCUMENT, "its answer is none of its choices");
	}
	words_add(&it->ref, xstrndup(letter.p, 1));
	str_free(&letter);
	return 0;
}

static int read_sum(struct given *g, struct jv r, const char *name, struct err *e)
{
	struct given_set *s;
	struct item *it = item_add(g, name, METRIC_NUMBER, &s, e);

	if (!it)
		return -1;
	s->gen = GEN_GSM8K;
	str_adds(
		&it->prompt,
		"Solve the problem step by step. The last line shall be \"#### \" and the number that is asked for.\n\nProblem: ");
	jv_text(jv_get(r, "question"), &it->prompt);
	str_adds(&it->head, "Solution:");
	add_texts(jv_get(r, "answer"), &it->ref);
	return 0;
}

static int read_rows(struct given *g, struct jv r, const char *name, struct err *e)
{
	struct given_set *s;
	struct item *it = item_add(g, name, METRIC_ROWS, &s, e);
	struct str rows = { 0 };
	char *at, *line;
	int32_t most;

	if (!it)
		return -1;
	jv_text(jv_get(r, "prompt"), &it->prompt);
	str_add(&rows, "", 0);
	jv_text(jv_get(r, "reference_output"), &rows);
	/* allow one token for two bytes of the table: on average, tokens have more than two bytes */
	most = (int32_t)(rows.n / 2 < GEN_MOST ? rows.n / 2 : GEN_MOST) + 32;
	s->gen = MAX(s->gen, most);
	for (line = strtok_r(rows.p, "\n", &at); line; line = strtok_r(NULL, "\n", &at))
		if (line[strspn(line, " \t\r")])
			words_add(&it->ref, xstrndup(line, strlen(line)));
	str_free(&rows);
	return 0;
}

static const char *const metric_names[] = {
	[METRIC_ALL] = "all",       [METRIC_ANY] = "any",         [METRIC_ROWS] = "rows",
	[METRIC_F1] = "f1",         [METRIC_ROUGE_L] = "rouge-l", [METRIC_EDIT] = "edit",
	[METRIC_CLASS] = "class",   [METRIC_NUMBERS] = "numbers", [METRIC_NUMBER] = "number",
	[METRIC_CHOICE] = "choice",
};

static int read_own(struct given *g, struct jv r, const char *name, struct err *e)
{
	struct given_set *s;
	struct jv metric = jv_get(r, "metric");
	size_t m = 0;
	struct item *it;
	double most;

	while (m < LEN(metric_names) && !(metric_names[m] && jv_is(metric, metric_names[m])))
		m++;
	if (m == LEN(metric_names))
		return err_set(
			e, ERR_DOCUMENT,
			"its \"metric\" is none of all, any, rows, f1, rouge-l, edit, class, numbers, number, choice");
	if (!(it = item_add(g, name, (enum eval_metric)m, &s, e)))
		return -1;
	if (jv_number(jv_get(r, "max_tokens"), &most) == 0 && most >= 1 && most <= GEN_MOST)
		s->gen = s->gen > (int32_t)most ? s->gen : (int32_t)most;
	if (!s->classes.n)
		add_texts(jv_get(r, "classes"), &s->classes);
	jv_text(jv_get(r, "prompt"), &it->prompt);
	jv_text(jv_get(r, "head"), &it->head);
	add_texts(jv_get(r, "answers"), &it->ref);
	return 0;
}

static int read_record(struct given *g, struct jv r, const char *file, struct err *e)
{
	struct jv own = jv_get(r, "task"), dataset = jv_get(r, "dataset");
	struct given_set *s;
	struct str name = { 0 };
	int rc;

	if (!r.p || *r.p != '{')
		return err_set(e, ERR_DOCUMENT, "it is no object");
	if ((own.p       ? jv_text(own, &name)
	     : dataset.p ? jv_text(dataset, &name)
	                 : -1) < 0 ||
	    !name.n || name.n >= TASK_NAME) {
		str_clear(&name);
		str_addf(&name, "%.*s", TASK_NAME - 1, file);
	}
	for (size_t i = 0; i < name.n; i++)
		if ((unsigned char)name.p[i] <= ' ' || (unsigned char)name.p[i] >= 0x7f)
			name.p[i] = '_';
	rc = jv_get(r, "context").p && jv_get(r, "input").p             ? read_longbench(g, r, name.p, e)
	     : jv_get(r, "choices").p                                   ? read_choices(g, r, name.p, e)
	     : jv_get(r, "prompt").p && jv_get(r, "metric").p           ? read_own(g, r, name.p, e)
	     : jv_get(r, "prompt").p && jv_get(r, "reference_output").p ? read_rows(g, r, name.p, e)
	     : jv_get(r, "question").p && jv_get(r, "answer").p
	             ? read_sum(g, r, name.p, e)
	             : err_set(e, ERR_DOCUMENT,
	                       "it is none of the records that 'man weir' lists at 'weir eval answers'");
	for (size_t i = 0; !rc && i < g->n; i++) {
		s = &g->set[i];
		if (!strcmp(s->name, name.p) && s->n && !s->item[s->n - 1].ref.n)
			rc = err_set(e, ERR_DOCUMENT, "it has no answers");
	}
	str_free(&name);
	return rc;
}

/* ---- files ---- */

/* Read a file: a JSON list, or JSON lines. `name` is the task of records that do not name their task. */
static int read_list(struct given *g, const struct str *text, const char *name, struct err *e)
{
	struct err why = { 0 };
	struct jv it = { 0 };
	size_t line = 0;
	int rc = 0;

	if (text->n && json_valid(text->p, text->n) && *jv_parse(text->p, text->n).p == '[') {
		while (!rc && jv_next(jv_parse(text->p, text->n), &it, NULL)) {
			line++;
			rc = read_record(g, it, name, &why);
		}
		return rc ? err_set(e, why.code, "'%.100s', record %zu: %s", name, line, why.msg) : 0;
	}
	for (const char *p = text->p, *end; !rc && p && *p; p = end + (*end == '\n')) {
		size_t n = strcspn(p, "\n");

		end = p + n;
		line++;
		if (strspn(p, " \t\r") >= n)
			continue;
		if (!json_valid(p, n))
			return err_set(e, ERR_DOCUMENT, "'%.100s', line %zu: it is no JSON", name, line);
		rc = read_record(g, jv_parse(p, n), name, &why);
	}
	return rc ? err_set(e, why.code, "'%.100s', line %zu: %s", name, line, why.msg) : 0;
}

int given_load(struct given *g, const char *const *file, int n_file, struct err *e)
{
	int rc = 0;

	*g = (struct given){ .n = 0 };
	for (int i = 0; i < n_file && !rc; i++) {
		const char *slash = strrchr(file[i], '/'), *base = slash ? slash + 1 : file[i],
			   *dot = strrchr(base, '.');
		char *name = xstrndup(base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
		struct str text = { 0 };

		rc = read_whole(file[i], FILE_MOST, &text, e) || read_list(g, &text, name, e) ? -1 : 0;
		g->hash = g->hash * 31 + checkpoint_hash(str_text(&text), text.n);
		str_free(&text);
		free(name);
	}
	if (!rc && !g->n)
		rc = g->left_out ? err_set(e, ERR_DOCUMENT, "set '%.40s' is none that weir can score", g->left_out_name)
		                 : err_set(e, ERR_DOCUMENT, "there is no record in '%.200s'", file[0]);
	g->task = xcalloc(g->n + 1, sizeof *g->task);
	for (size_t i = 0; i < g->n && !rc; i++) {
		const struct given_set *s = &g->set[i];

		g->task[i] = (struct task_def){
			.name = s->name,
			.command = 0,
			.gen = s->gen ? s->gen : GEN_OWN,
			.metric = s->metric,
			.least = 0,
			.build = given_build,
			.set = s,
		};
	}
	if (rc)
		given_free(g);
	return rc;
}

void given_free(struct given *g)
{
	for (size_t i = 0; i < g->n; i++) {
		for (size_t k = 0; k < g->set[i].n; k++) {
			str_free(&g->set[i].item[k].prompt);
			str_free(&g->set[i].item[k].head);
			words_free_owned(&g->set[i].item[k].ref);
		}
		free(g->set[i].item);
		words_free_owned(&g->set[i].classes);
	}
	free(g->set);
	free(g->task);
	*g = (struct given){ .n = 0 };
}

int32_t given_count(const struct given_set *s)
{
	return s->n < INT32_MAX ? (int32_t)s->n : INT32_MAX;
}

int given_one_line(const struct given_set *s)
{
	return s->one_line;
}

/* ---- prompts ---- */

int given_build(const struct corpus *m, struct rng r, int32_t units, int32_t len, int32_t i, struct sample *s,
                struct err *e)
{
	const struct given_set *set = m->set;
	const struct item *it = &set->item[i];
	size_t n = it->prompt.n, most = len > 1 ? (size_t)((double)n * units / (len - 1)) : n, front, back;

	(void)r, (void)e;
	if (most >= n) {
		str_add(&s->prompt, it->prompt.p, n);
	} else {
		front = utf8_back(it->prompt.p, most / 2);
		back = utf8_back(it->prompt.p, n - (most - most / 2));
		str_add(&s->prompt, it->prompt.p, front);
		str_add(&s->prompt, it->prompt.p + back, n - back);
	}
	s->depth = -1;
	s->plain = set->plain;
	s->classes = &set->classes;
	str_add(&s->head, it->head.p, it->head.n);
	for (size_t k = 0; k < it->ref.n; k++)
		words_add(&s->ref, xstrndup(it->ref.w[k], strlen(it->ref.w[k])));
	return 0;
}
