/* tests/measure/memory.c - how well the facts of /remember are found that a question needs, and only those.
 *
 *     build/tests/measure/memory tests/measure/memory.tsv [-v] [OPTION of weir ...]
 *
 * memory-languages.tsv is the same in German, French, Spanish, Italian and Portuguese.
 *
 * A line of the table is a fact, a tab and a question that needs it; or a tab and a question that needs no fact. All
 * facts are remembered, and each question is asked alone. -v: one line for each question that goes wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation.h"
#include "app/retrieval/retrieval_private.h"

enum { LINES_MOST = 1000 };

struct asked_line {
	char *fact, *question;
};

static size_t read_table(const char *path, struct asked_line *out)
{
	FILE *f = fopen(path, "r");
	char *line = NULL, *tab;
	size_t cap = 0, n = 0;

	while (f && n < LINES_MOST && getline(&line, &cap, f) > 0) {
		line[strcspn(line, "\n")] = 0;
		if (!(tab = strchr(line, '\t')))
			continue;
		out[n++] =
			(struct asked_line){ xstrndup(line, (size_t)(tab - line)), xstrndup(tab + 1, strlen(tab + 1)) };
	}
	if (f)
		fclose(f);
	free(line);
	return n;
}

/* Set *all to the facts; the id of a fact is its line, from 1. */
static void tell(const struct asked_line *line, size_t n, struct facts *all)
{
	*all = (struct facts){ .at = xcalloc(n + 1, sizeof *all->at) };
	for (size_t i = 0; i < n; i++)
		if (*line[i].fact) {
			all->at[all->n].id = (int64_t)i + 1;
			str_adds(&all->at[all->n++].text, line[i].fact);
		}
}

int main(int argc, char **argv)
{
	struct options o;
	struct conversation conv;
	struct err e = { 0 };
	static struct asked_line line[LINES_MOST];
	char *args[32] = { argv[0], (char[]){ "--private" } };
	int n_arg = 2, verbose = argc > 2 && !strcmp(argv[2], "-v"), need = 0, found = 0, first = 0, none = 0,
	    wrong = 0, sent = 0, beside = 0;
	double seconds = 0, most = 0;
	size_t n;

	if (argc < 2)
		return fprintf(stderr, "usage: %s TABLE [-v] [OPTION...]\n", argv[0]), 2;
	for (int i = 2 + verbose; i < argc && n_arg < 31; i++)
		args[n_arg++] = argv[i];
	n = read_table(argv[1], line);
	if (options_parse(&o, n_arg, args, &e) < 0 || conversation_open(&conv, &o, NULL, NULL, &e) < 0)
		return fprintf(stderr, "memory: %s\n", e.msg), 1;
	retrieval_join(&conv);
	for (size_t i = 0; i < n; i++) {
		struct facts all, out = { 0 };
		int right = 0;

		tell(line, n, &all);
		if (memory_find(&conv, &all, line[i].question, strlen(line[i].question), &out, &e) < 0)
			return fprintf(stderr, "memory: %s\n", e.msg), 1;
		for (size_t k = 0; k < out.n; k++)
			if (out.at[k].id == (int64_t)i + 1)
				right = (int)k + 1;
		if (i) { /* the first search also encodes all facts */
			seconds += out.seconds / (double)(n - 1);
			most = MAX(most, out.seconds);
		} else {
			printf("first search: %.3f s\n", out.seconds);
		}
		sent += (int)out.n;
		if (*line[i].fact) {
			need++;
			found += right > 0;
			first += right == 1;
			beside += (int)out.n - (right > 0);
		} else {
			none++;
			wrong += out.n > 0;
		}
		if (verbose && (*line[i].fact ? !right : out.n > 0))
			printf("%s\t%s\t%s\n", line[i].question, line[i].fact, out.n ? str_text(&out.at[0].text) : "-");
		facts_free(&out);
		facts_free(&all);
	}
	printf("found %d of %d (first %d), beside them %d others; without need %d of %d; %d sent; %.1f ms a question, most %.1f\n",
	       found, need, first, beside, wrong, none, sent, 1000 * seconds, 1000 * most);
	conversation_close(&conv);
	return 0;
}
