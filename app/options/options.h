/* app/options/options.h - commands and options.
 *
 *     table.c       their tables, the defaults
 *     value.c       an option's value from text, and as text
 *     parse.c       config file, environment, command line
 *     config.c      the config file: reading it, saving one key
 *     help.c        --help
 *     completion.c  completion scripts for shells
 *
 * Parsing, --help, the environment, the config file, /set and the checks of the manual all read the same rows (table.c), so an
 * option cannot exist in one of them alone.  Precedence: command line, then environment, then config file, then the defaults. */
#ifndef WEIR_OPTIONS_H
#define WEIR_OPTIONS_H

#include "engine/base.h"
#include "engine/engine.h"

/* One bit a command, so that a row can name all that take it. */
enum command {
	CMD_CHAT           = 1 << 0,   /* weir, weir -p */
	CMD_MODELS         = 1 << 1,
	CMD_INSPECT_MODEL  = 1 << 2,
	CMD_INSPECT_TOKENS = 1 << 3,
	CMD_INSPECT_LOGITS = 1 << 4,
	CMD_EVAL_PPL       = 1 << 5,
	CMD_BENCH          = 1 << 6,
	CMD_DOCTOR         = 1 << 7,
	CMD_EVAL_RULER     = 1 << 8,
	CMD_EVAL_PASSKEY   = 1 << 9,
	CMD_EVAL_CHAIN     = 1 << 10,
	CMD_EVAL_RECOVERY  = 1 << 11,
	CMD_SESSIONS_LS    = 1 << 12,
	CMD_SESSIONS_SHOW  = 1 << 13,
	CMD_SESSIONS_SEARCH = 1 << 14,
	CMD_SESSIONS_RENAME = 1 << 15,
	CMD_SESSIONS_RM    = 1 << 16,
	CMD_SESSIONS_EXPORT = 1 << 17,
	CMD_SESSIONS_GC    = 1 << 18,
	CMD_SESSIONS_CHECK = 1 << 19,
	CMD_INSPECT_SESSION = 1 << 21,
	CMD_INSPECT_DOCUMENT = 1 << 23,
	CMD_COMPLETION     = 1 << 20,
	CMD_READ           = 1 << 22,   /* weir read */
	CMD_EVAL_PLOT      = 1 << 24,
	CMD_EVAL_NEEDLE    = 1 << 25,
	CMD_EVAL_ASK       = 1 << 26,
	CMD_DOCS_LS        = 1 << 27,
	CMD_DOCS_SHOW      = 1 << 28,
	CMD_DOCS_SEARCH    = 1 << 29,
	CMD_DOCS_RM        = 1 << 30,
	CMD_INSPECT_CHAT   = -2147483647 - 1,   /* bit 31 */
};

struct command_def {
	const char *name;    /* "inspect tokens": one or two words; "" for the chat */
	const char *args;
	const char *help;
	enum command id;
	int max_files;       /* -1 = any number */
};
extern const struct command_def command_defs[];   /* ends with name = NULL */

enum option_type { OPT_FLAG, OPT_INT, OPT_SEED, OPT_FLOAT, OPT_TEXT, OPT_CHOICE, OPT_POLICY, OPT_INT_LIST };
enum option_flags {
	OPT_CONFIG = 1,      /* may stand in the config file */
	OPT_SET = 2,         /* may be changed with /set in a chat */
	OPT_KEPT = 4,        /* a session remembers it */
};

#define LIST_MAX 32
struct policy_list { const char *v[LIST_MAX]; int n; };
struct int_list { int32_t v[LIST_MAX]; int n; };

struct option_def {
	const char *name;    /* without the dashes */
	char key;            /* short form, or 0 */
	enum option_type type;
	const char *arg;     /* name of the argument; for OPT_CHOICE the choices, "a|b|c" */
	const char *env;     /* environment variable, or NULL */
	const char *help;
	unsigned commands;   /* mask of enum command */
	unsigned flags;
	size_t off;          /* into struct options */
	double min, max;     /* of a number */
};
extern const struct option_def option_defs[];     /* ends with name = NULL */

struct options {
	enum command command;
	const struct command_def *def;

	const char *model, *device, *pre, *chat_template;
	const char *kv, *kv_type;
	int32_t ctx, predict, threads;
	int check_tensors;

	struct sampling sampling;     /* all but rng */
	uint64_t seed; int seed_set;

	const char *system;           /* NULL = what the template says */
	const char *prompt;           /* -p; NULL = line mode */
	const char *color;
	const char *surprise;         /* of the sentences of a text that is read: "on", "off" */
	const char *think;            /* what becomes of reasoning: "auto", "show", "hide", "off" */
	const char *docs;             /* how documents reach the model: "auto", "whole", "passages" */
	const char *speculate;        /* guess tokens from earlier ones and compute several in one step: "on", "off" */
	const char *recall;           /* bring back evicted turns that a question asks about: "on", "off" */
	const char *loops;            /* an answer that repeats itself: "auto", "stop", "go" */
	const char *theme;            /* of the screen: "auto" or a name */
	const char *mouse, *panel, *answers;   /* of the screen: "off", "on"; the same; "formatted", "raw" */
	const char *sources;          /* name the passages that an answer rests on: "on", "off" */
	int32_t passages;             /* the most passages that go with a question; -1: as many as suit the size of the model */
	int each_line;                /* standard input is a question a line */
	int json, raw, line, quiet, verbose, help, version;
	int help_kv;                  /* --kv help: the cache policies and their settings */

	int special, bos, decode;     /* inspect tokens */
	const char *token_file, *out; /* inspect logits; eval plot */
	const char *messages, *bos_text, *eos_text, *thinking; int no_reply;   /* inspect chat */
	int32_t layer, head;          /* eval plot: -1 = the middle one, all */
	struct policy_list kvs;       /* every --kv of the command line, in order: evaluations compare them */
	int32_t tokens, window, skip, last, chunk, offset, curve;   /* eval ppl */
	const char *tasks;            /* eval ruler: names, commas between */
	struct int_list len;          /* eval tasks: tokens of a prompt and its answer */
	int32_t samples, depths, each;   /* depths, each: samples at a depth, of eval needle */
	const char *questions;        /* eval ask: the file of questions */
	const char *resume;           /* evaluations: the file of finished pieces */
	struct int_list prefill, depth;              /* bench */
	int32_t decode_steps, reps, turns;
	const char *fill;

	const char *session;          /* -s */
	int go_on, private_talk;      /* --continue, --private */
	int limit;                    /* sessions search: maximum results */

	char **file; int n_file;      /* the words that are not options */
	const struct option_def **said; int n_said;   /* options that stood on the command line */

	char **owned; size_t n_owned; /* strings that outlive their source (config file) */
};

/* The defaults; file is NULL. */
void options_default(struct options *);
/* Defaults, config file, environment, then argv.  With --help or --version in argv the other two sources are
 * not read: help must work with a broken config file.  ERR_USAGE with one sentence. */
int options_parse(struct options *, int argc, char **argv, struct err *);
void options_free(struct options *);

/* Give one option a value from text.  where: "option '--ctx'", for messages. */
int option_set(struct options *, const struct option_def *, const char *where, const char *value, struct err *);
/* The row of this name that these commands share, or NULL. */
const struct option_def *option_find(const char *name, size_t len, unsigned commands);
/* Did it stand on the command line? */
int option_said(const struct options *, const struct option_def *);
/* A copy of the options ends: what was allocated for it belongs to the original from now on. */
void options_take_back(struct options *o, const struct options *copy);
/* Keep a copy of a string as long as the options live. */
char *options_own(struct options *, const char *text, size_t n);
/* The value as text, for /set. */
void option_show(const struct options *, const struct option_def *, struct str *out);

/* Reads the config file, if there is one, into the options (which options_parse() does). */
int config_read(struct options *, struct err *);
/* Give the key of this option a value in the config file; every other line stays as it is.  value: as option_set() takes it.  Appends
 * the file's path to *where.  0, or -1: nothing was changed. */
int config_save(const struct option_def *, const char *value, struct str *where, struct err *);

/* --help: everything, or one command (and its options).  keys: adds the keys and commands of the full screen (--help keys). */
void options_help(const struct options *, void (*keys)(struct str *out), struct str *out);

/* weir completion SHELL (completion.c): the exit code. */
int cmd_completion(const struct options *);

#endif
