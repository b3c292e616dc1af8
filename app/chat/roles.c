/* app/chat/roles.c - roles: a system prompt and settings in a file (weir -r NAME, /role NAME).
 *
 * A role is a file NAME.md in the folder `roles` beside the config file, or a role file of the program aichat. It is
 * Markdown, whose first lines may be settings between two lines of dashes. The text is the system prompt. If the text
 * has the word __INPUT__, it is instead a frame for each message. Placeholders are filled as in prompts (prompts.c). */
#include "app/chat/chat_private.h"
#include "app/models/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT "__INPUT__"

static const char *const folders[] = { "weir/roles", "aichat/roles" };

/* A role that is being applied. `note` lists the settings that were made, and `left` those that were left out. */
struct role {
	struct chat *c;
	int starting; /* 1 = the model is not open yet */
	struct str name, note, left;
};

/* Append an entry "key value" to a list. */
static void listed(struct str *out, const char *key, const char *value)
{
	str_addf(out, "%s%.60s%s%.60s", out->n ? ", " : "", key, *value ? " " : "", value);
}

/* ---- the file ---- */

/* Read the file of a role. `what` is the name of the role, or a path. */
static int role_read(const char *what, struct str *text, struct err *e)
{
	struct str path = { 0 };
	int rc, found = 0;

	if (strchr(what, '/')) {
		str_adds(&path, what);
		found = 1;
	}
	for (size_t i = 0; i < LEN(folders) && !found; i++)
		found = prompt_file(folders[i], what, strlen(what), &path);
	if (!found) {
		str_clear(&path);
		prompt_folder(folders[0], &path);
		rc = err_set(e, ERR_USAGE, "there is no role '%.60s': it would be the file %.200s/%.60s.md", what,
		             str_text(&path), what);
	} else {
		rc = read_whole(path.p, PROMPT_MOST, text, e);
	}
	str_free(&path);
	return rc;
}

/* Remove the quotes around a value, and the blanks at its end. */
static void value_trim(char *value)
{
	size_t n = strlen(value);

	while (n && strchr(" \t\r", value[n - 1]))
		value[--n] = 0;
	if (n >= 2 && strchr("\"'", value[0]) && value[n - 1] == value[0]) {
		value[n - 1] = 0;
		memmove(value, value + 1, n - 1);
	}
}

/* Use the model that a role names, if it is on this machine and the command line names no model. */
static void role_model(struct role *r, const char *value)
{
	const char *colon = strchr(value, ':');
	struct options *o = &r->c->o;
	struct str path = { 0 };
	struct err none = { 0 };

	if (!r->starting) {
		listed(&r->left, "model", value);
		str_adds(&r->left, " (/model takes one)");
	} else if (option_said(o, option_find("model", 5, CMD_CHAT))) {
		listed(&r->left, "model", value);
	} else if (!model_find(value, &path, &none) || (colon && !model_find(colon + 1, &path, &none))) {
		o->model = options_own(o, path.p, path.n);
		listed(&r->note, "model", value);
	} else {
		listed(&r->left, "model", value);
		str_adds(&r->left, ", which is not on this machine");
	}
	str_free(&path);
}

/* Apply a line KEY: VALUE of the settings. */
static int role_setting(struct role *r, const char *key, const char *value, struct err *e)
{
	const struct option_def *d = setting_find(key);
	struct options *o = &r->c->o;
	char where[120];

	if (!*value || !strcmp(value, "null") || !strcmp(value, "~"))
		return 0;
	if (!strcmp(key, "model")) {
		role_model(r, value);
		return 0;
	}
	/* A role may be a file from somebody else. So it may set only options that are stored with a session
	 * (OPT_KEPT). It cannot set "memory", for example. */
	if (!d || !(d->flags & OPT_KEPT) || d->type == OPT_POLICY || (r->starting && option_said(o, d))) {
		listed(&r->left, key, "");
		return 0;
	}
	snprintf(where, sizeof where, "role '%.40s': '%.40s'", r->name.p, key);
	listed(&r->note, d->name, value);
	return option_set(o, d, where, options_own(o, value, strlen(value)), e);
}

/* Apply the settings at the beginning of the text. Returns the offset of the text after them, or -1. */
static long role_settings(struct role *r, char *text, struct err *e)
{
	char *at = text + strspn(text, " \t\r\n"), *first, *end;

	if (strncmp(at, "---", 3) || at[strcspn(at, "\n")] != '\n' || strspn(at, "-\r") != strcspn(at, "\n"))
		return 0;
	first = at + strcspn(at, "\n") + 1;
	for (at = first; *at && strncmp(at, "---", 3); at += strcspn(at, "\n") + (at[strcspn(at, "\n")] != 0))
		;
	if (!*at)
		return err_set(e, ERR_USAGE, "role '%.60s': its settings have no line --- at their end", r->name.p);
	for (char *line = first; line < at; line = end + 1) {
		char *value;

		end = line + strcspn(line, "\n");
		*end = 0;
		value = strchr(line, ':');
		/* skip empty lines, comments, and lines that continue the value of the key above them */
		if (!value || strchr(" \t#-", *line))
			continue;
		*value++ = 0;
		value += strspn(value, " \t");
		value_trim(value);
		if (role_setting(r, line, value, e) < 0)
			return -1;
	}
	end = at + strcspn(at, "\n");
	end += *end != 0;
	return (long)(end + strspn(end, "\r\n") - text);
}

/* ---- applying ---- */

/* Apply the role's text, after its placeholders are filled. If the text contains __INPUT__, each message is sent inside
 * the text (chat.frame). Otherwise the text becomes the system prompt. */
static int role_text(struct role *r, const char *text, const char *args, struct err *e)
{
	struct chat *c = r->c;
	struct str filled = { 0 };
	struct err why = { 0 };
	int holes = prompt_fill(text, args, &filled, &why);

	while (filled.n && strchr(" \t\r\n", filled.p[filled.n - 1]))
		filled.p[--filled.n] = 0;
	if (holes < 0)
		err_set(e, why.code, "role '%.60s': %s", r->name.p, why.msg);
	else if (!holes && *args)
		err_set(e, ERR_USAGE, "role '%.60s' takes no words after it: it has no {{1}}", r->name.p);
	if (!e->code) {
		int frame = filled.n && strstr(filled.p, INPUT) != NULL;

		str_clear(&c->frame);
		if (frame)
			str_add(&c->frame, filled.p, filled.n);
		c->o.system = frame || !filled.n ? NULL : options_own(&c->o, filled.p, filled.n);
		if (frame)
			listed(&r->note, "its text frames each message", "");
		else if (filled.n)
			listed(&r->note, "system prompt set", "");
	}
	str_free(&filled);
	return e->code ? -1 : 0;
}

int role_apply(struct chat *c, const char *words, int starting, struct str *note, struct err *e)
{
	size_t n = strcspn(words, " \t");
	const char *args = words + n + strspn(words + n, " \t");
	struct role r = { .c = c, .starting = starting };
	struct options before = c->o;
	struct str text = { 0 };
	long at = -1;

	str_add(&r.name, words, n);
	if (!role_read(str_text(&r.name), &text, e)) {
		str_adds(&text, "");
		at = role_settings(&r, text.p, e);
	}
	if (at >= 0 && role_text(&r, text.p + at, args, e) == 0) {
		str_addf(note, "role '%.60s': %s%s%s", r.name.p, r.note.n ? r.note.p : "it is empty",
		         r.left.n ? "; left out: " : "", str_text(&r.left));
		str_clear(&c->role);
		str_add(&c->role, r.name.p, r.name.n);
	}
	if (e->code) { /* after an error, restore the earlier settings */
		before.owned = c->o.owned;
		before.n_owned = c->o.n_owned;
		c->o = before;
	}
	str_free(&text);
	str_free(&r.name);
	str_free(&r.note);
	str_free(&r.left);
	return e->code ? -1 : 0;
}

void role_frame(const struct chat *c, const char *text, size_t n, struct str *out)
{
	const char *at = str_text(&c->frame), *hole;

	for (; (hole = strstr(at, INPUT)); at = hole + strlen(INPUT)) {
		str_add(out, at, (size_t)(hole - at));
		str_add(out, text, n);
	}
	str_adds(out, at);
}

/* ---- /role ---- */

size_t role_names(char ***out)
{
	size_t n = 0;

	*out = NULL;
	for (size_t i = 0; i < LEN(folders); i++)
		n = prompt_names(folders[i], "", out, n);
	return n;
}

static void show_roles(struct chat *c)
{
	struct str s = { 0 }, path = { 0 };
	char **name;
	size_t n = role_names(&name);

	for (size_t i = 0; i < n; i++)
		str_addf(&s, "%s%s", i ? ", " : "; there are ", name[i]);
	if (!n && !prompt_folder(folders[0], &path))
		str_addf(&s, "; a file %s/NAME.md is one", path.p);
	notice(c, "[%s%s%s%s]", c->role.n ? "role '" : "no role", str_text(&c->role), c->role.n ? "'; /role off" : "",
	       str_text(&s));
	user_prompts_free(name, n);
	str_free(&s);
	str_free(&path);
}

void slash_role(struct chat *c, char *arg)
{
	struct str note = { 0 };
	struct err e = { 0 };

	if (!*arg) {
		show_roles(c);
		return;
	}
	if (!strcmp(arg, "off")) {
		c->o.system = NULL;
		str_clear(&c->frame);
		str_clear(&c->role);
		str_adds(&note, "no role; the system prompt is the template's own");
	} else if (role_apply(c, arg, 0, &note, &e) < 0) {
		chat_error(c, &e);
	}
	if (!e.code) {
		conversation_system(&c->conv, c->o.system);
		conversation_options_changed(&c->conv, 0);
		notice(c, "[%s]", note.p);
	}
	str_free(&note);
}
