/* sessions/sums.c - checksums of rows, and the hash that a text is stored under (store.h). */
#include "sessions/store.h"

#include <openssl/evp.h>
#include <xxhash.h>

int64_t pair_sum(const void *a, size_t n_a, const void *b, size_t n_b)
{
	return (int64_t)(XXH3_64bits_withSeed(a, n_a, n_b) ^ XXH3_64bits_withSeed(b, n_b, n_a + 1));
}

int text_hash(const void *p, size_t n, uint8_t out[32], struct err *e)
{
	return EVP_Digest(n ? p : "", n, out, NULL, EVP_sha256(), NULL) == 1
	       ? 0 : err_set(e, ERR_FAIL, "cannot compute a checksum: libcrypto refuses SHA-256");
}
