/* app/main.c - the program weir: runs the command that the command line names. A second program, weir-lab, runs `weir
 * eval` and `weir train` (app/lab/main.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/line/line.h"
#include "app/models/models.h"
#include "app/start.h"
#include "app/tools/tools.h"
#include "app/tui/tui.h"
#include "kernels/os.h"

/* ---- weir-lab: the program beside this one ---- */

#define LAB "weir-lab"

#ifdef WEIR_STATIC
/* The static file contains weir-lab. */
static void lab_become(int argc, char **argv)
{
	exit(lab_main(argc, argv));
}
#else
/* Replace this process by weir-lab. After `make`, weir-lab is in the folder of this program; after `make install`, in
 * ../lib/weir. Returns only if weir-lab cannot be started. */
static void lab_become(int argc, char **argv)
{
	char dir[PATH_MAX], path[PATH_MAX];

	os_folder(dir);
	if (snprintf(path, sizeof path, "%s/" LAB, dir) < PATH_MAX)
		execv(path, argv);
	if (snprintf(path, sizeof path, "%s/../lib/weir/" LAB, dir) < PATH_MAX)
		execv(path, argv);
}
#endif

static int lab_missing(const char *command)
{
	char dir[PATH_MAX];
	struct err e = { 0 };

	os_folder(dir);
	err_set(&e, ERR_FAIL,
	        "'weir %s' is run by the program " LAB
	        ", which cannot be started from '%.200s' nor from ../lib/weir there; "
	        "install weir anew, or build it by 'make'",
	        command, dir);
	return fail(&e);
}

/* ---- the chat ---- */

/* If no model is installed, and a user at a terminal can answer, offer to download one. */
static int offer_model(struct options *o, struct err *e)
{
	struct str path = { 0 };
	int rc = 0;

	if (!o->model && !o->remote && !o->prompt && isatty(0) && isatty(2) &&
	    model_path(o, &path, &(struct err){ 0 }) < 0) {
		str_clear(&path);
		rc = pull_offer(o, &path, e);
		if (!rc)
			o->model = options_own(o, path.p, path.n);
		else if (e->code == ERR_CANCELLED)
			/* The error message tells how much was downloaded, and that the next pull continues the
			 * download. */
			say_error(e);
	}
	str_free(&path);
	return rc;
}

/* Run the chat in one of four ways: on the full screen, line by line, with questions from a pipe, or with the single
 * question of --prompt. */
static int cmd_chat(struct options *o)
{
	struct chat c = { .quit = 0 };
	struct str note = { 0 };
	struct err e = { 0 };
	int rc = 0;

	if (o->command == CMD_TOUR && !tui_wanted(o)) {
		err_set(&e, ERR_USAGE,
		        "the tour needs a terminal that shows a full screen; 'weir --help' and 'man weir' tell the same");
		return fail(&e);
	}
	if (tui_refuses_inline(o, &e) < 0)
		return fail(&e);
	if (offer_model(o, &e) < 0 || chat_open(&c, o, &note, &e) < 0)
		/* ERR_CANCELLED needs no error message, because the user has cancelled */
		rc = e.code != ERR_CANCELLED ? fail(&e) : signals_quit() ? 128 + signals_quit() : 130;
	else if (!c.o.prompt && tui_wanted(&c.o))
		rc = tui_run(&c, note.p);
	else
		rc = line_run(&c, note.p);
	chat_close(&c, o);
	str_free(&note);
	return rc;
}

static void weir_help(const struct options *o, struct str *out)
{
	options_help(o, tui_help, out);
}

static int weir_run(struct options *o)
{
	switch (o->command) {
	case CMD_CHAT:
	case CMD_TOUR:
	case CMD_READ: return cmd_chat(o);
	case CMD_MODELS: return cmd_models(o);
	case CMD_MODELS_RM: return cmd_models_rm(o);
	case CMD_PULL: return cmd_pull(o);
	case CMD_INSPECT_MODEL: return cmd_inspect_model(o);
	case CMD_INSPECT_TOKENS: return cmd_inspect_tokens(o);
	case CMD_INSPECT_LOGITS: return cmd_inspect_logits(o);
	case CMD_INSPECT_SESSION: return cmd_inspect_session(o);
	case CMD_INSPECT_DOCUMENT: return cmd_inspect_document(o);
	case CMD_INSPECT_CHAT: return cmd_inspect_chat(o);
	case CMD_BENCH: return cmd_bench(o);
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
	case CMD_DOCS_RM: return cmd_docs(o);
	case CMD_VERIFY: return cmd_verify(o);
	case CMD_DOCTOR: return cmd_doctor(o);
	case CMD_COMPLETION: return cmd_completion(o);
	}
	return 2;
}

int main(int argc, char **argv)
{
	int complete = argc > 1 && !strcmp(argv[1], "__complete"), first = 1 + complete;
	struct options o;
	struct typed t;

	/* for shell completion, ignore the last word: the user is still typing it */
	typed_read(&t, NULL, argc - first - complete, argv + first);
	if (t.commands & CMD_LAB) {
		lab_become(argc, argv);
		if (!complete && !t.help)
			return lab_missing(t.at ? t.at->name : t.group);
	}
	if (complete)
		return completion_answer(NULL, role_names, argc - first, argv + first);
	return program_run(argc, argv, &o, NULL, weir_help, weir_run);
}
