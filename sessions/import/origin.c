/* sessions/import/origin.c - records the file that a document was read from, and detects later changes. */
#include "sessions/import/import_private.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int64_t origin_mtime(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

void origin_note(struct doc_origin *o, const char *path, const struct stat *st, const void *bytes, size_t n)
{
	o->path = realpath(path, NULL);
	o->size = (int64_t)n;
	o->mtime = origin_mtime(st);
	if (!o->path || EVP_Digest(n ? bytes : "", n, o->hash, NULL, EVP_sha256(), NULL) != 1)
		origin_free(o);
}

void origin_copy(struct doc_origin *to, const struct doc_origin *from)
{
	*to = *from;
	if (from->path)
		to->path = xstrndup(from->path, strlen(from->path));
}

void origin_free(struct doc_origin *o)
{
	free(o->path);
	*o = (struct doc_origin){ 0 };
}

/* Compute the file's SHA-256. Returns 0, or -1 if the file cannot be read. */
static int hash_file(int fd, uint8_t out[32])
{
	char buf[16384];
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	ssize_t got = -1;
	int ok = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1;

	while (ok && ((got = read(fd, buf, sizeof buf)) > 0 || (got < 0 && errno == EINTR)))
		ok = got < 0 || EVP_DigestUpdate(md, buf, (size_t)got) == 1;
	ok = ok && !got && EVP_DigestFinal_ex(md, out, NULL) == 1;
	EVP_MD_CTX_free(md);
	return ok ? 0 : -1;
}

enum doc_change doc_changed(struct doc_origin *o)
{
	enum doc_change rc = DOC_GONE;
	uint8_t hash[32];
	struct stat st;
	int fd;

	if (!o->path)
		return DOC_SAME;
	/* check the kind of the file before open(), because opening a device can have effects */
	if (stat(o->path, &st) || !S_ISREG(st.st_mode))
		return DOC_GONE;
	if (st.st_size == o->size && origin_mtime(&st) == o->mtime)
		return DOC_SAME;
	if (st.st_size != o->size)
		return DOC_CHANGED;
	fd = open(o->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && !hash_file(fd, hash)) {
		rc = memcmp(hash, o->hash, sizeof hash) ? DOC_CHANGED : DOC_SAME;
		if (rc == DOC_SAME)
			o->mtime = origin_mtime(&st);
	}
	if (fd >= 0)
		close(fd);
	return rc;
}
