/* app/options/options.h - commands and options.
 *
 *     table.c       their tables, the defaults
 *     value.c       an option's value from text, and as text
 *     parse.c       config file, environment, command line
 *     config.c      the config file: reading it, saving one key
 *     help.c        --help
 *     typed.c       the command of an unfinished command line
 *     completion.c  completion for shells
 *
 * Parsing, --help, the environment, the config file, /set and the checks of the manual all read the same rows
 * (table.c), so an option cannot exist in one of them alone. Precedence: command line, then environment, then config
 * file, then the defaults. */
#ifndef WEIR_OPTIONS_H
#define WEIR_OPTIONS_H

#include "engine/base/base.h"
#include "engine/engine.h"

/* Sets of commands, one bit each, so that a row can name all that take it.  Macros: an enum has no 64 bits. */
typedef uint64_t command_set;
#define COMMAND_BIT(i)       (UINT64_C(1) << (i))
#define CMD_ALL              (~UINT64_C(0))
#define CMD_CHAT             COMMAND_BIT(0) /* weir, weir -p */
#define CMD_MODELS           COMMAND_BIT(1)
#define CMD_INSPECT_MODEL    COMMAND_BIT(2)
#define CMD_INSPECT_TOKENS   COMMAND_BIT(3)
#define CMD_INSPECT_LOGITS   COMMAND_BIT(4)
#define CMD_EVAL_PPL         COMMAND_BIT(5)
#define CMD_BENCH            COMMAND_BIT(6)
#define CMD_DOCTOR           COMMAND_BIT(7)
#define CMD_EVAL_RULER       COMMAND_BIT(8)
#define CMD_EVAL_PASSKEY     COMMAND_BIT(9)
#define CMD_EVAL_CHAIN       COMMAND_BIT(10)
#define CMD_EVAL_RECOVERY    COMMAND_BIT(11)
#define CMD_SESSIONS_LS      COMMAND_BIT(12)
#define CMD_SESSIONS_SHOW    COMMAND_BIT(13)
#define CMD_SESSIONS_SEARCH  COMMAND_BIT(14)
#define CMD_SESSIONS_RENAME  COMMAND_BIT(15)
#define CMD_SESSIONS_RM      COMMAND_BIT(16)
#define CMD_SESSIONS_EXPORT  COMMAND_BIT(17)
#define CMD_SESSIONS_GC      COMMAND_BIT(18)
#define CMD_SESSIONS_CHECK   COMMAND_BIT(19)
#define CMD_COMPLETION       COMMAND_BIT(20)
#define CMD_INSPECT_SESSION  COMMAND_BIT(21)
#define CMD_READ             COMMAND_BIT(22) /* weir read */
#define CMD_INSPECT_DOCUMENT COMMAND_BIT(23)
#define CMD_EVAL_PLOT        COMMAND_BIT(24)
#define CMD_EVAL_NEEDLE      COMMAND_BIT(25)
#define CMD_EVAL_ASK         COMMAND_BIT(26)
#define CMD_DOCS_LS          COMMAND_BIT(27)
#define CMD_DOCS_SHOW        COMMAND_BIT(28)
#define CMD_DOCS_SEARCH      COMMAND_BIT(29)
#define CMD_DOCS_RM          COMMAND_BIT(30)
#define CMD_INSPECT_CHAT     COMMAND_BIT(31)
#define CMD_MODELS_RM        COMMAND_BIT(32)
#define CMD_PULL             COMMAND_BIT(33)
#define CMD_TOUR             COMMAND_BIT(34) /* weir tour */
#define CMD_EVAL_TUNE        COMMAND_BIT(35)
#define CMD_EVAL_ANSWERS     COMMAND_BIT(36)
#define CMD_EVAL_PREDICTOR   COMMAND_BIT(37)
#define CMD_TRAIN            COMMAND_BIT(38)
#define CMD_HELP             COMMAND_BIT(39) /* the word that stands for --help */
#define CMD_SESSIONS_IMPORT  COMMAND_BIT(40)
#define EVAL_TEXTS           (CMD_EVAL_PPL | CMD_EVAL_RECOVERY | CMD_EVAL_TUNE)
#define EVAL_TASKS           (CMD_EVAL_RULER | CMD_EVAL_PASSKEY | CMD_EVAL_CHAIN | CMD_EVAL_NEEDLE | CMD_EVAL_ANSWERS)
/* The commands of weir-lab, the program that weir starts for them. Options that only these take are in app/lab. */
#define CMD_LAB              (EVAL_TEXTS | EVAL_TASKS | CMD_EVAL_PLOT | CMD_EVAL_ASK | CMD_EVAL_PREDICTOR | CMD_TRAIN)

struct command_def {
	const char *name; /* "inspect tokens": one or two words; "" for the chat */
	const char *args;
	const char *help;
	command_set id;
	int max_files; /* -1 = any number */
};
extern const struct command_def command_defs[]; /* ends with name = NULL */

enum option_type { OPT_FLAG, OPT_INT, OPT_SEED, OPT_FLOAT, OPT_SIZE, OPT_TEXT, OPT_CHOICE, OPT_POLICY, OPT_INT_LIST };
enum option_flags {
	OPT_CONFIG = 1, /* may stand in the config file */
	OPT_SET = 2,    /* may be changed with /set in a chat */
	OPT_KEPT = 4,   /* a session remembers it */
};

#define LIST_MAX 32
struct policy_list {
	const char *v[LIST_MAX];
	int n;
};
struct int_list {
	int32_t v[LIST_MAX];
	int n;
};

struct option_def {
	const char *name; /* without the dashes */
	char key;         /* short form, or 0 */
	enum option_type type;
	const char *arg; /* name of the argument; for OPT_CHOICE the choices, "a|b|c" */
	const char *env; /* environment variable, or NULL */
	const char *help;
	command_set commands;
	unsigned flags;
	size_t off;      /* into struct options, or into the struct that begins with it */
	double min, max; /* of a number */
};
extern const struct option_def option_defs[]; /* ends with name = NULL */

struct options {
	command_set command;
	const struct command_def *def;
	const struct option_def *more; /* rows of options that only this program has, or NULL (app/lab/lab.h) */

	/* --remote: a server; its model where /model has named one, "" where it has named none */
	const char *remote, *served;
	/* of a server: where its key is, whether it may go unencrypted, seconds to wait */
	const char *key_file;
	int insecure, timeout;
	const char *model, *device, *lora, *pre, *chat_template;
	const char *kv, *kv_type;
	uint64_t kv_memory; /* bytes of memory for the KV cache, 0: as many as it takes */
	float read_share;   /* of attention that a prompt's tokens read, by an estimate; 1: all */
	int32_t ctx, predict, threads;
	int check_tensors;

	/* all but rng; the user's where sampling_set says so, else the defaults, which a model may know better */
	struct sampling sampling;
	unsigned sampling_set; /* 1 << enum sampling_setting */
	uint64_t seed;
	int seed_set;

	const char *system; /* NULL = what the template says */
	const char *prompt; /* -p; NULL = line mode */
	const char *color;
	const char *surprise;  /* of the sentences of a text that is read: "on", "off" */
	const char *think;     /* what becomes of reasoning: "auto", "show", "hide", "off" */
	const char *docs;      /* how documents reach the model: "auto", "whole", "passages" */
	const char *speculate; /* guess tokens from earlier ones and compute several in one step: "on", "off" */
	const char *recall;    /* bring back evicted turns that a question asks about: "on", "off" */
	const char *loops;     /* an answer that repeats itself: "auto", "stop", "go" */
	const char *theme;     /* of the screen: "auto" or a name */
	const char *mouse, *panel, *answers; /* of the screen: "off", "on"; the same; "formatted", "raw" */
	const char *sources;                 /* name the passages that an answer rests on: "on", "off" */
	/* the most passages that go with a question; -1: as many as suit the size of the model */
	int32_t passages;
	int each_line; /* standard input is a question a line */
	int json, raw, line, quiet, verbose, help, version;
	int help_kv; /* --kv help: the cache policies and their settings */

	int special, bos, decode;     /* inspect tokens */
	const char *token_file, *out; /* inspect logits; out: eval plot, train, too */
	const char *messages, *bos_text, *eos_text, *thinking;
	int no_reply;                   /* inspect chat */
	struct policy_list kvs;         /* every --kv of the command line, in order: eval and bench compare them */
	int32_t chunk;                  /* tokens of a prefill chunk, eval and bench; 0 = the default */
	struct int_list prefill, depth; /* bench */
	int32_t decode_steps, reps, turns;
	const char *fill;

	const char *session;     /* -s */
	int go_on, private_talk; /* --continue, --private */
	int limit;               /* sessions search: maximum results */
	int yes;                 /* pull, models rm: nothing is asked */

	char **file;
	int n_file; /* the words that are not options */
	const struct option_def **said;
	int n_said; /* options that stood on the command line */

	char **owned;
	size_t n_owned; /* strings that outlive their source (config file) */
};

/* The defaults; file is NULL. */
void options_default(struct options *);
/* Defaults, config file, environment, then argv.  With --help or --version in argv the other two sources are
 * not read: help must work with a broken config file.  ERR_USAGE with one sentence. */
int options_parse(struct options *, int argc, char **argv, struct err *);
/* The same with rows beside option_defs, whose values are in a struct that begins with struct options. */
int options_parse_more(struct options *, const struct option_def *more, int argc, char **argv, struct err *);
void options_free(struct options *);

/* Give one option a value from text.  where: "option '--ctx'", for messages. */
int option_set(struct options *, const struct option_def *, const char *where, const char *value, struct err *);
/* Which of the sampler's settings it is; SAMPLING_SETTINGS: none.  These take "auto", too: not set. */
enum sampling_setting option_sampling(const struct option_def *);
/* The row of this name that these commands share, or NULL. */
const struct option_def *option_find(const char *name, size_t len, command_set commands);
/* The row after d, in option_defs and then in `more`, which may be NULL; d = NULL: the first. NULL after the last. */
const struct option_def *option_next(const struct option_def *d, const struct option_def *more);
/* The row of this name, or with this letter, of both tables. */
const struct option_def *option_find_more(const struct option_def *more, const char *name, size_t len,
                                          command_set commands);
const struct option_def *option_letter(const struct option_def *more, char letter, command_set commands);
/* The commands whose name begins with these words (second: NULL = one word); *exact: the one of exactly these words, or
 * NULL. */
command_set commands_named(const char *first, const char *second, const struct command_def **exact);
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
/* Give the key of this option a value in the config file; every other line stays as it is. value: as option_set() takes
 * it. Appends the file's path to *where. 0, or -1: nothing was changed. */
int config_save(const struct option_def *, const char *value, struct str *where, struct err *);

/* --help, `weir help`: one screen, one command and its options, or a topic.  keys: adds the keys and commands of the full screen. */
extern const char *const help_topics[]; /* ends with NULL */
void options_help(const struct options *, void (*keys)(struct str *out), struct str *out);
/* Append these commands, a line each. */
void options_help_commands(command_set, struct str *out);

/* ---- a command line that may be unfinished or wrong (typed.c) ---- */

struct typed {
	command_set commands;         /* that the words allow; the chat, until a word names another command */
	const struct command_def *at; /* the command, NULL while its second word is missing */
	const char *group;            /* first word of a command of two words whose second word is due, or NULL */
	const struct option_def *due; /* option whose value is due, or NULL */
	int words;                    /* words behind the command's name */
	int help;                     /* 1 = "help" came first, or --help */
};
void typed_read(struct typed *, const struct option_def *more, int n, char **word);
/* The option that the word "--NAME", "--NAME=VALUE" or "-L" names, of these commands or else of any; NULL: none. */
const struct option_def *typed_option(const struct option_def *more, const char *word, command_set commands);

/* weir completion SHELL, and `weir __complete WORD ...`, which the shell's stub asks (completion.c). Both return the
 * exit code. */
int cmd_completion(const struct options *);
int completion_answer(const struct option_def *more, int n_words, char **word);

#endif
