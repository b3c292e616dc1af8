/* tests/fuzz/fuzz_roles.c - libFuzzer target for roles and prompts, app/chat/roles.c and prompts.c: `make fuzz`, then
 * build/fuzz/fuzz_roles [CORPUS].
 *
 * The first line of an input is what follows the role's name, the rest is the file. A role that is refused leaves all
 * settings as they were. */
#include "app/chat/chat_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void must(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
	size_t n = line ? (size_t)(line - data) : size, left = line ? size - n - 1 : 0;
	struct chat c = { 0 };
	struct options before;
	struct str words = { 0 }, note = { 0 }, framed = { 0 };
	struct err e = { 0 };
	int fd = memfd_create("role", MFD_CLOEXEC);

	must(fd >= 0 && (!left || write(fd, line + 1, left) == (ssize_t)left));
	options_default(&c.o);
	before = c.o;
	str_addf(&words, "/proc/self/fd/%d ", fd);
	str_add(&words, data, n);
	if (role_apply(&c, words.p, 0, &note, &e)) {
		must(e.msg[0] != 0 && !c.frame.n && c.o.system == before.system);
		must(!memcmp(&c.o.sampling, &before.sampling, sizeof before.sampling));
	} else {
		must(note.n != 0);
		role_frame(&c, "message", 7, &framed);
	}
	close(fd);
	options_free(&c.o);
	str_free(&c.role);
	str_free(&c.frame);
	str_free(&words);
	str_free(&note);
	str_free(&framed);
	return 0;
}
