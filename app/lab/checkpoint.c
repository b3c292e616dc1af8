/* app/lab/checkpoint.c - stores the finished results of an evaluation, so that a stopped run can continue (--resume
 * FILE).
 *
 * Each result is one line of JSON with two members: "piece", the key, and "result". The key is an object with all
 * properties that determine the result: model, version, cache policy, settings and text. A result is used only if its
 * key is equal byte for byte, so one file can serve different commands. If a crash has cut the last line short, the
 * line is removed. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "app/lab/checkpoint.h"
#include "app/lab/lab.h"
#include "engine/engine_snapshot.h"

#define PIECES_MAX (256u << 20)
static const char head[] = "{\"weir\":\"eval\",\"piece\":";

/* ---- the file ---- */

/* Compare two results by the text of their keys. If the keys are equal, the result in the later line counts as
 * greater. */
static int by_key(const void *a, const void *b)
{
	const struct finished *x = a, *y = b;
	size_t n = (size_t)(x->key.end - x->key.p), m = (size_t)(y->key.end - y->key.p);
	int c = memcmp(x->key.p, y->key.p, MIN(n, m));

	return c ? c : n != m ? (n < m ? -1 : 1) : (x->key.p > y->key.p) - (x->key.p < y->key.p);
}

/* Parse a line and add its result to p->done. Returns 0, or -1 if the line is not a result. */
static int take_line(struct checkpoint *p, const char *line, size_t n)
{
	struct finished x;
	struct jv root;

	if (n < sizeof head || memcmp(line, head, sizeof head - 1) != 0 || line[n - 1] != '}')
		return -1;
	root = jv_parse(line, n);
	x.key = jv_get(root, "piece");
	x.result = jv_get(root, "result");
	if (root.end != line + n || !x.key.p || *x.key.p != '{')
		return -1;
	/* Accept the line only if "result" is its last member and a complete object. */
	if (x.result.end != line + n - 1 || *x.result.p != '{' || x.result.end - x.result.p < 2 ||
	    x.result.end[-1] != '}')
		return -1;
	GROW(p->done, p->n, p->cap);
	p->done[p->n++] = x;
	return 0;
}

/* Parse all complete lines. *whole receives the offset after the last complete line. If a line is not a result, the
 * file belongs to another program and is refused. A file without a complete line is accepted only if it is empty or
 * begins like a result. */
static int take_lines(struct checkpoint *p, const char *path, size_t *whole, struct err *e)
{
	const char *text = str_text(&p->text), *end;
	size_t at = 0, line = 0;

	for (; (end = memchr(text + at, '\n', p->text.n - at)); at = (size_t)(end - text) + 1) {
		line++;
		if (take_line(p, text + at, (size_t)(end - text) - at) < 0)
			return err_set(e, ERR_USAGE,
			               "line %zu of '%.200s' is no result of an evaluation; give --resume another file",
			               line, path);
	}
	if (!line && p->text.n && (p->text.n < sizeof head - 1 || memcmp(text, head, sizeof head - 1) != 0))
		return err_set(e, ERR_USAGE, "'%.200s' holds no results of an evaluation; give --resume another file",
		               path);
	*whole = at;
	return 0;
}

static int open_file(struct checkpoint *p, const char *path, struct err *e)
{
	struct stat st;
	size_t whole = 0;

	if (!*path || !strcmp(path, "-"))
		return err_set(e, ERR_USAGE, "option '--resume' wants a file that can be read again");
	/* Check before open(), because opening a pipe or a device could block. */
	if (!stat(path, &st) && !S_ISREG(st.st_mode))
		return err_set(e, ERR_USAGE, "cannot store results in '%.200s': not a regular file", path);
	p->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (p->fd < 0)
		return err_set(e, ERR_USAGE, "cannot store results in '%.200s': %s", path, strerror(errno));
	if (flock(p->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
		return err_set(e, ERR_USAGE,
		               "another run stores its results in '%.200s'; wait for it, or give --resume another file",
		               path);
	if (read_whole(path, PIECES_MAX, &p->text, e) < 0 || take_lines(p, path, &whole, e) < 0)
		return -1;
	if (whole < p->text.n && ftruncate(p->fd, (off_t)whole))
		return err_set(e, ERR_FAIL, "cannot cut '%.200s' behind its last whole line: %s", path,
		               strerror(errno));
	if (p->n)
		qsort(p->done, p->n, sizeof *p->done, by_key);
	return 0;
}

int checkpoint_open(struct checkpoint *p, const struct options *o, struct err *e)
{
	*p = (struct checkpoint){ .o = o, .fd = -1 };
	if (!lab_of(o)->resume)
		return 0;
	if (open_file(p, lab_of(o)->resume, e) < 0) {
		checkpoint_close(p);
		return -1;
	}
	if (p->n && !o->quiet)
		say("'%s' holds %zu finished result%s", lab_of(o)->resume, p->n, p->n == 1 ? "" : "s");
	return 0;
}

void checkpoint_close(struct checkpoint *p)
{
	if (p->fd >= 0) {
		close(p->fd);
		if (!p->o->quiet && (p->taken || p->added))
			say("results: %lld were there, %lld are new", (long long)p->taken, (long long)p->added);
	}
	str_free(&p->text);
	str_free(&p->same);
	free(p->done);
	*p = (struct checkpoint){ .fd = -1 };
}

/* ---- what decides a result ---- */

uint64_t checkpoint_hash(const void *bytes, size_t n)
{
	return XXH3_64bits(n ? bytes : "", n);
}

/* Hash the model's whole file, because models of the same shape differ only in their weights. Returns 0 or -1. */
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

int checkpoint_model(struct checkpoint *p, const struct engine *engine, struct err *e)
{
	const char *path = engine_info(engine)->path, *slash = strrchr(path, '/');
	struct str identity = { 0 }, engine_name = { 0 };
	uint64_t size, hash;

	if (p->fd < 0)
		return 0;
	if (hash_model(path, &size, &hash, e) < 0)
		return -1;
	path = slash ? slash + 1 : path;
	engine_identity(engine, &identity);
	str_clear(&p->same);
	str_addf(&engine_name, "%s %016llx", WEIR_VERSION, (unsigned long long)checkpoint_hash(identity.p, identity.n));
	json_string(&p->same, "model", path);
	json_uint(&p->same, "bytes", size);
	json_hash(&p->same, "hash", hash);
	json_text(&p->same, "engine", engine_name.p, engine_name.n);
	json_string(&p->same, "kv_type", p->o->kv_type);
	json_int(&p->same, "chunk", p->o->chunk);
	if (p->o->read_share < 1)
		json_real(&p->same, "read_share", (double)p->o->read_share, "%.9g");
	str_free(&identity);
	str_free(&engine_name);
	return 0;
}

void checkpoint_key(const struct checkpoint *p, const char *task, const char *kv, int32_t ctx, struct str *out)
{
	struct str policy = { 0 };

	str_clear(out);
	kv_policy_whole(kv, &policy);
	json_open(out, NULL, '{');
	json_string(out, "task", task);
	json_text(out, "kv", policy.p, policy.n);
	json_int(out, "ctx", p->o->ctx ? p->o->ctx : ctx);
	if (p->same.n)
		str_addf(out, ",%s", p->same.p);
	str_free(&policy);
}

/* ---- results ---- */

int checkpoint_get(struct checkpoint *p, const struct str *key, struct jv *result)
{
	struct finished want = { .key = { key->p, key->p + key->n } };
	size_t lo = 0, hi = p->n;

	/* of the results with an equal key, find the last one */
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct jv *x = &p->done[mid].key;
		size_t n = (size_t)(x->end - x->p), m = key->n;
		int c = memcmp(x->p, want.key.p, MIN(n, m));

		if (c < 0 || (!c && n <= m))
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || p->done[lo - 1].key.end - p->done[lo - 1].key.p != (ptrdiff_t)key->n ||
	    memcmp(p->done[lo - 1].key.p, key->p, key->n) != 0)
		return 0;
	*result = p->done[lo - 1].result;
	return 1;
}

int checkpoint_put(struct checkpoint *p, const struct str *key, const struct str *result, struct err *e)
{
	struct str line = { 0 };
	int rc = 0;

	if (p->fd < 0)
		return 0;
	str_adds(&line, head);
	str_add(&line, key->p, key->n);
	json_value(&line, "result", result);
	json_close(&line, '}');
	str_adds(&line, "\n");
	if (write_all(p->fd, line.p, line.n) < 0)
		rc = err_set(e, ERR_FAIL, "cannot write '%.200s': %s", lab_of(p->o)->resume, strerror(errno));
	str_free(&line);
	p->added++;
	return rc;
}
