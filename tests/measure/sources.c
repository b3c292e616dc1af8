/* tests/measure/sources.c - how well the passages that answer a question are found.
 *
 *     build/tests/measure/sources DOCUMENT.md QUESTIONS.tsv [b] [-m MODEL ...]
 *
 * tests/measure/sources_data.py SQUAD HOTPOT ESSAYS OUT makes document and table (the three are in
 * ../shared/data/ruler). b: ask only questions of half b. Prints the shares at the end and, if SOURCES_EACH is set, a
 * line for each question. SOURCES_INDEX: use the index alone, as on a machine where the model is too slow.
 * SOURCES_BEHIND=N: ask each question after the one N lines earlier in the table and its first answer; with N = 1 both
 * are mostly about the same paragraph. In a table with follow-up questions, two more columns hold the previous question
 * and its answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation.h"
#include "app/retrieval/retrieval_private.h"
#include "sessions/store/store.h"

struct table_row {
	int half;
	const char *kind, *places, *answers, *text, *before, *answered;
};

static int search(const struct indexed_text *text, size_t n_text, const char *question, size_t n,
                  struct found_passage **out, size_t *n_out, struct passage_index **index, void *ud, struct err *e)
{
	*index = ud;
	return passages_score(ud, text, n_text, question, n, out, n_out, e);
}

static char *read_file(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	char *p = NULL;

	*n = 0;
	if (f && !fseek(f, 0, SEEK_END)) {
		long size = ftell(f);
		rewind(f);
		p = xmalloc((size_t)size + 1);
		*n = fread(p, 1, (size_t)size, f);
		p[*n] = 0;
	}
	if (f)
		fclose(f);
	if (!p) {
		fprintf(stderr, "sources: cannot read %s\n", path);
		exit(1);
	}
	return p;
}

static char *column(char **line)
{
	char *p = *line, *tab = p + strcspn(p, "\t");

	*line = *tab ? tab + 1 : tab;
	*tab = 0;
	return p;
}

static size_t questions(char *text, struct table_row **out)
{
	size_t n = 0;

	*out = NULL;
	for (char *next = text; *next;) {
		char *line = next;
		struct table_row q;

		next += strcspn(next, "\n");
		if (*next)
			*next++ = 0;
		q.half = column(&line)[0];
		q.kind = column(&line);
		q.places = column(&line);
		q.answers = column(&line);
		q.text = column(&line);
		q.before = column(&line);
		q.answered = column(&line);
		*out = xrealloc(*out, (n + 1) * sizeof **out);
		(*out)[n++] = q;
	}
	return n;
}

static int is_at(const struct source *s, const char *place)
{
	size_t from = 0, to = 0, a, b;

	sscanf(place, "%zu-%zu", &from, &to);
	a = MAX(s->from, from);
	b = MIN(s->to, to);
	return b > a && 2 * (b - a) >= (to - from < s->to - s->from ? to - from : s->to - s->from);
}

/* Return the number (from 1) of the source that contains the place; 0 = none. */
static int rank_of(const struct sources *s, const char *place)
{
	for (size_t i = 0; i < s->n; i++)
		if (is_at(&s->at[i], place))
			return (int)i + 1;
	return 0;
}

/* below[1][k]: how many right passages, second or third of those found, have a score below k / PARTS of the first
 * passage's score; below[0][k]: the same for wrong passages. followers: number of all such passages. */
enum { PARTS = 20 };
static int below[2][PARTS + 1], followers[2];

static void count_below(const struct sources *s, const char *place, const char *place2)
{
	for (size_t i = 1; s->found && i < s->n && i < 3; i++) {
		int right = is_at(&s->at[i], place) || (place2 && is_at(&s->at[i], place2));

		followers[right]++;
		for (int k = 0; k <= PARTS; k++)
			below[right][k] += s->at[i].score < s->at[0].score * k / PARTS;
	}
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

/* Make the conversation before the question: another question and its answer, or nothing. */
static void say_before(struct conversation *conv, const struct table_row *all, size_t i)
{
	const char *behind = getenv("SOURCES_BEHIND"), *question = all[i].before, *answer = all[i].answered;
	size_t lines = behind ? strtoul(behind, NULL, 10) : 0;

	conversation_clear(conv);
	if (!*question && lines && lines <= i) {
		question = all[i - lines].text;
		answer = all[i - lines].answers;
	}
	if (!*question)
		return;
	conversation_message(conv, ROLE_USER, question, strlen(question), NULL, 0);
	conversation_message(conv, ROLE_ASSISTANT, answer, strcspn(answer, "|"), NULL, 0);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void share(const char *what, int have, int of)
{
	if (of)
		printf("  %-52s %.3f  (%d of %d)\n", what, (double)have / of, have, of);
}

int main(int argc, char **argv)
{
	struct options o;
	struct conversation t;
	struct err e = { 0 };
	struct table_row *asked;
	struct passage_index *passages = NULL;
	struct indexed_text whole;
	struct found_passage found[10];
	size_t n_text, n_table, n;
	int half = argc > 3 && argv[3][0] != '-' ? argv[3][0] : 0, skip = half ? 4 : 3;
	char *text, *table;
	char *args[32] = { argv[0], (char[]){ "--private" } };
	int n_arg = 2, count[8] = { 0 }, one = 0, two = 0, none = 0, n_time = 0;
	double *times, start;

	if (argc < 3)
		return fprintf(stderr, "usage: %s DOCUMENT QUESTIONS [HALF] [OPTION...]\n", argv[0]), 2;
	text = read_file(argv[1], &n_text);
	table = read_file(argv[2], &n_table);
	n = questions(table, &asked);
	for (int i = skip; i < argc && n_arg < 31; i++)
		args[n_arg++] = argv[i];
	if (options_parse(&o, n_arg, args, &e) < 0 || conversation_open(&t, &o, NULL, NULL, &e) < 0 ||
	    passage_index_open(&passages, NULL, &e) < 0)
		return fprintf(stderr, "sources: %s\n", e.msg), 1;
	/* The document is searched, not read, so it need not fit in the context. */
	t.doc = xcalloc(1, sizeof *t.doc);
	t.n_doc = 1;
	t.doc[0].name = xstrndup("document.md", 11);
	str_add(&t.doc[0].text, text, n_text);
	t.doc[0].n_body = n_text;
	whole = (struct indexed_text){ text, n_text };
	retrieval_join(&t);
	sources_search_by(&t, search, NULL, passages);
	times = xcalloc(n + 1, sizeof *times);
	start = now_seconds();
	passages_find(passages, &whole, 1, "x", 1, found, 1, &e);
	printf("%s: %.2f MB, indexed in %.2f s\n", argv[1], (double)n_text / 1e6, now_seconds() - start);
	fflush(stdout);
	start = now_seconds();
	for (int i = 0; i < 50; i++)
		passages_find(passages, &whole, 1, asked[(size_t)i * n / 50].text,
		              strlen(asked[(size_t)i * n / 50].text), found, 10, &e);
	printf("  a search without the model: %.1f ms\n", (now_seconds() - start) * 20);
	for (size_t i = 0; i < n; i++) {
		const struct table_row *q = &asked[i];
		struct sources s;
		const char *second = strchr(q->places, ' ');
		int rank, other = 1, quoted = 0;

		if (half && q->half != half)
			continue;
		say_before(&t, asked, i);
		if (getenv("SOURCES_INDEX"))
			search_of(&t)->rerank.tokens = -1;
		if (conversation_sources(&t, q->text, strlen(q->text), &s, &e) < 0)
			return fprintf(stderr, "sources: %s\n", e.msg), 1;
		times[n_time++] = s.seconds;
		count_below(&s, q->places, second ? second + 1 : NULL);
		rank = rank_of(&s, q->places);
		if (second)
			other = rank_of(&s, second + 1);
		if (s.n)
			quoted = has_answer(text + s.at[0].quote, s.at[0].quote_end - s.at[0].quote, q->answers);
		if (!strcmp(q->kind, "one")) {
			one++;
			count[0] += rank == 1;
			count[1] += rank >= 1 && rank <= 5;
			count[2] += rank >= 1;
			count[3] += quoted;
			count[4] += !s.found;
		} else if (!strcmp(q->kind, "two")) {
			two++;
			count[0] += rank == 1 || other == 1;
			count[1] += rank >= 1 && rank <= 5 && other >= 1 && other <= 5;
			count[2] += rank >= 1 && other >= 1;
			count[4] += !s.found;
		} else {
			none++;
			count[5] += !s.found;
		}
		if (getenv("SOURCES_EACH"))
			printf("%s\trank %d %d\tquoted %d\tfound %d\tscore %.3f\t%s\t[%s]\t%.*s\n", q->kind, rank,
			       other, quoted, s.found, s.n ? s.at[0].score : 0, q->text, q->answers,
			       s.n ? (int)(s.at[0].quote_end - s.at[0].quote) : 0, s.n ? text + s.at[0].quote : "");
		sources_free(&s);
	}
	qsort(times, (size_t)n_time, sizeof *times, by_size);
	share("one: the right passage is the first", one ? count[0] : 0, one);
	share("one: among the first five", one ? count[1] : 0, one);
	share("one: among the first ten", one ? count[2] : 0, one);
	share("one: the quoted sentence has an accepted answer", count[3], one);
	share("two: one of the two is the first", two ? count[0] : 0, two);
	share("two: both among the first five", two ? count[1] : 0, two);
	share("two: both among the first ten", two ? count[2] : 0, two);
	share("lost: answerable, but 'not found'", count[4], one + two);
	share("not answerable and 'not found'", count[5], none);
	for (int k = 6; k < PARTS && followers[0] && followers[1]; k += 2)
		printf("  second or third, below %.1f of the first's score: %.3f of the right ones, %.3f of the others\n",
		       (double)k / PARTS, (double)below[1][k] / followers[1], (double)below[0][k] / followers[0]);
	if (n_time)
		printf("  seconds: median %.3f, 95 %% %.3f, most %.3f\n", times[n_time / 2], times[n_time * 95 / 100],
		       times[n_time - 1]);
	passage_index_close(passages);
	conversation_close(&t);
	return 0;
}
