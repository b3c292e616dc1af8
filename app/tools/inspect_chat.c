/* app/tools/inspect_chat.c - weir inspect chat: prints a conversation as the chat template renders it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/tools/tools.h"
#include "ui/text/text.h"
#include "engine/base/json.h"
#include "app/models/models.h"

enum { MESSAGES_MAX = 64 << 20 }; /* maximum size of the file in bytes */

struct conversation_file {
	struct chat_msg *m;
	char **role;
	struct str *text; /* [n] contents of the messages */
	size_t n, cap;
};

static void file_free(struct conversation_file *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->role[i]);
		str_free(&f->text[i]);
	}
	free(f->m);
	free(f->role);
	free(f->text);
}

/* Append the content of a message. The content is a string, null, or a list; of a list, only the parts of type "text"
 * are appended. */
static int read_content(struct jv v, struct str *out)
{
	struct jv it = { 0 };

	str_adds(out, "");
	if (!v.p || !strncmp(v.p, "null", 4) || !jv_text(v, out))
		return 0;
	if (*v.p != '[')
		return -1;
	while (jv_next(v, &it, NULL))
		if (jv_is(jv_get(it, "type"), "text") && jv_text(jv_get(it, "text"), out) < 0)
			return -1;
	return 0;
}

static int add_message(struct conversation_file *f, struct jv entry)
{
	struct str role = { 0 };
	struct chat_msg *m;

	if (f->n == f->cap) {
		f->cap = f->cap ? 2 * f->cap : 16;
		f->m = xrealloc(f->m, f->cap * sizeof *f->m);
		f->role = xrealloc(f->role, f->cap * sizeof *f->role);
		f->text = xrealloc(f->text, f->cap * sizeof *f->text);
	}
	if (jv_text(jv_get(entry, "role"), &role) < 0 || !role.n || memchr(role.p, 0, role.n)) {
		str_free(&role);
		return -1;
	}
	f->text[f->n] = (struct str){ 0 };
	f->role[f->n] = role.p;
	m = &f->m[f->n];
	*m = (struct chat_msg){ .role = !strcmp(role.p, "system")      ? ROLE_SYSTEM
		                        : !strcmp(role.p, "assistant") ? ROLE_ASSISTANT
		                                                       : ROLE_USER,
		                .role_name = role.p };
	f->n++;
	return read_content(jv_get(entry, "content"), &f->text[f->n - 1]);
}

static int read_messages(const struct options *o, struct conversation_file *f, struct err *e)
{
	struct str text = { 0 };
	struct jv list, it = { 0 };
	int rc = read_whole(o->messages, MESSAGES_MAX, &text, e);

	if (rc)
		return -1;
	list = jv_parse(str_text(&text), text.n);
	if (!list.p || *list.p != '[')
		rc = err_set(e, ERR_USAGE,
		             "'%.200s' is no JSON list of messages: [{\"role\": TEXT, \"content\": TEXT}, ...]",
		             o->messages);
	while (!rc && jv_next(list, &it, NULL))
		if (add_message(f, it))
			rc = err_set(e, ERR_USAGE,
			             "'%.200s': message %zu has no \"role\" or a \"content\" that is no text",
			             o->messages, f->n + 1);
	for (size_t i = 0; i < f->n; i++) {
		f->m[i].text = f->text[i].p;
		f->m[i].len = f->text[i].n;
	}
	str_free(&text);
	return rc;
}

int cmd_inspect_chat(const struct options *o)
{
	struct engine *engine;
	struct conversation_file f = { 0 };
	struct str out = { 0 };
	struct err e = { 0 };
	unsigned flags = o->no_reply ? 0 : REPLY_HEAD;
	int rc;

	if (!o->messages) {
		err_set(&e, ERR_USAGE,
		        "'weir inspect chat' wants --messages FILE, a JSON list of {\"role\": TEXT, \"content\": TEXT}");
		return fail(&e);
	}
	if (o->thinking)
		flags |= !strcmp(o->thinking, "on") ? REPLY_THOUGHT : REPLY_NO_THOUGHT;
	if (model_open(&engine, o, MODEL_VOCAB, &e) < 0)
		return fail(&e);
	rc = read_messages(o, &f, &e);
	if (!rc && engine_render_text(engine, f.m, f.n, flags, o->bos_text, o->eos_text, &out, &e) < 0) {
		/* the exit code is that of ERR_MODEL, even if the error comes from the template, which has refused the
		 * conversation */
		e.code = ERR_MODEL;
		rc = -1;
	}
	/* a file gets the exact bytes, a terminal gets filtered text */
	if (!rc && isatty(1)) {
		struct str raw = out;
		struct clean clean;
		out = (struct str){ 0 };
		clean_init(&clean, 0);
		clean_text(&clean, str_text(&raw), raw.n, &out);
		clean_end(&clean, &out);
		str_free(&raw);
	}
	if (!rc)
		rc = print_all(str_text(&out), out.n, &e);
	rc = rc < 0 ? fail(&e) : 0;
	file_free(&f);
	str_free(&out);
	engine_close(engine);
	return rc;
}
