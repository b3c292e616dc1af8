/* ui/input/untyped.c - remembers which file names in the input line were not typed, but pasted or read from a file.
 *
 * "@FILE" in a message reads a file. Pasted text may come from a stranger, and must not make the program read a file.
 * So the words after an @ in pasted text are remembered, until the program ends: undo, kill ring and history can insert
 * them again. */
#include "ui/ui.h"
#include "engine/base/utf8.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { WORDS_FIRST = 256 };

/* A set of hashes of words. The hash 0 marks a free slot. The seed is random, so the author of a pasted text cannot
 * choose words that have equal hashes. */
static struct {
	uint64_t *hash, seed;
	size_t n, cap;
	pthread_mutex_t lock;
} set = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t hash_step(uint64_t h, unsigned char c)
{
	h = (h ^ c) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

/* Turn h, the hash of a word's characters, into an entry of the set; it is never 0. If `whole` is 1, the entry stands
 * for exactly this word. If `whole` is 0, it stands for all words that begin with these characters. */
static uint64_t hash_finish(uint64_t h, int whole)
{
	h = hash_step(h, whole ? 1 : 2);
	return h ? h : 1;
}

static size_t place_of(uint64_t h)
{
	size_t i = h & (set.cap - 1);

	while (set.hash[i] && set.hash[i] != h)
		i = (i + 1) & (set.cap - 1);
	return i;
}

static void words_add(uint64_t h)
{
	size_t i;

	if (2 * set.n >= set.cap) {
		uint64_t *old = set.hash;
		size_t cap = set.cap;

		set.cap = cap ? 2 * cap : WORDS_FIRST;
		set.hash = xcalloc(set.cap, sizeof *set.hash);
		for (size_t k = 0; k < cap; k++)
			if (old[k])
				set.hash[place_of(old[k])] = old[k];
		free(old);
		if (!cap && getentropy(&set.seed, sizeof set.seed))
			set.seed = (uintptr_t)set.hash;
	}
	i = place_of(h);
	set.n += !set.hash[i];
	set.hash[i] = h;
}

/* Find the next word that follows an @, at byte *end or later: bytes [*from, *end). Returns 0 if no word is left. */
static int next_word(const char *text, size_t n, size_t *from, size_t *end)
{
	const char *at;

	while (*end < n && (at = memchr(text + *end, '@', n - *end))) {
		*from = *end = (size_t)(at - text) + 1;
		if (*from > 1 && !byte_is_xml_blank(text[*from - 2]))
			continue;
		while (*end < n && !byte_is_xml_blank(text[*end]))
			++*end;
		if (*end > *from)
			return 1;
	}
	return 0;
}

void untyped_note(const char *text, size_t n)
{
	size_t from, end = 0;

	pthread_mutex_lock(&set.lock);
	if (!set.cap)
		words_add(1);
	while (next_word(text, n, &from, &end)) {
		uint64_t h = set.seed;
		int whole = end < n;

		for (size_t i = from; i < end; i++) {
			h = hash_step(h, (unsigned char)text[i]);
			whole &= text[i] != '"' && text[i] != '\'' &&
			         text[i] != '\\'; /* a blank that is quoted or escaped may belong to the word */
		}
		words_add(hash_finish(h, whole));
	}
	pthread_mutex_unlock(&set.lock);
}

int untyped_names_file(const char *text, size_t n)
{
	size_t from, end = 0;
	int found = 0;

	while (!found && next_word(text, n, &from, &end)) {
		char *word = xstrndup(text + from, end - from);

		found = untyped_has(word, end - from) && (strpbrk(word, "/.~\"'\\") || !access(word, F_OK));
		free(word);
	}
	return found;
}

int untyped_has(const char *word, size_t n)
{
	uint64_t h = set.seed;
	int found = 0;

	pthread_mutex_lock(&set.lock);
	for (size_t i = 0; set.cap && i < n && !found; i++) {
		h = hash_step(h, (unsigned char)word[i]);
		found = set.hash[place_of(hash_finish(h, 0))] != 0;
	}
	found |= set.cap && set.hash[place_of(hash_finish(h, 1))] != 0;
	pthread_mutex_unlock(&set.lock);
	return found;
}
