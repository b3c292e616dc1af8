/* tests/fuzz/fuzz_keys.c - libFuzzer target for ui/screen/keys.c: `make fuzz`, then build/fuzz/fuzz_keys [CORPUS].
 *
 * The first two bytes choose how the rest is cut and whether time passes between the pieces. If no time passes, the
 * keys must not depend on the cuts. */
#include "ui/screen/keys.h"

#include <stdlib.h>
#include <string.h>

static void must(int ok)
{
	if (!ok)
		abort();
}

/* Append a key as bytes, for comparison. */
static void keep(const struct key *k, void *ud)
{
	struct str *out = ud;
	int32_t numbers[] = { k->code, (int32_t)k->mods, k->cp, k->x, k->y };

	must(k->code <= K_UNKNOWN && k->bytes && !(k->mods & ~(unsigned)(KEY_SHIFT | KEY_ALT | KEY_CTRL)));
	if (k->code == K_CHAR) {
		must(k->cp >= 0x20 && k->cp <= 0x10ffff && !(k->cp >= 0x7f && k->cp <= 0x9f));
		must(!(k->mods & KEY_CTRL) || (k->cp >= 'a' && k->cp <= 'z') || k->cp == '@' ||
		     (k->cp >= '[' && k->cp <= '_'));
	}
	str_add(out, numbers, sizeof numbers);
	str_add(out, k->bytes, k->n);
	if (k->code != K_PASTE)
		return;
	must(k->n > 0 && k->n <= KEYS_PASTE_MAX);
	for (size_t i = 0; i < k->n;) {
		int32_t cp;
		i += (size_t)utf8_decode(k->bytes + i, k->n - i, &cp);
		must(cp >= 0x20 ? cp != 0x7f : cp == '\n' || cp == '\t');
	}
}

static void run(const char *in, size_t n, size_t step, double pause, int marks, struct str *out)
{
	struct keys k = { .marks_pastes = marks != 0 };
	double now = 1;

	str_clear(out);
	for (size_t i = 0; i < n; i += step) {
		keys_feed(&k, in + i, n - i < step ? n - i : step, now, keep, out);
		must((keys_wake(&k) > 0) == (k.held.n || k.pasting || k.skipping));
		must(k.pasting || k.held.n <= KEYS_SEQ_MAX + 2);
		now += pause;
		keys_tick(&k, now, keep, out);
	}
	keys_tick(&k, now + 100, keep, out);
	must(!k.held.n && !k.pasting && !k.skipping && !keys_wake(&k));
	keys_free(&k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct str a, b;
	const char *in = (const char *)data + 2;
	size_t n, step;

	if (size < 2)
		return 0;
	n = size - 2;
	step = 1 + data[0] % 13;
	run(in, n, n + 1, 0, 1, &a);
	run(in, n, step, 0, 1, &b);
	must(a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n)));
	run(in, n, step * 8, data[1] / 400.0, 0, &b);
	return 0;
}
