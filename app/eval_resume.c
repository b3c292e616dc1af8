/* app/eval_resume.c - evaluations that go on: --resume FILE, one line of JSON for every finished piece.
 *
 * A piece is a sample, a window or a whole text, under one policy.  Its line holds what decides the result, as an object
 * ("piece"), and the result ("result"); two pieces are the same when these objects are, byte by byte.  So a file may be given to
 * any number of commands, and nothing is taken that another model, setting or version had measured.  What a run has just
 * measured is read from the same text that is kept, so that a table does not show where a run was stopped.
 *
 * A line is written at once and whole.  One that ends without a line feed was cut off: it is left out, and cut away. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "app/app.h"
#include "app/eval.h"

#define PIECES_MAX (256u << 20)
static const char head[] = "{\"weir\":\"eval\",\"piece\":";

/* ---- the file ---- */

/* By text; of equal ones the later line is the greater. */
static int piece_order(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	size_t n = (size_t)(x->what.end - x->what.p), m = (size_t)(y->what.end - y->what.p);
	int c = memcmp(x->what.p, y->what.p, n < m ? n : m);

	return c ? c : n != m ? (n < m ? -1 : 1) : (x->what.p > y->what.p) - (x->what.p < y->what.p);
}

static int take_line(struct pieces *p, const char *line, size_t n)
{
	struct piece x;
	struct jv root;

	if (n < sizeof head || memcmp(line, head, sizeof head - 1) != 0 || line[n - 1] != '}')
		return -1;
	root = jv_parse(line, n);
	x.what = jv_get(root, "piece");
	x.result = jv_get(root, "result");
	if (root.end != line + n || !x.what.p || *x.what.p != '{')
		return -1;
	/* The result comes last, and its brace is not the line's. */
	if (x.result.end != line + n - 1 || *x.result.p != '{' || x.result.end - x.result.p < 2 || x.result.end[-1] != '}')
		return -1;
	if (p->n == p->cap) {
		p->cap = p->cap ? p->cap * 2 : 256;
		p->piece = xrealloc(p->piece, p->cap * sizeof *p->piece);
	}
	p->piece[p->n++] = x;
	return 0;
}

/* All whole lines.  Whose file is this?  The first line tells; what stands behind the last line feed is looked at only where
 * it is all there is. */
static int take_lines(struct pieces *p, const char *path, size_t *whole, struct err *e)
{
	const char *text = p->text.p ? p->text.p : "", *end;
	size_t at = 0, line = 0;

	for (; (end = memchr(text + at, '\n', p->text.n - at)); at = (size_t)(end - text) + 1) {
		line++;
		if (take_line(p, text + at, (size_t)(end - text) - at) < 0)
			return err_set(e, ERR_USAGE, "line %zu of '%.200s' is no piece of an evaluation; give --resume another file", line, path);
	}
	if (!line && p->text.n && (p->text.n < sizeof head - 1 || memcmp(text, head, sizeof head - 1) != 0))
		return err_set(e, ERR_USAGE, "'%.200s' holds no pieces of an evaluation; give --resume another file", path);
	*whole = at;
	return 0;
}

static int open_file(struct pieces *p, const char *path, struct err *e)
{
	struct stat st;
	size_t whole = 0;

	if (!*path || !strcmp(path, "-"))
		return err_set(e, ERR_USAGE, "option '--resume' wants a file that can be read again");
	/* What waits or is no file is not opened for writing at all. */
	if (!stat(path, &st) && !S_ISREG(st.st_mode))
		return err_set(e, ERR_USAGE, "cannot keep pieces in '%.200s': not a regular file", path);
	p->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (p->fd < 0)
		return err_set(e, ERR_USAGE, "cannot keep pieces in '%.200s': %s", path, strerror(errno));
	if (flock(p->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
		return err_set(e, ERR_USAGE, "another run keeps its pieces in '%.200s'; wait for it, or give --resume another file", path);
	if (read_whole(path, PIECES_MAX, &p->text, e) < 0 || take_lines(p, path, &whole, e) < 0)
		return -1;
	if (whole < p->text.n && ftruncate(p->fd, (off_t)whole))
		return err_set(e, ERR_FAIL, "cannot cut '%.200s' behind its last whole line: %s", path, strerror(errno));
	if (p->n)
		qsort(p->piece, p->n, sizeof *p->piece, piece_order);
	return 0;
}

int pieces_open(struct pieces *p, const struct options *o, struct err *e)
{
	*p = (struct pieces){ .o = o, .fd = -1 };
	if (!o->resume)
		return 0;
	if (open_file(p, o->resume, e) < 0) {
		pieces_close(p);
		return -1;
	}
	if (p->n && !o->quiet)
		say("'%s' holds %zu finished piece%s", o->resume, p->n, p->n == 1 ? "" : "s");
	return 0;
}

void pieces_close(struct pieces *p)
{
	if (p->fd >= 0) {
		close(p->fd);
		if (!p->o->quiet && (p->taken || p->added))
			say("pieces: %lld were there, %lld are new", (long long)p->taken, (long long)p->added);
	}
	str_free(&p->text);
	str_free(&p->same);
	free(p->piece);
	*p = (struct pieces){ .fd = -1 };
}

/* ---- what decides a result ---- */

uint64_t piece_hash(const void *bytes, size_t n)
{
	return XXH3_64bits(n ? bytes : "", n);
}

/* The model's file: weights with the same shapes are told apart by their bytes alone. */
static int hash_model(const char *path, uint64_t *size, uint64_t *hash, struct err *e)
{
	XXH3_state_t *x = XXH3_createState();
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t cap = 1 << 20;
	char *buf = xmalloc(cap);
	ssize_t n = fd < 0 || !x ? -1 : 1;

	*size = 0;
	if (x)
		XXH3_64bits_reset(x);
	while (n > 0 || (n < 0 && fd >= 0 && x && errno == EINTR)) {
		n = read(fd, buf, cap);
		if (n > 0) {
			XXH3_64bits_update(x, buf, (size_t)n);
			*size += (uint64_t)n;
		}
	}
	if (n < 0)
		err_set(e, ERR_MODEL, "cannot read '%.200s': %s", path, strerror(errno));
	else
		*hash = XXH3_64bits_digest(x);
	if (fd >= 0)
		close(fd);
	free(buf);
	XXH3_freeState(x);
	return n < 0 ? -1 : 0;
}

int pieces_model(struct pieces *p, const struct engine *engine, struct err *e)
{
	const char *path = engine_info(engine)->path, *slash = strrchr(path, '/');
	struct str identity = {0};
	uint64_t size, hash;

	if (p->fd < 0)
		return 0;
	if (hash_model(path, &size, &hash, e) < 0)
		return -1;
	path = slash ? slash + 1 : path;
	engine_identity(engine, &identity);
	str_clear(&p->same);
	str_adds(&p->same, "\"model\":");
	str_add_json(&p->same, path, strlen(path));
	str_addf(&p->same, ",\"bytes\":%llu,\"hash\":\"%016llx\",\"engine\":\"%s %016llx\",\"kv_type\":\"%s\",\"chunk\":%d",
	         (unsigned long long)size, (unsigned long long)hash, WEIR_VERSION,
	         (unsigned long long)piece_hash(identity.p, identity.n), p->o->kv_type, p->o->chunk);
	str_free(&identity);
	return 0;
}

void piece_begin(const struct pieces *p, const char *task, const char *kv, int32_t ctx, struct str *out)
{
	struct str policy = {0};

	str_clear(out);
	str_adds(out, "{\"task\":");
	str_add_json(out, task, strlen(task));
	kv_policy_whole(kv, &policy);
	str_adds(out, ",\"kv\":");
	str_add_json(out, policy.p, policy.n);
	str_free(&policy);
	str_addf(out, ",\"ctx\":%d,%s", p->o->ctx ? p->o->ctx : ctx, p->same.p ? p->same.p : "");
}

/* ---- pieces ---- */

int pieces_get(struct pieces *p, const struct str *what, struct jv *result)
{
	struct piece want = { .what = { what->p, what->p + what->n } };
	size_t lo = 0, hi = p->n;

	/* The last of equal ones. */
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct jv *x = &p->piece[mid].what;
		size_t n = (size_t)(x->end - x->p), m = what->n;
		int c = memcmp(x->p, want.what.p, n < m ? n : m);

		if (c < 0 || (!c && n <= m))
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || p->piece[lo - 1].what.end - p->piece[lo - 1].what.p != (ptrdiff_t)what->n ||
	    memcmp(p->piece[lo - 1].what.p, what->p, what->n) != 0)
		return 0;
	*result = p->piece[lo - 1].result;
	return 1;
}

int pieces_put(struct pieces *p, const struct str *what, const struct str *result, struct err *e)
{
	struct str line = {0};
	int rc = 0;

	if (p->fd < 0)
		return 0;
	str_adds(&line, head);
	str_add(&line, what->p, what->n);
	str_adds(&line, ",\"result\":");
	str_add(&line, result->p, result->n);
	str_adds(&line, "}\n");
	if (write_all(p->fd, line.p, line.n) < 0)
		rc = err_set(e, ERR_FAIL, "cannot write '%.200s': %s", p->o->resume, strerror(errno));
	str_free(&line);
	p->added++;
	return rc;
}
