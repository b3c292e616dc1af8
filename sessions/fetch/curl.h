/* sessions/fetch/curl.h - private to sessions/: libcurl, loaded when the first address is read.
 *
 * It brings thirty libraries, which would double the time that weir takes to start. */
#ifndef WEIR_CURL_H
#define WEIR_CURL_H

#include "engine/base.h"

#include <curl/curl.h>

/* What is used of it. */
struct curl_lib {
	CURLcode (*global_init)(long);
	CURL *(*init)(void);
	CURLcode (*setopt)(CURL *, CURLoption, ...);
	CURLcode (*perform)(CURL *);
	CURLcode (*getinfo)(CURL *, CURLINFO, ...);
	void (*cleanup)(CURL *);
	const char *(*strerror)(CURLcode);
};
/* NULL: it is not installed, or does not start; ERR_DOCUMENT. */
const struct curl_lib *curl_load(struct err *);

#endif
