/* app/options/options.h - the commands and options of the command line.
 *
 *     table.c:      the tables of commands and options, the defaults;
 *     value.c:      sets an option from text, and shows its value as text;
 *     parse.c:      config file, environment, command line;
 *     config.c:     the config file: reading it, saving one key;
 *     help.c:       --help;
 *     typed.c:      finds the command in an unfinished command line;
 *     completion.c: completion for shells.
 *
 * In order of precedence: the command line, the environment, the config file, the defaults. All of them, /set, --help,
 * completion and the tests of the manual use the same tables (table.c). */
#ifndef WEIR_OPTIONS_H
#define WEIR_OPTIONS_H

#include "engine/base/base.h"
#include "engine/engine.h"

/* A set of commands, one bit each. The bits are macros, because an enum constant may have only 32 bits. */
typedef uint64_t command_set;
#define COMMAND_BIT(i)       (UINT64_C(1) << (i))
#define CMD_ALL              (~UINT64_C(0))
#define CMD_CHAT             COMMAND_BIT(0) /* `weir` and `weir -p` */
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
#define CMD_HELP             COMMAND_BIT(39) /* "help": the same as --help */
#define CMD_SESSIONS_IMPORT  COMMAND_BIT(40)
#define CMD_VERIFY           COMMAND_BIT(41)
#define EVAL_TEXTS           (CMD_EVAL_PPL | CMD_EVAL_RECOVERY | CMD_EVAL_TUNE)
#define EVAL_TASKS           (CMD_EVAL_RULER | CMD_EVAL_PASSKEY | CMD_EVAL_CHAIN | CMD_EVAL_NEEDLE | CMD_EVAL_ANSWERS)
/* The commands of the second program, weir-lab. `weir` starts it for them. */
#define CMD_LAB              (EVAL_TEXTS | EVAL_TASKS | CMD_EVAL_PLOT | CMD_EVAL_ASK | CMD_EVAL_PREDICTOR | CMD_TRAIN)

struct command_def {
	const char *name; /* "inspect tokens": one or two words; "" for the chat */
	const char *args;
	const char *help;
	command_set id;
	int max_files; /* most words that may follow the command; -1 = any number */
};
extern const struct command_def command_defs[]; /* ends with name = NULL */

enum option_type {
	OPT_FLAG,
	OPT_INT,
	OPT_SEED,
	OPT_FLOAT,
	OPT_SIZE,
	OPT_TEXT,
	OPT_CHOICE,
	OPT_POLICY,
	OPT_KV_TYPE,
	OPT_INT_LIST
};
enum option_flags {
	OPT_CONFIG = 1, /* allowed in the config file */
	OPT_SET = 2,    /* /set changes it in a chat */
	OPT_KEPT = 4,   /* stored with a session */
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
	const char *name; /* name without the dashes */
	char key;         /* letter of the short form, or 0 */
	enum option_type type;
	const char *arg; /* name of the value, for --help; OPT_CHOICE: the choices, "a|b|c" */
	const char *env; /* name of the environment variable, or NULL */
	const char *help;
	command_set commands;
	unsigned flags;
	/* offset of the value in struct options; for an option of weir-lab, in the larger struct that begins with
	 * struct options */
	size_t off;
	double min, max; /* least and greatest value of a number */
};
extern const struct option_def option_defs[]; /* ends with name = NULL */

struct options {
	command_set command;
	const struct command_def *def;
	const struct option_def *more; /* table of the options that only weir-lab has (app/lab/lab.h); NULL in weir */

	const char *remote; /* address of the server that runs the model; NULL: the model runs in this process */
	/* The model that /model has named on a server; "" if /model has named only the server; NULL if /model has not
	 * named a server. */
	const char *served;
	const char *key_file; /* file of the server's key, or NULL */
	int insecure;         /* 1 = the key may also be sent without encryption */
	int timeout;          /* seconds without data after which a request to a server fails */
	const char *model, *device, *lora, *pre, *chat_template;
	const char *kv, *kv_type;
	uint64_t kv_memory; /* bytes of memory for the KV cache; 0 = no limit */
	/* share of the attention, 0 .. 1: each token of a prompt reads only the KV entries that are estimated to get
	 * this share together; 1 = it reads all entries */
	float read_share;
	int32_t ctx, predict, threads;
	int check_tensors;

	/* Settings of the sampler. If the user has not set a setting, it has its default, or the value from the model
	 * file. */
	struct sampling sampling;
	unsigned sampling_set; /* settings that the user has set: bits 1 << enum sampling_setting */
	uint64_t seed;
	int seed_set;

	const char *system; /* system prompt; NULL = the template's own */
	const char *prompt; /* question of -p; NULL = a conversation */
	const char *color;
	const char *surprise;  /* tint sentences that surprise the model, while a growing file is read: "on", "off" */
	const char *think;     /* reasoning: "auto", "on", "show", "hide", "off" */
	const char *docs;      /* how documents reach the model: "auto", "whole", "passages" */
	const char *speculate; /* speculative decoding: "on", "off" */
	const char *recall;    /* add evicted turns to the prompt again if a question asks about them: "on", "off" */
	const char *loops;     /* an answer that repeats itself: "stop", "go" */
	const char *theme;     /* "auto" or the name of a theme */
	const char *mouse, *panel, *answers; /* mouse, panel: "on", "off"; answers: "formatted", "raw" */
	const char *encoder;                 /* text encoder: "auto", "off", a file or a name */
	const char *ocr_lang;                /* languages of scanned pages and pictures: "auto", "deu+eng" */
	const char *sources;                 /* name the passages that an answer rests on: "on", "off" */
	/* most passages that are sent with a question; -1 = chosen by the model's size */
	int32_t passages;
	int each_line; /* 1 = each line of standard input is a question */
	int json, raw, line, quiet, verbose, help, version;
	int inlined; /* 1 = the conversation flows in the terminal's scrollback, not on the full screen */
	int help_kv; /* 1 = --kv help: print the cache policies and their settings */

	int special, bos, decode;     /* options of inspect tokens */
	const char *token_file, *out; /* --tokens, --out of inspect logits; eval plot and train have --out, too */
	const char *messages, *bos_text, *eos_text, *thinking;
	int no_reply;                   /* --no-reply of inspect chat */
	struct policy_list kvs;         /* every --kv, in order: eval and bench compare several policies */
	int32_t chunk;                  /* tokens of a prefill chunk (eval, bench); 0 = the default */
	struct int_list prefill, depth; /* options of bench, like the members down to `fill` */
	int32_t decode_steps, reps, turns;
	const char *fill;

	const char *session;     /* name of the session (-s), or NULL */
	int go_on, private_talk; /* --continue, --private */
	int limit;               /* most results of a search */
	int yes;                 /* 1 = do not ask (pull, models rm) */

	char **file;
	int n_file; /* number of words in `file`: the words after the command that are no options */
	const struct option_def **said;
	int n_said; /* number of rows in `said`: the options on the command line */

	char **owned;
	size_t n_owned; /* number of strings in `owned`, which options_own() has copied */
};

/* Set all options to their defaults, and file to NULL. */
void options_default(struct options *);
/* Set *o from the defaults, then the config file, the environment and argv. With --help or --version only argv is
 * read, so that help works with a broken config file. Returns -1 with ERR_USAGE on error. */
int options_parse(struct options *, int argc, char **argv, struct err *);
/* Like options_parse(), with the additional options of the table `more` (may be NULL). Their values are in a larger
 * struct that begins with *o. */
int options_parse_more(struct options *, const struct option_def *more, int argc, char **argv, struct err *);
void options_free(struct options *);

/* Set an option from text. where: the origin, for error messages, such as "option '--ctx'". Returns 0, or -1 with
 * ERR_USAGE. */
int option_set(struct options *, const struct option_def *, const char *where, const char *value, struct err *);
/* Remove from a stored cache policy the settings that weir no longer has. Returns the new text, owned by *o. Unless
 * --quiet is set, a message tells the user which settings were removed. where: how this message begins. */
const char *policy_current(struct options *, const char *where, const char *text);
/* Return the sampling setting that the option sets; SAMPLING_SETTINGS = none. Such an option also accepts "auto": the
 * user has not set it. */
enum sampling_setting option_sampling(const struct option_def *);
/* Find the option of this name that at least one of the commands takes; NULL = none. */
const struct option_def *option_find(const char *name, size_t len, command_set commands);
/* Return the option after d: the options of option_defs come first, then those of `more` (may be NULL). If d is NULL,
 * return the first option. Returns NULL at the end. */
const struct option_def *option_next(const struct option_def *d, const struct option_def *more);
/* Find an option by its name or letter, in option_defs and `more`; NULL = none. */
const struct option_def *option_find_more(const struct option_def *more, const char *name, size_t len,
                                          command_set commands);
const struct option_def *option_letter(const struct option_def *more, char letter, command_set commands);
/* Return the commands whose names begin with these words. second: NULL if only one word is known. *exact: the
 * command with exactly this name, or NULL. */
command_set commands_named(const char *first, const char *second, const struct command_def **exact);
/* 1 if the option was on the command line. */
int option_said(const struct options *, const struct option_def *);
/* Give *o all strings that `copy` owns: options_free(o) then frees them. copy: made from *o earlier; it may own more
 * strings by now, and must not be freed afterwards. */
void options_take_back(struct options *o, const struct options *copy);
/* Copy n bytes of text into a string that is freed with the options. */
char *options_own(struct options *, const char *text, size_t n);
/* Append the option's value as text. */
void option_show(const struct options *, const struct option_def *, struct str *out);

/* Read the config file into the options. Called by options_parse(). A missing file is no error. */
int config_read(struct options *, struct err *);
/* Set an option in the config file, and leave the other lines. value: text as for option_set(). The file's path is
 * appended to *where. Returns 0, or -1 with the file unchanged. */
int config_save(const struct option_def *, const char *value, struct str *where, struct err *);

extern const char *const help_topics[]; /* ends with NULL */
/* Append the help that the options ask for: the overview, one command with its options, or a topic. keys: callback
 * that appends the keys and commands of the full screen. */
void options_help(const struct options *, void (*keys)(struct str *out), struct str *out);
/* Append a line for each of these commands. */
void options_help_commands(command_set, struct str *out);

/* ---- parsing of a command line that may be unfinished or wrong (typed.c) ---- */

struct typed {
	/* the commands that are possible after the words so far; the chat, if no word names a command */
	command_set commands;
	const struct command_def *at; /* the command; NULL if only its first word is known */
	const char *group;            /* first word of a command whose second word may follow; else NULL */
	const struct option_def *due; /* option whose value comes next, or NULL */
	int words;                    /* number of words after the command's name */
	int help;                     /* 1 = "help" came first, or there is --help */
};
void typed_read(struct typed *, const struct option_def *more, int n, char **word);
/* Find the option of a word "--NAME", "--NAME=VALUE" or "-L": among the options of these commands, then among all.
 * Returns NULL if there is none. */
const struct option_def *typed_option(const struct option_def *more, const char *word, command_set commands);

/* Run `weir completion SHELL`, which prints the shell's script, or `weir __complete WORD ...`, which the script
 * runs. Both return the exit code. */
int cmd_completion(const struct options *);
int completion_answer(const struct option_def *more, int n_words, char **word);

#endif
