/* app/options/table.c - the tables of commands and options.
 *
 * Each option lists the commands that take it. Two options may have the same name and different meanings: `--decode` is
 * a flag of `inspect tokens` and a number in `bench`. */
#include "app/options/options.h"

#include <string.h>

/* clang-format off */
const struct command_def command_defs[] = {
	{"", "[FILE ...]", "chat; every FILE becomes a document", CMD_CHAT, -1},
	{"read", "FILE|-", "read a text of any length and format; pause it, ask, read on", CMD_READ, 1},
	{"tour", "", "two minutes that show what there is, on the screen", CMD_TOUR, 0},
	{"pull", "[NAME|ORG/REPO[:QUANT]]", "fetch a model; without a name: those to choose from", CMD_PULL, 1},
	{"models", "", "list the models on this machine, and those to fetch", CMD_MODELS, 0},
	{"models rm", "NAME ...", "delete models that weir has fetched", CMD_MODELS_RM, -1},
	{"inspect model", "[FILE.gguf]", "what a model file holds and what was recognised", CMD_INSPECT_MODEL, 1},
	{"inspect tokens", "[FILE]", "text to token ids, one a line", CMD_INSPECT_TOKENS, 1},
	{"inspect logits", "", "raw logits for given token ids", CMD_INSPECT_LOGITS, 0},
	{"inspect chat", "", "a conversation as the chat template renders it", CMD_INSPECT_CHAT, 0},
	{"inspect session", "NAME", "what is stored of a session, and whether it is whole", CMD_INSPECT_SESSION, 1},
	{"inspect document", "FILE", "the text of a document of any format, its pages and headings", CMD_INSPECT_DOCUMENT, 1},
	{"eval ppl", "FILE ...", "perplexity of texts", CMD_EVAL_PPL, -1},
	{"eval recovery", "FILE ...", "share of the attention mass that cache policies recover", CMD_EVAL_RECOVERY, -1},
	{"eval tune", "FILE ...", "which value of a policy's setting to take, by perplexity and what is read", CMD_EVAL_TUNE, -1},
	{"eval ruler", "[DIR|FILE]", "find, follow and count things in long prompts", CMD_EVAL_RULER, 1},
	{"eval passkey", "[DIR]", "a number hidden in random words", CMD_EVAL_PASSKEY, 1},
	{"eval chain", "[DIR]", "a chain of keys out of a shuffled list", CMD_EVAL_CHAIN, 1},
	{"eval needle", "[DIR|FILE]", "one needle at every depth of a haystack", CMD_EVAL_NEEDLE, 1},
	{"eval answers", "FILE ...", "questions with answers of your files: LongBench, GSM8K, MMLU, or any", CMD_EVAL_ANSWERS, -1},
	{"eval ask", "FILE ...", "questions about documents: what is found and what is answered", CMD_EVAL_ASK, -1},
	{"eval predictor", "train FILE ...", "train what the cache policy predict selects by", CMD_EVAL_PREDICTOR, -1},
	{"eval plot", "FILE", "the attention matrix as a picture, or how far back policies reach", CMD_EVAL_PLOT, 1},
	{"sessions ls", "", "the sessions, the one used last first", CMD_SESSIONS_LS, 0},
	{"sessions show", "NAME", "the messages of a session", CMD_SESSIONS_SHOW, 1},
	{"sessions search", "WORD ...", "find words in all messages", CMD_SESSIONS_SEARCH, -1},
	{"sessions rename", "NAME NEW", "give a session another name", CMD_SESSIONS_RENAME, 2},
	{"sessions rm", "NAME ...", "delete sessions for good", CMD_SESSIONS_RM, -1},
	{"sessions export", "md|json|txt NAME", "a session as text on standard output", CMD_SESSIONS_EXPORT, 2},
	{"sessions import", "FILE", "a session from what 'sessions export json' wrote; -: standard input", CMD_SESSIONS_IMPORT, 1},
	{"sessions gc", "", "free disk space that nothing uses any more", CMD_SESSIONS_GC, 0},
	{"sessions check", "", "verify everything that is stored", CMD_SESSIONS_CHECK, 0},
	{"verify", "SESSION", "compute every answer of a session again, and compare", CMD_VERIFY, 1},
	{"docs ls", "", "the documents that sessions have read, the newest first", CMD_DOCS_LS, 0},
	{"docs show", "NAME", "the text of a document", CMD_DOCS_SHOW, 1},
	{"docs search", "WORD ...", "find words in all documents", CMD_DOCS_SEARCH, -1},
	{"docs rm", "NAME ...", "delete documents for good, out of all sessions", CMD_DOCS_RM, -1},
	{"train", "FILE ...", "train a model further on texts: an adapter, or all weights", CMD_TRAIN, -1},
	{"bench", "", "measure prefill and decode speed against machine limits", CMD_BENCH, 0},
	{"doctor", "", "what was found on this machine", CMD_DOCTOR, 0},
	{"completion", "bash|zsh|fish", "what a shell needs to complete commands and options", CMD_COMPLETION, 1},
	{"help", "[COMMAND|TOPIC]", "what a command does, and its options; topics: options, commands, keys, kv", CMD_HELP, -1},
	{NULL, NULL, NULL, 0, 0},
};
/* clang-format on */

#define CHAT          (CMD_CHAT | CMD_READ | CMD_TOUR)
#define SAMPLED       (CHAT | CMD_EVAL_ASK)
#define EVAL          (EVAL_TEXTS | EVAL_TASKS | CMD_EVAL_PLOT | CMD_EVAL_ASK)
#define POLICIES      (CHAT | CMD_VERIFY | CMD_INSPECT_LOGITS | EVAL | CMD_BENCH)
#define WEIGHTS       (POLICIES | CMD_EVAL_PREDICTOR)
#define SESSIONS_LIST (CMD_SESSIONS_LS | CMD_SESSIONS_SEARCH | CMD_DOCS_LS | CMD_DOCS_SEARCH)
#define ANY_MODEL                                                                                                      \
	(WEIGHTS | CMD_TRAIN | CMD_INSPECT_MODEL | CMD_INSPECT_DOCUMENT | CMD_INSPECT_TOKENS | CMD_INSPECT_CHAT |      \
	 CMD_DOCTOR | CMD_MODELS)
#define JSON_OUT                                                                                                       \
	(CHAT | SESSIONS_LIST | CMD_INSPECT_MODEL | CMD_INSPECT_SESSION | CMD_INSPECT_DOCUMENT | EVAL |                \
	 CMD_EVAL_PREDICTOR | CMD_TRAIN | CMD_BENCH | CMD_DOCTOR | CMD_VERIFY)
#define AT(field) offsetof(struct options, field)

/* clang-format off */
const struct option_def option_defs[] = {
	{"model", 'm', OPT_TEXT, "FILE", "WEIR_MODEL", "the model: a GGUF file, a name of 'weir models', or a server's address (chat)",
		ANY_MODEL, OPT_CONFIG, AT(model), 0, 0},
	{"remote", 0, OPT_TEXT, "URL", NULL, "let the model of a server answer, by the OpenAI protocol; -m names it where the server has several",
		CMD_CHAT | CMD_DOCTOR, 0, AT(remote), 0, 0},
	{"key-file", 0, OPT_TEXT, "FILE", NULL, "the server's key, in a file that only you may read (else WEIR_API_KEY)",
		CMD_CHAT | CMD_DOCTOR, OPT_CONFIG, AT(key_file), 0, 0},
	{"insecure", 0, OPT_FLAG, NULL, NULL, "send the key also to another machine without encryption",
		CMD_CHAT | CMD_DOCTOR, 0, AT(insecure), 0, 0},
	{"timeout", 0, OPT_INT, "N", NULL, "seconds that a server may be silent (default 300)",
		CMD_CHAT | CMD_DOCTOR, OPT_CONFIG, AT(timeout), 1, 86400},
	{"ctx", 'c', OPT_INT, "N", "WEIR_CTX", "context in tokens (0: what the model was trained for, or less if memory asks)",
		POLICIES | CMD_PULL, OPT_CONFIG, AT(ctx), 0, INT32_MAX},
	{"predict", 'n', OPT_INT, "N", NULL, "longest answer in tokens (auto: until it ends or is as long as the context)",
		CHAT, OPT_CONFIG | OPT_SET, AT(predict), -1, INT32_MAX},
	{"threads", 't', OPT_INT, "N", "WEIR_THREADS", "CPU threads (0: one a core)",
		WEIGHTS | CMD_DOCTOR | CMD_PULL | CMD_TRAIN, OPT_CONFIG, AT(threads), 0, 1024},
	{"device", 0, OPT_CHOICE, "auto|cpu|cuda", "WEIR_DEVICE", "compute device (auto: GPU if the model fits; not yet run on a real GPU)",
		WEIGHTS | CMD_PULL, OPT_CONFIG, AT(device), 0, 0},
	{"kv", 0, OPT_POLICY, "POLICY", "WEIR_KV", "cache policy: the KV entries that are stored and read, NAME:KEY=VALUE,...; --kv help lists all",
		POLICIES | CMD_PULL, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(kv), 0, 0},
	{"kv-type", 0, OPT_KV_TYPE, "f16|f32|bf16|q8_0|q4_0|k=q8_0,v=q4_0", NULL, "element type of cached keys and values, or of each",
		WEIGHTS | CMD_PULL, OPT_CONFIG | OPT_KEPT, AT(kv_type), 0, 0},
	{"kv-memory", 0, OPT_SIZE, "SIZE", NULL, "memory for the KV cache, as 512M or 2G; the rest is kept on disk, or with a GPU in the machine's memory (0: no limit)",
		POLICIES | CMD_PULL, OPT_CONFIG, AT(kv_memory), 0, 0},
	{"read-share", 0, OPT_FLOAT, "X", NULL, "read long prompts faster, with a loss: each token reads blocks of earlier ones with this share of attention (1: all)",
		POLICIES, OPT_CONFIG | OPT_KEPT, AT(read_share), 0.01, 1},
	{"lora", 0, OPT_TEXT, "FILE[:SCALE]", NULL, "a LoRA adapter for the model, as GGUF; its changes count SCALE times (default 1)",
		WEIGHTS | CMD_INSPECT_MODEL, 0, AT(lora), 0, 0},
	{"pre", 0, OPT_TEXT, "NAME", NULL, "pre-tokenizer to use instead of the file's",
		ANY_MODEL & ~(CMD_DOCTOR | CMD_MODELS), OPT_CONFIG, AT(pre), 0, 0},
	{"chat-template", 0, OPT_TEXT, "NAME|FILE", NULL, "chat template to use instead of the model's: one built in (weir doctor lists them), another one of the model's, or a file",
		CHAT | CMD_INSPECT_MODEL | CMD_INSPECT_CHAT | EVAL_TASKS, OPT_CONFIG, AT(chat_template), 0, 0},
	{"check-tensors", 0, OPT_FLAG, NULL, NULL, "scan all weights for NaN and infinity before use",
		WEIGHTS | CMD_INSPECT_MODEL, OPT_CONFIG, AT(check_tensors), 0, 0},

	{"system", 0, OPT_TEXT, "TEXT", NULL, "system prompt",
		CHAT, OPT_CONFIG, AT(system), 0, 0},
	{"role", 'r', OPT_TEXT, "NAME [WORDS]", NULL, "take a role: its system prompt and settings, from the file NAME.md in the folder roles beside the config file, or of aichat's",
		CHAT, 0, AT(role), 0, 0},
	{"seed", 0, OPT_SEED, "N", NULL, "random seed: equal seed and settings give equal tokens",
		SAMPLED | EVAL_TASKS | CMD_EVAL_PREDICTOR | CMD_TRAIN, OPT_CONFIG | OPT_SET, AT(seed), 0, 0},
	{"temp", 0, OPT_FLOAT, "X", NULL, "temperature; 0 takes the likeliest token (auto, here and from top-k to frequency-penalty: as the model's file or makers advise)",
		SAMPLED, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(sampling.temperature), 0, 100},
	{"top-k", 0, OPT_INT, "N", NULL, "sample among the N likeliest tokens (0: all)",
		SAMPLED, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(sampling.top_k), 0, INT32_MAX},
	{"top-p", 0, OPT_FLOAT, "X", NULL, "sample among the likeliest tokens that reach this share (1: all)",
		SAMPLED, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(sampling.top_p), 0, 1},
	{"min-p", 0, OPT_FLOAT, "X", NULL, "leave out tokens below this share of the likeliest (0: none)",
		SAMPLED, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(sampling.min_p), 0, 1},
	{"repeat-penalty", 0, OPT_FLOAT, "X", NULL, "divide the scores of the answer's last 64 tokens by X (1: off)",
		SAMPLED, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(sampling.repeat_penalty), 0.01, 100},
	{"presence-penalty", 0, OPT_FLOAT, "X", NULL, "lower the scores of the answer's last 64 tokens by X (0: off)",
		SAMPLED, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(sampling.presence_penalty), -100, 100},
	{"frequency-penalty", 0, OPT_FLOAT, "X", NULL, "lower the scores of the answer's last 64 tokens by X an occurrence (0: off)",
		SAMPLED, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(sampling.frequency_penalty), -100, 100},

	{"surprise", 0, OPT_CHOICE, "off|on", NULL, "tint surprising sentences of a text that is read (slower)",
		CHAT, OPT_CONFIG | OPT_SET, AT(surprise), 0, 0},
	{"think", 0, OPT_CHOICE, "auto|on|show|hide|off", NULL, "reasoning: ask for it (on) or for none (off); show, hide; auto collapses it on a terminal",
		CHAT, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(think), 0, 0},

	{"docs", 0, OPT_CHOICE, "auto|whole|passages", NULL, "documents: read whole, or searched for passages; auto reads those that fit",
		CHAT, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(docs), 0, 0},
	{"passages", 0, OPT_INT, "N", NULL, "passages of documents that go with a question (auto: 1 for models below a billion parameters, else 3 to 10; 0: the best sentence alone)",
		CHAT, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(passages), -1, 50},
	{"encoder", 'e', OPT_TEXT, "auto|off|FILE", "WEIR_ENCODER", "search documents also by meaning, with a text encoder: a GGUF file, or a name of 'weir models' (auto: the one of 'make model', if it is there)",
		CHAT | CMD_DOCTOR | CMD_MODELS, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(encoder), 0, 0},
	{"ocr-lang", 0, OPT_TEXT, "auto|LANG", NULL, "languages of scanned pages and pictures, as tesseract names them: eng, deu+eng (auto: the document's, else English)",
		CHAT | CMD_INSPECT_DOCUMENT | CMD_EVAL_ASK, OPT_CONFIG | OPT_SET, AT(ocr_lang), 0, 0},
	{"sources", 0, OPT_CHOICE, "on|off", NULL, "number and show the passages that answer a question, and which the answer attended to",
		CHAT, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(sources), 0, 0},

	{"loops", 0, OPT_CHOICE, "stop|go", NULL, "an answer that only repeats itself is stopped, or goes on",
		CHAT, OPT_CONFIG | OPT_SET, AT(loops), 0, 0},
	{"speculate", 0, OPT_CHOICE, "on|off", NULL, "compute several guessed tokens in one step: the same answers, sooner (default on)",
		CHAT, OPT_CONFIG | OPT_SET, AT(speculate), 0, 0},
	{"recall", 0, OPT_CHOICE, "on|off", NULL, "bring back what was evicted where a question asks about it (default on)",
		CHAT, OPT_CONFIG | OPT_SET | OPT_KEPT, AT(recall), 0, 0},
	{"memory", 0, OPT_CHOICE, "off|on", NULL, "send facts that /remember has kept with questions that ask about them, in every conversation",
		CHAT, OPT_CONFIG | OPT_SET, AT(memory), 0, 0},

	{"theme", 0, OPT_CHOICE, "auto|dark|light|dusk|paper|mono", NULL, "screen: colours (auto: dusk or paper, as the terminal's background is)",
		CHAT, OPT_CONFIG | OPT_SET, AT(theme), 0, 0},
	{"mouse", 0, OPT_CHOICE, "on|off", NULL, "screen: clicks open sources and press keys, dragging copies text (Shift: the terminal selects); off: the terminal has the mouse",
		CHAT, OPT_CONFIG | OPT_SET, AT(mouse), 0, 0},
	{"panel", 0, OPT_CHOICE, "off|on", NULL, "screen: show the KV cache beside or below the transcript",
		CHAT, OPT_CONFIG | OPT_SET, AT(panel), 0, 0},
	{"answers", 0, OPT_CHOICE, "formatted|raw", NULL, "screen: answers as Markdown, or as they came",
		CHAT, OPT_CONFIG | OPT_SET, AT(answers), 0, 0},

	{"session", 's', OPT_TEXT, "NAME", NULL, "continue this session, or begin it (import: its name)",
		CHAT | CMD_SESSIONS_IMPORT, 0, AT(session), 0, 0},
	{"continue", 0, OPT_FLAG, NULL, NULL, "continue the session used last",
		CHAT, 0, AT(go_on), 0, 0},
	{"private", 0, OPT_FLAG, NULL, NULL, "store nothing of this conversation on disk",
		CHAT, OPT_CONFIG, AT(private_talk), 0, 0},
	{"prompt", 'p', OPT_TEXT, "TEXT", NULL, "one answer to TEXT, then exit; standard input is the document",
		CHAT, 0, AT(prompt), 0, 0},
	{"line", 0, OPT_FLAG, NULL, NULL, "line mode, also where the terminal could show the full screen",
		CHAT, OPT_CONFIG, AT(line), 0, 0},
	{"inline", 0, OPT_FLAG, NULL, NULL, "no full screen: the conversation stays in the terminal's own scrollback, below it the input line; /fullscreen changes it",
		CHAT, OPT_CONFIG, AT(inlined), 0, 0},
	{"each-line", 0, OPT_FLAG, NULL, NULL, "standard input is a question a line, not one text",
		CHAT, 0, AT(each_line), 0, 0},
	{"json", 0, OPT_FLAG, NULL, NULL, "JSON on standard output",
		JSON_OUT, 0, AT(json), 0, 0},
	{"raw", 0, OPT_FLAG, NULL, NULL, "do not filter the answer when it does not go to a terminal",
		CHAT, 0, AT(raw), 0, 0},
	{"color", 0, OPT_CHOICE, "auto|always|never", "WEIR_COLOR", "colours (auto: on a terminal, and NO_COLOR is not set)",
		CHAT, OPT_CONFIG, AT(color), 0, 0},

	{"special", 0, OPT_FLAG, NULL, NULL, "read and write control tokens by their names",
		CMD_INSPECT_TOKENS, 0, AT(special), 0, 0},
	{"bos", 0, OPT_FLAG, NULL, NULL, "begin with the BOS token",
		CMD_INSPECT_TOKENS, 0, AT(bos), 0, 0},
	{"decode", 0, OPT_FLAG, NULL, NULL, "the inverse: token ids to text",
		CMD_INSPECT_TOKENS, 0, AT(decode), 0, 0},
	{"tokens", 0, OPT_TEXT, "FILE", NULL, "token ids, white space between them (-: standard input)",
		CMD_INSPECT_LOGITS, 0, AT(token_file), 0, 0},
	{"messages", 0, OPT_TEXT, "FILE", NULL, "the conversation: a JSON list of {\"role\": TEXT, \"content\": TEXT} (-: standard input)",
		CMD_INSPECT_CHAT, 0, AT(messages), 0, 0},
	{"no-reply", 0, OPT_FLAG, NULL, NULL, "do not begin an answer after the last message",
		CMD_INSPECT_CHAT, 0, AT(no_reply), 0, 0},
	{"thinking", 0, OPT_CHOICE, "on|off", NULL, "tell the template whether to reason (default: tell it nothing)",
		CMD_INSPECT_CHAT, 0, AT(thinking), 0, 0},
	{"bos-text", 0, OPT_TEXT, "TEXT", NULL, "text of the BOS token instead of the model's",
		CMD_INSPECT_CHAT, 0, AT(bos_text), 0, 0},
	{"eos-text", 0, OPT_TEXT, "TEXT", NULL, "text of the EOS token instead of the model's",
		CMD_INSPECT_CHAT, 0, AT(eos_text), 0, 0},
	{"out", 0, OPT_TEXT, "FILE", NULL, "file for the logits: little-endian f32 [tokens][vocabulary]",
		CMD_INSPECT_LOGITS, 0, AT(out), 0, 0},

	{"chunk", 0, OPT_INT, "N", NULL, "tokens of a prefill chunk (default 512); a cache that evicts nothing gives the same results with any",
		(EVAL & ~CMD_EVAL_ASK) | CMD_EVAL_PREDICTOR | CMD_BENCH, 0, AT(chunk), 1, 65536},
	{"prefill", 0, OPT_INT_LIST, "N,...", NULL, "prompt lengths to measure (default 512)",
		CMD_BENCH, 0, AT(prefill), 1, INT32_MAX},
	{"decode", 0, OPT_INT, "N", NULL, "tokens a decode measurement takes (default 64)",
		CMD_BENCH, 0, AT(decode_steps), 1, INT32_MAX},
	{"depth", 0, OPT_INT_LIST, "N,...", NULL, "tokens already in the cache when decoding starts (default 0,2048)",
		CMD_BENCH, 0, AT(depth), 0, INT32_MAX},
	{"fill", 0, OPT_CHOICE, "read|random", NULL, "how the cache is filled: by reading a text, or with random KV entries",
		CMD_BENCH, 0, AT(fill), 0, 0},
	{"reps", 0, OPT_INT, "N", NULL, "repetitions; the median, the least and the most are shown (default 5)",
		CMD_BENCH, 0, AT(reps), 1, 1000},
	{"turns", 0, OPT_INT, "N", NULL, "compare: all policies at all depths decode in N turns; medians, and ratios within a turn",
		CMD_BENCH, 0, AT(turns), 1, 1000},

	{"limit", 0, OPT_INT, "N", NULL, "maximum results (default 20)",
		CMD_SESSIONS_SEARCH | CMD_DOCS_SEARCH, 0, AT(limit), 1, 100000},

	{"yes", 'y', OPT_FLAG, NULL, NULL, "do what would be asked first",
		CMD_PULL | CMD_MODELS_RM, 0, AT(yes), 0, 0},

	{"quiet", 'q', OPT_FLAG, NULL, NULL, "no progress and no hints on standard error",
		CMD_ALL, OPT_CONFIG, AT(quiet), 0, 0},
	{"verbose", 'v', OPT_FLAG, NULL, NULL, "say more on standard error",
		CMD_ALL, OPT_CONFIG, AT(verbose), 0, 0},
	{"version", 0, OPT_FLAG, NULL, NULL, "print the version; with -v also CPU levels and libraries",
		CMD_ALL, 0, AT(version), 0, 0},
	{"help", 'h', OPT_FLAG, NULL, NULL, "print the help of the command",
		CMD_ALL, 0, AT(help), 0, 0},
	{NULL, 0, OPT_FLAG, NULL, NULL, NULL, 0, 0, 0, 0, 0},
};
/* clang-format on */

void options_default(struct options *o)
{
	*o = (struct options){
		.command = CMD_CHAT,
		.def = command_defs,
		.device = "auto",
		.kv_type = "f16",
		.read_share = 1,
		.predict = -1,
		.sampling = sampling_default,
		.color = "auto",
		.surprise = "off",
		.think = "auto",
		.docs = "auto",
		.sources = "on",
		.encoder = "auto",
		.ocr_lang = "auto",
		.theme = "auto",
		.mouse = "on",
		.panel = "off",
		.answers = "formatted",
		.loops = "stop",
		.recall = "on",
		.memory = "off",
		.speculate = "on",
		.passages = -1,
		.fill = "read",
		.timeout = 300,
		.prefill = { { 512 }, 1 },
		.depth = { { 0, 2048 }, 2 },
		.decode_steps = 64,
		.reps = 5,
		.limit = 20,
	};
}

const struct option_def *option_next(const struct option_def *d, const struct option_def *more)
{
	d = d ? d + 1 : option_defs;
	if (d == &option_defs[LEN(option_defs) - 1])
		d = more;
	return d && d->name ? d : NULL;
}

const struct option_def *option_find(const char *name, size_t len, command_set commands)
{
	return option_find_more(NULL, name, len, commands);
}

const struct option_def *option_find_more(const struct option_def *more, const char *name, size_t len,
                                          command_set commands)
{
	for (const struct option_def *d = NULL; (d = option_next(d, more));)
		if ((d->commands & commands) && strlen(d->name) == len && !memcmp(d->name, name, len))
			return d;
	return NULL;
}
