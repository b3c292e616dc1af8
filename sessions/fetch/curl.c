/* sessions/fetch/curl.c - loads libcurl (curl.h). */
#include "sessions/fetch/curl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct curl_lib *curl_load(struct err *e)
{
	static const char *const files[] = { "libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so" };
	static struct curl_lib lib;
	static int loaded;
	/* clang-format off */
	static const struct { void *to; const char *name; } symbol[] = {
		{&lib.global_init, "curl_global_init"}, {&lib.init, "curl_easy_init"}, {&lib.setopt, "curl_easy_setopt"},
		{&lib.perform, "curl_easy_perform"}, {&lib.getinfo, "curl_easy_getinfo"},
		{&lib.cleanup, "curl_easy_cleanup"}, {&lib.strerror, "curl_easy_strerror"},
		{&lib.slist_append, "curl_slist_append"}, {&lib.slist_free, "curl_slist_free_all"},
		{&lib.multi_init, "curl_multi_init"}, {&lib.multi_cleanup, "curl_multi_cleanup"}, {&lib.multi_add, "curl_multi_add_handle"},
		{&lib.multi_remove, "curl_multi_remove_handle"}, {&lib.multi_perform, "curl_multi_perform"},
		{&lib.multi_poll, "curl_multi_poll"}, {&lib.multi_info, "curl_multi_info_read"},
		{&lib.version, "curl_version"},
	};
	/* clang-format on */
	void *so = NULL;

	if (loaded)
		return &lib;
	for (size_t i = 0; i < LEN(files) && !so; i++)
		so = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
	if (!so) {
		err_set(e, ERR_DOCUMENT, "addresses cannot be read: libcurl is not installed");
		return NULL;
	}
	for (size_t i = 0; i < LEN(symbol); i++) {
		void *p = dlsym(so, symbol[i].name);
		if (!p) {
			err_set(e, ERR_DOCUMENT, "addresses cannot be read: libcurl lacks %s", symbol[i].name);
			return NULL;
		}
		memcpy(symbol[i].to, &p, sizeof p);
	}
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
