/* engine/token/token_private.h (private to engine/token/) - the loaded vocabulary, its tables, and the encoders. */
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
	SPECIAL_BYTES_MAX = 256, /* longer special tokens are ignored, to bound the work per byte of text */
	TEXT_BYTES_MAX = 1 << 29,
	NORMAL_BYTES_MAX = 1 << 30, /* longest text after normalising */
	PIECE_BYTES_MAX = 256,      /* longest token of Unigram or WordPiece, to bound the work per byte of text */
};

#define NO_RANK UINT32_MAX

/* Entry of the hash table text -> id, with open addressing. hash: the low 32 bits of hash_bytes(). id1: id + 1, or 0
 * for an empty entry. */
struct text_slot {
	uint32_t hash, id1;
};
/* Entry of the hash table (left id, right id) -> merge, with open addressing. Merges are done in the order of their
 * ranks, lowest first. to1: id of the merged token + 1, or 0 for an empty entry. */
struct pair_slot {
	int32_t left, right;
	uint32_t rank;
	int32_t to1;
};
/* A token recognised by its text. */
struct special {
	const char *p;
	uint32_t n;
	int32_t id;
	/* 1 = user-defined token, recognised everywhere; 0 = control or unknown token, recognised in trusted ranges
	 * only */
	int user;
};

/* Prefix tree of the texts of all normal tokens (token_trie.c). A node stands for the bytes on the way from the root,
 * node 0, to it. */
struct trie {
	uint32_t *kid;  /* [n + 1]: node i's children are nodes kid[i]..kid[i + 1] - 1, sorted by label */
	int32_t *id;    /* [n]: the first token whose text is the node's bytes; -1 = none */
	uint8_t *label; /* [n]: the last of the node's bytes */
};

/* SentencePiece's table of replacements (charsmap.c). */
struct charsmap {
	uint32_t *unit; /* [n_unit]: the trie of sources; n_unit = 0: no table */
	char *text;     /* [n_text]: the replacements, each with a zero byte after it */
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
	int marks; /* 1 = spaces are stored as space marks; 0 = byte-level BPE */
	int merges; /* 1 = the file lists the merges (pair[]); 0 = a merge ranks by the score of the token that it makes */
	char *text;                /* stored texts of all tokens, concatenated */
	uint32_t *off;             /* [n + 1]: token i is text[off[i]..off[i + 1]) */
	uint8_t *type;             /* [n]: enum token_type */
	uint32_t longest;          /* bytes of the longest normal token's stored text */
	uint64_t seed[2];          /* random, so that a hostile file cannot contain hash collisions */
	struct text_slot *by_text; /* hash table text -> id */
	uint32_t by_text_mask;     /* number of entries of by_text[] - 1 */
	int32_t byte_id[256];      /* id of the token for one byte; -1 = none */
	/* 1 = no user-defined token has a blank after another character; 0 for encoders (vocab_cuts()) */
	int cuts;

	/* SentencePiece only. */
	/* [n], only if merges = 0: rank of the merge that makes each token; the highest score has the lowest rank */
	uint32_t *rank;
	int add_space; /* 1 = add a space before the text */
	/* 1 = no token has a space mark (U+2581) after another character, so words are encoded one by one */
	int words_apart;

	/* Byte-level BPE only. */
	const struct pretok *pre;

	/* Unigram and WordPiece only. */
	struct trie trie;
	float *score;             /* Unigram: [n], finite */
	double unknown_score;     /* Unigram: score of a character without a token */
	struct charsmap charsmap; /* Unigram */
	int trim;                 /* Unigram: 1 = drop leading, trailing and repeated spaces */
	/* WordPiece: trie node of U+2581; the tokens below it begin a word. 0 = there are none */
	uint32_t word_node;
	int lowercase;     /* WordPiece: 1 = lower-case the text */
	int strip_accents; /* WordPiece: 1 = remove accents */

	/* Only if merges = 1. */
	struct pair_slot *pair; /* hash table (left id, right id) -> merge */
	uint32_t pair_mask;     /* number of entries of pair[] - 1 */

	struct special *special; /* sorted by text, without duplicates */
	int32_t n_special;       /* number of special tokens */
	/* the special tokens that begin with byte b: special[special_from[b]..special_from[b + 1]) */
	int32_t special_from[257];
	char *special_text; /* memory of the texts of special[] */
	int32_t end[32];    /* ids that end a turn */
	int n_end;          /* number of those ids */
	int32_t mark[24];   /* control tokens around the model's reasoning; their text is part of the answer */
	int n_mark;         /* number of those ids */
};

/* ---- token_hash.c ---- */

uint64_t hash_bytes(const uint64_t seed[2], const char *p, size_t n);
uint32_t pair_hash(const struct vocab *, int32_t left, int32_t right);
/* Return the id of the first token with this stored text, or -1. */
int32_t vocab_lookup(const struct vocab *, const char *p, size_t n);
/* Return the merge of two neighbouring ids, or NULL. */
const struct pair_slot *vocab_pair(const struct vocab *, int32_t left, int32_t right);

/* ---- encoding ---- */

/* A part of a word during merging. The symbols of a word are a doubly linked list. */
struct symbol {
	int32_t id;         /* its token; -1 = no token has this text */
	int32_t prev, next; /* indices of the neighbours; -1 = none */
	uint32_t off, len;  /* its bytes in the word */
	uint32_t rank;      /* rank of the merge with the next symbol; NO_RANK = no merge */
	int32_t to;         /* id of the token that the merge makes */
};

/* Cache entry for a word. Its offsets are in a run, which is the plain text between two special tokens. When the word
 * occurs again in the run, its ids are copied from the output. */
struct word_seen {
	uint32_t at, len; /* its bytes in the run */
	size_t out_at;    /* index of its first id in the output */
	uint32_t out_n;   /* number of its ids */
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
	struct word_seen *seen; /* hash table of the words of the run; NULL = not allocated */
	int use_seen;           /* 0 = the run is too short for that table */
	/* the run, normalised or with space marks (U+2581); byte-level BPE: one word of it, spelled as the vocabulary
	 * stores it */
	char *run;
	size_t cap_run;
	/* [cap_run] for each byte of run[]: the end in `text` of the character that the byte came from, as offset
	 * before normalising. Filled in for Unigram and WordPiece, if `ends` is not NULL. */
	uint32_t *run_end;
	struct cut *cut; /* Unigram: the best cuts of a word */
	size_t cap_cut;
	struct token_ends *ends; /* where the ends of tokens are appended; NULL = nowhere */
	const char *text;        /* the run */
	size_t at;               /* offset of the run in the whole text */
};

/* ---- token_piece.c ---- */

/* Return the byte of a text "<0xNN>", or -1. */
int token_byte(const char *p, size_t n);
/* Byte-level BPE stores each byte as a printable character. byte_char() returns the code point of byte b. char_byte()
 * returns the byte of a code point, or -1. */
int32_t byte_char(unsigned char b);
int char_byte(int32_t cp);

/* If e->ends is not NULL, append to it where in the text each token from index out_at of the output on ends. These
 * tokens encode bytes from .. to - 1 of the run. from = -1: the first token begins with a space that is not in the
 * text. */
void note_ends(struct encoder *, size_t out_at, ptrdiff_t from, size_t to);

/* If e->ends is not NULL, append the same offset to it for each token from index out_at of the output on. The offset is
 * the end, in the original text, of the character from which byte run_at - 1 of e->run came. */
void run_note_ends(struct encoder *, size_t out_at, size_t run_at);

/* ---- one function for each kind of tokenizer: token_spm.c, token_bpe.c, token_unigram.c, token_wordpiece.c ---- */

/* Append the ids of s[0..n), a run of plain text. space: 1 = put a space mark (U+2581) before it. begins: 0 = the run
 * follows other plain text or a user-defined token. */
int spm_encode(struct encoder *, const char *s, size_t n, int space);
int bpe_encode(struct encoder *, const char *s, size_t n);
int unigram_encode(struct encoder *, const char *s, size_t n, int begins);
int wordpiece_encode(struct encoder *, const char *s, size_t n);
/* Return the end of the word that begins at byte i. A word is space marks (U+2581), if any, and the text up to the
 * next space mark. */
size_t spm_next_word(const char *s, size_t n, size_t i);

/* ---- token_trie.c ---- */

int trie_build(struct vocab *, struct err *);
/* Return the child that a byte leads to, or 0. */
uint32_t trie_step(const struct trie *, uint32_t node, char byte);

/* ---- charsmap.c ---- */

/* Load a charsmap from its n bytes in the file. On error return -1: *wrong says what is wrong with unit *at of the
 * trie, or is NULL if memory is exhausted. */
int charsmap_load(struct charsmap *, const uint8_t *p, uint64_t n, const char **wrong, uint32_t *at, struct err *);
/* Find the longest source (text to be replaced) at the start of s[0..n). Set *to to its replacement and return the
 * length of the source. Return 0 if there is none. */
size_t charsmap_match(const struct charsmap *, const char *s, size_t n, const char **to);

/* ---- token_load_encoder.c ---- */

/* Load what only Unigram and WordPiece have: prefix tree, charsmap, flags. The types of the tokens must be loaded
 * already. */
int load_encoder(struct vocab *, const struct gguf *, struct err *);

/* ---- token_merge.c ---- */

/* Reserve n symbols and set n_sym to 0. */
int merge_reserve(struct encoder *, size_t n);
/* Merge neighbouring symbols until no pair has a merge: lowest rank first, and leftmost first among equal ranks.
 * pair() looks up the merge of two neighbours and sets the fields `rank` and `to` of the left one. If there is no
 * merge, it changes nothing. */
typedef void pair_fn(const struct vocab *, const char *word, struct symbol *, const struct symbol *);
int merge_symbols(struct encoder *, const char *word, pair_fn *pair);
/* Reserve n bytes in e->run; the old content is lost. */
int run_reserve(struct encoder *, size_t n);
/* Make room for n bytes in e->run and, if e->ends is not NULL, in e->run_end; the old content is kept. */
int run_grow(struct encoder *, size_t n);
/* 1 if the vocabulary has an unknown token. For byte-level BPE it must be of type TOKEN_UNKNOWN: plain text must not
 * produce a control token. */
int has_unknown(const struct vocab *);
/* Append the unknown token, for a byte without a token. If has_unknown() is 0, return -1 with an error, or drop the
 * byte and return 0.
 *
 * The byte is dropped only for byte-level BPE, and only if it is not printable ASCII. Some of these vocabularies lack
 * rare bytes (SmolLM2's lacks 21 control codes and rare UTF-8 bytes) and name a control token as the unknown one. The
 * model's own software drops such bytes, too. */
int encode_unknown(struct encoder *, unsigned char byte);

/* A cache of encoded words, because words repeat. seen_start() empties it for a run of n bytes. seen_again() looks up
 * the word base[at..at + len). If the word is cached, seen_again() appends its ids and returns 1. Otherwise it returns
 * 0 and sets *slot to the cache entry for the word (NULL: do not cache it); the caller encodes the word, and
 * seen_keep() fills the entry. */
void seen_start(struct encoder *, size_t n);
int seen_again(struct encoder *, const char *base, size_t at, size_t len, struct word_seen **slot);
void seen_keep(struct encoder *, struct word_seen *slot, size_t at, size_t len, size_t out_at);

#endif
