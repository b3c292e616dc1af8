/* tests/fuzz/fuzz_chat.c - libFuzzer target: any bytes as a chat template, and as messages.
 *
 * 	make fuzz
 * 	mkdir -p corpus && build/fuzz/fuzz_chat -max_len=8192 -timeout=60 corpus build/fuzz/seeds/chat
 *
 * First byte from 128 on: the rest is a template to compile and run. Below 128: it chooses a built-in template, and the
 * rest is a conversation. */
#include "engine/template/chat.h"
#include "engine/token/token.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_text(const struct chat_text *t)
{
	size_t i, at = 0;
	for (i = 0; i < t->n_special; i++) {
		if (!t->special[i].len || t->special[i].off < at || t->special[i].len > t->text.n - t->special[i].off)
			abort();
		at = t->special[i].off + t->special[i].len;
	}
}

static void write_conversation(const struct chat_template *f, const char *p, size_t n)
{
	struct chat_msg m[8] = { 0 };
	struct chat_text t = { 0 };
	struct err e = { 0 };
	size_t k;

	for (k = 0; k < 8 && n; k++) {
		size_t len = n > 1 ? (unsigned char)p[0] % n : 0;
		m[k].role = (enum chat_role)((unsigned char)p[0] % 3);
		m[k].text = p + 1;
		m[k].len = len;
		p += 1 + len;
		n -= 1 + len;
	}
	if (chat_write(f, "<s>", "</s>", m, k, (unsigned)k & (REPLY_HEAD | REPLY_NO_THOUGHT), &t, NULL, &e)) {
		if ((e.code != ERR_USAGE && e.code != ERR_MODEL) || !*e.msg)
			abort();
	} else {
		check_text(&t);
	}
	chat_text_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct chat_template *builtin[64];
	static size_t count;
	struct chat_template *f;
	struct err e = { 0 };

	for (; count < 64 && chat_builtin_name(count); count++)
		if (chat_find(&builtin[count], NULL, chat_builtin_name(count), &e) < 0)
			abort();
	if (n < 2)
		return 0;
	if (*data < 128) {
		write_conversation(builtin[*data % count], (const char *)data + 1, n - 1);
	} else if (!chat_compile(&f, (const char *)data + 1, n - 1, &e)) {
		write_conversation(f, (const char *)data + 1, n - 1);
		chat_free(f);
	} else if (e.code != ERR_MODEL || !*e.msg) {
		abort();
	}
	return 0;
}
