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
 * The command line takes precedence over the environment, then come the config file and the defaults. All of them use
 * the same tables (table.c), and so do /set, --help, completion and the tests of the manual. */
#ifndef WEIR_OPTIONS_H
#define WEIR_OPTIONS_H

#include "engine/base/base.h"
#include "engine/engine.h"

/* A set of commands, one bit each. The bits are macros, because an enum constant may have only 32 bits. */
typedef uint64_t command_set;
#define COMMAND_BIT(i)       (UINT64_C(1) << (i))
#define CMD_ALL              (~UINT64_C(0))
#define CMD_CHAT             COMMAND_BIT(0) /* the command `weir` without a command's name, also with -p */
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
/* The commands of the second program, weir-lab, which `weir` starts to run them. */
#define CMD_LAB              (EVAL_TEXTS | EVAL_TASKS | CMD_EVAL_PLOT | CMD_EVAL_ASK | CMD_EVAL_PREDICTOR | CMD_TRAIN)

struct command_def {
	const char *name; /* one or two words, such as "inspect tokens"; "" for the chat */
	const char *args;
	const char *help;
	command_set id;
	int max_files; /* maximum number of words that may follow the command; -1 = any number */
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
	OPT_CONFIG = 1, /* the config file may set the option */
	OPT_SET = 2,    /* /set can change the option in a chat */
	OPT_KEPT = 4,   /* the option is stored with a session */
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
	const char *arg; /* name of the value in --help; for OPT_CHOICE it is the list of choices, "a|b|c" */
	const char *env; /* name of the environment variable, or NULL */
	const char *help;
	command_set commands;
	unsigned flags;
	/* offset of the value in struct options; for an option of weir-lab, offset in the larger struct that begins
	 * with struct options */
	size_t off;
	double min, max; /* smallest and largest allowed value of a number */
};
extern const struct option_def option_defs[]; /* ends with name = NULL */

struct options {
	command_set command;
	const struct command_def *def;
	const struct option_def *more; /* table of the options that only weir-lab has (app/lab/lab.h); NULL in weir */

	const char *remote; /* address of the server that runs the model; NULL: the model runs in this process */
	/* Name of the model that the user chose by /model on a server. "" = /model named a server without a model. NULL
	 * = no server was chosen by /model. */
	const char *served;
	const char *key_file; /* file of the server's key, or NULL */
	int insecure;         /* 1 = the key may be sent unencrypted, too */
	int timeout;          /* seconds without data after which a request to a server fails */
	const char *model, *device, *lora, *pre, *chat_template;
	const char *kv, *kv_type;
	uint64_t kv_memory; /* bytes of memory that the KV cache may use; 0 = no limit */
	/* Each token of a prompt reads only those KV entries that together get about this share of the attention, from
	 * 0 to 1. If it is 1, the token reads all entries */
	float read_share;
	int32_t ctx, predict, threads;
	int check_tensors;

	/* Settings of the sampler. A setting that the user has not set has its default, or the value from the model
	 * file. */
	struct sampling sampling;
	unsigned sampling_set; /* which settings the user has set: bits 1 << enum sampling_setting */
	uint64_t seed;
	int seed_set;

	const char *system; /* system prompt; NULL = the template's own */
	/* argument of -r: the name of a role, and words to put into the role's text; NULL = no role */
	const char *role;
	const char *prompt; /* the question after -p; NULL = the user can ask many questions */
	const char *color;
	/* "on", "off": while a growing file is read, colour the sentences that surprise the model */
	const char *surprise;
	const char *think;     /* "auto", "on", "show", "hide", "off": reasoning */
	const char *docs;      /* "auto", "whole", "passages": how documents reach the model */
	const char *speculate; /* "on", "off": speculative decoding */
	const char *memory;    /* "on", "off": whether the facts of /remember are searched for each question */
	/* "on", "off": if a question asks about evicted turns, add these turns to the prompt again */
	const char *recall;
	const char *loops;                   /* "stop", "go": what to do with an answer that repeats itself */
	const char *theme;                   /* "auto" or the name of a theme */
	const char *mouse, *panel, *answers; /* mouse and panel: "on", "off"; answers: "formatted", "raw" */
	const char *encoder;                 /* text encoder: "auto", "off", a file or a name */
	const char *ocr_lang;                /* languages of scanned pages and pictures: "auto", "deu+eng" */
	const char *sources;                 /* "on", "off": show the passages on which an answer is based */
	/* maximum number of passages that are sent with a question; -1 (auto) = the model's size decides */
	int32_t passages;
	int each_line; /* 1 = each line of standard input is a question */
	int json, raw, line, quiet, verbose, help, version;
	int inlined; /* 1 = the conversation is written into the terminal's scrollback instead of the full screen */
	int help_kv; /* 1 = --kv help: print the cache policies and their settings */

	int special, bos, decode; /* options of `weir inspect tokens` */
	/* arguments of --tokens and --out in `inspect logits`; eval plot and train have --out, too */
	const char *token_file, *out;
	const char *messages, *bos_text, *eos_text, *thinking;
	int no_reply;           /* 1 = option --no-reply of `inspect chat` */
	struct policy_list kvs; /* all values of --kv, in order: eval and bench compare several policies */
	/* number of tokens that a prefill computes at once (eval, bench); 0 = the default */
	int32_t chunk;
	struct int_list prefill, depth; /* the members from `prefill` to `fill` are options of `weir bench` */
	int32_t decode_steps, reps, turns;
	const char *fill;

	const char *session;     /* name of the session (-s), or NULL */
	int go_on, private_talk; /* 1 = option --continue; 1 = option --private */
	int limit;               /* maximum number of results of a search */
	int yes;                 /* 1 = do not ask for confirmation (pull, models rm) */

	char **file;
	int n_file; /* number of entries of `file`, which has the words after the command that are not options */
	const struct option_def **said;
	int n_said; /* number of entries of `said`, which has the options of the command line */

	char **owned;
	size_t n_owned; /* number of entries of `owned`, which has the strings that options_own() has copied */
};

/* Set all options to their defaults, and the member `file` to NULL. */
void options_default(struct options *);
/* Set *o from the defaults, the config file, the environment and argv, in this order. With --help or --version only
 * argv is read, so that help works even if the config file has an error. Returns 0, or -1 with ERR_USAGE. */
int options_parse(struct options *, int argc, char **argv, struct err *);
/* Do the same as options_parse(), with the additional options of the table `more` (may be NULL). The values of these
 * options are in a larger struct that begins with *o. */
int options_parse_more(struct options *, const struct option_def *more, int argc, char **argv, struct err *);
void options_free(struct options *);

/* Set an option from text. `where` is the origin of the text for error messages, such as "option '--ctx'". Returns 0,
 * or -1 with ERR_USAGE. */
int option_set(struct options *, const struct option_def *, const char *where, const char *value, struct err *);
/* Remove from a stored cache policy those settings that weir no longer has. Returns the new text, which *o owns. Unless
 * --quiet is set, a message names the removed settings; `where` is the beginning of this message. */
const char *policy_current(struct options *, const char *where, const char *text);
/* Return the sampling setting that the option sets, or SAMPLING_SETTINGS if it sets none. */
enum sampling_setting option_sampling(const struct option_def *);
/* 1 if the option, which is a number, also accepts "auto": a sampling setting, for which it means that the user has not
 * set it; and an option whose smallest value is -1, of which it is another name. */
int option_auto(const struct option_def *);
/* Find the option that has this name and that at least one of the commands takes; NULL = none. */
const struct option_def *option_find(const char *name, size_t len, command_set commands);
/* Return the option after d: the options of option_defs come first, then those of `more` (may be NULL). If d is NULL,
 * return the first option. Returns NULL at the end. */
const struct option_def *option_next(const struct option_def *d, const struct option_def *more);
/* Find an option by its name or letter, in option_defs and `more`; NULL = none. */
const struct option_def *option_find_more(const struct option_def *more, const char *name, size_t len,
                                          command_set commands);
const struct option_def *option_letter(const struct option_def *more, char letter, command_set commands);
/* Return the commands whose names begin with these words. `second` is NULL if only one word is known. *exact receives
 * the command with exactly this name, or NULL. */
command_set commands_named(const char *first, const char *second, const struct command_def **exact);
/* 1 if the option was on the command line. */
int option_said(const struct options *, const struct option_def *);
/* Move the ownership of all strings that *copy owns to *o, so that options_free(o) frees them. *copy was made from *o
 * earlier, and may own more strings by now. Do not free *copy afterwards. */
void options_take_back(struct options *o, const struct options *copy);
/* Copy n bytes of text into a string that is freed with the options. */
char *options_own(struct options *, const char *text, size_t n);
/* Append the option's value as text. */
void option_show(const struct options *, const struct option_def *, struct str *out);

/* Read the config file into the options. Called by options_parse(). A missing file is not an error. */
int config_read(struct options *, struct err *);
/* Set an option in the config file, and keep the other lines. `value` is text as for option_set(). *where receives the
 * path of the file. Returns 0, or -1 with the file unchanged. */
int config_save(const struct option_def *, const char *value, struct str *where, struct err *);

extern const char *const help_topics[]; /* ends with NULL */
/* Append the help that the options ask for: the overview, one command with its options, or a topic. The callback `keys`
 * appends the keys and commands of the full screen. */
void options_help(const struct options *, void (*keys)(struct str *out), struct str *out);
/* Append a line for each of these commands. */
void options_help_commands(command_set, struct str *out);

/* ---- parsing of a command line that may be unfinished or wrong (typed.c) ---- */

struct typed {
	/* the commands that the words so far may begin; CMD_CHAT if they begin no command */
	command_set commands;
	const struct command_def *at; /* the command that the words name; NULL if its second word is still missing */
	/* first word of a two-word command whose second word has not been read yet; else NULL */
	const char *group;
	const struct option_def *due; /* option that still needs its value, which is the next word; NULL = none */
	int words;                    /* number of words after the command's name */
	int help;                     /* 1 = the first word is "help", or there is --help */
};
void typed_read(struct typed *, const struct option_def *more, int n, char **word);
/* Find the option of a word "--NAME", "--NAME=VALUE" or "-L": first among the options of these commands, then among all
 * options. Returns NULL if there is none. */
const struct option_def *typed_option(const struct option_def *more, const char *word, command_set commands);

/* Run `weir completion SHELL`, which prints the script for a shell, or `weir __complete WORD ...`, which this script
 * runs. Both return the exit code. The callback `roles` sets *out to a list of the names of roles and returns their
 * number; the list and its strings are freed. If `roles` is NULL, there are no roles. */
int cmd_completion(const struct options *);
int completion_answer(const struct option_def *more, size_t (*roles)(char ***out), int n_words, char **word);

#endif
