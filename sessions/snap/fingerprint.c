/* sessions/snap/fingerprint.c - computes fingerprints. A fingerprint identifies everything with which KV entries were
 * computed.
 *
 * A fingerprint is the SHA-256 of a text that describes the engine, the weights, and the settings of the timeline
 * (token sequence with its KV cache). The text is stored, too, to explain why a snapshot cannot be used.
 *
 * If only the kernels (CPU or GPU code) differ, KV entries are equal up to rounding, and the snapshot may be used. To
 * check this, the names of the snapshot's kernels are put into the text of this program's fingerprint. The hash of the
 * changed text must equal the snapshot's fingerprint.
 *
 * Hashing the weights takes seconds, so their hash is stored with the file's device, inode, size and times. */
#include "sessions/snap/snap_private.h"
#include "engine/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/engine_snapshot.h"

enum { HASH_BYTES = 32 };
/* The hash of a file is not stored if the file was changed less than this number of milliseconds ago, because the file
 * may change again without a visible change of its times. */
#define RACY_MS 100

/* ---- the weights ---- */

static int64_t ns(struct timespec t)
{
	return (int64_t)((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
}

static int same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       ns(a->st_mtim) == ns(b->st_mtim) && ns(a->st_ctim) == ns(b->st_ctim);
}

static int hash_file(int fd, uint8_t out[HASH_BYTES], const char *path, struct err *e)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t cap = 1 << 20;
	void *buf = xmalloc(cap);
	int ok = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1;
	ssize_t n = 0;

	posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	while (ok && ((n = read(fd, buf, cap)) > 0 || (n < 0 && errno == EINTR)))
		if (n > 0)
			ok = EVP_DigestUpdate(ctx, buf, (size_t)n) == 1;
	if (ok && n < 0)
		err_set(e, ERR_MODEL, "cannot read '%s': %s", path, strerror(errno));
	else if (!ok || EVP_DigestFinal_ex(ctx, out, NULL) != 1)
		n = err_set(e, ERR_FAIL, "cannot hash '%s': no memory", path);
	free(buf);
	EVP_MD_CTX_free(ctx);
	return n < 0 ? -1 : 0;
}

/* If the hash of this file is stored, copy it to out[] and return 1; else return 0. */
static int hash_known(struct snaps *s, const struct stat *st, uint8_t out[HASH_BYTES])
{
	sqlite3_stmt *q;
	int known = 0;

	if (!s->db.h)
		return 0;
	q = db_query(&s->db, NULL,
	             "SELECT hash, sum FROM weights WHERE device = ? AND inode = ? AND size = ? AND mtime = ? "
	             "AND ctime = ?",
	             "iiiii", (int64_t)st->st_dev, (int64_t)st->st_ino, (int64_t)st->st_size, ns(st->st_mtim),
	             ns(st->st_ctim));
	/* Verify the checksum. If a bit of the hash was flipped, every snapshot would seem to belong to another
	 * model. */
	if (q && db_step(&s->db, q, NULL) > 0 && sqlite3_column_bytes(q, 0) == HASH_BYTES &&
	    sqlite3_column_int64(q, 1) == (int64_t)XXH3_64bits(sqlite3_column_blob(q, 0), HASH_BYTES)) {
		memcpy(out, sqlite3_column_blob(q, 0), HASH_BYTES);
		known = 1;
	}
	db_put(&s->db, q);
	return known;
}

static int weights_hash(struct snaps *s, const char *path, uint8_t out[HASH_BYTES], struct err *e)
{
	struct stat st, after;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = -1;

	if (fd < 0 || fstat(fd, &st))
		err_set(e, ERR_MODEL, "cannot read '%s': %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		err_set(e, ERR_MODEL, "cannot read '%s': not a regular file", path);
	else if (hash_known(s, &st, out))
		rc = 0;
	else if (!hash_file(fd, out, path, e)) {
		if (fstat(fd, &after) || !same_file(&st, &after))
			err_set(e, ERR_MODEL, "'%s' changed while it was read", path);
		else
			rc = 0;
		/* Store the hash, and ignore errors: without a stored hash, the weights are hashed again next time. */
		if (!rc && !snaps_writable(s, NULL) && snaps_now() - ns(st.st_ctim) / 1000000 > RACY_MS)
			db_run(&s->db, NULL, "INSERT OR REPLACE INTO weights VALUES(?, ?, ?, ?, ?, ?, ?)", "iiiiibi",
			       (int64_t)st.st_dev, (int64_t)st.st_ino, (int64_t)st.st_size, ns(st.st_mtim),
			       ns(st.st_ctim), out, (size_t)HASH_BYTES, (int64_t)XXH3_64bits(out, HASH_BYTES));
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

int snaps_weights(struct snaps *s, const struct engine *engine, struct str *out, struct err *e)
{
	uint8_t hash[HASH_BYTES];

	if (weights_hash(s, engine_info(engine)->path, hash, e))
		return -1;
	for (int i = 0; i < HASH_BYTES; i++)
		str_addf(out, "%02x", hash[i]);
	return 0;
}

/* ---- the fingerprint ---- */

static int hash_text(const struct str *text, uint8_t out[HASH_BYTES])
{
	return EVP_Digest(text->p, text->n, out, NULL, EVP_sha256(), NULL) == 1 ? 0 : -1;
}

int snaps_fingerprint(struct snaps *s, const struct engine *engine, const struct timeline *tl, struct fingerprint *out,
                      struct err *e)
{
	struct str text = { 0 }, entries = { 0 };
	int64_t known;

	str_addf(&text, "snapshots %d\n", SNAPS_VERSION);
	engine_identity(engine, &text);
	str_adds(&text, "weights ");
	if (snaps_weights(s, engine, &text, e)) {
		str_free(&text);
		return -1;
	}
	str_adds(&text, "\n");
	str_add(&entries, text.p, text.n);
	timeline_entries_identity(tl, &entries);
	timeline_identity(tl, &text);
	if (hash_text(&text, out->all) || hash_text(&entries, out->entries)) {
		str_free(&text);
		str_free(&entries);
		return err_set(e, ERR_FAIL, "cannot hash what the model is: no memory");
	}
	/* Store the text of the fingerprint. Ignore errors, because the text is only needed to explain why a snapshot
	 * cannot be used. */
	if (!snaps_writable(s, NULL) && text.n <= PART_BYTES &&
	    !db_find(&s->db, NULL, &known, "SELECT 1 FROM identity WHERE fingerprint = ?", "b", out->all,
	             sizeof out->all))
		db_run(&s->db, NULL, "INSERT OR IGNORE INTO identity VALUES(?, ?)", "bb", out->all, sizeof out->all,
		       text.p, text.n);
	str_free(&s->identity);
	str_free(&s->entries_identity);
	s->identity = text;
	s->entries_identity = entries;
	s->mine = *out;
	return 0;
}

/* ---- reading an identity ---- */

/* Return the value of the line "NAME VALUE", and set *n to the length of the value. Return NULL if the text has no such
 * line. */
static const char *value_of(const struct str *text, const char *name, size_t n_name, size_t *n)
{
	const char *p = text->p, *end = p + text->n;

	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));

		nl = nl ? nl : end;
		if ((size_t)(nl - p) > n_name && !memcmp(p, name, n_name) && p[n_name] == ' ') {
			*n = (size_t)(nl - p) - n_name - 1;
			return p + n_name + 1;
		}
		p = nl + 1;
	}
	*n = 0;
	return NULL;
}

/* Shorten and escape a value for a message. */
static const char *shorten(char out[64], const char *value, size_t n)
{
	size_t len = text_escape(out, 44, value ? value : "none", !value ? 4 : MIN(n, 40));

	if (n > 40)
		snprintf(out + len, 64 - len, "...");
	return out;
}

/* Append the stored text of the fingerprint saved[] to *out; append nothing if no text is stored. */
static void saved_identity(struct snaps *s, const uint8_t *saved, size_t n_saved, struct str *out)
{
	sqlite3_stmt *q =
		db_query(&s->db, NULL, "SELECT text FROM identity WHERE fingerprint = ?", "b", saved, n_saved);

	if (q && db_step(&s->db, q, NULL) > 0 && sqlite3_column_bytes(q, 0) > 0)
		str_add(out, sqlite3_column_blob(q, 0), (size_t)sqlite3_column_bytes(q, 0));
	db_put(&s->db, q);
}

/* ---- other kernels ---- */

static const char kernels[] = "kernels", begun_by[] = "begun by";

static int is_line(const char *p, size_t n, const char *name, size_t n_name)
{
	return n > n_name && !memcmp(p, name, n_name) && p[n_name] == ' ';
}

/* Replace two lines in the text of a fingerprint, and hash the result. `name` is the new value of line "kernels": the
 * kernels (CPU or GPU code) that computed the newest KV entries. `begun` is the new value of line "begun by": the
 * kernels that computed the first KV entries. If n_begun is 0, line "begun by" is removed. */
static int hash_with(const struct str *text, const char *name, size_t n_name, const char *begun, size_t n_begun,
                     uint8_t out[HASH_BYTES])
{
	struct str with = { 0 };
	const char *nl;
	int rc;

	for (const char *p = text->p, *end = p + text->n; p < end; p = nl) {
		nl = memchr(p, '\n', (size_t)(end - p));
		nl = nl ? nl + 1 : end;
		if (is_line(p, (size_t)(nl - p), kernels, sizeof kernels - 1))
			str_addf(&with, "%s %.*s\n", kernels, (int)n_name, name);
		else if (!is_line(p, (size_t)(nl - p), begun_by, sizeof begun_by - 1))
			str_add(&with, p, (size_t)(nl - p));
	}
	if (n_begun)
		str_addf(&with, "%s %.*s\n", begun_by, (int)n_begun, begun);
	rc = hash_text(&with, out);
	str_free(&with);
	return rc;
}

/* Parse "NAMES until N", the value of line "begun by": kernels (CPU or GPU code) with these names computed the KV
 * entries of the first N tokens. Sets *tokens to N, and returns the length of NAMES; returns 0 if the value is
 * malformed. */
static size_t begun_parse(const char *p, size_t n, int32_t *tokens)
{
	static const char until[] = " until ";
	size_t at = n, weight = 1;
	int64_t v = 0;

	for (; at && byte_is_digit(p[at - 1]) && n - at < 10; weight *= 10)
		v += (p[--at] - '0') * (int64_t)weight;
	if (at == n || at < sizeof until || memcmp(p + at - (sizeof until - 1), until, sizeof until - 1) || v <= 0 ||
	    v > INT32_MAX)
		return 0;
	*tokens = (int32_t)v;
	return at - (sizeof until - 1);
}

/* Set *o, which tells which kernels (CPU or GPU code) computed a snapshot's KV entries. `name` and `begun` are values
 * from the snapshot's fingerprint text. `name` is the value of line "kernels": the kernels of the newest entries.
 * `begun` is the value of line "begun by", or "" if there is no such line. `ours` is 1 if `name` means this program's
 * kernels. Returns 1, or 0 if `begun` is malformed. */
static int origin_set(struct origin *o, const char *name, size_t n_name, const char *begun, size_t n_begun, int ours)
{
	char by[64];
	size_t n = n_begun;

	str_clear(&o->begun);
	o->begun_n = INT32_MAX;
	if (ours && n_begun && !(n = begun_parse(begun, n_begun, &o->begun_n)))
		return 0;
	str_add(&o->begun, begun, n);
	if (!ours)
		str_addf(&o->begun, "%s%.*s", n_begun ? ", " : "", (int)n_name, name);
	snprintf(o->by, sizeof o->by, "%s", ours ? "" : shorten(by, name, n_name));
	return 1;
}

/* Find out if a timeline begins with KV entries that were restored from packed copies, which have 4 bits a value and
 * are not exact. `name` and `begun` are the values of the lines "kernels" and "begun by" in the timeline's fingerprint
 * text. If `begun` is "near copies until N", without names of kernels, set out->tokens to N, and out->exact to the
 * fingerprint without this line. Otherwise set out->tokens to 0. */
static void packed_set(struct snaps *s, const char *name, size_t n_name, const char *begun, size_t n_begun,
                       struct packed_begun *out)
{
	size_t n = sizeof NEAR_NAME - 1;

	if (begun_parse(begun, n_begun, &out->tokens) != n || memcmp(begun, NEAR_NAME, n) ||
	    hash_with(&s->identity, name, n_name, NULL, 0, out->exact.all) ||
	    hash_with(&s->entries_identity, name, n_name, NULL, 0, out->exact.entries))
		out->tokens = 0;
}

int fingerprint_fits(struct snaps *s, const uint8_t *saved, size_t n_saved, const struct fingerprint *mine,
                     struct origin *out)
{
	int known = s->identity.n && !memcmp(mine, &s->mine, sizeof *mine), own = !memcmp(saved, mine->all, HASH_BYTES);
	struct str was = { 0 };
	const struct str *text = own ? &s->identity : &was;
	size_t n_name, n_begun, n_own;
	const char *name, *begun, *here;
	int rc = 0;

	out->fp = *mine;
	out->packed.tokens = 0;
	/* If the text of the fingerprint `mine` is not known, the names of other kernels cannot be put into it. Then
	 * the snapshot is usable only if its fingerprint is equal to `mine`. */
	if (!known || n_saved != HASH_BYTES)
		return own ? origin_set(out, "", 0, "", 0, 1) : 0;
	if (!own)
		saved_identity(s, saved, n_saved, &was);
	name = text->n ? value_of(text, kernels, sizeof kernels - 1, &n_name) : NULL;
	begun = text->n ? value_of(text, begun_by, sizeof begun_by - 1, &n_begun) : NULL;
	here = value_of(&s->identity, kernels, sizeof kernels - 1, &n_own);
	n_begun = begun ? n_begun : 0;
	if (name && here && n_name)
		rc = origin_set(out, name, n_name, begun ? begun : "", n_begun,
		                n_name == n_own && !memcmp(name, here, n_own));
	if (rc && !own)
		rc = !hash_with(&s->identity, name, n_name, begun, n_begun, out->fp.all) &&
		     !memcmp(out->fp.all, saved, HASH_BYTES) &&
		     !hash_with(&s->entries_identity, name, n_name, begun, n_begun, out->fp.entries);
	if (rc && n_begun)
		packed_set(s, name, n_name, begun, n_begun, &out->packed);
	str_free(&was);
	return rc || own;
}

void fingerprint_packed(struct snaps *s, const struct fingerprint *mine, struct packed_begun *out)
{
	size_t n_name, n_begun;
	const char *name, *begun;

	out->tokens = 0;
	if (!s->identity.n || memcmp(mine, &s->mine, sizeof *mine))
		return;
	name = value_of(&s->identity, kernels, sizeof kernels - 1, &n_name);
	begun = value_of(&s->identity, begun_by, sizeof begun_by - 1, &n_begun);
	if (name && begun)
		packed_set(s, name, n_name, begun, n_begun, out);
}

int fingerprint_pure(struct snaps *s, const struct fingerprint *mine, struct fingerprint *out)
{
	size_t n_name, n_begun;
	const char *name;

	*out = *mine;
	if (!s->identity.n || memcmp(mine, &s->mine, sizeof *mine) ||
	    !value_of(&s->identity, begun_by, sizeof begun_by - 1, &n_begun))
		return 0;
	name = value_of(&s->identity, kernels, sizeof kernels - 1, &n_name);
	return !name || hash_with(&s->identity, name, n_name, NULL, 0, out->all) ||
	                       hash_with(&s->entries_identity, name, n_name, NULL, 0, out->entries)
	               ? -1
	               : 0;
}

/* ---- why a snapshot cannot be used ---- */

/* Compare the values that two fingerprint texts have in the line with this name. If they differ, copy `sentence` to
 * out[], with "%1" and "%2" replaced by the values in `was` and `is`, and return 1. */
static int differs(const struct str *was, const struct str *is, const char *name, size_t n_name, const char *sentence,
                   char *out, size_t cap)
{
	size_t n_a, n_b;
	const char *a = value_of(was, name, n_name, &n_a), *b = value_of(is, name, n_name, &n_b);
	char sa[64], sb[64];

	if (!a == !b && n_a == n_b && (!a || !memcmp(a, b, n_a)))
		return 0;
	shorten(sa, a, n_a);
	shorten(sb, b, n_b);
	for (size_t k = 0; *sentence && k + 1 < cap; sentence++) {
		const char *v = *sentence == '%' ? (sentence[1] == '1' ? sa : sb) : NULL;

		if (v) {
			k += (size_t)snprintf(out + k, cap - k, "%s", v);
			sentence++;
		} else {
			out[k++] = *sentence;
			out[k] = 0;
		}
	}
	return 1;
}

void fingerprint_differs(struct snaps *s, const uint8_t *saved, size_t n_saved, const struct fingerprint *mine,
                         char *out, size_t cap)
{
	/* Only the first difference is reported. So lines that make every snapshot unusable come first, and lines about
	 * the user's settings follow. */
	static const char *const known[][2] = {
		{ "snapshots", "the snapshot is of another version of weir" },
		{ "format", "the snapshot is of another version of weir" },
		{ "weights", "the model file changed" },
		{ "cache", "cache policy was '%1', is '%2'" },
		{ "rows", "cache type was '%1', is '%2'" },
		{ "prefill", "its prompts were read with '%1', now with '%2'" },
		{ "context", "the context was opened with -c %1, now with -c %2" },
		{ "calls", "%1 tokens were read at once, now %2" },
		{ "generated under", "some of it was generated under cache policy '%1', now '%2'" },
		{ "mathematics", "computed with another mathematical library" },
	};
	struct str was = { 0 };
	int found = 0;

	saved_identity(s, saved, n_saved, &was);
	if (was.n && s->identity.n && !memcmp(mine, &s->mine, sizeof *mine)) {
		const char *p = s->identity.p, *end = p + s->identity.n;

		for (size_t i = 0; i < LEN(known) && !found; i++)
			found = differs(&was, &s->identity, known[i][0], strlen(known[i][0]), known[i][1], out, cap);
		/* no line of known[] differs: find another line whose value differs, and report it by its name */
		for (const char *nl; !found && p < end && (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1) {
			char sentence[96], name[48];
			const char *space = memchr(p, ' ', (size_t)(nl - p));

			/* Skip the lines "kernels" and "begun by". They are never the reason why a snapshot is refused,
			 * because fingerprint_fits() accepts a snapshot that differs only in them. */
			if (!space || space - p > 24 || is_line(p, (size_t)(nl - p), kernels, sizeof kernels - 1) ||
			    is_line(p, (size_t)(nl - p), begun_by, sizeof begun_by - 1))
				continue;
			text_escape(name, sizeof name, p, (size_t)(space - p));
			snprintf(sentence, sizeof sentence, "%s was '%%1', is '%%2'", name);
			found = differs(&was, &s->identity, p, (size_t)(space - p), sentence, out, cap);
		}
	}
	if (!found)
		snprintf(out, cap, "computed with another model or other settings");
	str_free(&was);
}
