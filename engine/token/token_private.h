/* engine/token/token_private.h (private to engine/token/token*.c) - the loaded vocabulary, its lookup tables, and the
 * two encoders. */
#ifndef WEIR_TOKEN_PRIVATE_H
#define WEIR_TOKEN_PRIVATE_H

#include <stddef.h>

#include "engine/gguf/gguf.h"
#include "engine/token/pretok.h"
#include "engine/token/token.h"

#define SPACE_MARK "\xe2\x96\x81" /* U+2581, which SentencePiece stores for a space */

/* Values of tokenizer.ggml.token_type. */
enum token_type {
	TOKEN_NORMAL = 1,
	TOKEN_UNKNOWN,
	TOKEN_CONTROL,
	TOKEN_USER,
	TOKEN_UNUSED,
	TOKEN_BYTE,
};

enum {
	VOCAB_MAX = 1 << 24,
	TOKEN_BYTES_MAX = 65536,
	MERGES_MAX = 10000000,
	SPECIAL_BYTES_MAX = 256, /* longer special tokens are not searched for: bounds the work per byte of text */
	TEXT_BYTES_MAX = 1 << 29,
};

#define NO_RANK UINT32_MAX

/* Entry of the table text -> id (open addressing).  id1 = id + 1; 0 = empty. */
struct text_slot {
	uint32_t hash, id1;
};
/* Entry of the table (left id, right id) -> merge: its rank (the lowest merges first) and result; to1 = id + 1, 0 =
 * empty. */
struct pair_slot {
	int32_t left, right;
	uint32_t rank;
	int32_t to1;
};
/* A token recognised by its text: user-defined ones everywhere, control and unknown tokens in trusted ranges. */
struct special {
	const char *p;
	uint32_t n;
	int32_t id;
	int user;
};

struct vocab {
	struct vocab_info info;
	int spm; /* 1: SentencePiece, 0: byte-level BPE */
	/* pairs merge by a list (pair[]), otherwise by the score of the result (rank[]) */
	int merges;
	char *text;       /* stored texts of all tokens, concatenated */
	uint32_t *off;    /* [n + 1]: token i is text[off[i]..off[i + 1]) */
	uint8_t *type;    /* [n]: enum token_type */
	uint32_t longest; /* bytes of the longest normal token's stored text */
	uint64_t seed[2]; /* of the hash, random: no file can be built whose texts collide */
	struct text_slot *by_text;
	uint32_t by_text_mask;
	int32_t byte_id[256]; /* id of the token for one byte, or -1 */

	/* SentencePiece. */
	/* [n] without `merges`: a merge into token i has this rank: the lowest (highest score) merges first */
	uint32_t *rank;
	int add_space; /* put a space before the text */
	int cuts;      /* no user-defined token contains a letter and a blank behind it */
	/* no token has a space mark after another character: words can be encoded apart */
	int words_apart;

	/* Byte-level BPE. */
	const struct pretok *pre;
	/* With `merges`. */
	struct pair_slot *pair;
	uint32_t pair_mask;

	struct special *special;
	int32_t n_special;         /* sorted by text, without duplicates */
	int32_t special_from[257]; /* special[special_from[b] .. special_from[b + 1]) begin with byte b */
	char *special_text;
	int32_t end[32];
	int n_end; /* ids that end a turn */
	/* ids of control tokens whose text is part of an answer: of its reasoning */
	int32_t mark[24];
	int n_mark;
};

/* ---- token_hash.c ---- */

uint64_t hash_bytes(const uint64_t seed[2], const char *p, size_t n);
uint32_t pair_hash(const struct vocab *, int32_t left, int32_t right);
/* Id of the first token with this stored text, or -1. */
int32_t vocab_lookup(const struct vocab *, const char *p, size_t n);
/* The merge of two neighbouring ids, or NULL. */
const struct pair_slot *vocab_pair(const struct vocab *, int32_t left, int32_t right);

/* ---- encoding ---- */

/* A part of the word, in a doubly linked list: prev and next are indices of its neighbours, -1 at the ends. */
struct symbol {
	int32_t id; /* -1 = no token has this text */
	int32_t prev, next;
	uint32_t off, len; /* its bytes in the word */
	uint32_t rank;     /* of the merge with the next symbol; NO_RANK = none */
	int32_t to;        /* id of that merge's result */
};

/* A word of the run, its bytes and its ids in the output: a later occurrence copies these ids. */
struct word_seen {
	uint32_t at, len;
	size_t out_at;
	uint32_t out_n;
};

/* Working memory of one vocab_encode call. */
struct encoder {
	const struct vocab *v;
	struct tokens *out;
	struct err *err;
	struct symbol *sym;
	size_t n_sym, cap_sym;
	uint64_t *heap;
	size_t cap_heap;
	struct word_seen *seen;
	int use_seen; /* hash table of this run's words; unused for short runs */
	/* SentencePiece: the run with space marks; byte-level: one word in stored form */
	char *run;
	size_t cap_run;
	struct token_ends *ends; /* NULL: not wanted */
	const char *text;        /* the run */
	size_t at;               /* the byte of the whole text where it begins */
};

/* ---- token_piece.c ---- */

/* "<0xNN>" -> the byte, or -1. */
int token_byte(const char *p, size_t n);
/* Byte-level BPE stores each byte as a printable character. byte_char(): the code point for byte b; char_byte(): the
 * byte of a code point, or -1. */
int32_t byte_char(unsigned char b);
int char_byte(int32_t cp);

/* The tokens from out_at on are the word that is bytes from .. to of the run (from may be -1: a space was put before
 * it): note where each ends. */
void note_ends(struct encoder *, size_t out_at, ptrdiff_t from, size_t to);

/* ---- token_spm.c, token_bpe.c ---- */

/* Append the ids of one run of plain text.  space: SentencePiece puts a space mark before it. */
int spm_encode(struct encoder *, const char *s, size_t n, int space);
int bpe_encode(struct encoder *, const char *s, size_t n);

/* ---- token_merge.c ---- */

/* Reserve n symbols and set n_sym to 0. */
int merge_reserve(struct encoder *, size_t n);
/* Merge neighbouring symbols in order of rank, the leftmost first among equals, until no pair merges. pair() looks up
 * the merge of a symbol and the next one and sets the first one's rank and to; it leaves them when there is none. */
typedef void pair_fn(const struct vocab *, const char *word, struct symbol *, const struct symbol *);
int merge_symbols(struct encoder *, const char *word, pair_fn *pair);
/* Reserve n bytes in e->run; its content is lost. */
int run_reserve(struct encoder *, size_t n);
/* Append the id for a byte without a token: the unknown token, or -1 with an error when the vocabulary has none.
 *
 * Exception: a byte-level vocabulary may lack rare bytes (SmolLM2: 21 control codes and rare UTF-8 bytes) and name a
 * control token as its unknown token. A user's text must not produce a control token, and the model's own software
 * drops such bytes: so does encode_unknown(). A missing printable ASCII byte is an error even then: the vocabulary is
 * unusable.
 *
 * has_unknown(): 1 when the vocabulary has an unknown token that is not a control token. */
int has_unknown(const struct vocab *);
int encode_unknown(struct encoder *, unsigned char byte);

/* Cache of a run's words, since words repeat. seen_start(): empty it for a run of n bytes. seen_again(): when the word
 * base[at..at + len) occurred before, append its ids and return 1; else 0, and *slot is where seen_keep() stores the
 * word after its ids were appended from out_at on (NULL: not stored). */
void seen_start(struct encoder *, size_t n);
int seen_again(struct encoder *, const char *base, size_t at, size_t len, struct word_seen **slot);
void seen_keep(struct encoder *, struct word_seen *slot, size_t at, size_t len, size_t out_at);

#endif
