/* engine/token_private.h (private to engine/token*.c) - the loaded vocabulary and the two encoders. */
#ifndef WEIR_TOKEN_PRIVATE_H
#define WEIR_TOKEN_PRIVATE_H

#include "engine/gguf.h"
#include "engine/pretok.h"
#include "engine/token.h"

#define SPACE_MARK "\xe2\x96\x81"   /* U+2581, the visible space of SentencePiece */

/* Values of tokenizer.ggml.token_type. */
enum token_type {
	TOKEN_NORMAL = 1, TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_USER, TOKEN_UNUSED, TOKEN_BYTE,
};

enum {
	VOCAB_MAX = 1 << 24,
	TOKEN_BYTES_MAX = 65536,
	MERGES_MAX = 10000000,
	SPECIAL_BYTES_MAX = 256,   /* longer markers are not looked for: bounds the work per position */
	TEXT_BYTES_MAX = 1 << 29,
};

#define NO_RANK UINT32_MAX

/* Text -> id, open addressing.  id1 = id + 1; 0 = empty. */
struct text_slot { uint32_t hash, id1; };
/* A pair of ids that merges -> rank (smaller first) and what it becomes; to1 = id + 1, 0 = empty. */
struct pair_slot { int32_t left, right; uint32_t rank; int32_t to1; };
/* A token recognised as written: user-defined ones everywhere, others in vouched-for ranges. */
struct special { const char *p; uint32_t n; int32_t id; int user; };

struct vocab {
	struct vocab_info info;
	int spm;                       /* SentencePiece, else byte-level BPE */
	char *text;                    /* all stored texts, one after the other */
	uint32_t *off;                 /* [n + 1]: token i is text[off[i]..off[i + 1]) */
	uint8_t *type;                 /* [n]: enum token_type */
	uint32_t longest;              /* of a normal token, in stored bytes */
	uint64_t seed[2];              /* of the hashes: a file cannot be made to collide */
	struct text_slot *by_text;     uint32_t by_text_mask;
	int32_t byte_id[256];          /* token of one byte, or -1 */

	uint32_t *rank;                /* SentencePiece [n]: order of the scores, smaller first */
	int add_space, words_apart;    /* no token reaches across a space mark that begins a word */

	const struct pretok *pre;      /* BPE */
	struct pair_slot *pair;        uint32_t pair_mask;

	struct special *special;       int32_t n_special;      /* sorted by bytes */
	int32_t special_from[257];     /* those that begin with byte b: special_from[b]..[b + 1] */
	char *special_text;
	int32_t end[32];               int n_end;
};

/* ---- token_hash.c ---- */

uint64_t hash_bytes(const uint64_t seed[2], const char *p, size_t n);
uint32_t pair_hash(const struct vocab *, int32_t left, int32_t right);
/* Id of the first token with this stored text, or -1. */
int32_t vocab_lookup(const struct vocab *, const char *p, size_t n);
/* The merge of two ids, or NULL. */
const struct pair_slot *vocab_pair(const struct vocab *, int32_t left, int32_t right);

/* ---- token_load.c ---- */

/* "<0xNN>" -> the byte, or -1. */
int token_byte(const char *p, size_t n);

/* ---- token_merge.c: one word at a time ---- */

/* A piece of the word; prev and next are indices, -1 at the ends. */
struct symbol {
	int32_t id;              /* -1 = no token is spelled so */
	int32_t prev, next;
	uint32_t off, len;       /* bytes of the word */
	uint32_t rank;           /* of the merge with the next symbol; NO_RANK = none */
	int32_t to;              /* and what it becomes */
};

struct word_seen { uint32_t at, len; size_t out_at; uint32_t out_n; };

/* Working memory of one vocab_encode call. */
struct encoder {
	const struct vocab *v;
	struct tokens *out;
	struct err *err;
	struct symbol *sym;    size_t n_sym, cap_sym;
	uint64_t *heap;        size_t cap_heap;
	struct word_seen *seen; int use_seen;   /* words met before in this run; not for short runs */
	char *run;             size_t cap_run;   /* the run with its spaces marked; byte-level: one word */
};

/* Encode one run of plain text.  space: SentencePiece puts its space before it. */
int spm_encode(struct encoder *, const char *s, size_t n, int space);
int bpe_encode(struct encoder *, const char *s, size_t n);

/* Byte-level BPE stores a byte as a printable character: the code point of byte b, and the byte of a code
 * point or -1. */
int32_t byte_char(unsigned char b);
int char_byte(int32_t cp);

/* Room for n symbols; sets n_sym to 0. */
int merge_room(struct encoder *, size_t n);
/* Merge the symbols in order of rank, leftmost first among equals, until no pair merges.  pair looks up
 * symbols i and its next and fills sym[i].rank and to. */
typedef void pair_fn(const struct vocab *, const char *word, struct symbol *, const struct symbol *);
int merge_symbols(struct encoder *, const char *word, pair_fn *pair);
/* Room for n bytes in e->run; what was there is lost. */
int encode_room(struct encoder *, size_t n);
/* What stands for a byte without a token: the unknown token where there is a true one, else an error.
 * But byte-level vocabularies lack odd bytes (SmolLM2: 21 control codes and rare UTF-8 bytes) and then
 * name a control token as unknown; that one must not come out of a user's text, and the models' own
 * software drops such a byte.  So does this, except for printable ASCII, without which nothing works. */
int has_unknown(const struct vocab *);
int encode_unknown(struct encoder *, unsigned char byte);

/* Words repeat: what base[at..at + len) became the last time.  1 = its ids were appended. */
void seen_start(struct encoder *, size_t n);
int  seen_again(struct encoder *, const char *base, size_t at, size_t len, struct word_seen **slot);
void seen_keep(struct encoder *, struct word_seen *slot, size_t at, size_t len, size_t out_at);

#endif
