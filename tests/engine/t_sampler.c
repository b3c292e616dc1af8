/* tests/engine/t_sampler.c - choosing a token: order of the filters, ties, penalties, bad numbers, distribution,
 * seeds. */
#include "tests/lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/timeline/sampler.h"
#include "kernels/backend.h"

enum { N = 1000 };
static float logits[N];
static struct candidate scratch[N];

static struct sampling plain(float temperature)
{
	struct sampling s = { .temperature = temperature, .top_p = 1, .repeat_penalty = 1, .repeat_last = -1 };
	sampling_seed(&s, 7);
	return s;
}

static int32_t pick(struct sampling *s)
{
	return sample(s, logits, N, NULL, 0, scratch);
}

static void fill(void)
{
	for (int i = 0; i < N; i++)
		logits[i] = test_randf(-8, 4);
}

TEST(greedy_takes_the_best_and_the_lower_id_on_ties)
{
	struct sampling s = plain(0);
	fill();
	logits[500] = logits[123] = 9;
	CHECK_INT(pick(&s), 123);
}

TEST(invalid_numbers_are_refused)
{
	struct sampling s = plain(1);
	fill();
	logits[3] = NAN;
	CHECK_INT(pick(&s), -1);
	logits[3] = INFINITY;
	CHECK_INT(pick(&s), -1);
	logits[3] = -INFINITY;
	CHECK(pick(&s) >= 0);
	for (int i = 0; i < N; i++)
		logits[i] = -INFINITY;
	CHECK_INT(pick(&s), -1);
	logits[77] = -1e30f;
	CHECK_INT(pick(&s), 77);
}

TEST(top_k_keeps_exactly_the_best)
{
	struct sampling s = plain(5);
	int seen[N] = { 0 }, kinds = 0;
	fill();
	s.top_k = 7;
	for (int i = 0; i < 20000; i++)
		seen[pick(&s)]++;
	for (int i = 0; i < N; i++) {
		int above = 0;
		for (int j = 0; j < N; j++)
			above += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
		CHECK_MSG(!seen[i] || above < 7, "token %d of rank %d was drawn", i, above);
		kinds += seen[i] > 0;
	}
	CHECK_INT(kinds, 7);
}

TEST(top_p_and_min_p_cut_the_tail)
{
	struct sampling s = plain(1);
	for (int i = 0; i < N; i++)
		logits[i] = -100;
	logits[10] = logf(0.6f), logits[20] = logf(0.3f), logits[30] = logf(0.1f);
	s.top_p = 0.85f;
	for (int i = 0; i < 5000; i++)
		CHECK(pick(&s) != 30);
	s.top_p = 0.5f;
	for (int i = 0; i < 1000; i++)
		CHECK_INT(pick(&s), 10);
	s.top_p = 1;
	s.min_p = 0.4f; /* 0.4 of the largest probability is 0.24 */
	for (int i = 0; i < 5000; i++)
		CHECK(pick(&s) != 30);
}

TEST(draws_follow_the_distribution)
{
	struct sampling s = plain(1);
	int count[4] = { 0 };
	const double want[4] = { 0.5, 0.25, 0.15, 0.10 };
	for (int i = 0; i < N; i++)
		logits[i] = i < 4 ? logf((float)want[i]) : -INFINITY;
	for (int i = 0; i < 100000; i++)
		count[pick(&s)]++;
	for (int i = 0; i < 4; i++) /* allow a deviation of five standard deviations */
		CHECK_MSG(fabs(count[i] / 1e5 - want[i]) < 5 * sqrt(want[i] * (1 - want[i]) / 1e5),
		          "%d: %g, expected %g", i, count[i] / 1e5, want[i]);
}

TEST(penalties_lower_what_was_said)
{
	struct sampling s = plain(1e-6f); /* practically greedy, but with penalties */
	const int32_t said[] = { 5, 5, 5, 6 };
	for (int i = 0; i < N; i++)
		logits[i] = 0;
	logits[5] = 2, logits[6] = 1.9f, logits[7] = 1.2f;
	CHECK_INT(sample(&s, logits, N, said, 4, scratch), 5);
	s.repeat_penalty = 1.5f; /* logits of 5, 6, 7: 1.33, 1.27, 1.2 */
	CHECK_INT(sample(&s, logits, N, said, 4, scratch), 5);
	s.repeat_penalty = 2;
	CHECK_INT(sample(&s, logits, N, said, 4, scratch), 7);
	s.repeat_penalty = 1;
	s.frequency_penalty = 0.2f; /* 1.4, 1.7 */
	CHECK_INT(sample(&s, logits, N, said, 4, scratch), 6);
	s.presence_penalty = 0.6f; /* 0.8, 1.1 */
	CHECK_INT(sample(&s, logits, N, said, 4, scratch), 7);
	s.repeat_last = 1; /* only the last token, 6, is penalised */
	CHECK_INT(sample(&s, logits, N, said, 4, scratch), 5);
	s.repeat_last = -1;
	s.temperature = 0; /* penalties also apply at temperature 0 */
	CHECK_INT(sample(&s, logits, N, said, 4, scratch), 7);
}

/* Penalties do not count the prompt, because an answer needs the words of the question and of its documents. */
TEST(penalties_leave_the_prompt_alone)
{
	const int32_t said[] = { 5, 5, 6, 7 };

	for (int i = 0; i < 2; i++) {
		struct sampling s = plain(i ? 1e-6f : 0);

		for (int k = 0; k < N; k++)
			logits[k] = 0;
		logits[5] = 2, logits[6] = 1.9f, logits[7] = 1.2f;
		s.repeat_penalty = 2;
		CHECK_INT(sample(&s, logits, N, said, 4, scratch), 5); /* logits of 5, 6, 7: 1, 0.95, 0.6 */
		s.answer = 1;
		CHECK_INT(sample(&s, logits, N, said, 4, scratch), 5);
		s.answer = 2;
		CHECK_INT(sample(&s, logits, N, said, 4, scratch), 5); /* 2, 0.95, 0.6 */
		logits[6] = 3;
		CHECK_INT(sample(&s, logits, N, said, 4, scratch), 5); /* 2, 1.5, 0.6 */
		s.answer = 3;
		CHECK_INT(sample(&s, logits, N, said, 4, scratch), 6);
		s.answer = 4; /* the answer has no token yet */
		CHECK_INT(sample(&s, logits, N, said, 4, scratch), 6);
		s.answer = 9;
		CHECK_INT(sample(&s, logits, N, said, 4, scratch), 6);
	}
}

/* With the default settings, earlier tokens change no probability. */
TEST(there_is_no_penalty_by_default)
{
	const struct sampling *s = &sampling_default;

	CHECK(s->repeat_penalty == 1 && s->presence_penalty == 0 && s->frequency_penalty == 0);
}

TEST(equal_seeds_give_equal_tokens)
{
	struct sampling a = plain(1), b = plain(1), c = plain(1);
	int differ = 0;
	sampling_seed(&c, 8);
	for (int i = 0; i < 200; i++) {
		fill();
		int32_t x = pick(&a);
		CHECK_INT(pick(&b), x);
		differ += pick(&c) != x;
	}
	CHECK(differ > 100);
}

/* Write the k largest logits as backend_ops.largest does. */
static void largest_of(int32_t k, float *out)
{
	static char taken[N];

	memset(taken, 0, sizeof taken);
	for (int32_t i = 0; i < k; i++) {
		int32_t best = -1;

		for (int32_t id = 0; id < N; id++)
			if (!taken[id] && (best < 0 || logits[id] > logits[best] || isnan(logits[id])))
				best = id;
		taken[best] = 1;
		out[i] = isnan(logits[best]) ? INFINITY : logits[best];
		out[k + i] = (float)best;
	}
}

/* The largest logits give the token, and the next random numbers, that all logits give. */
TEST(the_largest_logits_suffice)
{
	static const struct sampling some[] = {
		{ .temperature = 0 },
		{ .temperature = 0.3f, .top_k = 40, .top_p = 0.9f, .min_p = 0.05f },
		{ .temperature = 2, .top_k = 7, .top_p = 1 },
		{ .temperature = 5, .top_k = N, .top_p = 0.99f },
	};
	float largest[LARGEST_COLS(N)];

	for (int round = 0; round < 400; round++) {
		struct sampling a = some[round % 4], b;
		int32_t k, more;

		a.repeat_penalty = 1;
		sampling_seed(&a, (uint64_t)round);
		b = a;
		k = sample_needs(&a);
		CHECK_INT(k, a.temperature > 0 ? a.top_k : 1);
		more = MIN(k + (round % 3 ? 0 : 5), N);
		fill();
		for (int i = 0; i < N; i++)
			logits[i] = round % 8 < 4 ? floorf(logits[i]) : logits[i] * 20;
		if (round % 50 == 49)
			logits[test_rand() % N] = round % 100 == 99 ? NAN : INFINITY;
		for (int i = 0; round % 80 == 79 && i < N; i++)
			logits[i] = -INFINITY;
		largest_of(more, largest);
		CHECK_INT(sample_largest(&a, largest, more, N, scratch), pick(&b));
		CHECK_INT(sample_largest(&a, largest, more, N, scratch), pick(&b));
	}
}

TEST(all_logits_are_needed_with_penalties_or_without_top_k)
{
	struct sampling s = plain(1);

	CHECK_INT(sample_needs(&s), 0);
	s.top_k = 20;
	CHECK_INT(sample_needs(&s), 20);
	s.frequency_penalty = 0.1f;
	CHECK_INT(sample_needs(&s), 0);
	s.temperature = s.frequency_penalty = 0;
	CHECK_INT(sample_needs(&s), 1);
	s.repeat_penalty = 1.1f;
	CHECK_INT(sample_needs(&s), 0);
}

TEST(logprob_sums_to_one)
{
	double sum = 0;
	fill();
	for (int i = 0; i < N; i++)
		sum += exp(engine_logprob(logits, N, i));
	CHECK_MSG(fabs(sum - 1) < 1e-9, "%.12f", sum);
}

/* Compare with a plain computation of the penalties, for random histories, some with invalid ids. Each token is sampled
 * twice, because no state may remain. */
TEST(penalties_follow_the_rule)
{
	for (int round = 0; round < 200; round++) {
		struct sampling s = plain(round % 4 ? 1e-9f : 0);
		int32_t said[300], count[N] = { 0 }, n = (int32_t)(test_rand() % 300), best = 0;

		s.repeat_penalty = test_randf(1, 2);
		s.presence_penalty = round % 3 ? test_randf(-1, 1) : 0;
		s.frequency_penalty = round % 2 ? test_randf(-0.2f, 0.2f) : 0;
		s.repeat_last = round % 5 ? (int32_t)(test_rand() % 300) : -1;
		s.answer = round % 7 ? (int32_t)(test_rand() % 300) : 0;
		fill();
		for (int32_t i = 0; i < n; i++) {
			said[i] = (int32_t)(test_rand() % (N + 4)) - 2;
			if (said[i] >= 0 && said[i] < N && i >= s.answer &&
			    (s.repeat_last < 0 || i >= n - s.repeat_last))
				count[said[i]]++;
		}
		int32_t got = sample(&s, logits, N, said, (size_t)n, scratch);
		float was[N];
		memcpy(was, logits, sizeof was);
		for (int i = 0; i < N; i++)
			if (count[i]) {
				was[i] = was[i] > 0 ? was[i] / s.repeat_penalty : was[i] * s.repeat_penalty;
				was[i] -= s.presence_penalty + s.frequency_penalty * (float)count[i];
			}
		for (int i = 0; i < N; i++)
			best = was[i] > was[best] ? i : best;
		CHECK_INT(got, best);
		CHECK_INT(sample(&s, logits, N, said, (size_t)n, scratch), best);
	}
}
