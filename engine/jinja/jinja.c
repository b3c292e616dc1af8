/* engine/jinja/jinja.c - compiles a Jinja template and runs it (jinja.h). */
#include "engine/jinja/jinja_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- compiling ---- */

static int compile(struct jinja *t, const char *text, size_t n)
{
	struct lexed tokens = { .n = 0 };
	struct parser p = { .t = t, .w = &t->work };

	if (setjmp(t->work.back))
		return -1;
	jinja_lex(&t->work, text, n, &tokens);
	p.at = tokens.v;
	t->body = parse_template(&p);
	return 0;
}

int jinja_compile(struct jinja **out, const char *text, size_t n, struct err *e)
{
	struct jinja *t;

	if (n > JINJA_TEXT_MAX)
		return err_set(e, ERR_MODEL, "the chat template has %zu bytes, the limit is %d", n, JINJA_TEXT_MAX);
	t = xcalloc(1, sizeof *t);
	t->work = (struct work){ .cap = JINJA_MEMORY_MAX, .line = 1, .err = e };
	if (compile(t, text, n) < 0) {
		jinja_free(t);
		return -1;
	}
	t->work.err = NULL;
	*out = t;
	return 0;
}

void jinja_free(struct jinja *t)
{
	if (!t)
		return;
	work_free(&t->work);
	free(t);
}

/* ---- running ---- */

/* If the template uses this name, define it as a global variable. */
static void set_global(struct run *r, const char *name, struct value v)
{
	const char *known = jinja_name(r->t, name);

	if (known)
		scope_set(r, &r->root, known, v);
}

/* Return the list [{"type": "text", "text": text}], in which `text` is the argument. Templates of multimodal models
 * expect the text of a message in this form. */
static struct value parts_of(struct work *w, struct value text)
{
	struct value list = v_list(w, V_LIST, 1), part = v_dict(w, V_DICT);

	dict_set(w, part.dict, text_word(w, "type"), text_word(w, "text"));
	dict_set(w, part.dict, text_word(w, "text"), text);
	list_add(w, list, part);
	return list;
}

static void give_chat(struct run *r, const struct jinja_chat *c)
{
	struct work *w = &r->w;
	struct value all = v_list(w, V_LIST, c->n), role = text_word(w, "role"), content = text_word(w, "content");

	for (size_t i = 0; i < c->n; i++) {
		struct value m = v_dict(w, V_DICT);
		struct value text = text_value(w, c->m[i].text ? c->m[i].text : "", c->m[i].len, (int32_t)i);

		dict_set(w, m.dict, role, text_word(w, c->m[i].role));
		dict_set(w, m.dict, content, c->m[i].in_parts ? parts_of(w, text) : text);
		list_add(w, all, m);
	}
	set_global(r, "messages", all);
	set_global(r, "bos_token", text_word(w, c->bos));
	set_global(r, "eos_token", text_word(w, c->eos));
	set_global(r, "add_generation_prompt", v_bool(c->reply));
	/* Like the transformers library, always define these two variables. */
	set_global(r, "tools", v_none());
	set_global(r, "documents", v_none());
	if (c->thinking >= 0) {
		set_global(r, "enable_thinking", v_bool(c->thinking));
		set_global(r, "thinking", v_bool(c->thinking));
	}
}

static int run_chat(struct run *r, const struct jinja_chat *c)
{
	if (setjmp(r->w.back))
		return -1;
	give_chat(r, c);
	run_body(r, r->t->body);
	return 0;
}

int jinja_run(const struct jinja *t, const struct jinja_chat *c, void (*write)(void *, const struct jinja_piece *),
              void *ud, struct err *e)
{
	struct run *r = xcalloc(1, sizeof *r);
	size_t given = 0;
	int rc;

	for (size_t i = 0; i < c->n; i++)
		given += c->m[i].len;
	r->w = (struct work){ .cap = JINJA_MEMORY_MAX + 4 * given, .line = 1, .err = e };
	r->t = t;
	r->scope = &r->root;
	r->write = write;
	r->ud = ud;
	r->bytes_max = JINJA_OUTPUT_MAX + 4 * given;
	rc = run_chat(r, c);
	work_free(&r->w);
	free(r);
	return rc;
}
