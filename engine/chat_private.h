/* engine/chat_private.h (private to engine/chat*.c) - interfaces between the parts of the chat template code.
 *
 *   template text --chat_skeleton()--> skeleton --chat_detect()--> family (+ captured literals) --write()--> text
 *
 * chat_parse.c      a template's text as a tree of blocks
 * chat_skeleton.c   the tree without spelling variants and without branches that a plain text conversation never takes
 * chat_skeletons.c  the known skeletons (data)
 * chat_families.c   the table: name, skeletons, how it writes (data)
 * chat_write.c      the writers
 * chat.c            the public functions of chat.h, and text to tokens */
#ifndef WEIR_CHAT_PRIVATE_H
#define WEIR_CHAT_PRIVATE_H

#include "engine/chat.h"
#include "engine/chat_skeletons.h"
#include "engine/token.h"

enum { CHAT_TEMPLATE_MAX = 1 << 20, CHAT_CAPTURES = 4 };

/* Append the skeleton of a template to *out, or ERR_MODEL with the reason (an unknown tag, too deep, ...). */
int chat_skeleton(const char *text, size_t len, struct str *out, struct err *);

/* s[0..*n) without leading and trailing white space, as Python's str.strip() defines it; *n becomes its length. */
enum { STRIP_LEFT = 1, STRIP_RIGHT = 2, STRIP_BOTH = 3 };
const char *chat_strip(const char *s, size_t *n, int sides);

/* The formats by which write_plain() renders a conversation; NULL: nothing is written.
 *   @c content   @t content, white space stripped   @l @r stripped on the left, on the right only
 *   @s the system message kept for later, or all of them joined   @S stripped
 *   @b bos   @e eos   @1..@4 captured from the template   @d 2026-01-31   @D 31 Jan 2026   @B January 31, 2026
 * Everything but content and system messages comes from the template and may become control tokens. */
struct chat_style {
	const char *start;
	const char *sys;             /* the first message, when it is a system message */
	const char *no_sys;          /* when it is not: a default system message */
	const char *sys_later;       /* any later one; NULL: dropped, as the template does; "!": refused */
	const char *user;
	const char *user_sys;        /* with a system message merged into it */
	const char *user_sys_blank;  /* the same, for content that is white space only */
	const char *user_first;      /* message 0 or 1 */
	const char *user_again;      /* after a user's message */
	const char *asst_head;       /* before an answer, after a user's message only */
	const char *asst;
	const char *asst_last;       /* the answer ends the conversation, and no reply is wanted */
	const char *asst_end;        /* the answer ends the conversation */
	const char *asst_empty;      /* it is white space only */
	const char *asst_void;       /* it is empty; "!": refused */
	const char *reply;           /* the head of the reply wanted */
	const char *reply_off;       /* the same for an answer without reasoning; NULL: the template has no such head */
	const char *no_reply;        /* none wanted */
};

enum chat_flags {
	CHAT_ALTERNATE     = 1 << 0,    /* user, assistant, user, ... after a leading system message, else refused */
	CHAT_NO_SYSTEM     = 1 << 1,    /* a leading system message is refused */
	CHAT_MERGE_FIRST   = 1 << 2,    /* system message goes into the first user message (user_sys) */
	CHAT_MERGE_LAST    = 1 << 3,    /* ... into the last message, if it is a user's */
	CHAT_SYS_LAST      = 1 << 4,    /* the last system message counts, at the start */
	CHAT_SYS_JOIN      = 1 << 5,    /* all of them, joined, at the start */
	CHAT_SYS_JOIN2     = 1 << 6,    /* all of them, joined by an empty line, at the start */
	CHAT_SYS_ANYWHERE  = 1 << 7,    /* no_sys only where there is none at all */
	CHAT_SYS_SKIP      = 1 << 8,    /* an empty system message is not written */
	CHAT_SYS_DEFAULT   = 1 << 9,    /* an empty leading system message counts as none */
	CHAT_SYS_SKIP_LATER = 1 << 18,  /* nor a later one */
	CHAT_SYS_TRIM      = 1 << 10,   /* empty: after stripping */
	CHAT_SYS_TO_LATER  = 1 << 11,   /* an empty leading system message is written as a later one */
	CHAT_SKIP_EMPTY    = 1 << 12,   /* empty messages are not written */
	CHAT_REPLY_ALWAYS  = 1 << 13,   /* the template writes the reply's head unasked */
	CHAT_REPLY_USER    = 1 << 14,   /* ... only after a user's message */
	CHAT_REPLY_NO_ASST = 1 << 15,   /* ... not after an answer */
	CHAT_REPLY_LOOP    = 1 << 19,   /* ... not after a system message alone */
	CHAT_FIXED         = 1 << 16,   /* captures must equal the table's */
	CHAT_COUNT_TURNS   = 1 << 17,   /* CHAT_ALTERNATE looks at users and assistants only */
};

/* What a template removes from an answer before it writes it into the history. */
enum chat_cut {
	CUT_NONE,
	CUT_LAST,          /* everything up to the last </think> */
	CUT_LAST_NL,       /* ... and newlines after it */
	CUT_LAST_TRIM,     /* ... and white space around what is left */
	CUT_FIRST,         /* everything up to the first </think> */
	CUT_FIRST_NL,
	CUT_FINAL,         /* everything up to the last [BEGIN FINAL RESPONSE], white space around what is left */
};
enum chat_cut_when { CUT_ALWAYS, CUT_NOT_END, CUT_NOT_LAST_ANSWER };

struct writer;
struct chat_family {
	const char *name;
	const char *const *skeletons;          /* NULL-terminated; may be NULL */
	const char *cap[CHAT_CAPTURES];
	void (*write)(struct writer *);
	unsigned flags;
	enum chat_cut cut;
	enum chat_cut_when cut_when;
	int variant;                           /* for writers that serve several families */
	struct chat_style s;
};
extern const struct chat_family chat_table[];
extern const size_t chat_table_n;

struct part { const char *p; size_t n; };
struct writer {
	const struct chat_family *f;
	const char *bos, *eos;
	const struct chat_msg *m;
	size_t n;
	int reply;                 /* the head of the next answer is wanted */
	int no_thought;            /* the answer is to have no reasoning */
	struct chat_text *out;
	struct text_place *place;  /* [n] where the text of each message stands in out; may be NULL */
	struct part system;        /* @s */
	struct str keep;           /* buffer that system may point into */
	struct err *e;
	int failed;
};
/* As chat_write(); place may be NULL. */
int chat_compose(const struct chat_family *, const char *bos, const char *eos, const struct chat_msg *, size_t n,
                 unsigned reply, struct chat_text *out, struct text_place *place, struct err *);

/* Writers (chat_write.c). */
void write_plain(struct writer *);
void write_apertus(struct writer *);
void write_bielik(struct writer *);
void write_gemma4(struct writer *);
void write_glm(struct writer *);
void write_gpt_oss(struct writer *);
void write_minimax(struct writer *);
void write_muse(struct writer *);
void write_nemotron2(struct writer *);
void write_nemotron3(struct writer *);
void write_qwen3(struct writer *);
void write_smollm3(struct writer *);
void write_vigogne(struct writer *);
enum { QWEN3, QWEN35, QWEN_STEP, QWEN_MINICPM, QWEN_2507 };
enum { GLM46, GLM47 };
enum { MINIMAX2, MINIMAX3 };
enum { GEMMA4_INTERLEAVED, GEMMA4 };

#endif
