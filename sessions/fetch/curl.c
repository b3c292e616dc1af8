/* sessions/fetch/curl.c - loads libcurl (curl.h). With WEIR_STATIC libcurl is a part of the program. */
#include "sessions/fetch/curl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The members of struct curl_lib, each with the function of libcurl to which it points. */
/* clang-format off */
#define FUNCTIONS(X) \
	X(global_init, curl_global_init) X(init, curl_easy_init) X(setopt, curl_easy_setopt) X(perform, curl_easy_perform) \
	X(getinfo, curl_easy_getinfo) X(cleanup, curl_easy_cleanup) X(strerror, curl_easy_strerror) \
	X(slist_append, curl_slist_append) X(slist_free, curl_slist_free_all) \
	X(multi_init, curl_multi_init) X(multi_cleanup, curl_multi_cleanup) X(multi_add, curl_multi_add_handle) \
	X(multi_remove, curl_multi_remove_handle) X(multi_perform, curl_multi_perform) X(multi_poll, curl_multi_poll) \
	X(multi_info, curl_multi_info_read) X(version, curl_version)
/* clang-format on */

/* Find the functions of libcurl. Returns 0 or -1. */
#ifdef WEIR_STATIC
static int find_functions(struct curl_lib *lib, struct err *e)
{
#define MEMBER(member, function) .member = function,
	*lib = (struct curl_lib){ FUNCTIONS(MEMBER) };
	return 0;
}
#else
static int find_functions(struct curl_lib *lib, struct err *e)
{
	static const char *const files[] = { "libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so" };
#define ROW(member, function) { &lib->member, #function },
	const struct {
		void *to;
		const char *name;
	} symbol[] = { FUNCTIONS(ROW) };
	void *so = NULL;

	for (size_t i = 0; i < LEN(files) && !so; i++)
		so = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
	if (!so)
		return err_set(e, ERR_DOCUMENT, "addresses cannot be read: libcurl is not installed");
	for (size_t i = 0; i < LEN(symbol); i++) {
		void *p = dlsym(so, symbol[i].name);
		if (!p)
			return err_set(e, ERR_DOCUMENT, "addresses cannot be read: libcurl lacks %s", symbol[i].name);
		memcpy(symbol[i].to, &p, sizeof p);
	}
	return 0;
}
#endif

const struct curl_lib *curl_load(struct err *e)
{
	static struct curl_lib lib;
	static int loaded;

	if (loaded)
		return &lib;
	if (find_functions(&lib, e))
		return NULL;
	if (lib.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		err_set(e, ERR_DOCUMENT, "addresses cannot be read: libcurl does not start");
		return NULL;
	}
	loaded = 1;
	return &lib;
}

void curl_set_certificates(const struct curl_lib *curl, CURL *c)
{
#if LIBCURL_VERSION_NUM >= 0x075400
	static const char *const bundles[] = {
		"/etc/ssl/certs/ca-certificates.crt", /* Debian, Arch, Gentoo, NixOS */
		"/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, Red Hat */
		"/etc/ssl/ca-bundle.pem",             /* openSUSE */
		"/etc/ssl/cert.pem",
	};
	char *file = NULL, *folder = NULL;
#endif
	const char *said = getenv("SSL_CERT_FILE");

	if (said && *said) {
		curl->setopt(c, CURLOPT_CAINFO, said);
		return;
	}
#if LIBCURL_VERSION_NUM >= 0x075400
	if (curl->getinfo(c, CURLINFO_CAINFO, &file) != CURLE_OK || file ||
	    curl->getinfo(c, CURLINFO_CAPATH, &folder) != CURLE_OK || folder)
		return;
	for (size_t i = 0; i < LEN(bundles); i++)
		if (!access(bundles[i], R_OK)) {
			curl->setopt(c, CURLOPT_CAINFO, bundles[i]);
			return;
		}
#endif
}
