/* app/lab/passkey_chain.c - prompts of two tasks. `passkey`: a number is hidden among random words. `chain`: a shuffled
 * list of keys that form chains. */
#include "app/lab/tasks.h"

#include <stdlib.h>
#include <string.h>

/* ---- passkey: a number of five digits, written twice among random words ---- */

static int build_passkey(const struct corpus *m, struct rng r, int32_t units, int32_t len, int32_t i, struct sample *s,
                         struct err *e)
{
	/* The depth of the number lies in one of five intervals; samples take these intervals in turn. */
	double depth = (i % 5 + rng_below(&r, 1u << 20) / (double)(1u << 20)) / 5;
	unsigned key = 10000 + rng_below(&r, 90000);
	int32_t position = (int32_t)(units * depth);
	struct str ref = { 0 };

	s->depth = depth;
	str_addf(&ref, "%u", key);
	words_add(&s->ref, xstrndup(ref.p, ref.n));
	str_free(&ref);
	str_adds(
		&s->prompt,
		"A pass key is hidden among a lot of random words. Find it and remember it: there will be a question about "
		"it.\n\n");
	for (int32_t k = 0; k <= units; k++) {
		if (k == position)
			str_addf(&s->prompt, "The pass key is %u. Remember it. %u is the pass key. ", key, key);
		if (k < units)
			str_addf(&s->prompt, "%s ", m->all.w[rng_below(&r, (uint32_t)m->all.n)]);
	}
	str_adds(&s->prompt, "\n\nWhich number is the pass key in the text above?");
	str_adds(&s->head, "The pass key in the text above is the number");
	return 0;
}

/* ---- chain: ten keys, each of which begins with the last word of the previous key ---- */

static int is_plain(const char *w)
{
	return strspn(w, "abcdefghijklmnopqrstuvwxyz") == strlen(w);
}

static int build_chain(const struct corpus *m, struct rng r, int32_t units, int32_t len, int32_t i, struct sample *s,
                       struct err *e)
{
	static const char task[] =
		"Write a chain of 10 keys out of the list: every key begins with the word that the key before it "
		"ends with. Write the keys alone, with commas between them.";
	struct words plain = { 0 };
	int32_t n = units;

	for (size_t k = 0; k < m->all.n; k++)
		if (is_plain(m->all.w[k]))
			words_add(&plain, m->all.w[k]);
	if ((size_t)n > plain.n) {
		words_free(&plain);
		return err_set(e, ERR_USAGE, "the word lists hold %zu plain words, this length wants more", m->all.n);
	}
	for (size_t k = plain.n - 1; k > 0; k--) {
		size_t j = rng_below(&r, (uint32_t)k + 1);
		const char *w = plain.w[k];
		plain.w[k] = plain.w[j];
		plain.w[j] = w;
	}
	/* Key number k is "WORD-NEXT WORD". The words form a circle, so each word begins exactly one key. The keys are
	 * listed in random order. */
	for (int32_t k = 0; k < n; k++) {
		struct str key = { 0 };
		str_addf(&key, "%s-%s", plain.w[k], plain.w[(k + 1) % n]);
		words_add(&s->ref, xstrndup(key.p, key.n));
		str_free(&key);
	}
	for (int32_t k = n - 1; k > 0; k--) {
		int32_t j = (int32_t)rng_below(&r, (uint32_t)k + 1);
		const char *w = s->ref.w[k];
		s->ref.w[k] = s->ref.w[j];
		s->ref.w[j] = w;
	}
	str_addf(&s->prompt, "Below is a list of keys of two words each. %s\n\n", task);
	for (int32_t k = 0; k < n; k++)
		str_addf(&s->prompt, "Name of key: %s\n", s->ref.w[k]);
	str_addf(&s->prompt, "\n%s", task);
	str_adds(&s->head, "The chain of keys is:");
	words_free(&plain);
	return 0;
}

const struct task_def passkey_chain_tasks[] = {
	{ "passkey", CMD_EVAL_PASSKEY, 0, 12, METRIC_DIGITS, 5, build_passkey, NULL },
	{ "chain", CMD_EVAL_CHAIN, 0, 50, METRIC_CHAIN, 11, build_chain, NULL },
	{ NULL, 0, 0, 0, METRIC_ALL, 0, NULL, NULL },
};
