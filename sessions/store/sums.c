/* sessions/store/sums.c - checksums of rows, SHA-256 of texts (store_private.h) and of streams (store.h). */
#include "sessions/store/store_private.h"

#include <stdio.h>
#include <stdlib.h>

#include <openssl/evp.h>
#include <xxhash.h>

int64_t pair_sum(const void *a, size_t n_a, const void *b, size_t n_b)
{
	return (int64_t)(XXH3_64bits_withSeed(a, n_a, n_b) ^ XXH3_64bits_withSeed(b, n_b, n_a + 1));
}

int text_hash(const void *p, size_t n, uint8_t out[32], struct err *e)
{
	return EVP_Digest(n ? p : "", n, out, NULL, EVP_sha256(), NULL) == 1
	               ? 0
	               : err_set(e, ERR_FAIL, "cannot compute a checksum: libcrypto refuses SHA-256");
}

struct sum {
	EVP_MD_CTX *c;
};

struct sum *sum_open(void)
{
	struct sum *s = xcalloc(1, sizeof *s);

	s->c = EVP_MD_CTX_new();
	if (s->c && EVP_DigestInit_ex(s->c, EVP_sha256(), NULL) == 1)
		return s;
	sum_close(s);
	return NULL;
}

void sum_add(struct sum *s, const void *p, size_t n)
{
	EVP_DigestUpdate(s->c, p, n);
}

void sum_hex(struct sum *s, char out[65])
{
	uint8_t hash[32] = { 0 };

	EVP_DigestFinal_ex(s->c, hash, NULL);
	EVP_DigestInit_ex(s->c, EVP_sha256(), NULL);
	for (int i = 0; i < 32; i++)
		snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

void sum_close(struct sum *s)
{
	if (s)
		EVP_MD_CTX_free(s->c);
	free(s);
}
