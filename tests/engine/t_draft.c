/* tests/engine/t_draft.c - draft tokens for speculative decoding, guessed from earlier tokens: which token is guessed,
 * its class, the index after a rollback, and the length of a draft. */
#include "tests/lib/test.h"

#include <string.h>

#include "engine/timeline/draft.h"
#include "kernels/macros.h"

enum { ALONE, AGREE, MOST_OF_THEM, FEW_OF_THEM };

/* Return a draft_pace by which nearly all guesses so far were right, so that no draft ends early. */
static struct draft_pace sure(void)
{
	struct draft_pace p;

	draft_pace_reset(&p);
	for (int i = 0; i < DRAFT_CLASSES; i++)
		p.right[i] = 0.999;
	return p;
}

/* Return the guesses for the tokens after id[0 .. n), from a new index. */
static struct draft guess(const int32_t *id, size_t n, int32_t most)
{
	struct draft_index x = { 0 };
	struct draft_pace p = sure();
	struct draft d;

	draft_index_grow(&x, id, n);
	draft_guess(&x, &p, id, n, most, &d);
	draft_index_free(&x);
	return d;
}
#define GUESS(most, ...)                                                                                               \
	guess((const int32_t[]){ __VA_ARGS__ }, sizeof((const int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t), most)

#define CHECK_CLASS(d, i, length, votes) CHECK_INT((d).class[i], (length)*DRAFT_VOTES + (votes))

TEST(nothing_is_guessed_from_nothing)
{
	CHECK_INT(guess(NULL, 0, DRAFT_MOST).n, 0);
	CHECK_INT(GUESS(DRAFT_MOST, 5).n, 0);
	CHECK_INT(GUESS(DRAFT_MOST, 5, 6, 7, 8).n, 0);
	CHECK_INT(GUESS(0, 1, 2, 1, 2, 1).n, 0);
	CHECK_INT(GUESS(-1, 1, 2, 1, 2, 1).n, 0);
}

TEST(a_single_token_that_was_there_before_is_the_weakest_match)
{
	struct draft d = GUESS(1, 7, 1, 2, 3, 9, 1);

	CHECK_INT(d.n, 1);
	CHECK_INT(d.id[0], 2);
	CHECK_CLASS(d, 0, 0, ALONE);
	/* A draft continues from its own guesses: after 2, the pair "1 2" is found and gives 3; then "1 2 3" gives 9,
	 * and so on. */
	d = GUESS(5, 7, 1, 2, 3, 9, 1);
	CHECK_INT(d.n, 5);
	CHECK(!memcmp(d.id, (int32_t[]){ 2, 3, 9, 1, 2 }, 5 * sizeof *d.id));
	CHECK_CLASS(d, 1, 1, ALONE);
	CHECK_CLASS(d, 2, 2, ALONE);
	CHECK_CLASS(d, 3, 3, ALONE);
}

TEST(the_longest_match_wins_against_fewer_tokens_and_newer_ones)
{
	struct draft d = GUESS(1, 4, 1, 2, 70, 5, 1, 2, 80, 6, 1, 2, 80, 4, 1, 2);

	CHECK_INT(d.id[0], 70);
	CHECK_CLASS(d, 0, 2, FEW_OF_THEM);
}

TEST(places_that_match_alike_vote)
{
	struct draft d = GUESS(1, 1, 2, 70, 5, 1, 2, 70, 6, 1, 2, 80, 9, 1, 2);

	CHECK_INT(d.id[0], 70);
	CHECK_CLASS(d, 0, 1, MOST_OF_THEM);
	d = GUESS(1, 1, 2, 70, 5, 1, 2, 70, 6, 1, 2);
	CHECK_INT(d.id[0], 70);
	CHECK_CLASS(d, 0, 1, AGREE);
	/* If no guess has a majority, the newest place decides. */
	d = GUESS(1, 1, 2, 70, 5, 1, 2, 80, 6, 1, 2);
	CHECK_INT(d.id[0], 80);
	CHECK_CLASS(d, 0, 1, FEW_OF_THEM);
}

TEST(a_repeated_sequence_goes_on)
{
	for (int32_t period = 1; period <= 20; period++) {
		int32_t id[200];
		struct draft d;

		for (int32_t i = 0; i < 200; i++)
			id[i] = 1000 + i % period;
		d = guess(id, 200, 99);
		CHECK_INT(d.n, DRAFT_MOST);
		for (int32_t k = 0; k < d.n; k++) {
			CHECK_INT(d.id[k], 1000 + (200 + k) % period);
			CHECK_CLASS(d, k, DRAFT_LENGTHS - 1, AGREE);
		}
	}
}

TEST(a_draft_has_as_many_tokens_as_are_asked_for)
{
	for (int32_t most = 0; most <= DRAFT_MOST + 3; most++)
		CHECK_INT(GUESS(most, 1, 2, 1, 2, 1, 2).n, MIN(most, DRAFT_MOST));
}

TEST(an_unlikely_draft_ends_early)
{
	static const int32_t id[] = { 1, 2, 1, 2, 1, 2 };
	struct draft_index x = { 0 };
	struct draft_pace p;
	struct draft d;

	draft_pace_reset(&p);
	for (int i = 0; i < DRAFT_CLASSES; i++)
		p.right[i] = 0.1;
	draft_index_grow(&x, id, 6);
	draft_guess(&x, &p, id, 6, DRAFT_MOST, &d);
	CHECK_INT(d.n, 2);
	draft_index_free(&x);
}

/* ---- against a search of all places ---- */

enum { CONTEXT = 14, PLACES = 64, VOCAB = 60 }; /* CONTEXT and PLACES have the same values as in draft.c */

/* Without an index, search all earlier places for the token that follows id[0 .. n) and k guesses. Returns the token
 * and sets *class, or returns -1. *many: set to 1 if there are more places than the index tries. */
static int32_t searched(const int32_t *id, size_t n, const int32_t *guesses, int32_t k, int *class, int *many)
{
	int32_t all[2048];
	size_t end = n + (size_t)k;

	memcpy(all, id, n * sizeof *id);
	memcpy(all + n, guesses, (size_t)k * sizeof *guesses);
	for (int least = 2; least >= 1; least--) {
		int32_t voters[VOCAB] = { 0 }, longest[VOCAB] = { 0 }, newest_first[VOCAB], kinds = 0, places = 0,
			best = -1;
		uint64_t weight[VOCAB] = { 0 };

		for (size_t at = n - 1; at-- > 0;) {
			int32_t same = 0, next = all[at + 1];

			while (same < CONTEXT && (size_t)same <= at &&
			       all[at - (size_t)same] == all[end - 1 - (size_t)same])
				same++;
			if (same < least)
				continue;
			if (!voters[next]++)
				newest_first[kinds++] = next;
			weight[next] += (uint64_t)1 << 2 * same;
			longest[next] = MAX(same, longest[next]);
			places++;
		}
		*many |= places > PLACES / 2;
		for (int32_t i = 0; i < kinds; i++)
			best = best < 0 || weight[newest_first[i]] > weight[best] ? newest_first[i] : best;
		if (best < 0)
			continue;
		*class = (longest[best] < 4         ? longest[best] - 1
		          : longest[best] < 8       ? 3
		          : longest[best] < CONTEXT ? 4
		                                    : 5) *
		                 DRAFT_VOTES +
		         (places == 1                 ? ALONE
		          : voters[best] == places    ? AGREE
		          : 2 * voters[best] > places ? MOST_OF_THEM
		                                      : FEW_OF_THEM);
		return best;
	}
	return -1;
}

/* While tokens are added and rolled back, the guesses of an index equal those of a search without an index. */
TEST(an_index_that_grows_and_is_cut_guesses_like_a_search)
{
	struct draft_index x = { 0 };
	struct draft_pace p = sure();
	int32_t id[1500];
	size_t n = 0;
	int64_t guesses = 0;

	for (int round = 0; round < 1500; round++) {
		size_t add = 1 + test_rand() % 12;
		struct draft d;
		int many = 0;

		if (test_rand() % 16 == 0) {
			size_t to = test_rand() % 8 ? n - test_rand() % (n / 4 + 1) : test_rand() % (n + 1);
			draft_index_cut(&x, id, to);
			CHECK_INT(x.n, MIN(to, n));
			n = to;
		}
		if (n + add > 1400) {
			draft_index_cut(&x, id, 0);
			n = 0;
		}
		/* Add new random tokens, or repeat earlier ones. */
		for (size_t from = n > 20 && test_rand() % 2 ? test_rand() % (n - 16) : SIZE_MAX; add; add--, n++)
			id[n] = from == SIZE_MAX ? (int32_t)(test_rand() % VOCAB) : id[from++];
		draft_index_grow(&x, id, n);
		draft_guess(&x, &p, id, n, DRAFT_MOST, &d);
		for (int32_t k = 0; k <= d.n && k < DRAFT_MOST; k++) {
			int class = 0;
			int32_t best = n > 1 ? searched(id, n, d.id, k, &class, &many) : -1;

			if (many)
				break;
			CHECK_INT(k < d.n ? d.id[k] : -1, best);
			if (k < d.n)
				CHECK_INT(d.class[k], class);
			guesses += k < d.n;
		}
	}
	test_note("%lld guesses", (long long)guesses);
	CHECK(guesses > 2000);
	draft_index_free(&x);
	CHECK(!x.n && !x.of[0].before && !x.of[1].newest);
}

/* ---- the length of a draft ---- */

static struct draft draft_of(int32_t n, int class)
{
	struct draft d = { .n = n };

	memset(d.class, class, sizeof d.class);
	return d;
}

TEST(a_draft_is_as_long_as_it_pays)
{
	struct draft d = draft_of(DRAFT_MOST, 3);
	struct draft_pace p = sure();

	CHECK_INT(draft_pace_length(&p, &d), DRAFT_MOST);
	d.n = 4;
	CHECK_INT(draft_pace_length(&p, &d), 4);
	d.n = DRAFT_MOST;
	/* The third and all later guesses are of a class that was always wrong: the draft ends before the third
	 * guess. */
	p.right[7] = 0;
	memset(d.class + 2, 7, sizeof d.class - 2);
	CHECK_INT(draft_pace_length(&p, &d), 2);
	p.right[3] = 0;
	CHECK_INT(draft_pace_length(&p, &d), 0);
	d.n = 0;
	CHECK_INT(draft_pace_length(&p, &d), 0);
}

TEST(the_length_follows_from_what_steps_took)
{
	struct draft d = draft_of(DRAFT_MOST, 0);
	struct draft_pace p = sure();

	/* A step of up to four tokens takes 1 unit of time, a step of n > 4 tokens takes 0.4 n. */
	for (int32_t n = 1; n <= DRAFT_MOST + 1; n++)
		draft_pace_took(&p, n, n < 5 ? 1 : n * 0.4);
	CHECK_INT(draft_pace_length(&p, &d), 3);
	/* A single outlier changes little; a lasting change of speed changes the length. */
	draft_pace_took(&p, 4, 1000);
	CHECK_INT(draft_pace_length(&p, &d), 3);
	for (int i = 0; i < 200; i++)
		for (int32_t n = 2; n <= DRAFT_MOST + 1; n++)
			draft_pace_took(&p, n, 20);
	CHECK_INT(draft_pace_length(&p, &d), 0);
	/* Times of step sizes that cannot occur are ignored. */
	draft_pace_took(&p, 0, 1);
	draft_pace_took(&p, DRAFT_MOST + 2, 1);
}

/* The time of an unmeasured size is estimated by a line through measured sizes. */
TEST(sizes_that_were_not_measured_are_estimated)
{
	struct draft d = draft_of(DRAFT_MOST, 0);
	struct draft_pace p = sure();

	draft_pace_took(&p, 1, 1);
	CHECK_INT(draft_pace_length(&p, &d), DRAFT_MOST);
	draft_pace_took(&p, DRAFT_MOST + 1, 40);
	CHECK_INT(draft_pace_length(&p, &d), 0);
	draft_pace_took(&p, 3, 1.1);
	CHECK_INT(draft_pace_length(&p, &d) >= 2 && draft_pace_length(&p, &d) < DRAFT_MOST, 1);
}

TEST(times_without_use_are_doubted)
{
	struct draft d = draft_of(DRAFT_MOST, 0);
	struct draft_pace p = sure();
	int i = 0;

	for (int32_t n = 1; n <= DRAFT_MOST + 1; n++)
		draft_pace_took(&p, n, n * 2);
	while (i < 1000 && !draft_pace_length(&p, &d))
		i++;
	CHECK_MSG(i > 50 && i < 1000, "%d", i);
	CHECK(p.seconds[1] == 2 && p.seconds[2] == 0 && p.seconds[DRAFT_MOST + 1] == 0);
}

TEST(shares_of_right_guesses_are_learned_by_class)
{
	struct draft_pace p, before;

	draft_pace_reset(&p);
	before = p;
	for (int i = 0; i < DRAFT_CLASSES; i++)
		CHECK(p.right[i] > 0 && p.right[i] < 1);
	for (int i = 0; i < 200; i++) {
		draft_pace_learn(&p, 2, 1);
		draft_pace_learn(&p, DRAFT_CLASSES - 1, 0);
	}
	CHECK(p.right[2] > 0.99 && p.right[2] <= 1 && p.right[DRAFT_CLASSES - 1] < 0.01 &&
	      p.right[DRAFT_CLASSES - 1] >= 0);
	p.right[2] = before.right[2];
	p.right[DRAFT_CLASSES - 1] = before.right[DRAFT_CLASSES - 1];
	CHECK(!memcmp(&p, &before, sizeof p));
	draft_pace_learn(&p, 1, 1);
	draft_pace_reset(&p);
	CHECK(!memcmp(&p, &before, sizeof p));
}
