/* engine/gguf/gguf.c - opens and closes GGUF files: maps them, reads pages ahead and drops pages (gguf.h). */
#include "engine/gguf/gguf.h"

#include "engine/base/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct gguf *gguf_new(const char *path)
{
	struct gguf *g = xcalloc(1, sizeof *g);
	size_t n = strlen(path);

	g->path = xmalloc(4 * n + 1);
	text_escape(g->path, 4 * n + 1, path, n);
	return g;
}

int gguf_parse(struct gguf **out, const char *name, const void *bytes, size_t n, struct err *e)
{
	struct gguf *g = gguf_new(name);

	*out = NULL;
	g->base = bytes;
	g->size = n;
	if (gguf_parse_all(g, e)) {
		gguf_close(g);
		return -1;
	}
	*out = g;
	return 0;
}

/* Map a regular file. Symbolic links are followed, because users link to their models. */
static int map_file(struct gguf *g, const char *path, struct err *e)
{
	struct stat st;
	void *p;
	/* With O_NONBLOCK, open() of a FIFO does not wait for a writer. FIFOs are refused below. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return gguf_err(g, e, "cannot be opened: %s", strerror(errno));
	if (fstat(fd, &st)) {
		int error = errno;
		close(fd);
		return gguf_err(g, e, "cannot be examined: %s", strerror(error));
	}
	if (!S_ISREG(st.st_mode)) {
		const char *what = S_ISDIR(st.st_mode)    ? "a directory"
		                   : S_ISFIFO(st.st_mode) ? "a pipe"
		                   : S_ISSOCK(st.st_mode) ? "a socket"
		                                          : "a device";
		close(fd);
		return gguf_err(g, e, "this is %s, and a model must be a regular file", what);
	}
	if (st.st_size <= 0) {
		close(fd);
		return 0; /* an empty file is no error here: parse_header() reports it later */
	}
	if ((uint64_t)st.st_size > PTRDIFF_MAX) {
		close(fd);
		return gguf_err(g, e, "size is %" PRId64 " bytes, more than this machine can map", (int64_t)st.st_size);
	}
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED) {
		int error = errno;
		close(fd);
		return gguf_err(g, e, "%" PRId64 " bytes cannot be mapped: %s", (int64_t)st.st_size, strerror(error));
	}
	close(fd);
	g->base = p;
	g->size = (uint64_t)st.st_size;
	g->mapped = 1;
	mapped_add(p, (size_t)g->size, &g->lost);
	return 0;
}

/* Copy the head (everything before the tensor data), so that no other program can change it while it is parsed. If the
 * file changes before the copy is complete, the copied size may be wrong; then the parser reports an error. */
static int copy_head(struct gguf *g, struct err *e)
{
	if (!g->mapped)
		return 0;
	g->n_head = gguf_head_reach(g->base, g->size);
	g->head = try_alloc(g->n_head, 1, "the header of a model file", e);
	if (!g->head)
		return -1;
	memcpy(g->head, g->base, g->n_head);
	return 0;
}

int gguf_check_there(const struct gguf *g, struct err *e)
{
	for (size_t i = 0; i < g->n_part; i++)
		if (gguf_check_there(g->part[i], e))
			return -1;
	return atomic_load(&g->lost) ? gguf_err(g, e, "changed while in use, or its disk failed: open the model anew")
	                             : 0;
}

int gguf_open_file(struct gguf **out, const char *path, struct err *e)
{
	struct gguf *g = gguf_new(path);

	*out = NULL;
	if (map_file(g, path, e) || copy_head(g, e) || gguf_parse_all(g, e) || gguf_check_there(g, e)) {
		gguf_close(g);
		return -1;
	}
	*out = g;
	return 0;
}

int gguf_join(struct gguf *g, struct gguf *part, struct err *e)
{
	uint64_t n = g->n_tensor + part->n_tensor;
	uint64_t again;
	char name[80];

	g->tensor = xrealloc(g->tensor, (n + 1) * sizeof *g->tensor);
	g->tensor_sorted = xrealloc(g->tensor_sorted, (n + 1) * sizeof *g->tensor_sorted);
	if (part->n_tensor)
		memcpy(g->tensor + g->n_tensor, part->tensor, part->n_tensor * sizeof *g->tensor);
	g->n_tensor = n;
	g->part = xrealloc(g->part, (g->n_part + 1) * sizeof *g->part);
	g->part[g->n_part++] = part;
	again = gguf_sort_tensors(g);
	if (again)
		return gguf_err(part, e, "tensor '%s' is in another part of the model, too",
		                view_show(g->tensor_sorted[again]->name, name));
	return 0;
}

/* At a page fault Linux maps a whole aligned block of up to this many bytes (fault_around_bytes), not just one page. So
 * gguf_drop_pages() starts at the beginning of such a block. */
enum { FAULT_BYTES = 64 << 10 };

void gguf_drop_pages(const void *p, size_t n, void *gguf)
{
	const struct gguf *g = gguf;
	uintptr_t base = (uintptr_t)g->base, at = (uintptr_t)p, from = at & ~(uintptr_t)(FAULT_BYTES - 1);

	for (size_t i = 0; i < g->n_part; i++)
		gguf_drop_pages(p, n, g->part[i]);
	if (g->mapped && at >= base && n <= g->size && at - base <= g->size - n)
		madvise((void *)(MAX(from, base)), at + n - MAX(from, base), MADV_DONTNEED);
}

/* Number of bytes to read ahead. It exceeds the usual gap between two tensors that are used in succession, and a disk
 * of 1 GB/s reads that many bytes in 0.13 s. */
static const uint64_t ahead_bytes = UINT64_C(128) << 20;

void gguf_read_ahead(struct gguf *g, const void *p, size_t n)
{
	uintptr_t base = (uintptr_t)g->base, at = (uintptr_t)p;
	uint64_t from, to, page = (uint64_t)sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < g->n_part; i++)
		gguf_read_ahead(g->part[i], p, n);
	if (!g->mapped || at < base || at - base >= g->size)
		return;
	from = at - base;
	to = g->size - from < n + ahead_bytes ? g->size : from + n + ahead_bytes;
	if (g->ahead > from)
		from = g->ahead;
	if (to <= from)
		return;
	g->ahead = to;
	from = from / page * page;
	madvise((void *)(base + from), to - from, MADV_WILLNEED);
}

void gguf_close(struct gguf *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->n_part; i++)
		gguf_close(g->part[i]);
	free(g->part);
	if (g->mapped) {
		mapped_remove(g->base);
		munmap((void *)(uintptr_t)g->base, (size_t)g->size);
	}
	free(g->head);
	free(g->kv_sorted);
	free(g->tensor_sorted);
	free(g->kv);
	free(g->tensor);
	free(g->path);
	free(g);
}
