/* app/lab/ruler.c - prompts in the manner of the RULER benchmark: needles in a haystack, chains of variables, common
 * and frequent words, questions among documents.
 *
 * Numbers, distributions and metrics are those of the published benchmark; the wording is weir's own. A sample may be
 * built with more units (sentences, words, ...): then the same things are hidden at the same depths. */
#include "app/lab/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the haystack is made of: repeated sentences, essays, other needles, random words. */
enum haystack { HAY_NOISE, HAY_ESSAY, HAY_NEEDLES, HAY_WORDS };
/* LISTED, FIT: number of values of a key in the task `list`, and in the task `copy`. HOPS: number of variables in a
 * chain. COMMON: number of common words that the question asks for. */
enum { LISTED = 12, FIT = 8, NEEDLES_MAX = 2 * FIT, HOPS = 5, COMMON = 10 };

static const char *const noise[] = {
	"The grass is green.", "The sky is blue.", "The sun is yellow.", "Here we go.", "There and back again.",
};
#define NOISE LEN(noise)

/* ---- words and numbers ---- */

static void add_ref(struct sample *s, const struct str *text)
{
	words_add(&s->ref, xstrndup(text->p, text->n));
}

static void draw_words(const struct corpus *m, struct rng *r, struct str *out)
{
	str_adds(out, m->adjective.w[rng_below(r, (uint32_t)m->adjective.n)]);
	str_adds(out, "-");
	str_adds(out, m->noun.w[rng_below(r, (uint32_t)m->noun.n)]);
}

static void draw_number(struct rng *r, struct str *out)
{
	str_addf(out, "%u", 1000000 + rng_below(r, 9000000));
}

/* Append a UUID, version 4. */
static void draw_uuid(struct rng *r, struct str *out)
{
	uint64_t a = rng_next(r), b = rng_next(r);

	str_addf(out, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(a >> 32), (unsigned)(a >> 16 & 0xffff),
	         (unsigned)(a & 0xfff), (unsigned)(0x8000 | (b >> 48 & 0x3fff)),
	         (unsigned long long)(b & 0xffffffffffff));
}

static void list_shuffle(struct rng *r, int32_t *v, int32_t n)
{
	for (int32_t i = n - 1; i > 0; i--) {
		int32_t j = (int32_t)rng_below(r, (uint32_t)i + 1), x = v[i];
		v[i] = v[j];
		v[j] = x;
	}
}

/* ---- needles ---- */

/* Forms of an answer: free text, one row for each value, or one row for each key and value. */
enum { ROWS_NONE, ROWS_VALUES, ROWS_KEYED };
/* A task that hides needles in a haystack of other text. A needle is a sentence "the number for KEY is VALUE".
 *     uuid_key:   1 if keys are UUIDs
 *     uuid_value: 1 if values are UUIDs
 *     n_key:      number of keys
 *     n_value:    number of values of each key
 *     n_asked:    number of keys that the question asks for
 *     swept:      1 if there is a single needle, at the depth sample.depth
 *     listed:     form of the answer, as ROWS_... */
struct niah {
	enum haystack hay;
	int uuid_key, uuid_value, n_key, n_value, n_asked, swept, listed;
};

static void add_needle(const struct niah *t, struct str *out, const char *key, const char *value)
{
	str_addf(out, "One of the special magic %s for %s is: %s.", t->uuid_value ? "uuids" : "numbers", key, value);
}

/* Choose a key and a value at random. */
static void draw_pair(const struct niah *t, const struct corpus *m, struct rng *r, struct str *key, struct str *value)
{
	str_clear(key);
	str_clear(value);
	if (t->uuid_key)
		draw_uuid(r, key);
	else
		draw_words(m, r, key);
	if (t->uuid_value)
		draw_uuid(r, value);
	else
		draw_number(r, value);
}

/* Append a haystack of `units` units (sentences, words, ...), with needle number i before unit number position[i]. The
 * numbers in `position` are in ascending order. */
static void add_haystack(const struct niah *t, const struct corpus *m, struct rng *r, int32_t units,
                         const struct str *needle, const int32_t *position, int n, struct str *out)
{
	const char *gap = t->hay == HAY_NOISE ? "\n" : " ";
	size_t from = t->hay == HAY_ESSAY ? rng_below(r, (uint32_t)m->sentence.n) : 0;
	struct str key = { 0 }, value = { 0 };
	int at = 0;

	for (int32_t i = 0; i <= units; i++) {
		for (; at < n && position[at] <= i; at++)
			str_addf(out, "%s%s", needle[at].p, gap);
		if (i == units)
			break;
		if (t->hay == HAY_NOISE) {
			for (size_t k = 0; k < NOISE; k++)
				str_addf(out, "%s%s", noise[k], k + 1 < NOISE ? " " : "");
		} else if (t->hay == HAY_ESSAY) {
			const struct span *s = &m->sentence.s[(from + (size_t)i) % m->sentence.n];
			str_add(out, m->essay.p + s->at, s->n);
		} else if (t->hay == HAY_WORDS) {
			str_adds(out, m->all.w[rng_below(r, (uint32_t)m->all.n)]);
		} else {
			draw_pair(t, m, r, &key, &value);
			add_needle(t, out, key.p, value.p);
		}
		str_adds(out, gap);
	}
	str_free(&key);
	str_free(&value);
}

static int build_niah(const struct niah *t, const struct corpus *m, struct rng r, int32_t units, struct sample *s)
{
	struct str key[NEEDLES_MAX] = { { 0 } }, needle[NEEDLES_MAX] = { { 0 } }, value = { 0 }, unused = { 0 },
		   asked = { 0 }, row = { 0 };
	int32_t position[NEEDLES_MAX], depth[40], order[NEEDLES_MAX];
	const char *kind = t->uuid_value ? "uuid" : "number", *many;
	int n = 0, first = (int)rng_below(&r, (uint32_t)t->n_key);

	for (int k = 0; k < t->n_key; k++)
		for (int v = 0; v < t->n_value; v++) {
			draw_pair(t, m, &r, v ? &unused : &key[k], &value);
			/* The question asks for n_asked keys, from key number `first` on. After the last key comes key
			 * 0. */
			if ((k - first + t->n_key) % t->n_key < t->n_asked) {
				str_clear(&row);
				str_addf(&row, "%s%s%s", t->listed == ROWS_KEYED ? key[k].p : "",
				         t->listed == ROWS_KEYED ? " is: " : "", value.p);
				add_ref(s, &row);
			}
			add_needle(t, &needle[n++], key[k].p, value.p);
		}
	for (int i = 0; i < t->n_asked; i++)
		str_addf(&asked, "%s%s", !i ? "" : i + 1 < t->n_asked ? ", " : " and ", key[(first + i) % t->n_key].p);
	/* Choose a different depth, from 0 to 39, for each needle at random. */
	for (int i = 0; i < 40; i++)
		depth[i] = i;
	list_shuffle(&r, depth, 40);
	for (int i = 0; i < n; i++)
		order[i] = i;
	for (int i = 1; i < n; i++)
		for (int j = i; j > 0 && depth[j] < depth[j - 1]; j--) {
			int32_t x = depth[j];
			depth[j] = depth[j - 1];
			depth[j - 1] = x;
		}
	list_shuffle(&r, order, n);
	if (!t->swept || s->depth < 0)
		s->depth = n == 1 ? depth[0] / 39.0 : -1;
	for (int i = 0; i < n; i++) {
		struct str x = needle[i];
		position[i] = t->swept ? (int32_t)(units * s->depth + 0.5) : (int32_t)((int64_t)units * depth[i] / 39);
		needle[i] = needle[order[i]];
		needle[order[i]] = x;
	}
	many = s->ref.n > 1 ? "s" : "";
	str_addf(&s->prompt,
	         "Somewhere in the text below %s special magic %s%s hidden. Remember what you find: there will be a "
	         "question about it.\n",
	         s->ref.n > 1 ? "some" : "a", kind, s->ref.n > 1 ? "s are" : " is");
	add_haystack(t, m, &r, units, needle, position, n, &s->prompt);
	s->question = s->prompt.n;
	if (t->listed) {
		str_addf(&s->prompt,
		         "\nList all %zu special magic %ss for %s in the text above, each on a line of its own.",
		         s->ref.n, kind, asked.p);
		str_addf(&s->head, "The %zu special magic %ss for %s in the text above are:\n", s->ref.n, kind,
		         asked.p);
		if (t->listed == ROWS_KEYED)
			str_addf(&s->head, "%s is:", asked.p);
	} else {
		str_addf(&s->prompt, "\nWhat %s the special magic %s%s for %s in the text above?",
		         s->ref.n > 1 ? "are all" : "is", kind, many, asked.p);
		str_addf(&s->head, "The special magic %s%s for %s in the text above %s", kind, many, asked.p,
		         s->ref.n > 1 ? "are" : "is");
	}
	for (int i = 0; i < NEEDLES_MAX; i++) {
		str_free(&key[i]);
		str_free(&needle[i]);
	}
	str_free(&value);
	str_free(&unused);
	str_free(&row);
	str_free(&asked);
	return 0;
}

#define NIAH(name, listed, ...)                                                                                        \
	static int build_##name(const struct corpus *m, struct rng r, int32_t units, int32_t len, int32_t i,           \
	                        struct sample *s, struct err *e)                                                       \
	{                                                                                                              \
		return build_niah(&(const struct niah){ __VA_ARGS__, 0, listed }, m, r, units, s);                     \
	}
/* The first two arguments of NIAH() are the task's name and the member `listed` of struct niah. The others are its
 * members hay, uuid_key, uuid_value, n_key, n_value and n_asked, in this order. */
NIAH(single_1, 0, HAY_NOISE, 0, 0, 1, 1, 1)
NIAH(single_2, 0, HAY_ESSAY, 0, 0, 1, 1, 1)
NIAH(single_3, 0, HAY_ESSAY, 0, 1, 1, 1, 1)
NIAH(multikey_1, 0, HAY_ESSAY, 0, 0, 4, 1, 1)
NIAH(multikey_2, 0, HAY_NEEDLES, 0, 0, 1, 1, 1)
NIAH(multikey_3, 0, HAY_NEEDLES, 1, 1, 1, 1, 1)
NIAH(multivalue, 0, HAY_ESSAY, 0, 0, 1, 4, 1)
NIAH(multiquery, 0, HAY_ESSAY, 0, 0, 4, 1, 4)
NIAH(list, ROWS_VALUES, HAY_ESSAY, 0, 0, 1, LISTED, 1)
NIAH(copy, ROWS_KEYED, HAY_ESSAY, 0, 0, 2, FIT, 1)

/* Build a prompt with a needle in essays, or in random words if no essays were given. */
static int build_needle(const struct corpus *m, struct rng r, int32_t units, int32_t len, int32_t i, struct sample *s,
                        struct err *e)
{
	return build_niah(&(const struct niah){ m->sentence.n ? HAY_ESSAY : HAY_WORDS, 0, 0, 1, 1, 1, 1, 0 }, m, r,
	                  units, s);
}

/* ---- variable tracking ---- */

static int positions_order(const void *a, const void *b)
{
	return *(const int32_t *)a - *(const int32_t *)b;
}

/* Append a text that hides a chain of HOPS variables, and the question about it. The names of the variables have
 * `letters` letters. If `solved` is 1, the answer is appended, too; otherwise it is put into s->ref. */
static void add_chain(struct rng *r, int32_t units, int letters, int solved, struct sample *s)
{
	char name[HOPS][8];
	int32_t position[HOPS];
	unsigned value = 10000 + rng_below(r, 89999);
	int at = 0;

	for (int i = 0; i < HOPS; i++) {
		int again;
		do {
			again = 0;
			for (int k = 0; k < letters; k++)
				name[i][k] = (char)('A' + rng_below(r, 26));
			name[i][letters] = 0;
			for (int k = 0; k < i; k++)
				again |= !strcmp(name[k], name[i]);
		} while (again);
	}
	for (int i = 0; i < HOPS; i++)
		position[i] = (int32_t)((uint64_t)units * rng_below(r, 1u << 30) >> 30);
	qsort(position, HOPS, sizeof *position, positions_order);
	str_adds(&s->prompt,
	         "Follow the variables that are assigned in the text below; the assignments are hidden in it.\n\n");
	for (int32_t i = 0; i <= units; i++) {
		for (; at < HOPS && position[at] <= i; at++)
			if (at)
				str_addf(&s->prompt, "VAR %s = VAR %s \n", name[at], name[at - 1]);
			else
				str_addf(&s->prompt, "VAR %s = %u\n", name[at], value);
		if (i < units) {
			for (size_t k = 0; k < NOISE; k++)
				str_addf(&s->prompt, "%s%s", noise[k], k + 1 < NOISE ? " " : "\n");
		}
	}
	s->question = s->prompt.n;
	str_addf(&s->prompt, "Question: which variables have the value %u in the text above?", value);
	str_clear(&s->head);
	str_addf(&s->head,
	         "Answer: by the assignments in the text above, %d variables have the value %u, namely:", HOPS, value);
	if (solved)
		str_addf(&s->prompt, " %s", s->head.p);
	for (int i = 0; i < HOPS; i++)
		if (solved)
			str_addf(&s->prompt, " %s", name[i]);
		else
			words_add(&s->ref, xstrndup(name[i], strlen(name[i])));
	if (solved)
		str_adds(&s->prompt, "\n\n");
}

static int build_vt(const struct corpus *m, struct rng r, int32_t units, int32_t len, int32_t i, struct sample *s,
                    struct err *e)
{
	/* An example with its answer comes first. It takes about 500 tokens, or a quarter of a short prompt. */
	int32_t example = (len < 2000 ? len / 4 : 500) - 130;

	add_chain(&r, example > 0 ? example / 24 : 0, 3, 1, s);
	add_chain(&r, units, 5, 0, s);
	return 0;
}

/* ---- common words ---- */

/* Append a shuffled, numbered list of n different words, and a question about the most common words. COMMON is the
 * number of words that occur `often` times each; every other word occurs `rarely` times. If `solved` is 1, append the
 * answer, too; otherwise put it into s->ref. */
static int add_common(const struct corpus *m, struct rng *r, int32_t n, int32_t often, int32_t rarely, int solved,
                      struct sample *s, struct err *e)
{
	int64_t total = (int64_t)COMMON * often + (int64_t)(n - COMMON) * rarely, at = 0;
	int32_t *word, *list;

	if ((size_t)n > m->all.n)
		return err_set(e, ERR_USAGE, "the word lists hold %zu words, this length wants more", m->all.n);
	/* Shuffle all words of the corpus, even if the list needs only n of them. So lists of all lengths have the same
	 * most common words. */
	word = xcalloc(m->all.n, sizeof *word);
	list = xcalloc((size_t)total, sizeof *list);
	for (size_t i = 0; i < m->all.n; i++)
		word[i] = (int32_t)i;
	list_shuffle(r, word, (int32_t)m->all.n);
	for (int32_t i = 0; i < n; i++)
		for (int32_t k = i < COMMON ? often : rarely; k > 0; k--)
			list[at++] = word[i];
	list_shuffle(r, list, (int32_t)total);
	str_adds(&s->prompt,
	         "Below is a numbered list of words. Some of them are repeated more often than the others. Remember "
	         "those.\n");
	for (int64_t i = 0; i < total; i++)
		str_addf(&s->prompt, "%lld. %s ", (long long)i + 1, m->all.w[list[i]]);
	s->question = s->prompt.n;
	str_addf(&s->prompt, "\nQuestion: which are the %d most common words of this list?", COMMON);
	str_clear(&s->head);
	str_addf(&s->head, "Answer: the %d most common words of the list are:", COMMON);
	if (solved)
		str_addf(&s->prompt, " %s", s->head.p);
	for (int i = 0; i < COMMON; i++) {
		const char *w = m->all.w[word[i]];
		if (solved)
			str_addf(&s->prompt, " %d. %s", i + 1, w);
		else
			words_add(&s->ref, xstrndup(w, strlen(w)));
	}
	if (solved)
		str_adds(&s->prompt, "\n\n");
	free(word);
	free(list);
	return 0;
}

static int build_cwe(const struct corpus *m, struct rng r, int32_t units, int32_t len, int32_t i, struct sample *s,
                     struct err *e)
{
	int32_t n = COMMON + units;

	if (len < 4096)
		return add_common(m, &r, 20, 3, 1, 1, s, e) < 0 || add_common(m, &r, n, 6, 1, 0, s, e) < 0 ? -1 : 0;
	return add_common(m, &r, 40, 10, 3, 1, s, e) < 0 || add_common(m, &r, n, 30, 3, 0, s, e) < 0 ? -1 : 0;
}

/* ---- frequent words ---- */

static int build_fwe(const struct corpus *m, struct rng r, int32_t units, int32_t len, int32_t i, struct sample *s,
                     struct err *e)
{
	/* The prompt has about `units` words. Word number k = 1, 2, ... occurs units / k^2 / zeta(2) times. Word number
	 * 1 is the text "...", which is only noise: the question does not ask for it. */
	const double zeta2 = 1.6449340668482264;
	int32_t n_word = len / 50 > 8 ? len / 50 : 8, total = 0, *list;
	char(*word)[8] = xcalloc((size_t)n_word, sizeof *word);

	for (int32_t k = 0; k < n_word; k++)
		for (int c = 0; c < 6; c++)
			word[k][c] = (char)('a' + rng_below(&r, 26));
	memcpy(word[0], "...", 4);
	list = xcalloc((size_t)units + 1, sizeof *list);
	for (int32_t k = 0; k < n_word; k++)
		for (int32_t c = (int32_t)(units / zeta2 / (k + 1) / (k + 1)); c > 0 && total < units; c--)
			list[total++] = k;
	list_shuffle(&r, list, total);
	str_adds(
		&s->prompt,
		"Below is a text in coded words. Count how often each of them occurs, and find the three that occur most "
		"often.\n");
	for (int32_t k = 0; k < total; k++)
		str_addf(&s->prompt, "%s ", word[list[k]]);
	s->question = s->prompt.n;
	str_adds(
		&s->prompt,
		"\nQuestion: which three coded words occur most often in the text above? The dots do not count. Do not "
		"explain.");
	str_adds(&s->head, "Answer: the three coded words that occur most often in the text above are:");
	for (int k = 1; k <= 3; k++)
		words_add(&s->ref, xstrndup(word[k], 6));
	free(word);
	free(list);
	return 0;
}

/* ---- questions among documents ---- */

static int build_qa(const struct questions *set, struct rng r, int32_t units, struct sample *s)
{
	const struct question *q = &set->q[rng_below(&r, (uint32_t)set->n)];
	int32_t n_all = (int32_t)set->doc.n, n = 0, *doc = xcalloc((size_t)n_all, sizeof *doc), *more, n_own;

	/* First come the documents that are needed for the answer, then the other documents of the question, then
	 * documents of other questions. The order within these groups does not depend on how many documents fit. */
	more = xcalloc((size_t)n_all, sizeof *more);
	for (int32_t k = 0; k < n_all; k++)
		more[k] = k;
	list_shuffle(&r, more, n_all);
	/* the first unit has all documents that are needed for the answer, and each further unit is one document */
	units += q->n_gold - 1;
	for (; n < q->n_doc && n < units; n++)
		doc[n] = q->doc[n];
	n_own = n;
	for (int32_t k = 0; k < n_all && n < units; k++) {
		int own = 0;
		for (int32_t j = 0; j < n_own; j++)
			own |= doc[j] == more[k];
		if (!own)
			doc[n++] = more[k];
	}
	list_shuffle(&r, doc, n);
	str_adds(
		&s->prompt,
		"Answer a question by the documents below. Give the answer alone, no other words.\n\nThe documents:\n\n");
	for (int32_t k = 0; k < n; k++)
		str_addf(&s->prompt, "Document %d:\n%s\n\n", k + 1, set->doc.w[doc[k]]);
	s->question = s->prompt.n;
	str_addf(&s->prompt,
	         "Answer the question by the documents above. Give the answer alone, no other words.\n\nQuestion: %s",
	         q->text);
	str_adds(&s->head, "Answer:");
	for (size_t k = 0; k < q->answer.n; k++)
		words_add(&s->ref, xstrndup(q->answer.w[k], strlen(q->answer.w[k])));
	free(doc);
	free(more);
	return 0;
}

static int build_qa_1(const struct corpus *m, struct rng r, int32_t units, int32_t len, int32_t i, struct sample *s,
                      struct err *e)
{
	return build_qa(&m->squad, r, units, s);
}

static int build_qa_2(const struct corpus *m, struct rng r, int32_t units, int32_t len, int32_t i, struct sample *s,
                      struct err *e)
{
	return build_qa(&m->hotpot, r, units, s);
}

const struct task_def ruler_tasks[] = {
	{ "niah_single_1", CMD_EVAL_RULER, 0, 128, METRIC_ALL, 1, build_single_1, NULL },
	{ "niah_single_2", CMD_EVAL_RULER, NEEDS_ESSAY, 128, METRIC_ALL, 1, build_single_2, NULL },
	{ "niah_single_3", CMD_EVAL_RULER, NEEDS_ESSAY, 128, METRIC_ALL, 1, build_single_3, NULL },
	{ "niah_multikey_1", CMD_EVAL_RULER, NEEDS_ESSAY, 128, METRIC_ALL, 1, build_multikey_1, NULL },
	{ "niah_multikey_2", CMD_EVAL_RULER, 0, 128, METRIC_ALL, 1, build_multikey_2, NULL },
	{ "niah_multikey_3", CMD_EVAL_RULER, 0, 128, METRIC_ALL, 1, build_multikey_3, NULL },
	{ "niah_multivalue", CMD_EVAL_RULER, NEEDS_ESSAY, 128, METRIC_ALL, 1, build_multivalue, NULL },
	{ "niah_multiquery", CMD_EVAL_RULER, NEEDS_ESSAY, 128, METRIC_ALL, 1, build_multiquery, NULL },
	{ "list_numbers", CMD_EVAL_RULER, NEEDS_ESSAY, 160, METRIC_ROWS, 1, build_list, NULL },
	{ "copy_rows", CMD_EVAL_RULER, NEEDS_ESSAY, 160, METRIC_ROWS, 1, build_copy, NULL },
	{ "vt", CMD_EVAL_RULER, 0, 30, METRIC_ALL, 1, build_vt, NULL },
	{ "cwe", CMD_EVAL_RULER, 0, 120, METRIC_ALL, 1, build_cwe, NULL },
	{ "fwe", CMD_EVAL_RULER, 0, 50, METRIC_ALL, 64, build_fwe, NULL },
	{ "qa_1", CMD_EVAL_RULER, NEEDS_SQUAD, 32, METRIC_ANY, 1, build_qa_1, NULL },
	{ "qa_2", CMD_EVAL_RULER, NEEDS_HOTPOT, 32, METRIC_ANY, 1, build_qa_2, NULL },
	{ "needle", CMD_EVAL_NEEDLE, 0, 32, METRIC_ALL, 1, build_needle, NULL },
	{ NULL, 0, 0, 0, METRIC_ALL, 0, NULL, NULL },
};
