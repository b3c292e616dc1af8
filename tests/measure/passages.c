/* tests/measure/passages.c - what answers lose if the passages of a question are not read, but their KV entries, which
 * were computed for each passage alone, are loaded.
 *
 *     passages MODEL HALF COUNT BYTES DOCUMENT TABLE [DOCUMENT TABLE ...]
 *
 * Tables are those of tests/measure/sources.c. Questions of half HALF (a, b, or - for both) are asked: COUNT groups of
 * each table, at equal distances, where a group is the questions in a row about one place. The prompt of a question has MOST passages of BYTES bytes, each behind a line that names
 * its document and section, in document order; one of them has the answer. Each passage is computed once behind the
 * beginning of the prompt, as if it were the first passage (with plans "alone": behind nothing). To load it, its keys
 * are rotated by the difference of positions. A plan says which of its tokens are computed again, with everything before
 * them in the cache: the first ones of each passage (EPIC, arXiv 2410.15332), or those whose values deviate most from
 * the values that reading gives (CacheBlend, arXiv 2405.16444), in layer 1 or in all layers.
 *
 * Printed for each question and plan, with tabs between: question; kind; plan; recomputed and all tokens of the
 * passages; seconds until the logits after the prompt are known; log probabilities of the accepted answer, of the answer
 * that follows reading (and its tokens), of a refusal; 1 if the greedy answer is right; 1 if it is the answer that
 * follows reading; Kullback-Leibler divergence of the first token; the answer. passages.py adds up such lines.
 * PASSAGES_PLANS=I,J,...: measure reading and these plans alone, by their numbers in plans[] from 0 on.
 * PASSAGES_QUOTED=1: between the passages and the question stands the best sentence found, as in prompts of weir. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sessions/store/store.h"
#include "tests/measure/passages_load.h"

enum { MOST = PASSAGES_MOST, ANSWER = 32, FOUND = 12, TOGETHER = 8 };
#define REFUSAL "The text does not say."

static const struct plan plans[] = {
	{ "read", 2, FIRST, 0 },
	{ "first 0", 0, FIRST, 0 },
	{ "first 5", .05, FIRST, 0 },
	{ "first 10", .10, FIRST, 0 },
	{ "first 15", .15, FIRST, 0 },
	{ "first 30", .30, FIRST, 0 },
	{ "first 60", .60, FIRST, 0 },
	{ "layer 1, 15", .15, LAYER_1, 0 },
	{ "all layers, 15", .15, ALL_LAYERS, 0 },
	{ "alone, first 0", 0, FIRST, 1 },
	{ "alone, first 10", .10, FIRST, 1 },
	{ "first 100", 1, FIRST, 0 },
};

/* What follows a prompt under a plan. */
struct measured {
	double gold, own, refusal, divergence, seconds;
	int right, same;
	struct tokens id; /* the greedy answer */
};

static struct passage_index *passages;
static size_t passage_bytes;
static int wanted[LEN(plans)] = { 1 }; /* plans that are measured */

/* ---- what follows the prompt ---- */

struct scored {
	const int32_t *id;
	int32_t at, n;
	double sum;
};
static void score_next(int32_t pos, const float *logits, void *ud)
{
	struct scored *s = ud;

	if (pos + 1 - s->at < s->n)
		s->sum += engine_logprob(logits, engine_info(engine)->n_vocab, s->id[pos + 1 - s->at]);
}

/* Return the log probability of the tokens behind the prompt, which the timeline has. */
static double logprob_of(const struct prompt *p, const struct tokens *t)
{
	struct scored s = { .id = t->id, .at = (int32_t)p->id.n, .n = (int32_t)t->n };
	struct err e = { 0 };

	if (!t->n)
		return 0;
	score_next(s.at - 1, timeline_logits(tl), &s);
	need(t->n < 2 || !timeline_extend(tl, t->id, t->n - 1, 0, score_next, &s, &e), &e);
	sync_to(p->id.id, (int32_t)p->id.n);
	return s.sum;
}

static double divergence(const float *p, const float *q, int32_t n)
{
	double sum = 0;
	double zp = engine_logprob(p, n, 0) - (double)p[0], zq = engine_logprob(q, n, 0) - (double)q[0];

	for (int32_t i = 0; i < n; i++)
		sum += exp(p[i] + zp) * (p[i] + zp - q[i] - zq);
	return sum;
}

static int has_answer(const char *text, size_t n, const char *answers)
{
	for (const char *a = answers; *a;) {
		size_t len = strcspn(a, "|");

		for (size_t i = 0; len && i + len <= n; i++)
			if (!strncasecmp(text + i, a, len))
				return 1;
		a += len + (a[len] == '|');
	}
	return 0;
}

static void greedy(const struct prompt *p, struct tokens *out)
{
	struct sampling s = sampling_default;
	struct step_out got;
	struct err e = { 0 };

	s.temperature = 0;
	while (out->n < ANSWER && timeline_step(tl, &s, &got, &e) == 1)
		tokens_append(out, &got.id, 1);
	sync_to(p->id.id, (int32_t)p->id.n);
}

static void tokens_of(const char *text, size_t n, struct tokens *out)
{
	struct err e = { 0 };

	need(!engine_tokenize(engine, text, n, 0, out, &e), &e);
}

static void answer_text(const struct tokens *t, struct str *out)
{
	for (size_t i = 0; i < t->n; i++)
		engine_piece_add(engine, t->id[i], 0, out);
	for (size_t i = 0; i < out->n; i++)
		if (out->p[i] == '\n' || out->p[i] == '\t')
			out->p[i] = ' ';
}

/* Measure what follows the prompt under a plan, whose passages are in the cache. read: what followed reading. *logits:
 * logits after reading; set if NULL. */
static void measure(const struct prompt *p, const struct plan *plan, const struct done *d, const char *answers,
                    const struct measured *read, float **logits, struct measured *m)
{
	size_t n_vocab = (size_t)engine_info(engine)->n_vocab;
	struct tokens gold = { 0 }, refusal = { 0 };
	struct str text = { 0 };
	double start = now_seconds();

	sync_to(p->id.id, (int32_t)p->id.n);
	m->seconds = d->seconds + now_seconds() - start;
	if (!*logits)
		*logits = memcpy(xmalloc(n_vocab * sizeof **logits), timeline_logits(tl), n_vocab * sizeof **logits);
	m->divergence = divergence(*logits, timeline_logits(tl), (int32_t)n_vocab);
	greedy(p, &m->id);
	tokens_of(answers, strcspn(answers, "|"), &gold);
	tokens_of(REFUSAL, strlen(REFUSAL), &refusal);
	m->gold = logprob_of(p, &gold);
	m->own = logprob_of(p, read ? &read->id : &m->id);
	m->refusal = logprob_of(p, &refusal);
	answer_text(&m->id, &text);
	m->right = has_answer(str_text(&text), text.n, answers);
	m->same = !read || (m->id.n == read->id.n && !memcmp(m->id.id, read->id.id, m->id.n * sizeof *m->id.id));
	printf("%s\t%zu\t%zu\t%.3f\t%.4f\t%.4f\t%zu\t%.4f\t%d\t%d\t%.5f\t%s\n", plan->name, d->again, d->all,
	       m->seconds, m->gold, m->own, (read ? read : m)->id.n, m->refusal, m->right, m->same, m->divergence,
	       str_text(&text));
	tokens_free(&gold);
	tokens_free(&refusal);
	str_free(&text);
}

/* ---- prompts ---- */

struct part {
	size_t from, to;
};

/* Return passage_bytes bytes from `from` on, in whole words, not beyond the end of the text. */
static struct part part_at(const char *text, size_t n, size_t from)
{
	struct part p = { from, MIN(from + passage_bytes, n) };

	while (p.to < n && p.to > from && (unsigned char)text[p.to] > ' ')
		p.to--;
	return p;
}

static int part_add(struct part *list, int n, struct part p)
{
	for (int i = 0; i < n; i++)
		if (p.from < list[i].to && list[i].from < p.to)
			return n;
	list[n] = p;
	return n + 1;
}

static int by_place(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/* Add the passages that the answer needs. */
static int places_add(const char *text, size_t n, const char *answers, const char *places, struct part list[MOST])
{
	int count = 0;
	size_t from, to;

	for (; sscanf(places, "%zu-%zu", &from, &to) == 2; places += strcspn(places, " "), places += *places == ' ') {
		struct part p = part_at(text, n, from);

		if (to > p.to && !has_answer(text + p.from, p.to - p.from, answers))
			p = part_at(text, n, to - passage_bytes);
		count = part_add(list, count, p);
	}
	return count;
}

/* Choose the passages of a question: those that the answer needs, and the best ones found. */
static int choose(const char *text, size_t n, const char *question, const char *answers, const char *places,
                  struct part list[MOST])
{
	struct indexed_text whole = { text, n };
	struct found_passage found[FOUND];
	struct err e = { 0 };
	int count = places_add(text, n, answers, places, list),
	    n_found = passages_find(passages, &whole, 1, question, strlen(question), found, FOUND, &e);

	need(n_found >= 0, &e);
	for (int i = 0; i < n_found && count < MOST; i++)
		count = part_add(list, count, part_at(text, n, found[i].from));
	qsort(list, (size_t)count, sizeof *list, by_place);
	return count;
}

/* Append the line before a passage: the document, and the last Markdown heading before it. */
static void card_add(const char *name, const char *text, size_t at, struct str *out)
{
	const char *base = strrchr(name, '/');

	str_addf(out, "From %s", base ? base + 1 : name);
	for (size_t i = at; i--;)
		if (text[i] == '#' && (!i || text[i - 1] == '\n')) {
			const char *line = text + i + strspn(text + i, "# ");

			str_addf(out, ", \"%.*s\"", (int)strcspn(line, "\n"), line);
			break;
		}
	str_adds(out, ":\n");
}

/* Append the best sentence found for a question. */
static void quote_add(const char *text, size_t n, const char *question, struct str *out)
{
	struct indexed_text whole = { text, n };
	struct found_passage found;
	struct err e = { 0 };

	if (passages_find(passages, &whole, 1, question, strlen(question), &found, 1, &e) > 0)
		str_addf(out, "The document says: \"%.*s\"\n\n", (int)(found.quote_end - found.quote),
		         text + found.quote);
}

static void prompt_make(const char *name, const char *text, size_t n_text, const struct part *part, int n,
                        const char *question, struct prompt *p)
{
	struct str s = { 0 };
	struct rendered r = { 0 };
	struct err e = { 0 };
	size_t at[MOST + 1];

	*p = (struct prompt){ .n = n };
	for (int i = 0; i < n; i++) {
		at[i] = s.n;
		card_add(name, text, part[i].from, &s);
		str_add(&s, text + part[i].from, part[i].to - part[i].from);
		str_adds(&s, "\n\n");
	}
	at[n] = s.n;
	if (getenv("PASSAGES_QUOTED"))
		quote_add(text, n_text, question, &s);
	str_adds(&s, question);
	need(!engine_render(engine, &(struct chat_msg){ .role = ROLE_USER, .text = s.p, .len = s.n }, 1, REPLY_HEAD,
	                    NULL, &r, &e),
	     &e);
	tokens_append(&p->id, r.id.id, r.id.n);
	for (int i = 0; i < n; i++) {
		p->block[i].from = (int32_t)rendered_token(&r, 0, at[i]);
		p->block[i].n = (int32_t)rendered_token(&r, 0, at[i + 1]) - p->block[i].from;
	}
	rendered_free(&r);
	str_free(&s);
}

/* ---- questions ---- */

struct asked {
	char *kind, *places, *answers, *question;
};

static int is_alone(const struct plan *p)
{
	return p->alone;
}

static int is_by_deviation(const struct plan *p)
{
	return p->by != FIRST;
}

static int any_wanted(int (*is)(const struct plan *))
{
	int any = 0;

	for (size_t i = 0; i < LEN(plans); i++)
		any |= wanted[i] && is(&plans[i]);
	return any;
}

/* Ask up to TOGETHER questions that need the same passage. */
static void ask(const char *name, const char *text, size_t n, const struct asked *q, int n_q)
{
	struct measured m[LEN(plans)][TOGETHER] = { 0 };
	struct part part[MOST];
	struct prompt p[TOGETHER];
	float *logits[TOGETHER] = { 0 };
	int count = choose(text, n, q->question, q->answers, q->places, part);

	if (!count)
		return;
	for (int k = 0; k < n_q; k++)
		prompt_make(name, text, n, part, count, q[k].question, &p[k]);
	passages_isolate(p, 0);
	if (any_wanted(is_alone))
		passages_isolate(p, 1);
	for (size_t i = 0; i < LEN(plans); i++) {
		struct done d;

		if (!wanted[i])
			continue;
		d = passages_compute(p, &plans[i]);
		for (int k = 0; k < n_q; k++) {
			printf("%s\t%s\t", q[k].question, q[k].kind);
			measure(&p[k], &plans[i], &d, q[k].answers, i ? &m[0][k] : NULL, &logits[k], &m[i][k]);
		}
		if (!i && any_wanted(is_by_deviation))
			passages_compare(p);
	}
	fflush(stdout);
	for (size_t i = 0; i < LEN(plans) * TOGETHER; i++)
		tokens_free(&m[0][i].id);
	for (int k = 0; k < n_q; k++) {
		free(logits[k]);
		prompt_free(&p[k]);
	}
}

static char *read_file(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	struct str s = { 0 };
	char buf[65536];

	if (!f)
		stop(path);
	for (size_t k; (k = fread(buf, 1, sizeof buf, f));)
		str_add(&s, buf, k);
	fclose(f);
	str_add(&s, "", 1);
	*n = s.n - 1;
	return s.p;
}

static struct asked row_of(char *line)
{
	char *column[5];

	for (int k = 0; k < 5; k++)
		if (!(column[k] = strsep(&line, "\t")))
			stop("a row of the table is too short");
	return (struct asked){ column[1], column[2], column[3], column[4] };
}

/* Ask questions of a table: `count` groups of questions about one place. */
static void ask_table(const char *document, const char *table, char half, size_t count)
{
	size_t n_text, n_table, n = 0, *group = NULL, n_group = 0;
	char *text = read_file(document, &n_text), *rows = read_file(table, &n_table);
	struct asked *row = NULL;

	for (char *next = rows, *line; (line = strsep(&next, "\n"));) {
		if (!*line || (half != '-' && line[0] != half))
			continue;
		row = xrealloc(row, (n + 1) * sizeof *row);
		row[n] = row_of(line);
		if (!n || !*row[n].places || strcmp(row[n].places, row[n - 1].places) != 0) {
			group = xrealloc(group, (n_group + 1) * sizeof *group);
			group[n_group++] = n;
		}
		n++;
	}
	count = MIN(count, n_group);
	for (size_t i = 0; i < count; i++) {
		size_t g = i * n_group / count, from = group[g], to = g + 1 < n_group ? group[g + 1] : n;

		ask(document, text, n_text, row + from, (int)MIN(to - from, TOGETHER));
	}
	free(group);
	free(row);
	free(rows);
	free(text);
}

int main(int argc, char **argv)
{
	const char *threads = getenv("WEIR_THREADS"), *list = getenv("PASSAGES_PLANS");
	struct err e = { 0 };

	if (argc < 7)
		stop("MODEL HALF COUNT BYTES DOCUMENT TABLE [DOCUMENT TABLE ...]");
	passage_bytes = strtoul(argv[4], NULL, 10);
	for (size_t i = 0; i < LEN(plans); i++)
		wanted[i] |= !list;
	for (char *end; list && *list; list = end + (*end == ',')) {
		size_t i = strtoul(list, &end, 10);

		if (end == list || i >= LEN(plans))
			stop("PASSAGES_PLANS has no such plan");
		wanted[i] = 1;
	}
	passages_open(argv[1], threads ? (int)strtol(threads, NULL, 10) : 0);
	need(!passage_index_open(&passages, NULL, &e), &e);
	for (int i = 5; i + 1 < argc; i += 2)
		ask_table(argv[i], argv[i + 1], argv[2][0], strtoul(argv[3], NULL, 10));
	passage_index_close(passages);
	passages_close();
	return 0;
}
