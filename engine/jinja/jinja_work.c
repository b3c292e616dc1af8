/* engine/jinja/jinja_work.c - memory, bounds and failure of the Jinja interpreter, and the names of a template. */
#include "engine/jinja/jinja_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

enum { CHUNK = 32 << 10 }; /* size of a chunk in bytes; a larger request gets a chunk of its own */
struct chunk {
	struct chunk *next;
	size_t used, size;
	max_align_t byte[];
};

void *work_alloc(struct work *w, size_t n)
{
	size_t need = (n + 15) / 16 * 16, size;

	if (n > w->cap || need > w->cap - w->used)
		jinja_fail(w, "more than %s bytes of memory are needed", count_text(w->cap).s);
	if (!w->chunk || w->chunk->size - w->chunk->used < need) {
		struct chunk *c;

		size = MAX(need, CHUNK);
		c = calloc(1, sizeof *c + size);
		if (!c)
			jinja_fail(w, "there is no memory for %zu bytes", size);
		c->size = size;
		c->next = w->chunk;
		w->chunk = c;
	}
	w->chunk->used += need;
	w->used += need;
	return (char *)w->chunk->byte + w->chunk->used - need;
}

void *work_array(struct work *w, size_t n, size_t size)
{
	uint64_t bytes;

	if (size_mul(n, size, &bytes) < 0 || bytes > w->cap)
		bytes = w->cap + 1;
	return work_alloc(w, bytes);
}

void *work_grow(struct work *w, void *v, size_t n, size_t *cap, size_t size)
{
	void *larger;

	if (n < *cap)
		return v;
	*cap = *cap ? 2 * *cap : 8;
	larger = work_array(w, *cap, size);
	if (n)
		memcpy(larger, v, n * size);
	return larger;
}

char *work_copy(struct work *w, const char *p, size_t n)
{
	char *s = work_alloc(w, n + 1);

	if (n)
		memcpy(s, p, n);
	return s;
}

void work_free(struct work *w)
{
	while (w->chunk) {
		struct chunk *next = w->chunk->next;

		free(w->chunk);
		w->chunk = next;
	}
}

/* ---- bounds and failure ---- */

void jinja_fail(struct work *w, const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	err_set(w->err, ERR_MODEL,
	        "the chat template fails in line %d: %s; --chat-template takes another (weir doctor lists those built in)",
	        w->line, text);
	longjmp(w->back, 1);
}

void work_spend(struct work *w, size_t steps)
{
	w->steps += steps;
	if (w->steps > JINJA_STEPS_MAX)
		jinja_fail(w, "it takes more than %s steps", count_text(JINJA_STEPS_MAX).s);
}

void work_enter(struct work *w)
{
	if (++w->depth > JINJA_DEPTH_MAX)
		jinja_fail(w, "it is nested more than %d deep", JINJA_DEPTH_MAX);
}

void work_leave(struct work *w)
{
	w->depth--;
}

/* ---- names ---- */

/* Return the index of a name in the hash table. If the name is new, return the index of the free slot for it. */
static size_t name_slot(const struct jinja *t, const char *p, size_t n)
{
	uint64_t h = 14695981039346656037u;
	size_t at;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)p[i]) * 1099511628211u;
	for (at = h & (t->hash_n - 1); t->hash[at]; at = (at + 1) & (t->hash_n - 1))
		if (!strncmp(t->hash[at], p, n) && !t->hash[at][n])
			break;
	return at;
}

const char *jinja_intern(struct jinja *t, const char *p, size_t n)
{
	size_t at;

	if (2 * t->n_name >= t->hash_n) {
		size_t old_n = t->hash_n;
		const char **old = t->hash;

		t->hash_n = old_n ? 2 * old_n : 256;
		t->hash = work_array(&t->work, t->hash_n, sizeof *t->hash);
		for (size_t i = 0; i < old_n; i++)
			if (old[i])
				t->hash[name_slot(t, old[i], strlen(old[i]))] = old[i];
	}
	at = name_slot(t, p, n);
	if (!t->hash[at]) {
		t->hash[at] = work_copy(&t->work, p, n);
		t->n_name++;
	}
	return t->hash[at];
}

const char *jinja_name(const struct jinja *t, const char *name)
{
	return t->hash_n ? t->hash[name_slot(t, name, strlen(name))] : NULL;
}
