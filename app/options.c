/* app/options.c - the tables of commands and options, and what reads them: command line, environment,
 * config file, help.
 *
 * A first word that names a command selects it; otherwise every word is a document.  Options may stand
 * before or after the words.  Each row says which commands take it, so that the same name may mean two
 * things in two commands (`--decode` is a flag of `inspect tokens` and a number in `bench`). */
#include "app/options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/app.h"
#include "app/tui.h"

const struct command_def command_defs[] = {
	{"", "[FILE ...]", "chat; every FILE becomes a document", CMD_CHAT, -1},
	{"read", "FILE|-", "read a text of any length; stop it, ask, read on", CMD_READ, 1},
	{"models", "", "list the models in the cache", CMD_MODELS, 0},
	{"inspect model", "[FILE.gguf]", "what a model file holds and what was recognised", CMD_INSPECT_MODEL, 1},
	{"inspect tokens", "[FILE]", "text to token ids, one a line", CMD_INSPECT_TOKENS, 1},
	{"inspect logits", "", "raw logits for given token ids", CMD_INSPECT_LOGITS, 0},
	{"inspect session", "NAME", "what is stored of a session, verified", CMD_INSPECT_SESSION, 1},
	{"eval ppl", "FILE ...", "perplexity of texts", CMD_EVAL_PPL, -1},
	{"eval recovery", "FILE ...", "how much of the attention a cache keeps", CMD_EVAL_RECOVERY, -1},
	{"eval ruler", "[DIR|FILE]", "find, follow and count things in long prompts", CMD_EVAL_RULER, 1},
	{"eval passkey", "[DIR]", "a number hidden in random words", CMD_EVAL_PASSKEY, 1},
	{"eval chain", "[DIR]", "a chain of keys out of a shuffled list", CMD_EVAL_CHAIN, 1},
	{"eval needle", "[DIR|FILE]", "one needle at every depth of a haystack", CMD_EVAL_NEEDLE, 1},
	{"eval plot", "FILE", "a picture of what tokens of a text look at, or of curves of perplexity", CMD_EVAL_PLOT, 1},
	{"sessions ls", "", "the sessions, the one used last first", CMD_SESSIONS_LS, 0},
	{"sessions show", "NAME", "what was said in a session", CMD_SESSIONS_SHOW, 1},
	{"sessions search", "WORD ...", "find words in everything that was said", CMD_SESSIONS_SEARCH, -1},
	{"sessions rename", "NAME NEW", "give a session another name", CMD_SESSIONS_RENAME, 2},
	{"sessions rm", "NAME ...", "delete sessions for good", CMD_SESSIONS_RM, -1},
	{"sessions export", "md|json|txt NAME", "a session as text on standard output", CMD_SESSIONS_EXPORT, 2},
	{"sessions gc", "", "free what nothing needs any more", CMD_SESSIONS_GC, 0},
	{"sessions check", "", "verify everything that is stored", CMD_SESSIONS_CHECK, 0},
	{"bench", "", "measure prefill and decode speed beside what the machine gives", CMD_BENCH, 0},
	{"doctor", "", "what was found on this machine", CMD_DOCTOR, 0},
	{"completion", "bash|zsh|fish", "what a shell needs to complete commands and options", CMD_COMPLETION, 1},
	{NULL, NULL, NULL, 0, 0},
};

#define TALK (CMD_CHAT | CMD_READ)
#define EVAL_TASKS (CMD_EVAL_RULER | CMD_EVAL_PASSKEY | CMD_EVAL_CHAIN | CMD_EVAL_NEEDLE)
#define EVAL_TEXTS (CMD_EVAL_PPL | CMD_EVAL_RECOVERY)
#define EVAL (EVAL_TEXTS | EVAL_TASKS | CMD_EVAL_PLOT)
#define WEIGHTS (TALK | CMD_INSPECT_LOGITS | EVAL | CMD_BENCH)
#define SESSIONS_LIST (CMD_SESSIONS_LS | CMD_SESSIONS_SEARCH)
#define ANY_MODEL (WEIGHTS | CMD_INSPECT_MODEL | CMD_INSPECT_TOKENS | CMD_DOCTOR | CMD_MODELS)
#define JSON_OUT (TALK | SESSIONS_LIST | CMD_INSPECT_MODEL | CMD_INSPECT_SESSION | EVAL | CMD_BENCH | CMD_DOCTOR)
#define AT(field) offsetof(struct options, field)
#define NUM_MAX 2147483647.0

const struct option_def option_defs[] = {
	{"model", 'm', OPT_TEXT, "FILE", "WEIR_MODEL", "the model, a GGUF file",
		ANY_MODEL, OPT_CONFIG, AT(model), 0, 0},
	{"ctx", 'c', OPT_INT, "N", "WEIR_CTX", "context in tokens (0: what the model was trained for, or less if memory asks)",
		WEIGHTS, OPT_CONFIG, AT(ctx), 0, NUM_MAX},
	{"predict", 'n', OPT_INT, "N", NULL, "longest answer in tokens (-1: until it ends or is as long as the context)",
		TALK, OPT_CONFIG | OPT_SET, AT(predict), -1, NUM_MAX},
	{"threads", 't', OPT_INT, "N", "WEIR_THREADS", "CPU threads (0: one a core)",
		WEIGHTS | CMD_DOCTOR, OPT_CONFIG, AT(threads), 0, 1024},
	{"device", 0, OPT_CHOICE, "auto|cpu|cuda", "WEIR_DEVICE", "what computes (auto: a GPU where there is one that fits)",
		WEIGHTS, OPT_CONFIG, AT(device), 0, 0},
	{"kv", 0, OPT_POLICY, "POLICY", "WEIR_KV", "what the cache keeps and reads, NAME:KEY=VALUE,...; --kv help lists all",
		WEIGHTS, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(kv), 0, 0},
	{"kv-type", 0, OPT_CHOICE, "f16|f32|bf16|q8_0", NULL, "numbers in the cache",
		WEIGHTS, OPT_CONFIG | OPT_KEPT, AT(kv_type), 0, 0},
	{"pre", 0, OPT_TEXT, "NAME", NULL, "pre-tokenizer to use instead of the file's",
		ANY_MODEL & ~(CMD_DOCTOR | CMD_MODELS), OPT_CONFIG, AT(pre), 0, 0},
	{"chat-template", 0, OPT_TEXT, "NAME", NULL, "template family to use instead of the file's",
		TALK | CMD_INSPECT_MODEL | EVAL_TASKS, OPT_CONFIG, AT(chat_template), 0, 0},
	{"check-tensors", 0, OPT_FLAG, NULL, NULL, "scan all weights for NaN and infinity before use",
		WEIGHTS | CMD_INSPECT_MODEL, OPT_CONFIG, AT(check_tensors), 0, 0},

	{"system", 0, OPT_TEXT, "TEXT", NULL, "system prompt",
		TALK, OPT_CONFIG, AT(system), 0, 0},
	{"seed", 0, OPT_SEED, "N", NULL, "start of the random numbers: equal seed and settings give equal tokens",
		TALK | EVAL_TASKS, OPT_CONFIG | OPT_SET, AT(seed), 0, 0},
	{"temp", 0, OPT_FLOAT, "X", NULL, "temperature; 0 takes the likeliest token",
		TALK, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(sampling.temperature), 0, 100},
	{"top-k", 0, OPT_INT, "N", NULL, "sample among the N likeliest tokens (0: all)",
		TALK, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(sampling.top_k), 0, NUM_MAX},
	{"top-p", 0, OPT_FLOAT, "X", NULL, "sample among the likeliest tokens that reach this share (1: all)",
		TALK, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(sampling.top_p), 0, 1},
	{"min-p", 0, OPT_FLOAT, "X", NULL, "leave out tokens below this share of the likeliest (0: none)",
		TALK, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(sampling.min_p), 0, 1},
	{"repeat-penalty", 0, OPT_FLOAT, "X", NULL, "divide the scores of recent tokens by X (1: off)",
		TALK, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(sampling.repeat_penalty), 0.01, 100},
	{"presence-penalty", 0, OPT_FLOAT, "X", NULL, "lower the scores of recent tokens by X (0: off)",
		TALK, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(sampling.presence_penalty), -100, 100},
	{"frequency-penalty", 0, OPT_FLOAT, "X", NULL, "lower the scores of recent tokens by X an occurrence (0: off)",
		TALK, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(sampling.frequency_penalty), -100, 100},

	{"think", 0, OPT_CHOICE, "auto|show|hide|off", NULL, "thoughts of models that think (auto: folded where someone reads along; off: none)",
		TALK, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(think), 0, 0},

	{"session", 's', OPT_TEXT, "NAME", NULL, "go on in this session, or begin it",
		TALK, 0, AT(session), 0, 0},
	{"continue", 0, OPT_FLAG, NULL, NULL, "go on in the session used last",
		TALK, 0, AT(go_on), 0, 0},
	{"private", 0, OPT_FLAG, NULL, NULL, "keep nothing of this talk on disk",
		TALK, OPT_CONFIG, AT(private_talk), 0, 0},
	{"prompt", 'p', OPT_TEXT, "TEXT", NULL, "one answer to TEXT, then exit; standard input is the document",
		TALK, 0, AT(prompt), 0, 0},
	{"line", 0, OPT_FLAG, NULL, NULL, "line mode, also where the terminal could show the full screen",
		TALK, OPT_CONFIG, AT(line), 0, 0},
	{"json", 0, OPT_FLAG, NULL, NULL, "JSON on standard output",
		JSON_OUT, 0, AT(json), 0, 0},
	{"raw", 0, OPT_FLAG, NULL, NULL, "do not filter the answer when it does not go to a terminal",
		TALK, 0, AT(raw), 0, 0},
	{"color", 0, OPT_CHOICE, "auto|always|never", "WEIR_COLOR", "colours (auto: on a terminal, and NO_COLOR is not set)",
		TALK, OPT_CONFIG, AT(color), 0, 0},

	{"special", 0, OPT_FLAG, NULL, NULL, "read and write control tokens by their names",
		CMD_INSPECT_TOKENS, 0, AT(special), 0, 0},
	{"bos", 0, OPT_FLAG, NULL, NULL, "begin with the BOS token",
		CMD_INSPECT_TOKENS, 0, AT(bos), 0, 0},
	{"decode", 0, OPT_FLAG, NULL, NULL, "the inverse: token ids to text",
		CMD_INSPECT_TOKENS, 0, AT(decode), 0, 0},
	{"tokens", 0, OPT_TEXT, "FILE", NULL, "token ids, white space between them (-: standard input)",
		CMD_INSPECT_LOGITS, 0, AT(token_file), 0, 0},
	{"out", 0, OPT_TEXT, "FILE", NULL, "where the logits go: little-endian f32 [tokens][vocabulary]",
		CMD_INSPECT_LOGITS, 0, AT(out), 0, 0},

	{"out", 0, OPT_TEXT, "FILE", NULL, "where the picture goes: a PNG, or a PPM when it is named so",
		CMD_EVAL_PLOT, 0, AT(out), 0, 0},
	{"layer", 0, OPT_INT, "N", NULL, "the layer that is drawn, from 0 (default: the middle one)",
		CMD_EVAL_PLOT, 0, AT(layer), 0, NUM_MAX},
	{"head", 0, OPT_INT, "N", NULL, "the KV head that is drawn, from 0 (default: the mean of all)",
		CMD_EVAL_PLOT, 0, AT(head), 0, NUM_MAX},
	{"tokens", 0, OPT_INT, "N", NULL, "use the first N tokens of the text",
		EVAL_TEXTS | CMD_EVAL_PLOT, 0, AT(tokens), 1, NUM_MAX},
	{"offset", 0, OPT_INT, "N", NULL, "leave out the first N tokens of the text",
		EVAL_TEXTS | CMD_EVAL_PLOT, 0, AT(offset), 0, NUM_MAX},
	{"window", 0, OPT_INT, "W", NULL, "full windows of W tokens, each from an empty cache",
		EVAL_TEXTS, 0, AT(window), 2, NUM_MAX},
	{"skip", 0, OPT_INT, "S", NULL, "score only tokens with index S and more, in each window (default 1)",
		CMD_EVAL_PPL, 0, AT(skip), 1, NUM_MAX},
	{"last", 0, OPT_INT, "N", NULL, "score only the last N tokens, one at a time after reading the others",
		EVAL_TEXTS, 0, AT(last), 1, NUM_MAX},
	{"curve", 0, OPT_INT, "N", NULL, "with --json, the sum of nll after every N tokens scored, too",
		CMD_EVAL_PPL, 0, AT(curve), 1, NUM_MAX},
	{"chunk", 0, OPT_INT, "N", NULL, "tokens read at once (default 512); what is kept whole does not depend on it",
		EVAL | CMD_BENCH, 0, AT(chunk), 1, 65536},
	{"tasks", 0, OPT_TEXT, "NAME,...", NULL, "which of the tasks (all when not given)",
		CMD_EVAL_RULER, 0, AT(tasks), 0, 0},
	{"len", 0, OPT_INT_LIST, "N,...", NULL, "lengths of prompt and answer in tokens (default 2048)",
		EVAL_TASKS, 0, AT(len), 64, NUM_MAX},
	{"samples", 0, OPT_INT, "N", NULL, "samples a task, or windows a text (default 20)",
		(EVAL_TASKS & ~CMD_EVAL_NEEDLE) | CMD_EVAL_RECOVERY, 0, AT(samples), 1, 100000},
	{"samples", 0, OPT_INT, "N", NULL, "samples at every length and depth (default 1)",
		CMD_EVAL_NEEDLE, 0, AT(each), 1, 10000},
	{"depths", 0, OPT_INT, "N", NULL, "depths, evenly from the beginning to the end (default 11)",
		CMD_EVAL_NEEDLE, 0, AT(depths), 2, 100},
	{"resume", 0, OPT_TEXT, "FILE", NULL, "keep what is finished in FILE, and take from it what is there",
		EVAL_TEXTS | EVAL_TASKS, 0, AT(resume), 0, 0},

	{"prefill", 0, OPT_INT_LIST, "N,...", NULL, "prompt lengths to measure (default 512)",
		CMD_BENCH, 0, AT(prefill), 1, NUM_MAX},
	{"decode", 0, OPT_INT, "N", NULL, "tokens a decode measurement takes (default 64)",
		CMD_BENCH, 0, AT(decode_steps), 1, NUM_MAX},
	{"depth", 0, OPT_INT_LIST, "N,...", NULL, "tokens already in the cache when decoding starts (default 0,2048)",
		CMD_BENCH, 0, AT(depth), 0, NUM_MAX},
	{"fill", 0, OPT_CHOICE, "read|random", NULL, "how the cache gets that deep: by reading a text, or with random rows",
		CMD_BENCH, 0, AT(fill), 0, 0},
	{"reps", 0, OPT_INT, "N", NULL, "repetitions; the median, the least and the most are shown (default 5)",
		CMD_BENCH, 0, AT(reps), 1, 1000},
	{"turns", 0, OPT_INT, "N", NULL, "compare: all policies at all depths decode in N turns; medians, and ratios within a turn",
		CMD_BENCH, 0, AT(turns), 1, 1000},

	{"limit", 0, OPT_INT, "N", NULL, "so many findings at most (default 20)",
		CMD_SESSIONS_SEARCH, 0, AT(limit), 1, 100000},

	{"quiet", 'q', OPT_FLAG, NULL, NULL, "no progress and no hints on standard error",
		~0u, OPT_CONFIG, AT(quiet), 0, 0},
	{"verbose", 'v', OPT_FLAG, NULL, NULL, "say more on standard error",
		~0u, OPT_CONFIG, AT(verbose), 0, 0},
	{"version", 0, OPT_FLAG, NULL, NULL, "print the version",
		~0u, 0, AT(version), 0, 0},
	{"help", 'h', OPT_FLAG, NULL, NULL, "print this help; after a command, its options",
		~0u, 0, AT(help), 0, 0},
	{NULL, 0, OPT_FLAG, NULL, NULL, NULL, 0, 0, 0, 0, 0},
};

/* ---- nearest word ---- */

#define WORD_MAX 40

/* Edit distance, counting swapped neighbours as one: what fingers do wrong. */
static int edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
	int d[WORD_MAX + 1][WORD_MAX + 1];

	if (na > WORD_MAX || nb > WORD_MAX)
		return WORD_MAX;
	for (size_t i = 0; i <= na; i++) {
		for (size_t j = 0; j <= nb; j++) {
			int best;
			if (!i || !j) {
				d[i][j] = (int)(i + j);
				continue;
			}
			best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	}
	return d[na][nb];
}

void nearest_init(struct nearest *n, const char *word, size_t len)
{
	/* A third of the letters may be wrong: more is another word. */
	*n = (struct nearest){.word = word, .len = len, .dist = len < 3 ? 2 : (int)len / 3 + 2};
}

void nearest_try(struct nearest *n, const char *candidate)
{
	int d = edit_distance(n->word, n->len, candidate, strlen(candidate));

	if (d < n->dist) {
		n->dist = d;
		n->best = candidate;
	}
}

/* ---- values ---- */

const struct option_def *option_find(const char *name, size_t len, unsigned commands)
{
	for (const struct option_def *d = option_defs; d->name; d++)
		if ((d->commands & commands) && strlen(d->name) == len && !memcmp(d->name, name, len))
			return d;
	return NULL;
}

static int parse_int(const char *text, double min, double max, int32_t *out)
{
	char *end;
	long long v;

	errno = 0;
	v = strtoll(text, &end, 10);
	if (end == text || *end || errno || (double)v < min || (double)v > max)
		return -1;
	*out = (int32_t)v;
	return 0;
}

void options_take_back(struct options *o, const struct options *copy)
{
	o->owned = copy->owned;
	o->n_owned = copy->n_owned;
}

int option_said(const struct options *o, const struct option_def *d)
{
	for (int i = 0; i < o->n_said; i++)
		if (o->said[i] == d)
			return 1;
	return 0;
}

static int bad_number(const struct option_def *d, const char *where, const char *value, struct err *e)
{
	if (d->max == NUM_MAX)
		return err_set(e, ERR_USAGE, "%s wants a number from %g up, not '%.60s'", where, d->min, value);
	return err_set(e, ERR_USAGE, "%s wants a number from %g to %g, not '%.60s'", where, d->min, d->max, value);
}

static int set_list(struct int_list *list, const struct option_def *d, const char *where, const char *value,
                    struct err *e)
{
	struct int_list got = {.n = 0};
	const char *p = value;

	for (;;) {
		size_t n = strcspn(p, ",");
		char item[16];
		if (got.n == LIST_MAX)
			return err_set(e, ERR_USAGE, "%s takes at most %d numbers", where, LIST_MAX);
		snprintf(item, sizeof item, "%.*s", n < sizeof item ? (int)n : 0, p);
		if (parse_int(item, d->min, d->max, &got.v[got.n++]) < 0)
			return err_set(e, ERR_USAGE, "%s wants numbers from %g up with commas between them, not '%.60s'",
			               where, d->min, value);
		if (!p[n])
			break;
		p += n + 1;
	}
	*list = got;
	return 0;
}

int option_set(struct options *o, const struct option_def *d, const char *where, const char *value, struct err *e)
{
	void *at = (char *)o + d->off;
	char *end;

	switch (d->type) {
	case OPT_FLAG:
		if (!value || !strcmp(value, "1") || !strcmp(value, "yes") || !strcmp(value, "true") || !strcmp(value, "on"))
			*(int *)at = 1;
		else if (!strcmp(value, "0") || !strcmp(value, "no") || !strcmp(value, "false") || !strcmp(value, "off"))
			*(int *)at = 0;
		else
			return err_set(e, ERR_USAGE, "%s is yes or no, not '%.60s'", where, value);
		return 0;
	case OPT_INT:
		if (parse_int(value, d->min, d->max, at) < 0)
			return bad_number(d, where, value, e);
		return 0;
	case OPT_INT_LIST:
		return set_list(at, d, where, value, e);
	case OPT_SEED: {
		unsigned long long v;
		errno = 0;
		v = strtoull(value, &end, 10);
		if (end == value || *end || errno || strchr(value, '-'))
			return err_set(e, ERR_USAGE, "%s wants a number from 0 to 18446744073709551615, not '%.60s'", where, value);
		*(uint64_t *)at = v;
		o->seed_set = 1;
		return 0;
	}
	case OPT_FLOAT: {
		double v;
		errno = 0;
		v = strtod(value, &end);
		if (end == value || *end || !isfinite(v) || v < d->min || v > d->max)
			return bad_number(d, where, value, e);
		*(float *)at = (float)v;
		return 0;
	}
	case OPT_TEXT:
		if (!*value && d->off == AT(model))
			return err_set(e, ERR_USAGE, "%s is empty", where);
		*(const char **)at = value;
		return 0;
	case OPT_POLICY: {
		struct err why = {0};
		if (kv_policy_check(value, &why) < 0)
			return err_set(e, ERR_USAGE, "%s: %.300s", where, why.msg);
		*(const char **)at = value;
		return 0;
	}
	case OPT_CHOICE:
		for (const char *p = d->arg;; ) {
			size_t n = strcspn(p, "|");
			if (strlen(value) == n && !memcmp(p, value, n)) {
				*(const char **)at = value;
				return 0;
			}
			if (!p[n])
				break;
			p += n + 1;
		}
		return err_set(e, ERR_USAGE, "%s has no '%.60s'; there is: %s", where, value, d->arg);
	}
	return 0;
}

void option_show(const struct options *o, const struct option_def *d, struct str *out)
{
	const void *at = (const char *)o + d->off;

	switch (d->type) {
	case OPT_FLAG:
		str_adds(out, *(const int *)at ? "yes" : "no");
		break;
	case OPT_INT:
		str_addf(out, "%d", *(const int32_t *)at);
		break;
	case OPT_SEED:
		if (o->seed_set)
			str_addf(out, "%llu", (unsigned long long)*(const uint64_t *)at);
		else
			str_adds(out, "random");
		break;
	case OPT_FLOAT:
		str_addf(out, "%g", (double)*(const float *)at);
		break;
	case OPT_TEXT:
	case OPT_CHOICE:
	case OPT_POLICY:
		str_adds(out, *(const char *const *)at ? *(const char *const *)at : "");
		break;
	case OPT_INT_LIST:
		for (int i = 0; i < ((const struct int_list *)at)->n; i++)
			str_addf(out, "%s%d", i ? "," : "", ((const struct int_list *)at)->v[i]);
		break;
	}
}

/* ---- environment and config file ---- */

static int read_environment(struct options *o, struct err *e)
{
	for (const struct option_def *d = option_defs; d->name; d++) {
		const char *value = d->env ? getenv(d->env) : NULL;
		char where[80];
		if (!value || !*value)
			continue;
		snprintf(where, sizeof where, "environment variable %s", d->env);
		if (option_set(o, d, where, value, e) < 0)
			return -1;
	}
	return 0;
}

char *options_own(struct options *o, const char *text, size_t n)
{
	o->owned = xrealloc(o->owned, (o->n_owned + 1) * sizeof *o->owned);
	return o->owned[o->n_owned++] = xstrndup(text, n);
}

static char *trim(char *s)
{
	size_t n;

	s += strspn(s, " \t\r\n");
	n = strlen(s);
	while (n && strchr(" \t\r\n", s[n - 1]))
		s[--n] = 0;
	return s;
}

/* `key = value` lines; `#` begins a comment line; quotes around a value keep its blanks. */
static int read_config(struct options *o, struct err *e)
{
	struct str path = {0};
	char *line = NULL, *key, *value;
	size_t cap = 0;
	int number = 0, rc = 0;
	FILE *f;

	path_config(&path, "config");
	f = fopen(path.p, "re");
	if (!f) {
		if (errno != ENOENT && errno != ENOTDIR)
			rc = err_set(e, ERR_USAGE, "cannot read config file '%.200s': %s", path.p, strerror(errno));
		str_free(&path);
		return rc;
	}
	while (!rc && getline(&line, &cap, f) >= 0) {
		const struct option_def *d;
		char where[300];
		size_t n;

		number++;
		key = trim(line);
		if (!*key || *key == '#')
			continue;
		value = strchr(key, '=');
		if (!value) {
			rc = err_set(e, ERR_USAGE, "config file '%.200s' line %d: no '=' in it; lines read KEY = VALUE",
			             path.p, number);
			break;
		}
		*value++ = 0;
		key = trim(key);
		value = trim(value);
		n = strlen(value);
		if (n >= 2 && value[0] == '"' && value[n - 1] == '"') {
			value[n - 1] = 0;
			value++;
		}
		for (d = option_defs; d->name; d++)
			if ((d->flags & OPT_CONFIG) && !strcmp(d->name, key))
				break;
		if (!d->name) {
			struct nearest near;
			nearest_init(&near, key, strlen(key));
			for (d = option_defs; d->name; d++)
				if (d->flags & OPT_CONFIG)
					nearest_try(&near, d->name);
			rc = err_set(e, ERR_USAGE, "config file '%.200s' line %d: unknown key '%.40s'%s%s%s", path.p, number,
			             key, near.best ? "; is it '" : "", near.best ? near.best : "", near.best ? "'?" : "");
			break;
		}
		snprintf(where, sizeof where, "config file '%.200s' line %d: '%s'", path.p, number, d->name);
		rc = option_set(o, d, where, options_own(o, value, strlen(value)), e);
	}
	if (!rc && ferror(f))
		rc = err_set(e, ERR_USAGE, "cannot read config file '%.200s': %s", path.p, strerror(EIO));
	free(line);
	fclose(f);
	str_free(&path);
	return rc;
}

/* ---- command line ---- */

/* A word that is no option of this command: say whose it is, or what it resembles. */
static int unknown_option(const char *word, size_t len, unsigned commands, struct err *e)
{
	const struct option_def *d = len > 2 && word[1] == '-' ? option_find(word + 2, len - 2, ~0u) : NULL;
	struct nearest near;

	if (d)
		for (const struct command_def *c = command_defs; c->name; c++)
			if (d->commands & c->id)
				return err_set(e, ERR_USAGE, "option '%.*s' belongs to 'weir%s%s'", (int)len, word,
				               *c->name ? " " : "", c->name);
	if (len > 60)
		len = 60;
	if (len < 3 || word[1] != '-')
		return err_set(e, ERR_USAGE, "unknown option '%.*s'; weir --help lists them", (int)len, word);
	nearest_init(&near, word + 2, len - 2);
	for (d = option_defs; d->name; d++)
		if (d->commands & commands)
			nearest_try(&near, d->name);
	if (near.best)
		return err_set(e, ERR_USAGE, "unknown option '%.*s'; is it '--%s'?", (int)len, word, near.best);
	return err_set(e, ERR_USAGE, "unknown option '%.*s'; weir --help lists them", (int)len, word);
}

/* The commands that begin with these words; *exact is the one that is these words. */
static unsigned commands_named(const char *first, const char *second, const struct command_def **exact)
{
	unsigned mask = 0;
	char name[64];
	size_t n;

	n = (size_t)snprintf(name, sizeof name, "%s%s%s", first, second ? " " : "", second ? second : "");
	*exact = NULL;
	if (n >= sizeof name || !n)
		return 0;
	for (const struct command_def *c = command_defs; c->name; c++) {
		if (!strcmp(c->name, name))
			*exact = c;
		if (!strncmp(c->name, name, n) && (!c->name[n] || c->name[n] == ' '))
			mask |= c->id;
	}
	return mask;
}

struct parser {
	struct options *o;
	const struct option_def **seen;   /* rows used, to be checked against the command at the end */
	int n_seen;
	unsigned commands;                /* what the words so far allow */
	const char *group;                /* first word of a two-word command, until its second comes */
	int chosen;                       /* a command was named, or the first word was a document */
	struct err *e;
};

static int take_option(struct parser *p, const struct option_def *d, const char *where, const char *value)
{
	p->seen[p->n_seen++] = d;
	if (d->type == OPT_POLICY && value && !strcmp(value, "help")) {
		p->o->help = p->o->help_kv = 1;
		return 0;
	}
	if (option_set(p->o, d, where, value, p->e) < 0)
		return -1;
	if (d->type == OPT_POLICY) {
		if (p->o->kvs.n == LIST_MAX)
			return err_set(p->e, ERR_USAGE, "%s stands more than %d times", where, LIST_MAX);
		p->o->kvs.v[p->o->kvs.n++] = value;
	}
	return 0;
}

static int take_word(struct parser *p, char *word)
{
	const struct command_def *exact;
	unsigned mask;

	if (p->group) {
		mask = commands_named(p->group, word, &exact);
		if (!exact) {
			struct str s = {0};
			for (const struct command_def *c = command_defs; c->name; c++)
				if (!strncmp(c->name, p->group, strlen(p->group)) && c->name[strlen(p->group)] == ' ')
					str_addf(&s, "%s%s", s.n ? ", " : "", c->name + strlen(p->group) + 1);
			err_set(p->e, ERR_USAGE, "unknown command '%s %.40s'; there is: %s", p->group, word, s.p);
			str_free(&s);
			return -1;
		}
		p->group = NULL;
		p->commands = exact->id;
		p->o->def = exact;
		return 0;
	}
	if (!p->chosen && !p->o->prompt) {
		mask = commands_named(word, NULL, &exact);
		if (mask) {
			p->chosen = 1;
			p->commands = mask;
			if (exact)
				p->o->def = exact;
			else
				p->group = word;
			return 0;
		}
	}
	p->chosen = 1;
	p->o->file[p->o->n_file++] = word;
	return 0;
}

static int take_long(struct parser *p, char *word, char *next, int *used_next)
{
	size_t n = strcspn(word, "=");
	unsigned mask = p->chosen ? p->commands : ~0u;
	const struct option_def *d = option_find(word + 2, n - 2, p->commands);
	const char *value = word[n] ? word + n + 1 : NULL;
	char where[80];

	/* Before the command's name is seen its options are not known to be wrong. */
	if (!d)
		d = option_find(word + 2, n - 2, mask);
	if (!d)
		return unknown_option(word, n, p->commands, p->e);
	snprintf(where, sizeof where, "option '--%s'", d->name);
	if (d->type == OPT_FLAG && value)
		return err_set(p->e, ERR_USAGE, "%s takes no value", where);
	if (d->type != OPT_FLAG && !value) {
		if (!next)
			return err_set(p->e, ERR_USAGE, "%s wants a value: %s", where, d->arg);
		value = next;
		*used_next = 1;
	}
	return take_option(p, d, where, value);
}

/* -n 4, -n4, -qv, -qn4 */
static int take_short(struct parser *p, char *word, char *next, int *used_next)
{
	for (char *k = word + 1; *k; k++) {
		const struct option_def *d;
		unsigned mask = p->chosen ? p->commands : ~0u;
		char where[80], key[3] = {'-', *k, 0};

		for (d = option_defs; d->name; d++)
			if (d->key == *k && (d->commands & mask))
				break;
		if (!d->name) {
			if ((unsigned char)*k < 0x80)
				return unknown_option(key, 2, p->commands, p->e);
			return unknown_option(word, strlen(word), p->commands, p->e);
		}
		snprintf(where, sizeof where, "option '-%c'", *k);
		if (d->type == OPT_FLAG) {
			if (take_option(p, d, where, NULL) < 0)
				return -1;
			continue;
		}
		if (k[1])
			return take_option(p, d, where, k + 1);
		if (!next)
			return err_set(p->e, ERR_USAGE, "%s wants a value: %s", where, d->arg);
		*used_next = 1;
		return take_option(p, d, where, next);
	}
	return 0;
}

static int parse_words(struct parser *p, int argc, char **argv)
{
	int only_words = 0;

	for (int i = 1; i < argc; i++) {
		char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
		int used_next = 0, rc;

		if (only_words || word[0] != '-' || !word[1])
			rc = take_word(p, word);
		else if (!strcmp(word, "--"))
			rc = 0, only_words = 1;
		else if (word[1] == '-')
			rc = take_long(p, word, next, &used_next);
		else
			rc = take_short(p, word, next, &used_next);
		if (rc < 0)
			return -1;
		i += used_next;
	}
	return 0;
}

static int parse_argv(struct options *o, int argc, char **argv, struct err *e)
{
	struct parser p = {.o = o, .commands = CMD_CHAT, .e = e};
	int rc;

	o->n_file = 0;
	o->def = &command_defs[0];
	/* One word may hold several short options: no more rows than characters. */
	{
		size_t n = 1;
		for (int i = 1; i < argc; i++)
			n += strlen(argv[i]) + 1;
		p.seen = xcalloc(n, sizeof *p.seen);
	}
	rc = parse_words(&p, argc, argv);
	o->command = o->def->id;
	if (!rc && p.group && !o->help)
		rc = err_set(e, ERR_USAGE, "'weir %s' wants a second word; weir %s --help lists them", p.group, p.group);
	if (!rc && p.group) {
		/* Help for a group: any of its commands stands for it. */
		for (const struct command_def *c = command_defs; c->name; c++)
			if (p.commands & c->id)
				o->def = c;
		o->command = p.commands;
	}
	for (int i = 0; !rc && i < p.n_seen; i++)
		if (!(p.seen[i]->commands & o->command)) {
			char name[48];
			snprintf(name, sizeof name, "--%s", p.seen[i]->name);
			rc = unknown_option(name, strlen(name), o->command, e);
		}
	if (!rc && !o->help && !o->version && o->def->max_files >= 0 && o->n_file > o->def->max_files)
		rc = err_set(e, ERR_USAGE, "'weir %s' does not know what to do with '%.60s'", o->def->name,
		             o->file[o->def->max_files]);
	free(o->said);
	o->said = p.seen;
	o->n_said = p.n_seen;
	return rc;
}

static void options_default(struct options *o, char **file)
{
	*o = (struct options){
		.command = CMD_CHAT, .def = command_defs, .device = "auto", .kv_type = "f16",
		.predict = -1, .sampling = sampling_default, .color = "auto", .think = "auto", .fill = "read", .skip = 1,
		.prefill = {{512}, 1}, .depth = {{0, 2048}, 2}, .decode_steps = 64, .reps = 5, .file = file,
		.len = {{2048}, 1}, .samples = 20, .depths = 11, .each = 1, .limit = 20, .layer = -1, .head = -1,
	};
}

int options_parse(struct options *o, int argc, char **argv, struct err *e)
{
	char **file = xcalloc((size_t)argc + 1, sizeof *file);

	/* Twice over argv: first to see --help and mistakes, then for good, over the weaker sources. */
	options_default(o, file);
	if (parse_argv(o, argc, argv, e) < 0)
		return -1;
	if (o->help || o->version)
		return 0;
	free(o->said);
	options_default(o, file);
	if (read_config(o, e) < 0 || read_environment(o, e) < 0)
		return -1;
	return parse_argv(o, argc, argv, e);
}

void options_free(struct options *o)
{
	for (size_t i = 0; i < o->n_owned; i++)
		free(o->owned[i]);
	free(o->owned);
	free(o->file);
	free(o->said);
	*o = (struct options){.n_owned = 0};
}

/* ---- help ---- */

#define HELP_WIDTH 80

/* text in a column that begins at indent, after what the line holds already. */
static void help_text(struct str *out, size_t indent, const char *text)
{
	size_t col = indent;

	for (const char *p = text; *p; ) {
		size_t n = strcspn(p, " ");
		if (col > indent && col + 1 + n > HELP_WIDTH) {
			str_addf(out, "\n%*s", (int)indent, "");
			col = indent;
		}
		str_addf(out, "%s%.*s", col > indent ? " " : "", (int)n, p);
		col += n + (col > indent);
		p += n + strspn(p + n, " ");
	}
	str_adds(out, "\n");
}

static void help_rows(struct str *out, unsigned commands, unsigned not_commands)
{
	struct options o;
	char *none[1];

	options_default(&o, none);
	for (const struct option_def *d = option_defs; d->name; d++) {
		struct str text = {0};
		char head[64];
		int n;
		if (!(d->commands & commands) || (d->commands & not_commands))
			continue;
		n = snprintf(head, sizeof head, "  %c%c%s--%s%s%s", d->key ? '-' : ' ', d->key ? d->key : ' ',
		             d->key ? ", " : "  ", d->name, d->arg ? " " : "", d->arg ? d->arg : "");
		if (n > 28)
			str_addf(out, "%s\n%-28s ", head, "");
		else
			str_addf(out, "%-28s ", head);
		str_adds(&text, d->help);
		if ((d->flags & OPT_SET) && (d->type == OPT_INT || d->type == OPT_FLOAT)) {
			str_adds(&text, "; default ");
			option_show(&o, d, &text);
		}
		if (d->env)
			str_addf(&text, " [%s]", d->env);
		help_text(out, 29, text.p);
		str_free(&text);
	}
}

static void help_command(const struct options *o, struct str *out)
{
	for (const struct command_def *c = command_defs; c->name; c++)
		if (c->id & o->command)
			str_addf(out, "weir %s [OPTIONS]%s%s\n    %s\n", c->name, *c->args ? " " : "", c->args, c->help);
	str_adds(out, "\noptions:\n");
	help_rows(out, o->command, 0);
}

/* The engine's own lines, broken where they are too long: what a name or a setting means goes on below its meaning. */
static void help_kv(struct str *out)
{
	struct str text = {0};

	str_adds(out, "--kv NAME or --kv NAME:KEY=VALUE,... with these names, keys and defaults:\n\n");
	kv_policy_help(&text);
	for (char *line = text.p; line && *line; ) {
		size_t n = strcspn(line, "\n"), lead = strspn(line, " "), name = strcspn(line + lead, " ") + lead;
		size_t meaning = name + strspn(line + name, " "), indent = lead > 2 ? 22 : 15;
		char *next = line + n + (line[n] != 0);

		line[n] = 0;
		str_addf(out, "%.*s%*s", (int)name, line, name < indent ? (int)(indent - name) : 1, "");
		help_text(out, indent, line + meaning);
		line = next;
	}
	str_free(&text);
}

void options_help(const struct options *o, struct str *out)
{
	if (o->help_kv || (o->command == CMD_CHAT && o->n_file == 1 && !strcmp(o->file[0], "kv"))) {
		help_kv(out);
		return;
	}
	if (o->command == CMD_CHAT && o->n_file == 1 && !strcmp(o->file[0], "keys")) {
		tui_help(out);
		return;
	}
	if (o->command != CMD_CHAT) {
		help_command(o, out);
		return;
	}
	str_adds(out, "weir: talk with a language model in the terminal\n\n"
	         "  weir [OPTIONS] [FILE ...]          chat; every FILE becomes a document\n"
	         "  weir -p TEXT [OPTIONS] [FILE ...]  one answer; cat FILE | weir -p TEXT\n"
	         "  ... | weir [OPTIONS]               one question a line, one answer each\n\n"
	         "commands:\n");
	for (const struct command_def *c = command_defs + 1; c->name; c++) {
		char head[64];
		snprintf(head, sizeof head, "weir %s%s%s", c->name, *c->args ? " " : "", c->args);
		str_addf(out, "  %-34s ", head);
		help_text(out, 37, c->help);
	}
	str_adds(out, "\noptions:\n");
	help_rows(out, CMD_CHAT | CMD_MODELS, 0);
	for (const struct command_def *c = command_defs + 1; c->name; c++) {
		size_t before;
		str_addf(out, "\nmore options of weir %s:\n", c->name);
		before = out->n;
		help_rows(out, c->id, CMD_CHAT | CMD_MODELS);   /* those of reading are the chat's */
		if (out->n == before) {   /* nothing of its own: take the heading back */
			out->n -= strlen(c->name) + strlen("\nmore options of weir :\n");
			out->p[out->n] = 0;
		}
	}
	str_adds(out, "\nkeys and commands: weir --help keys; cache policies: weir --help kv\n"
	         "config file: $XDG_CONFIG_HOME/weir/config, lines KEY = VALUE, long names above\n"
	         "exit codes: 0 ok, 1 failed, 2 usage, 3 model, 4 document, 5 no room, 130 stopped\n");
}
