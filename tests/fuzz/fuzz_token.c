/* tests/fuzz/fuzz_token.c - libFuzzer target: any bytes as a vocabulary, and any text for it.
 *
 *	make fuzz
 * 	mkdir -p corpus && build/fuzz/fuzz_token -max_len=2048 corpus
 *
 * The first byte chooses one of two forms. Either the rest is a GGUF file. Or the rest is a list of choices, from which
 * a mostly well-formed file is built, and then a text and its trusted ranges. The result of vocab_encode() is compared
 * with that of a simple encoder without heap, cutting at spaces and cache of words. */
#include "engine/gguf/gguf.h"
#include "engine/token/token_private.h"
#include "tests/lib/mkgguf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct input {
	const uint8_t *p;
	size_t n;
};

static unsigned take(struct input *in)
{
	if (!in->n)
		return 0;
	in->n--;
	return *in->p++;
}

static struct view take_bytes(struct input *in, size_t n)
{
	struct view v = { (const char *)in->p, MIN(n, in->n) };
	in->p += v.n;
	in->n -= v.n;
	return v;
}

/* ---- the simple encoder ---- */

static void naive_word(const struct vocab *v, const char *s, size_t n, struct tokens *out)
{
	struct {
		size_t off, len;
		int32_t id;
	} *a = xmalloc((n + 1) * sizeof *a);
	size_t k = 0;

	if (!v->marks && v->pre->whole_words) {
		char *t = xmalloc(2 * n);
		size_t len = 0;
		int32_t id;
		for (size_t i = 0; i < n; i++)
			len += (size_t)utf8_encode(byte_char((unsigned char)s[i]), t + len);
		id = n <= v->longest ? vocab_lookup(v, t, len) : -1;
		free(t);
		if (id >= 0 && v->type[id] == TOKEN_NORMAL) {
			tokens_add(out, id);
			free(a);
			return;
		}
	}
	for (size_t i = 0; i < n;) {
		int32_t cp, id;
		size_t len = v->marks ? (size_t)utf8_decode(s + i, n - i, &cp) : 1;
		if (v->marks && cp < 0)
			len = 1;
		id = v->marks ? vocab_lookup(v, s + i, len) : v->byte_id[(unsigned char)s[i]];
		if (v->marks && id >= 0 && v->type[id] != TOKEN_NORMAL)
			id = -1;
		if (v->marks || id >= 0 || has_unknown(v)) {
			a[k].off = i;
			a[k].len = len;
			a[k++].id = id;
		}
		i += len;
	}
	for (;;) {
		uint32_t best = NO_RANK;
		size_t at = 0;
		int32_t to = -1;
		for (size_t i = 0; i + 1 < k; i++) {
			uint32_t rank = NO_RANK;
			int32_t id = -1;
			if (!v->merges) {
				id = vocab_lookup(v, s + a[i].off, a[i].len + a[i + 1].len);
				if (id >= 0 && v->type[id] == TOKEN_NORMAL)
					rank = v->rank[id];
			} else if (a[i].id >= 0 && a[i + 1].id >= 0) {
				const struct pair_slot *p = vocab_pair(v, a[i].id, a[i + 1].id);
				rank = p ? p->rank : NO_RANK;
				id = p ? p->to1 - 1 : -1;
			}
			if (rank < best) {
				best = rank;
				at = i;
				to = id;
			}
		}
		if (best == NO_RANK)
			break;
		a[at].len += a[at + 1].len;
		a[at].id = to;
		memmove(a + at + 1, a + at + 2, (k - at - 2) * sizeof *a);
		k--;
	}
	for (size_t i = 0; i < k; i++) {
		int bytes = a[i].id < 0 && v->marks;
		for (size_t j = 0; bytes && j < a[i].len; j++)
			bytes = v->byte_id[(unsigned char)s[a[i].off + j]] >= 0;
		for (size_t j = 0; bytes && j < a[i].len; j++)
			tokens_add(out, v->byte_id[(unsigned char)s[a[i].off + j]]);
		if (!bytes)
			tokens_add(out, a[i].id >= 0 ? a[i].id : v->info.unk);
	}
	free(a);
}

static void naive_run(const struct vocab *v, const char *s, size_t n, int space, struct tokens *out)
{
	struct str t = { 0 };

	if (!n)
		return;
	if (v->marks) {
		if (space && v->add_space)
			str_adds(&t, SPACE_MARK);
		for (size_t i = 0; i < n; i++)
			str_add(&t, s[i] == ' ' ? SPACE_MARK : s + i, s[i] == ' ' ? 3 : 1);
		naive_word(v, t.p, t.n, out);
		str_free(&t);
		return;
	}
	for (size_t i = 0, end; i < n; i = end) {
		end = pretok_next(v->pre, s, n, i);
		if (end <= i || end > n)
			abort();
		naive_word(v, s + i, end - i, out);
	}
}

static void naive_encode(const struct vocab *v, const char *s, size_t n, const unsigned char *vouched,
                         struct tokens *out)
{
	size_t from = 0, pos = 0;
	int space = 1;

	while (pos < n) {
		const struct special *best = NULL;
		for (int32_t i = 0; i < v->n_special; i++) {
			const struct special *x = &v->special[i];
			int ok = x->n <= n - pos && !memcmp(x->p, s + pos, x->n);
			for (size_t j = 0; ok && !x->user && j < x->n; j++)
				ok = vouched[pos + j];
			if (ok && (!best || x->n > best->n))
				best = x;
		}
		if (!best) {
			pos++;
			continue;
		}
		naive_run(v, s + from, pos - from, space, out);
		tokens_add(out, best->id);
		space = !best->user;
		from = pos += best->n;
	}
	naive_run(v, s + from, n - from, space, out);
}

/* ---- the target ---- */

static void check_text(const struct vocab *v, struct input *in)
{
	unsigned char vouched[4096] = { 0 };
	struct span span[16];
	size_t n_span = take(in) % 16, off[16];
	struct tokens got = { 0 }, want = { 0 };
	struct err e = { 0 };
	struct view t;
	size_t at = 0;
	char buf[64];

	for (size_t i = 0; i < n_span; i++)
		off[i] = take(in);
	t = take_bytes(in, sizeof vouched);
	for (size_t i = 0; i < n_span; i++) { /* alternate gaps and lengths, so that ranges ascend and do not touch */
		size_t gap = off[i] >> 4 & 7, len = off[i] & 15;
		at = at + gap < t.n ? at + gap : t.n;
		len = len < t.n - at ? len : t.n - at;
		span[i] = (struct span){ at, len };
		memset(vouched + at, 1, len);
		at += len;
	}
	if (vocab_encode(v, t.p, t.n, span, n_span, &got, &e)) {
		if (e.code != ERR_MODEL || got.n || has_unknown(v))
			abort();
		tokens_free(&got);
		return;
	}
	if (v->info.encoder) { /* compare with vocab_encode_ends(), which does not use the cache of words */
		struct token_ends ends = { 0 };

		if (vocab_encode_ends(v, t.p, t.n, span, n_span, 0, &want, &ends, &e) || ends.n != want.n)
			abort();
		for (size_t i = 0; i < ends.n; i++)
			if (ends.at[i] > t.n || (i && ends.at[i] < ends.at[i - 1]))
				abort();
		free(ends.at);
	} else {
		naive_encode(v, t.p, t.n, vouched, &want);
	}
	if (got.n != want.n || (got.n && memcmp(got.id, want.id, got.n * sizeof *got.id)))
		abort();
	for (size_t i = 0; i < got.n; i++) {
		if (got.id[i] < 0 || got.id[i] >= v->info.n)
			abort();
		vocab_piece(v, got.id[i], (int)(i & 1), buf, i % sizeof buf);
		vocab_is_end(v, got.id[i]);
	}
	tokens_free(&got);
	tokens_free(&want);
}

/* Build a vocabulary with up to 40 tokens from the input and, for most inputs, a token for each byte. */
static void build(struct input *in, struct str *file)
{
	static const char *const pre[] = { "gpt-2", "smollm", "llama-bpe", "qwen2", "tekken", "gpt-4o" };
	unsigned how = take(in), n_own = take(in) % 40, spm = how & 1, bytes = how >> 1 & 3;
	unsigned encoder = !spm && how & 128, unigram = encoder && how & 8,
		 merges = (!spm && !encoder) || (spm && how & 128), n;
	struct mk m = { 0 };
	struct view own[40];
	unsigned type[40], n_merges;

	spm |= encoder;
	n = n_own + (bytes ? 256 : 0);
	mk_string(&m, "tokenizer.ggml.model",
	          unigram   ? "t5"
	          : encoder ? "bert"
	          : !spm    ? "gpt2"
	          : merges  ? "gemma4"
	                    : "llama");
	mk_string(&m, "tokenizer.ggml.pre", pre[take(in) % 6]);
	mk_array(&m, "tokenizer.ggml.tokens", GGUF_STRING, n);
	for (unsigned i = 0; i < n_own; i++) {
		unsigned b = take(in);
		type[i] = b & 64 ? b >> 3 & 7 : TOKEN_NORMAL;
		own[i] = take_bytes(in, b & 7);
		put_bytes(&m.kv, own[i].p, own[i].n);
	}
	for (unsigned i = n_own; i < n; i++) {
		char name[8];
		unsigned b = i - n_own;
		memcpy(name, "<0x  >", 7);
		name[3] = "0123456789ABCDEF"[b >> 4];
		name[4] = "0123456789ABCDEF"[b & 15];
		if (spm)
			put_bytes(&m.kv, name, 6);
		else
			put_bytes(&m.kv, name, (size_t)utf8_encode(byte_char((unsigned char)b), name));
	}
	if (how & 8) {
		mk_array(&m, "tokenizer.ggml.token_type", GGUF_I32, n);
		for (unsigned i = 0; i < n; i++)
			put_u32(&m.kv, i < n_own ? type[i] : spm ? TOKEN_BYTE : TOKEN_NORMAL);
	}
	mk_array(&m, "tokenizer.ggml.scores", GGUF_F32, n);
	for (unsigned i = 0; i < n; i++)
		put_f32(&m.kv, i < n_own ? (float)(int8_t)take(in) / 4 : 0);
	n_merges = take(in) % 40;
	if (merges) {
		mk_array(&m, "tokenizer.ggml.merges", GGUF_STRING, n_merges);
		for (unsigned i = 0; i < n_merges; i++) { /* a merge is one of the tokens, cut in two */
			unsigned which = take(in), cut = take(in);
			struct view t = n_own ? own[which % n_own] : (struct view){ "ab", 2 };
			struct str s = { 0 };
			cut = t.n ? cut % (unsigned)t.n : 0;
			str_add(&s, t.p, cut);
			str_adds(&s, " ");
			str_add(&s, t.p + cut, t.n - cut);
			put_bytes(&m.kv, s.p, s.n);
			str_free(&s);
		}
	}
	if (unigram && how & 32) {
		uint32_t n_unit = take(in);
		struct view trie = take_bytes(in, 4 * n_unit), text = take_bytes(in, take(in));

		mk_array(&m, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, 4 + trie.n + text.n + 1);
		put_u32(&m.kv, trie.n);
		str_add(&m.kv, trie.p, trie.n);
		str_add(&m.kv, text.p, text.n);
		put_u8(&m.kv, 0);
	}
	if (how & 16)
		mk_u32(&m, "tokenizer.ggml.unknown_token_id", take(in));
	if (how & 32)
		mk_u32(&m, "tokenizer.ggml.eos_token_id", take(in));
	if (how & 64)
		mk_bool(&m, "tokenizer.ggml.add_space_prefix", (int)(take(in) & 1));
	mk_finish(&m, file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const char fixed[] = "\0Hello, w\xc3\xb6rld 123\n  x"; /* a 0, which means no ranges, then the text */
	struct input in = { data, n };
	struct str file = { 0 };
	struct err e = { 0 };
	struct gguf *g = NULL;
	struct vocab *v = NULL;
	int raw = (take(&in) & 15) == 0;

	if (raw)
		str_add(&file, in.p, in.n);
	else
		build(&in, &file);
	if (!gguf_parse(&g, "fuzz", str_text(&file), file.n, &e)) {
		if (!vocab_load(&v, g, NULL, &e)) {
			/* For a built file the rest of the input is the text; a raw file is itself taken as the
			 * text. */
			check_text(v, raw ? &(struct input){ data, n } : &in);
			check_text(v, &(struct input){ (const uint8_t *)fixed, sizeof fixed - 1 });
		} else if (v || !e.code || !e.msg[0]) {
			abort();
		}
		vocab_free(v);
		gguf_close(g);
	}
	str_free(&file);
	return 0;
}
