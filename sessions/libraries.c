/* sessions/libraries.c - versions of the libraries that sessions/ uses. gumbo reports no version. */
#include "sessions/sessions.h"

#include <stdlib.h>
#include <string.h>

#include <archive.h>
#include <libxml/parser.h>
#include <openssl/crypto.h>
#include <sqlite3.h>
#include <utf8proc.h>
#include <xxhash.h>
#include <zlib.h>
#ifdef __linux__
#include <seccomp.h>
#endif

#include "sessions/fetch/curl.h"

void sessions_libraries(struct str *out)
{
	const struct curl_lib *curl;
	const char *xml = xmlParserVersion; /* the version as digits, such as "20914" for 2.9.14 */
	long v = strtol(xml, NULL, 10);
	unsigned xx = XXH_versionNumber();
	struct err e = { 0 };

	str_addf(out, "SQLite %s, %s, libxml2 %ld.%ld.%ld, gumbo, zlib %s, xxHash %u.%u.%u", sqlite3_libversion(),
	         archive_version_string(), v / 10000, v / 100 % 100, v % 100, zlibVersion(), xx / 10000, xx / 100 % 100,
	         xx % 100);
#ifdef __linux__
	str_addf(out, ", libseccomp %u.%u.%u", seccomp_version()->major, seccomp_version()->minor,
	         seccomp_version()->micro);
#endif
	str_addf(out, ", utf8proc %s (Unicode %s)", utf8proc_version(), utf8proc_unicode_version());
	/* these functions return "OpenSSL 3.0.17 1 Jul 2025" and "libcurl/7.88.1 OpenSSL/3.0.17 ..." */
	str_addf(out, ", OpenSSL %.*s", (int)strcspn(OpenSSL_version(OPENSSL_VERSION) + 8, " "),
	         OpenSSL_version(OPENSSL_VERSION) + 8);
	if ((curl = curl_load(&e)))
		str_addf(out, ", libcurl %.*s", (int)strcspn(curl->version() + 8, " "), curl->version() + 8);
	else
		str_adds(out, ", no libcurl: addresses cannot be read");
}
