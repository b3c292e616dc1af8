/* engine/encoder/encoder.h (private to engine/) - a loaded encoder. */
#ifndef WEIR_ENCODER_H
#define WEIR_ENCODER_H

#include "engine/encoder.h"
#include "engine/gguf/gguf.h"
#include "engine/token/token.h"
#include "kernels/backend.h"

enum { ENCODER_BATCH = 1024 }; /* maximum number of tokens in a batch, and in a text */

enum pooling { POOL_NONE, POOL_MEAN, POOL_FIRST, POOL_LAST, POOL_RANK }; /* values of the file's key pooling_type */

/* A family of encoders: the properties in which families differ. */
struct encoder_family {
	const char *name; /* value of general.architecture, and prefix of the file's other keys */
	/* how the position of a token is encoded */
	enum { POSITION_LEARNED, POSITION_ROPE, POSITION_ALIBI, POSITION_RELATIVE } position;
	/* 1: the feed-forward is down(act(gate) * up), and its matrices gate and up have no biases; 0: it is
	 * down(gelu(up)) */
	int gated;
	enum activation act; /* activation of the gate */
	int biases;          /* 1: q, k, v, out and down have biases */
	int gelu_head;       /* 1: the head of a reranker has the activation gelu; 0: tanh */
};

/* Weights and biases of a layer norm, f32 [1][n_embd] each. */
struct encoder_norm {
	struct tensor w, b;
};
/* A reader (encoder_reader.c) brings up to two LoRA adapters for the encoder. ADAPT_QUERY is for the vectors of
 * questions, ADAPT_READ for reading a passage together with a question. ADAPT_NONE: run the encoder without an
 * adapter. */
enum encoder_adapter { ADAPT_QUERY, ADAPT_READ, ADAPTERS, ADAPT_NONE = ADAPTERS };
/* A matrix w [rows][cols] and its bias b, f32 [1][rows]; b.data = NULL: no bias. Each LoRA adapter has high
 * [rows][rank] and low [rank][cols], and adds their product to w. low.rows = 0: the adapter does not change w. */
struct encoder_linear {
	struct tensor w, b;
	struct {
		struct tensor low, high;
	} adapter[ADAPTERS];
};
struct encoder_layer {
	struct encoder_linear q, k, v, out; /* [n_embd][n_embd] */
	struct encoder_norm attn_norm, ffn_norm;
	struct encoder_linear up, down; /* [n_ff][n_embd], [n_embd][n_ff] */
	struct tensor gate;             /* [n_ff][n_embd], if the family has gates */
	/* f32 [relative positions][n_embd], if the family has relative positions: their keys and queries, which are
	 * products of the relative position's embedding with k and q */
	struct tensor relative_k, relative_q;
};

/* The head of a reranker, in host memory. A text's score is out . act(dense x + dense_bias) + out_bias, where x is the
 * hidden state of its first token. */
struct encoder_ranker {
	float *dense, *dense_bias, *out, *out_bias; /* [n_embd][n_embd], [n_embd], [n_embd], [1] */
	/* [2][n_embd], or NULL if the file has none: row 0 times a token's hidden state is the logit that the answer
	 * begins at this token, row 1 times it the logit that the answer ends there */
	float *places;
};

/* A loaded reader (encoder_reader.c), without its adapters, which are in struct encoder_linear. */
struct encoder_reader {
	/* Rerankers that read pairs (question and passage) in place of this encoder, or NULL: ranker[READER_ENGLISH]
	 * for English questions, ranker[READER_ANY] for others. With a ranker[READER_ANY], all other members of this
	 * struct are empty. */
	struct encoder *ranker[READERS];
	struct gguf *gguf; /* the reader's adapter file; NULL: none is loaded */
	/* f32 [batch][largest rank of an adapter]: buffer for inputs multiplied by the adapter matrix `low` */
	struct tensor rank;
	/* [3][n_embd] weights, each row to be multiplied with a hidden state. Row 0 gives the log odds that the passage
	 * answers the question. Rows 1 and 2 give the logits that a token is the first, or the last, of the answer */
	float *head;
	float bias; /* added to the log odds */
};

struct encoder {
	struct gguf *gguf;
	struct backend *be;
	struct vocab *vocab; /* tokenizer; NULL = the file has none */
	struct view name;    /* value of general.name, in the file's memory */
	uint64_t hash;       /* hash of the file; 0 for a reranker */
	const struct encoder_family *family;
	int32_t n_layer, n_embd, n_ff, n_head, n_vocab;
	/* `trained` is the context length in training, in tokens. `longest` is the maximum number of tokens of a text:
	 * min(trained, ENCODER_BATCH). */
	int32_t trained, longest;
	float eps;
	/* how a text's hidden states become one vector; POOL_RANK: they become a score, because the file is a reranker
	 * with the head `ranker` */
	enum pooling pooling;
	struct encoder_ranker ranker;
	struct tensor embd; /* [n_vocab][n_embd], read by row */
	/* 1 if the model tells the second text of a pair by its token type, 1, and separates the texts by one [SEP].
	 * Rerankers with a WordPiece tokenizer do, because they were trained as BERT was. */
	int pairs_typed;
	/* f32 [longest][n_embd]: sum of the embeddings of the position (if the family has learned positions) and of
	 * token type 0. If `pairs_typed` is 1, `longest` more rows have the sums with token type 1. */
	struct tensor position;
	/* cos and sin of RoPE. `rope` is f32 [longest][head_dim], a row for each position. `rope_at` is f32
	 * [batch][head_dim], a row for each token of the batch. */
	struct tensor rope, rope_at;
	/* Arguments of attention with ALiBi (attend_alibi()). `slots` is i32 [n_head][batch]; each of its rows is 0, 1,
	 * 2, and so on. `distance` is f32 [n_head][2 * longest]: what each head adds to the score of a key. Column d +
	 * longest - 1 is for a key that is d tokens after the query (before it if d < 0). */
	struct tensor slots, distance;
	/* Arguments of attention with relative positions (attend_relative()). relative[d + longest - 1] is the number
	 * of the relative position of a key that is d tokens before the query. `scores` is f32 [n_head *
	 * longest][longest]: what is added to the score of each key, for each token of a text and each head. */
	int32_t *relative; /* [2 * longest - 1] */
	struct tensor scores;
	struct encoder_norm embd_norm;
	struct encoder_layer *layer; /* [n_layer] */
	/* Buffers for a batch of up to `batch` tokens: f32 [batch][n_embd], but `hidden` is f32 [batch][n_ff]. */
	int32_t batch;
	struct tensor x, q, k, v, attn, hidden;
	struct tensor k_plane, v_plane; /* f16 [n_head * batch][n_embd / n_head] */
	int32_t *id, *at;               /* [batch] token id and position of each token of a batch */
	float *host;                    /* [batch][n_embd] hidden states after the last layer, in host memory */
	struct encoder_reader reader;
};

/* Read the metadata of e->gguf and load its weights to e->be, which must be open. Return 0, or -1 with err set. Call
 * encoder_release() in either case. */
int encoder_load(struct encoder *, struct err *);
void encoder_release(struct encoder *);
/* Compute the hidden states of n_text texts to e->host [n][n_embd]. n: number of tokens of all texts together, n <=
 * e->batch. Return 0. On error, or when *cancel becomes nonzero, return -1. */
int encoder_states(struct encoder *, const struct encoder_text *, int32_t n_text, int32_t n, enum encoder_adapter,
                   const atomic_int *cancel, struct err *);
/* Do what encoder_embed() does, but with this adapter. */
int encoder_embed_adapted(struct encoder *, const struct encoder_text *, int32_t n, enum encoder_adapter, float *out,
                          const atomic_int *cancel, struct err *);
/* Return the encoder family of a file, or NULL with the error set. */
const struct encoder_family *encoder_family_of(const struct gguf *, struct err *);
/* Open a file as encoder_open() does. ranks: 1 = the encoder must be a reranker; 0 = a reranker is refused; -1 = any
 * encoder is accepted. */
int encoder_open_kind(struct encoder **out, const char *path, const char *device, int threads, int ranks, struct err *);
/* Pool the hidden states x [n][n_embd] of one text into out[n_embd], and scale `out` to length 1. If `out` is zero, it
 * stays zero. */
void encoder_pool(const struct encoder *, const float *x, int32_t n, float *out);
/* Release what encoder_reader_open() has loaded as READER_ANY. */
void encoder_reader_release(struct encoder *);

#endif
