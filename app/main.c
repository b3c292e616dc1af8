/* app/main.c - start: descriptors, locale, signals, options; then the command. */
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/lab/lab.h"
#include "app/line/line.h"
#include "app/tools/tools.h"
#include "app/tui/tui.h"
#include "app/models/models.h"

/* A descriptor 0, 1 or 2 that the caller closed would be given to the next file we open, and answers would go
 * into it.  Fill the holes so that using them fails (input: is empty). */
static void fill_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			if (open("/dev/null", O_RDONLY) < 0)
				return;
}

/* Only characters: numbers keep their point and messages their language. */
static void set_locale(void)
{
	setlocale(LC_CTYPE, "");
	if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0 && setlocale(LC_CTYPE, "C.UTF-8"))
		setenv("LC_ALL", "C.UTF-8", 1);   /* readline looks there again */
}

/* A first start at a terminal, without a model: fetch one, if the user wants that. */
static int offer_model(struct options *o, struct err *e)
{
	struct str path = {0};
	int rc = 0;

	if (!o->model && !o->remote && !o->prompt && isatty(0) && isatty(2) && model_path(o, &path, &(struct err){0}) < 0) {
		str_clear(&path);
		rc = pull_offer(o, &path, e);
		if (!rc)
			o->model = options_own(o, path.p, path.n);
		else if (e->code == ERR_CANCELLED)
			say_error(e);   /* what is here, and that it continues */
	}
	str_free(&path);
	return rc;
}

/* On the screen, line by line, through a pipe, or one answer. */
static int cmd_chat(struct options *o)
{
	struct chat c = {.quit = 0};
	struct str note = {0};
	struct err e = {0};
	int rc = 0;

	if (o->command == CMD_TOUR && !tui_wanted(o)) {
		err_set(&e, ERR_USAGE, "the tour needs a terminal that shows a full screen; 'weir --help' and 'man weir' tell the same");
		return fail(&e);
	}
	if (offer_model(o, &e) < 0 || chat_open(&c, o, &note, &e) < 0)
		rc = e.code != ERR_CANCELLED ? fail(&e) : signals_quit() ? 128 + signals_quit() : 130;   /* whoever stopped it knows */
	else if (!c.o.prompt && tui_wanted(&c.o))
		rc = tui_run(&c, note.p);
	else
		rc = line_run(&c, note.p);
	chat_close(&c, o);
	str_free(&note);
	return rc;
}

/* A private conversation, or the key of a server. */
static int has_secrets(const struct options *o)
{
	return o->private_talk || o->key_file || getenv("WEIR_API_KEY") || o->command == CMD_PULL;
}

static int run(struct options *o)
{
	struct err e = {0};

	if (has_secrets(o))
		signals_leave_no_core();
	if (o->help || o->version) {
		struct str text = {0};
		int rc;
		if (o->help)
			options_help(o, tui_help, &text);
		else
			version_describe(o->verbose, &text);
		rc = print_all(text.p, text.n, &e) < 0 ? fail(&e) : 0;
		str_free(&text);
		return rc;
	}
	switch (o->command) {
	case CMD_CHAT:
	case CMD_TOUR:
	case CMD_READ:           return cmd_chat(o);
	case CMD_MODELS:         return cmd_models(o);
	case CMD_MODELS_RM:      return cmd_models_rm(o);
	case CMD_PULL:           return cmd_pull(o);
	case CMD_INSPECT_MODEL:  return cmd_inspect_model(o);
	case CMD_INSPECT_TOKENS: return cmd_inspect_tokens(o);
	case CMD_INSPECT_LOGITS: return cmd_inspect_logits(o);
	case CMD_INSPECT_SESSION: return cmd_inspect_session(o);
	case CMD_INSPECT_DOCUMENT: return cmd_inspect_document(o);
	case CMD_INSPECT_CHAT:   return cmd_inspect_chat(o);
	case CMD_EVAL_PPL:       return cmd_eval_ppl(o);
	case CMD_EVAL_ASK:       return cmd_eval_ask(o);
	case CMD_EVAL_PREDICTOR: return cmd_eval_predictor(o);
	case CMD_EVAL_PLOT:      return cmd_eval_plot(o);
	case CMD_EVAL_TUNE:      return cmd_eval_tune(o);
	case CMD_EVAL_RECOVERY:  return cmd_eval_recovery(o);
	case CMD_EVAL_RULER:
	case CMD_EVAL_PASSKEY:
	case CMD_EVAL_CHAIN:
	case CMD_EVAL_ANSWERS:
	case CMD_EVAL_NEEDLE:    return cmd_eval_tasks(o);
	case CMD_TRAIN:          return cmd_train(o);
	case CMD_BENCH:          return cmd_bench(o);
	case CMD_SESSIONS_LS:
	case CMD_SESSIONS_SHOW:
	case CMD_SESSIONS_SEARCH:
	case CMD_SESSIONS_RENAME:
	case CMD_SESSIONS_RM:
	case CMD_SESSIONS_EXPORT:
	case CMD_SESSIONS_IMPORT:
	case CMD_SESSIONS_GC:
	case CMD_SESSIONS_CHECK: return cmd_sessions(o);
	case CMD_DOCS_LS:
	case CMD_DOCS_SHOW:
	case CMD_DOCS_SEARCH:
	case CMD_DOCS_RM:        return cmd_docs(o);
	case CMD_DOCTOR:         return cmd_doctor(o);
	case CMD_COMPLETION:     return cmd_completion(o);
	}
	return 2;
}

/* A model file's reader in the jail first; what was found good is noted in "read-models" in the user's cache directory. */
static int read_model_first(const char *path, const struct options *o, struct err *e)
{
	struct str list = {0};
	int rc;

	if (!user_path(&list, DIR_CACHE, "read-models", NULL) && !o->private_talk)
		make_parents(list.p);
	rc = model_check(path, list.n ? list.p : NULL, !o->private_talk, e);
	str_free(&list);
	return rc;
}

int main(int argc, char **argv)
{
	struct options o = {.n_owned = 0};
	struct err e = {0};
	int rc = doc_helper(argc, argv);

	if (rc >= 0)
		return rc;
	fill_descriptors();
	set_locale();
	signals_init();
	model_first_reader = read_model_first;
	rc = options_parse(&o, argc, argv, &e) < 0 ? fail(&e) : run(&o);
	options_free(&o);
	return rc;
}
