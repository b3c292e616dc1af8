/* engine/token/token_load.c - loads a vocabulary from GGUF metadata and checks every array.
 *
 * Texts are copied, so the file may be closed afterwards. Two hash tables are built. The first table maps a text to a
 * token id; if several tokens have the same text, it maps the text to the first of them. The second table maps a pair
 * (left id, right id) to a merge; if a pair has several merges, it maps the pair to the first of them, because that
 * merge has the lowest rank. */
#include "engine/engine_chat.h"
#include "engine/token/token_private.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

typedef unsigned long long ull;

struct loader {
	struct vocab *v;
	const struct gguf *g;
	struct err *err;
	const struct gguf_value *types; /* types of the tokens, or NULL if they are not in the file */
};

/* Set the error "file 'PATH': byte N: 'KEY': ..." about an array of the file, and return -1. */
__attribute__((format(printf, 3, 4))) static int array_err(struct loader *l, const struct gguf_value *a,
                                                           const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return gguf_err(l->g, l->err, "byte %llu: '%.*s': %s", (ull)a->off, (int)a->key.n, a->key.p, text);
}

/* The first 40 bytes of a text from the file, as two arguments for "%.*s". */
#define SHOW(n, p) (int)((n) < 40 ? (n) : 40), (p)

/* ---- tables ---- */

/* Draw a random hash seed, so that a hostile file cannot choose millions of texts that collide. */
static void draw_seed(uint64_t seed[2])
{
	if (getentropy(seed, 2 * sizeof seed[0])) {
		seed[0] = (uint64_t)(uintptr_t)seed ^ 0x9e3779b97f4a7c15u;
		seed[1] = (uint64_t)(now_seconds() * 1e9) * 0xbf58476d1ce4e5b9u;
	}
	seed[0] |= 1;
	seed[1] |= 1u | (1ull << 63);
}

static uint32_t table_size(uint64_t n)
{
	uint64_t size = 64;
	while (size < n + n / 2)
		size *= 2;
	return (uint32_t)size;
}

/* ---- tokens ---- */

static int load_texts(struct loader *l)
{
	struct vocab *v = l->v;
	const struct gguf_value *tokens;
	struct view t;
	uint64_t pos = 0, total = 0, size;
	int32_t n;
	int got = gguf_array(l->g, "tokenizer.ggml.tokens", GGUF_STRING, UINT64_MAX, &tokens, l->err);

	if (got < 0)
		return -1;
	if (!got)
		return gguf_err(l->g, l->err, "there is no 'tokenizer.ggml.tokens', so the file has no vocabulary");
	if (tokens->n < 1 || tokens->n > VOCAB_MAX)
		return array_err(l, tokens, "%llu tokens, and there must be 1 to %d", (ull)tokens->n, VOCAB_MAX);
	v->info.n = n = (int32_t)tokens->n;
	for (uint64_t i = 0; gguf_string_next(tokens, &pos, &t); i++) {
		if (t.n > TOKEN_BYTES_MAX)
			return array_err(l, tokens, "token %llu has %llu bytes, and the limit is %d", (ull)i, (ull)t.n,
			                 TOKEN_BYTES_MAX);
		total += t.n;
	}
	if (total > UINT32_MAX)
		return array_err(l, tokens, "%llu bytes of text, and the limit is %u", (ull)total, UINT32_MAX);

	size = table_size(tokens->n);
	v->by_text_mask = (uint32_t)size - 1;
	if (!(v->text = try_alloc(total, 1, "the texts of the vocabulary", l->err)) ||
	    !(v->off = try_alloc((size_t)n + 1, sizeof *v->off, "the vocabulary", l->err)) ||
	    !(v->type = try_alloc((size_t)n, 1, "the types of the vocabulary", l->err)) ||
	    !(v->by_text = try_alloc(size, sizeof *v->by_text, "the index of the vocabulary", l->err)))
		return -1;
	pos = total = 0;
	for (int32_t i = 0; gguf_string_next(tokens, &pos, &t); i++) {
		uint64_t h;
		if (t.n)
			memcpy(v->text + total, t.p, t.n);
		v->off[i] = (uint32_t)total;
		total += t.n;
		v->off[i + 1] = (uint32_t)total;
		if (!t.n)
			continue; /* empty texts, which some vocabularies have, are never looked up */
		h = hash_bytes(v->seed, t.p, t.n);
		for (uint32_t k = (uint32_t)(h >> 32) & v->by_text_mask;; k = (k + 1) & v->by_text_mask) {
			struct text_slot *s = &v->by_text[k];
			uint32_t id = s->id1 - 1;
			if (!s->id1) {
				*s = (struct text_slot){ (uint32_t)h, (uint32_t)i + 1 };
				break;
			}
			if (s->hash == (uint32_t)h && v->off[id + 1] - v->off[id] == t.n &&
			    !memcmp(v->text + v->off[id], t.p, t.n))
				break;
		}
	}
	return 0;
}

static int load_types(struct loader *l)
{
	struct vocab *v = l->v;
	const struct gguf_value *a = gguf_find(l->g, "tokenizer.ggml.token_type");
	enum gguf_type elem = a && a->type == GGUF_ARRAY && a->elem == GGUF_U32 ? GGUF_U32 : GGUF_I32;
	int got = gguf_array(l->g, "tokenizer.ggml.token_type", elem, (uint64_t)v->info.n, &l->types, l->err);

	if (got < 0)
		return -1;
	for (int32_t i = 0; i < v->info.n; i++) {
		const char *p = v->text + v->off[i];
		uint32_t n = v->off[i + 1] - v->off[i];
		int64_t type = TOKEN_NORMAL;
		if (got)
			type = gguf_array_int(l->types, (uint64_t)i);
		else if (v->marks && token_byte(p, n) >= 0)
			type = TOKEN_BYTE;
		/* In the GGUF format, type 0 means undefined. Treat such a token as normal. */
		if (type < 0 || type > TOKEN_BYTE)
			return array_err(l, l->types, "token %d has type %lld, and must have 0 to %d", i,
			                 (long long)type, TOKEN_BYTE);
		v->type[i] = type ? (uint8_t)type : TOKEN_NORMAL;
		if (type == TOKEN_BYTE && v->marks && token_byte(p, n) < 0)
			return array_err(l, l->types,
			                 "token %d is marked as a byte but its text '%.*s' is not of "
			                 "the form <0xNN>",
			                 i, SHOW(n, p));
		if (v->type[i] == TOKEN_NORMAL && n > v->longest)
			v->longest = n;
	}
	return 0;
}

/* ---- scores and merges ---- */

static int load_scores(struct loader *l)
{
	struct vocab *v = l->v;
	const struct gguf_value *a;
	int got = gguf_array(l->g, "tokenizer.ggml.scores", GGUF_F32, (uint64_t)v->info.n, &a, l->err);
	int ranks = v->kind == KIND_SPM && !v->merges;

	if (got < 0)
		return -1;
	if (!got && (ranks || v->kind == KIND_UNIGRAM))
		return gguf_err(l->g, l->err, "there is no 'tokenizer.ggml.scores', which tokenizer model '%s' needs",
		                v->info.model);
	if (v->kind == KIND_UNIGRAM &&
	    !(v->score = try_alloc((size_t)v->info.n, sizeof *v->score, "the scores of the vocabulary", l->err)))
		return -1;
	if (ranks) {
		v->rank = try_alloc((size_t)v->info.n, sizeof *v->rank, "the scores of the vocabulary", l->err);
		if (!v->rank)
			return -1;
	}
	for (int32_t i = 0; got && i < v->info.n; i++) {
		float f;
		uint32_t bits;
		memcpy(&f, a->data + 4 * (size_t)i, 4);
		if (isnan(f))
			return array_err(l, a, "the score of token %d is not a number", i);
		if (v->score && isinf(f))
			return array_err(l, a, "the score of token %d is infinite", i);
		if (v->score)
			v->score[i] = f;
		f += 0.0f; /* convert -0 to 0, because both must get the same rank */
		memcpy(&bits, &f, 4);
		/* Map the bits of the score to an unsigned number, so that a higher score gives a higher number. The
		 * rank is the complement, so the highest score gets the lowest rank. */
		bits = bits >> 31 ? ~bits : bits | 0x80000000u;
		if (ranks)
			v->rank[i] = ~bits;
	}
	return 0;
}

/* Return the id of the token that a merge makes. Return -1 if the vocabulary does not have this token, -2 if memory is
 * exhausted. The text of `merge` is "LEFT RIGHT", where LEFT has n_left bytes. The id *guess is tried before the hash
 * table is searched. For the next call, *guess is set to the result + 1, because most vocabularies list these tokens in
 * the order of the merges. */
static int32_t merge_result(struct loader *l, struct view merge, size_t n_left, int32_t *guess)
{
	const struct vocab *v = l->v;
	size_t n = merge.n - 1;
	char small[256], *joined = small;
	int32_t to;

	if (n > sizeof small && !(joined = try_alloc(n, 1, "a merge of the vocabulary", l->err)))
		return -2;
	memcpy(joined, merge.p, n_left);
	memcpy(joined + n_left, merge.p + n_left + 1, n - n_left);
	if (*guess >= 0 && *guess < v->info.n && v->off[*guess + 1] - v->off[*guess] == n &&
	    !memcmp(v->text + v->off[*guess], joined, n))
		to = *guess;
	else
		to = vocab_lookup(v, joined, n);
	if (joined != small)
		free(joined);
	*guess = to + 1;
	return to;
}

/* Add the merge of a pair. If the pair already has a merge, do nothing: the earlier merge has a lower rank. */
static void pair_add(struct vocab *v, int32_t left, int32_t right, uint32_t rank, int32_t to)
{
	uint32_t i = pair_hash(v, left, right) & v->pair_mask;

	for (; v->pair[i].to1; i = (i + 1) & v->pair_mask)
		if (v->pair[i].left == left && v->pair[i].right == right)
			return;
	v->pair[i] = (struct pair_slot){ left, right, rank, to + 1 };
}

static int load_merges(struct loader *l)
{
	struct vocab *v = l->v;
	const struct gguf_value *a;
	struct view t;
	uint64_t pos = 0;
	uint32_t size;
	int32_t guess = -1;
	int got = gguf_array(l->g, "tokenizer.ggml.merges", GGUF_STRING, UINT64_MAX, &a, l->err);

	if (got < 0)
		return -1;
	if (!got)
		return gguf_err(l->g, l->err, "there is no 'tokenizer.ggml.merges', which tokenizer model '%s' needs",
		                v->info.model);
	if (a->n > MERGES_MAX)
		return array_err(l, a, "%llu merges, and the limit is %d", (ull)a->n, MERGES_MAX);
	size = table_size(a->n);
	v->pair_mask = size - 1;
	if (!(v->pair = try_alloc(size, sizeof *v->pair, "the merges of the vocabulary", l->err)))
		return -1;
	for (uint32_t rank = 0; gguf_string_next(a, &pos, &t); rank++) {
		/* The left part of the merge may begin with a space, so search for the separator from the second byte
		 * on. */
		const char *sep = t.n > 2 ? memchr(t.p + 1, ' ', t.n - 2) : NULL;
		int32_t left, right, to;
		size_t n_left;

		if (!sep)
			return array_err(l, a, "merge %u '%.*s' is not two parts with a space between", rank,
			                 SHOW(t.n, t.p));
		n_left = (size_t)(sep - t.p);
		left = vocab_lookup(v, t.p, n_left);
		right = vocab_lookup(v, sep + 1, t.n - n_left - 1);
		if (left < 0 || right < 0)
			return array_err(l, a, "a part of merge %u '%.*s' is not in the vocabulary", rank,
			                 SHOW(t.n, t.p));
		if ((to = merge_result(l, t, n_left, &guess)) == -2)
			return -1;
		if (to < 0)
			return array_err(l, a, "the result of merge %u '%.*s' is not in the vocabulary", rank,
			                 SHOW(t.n, t.p));
		/* Plain text must not produce a control token, so drop merges that make one. */
		if (v->type[to] != TOKEN_CONTROL && v->type[to] != TOKEN_UNKNOWN)
			pair_add(v, left, right, rank, to);
	}
	return 0;
}

/* ---- derived tables ---- */

/* Fill byte_id[]. For vocabularies with space marks also set words_apart. */
static void find_bytes(struct vocab *v)
{
	for (int b = 0; b < 256; b++) {
		char c[4];
		v->byte_id[b] = -1;
		if (!v->marks) {
			int32_t id = vocab_lookup(v, c, (size_t)utf8_encode(byte_char((unsigned char)b), c));
			v->byte_id[b] = id >= 0 && v->type[id] == TOKEN_NORMAL ? id : -1;
		}
	}
	v->words_apart = 1;
	for (int32_t i = v->info.n; v->marks && i-- > 0;) {
		const char *p = v->text + v->off[i];
		uint32_t n = v->off[i + 1] - v->off[i], k = 0;
		if (v->type[i] == TOKEN_BYTE)
			v->byte_id[token_byte(p, n)] = i;
		/* Set words_apart to 0 if a token extends from one word into the next, so that merging can join words.
		 * Skip tokens that merging cannot make. If the file lists the merges, these are the control and unknown
		 * tokens. Otherwise these are all tokens that are not normal. */
		if (v->merges ? v->type[i] == TOKEN_CONTROL || v->type[i] == TOKEN_UNKNOWN : v->type[i] != TOKEN_NORMAL)
			continue;
		while (n - k >= 3 && !memcmp(p + k, SPACE_MARK, 3))
			k += 3;
		for (; n - k >= 3; k++)
			if (!memcmp(p + k, SPACE_MARK, 3)) {
				v->words_apart = 0;
				break;
			}
	}
}

static int special_cmp(const void *a, const void *b)
{
	const struct special *x = a, *y = b;
	int c = memcmp(x->p, y->p, MIN(x->n, y->n));
	if (c)
		return c;
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int is_special(int type)
{
	return type == TOKEN_CONTROL || type == TOKEN_USER || type == TOKEN_UNKNOWN;
}

static int find_specials(struct loader *l)
{
	struct vocab *v = l->v;
	size_t n = 0, bytes = 0, kept = 0;
	char *p;

	for (int32_t i = 0; i < v->info.n; i++)
		if (is_special(v->type[i])) {
			n++;
			bytes += v->off[i + 1] - v->off[i];
		}
	if (!(v->special = try_alloc(n, sizeof *v->special, "the special tokens", l->err)) ||
	    !(v->special_text = p = try_alloc(bytes, 1, "the special tokens", l->err)))
		return -1;
	n = 0;
	v->cuts = 1;
	for (int32_t i = 0; i < v->info.n; i++) {
		const char *t = v->text + v->off[i];
		uint32_t len = v->off[i + 1] - v->off[i], used = 0;
		if (!is_special(v->type[i]) || !len || len > SPECIAL_BYTES_MAX)
			continue;
		for (uint32_t k = 0; k < len; k++) {
			int mark = v->marks && len - k >= 3 && !memcmp(t + k, SPACE_MARK, 3);
			p[used++] = mark ? ' ' : t[k];
			k += mark ? 2 : 0;
		}
		/* a WordPiece token that begins a word has a space mark: drop it */
		if (v->kind == KIND_WORDPIECE && used > 1 && p[0] == ' ') {
			p++;
			used--;
		}
		v->special[n++] = (struct special){ p, used, i, v->type[i] == TOKEN_USER };
		for (uint32_t k = 1; v->type[i] == TOKEN_USER && k < used; k++)
			if ((p[k] == ' ' || p[k] == '\n') && p[k - 1] != ' ' && p[k - 1] != '\n')
				v->cuts = 0;
		p += used;
	}
	qsort(v->special, n, sizeof *v->special, special_cmp);
	for (size_t i = 0; i < n; i++) /* if tokens have equal texts, keep the token with the lowest id */
		if (!kept || v->special[kept - 1].n != v->special[i].n ||
		    memcmp(v->special[kept - 1].p, v->special[i].p, v->special[i].n))
			v->special[kept++] = v->special[i];
	v->n_special = (int32_t)kept;
	for (int b = 0, i = 0; b < 257; b++) {
		while (i < v->n_special && (unsigned char)v->special[i].p[0] < b)
			i++;
		v->special_from[b] = i;
	}
	return 0;
}

/* ---- ids and flags named by the file ---- */

/* Set *out to the id that the file stores under `key`. If the file does not have the key, set *out to `otherwise`. */
static int read_id(struct loader *l, const char *key, int32_t *out, int32_t otherwise)
{
	int64_t id = otherwise;
	if (gguf_int(l->g, key, 0, l->v->info.n - 1, &id, l->err) < 0)
		return -1;
	*out = (int32_t)id;
	return 0;
}

static int32_t control_find(const struct vocab *v, const char *text)
{
	int32_t id = vocab_lookup(v, text, strlen(text));
	return id >= 0 && v->type[id] == TOKEN_CONTROL ? id : -1;
}

static void add_end(struct vocab *v, int32_t id)
{
	for (int i = 0; i < v->n_end; i++)
		if (v->end[i] == id)
			return;
	if (id >= 0 && v->n_end < (int)LEN(v->end))
		v->end[v->n_end++] = id;
}

/* Fill v->mark[] with the control tokens before and after the model's reasoning. Return 1 if the vocabulary has the
 * control tokens of gpt-oss, which divide an answer into sections ("channels"). In this case, the token that ends a
 * channel does not end the answer. */
static int load_marks(struct vocab *v)
{
	static const char *const of_channels[] = { CHANNEL_TEXT, CHANNEL_NEXT, NULL };
	int channels = vocab_lookup(v, CHANNEL_MARK, sizeof CHANNEL_MARK - 1) >= 0 &&
	               vocab_lookup(v, CHANNEL_TEXT, sizeof CHANNEL_TEXT - 1) >= 0;
	const struct reasoning_mark *m;
	const char *text[24] = { 0 };
	size_t n = 0;

	for (size_t i = 0; (m = reasoning_mark_at(i)); i++)
		if (channels || !reasoning_has_channels(m)) {
			text[n++] = m->open;
			text[n++] = m->close;
		}
	for (size_t i = 0; channels && of_channels[i]; i++)
		text[n++] = of_channels[i];
	for (size_t i = 0; i < n; i++) {
		int32_t id = control_find(v, text[i]);

		if (id >= 0)
			v->mark[v->n_mark++] = id;
	}
	return channels;
}

/* WordPiece uses its token [CLS] as BOS, and [SEP] as EOS. Some GGUF files spell the key of [SEP] "seperator". */
static int wordpiece_ids(struct loader *l)
{
	struct vocab_info *in = &l->v->info;

	if (read_id(l, "tokenizer.ggml.cls_token_id", &in->bos, in->bos) ||
	    read_id(l, "tokenizer.ggml.separator_token_id", &in->eos, in->eos) ||
	    read_id(l, "tokenizer.ggml.seperator_token_id", &in->eos, in->eos))
		return -1;
	in->bos = in->bos < 0 ? vocab_lookup(l->v, "[CLS]", 5) : in->bos;
	in->eos = in->eos < 0 ? vocab_lookup(l->v, "[SEP]", 5) : in->eos;
	in->unk = in->unk < 0 ? vocab_lookup(l->v, "[UNK]", 5) : in->unk;
	in->pad = in->pad < 0 ? vocab_lookup(l->v, "[PAD]", 5) : in->pad;
	return 0;
}

/* Check that the ids under keys that are not used otherwise are in range. WordPiece also uses cls and separator (or
 * seperator). */
static int check_other_ids(struct loader *l)
{
	static const char *const others[] = {
		"separator", "seperator", "cls",     "mask",   "fim_pre", "fim_suf", "fim_mid",
		"fim_pad",   "fim_rep",   "fim_sep", "prefix", "suffix",  "middle",
	};
	int32_t ignored;
	char key[64];

	for (size_t i = 0; i < LEN(others); i++) {
		snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", others[i]);
		if (read_id(l, key, &ignored, -1))
			return -1;
	}
	return 0;
}

/* Read the ids of BOS, EOS, EOT, the unknown token and padding, and set *eom to that of EOM (end of message). Return 0,
 * or -1 with l->err set. */
static int read_ids(struct loader *l, int32_t *eom)
{
	struct vocab *v = l->v;
	struct vocab_info *in = &v->info;

	if (check_other_ids(l) || read_id(l, "tokenizer.ggml.bos_token_id", &in->bos, -1) ||
	    read_id(l, "tokenizer.ggml.eos_token_id", &in->eos, -1) ||
	    read_id(l, "tokenizer.ggml.eot_token_id", &in->eot, -1) ||
	    read_id(l, "tokenizer.ggml.eom_token_id", eom, -1) ||
	    read_id(l, "tokenizer.ggml.unknown_token_id", &in->unk, -1) ||
	    read_id(l, "tokenizer.ggml.padding_token_id", &in->pad, -1))
		return -1;
	if (v->kind == KIND_WORDPIECE && wordpiece_ids(l))
		return -1;
	if (v->kind == KIND_UNIGRAM || (v->kind == KIND_SPM && !v->merges)) {
		/* Early files do not have the ids of these tokens. All SentencePiece vocabularies use the same texts
		 * for them. */
		in->bos = in->bos < 0 ? vocab_lookup(v, "<s>", 3) : in->bos;
		in->eos = in->eos < 0 ? vocab_lookup(v, "</s>", 4) : in->eos;
		in->unk = in->unk < 0 ? vocab_lookup(v, "<unk>", 5) : in->unk;
	}
	if (!l->types) {
		/* The file has no token types, but it has the ids of a few special tokens. Make these control tokens,
		 * so that plain text cannot produce them. */
		int32_t named[] = { in->bos, in->eos, in->eot, *eom, in->unk, in->pad };
		for (size_t i = 0; i < LEN(named); i++)
			if (named[i] >= 0 && v->type[named[i]] == TOKEN_NORMAL)
				v->type[named[i]] = TOKEN_CONTROL;
	}
	return 0;
}

/* List the tokens that end an answer. */
static void find_ends(struct vocab *v, int32_t eom)
{
	/* Tokens that end a turn, of all model families. If the file does not give the EOT (end of turn), the EOT is
	 * the first token in this list that the vocabulary has. */
	static const char *const turn_end[] = {
		"<|eot_id|>",         "<|im_end|>",      "<|end|>", "<end_of_turn>",
		"<|endofturn|>",      "<|end_of_turn|>", "<turn|>", "<|END_OF_TURN_TOKEN|>",
		"<end_of_utterance>", "<EOT>",
	};
	/* clang-format off */
	/* Tokens of all model families after which a model stops, in addition to those in turn_end[]. */
	static const char *const text_end[] = {
		"<|eom_id|>", "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|return|>", "<|call|>",
		"<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
	};
	/* clang-format on */
	struct vocab_info *in = &v->info;
	int32_t ends_channel = load_marks(v) ? control_find(v, CHANNEL_END) : -1;

	if (in->eot == ends_channel)
		in->eot = -1;
	for (size_t i = 0; in->eot < 0 && i < LEN(turn_end); i++)
		if (control_find(v, turn_end[i]) != ends_channel)
			in->eot = control_find(v, turn_end[i]);
	add_end(v, in->eos);
	add_end(v, in->eot);
	add_end(v, eom);
	for (size_t i = 0; i < LEN(turn_end); i++)
		add_end(v, control_find(v, turn_end[i]));
	for (size_t i = 0; i < LEN(text_end); i++)
		add_end(v, control_find(v, text_end[i]));
	for (int i = 0; i < v->n_end; i++)
		if (v->end[i] == ends_channel)
			v->end[i--] = v->end[--v->n_end];
}

/* Read whether BOS, EOS and a blank are put around a text. */
static int load_flags(struct loader *l)
{
	struct vocab *v = l->v;
	struct vocab_info *in = &v->info;
	int flag;

	in->encoder = v->kind == KIND_UNIGRAM || v->kind == KIND_WORDPIECE;
	flag = v->kind == KIND_BPE ? v->pre->add_bos : v->kind != KIND_UNIGRAM;
	if (gguf_bool(l->g, "tokenizer.ggml.add_bos_token", &flag, l->err) < 0)
		return -1;
	in->add_bos = (flag || (v->kind == KIND_SPM && v->merges)) &&
	              in->bos >= 0; /* Gemma 4 always needs a BOS, even if the file says otherwise */
	flag = in->encoder;
	if (gguf_bool(l->g, "tokenizer.ggml.add_eos_token", &flag, l->err) < 0 ||
	    (v->kind == KIND_WORDPIECE && gguf_bool(l->g, "tokenizer.ggml.add_sep_token", &flag, l->err) < 0))
		return -1;
	in->add_eos = flag && in->eos >= 0;
	flag = v->marks && !v->merges;
	if (gguf_bool(l->g, "tokenizer.ggml.add_space_prefix", &flag, l->err) < 0)
		return -1;
	v->add_space = v->marks && flag;
	return 0;
}

static int load_ids(struct loader *l)
{
	int32_t eom;

	if (read_ids(l, &eom))
		return -1;
	find_ends(l->v, eom);
	return load_flags(l);
}

/* ---- the kind of tokenizer ---- */

static void list_names(char *out, size_t cap)
{
	size_t used = 0;
	for (const char *const *p = pretok_names(); *p && used < cap; p++)
		used += (size_t)snprintf(out + used, cap - used, "%s%s", used ? ", " : "", *p);
}

static int load_pre(struct loader *l, const char *pre)
{
	struct vocab *v = l->v;
	struct view name = { "default", 7 };
	char known[320];

	if (pre)
		name = (struct view){ pre, strlen(pre) };
	else if (gguf_string(l->g, "tokenizer.ggml.pre", &name, l->err) < 0)
		return -1;
	v->pre = pretok_find(name.p, name.n);
	if (v->pre) {
		snprintf(v->info.pre, sizeof v->info.pre, "%s", v->pre->name);
		return 0;
	}
	list_names(known, sizeof known);
	if (pre)
		return err_set(l->err, ERR_USAGE, "pre-tokenizer '%.40s' is not known (known: %s)", pre, known);
	return gguf_err(l->g, l->err,
	                "pre-tokenizer '%.*s' is not known (known: %s); pass --pre NAME if it works like one of "
	                "these",
	                SHOW(name.n, name.p), known);
}

static int load_model(struct loader *l)
{
	struct view name;
	int got = gguf_string(l->g, "tokenizer.ggml.model", &name, l->err);

	if (got < 0)
		return -1;
	if (!got)
		return gguf_err(l->g, l->err, "there is no 'tokenizer.ggml.model', so the file has no tokenizer");
	if (view_is(name, "llama"))
		l->v->kind = KIND_SPM;
	else if (view_is(name, "gemma4"))
		l->v->kind = KIND_SPM, l->v->merges = 1;
	else if (view_is(name, "gpt2"))
		l->v->merges = 1;
	else if (view_is(name, "t5"))
		l->v->kind = KIND_UNIGRAM;
	else if (view_is(name, "bert"))
		l->v->kind = KIND_WORDPIECE;
	else
		return gguf_err(l->g, l->err,
		                "tokenizer model '%.*s' is not supported (supported: llama, gpt2, gemma4, t5, bert)",
		                SHOW(name.n, name.p));
	l->v->marks = l->v->kind != KIND_BPE;
	snprintf(l->v->info.model, sizeof l->v->info.model, "%.*s", (int)name.n, name.p);
	return 0;
}

/* If the file has the key ARCH.vocab_size (ARCH is the name of the architecture), check that its value is the number of
 * tokens. */
static int check_size(struct loader *l)
{
	struct view arch = { "", 0 };
	int64_t size = l->v->info.n;
	char key[96];
	int got = gguf_string(l->g, "general.architecture", &arch, l->err);

	if (got < 0)
		return -1;
	if (!got || arch.n > 64)
		return 0;
	snprintf(key, sizeof key, "%.*s.vocab_size", (int)arch.n, arch.p);
	if (gguf_int(l->g, key, 1, VOCAB_MAX, &size, l->err) < 0)
		return -1;
	if (size != l->v->info.n)
		return gguf_err(l->g, l->err, "'%s' is %lld but there are %d tokens", key, (long long)size,
		                l->v->info.n);
	return 0;
}

int vocab_load(struct vocab **out, const struct gguf *g, const char *pre, struct err *err)
{
	struct loader l = { xcalloc(1, sizeof *l.v), g, err, NULL };

	draw_seed(l.v->seed);
	if (load_model(&l) || (!l.v->marks && load_pre(&l, pre)) || load_texts(&l) || check_size(&l) ||
	    load_types(&l) || load_scores(&l) || load_ids(&l) || (l.v->merges && load_merges(&l)) ||
	    find_specials(&l) || load_encoder(l.v, g, err)) {
		vocab_free(l.v);
		return -1;
	}
	find_bytes(l.v);
	*out = l.v;
	return 0;
}

void vocab_free(struct vocab *v)
{
	if (!v)
		return;
	free(v->text);
	free(v->off);
	free(v->type);
	free(v->by_text);
	free(v->rank);
	free(v->score);
	free(v->trie.kid);
	free(v->trie.id);
	free(v->trie.label);
	free(v->charsmap.unit);
	free(v->charsmap.text);
	free(v->pair);
	free(v->special);
	free(v->special_text);
	free(v);
}
