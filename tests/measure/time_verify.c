/* tests/measure/time_verify.c - the time of a VERIFY step of M tokens compared with a step of one token, by depth and
 * cache policy. The sizes take turns within one run.
 *
 *     make build/tests/measure/time_verify && build/tests/measure/time_verify MODEL.gguf TEXT ROUNDS THREADS POLICY[/PIN] DEPTH...
 *
 * The first DEPTH tokens of TEXT are read, the first PIN of them as a document (`auto` selects among these; with `all`
 * the document has DEPTH tokens). With `-` for TEXT the entries are random. Then the next M tokens of the text are
 * computed in one step, which is rolled back, for M from 1 to 16 in turns, ROUNDS times. With one thread processor time
 * is measured, because other programs disturb it less, else wall time. Prints milliseconds of a step of one token and
 * the ratios to it: medians of the ratios within a round, and the ratio of the shortest steps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/timeline/timeline.h"
#include "engine/engine_snapshot.h"

enum { MOST = VERIFY_MOST, ROUNDS = 200, PIECE = 256 };

static void stop(const char *what)
{
	fprintf(stderr, "time_verify: %s\n", what);
	exit(1);
}

static void random_entries(struct timeline *tl, int32_t n, const int32_t *id)
{
	uint64_t bytes = timeline_token_bytes(tl, 1) * PIECE, x = 88172645463325252u;
	uint16_t *p = xmalloc((size_t)bytes);
	struct err err;

	for (int32_t at = 0, m; at < n; at += m) {
		m = n - at < PIECE ? n - at : PIECE;
		for (uint64_t i = 0; i < bytes / 2; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			p[i] = (uint16_t)((x & 0x83ff) | 0x3800);
		}
		if (timeline_entries_load(tl, at, m, 1, p, &err))
			stop(err.msg);
	}
	free(p);
	if (timeline_adopt(tl, id, NULL, (size_t)n, &err) < 0)
		stop(err.msg);
}

static int by_value(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, by_value);
	return v[n / 2];
}

static int32_t threads;

static double seconds(void)
{
	struct timespec t;

	if (threads > 1)
		return now_seconds();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double step_seconds(struct timeline *tl, const int32_t *id, int32_t m)
{
	double start = seconds();
	const float *logits;
	struct err err;
	int32_t tried = timeline_verify(tl, id, m, &logits, &err);

	start = seconds() - start;
	if (tried < 0 || timeline_accept(tl, 0, &err))
		stop(err.msg);
	return tried == m ? start : 0;
}

static void curve(struct timeline *tl, const int32_t *id, int32_t n, int rounds, const char *policy)
{
	static double ratio[MOST + 1][ROUNDS];
	double one[ROUNDS], least[MOST + 1] = { 0 };
	struct err err;

	if (timeline_sync(tl, id, (size_t)n, NULL, NULL, &err) < 0)
		stop(err.msg);
	for (int i = -1; i < rounds; i++) /* the first round only warms up */
		for (int32_t m = 1; m <= MOST; m++) {
			double s = step_seconds(tl, id + n, m);

			if (i < 0)
				continue;
			if (m == 1)
				one[i] = s;
			ratio[m][i] = s / one[i];
			least[m] = !i || s < least[m] ? s : least[m];
		}
	printf("%-24s %5d %7.2f ms", policy, n, 1000 * median(one, rounds));
	for (int32_t m = 2; m <= MOST; m++)
		printf("  %d: %.2f %.2f", m, median(ratio[m], rounds), least[m] / least[1]);
	printf("\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int rounds = argc > 6 ? (int)strtol(argv[3], NULL, 10) : 0;
	int32_t most = 0, *id;
	const char *slash = argc > 6 ? strchr(argv[5], '/') : NULL;
	struct timeline_options o = { 0 };
	char policy[64];
	struct engine *e;
	struct timeline *tl;
	struct err err;

	if (rounds < 1 || rounds > ROUNDS)
		stop("MODEL.gguf TEXT ROUNDS THREADS POLICY[/PIN] DEPTH...");
	snprintf(policy, sizeof policy, "%.*s", slash ? (int)(slash - argv[5]) : (int)strlen(argv[5]), argv[5]);
	threads = (int32_t)strtol(argv[4], NULL, 10);
	for (int i = 6; i < argc; i++)
		most = (int32_t)strtol(argv[i], NULL, 10) > most ? (int32_t)strtol(argv[i], NULL, 10) : most;
	o.ctx = most + 512; /* `auto` reserves room for a conversation */
	o.kv = policy;
	id = xcalloc((size_t)most + MOST, sizeof *id);
	if (engine_open(&e, &(struct engine_options){ .model_path = argv[1], .device = "cpu", .threads = threads },
	                &err))
		stop(err.msg);
	for (int32_t i = 0; i < most + MOST; i++)
		id[i] = (int32_t)(hash64(5, &i, sizeof i) % (uint64_t)engine_info(e)->n_vocab);
	if (strcmp(argv[2], "-")) {
		FILE *f = fopen(argv[2], "r");
		size_t room = (size_t)(most + MOST) * 16, len;
		char *text = xcalloc(room, 1);
		struct tokens read = { 0 };

		len = f ? fread(text, 1, room - 1, f) : 0;
		if (engine_tokenize(e, text, len, 0, &read, &err) || (int32_t)read.n < most + MOST)
			stop("the text is too short");
		memcpy(id, read.id, (size_t)(most + MOST) * sizeof *id);
		tokens_free(&read);
		free(text);
	}
	for (int i = 6; i < argc; i++) {
		int32_t n = (int32_t)strtol(argv[i], NULL, 10), pin = 0;

		if (timeline_open(&tl, e, &o, &err))
			stop(err.msg);
		if (slash)
			pin = strcmp(slash, "/all") ? (int32_t)strtol(slash + 1, NULL, 10) : n - 4;
		if (pin && timeline_pin(tl, pin < n ? pin : n - 4, &err))
			stop(err.msg);
		if (!strcmp(argv[2], "-"))
			random_entries(tl, n, id);
		curve(tl, id, n, rounds, argv[5]);
		timeline_close(tl);
	}
	engine_close(e);
	free(id);
	return 0;
}
