/* app/chat/cmd_settings.c - the commands /system, /set, /think and /model. */
#include "app/chat/chat_private.h"
#include "app/remote/remote.h"
#include "app/models/models.h"
#include "engine/engine_machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LISTED = 20 };

void slash_system(struct chat *c, char *arg)
{
	if (!*arg) {
		notice(c, "%s",
		       !c->conv.has_system ? "[the system prompt is the template's own]"
		       : c->conv.system.n  ? c->conv.system.p
		                           : "[the system prompt is empty]");
		return;
	}
	conversation_system(&c->conv, strcmp(arg, "\"\"") ? arg : NULL);
	conversation_options_changed(&c->conv, 0);
	notice(c, "[system prompt %s; it holds from the start of the conversation%s]",
	       c->conv.has_system ? "set" : "back to the template's own",
	       c->conv.has_system && !c->conv.info->takes_system
	               ? ", in front of the first question: the model's template has no place for it"
	               : "");
}

const struct option_def *setting_find(const char *key)
{
	const struct option_def *d;

	/* Accept the names that other programs use: "n" means "predict", "temperature" means "temp", and "top_k" means
	 * "top-k". */
	char name[40];
	snprintf(name, sizeof name, "%s", !strcmp(key, "n") ? "predict" : !strcmp(key, "temperature") ? "temp" : key);
	for (char *p = name; *p; p++)
		if (*p == '_')
			*p = '-';
	d = option_find(name, strlen(name), CMD_CHAT);
	return d && (d->flags & OPT_SET) ? d : NULL;
}

/* Return the cache policy in the form in which /set shows it. */
static const char *policy_shown(const struct chat *c, const struct timeline_stats *st)
{
	return c->conv.tl ? st->kv : "(the server has its own cache)";
}

/* Show or change the cache policy. */
static void set_policy(struct chat *c, const char *where, const char *value)
{
	struct timeline_stats st;
	struct str s = { 0 };
	struct err e = { 0 };
	int32_t again;

	conversation_stats(&c->conv, &st);
	if (!strcmp(value, "help")) {
		kv_policy_help(&s);
		while (s.n && s.p[s.n - 1] == '\n')
			s.p[--s.n] = 0;
		notice(c, "%s", s.p);
	} else if (!*value) {
		notice(c, "kv %s", policy_shown(c, &st));
	} else if ((again = conversation_change_policy(&c->conv, where, value, &e)) < 0) {
		chat_error(c, &e);
		c->quit |= !conversation_is_open(&c->conv);
	} else {
		conversation_stats(&c->conv, &st);
		human_count(&s, (uint64_t)again);
		if (again)
			notice(c, "[cache %s; %s tokens will be recomputed before the next answer]", st.kv, s.p);
		else
			notice(c, "[cache %s]", st.kv);
	}
	str_free(&s);
}

/* Append the option's value for display. A sampling setting's value comes with its origin (the user, the model
 * file or the default). */
static void value_shown(const struct chat *c, const struct option_def *d, struct str *out)
{
	if (option_sampling(d) == SAMPLING_SETTINGS)
		option_show(&c->o, d, out);
	else
		sampling_show(&c->conv.sampled, option_sampling(d), out);
}

/* Append what the value means, where the option's help says it: "(auto: ...; 0: ...)". */
static void add_meaning(const struct option_def *d, const char *value, struct str *out)
{
	const char *p = strchr(d->help, '(');
	size_t n = strlen(value);

	while (p && (strncmp(p + 1, value, n) || p[1 + n] != ':'))
		p = strstr(p + 1, "; ") ? strstr(p + 1, "; ") + 1 : NULL;
	if (p)
		str_add(out, p + 1 + n, strcspn(p + 1 + n, ";)"));
}

static void list_settings(struct chat *c)
{
	struct timeline_stats st;
	struct str s = { 0 };
	size_t at;

	conversation_stats(&c->conv, &st);
	for (const struct option_def *d = option_defs; d->name; d++) {
		if (!(d->flags & OPT_SET))
			continue;
		str_addf(&s, "%s%-18s ", s.n ? "\n" : "", !strcmp(d->name, "predict") ? "n" : d->name);
		at = s.n;
		if (d->type == OPT_POLICY) {
			str_adds(&s, policy_shown(c, &st));
		} else {
			value_shown(c, d, &s);
			add_meaning(d, s.p + at, &s);
		}
	}
	notice(c, "%s", s.p);
	str_free(&s);
}

static void unknown_setting(struct chat *c, const char *key)
{
	struct nearest near;
	struct err e = { 0 };

	nearest_init(&near, key, strlen(key));
	for (const struct option_def *d = option_defs; d->name; d++)
		if (d->flags & OPT_SET)
			nearest_try(&near, d->name);
	nearest_try(&near, "temperature");
	if (near.best)
		err_set(&e, ERR_USAGE, "/set knows no '%.40s'; is it '%s'?", key, near.best);
	else
		err_set(&e, ERR_USAGE, "/set knows no '%.40s'; /set alone lists what there is", key);
	chat_error(c, &e);
}

/* Write the option's current value into the config file. */
static void save_option(struct chat *c, const struct option_def *d, const char *value)
{
	struct str path = { 0 };
	struct err e = { 0 };

	if (!(d->flags & OPT_CONFIG))
		err_set(&e, ERR_USAGE, "'%s' has no place in the config file", d->name);
	else if (!config_save(d, value, &path, &e))
		notice(c, "[%s = %s, also from now on: saved in %s]", d->name, value, path.p);
	if (e.code)
		chat_error(c, &e);
	str_free(&path);
}

/* 1 if the options name an encoder whose file does not exist; *e is then set. */
static int encoder_missing(const struct options *o, struct err *e)
{
	struct str path = { 0 };
	int found = encoder_path(o, &path, e);

	if (found > 0 && access(path.p, F_OK))
		found = err_set(e, ERR_MODEL, "cannot open '%.200s': %s", path.p, strerror(errno));
	str_free(&path);
	return found < 0;
}

/* Set the option. An encoder that does not exist is refused. Returns 0, or -1 with the old value unchanged. */
static int option_change(struct chat *c, const struct option_def *d, const char *where, const char *value,
                         struct err *e)
{
	const char *encoder = c->o.encoder;
	int rc, text = d->type == OPT_CHOICE || d->type == OPT_TEXT;

	rc = option_set(&c->o, d, where, text ? options_own(&c->o, value, strlen(value)) : value, e);
	if (rc >= 0 && c->o.encoder != encoder && encoder_missing(&c->o, e)) {
		c->o.encoder = encoder;
		rc = -1;
	}
	return rc;
}

/* Set the option; if value is empty, show it. `key` is the option's name as typed. If `save` is 1, write the value to
 * the config file, too. */
static void set_option(struct chat *c, const struct option_def *d, const char *key, const char *value, int save)
{
	const char *encoder = c->o.encoder;
	struct str s = { 0 };
	struct err e = { 0 };
	char where[60];

	snprintf(where, sizeof where, "/set %s", key);
	if (d->type == OPT_POLICY) {
		set_policy(c, where, value);
		conversation_options_changed(&c->conv, 0);
		if (save && *value && !kv_policy_check(value, NULL))
			save_option(c, d, value);
	} else if (!*value) {
		if (!save)
			value_shown(c, d, &s);
		else if (option_sampling(d) != SAMPLING_SETTINGS)
			sampling_value(&c->conv.sampled, option_sampling(d), &s);
		else
			option_show(&c->o, d, &s);
		if (save)
			save_option(c, d, str_text(&s));
		else
			notice(c, "%s %s: %s", key, str_text(&s), d->help);
	} else if (option_change(c, d, where, value, &e) < 0) {
		chat_error(c, &e);
	} else {
		conversation_options_changed(&c->conv, d->type == OPT_SEED);
		option_show(&c->o, d, &s);
		if (save) {
			save_option(c, d, str_text(&s));
		} else {
			if (!strcmp(value, "auto")) {
				str_clear(&s);
				value_shown(c, d, &s);
			}
			notice(c, "[%s %s]", key, str_text(&s));
		}
		if (c->o.encoder != encoder && c->interactive)
			chat_index(c, 0);
	}
	str_free(&s);
}

void chat_mouse(struct chat *c, int on)
{
	struct str path = { 0 };
	struct err e = { 0 };

	c->o.mouse = on ? "on" : "off";
	if (!c->o.private_talk && config_save(option_find("mouse", 5, CMD_CHAT), c->o.mouse, &path, &e) < 0)
		chat_error(c, &e);
	str_free(&path);
}

/* Remove the word "--save". Returns 1 if it was there. */
static int take_save(char *words)
{
	char *at = strstr(words, "--save");
	size_t n;

	if (!at || (at > words && !strchr(" \t", at[-1])) || !strchr(" \t", at[6]))
		return 0;
	n = 6 + strspn(at + 6, " \t");
	memmove(at, at + n, strlen(at + n) + 1);
	for (n = strlen(words); n && strchr(" \t", words[n - 1]);)
		words[--n] = 0;
	return 1;
}

void slash_set(struct chat *c, char *arg)
{
	const struct option_def *d;
	int save = take_save(arg);
	char *value = arg + strcspn(arg, " \t=");

	/* Accept ollama's spelling: /set parameter temperature 0.5. */
	if (value - arg == 9 && !strncmp(arg, "parameter", 9)) {
		arg = value + strspn(value, " \t");
		value = arg + strcspn(arg, " \t=");
	}
	if (!strcmp(arg, "verbose") || !strcmp(arg, "quiet")) {
		c->o.quiet = *arg == 'q';
		notice(c, c->o.quiet ? "[answer statistics off; /set verbose]" : "[answer statistics on; /set quiet]");
		return;
	}
	if (!*arg) {
		list_settings(c);
		return;
	}
	if (*value)
		*value++ = 0;
	value += strspn(value, " \t=");
	d = setting_find(arg);
	if (d)
		set_option(c, d, arg, value, save);
	else
		unknown_setting(c, arg);
}

/* ---- another model ---- */

/* Append the names of the models on this machine. */
static void list_models(struct str *out)
{
	struct model_file *file;
	size_t n = model_files(&file);

	for (size_t i = 0; i < n && i < LISTED; i++)
		str_addf(out, "%s%.80s", i ? ", " : "", file[i].name);
	if (n > LISTED)
		str_addf(out, " and %zu more", n - LISTED);
	model_files_free(file, n);
}

static void show_server(const struct chat *c, struct str *out)
{
	const struct engine_info *i = c->conv.info;
	struct str models = { 0 };

	str_addf(out, "model      %s\nserver     %s%s%s", i->name, i->device, *i->arch ? ", " : "", i->arch);
	conversation_server_models(&c->conv, &models);
	for (size_t k = 0; k < models.n; k++)
		if (models.p[k] == '\n')
			models.p[k] = ' ';
	if (models.n)
		str_addf(out, "\nit has     %.2000s", models.p);
	str_free(&models);
}

static void show_model(struct chat *c)
{
	const struct engine_info *i = c->conv.info;
	struct str s = { 0 }, others = { 0 };

	if (!c->conv.tl)
		show_server(c, &s);
	else
		str_addf(
			&s,
			"model      %s, %s, %s, %.0f million weights, trained for a context of %d tokens\nfile       %s",
			i->name, i->quant, i->arch, (double)i->n_params / 1e6, i->ctx_train, i->path);
	if (c->conv.tl && c->o.lora)
		str_addf(&s, "\nadapter    %s", c->o.lora);
	list_models(&others);
	if (others.n)
		str_addf(&s, "\nthere are  %s", others.p);
	if (c->conv.tl) {
		str_addf(&s, "\ngood for   %s\n", model_good_for(i));
		known_models_larger(i, engine_memory_free(), &s);
	}
	notice(c, "%s", s.p);
	str_free(&s);
	str_free(&others);
}

/* 1 if arg is "URL [NAME]", or the name of another model on the current server. Then *next is set to that server and
 * model. */
static int is_server(struct chat *c, char *arg, struct options *next)
{
	struct str models = { 0 };
	size_t n = strcspn(arg, " \t");
	const char *url = model_server(&c->o), *name = arg + n + strspn(arg + n, " \t");
	int known = 0;

	if (remote_is_address(arg)) {
		next->remote = options_own(&c->o, arg, n);
		next->served = *name ? options_own(&c->o, name, strlen(name)) : "";
		return 1;
	}
	conversation_server_models(&c->conv, &models);
	for (const char *p = str_text(&models); *p && !known; p += strcspn(p, "\n") + (p[strcspn(p, "\n")] != 0))
		known = strcspn(p, "\n") == strlen(arg) && !memcmp(p, arg, strlen(arg));
	str_free(&models);
	if (known) {
		next->remote = url;
		next->served = options_own(&c->o, arg, strlen(arg));
	}
	return known;
}

/* Return the path or name of a model: arg itself if a file has this name, else arg without quotes. The options own the
 * result. */
static char *find_model(struct chat *c, const char *arg)
{
	struct str path = { 0 };
	char *found;

	if (access(arg, F_OK))
		unquote(arg, &path);
	else
		str_adds(&path, arg);
	found = options_own(&c->o, str_text(&path), path.n);
	str_free(&path);
	return found;
}

/* Append the name of the model's file, or the name that the server gives its model. */
static void model_name(const struct chat *c, struct str *out)
{
	if (c->conv.tl)
		chat_model_name(c, out);
	else
		clean_line(c->conv.info->name, strlen(c->conv.info->name), out);
}

void slash_model(struct chat *c, char *arg)
{
	struct options next = c->o;
	struct str s = { 0 }, name = { 0 };
	struct err e = { 0 };
	int32_t again;

	if (!*arg) {
		show_model(c);
		return;
	}
	if (c->conv.grows) {
		err_set(&e, ERR_USAGE, "/model has to wait until a question has followed the text that is being read");
		chat_error(c, &e);
		return;
	}
	if (!is_server(c, arg, &next)) {
		next.remote = next.served = NULL;
		next.model = find_model(c, arg);
	}
	next.lora = NULL; /* do not use the adapter: it belongs to the previous model */
	c->front->progress(c, "loading the model", 0, 0);
	signals_work(1);
	again = conversation_change_model(&c->conv, &next, &e);
	signals_work(0);
	c->front->progress(c, "loading the model", -1, 0);
	if (again < 0) {
		chat_error(c, &e);
		if (conversation_is_open(&c->conv)) {
			model_name(c, &name);
			notice(c, "[the model is as before: %s]", str_text(&name));
			str_free(&name);
		}
		c->quit |= !conversation_is_open(&c->conv);
		return;
	}
	c->o.model = next.model;
	c->o.lora = next.lora;
	c->o.remote = next.remote;
	c->o.served = next.served;
	if (again)
		human_count(&s, (uint64_t)again);
	model_name(c, &name);
	notice(c, again ? "[model %s; %s tokens will be recomputed before the next answer]" : "[model %s]",
	       str_text(&name), s.p);
	str_free(&name);
	str_free(&s);
}

/* ---- reasoning ---- */

static int any_reasoning(const struct chat *c)
{
	if (c->conv.n_msg && (c->conv.info->thinks_first || c->conv.info->asked_thinks_first))
		return 1;
	for (size_t i = 0; i < c->conv.n_msg; i++)
		if (c->conv.msg[i].role == ROLE_ASSISTANT && c->conv.msg[i].text.n &&
		    reasoning_length(c->conv.msg[i].text.p, c->conv.msg[i].text.n))
			return 1;
	return 0;
}

static void say_reasoning(struct chat *c)
{
	const struct engine_info *i = c->conv.info;
	const char *how = c->o.think ? c->o.think : "auto";

	if (!strcmp(how, "off") && !i->think_switch)
		notice(c,
		       "[reasoning: off; but this model's template has no way to ask for that: its reasoning is folded]");
	else if (!strcmp(how, "off"))
		notice(c, "[reasoning: off, the model is asked to answer at once]");
	else if (!strcmp(how, "on"))
		notice(c, "[reasoning: on, the model is asked to reason, and that is %s]",
		       chat_hides(c) ? "folded" : "shown");
	else
		notice(c, "[reasoning: %s; /think show, hide or off]", chat_hides(c) ? "folded" : "shown");
}

void slash_think(struct chat *c, char *arg)
{
	static const struct {
		const char *word, *value;
	} words[] = {
		{ "on", "auto" }, { "off", "off" }, { "show", "show" }, { "hide", "hide" }, { "auto", "auto" },
	};
	const char *value = NULL;
	struct err e = { 0 };
	int hid = chat_hides(c);

	for (size_t i = 0; i < LEN(words); i++)
		if (!strcmp(arg, words[i].word))
			value = words[i].value;
	if (*arg && !value) {
		err_set(&e, ERR_USAGE, "/think wants on, off, show or hide, not '%.40s'", arg);
		chat_error(c, &e);
		return;
	}
	if (value) {
		/* If the template can ask the model to reason, the argument `on` makes the template ask. Otherwise `on`
		 * only undoes `off`, while `show` and `hide` stay in force. */
		if (!strcmp(arg, "on") && c->conv.info->think_ask)
			c->o.think = "on";
		else if (strcmp(arg, "on") != 0 || (c->o.think && !strcmp(c->o.think, "off")))
			c->o.think = value;
		conversation_options_changed(&c->conv, 0);
		if (hid != chat_hides(c) && any_reasoning(c))
			c->front->came_back(c);
	}
	say_reasoning(c);
}
