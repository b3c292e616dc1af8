/* engine/token/token_private.h (private to engine/token/) - the loaded vocabulary, its tables, and the encoders. */
#ifndef WEIR_TOKEN_PRIVATE_H
#define WEIR_TOKEN_PRIVATE_H

#include <stddef.h>

#include "engine/gguf/gguf.h"
#include "engine/token/pretok.h"
#include "engine/token/token.h"

#define SPACE_MARK "\xe2\x96\x81" /* U+2581, the character that SentencePiece stores in place of a space */

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
	/* longer special tokens are ignored, because the work per byte of text must be bounded */
	SPECIAL_BYTES_MAX = 256,
	TEXT_BYTES_MAX = 1 << 29,
	NORMAL_BYTES_MAX = 1 << 30, /* maximum length of a text in bytes after it is normalised */
	/* maximum length in bytes of a token of Unigram or WordPiece; it limits the work per byte of text */
	PIECE_BYTES_MAX = 256,
};

#define NO_RANK UINT32_MAX

/* Entry of the hash table from texts to ids, which uses open addressing. `hash` is the low 32 bits of hash_bytes(). id1
 * is the token's id + 1, or 0 for an empty entry. */
struct text_slot {
	uint32_t hash, id1;
};
/* Entry of the hash table from pairs (left id, right id) to merges, which uses open addressing. The merge with the
 * lowest `rank` is done first. to1 is the id of the merged token + 1, or 0 for an empty entry. */
struct pair_slot {
	int32_t left, right;
	uint32_t rank;
	int32_t to1;
};
/* A token that is recognised by its text. */
struct special {
	const char *p;
	uint32_t n;
	int32_t id;
	/* 1: user-defined token, recognised everywhere; 0: control or unknown token, recognised only in trusted
	 * ranges */
	int user;
};

/* Prefix tree of the texts of all normal tokens (token_trie.c). A node stands for the bytes on the path from the root
 * (node 0) to the node. */
struct trie {
	/* [n + 1] the children of node i are the nodes from kid[i] to kid[i + 1] - 1, sorted by label */
	uint32_t *kid;
	int32_t *id;    /* [n] for each node, the first token whose text is the node's bytes; -1: there is none */
	uint8_t *label; /* [n] for each node, the last of its bytes */
};

/* SentencePiece's table of texts to replace (sources) and their replacements (charsmap.c). */
struct charsmap {
	uint32_t *unit; /* [n_unit] the trie of all texts to replace; if n_unit is 0, there is no table */
	char *text;     /* [n_text] the replacements of all texts, each followed by a zero byte */
	uint32_t n_unit, n_text;
};

enum vocab_kind {
	KIND_BPE,       /* byte-level BPE */
	KIND_SPM,       /* SentencePiece BPE */
	KIND_UNIGRAM,   /* SentencePiece Unigram */
	KIND_WORDPIECE, /* WordPiece (BERT) */
};

struct vocab {
	struct vocab_info info;
	enum vocab_kind kind;
	int marks; /* 1: spaces are stored as space marks; 0: byte-level BPE */
	/* 1: the file lists the merges (pair[]); 0: the rank of a merge comes from the score of the token that it
	 * makes */
	int merges;
	char *text; /* stored texts of all tokens, concatenated */
	/* [n + 1] the text of token i begins at text[off[i]] and ends before text[off[i + 1]] */
	uint32_t *off;
	uint8_t *type;             /* [n] the type of each token, an enum token_type */
	uint32_t longest;          /* length in bytes of the stored text of the longest normal token */
	uint64_t seed[2];          /* seed of hash_bytes(), random so that a hostile file cannot contain collisions */
	struct text_slot *by_text; /* hash table from texts to ids */
	uint32_t by_text_mask;     /* the number of entries of by_text[], minus 1 */
	/* for each byte, the id of the token that stands for this byte alone; -1: there is none */
	int32_t byte_id[256];
	/* 1: vocab_cuts() may return 1. This requires that no user-defined token has a blank after another character.
	 * For encoders the value is always 0. */
	int cuts;

	/* SentencePiece only. */
	/* [n] for each token, the rank of the merge that makes it. The highest score gives the lowest rank. Used only
	 * if the member `merges` is 0. */
	uint32_t *rank;
	int add_space; /* 1: add a space before the text */
	/* 1: words can be encoded one by one, because no token has a space mark (U+2581) after another character */
	int words_apart;

	/* Byte-level BPE only. */
	const struct pretok *pre;

	/* Unigram and WordPiece only. */
	struct trie trie;
	float *score;             /* Unigram: [n] score of each token, finite */
	double unknown_score;     /* Unigram: score of a character that has no token */
	struct charsmap charsmap; /* Unigram: the texts that normalising replaces */
	int trim;                 /* for Unigram, 1: drop leading, trailing and repeated spaces */
	/* for WordPiece, the trie node of U+2581, below which are the tokens that begin a word; 0: there are none */
	uint32_t word_node;
	int lowercase;     /* for WordPiece, 1: convert the text to lower case */
	int strip_accents; /* for WordPiece, 1: remove accents */

	/* pair[] and pair_mask are used only if the member `merges` is 1. */
	struct pair_slot *pair; /* hash table from pairs (left id, right id) to merges */
	uint32_t pair_mask;     /* the number of entries of pair[], minus 1 */

	struct special *special; /* special tokens, sorted by text, without duplicates */
	int32_t n_special;       /* number of special tokens */
	/* The special tokens that begin with byte b have the indices special_from[b] to special_from[b + 1] - 1 in
	 * special[]. */
	int32_t special_from[257];
	char *special_text; /* memory of the texts of special[] */
	int32_t end[32];    /* ids of the tokens that end a turn */
	int n_end;          /* number of ids in end[] */
	int32_t mark[24];   /* control tokens around the model's reasoning; their texts are part of the answer */
	int n_mark;         /* number of ids in mark[] */
};

/* ---- token_hash.c ---- */

uint64_t hash_bytes(const uint64_t seed[2], const char *p, size_t n);
uint32_t pair_hash(const struct vocab *, int32_t left, int32_t right);
/* Return the id of the first token with this stored text, or -1. */
int32_t vocab_lookup(const struct vocab *, const char *p, size_t n);
/* Return the merge of two neighbouring ids, or NULL. */
const struct pair_slot *vocab_pair(const struct vocab *, int32_t left, int32_t right);

/* ---- encoding ---- */

/* A part of a word during merging. The symbols of a word form a doubly linked list. */
struct symbol {
	int32_t id;         /* the token with the symbol's text; -1: there is none */
	int32_t prev, next; /* indices of the neighbouring symbols; -1: there is none */
	uint32_t off, len;  /* offset of the symbol in the word, and its length in bytes */
	uint32_t rank;      /* rank of the merge with the next symbol; NO_RANK: the two symbols cannot be merged */
	int32_t to;         /* id of the token that this merge makes */
};

/* Cache entry for a word of a run (the plain text between two special tokens). If the word occurs again in the run, its
 * ids are copied from the output. */
struct word_seen {
	uint32_t at, len; /* offset of the word in the run, and its length in bytes */
	size_t out_at;    /* index of the word's first id in the output */
	uint32_t out_n;   /* number of ids of the word */
};

/* Working memory of one vocab_encode() call. A run is the plain text between two special tokens. */
struct encoder {
	const struct vocab *v;
	struct tokens *out;
	struct err *err;
	struct symbol *sym;
	size_t n_sym, cap_sym;
	uint64_t *heap;
	size_t cap_heap;
	struct word_seen *seen; /* hash table: the cache of encoded words, or NULL if it is not allocated */
	/* 1: the run (the plain text between two special tokens) is long enough for the cache of encoded words */
	int use_seen;
	/* The run (the plain text between two special tokens) in the form that is encoded. For SPM, it has a space mark
	 * (U+2581) for each space. For Unigram and WordPiece, it is normalised. For byte-level BPE, it is one word of
	 * the run, spelled as the vocabulary stores it. */
	char *run;
	size_t cap_run;
	/* [cap_run] For each byte of run[], the end of the character of `text` from which the byte was made, as an
	 * offset in `text`. Filled in only for Unigram and WordPiece, and only if `ends` is not NULL. */
	uint32_t *run_end;
	struct cut *cut; /* for Unigram, the best way to split each prefix of a word into tokens (token_unigram.c) */
	size_t cap_cut;
	struct token_ends *ends; /* list to which the ends of tokens are appended; NULL: do not record the ends */
	/* the original text of the run (plain text between two special tokens), not yet normalised; points into the
	 * whole text */
	const char *text;
	size_t at; /* offset in the whole text of the run (plain text between two special tokens) */
};

/* ---- token_piece.c ---- */

/* Return the byte that a text of the form "<0xNN>" stands for, or -1 if the text has another form. */
int token_byte(const char *p, size_t n);
/* Byte-level BPE stores each byte as a printable character. Return the code point for byte b. */
int32_t byte_char(unsigned char b);

/* For each token of the output from index out_at on, append its end (an offset in the text) to e->ends. The tokens
 * encode the bytes from `from` to `to` - 1 of the run (plain text between two special tokens). `from` is -1 if the
 * first token begins with a space that is not in the text. If e->ends is NULL, do nothing. */
void note_ends(struct encoder *, size_t out_at, ptrdiff_t from, size_t to);

/* For each token of the output from index out_at on, append its end (an offset in the text) to e->ends. The tokens were
 * made from the bytes of e->run before byte run_at. All of them get the same end: the end of the original character
 * from which byte run_at - 1 was made. If e->ends is NULL, do nothing. */
void run_note_ends(struct encoder *, size_t out_at, size_t run_at);

/* ---- one function for each kind of tokenizer: token_spm.c, token_bpe.c, token_unigram.c, token_wordpiece.c ---- */

/* Append the ids of the n bytes of plain text at s. If `space` is 1, put a space mark (U+2581) before the text. If
 * `begins` is 1, the plain text is at the beginning of the whole text, or directly after a control token or an unknown
 * token. */
int spm_encode(struct encoder *, const char *s, size_t n, int space);
int bpe_encode(struct encoder *, const char *s, size_t n);
int unigram_encode(struct encoder *, const char *s, size_t n, int begins);
int wordpiece_encode(struct encoder *, const char *s, size_t n);
/* Return the end of the word that begins at byte i. A word is any number of space marks (U+2581), and the text after
 * them up to the next space mark. */
size_t spm_next_word(const char *s, size_t n, size_t i);

/* ---- token_trie.c ---- */

int trie_build(struct vocab *, struct err *);
/* Return the child of `node` for a byte, or 0 if there is none. */
uint32_t trie_step(const struct trie *, uint32_t node, char byte);

/* ---- charsmap.c ---- */

/* Load a charsmap from its n bytes in the file. On error return -1, and set *wrong to a description of the error in
 * unit *at of the trie. If memory is exhausted, set *wrong to NULL. */
int charsmap_load(struct charsmap *, const uint8_t *p, uint64_t n, const char **wrong, uint32_t *at, struct err *);
/* Find the longest source (a text to replace) at the start of the n bytes s[]. Set *to to its replacement and return
 * the length of the source. Return 0 if s[] does not begin with a source. */
size_t charsmap_match(const struct charsmap *, const char *s, size_t n, const char **to);

/* ---- token_load_encoder.c ---- */

/* Load the parts that only Unigram and WordPiece have: prefix tree, charsmap, flags. Call this function after the types
 * of the tokens are loaded. */
int load_encoder(struct vocab *, const struct gguf *, struct err *);

/* ---- token_merge.c ---- */

/* Reserve n symbols and set n_sym to 0. */
int merge_reserve(struct encoder *, size_t n);
/* Merge neighbouring symbols until no two of them can be merged. The merge with the lowest rank is done first; if ranks
 * are equal, the leftmost merge is done first. pair() looks up the merge of two neighbouring symbols, and sets the
 * members `rank` and `to` of the left symbol. If the two symbols cannot be merged, pair() changes nothing. */
typedef void pair_fn(const struct vocab *, const char *word, struct symbol *, const struct symbol *);
int merge_symbols(struct encoder *, const char *word, pair_fn *pair);
/* Make room for n bytes in e->run. The old content is lost. */
int run_reserve(struct encoder *, size_t n);
/* Make room for n bytes in e->run and, if e->ends is not NULL, in e->run_end. The old content is kept. */
int run_grow(struct encoder *, size_t n);
/* 1 if the vocabulary has a usable unknown token. For byte-level BPE this token must have the type TOKEN_UNKNOWN,
 * because plain text must not produce a control token. */
int has_unknown(const struct vocab *);
/* Append the unknown token, in place of a byte that has no token. If has_unknown() is 0, drop the byte and return 0, or
 * return -1 with an error.
 *
 * The byte is dropped only for byte-level BPE, and only if it is not printable ASCII. Some of these vocabularies have
 * no tokens for rare bytes (in SmolLM2's, for 21 control codes and rare UTF-8 bytes), and their unknown token is a
 * control token. The model's own software drops such bytes, too. */
int encode_unknown(struct encoder *, unsigned char byte);

/* A cache of encoded words, because words repeat. seen_start() empties the cache for a run of n bytes (plain text
 * between two special tokens). seen_again() looks up the word of `len` bytes at base[at]. If the word is cached,
 * seen_again() appends its ids and returns 1. Otherwise it returns 0 and sets *slot to the cache entry for the word, or
 * to NULL if the word shall not be cached. Then the caller encodes the word, and calls seen_keep() to fill the
 * entry. */
void seen_start(struct encoder *, size_t n);
int seen_again(struct encoder *, const char *base, size_t at, size_t len, struct word_seen **slot);
void seen_keep(struct encoder *, struct word_seen *slot, size_t at, size_t len, size_t out_at);

#endif
