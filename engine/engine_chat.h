/* engine/engine_chat.h - conversations as tokens, and the marks around reasoning in them.
 *
 * Functions that return int return 0, or -1 with the reason in *err, unless their comment says otherwise. */
#ifndef WEIR_ENGINE_CHAT_H
#define WEIR_ENGINE_CHAT_H

#include "engine/engine.h"

/* ---- reasoning (token/reasoning_marks.c) ----
 *
 * Models that reason write the reasoning in front of the answer, between two marks such as <think> and </think>. If a
 * mark is a control token, its name is part of the answer's text.
 *
 * gpt-oss writes reasoning and answer as messages on two channels:
 * "<|channel|>analysis<|message|>REASONING<|end|><|start|>assistant<|channel|>final<|message|>ANSWER". */
struct reasoning_mark {
	const char *open, *close;
};
/* Return the i-th pair of marks; NULL if there are fewer. */
const struct reasoning_mark *reasoning_mark_at(size_t i);
/* 1 if these are the marks of a channel (gpt-oss). The answer itself is then in the channel "final". */
int reasoning_has_channels(const struct reasoning_mark *);
#define CHANNEL_MARK  "<|channel|>"
#define CHANNEL_TEXT  "<|message|>"
#define CHANNEL_NEXT  "<|start|>"
#define CHANNEL_END   "<|end|>"
#define CHANNEL_FINAL CHANNEL_MARK "final" CHANNEL_TEXT

/* ---- conversations as tokens (template/render.c) ---- */

enum chat_role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT };
struct chat_msg {
	enum chat_role role;
	const char *text;
	size_t len;
	/* tokens of this text, if the model has generated it; they are used unchanged, so that their KV entries can be
	 * reused */
	const int32_t *id;
	size_t n_id;
	const char *role_name; /* a role that only templates know ("tool"), used instead of `role`; NULL = use `role` */
};
/* Where a message's text is in the rendered conversation: n bytes of the text, from byte `from` on, are at offset `at`
 * of the conversation. They are not the whole text if the template strips blanks or reasoning. If the template omits or
 * changes the text, `at` is SIZE_MAX. */
struct text_range {
	size_t at, from, n;
};

/* A conversation as tokens, made by engine_render(). Initialise it with zeros, and free it with rendered_free(). The
 * struct belongs to one engine. */
struct rendered {
	/* the tokens; they begin with one BOS if the model file asks for BOS or the template writes it */
	struct tokens id;
	uint32_t *end;            /* [id.n] for each token, the length of the rendered text up to the token's end */
	struct text_range *range; /* [n_msg] for each message, where its text is */
	size_t n_msg;
	struct rendered_text *text; /* private to the engine */
};
enum render_flags {
	REPLY_HEAD = 1,       /* append the beginning of an answer, as the template writes it (the generation prompt) */
	REPLY_NO_THOUGHT = 2, /* ask for an answer without reasoning, if the template supports this */
	RENDER_OPEN = 4,      /* the last message is unfinished, so omit the text that the template writes after it */
	REPLY_THOUGHT = 8     /* ask for an answer with reasoning, if the template supports this */
};
/* Render the messages with the chat template, and tokenize the result. Without a template the texts are joined. Only
 * text of the template itself can become special tokens: "<|im_end|>" in a message stays plain text. `before` is an
 * earlier rendering, whose tokens are reused where both texts are the same; it may be NULL. *out is overwritten, and
 * may be the same struct as *before. On error *out is unchanged. */
int engine_render(const struct engine *, const struct chat_msg *, size_t n, unsigned flags,
                  const struct rendered *before, struct rendered *out, struct err *);
void rendered_free(struct rendered *);
/* Append the rendered text to *out. `bos` and `eos` are the texts of these tokens for the template; NULL = the model's
 * texts. */
int engine_render_text(const struct engine *, const struct chat_msg *, size_t n, unsigned flags, const char *bos,
                       const char *eos, struct str *out, struct err *);
/* Return the index of the first token that ends after byte `byte` of message i's text; SIZE_MAX = this byte is not
 * rendered. */
size_t rendered_token(const struct rendered *, size_t i, size_t byte);
/* Append to *out the first tokens of the rendered conversation: all tokens that cannot change if the text of message i
 * changes from byte `byte` on. These tokens can be prefilled before the bytes are known. */
int engine_render_stable(const struct engine *, const struct rendered *, size_t i, size_t byte, struct tokens *out,
                         struct err *);
/* Tokenize a part of message i's text, without the text around it, and set *n to the number of tokens. The part
 * begins at byte `from` and ends before byte `to`. Return -1 if the part is not rendered. */
int engine_render_count(const struct engine *, const struct rendered *, size_t i, size_t from, size_t to, size_t *n,
                        struct err *);
/* Append text[0 .. n) to the last message. id[0 .. n_id) are the tokens of this text. The conversation must have been
 * rendered with the flag RENDER_OPEN. */
void engine_render_add(const struct engine *, struct rendered *, const char *text, size_t n, const int32_t *id,
                       size_t n_id);

#endif
