/* app/start.c - starts a program: opens /dev/null for standard descriptors that are closed, sets locale and
 * signals, parses options. */
#include "app/start.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "app/models/models.h"
#include "app/tools/tools.h"

/* Open /dev/null for each of the descriptors 0 to 2 that is closed. Otherwise the next file that is opened would get
 * one of these numbers, and answers would be written into it. /dev/null is opened read-only, so that writing an answer
 * to it fails. */
static void fill_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			if (open("/dev/null", O_RDONLY) < 0)
				return;
}

/* Set LC_CTYPE to a UTF-8 locale, and nothing else: numbers keep the decimal point, and messages stay in English. */
static void set_locale(void)
{
	setlocale(LC_CTYPE, "");
	if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0 && setlocale(LC_CTYPE, "C.UTF-8"))
		setenv("LC_ALL", "C.UTF-8", 1); /* readline sets the locale from the environment again */
}

/* 1 if memory will contain secrets, so that core dumps must be disabled. Secrets are a private conversation and an
 * access key. */
static int has_secrets(const struct options *o)
{
	return o->private_talk || o->key_file || getenv("WEIR_API_KEY") || o->command == CMD_PULL;
}

/* Parse an untrusted model file in a sandboxed process before this process opens it. Files that passed are listed in
 * the file "read-models" in the user's cache folder, and not checked again. Returns 0 or -1. */
static int read_model_first(const char *path, const struct options *o, struct err *e)
{
	struct str list = { 0 };
	int rc;

	if (!user_path(&list, DIR_CACHE, "read-models", NULL) && !o->private_talk)
		make_parents(list.p);
	rc = model_check(path, list.n ? list.p : NULL, !o->private_talk, e);
	str_free(&list);
	return rc;
}

static int program_answer(struct options *o, void (*help)(const struct options *, struct str *),
                          int (*run)(struct options *))
{
	struct str text = { 0 };
	struct err e = { 0 };
	int rc;

	if (has_secrets(o))
		signals_leave_no_core();
	if (!o->help && !o->version)
		return run(o);
	if (o->help)
		help(o, &text);
	else
		version_describe(o->verbose, &text);
	rc = print_all(text.p, text.n, &e) < 0 ? fail(&e) : 0;
	str_free(&text);
	return rc;
}

int program_run(int argc, char **argv, struct options *o, const struct option_def *more,
                void (*help)(const struct options *, struct str *out), int (*run)(struct options *))
{
	struct err e = { 0 };
	int rc = doc_helper(argc, argv);

	if (rc >= 0)
		return rc;
	fill_descriptors();
	set_locale();
	signals_init();
	model_precheck = read_model_first;
	rc = options_parse_more(o, more, argc, argv, &e) < 0 ? fail(&e) : program_answer(o, help, run);
	options_free(o);
	return rc;
}
