/* sessions/import/zip.c - unpacks zip archives and gzip in memory, with libarchive.
 *
 * Nothing is written to disk, so harmful names of entries have no effect. Limits apply to the bytes that are unpacked,
 * because the sizes in the archive are not trusted.
 *
 * A link in a document may spell the name of an entry differently from the archive: with separate accents (NFD), with
 * other upper and lower case, or in Unicode although the archive uses an old encoding. So each entry has keys: all the
 * names under which it is found. */
#include "sessions/import/import_private.h"

#include <stdlib.h>
#include <string.h>

#include <archive.h>
#include <archive_entry.h>
#include <utf8proc.h>

#define ENTRIES_MAX     10000
#define ENTRY_BYTES_MAX (64u << 20)
#define TOTAL_BYTES_MAX (512u << 20)
#define NAME_BYTES_MAX  1024
#define RATIO_MAX       100        /* maximum number of unpacked bytes for each byte of the archive */
#define RATIO_FREE      (1u << 20) /* number of bytes that may always be unpacked; RATIO_MAX applies only beyond it */

static int refuse_bomb(struct err *e)
{
	return err_set(e, ERR_DOCUMENT, "unpacks to more than %u times its size or %u MiB: a decompression bomb",
	               RATIO_MAX, TOTAL_BYTES_MAX >> 20);
}

/* Unpack an entry into *to. `in` is the size of the archive in bytes. *all is the number of bytes unpacked so far, for
 * all entries together. Returns 0. Returns -1 if the entry is damaged or too large, if all entries together are too
 * large, or if *all / in exceeds RATIO_MAX. */
static int read_entry(struct archive *a, struct zip_entry *to, size_t in, size_t *all, struct err *e)
{
	size_t cap = 0;

	for (;;) {
		la_ssize_t got;
		if (to->n == cap) {
			cap = cap ? 2 * cap : 32768;
			to->p = xrealloc(to->p, cap + 1);
		}
		got = archive_read_data(a, to->p + to->n, cap - to->n);
		if (got < 0)
			return err_set(e, ERR_DOCUMENT, "is damaged: '%.100s' cannot be unpacked (%.120s)", to->name,
			               archive_error_string(a) ? archive_error_string(a) : "no reason given");
		if (!got)
			break;
		to->n += (size_t)got;
		*all += (size_t)got;
		if (*all > TOTAL_BYTES_MAX || (*all > RATIO_FREE && *all / RATIO_MAX > in))
			return refuse_bomb(e);
		if (to->n > ENTRY_BYTES_MAX)
			return err_set(e, ERR_DOCUMENT, "holds '%.100s' of more than %u MiB", to->name,
			               ENTRY_BYTES_MAX >> 20);
	}
	to->p[to->n] = 0;
	return 0;
}

/* ---- names ---- */

/* Append a key: the name in NFC, with case folded, and a newline. Returns 0, or -1 if the name is not in UTF-8. */
static int add_key(struct str *keys, const char *name, size_t n)
{
	utf8proc_uint8_t *key = NULL;
	utf8proc_ssize_t k = utf8proc_map((const utf8proc_uint8_t *)name, (utf8proc_ssize_t)n, &key,
	                                  UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD);

	if (k >= 0) {
		str_add(keys, (const char *)key, (size_t)k);
		str_adds(keys, "\n");
	}
	free(key);
	return k < 0 ? -1 : 0;
}

/* Return the keys of a name, each between newlines. A name in UTF-8 has one key. Any other name may be in one of
 * several encodings that programs on Windows and DOS use; it has a key for each of these encodings. */
static char *name_keys(const char *name)
{
	static const char *const labels[] = { "shift_jis", "ibm850", "gbk", "big5", "euc-kr", "ibm866", "cp1252" };
	struct str keys = { 0 };
	size_t n = strlen(name), replaced;

	str_adds(&keys, "\n");
	if (!add_key(&keys, name, n))
		return keys.p;
	for (size_t i = 0; i < LEN(labels); i++) {
		struct str utf8 = { 0 };

		if (!charset_decode(charset_by_label(labels[i], strlen(labels[i])), name, n, &utf8, &replaced) &&
		    !replaced)
			add_key(&keys, utf8.p, utf8.n);
		str_free(&utf8);
	}
	return keys.p;
}

static const struct zip_entry *find_exactly(const struct zip *z, const char *name)
{
	for (size_t i = 0; i < z->n; i++)
		if (!strcmp(z->entry[i].name, name))
			return &z->entry[i];
	return NULL;
}

const struct zip_entry *zip_find(const struct zip *z, const char *name)
{
	const struct zip_entry *found = find_exactly(z, name);
	struct str key = { 0 };

	if (found || strlen(name) > NAME_BYTES_MAX)
		return found;
	str_adds(&key, "\n");
	for (size_t i = add_key(&key, name, strlen(name)) ? z->n : 0; i < z->n && !found; i++)
		if (strstr(z->entry[i].keys, key.p))
			found = &z->entry[i];
	str_free(&key);
	return found;
}

static int hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
	                              : -1;
}

char *zip_path(const char *base, const char *href, size_t n)
{
	const char *slash = strrchr(base, '/');
	struct str path = { 0 }, out = { 0 };

	if (slash && !(n && *href == '/'))
		str_add(&path, base, (size_t)(slash - base) + 1);
	for (size_t i = 0; i < n && href[i] != '#' && href[i] != '?'; i++) {
		char c = href[i];
		if (c == '%' && i + 2 < n && hex(href[i + 1]) >= 0 && hex(href[i + 2]) >= 0) {
			c = (char)(hex(href[i + 1]) * 16 + hex(href[i + 2]));
			i += 2;
		}
		str_add(&path, &c, 1);
	}
	for (char *p = path.p; p && *p;) {
		size_t k = strcspn(p, "/");
		if (k == 2 && p[0] == '.' && p[1] == '.') {
			if (!out.n) {
				str_free(&path);
				str_free(&out);
				return NULL;
			}
			while (out.n && out.p[--out.n] != '/')
				;
			out.p[out.n] = 0;
		} else if (k && !(k == 1 && *p == '.')) {
			if (out.n)
				str_add(&out, "/", 1);
			str_add(&out, p, k);
		}
		p += k + (p[k] == '/');
	}
	str_free(&path);
	if (!out.p)
		str_adds(&out, "");
	return out.p;
}

static struct zip_entry *add_entry(struct zip *z, const char *name)
{
	GROW(z->entry, z->n, z->cap);
	z->entry[z->n] = (struct zip_entry){ .name = xstrndup(name, strlen(name)), .keys = name_keys(name) };
	return &z->entry[z->n++];
}

/* ---- entries ---- */

static int read_entries(struct zip *z, struct archive *a, size_t in, int want(const char *), struct err *e)
{
	struct archive_entry *entry;
	size_t all = 0, n = 0;
	int rc;

	while ((rc = archive_read_next_header(a, &entry)) == ARCHIVE_OK || rc == ARCHIVE_WARN) {
		const char *name = archive_entry_pathname(entry);
		if (++n > ENTRIES_MAX)
			return err_set(e, ERR_DOCUMENT, "has more than %d entries", ENTRIES_MAX);
		if (!name || archive_entry_filetype(entry) != AE_IFREG || !want(name) ||
		    strlen(name) > NAME_BYTES_MAX || find_exactly(z, name))
			continue;
		if (archive_entry_is_encrypted(entry))
			return err_set(e, ERR_DOCUMENT, "is encrypted: its text cannot be read without the password");
		if (read_entry(a, add_entry(z, name), in, &all, e))
			return -1;
	}
	if (rc == ARCHIVE_EOF)
		return 0;
	return err_set(e, ERR_DOCUMENT, "is damaged: %.200s",
	               archive_error_string(a) ? archive_error_string(a) : "no zip archive");
}

int zip_read(struct zip *z, const char *p, size_t n, int want(const char *), struct err *e)
{
	struct archive *a = archive_read_new();
	int rc;

	if (!a)
		return err_set(e, ERR_FIT, "needs more memory than there is");
	archive_read_support_format_zip_seekable(a);
	archive_read_set_options(a, "zip:!ignorecrc32");
	if (archive_read_open_memory(a, p, n) != ARCHIVE_OK)
		rc = err_set(e, ERR_DOCUMENT, "is damaged: %.200s",
		             archive_error_string(a) ? archive_error_string(a) : "no zip archive");
	else
		rc = read_entries(z, a, n, want, e);
	archive_read_free(a);
	return rc;
}

void zip_free(struct zip *z)
{
	for (size_t i = 0; i < z->n; i++) {
		free(z->entry[i].name);
		free(z->entry[i].keys);
		free(z->entry[i].p);
	}
	free(z->entry);
	*z = (struct zip){ 0 };
}

int gzip_import(const char *p, size_t n, struct doc *d, struct err *e)
{
	struct archive *a = archive_read_new();
	struct archive_entry *entry;
	char name[] = "its contents";
	struct zip_entry out = { .name = name };
	size_t all = 0;
	int rc;

	if (!a)
		return err_set(e, ERR_FIT, "needs more memory than there is");
	archive_read_support_filter_gzip(a);
	archive_read_support_format_raw(a);
	archive_read_support_format_empty(a);
	if (archive_read_open_memory(a, p, n) != ARCHIVE_OK || archive_read_next_header(a, &entry) != ARCHIVE_OK ||
	    archive_filter_code(a, 0) != ARCHIVE_FILTER_GZIP)
		rc = err_set(e, ERR_DOCUMENT, "is damaged: %.200s",
		             archive_error_string(a) ? archive_error_string(a) : "no gzip stream");
	else
		rc = read_entry(a, &out, n, &all, e);
	archive_read_free(a);
	if (rc)
		free(out.p);
	else
		d->text = (struct str){ .p = out.p, .n = out.n, .cap = out.n + 1 };
	return rc;
}
